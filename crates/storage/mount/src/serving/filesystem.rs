//! FUSE requests, each handed to its family and answered.
//!
//! Requests that are missing here are answered `ENOSYS`, after which the kernel sends no more
//! of them: FLUSH and FSYNC (what returned is durable; the kernel still writes its own dirty
//! pages back), ACCESS (the kernel checks), locks (the kernel keeps them), BMAP, POLL.

use crate::kernel::negotiation;
use crate::leases::Asker;
use crate::operations::control::ControlCall;
use crate::operations::data::{Copy, WriteManner, Written};
use crate::operations::names::new_inode;
use crate::operations::xattr;
use crate::replies::convert::{self, errno, inode};
use crate::replies::failures::Operation;
use crate::replies::request_counts::RequestKind;
use crate::serving::{requests::*, waiting};
use crate::state::adapter::Adapter;
use crate::state::coherence::Range;
use crate::state::privilege::Caller;
use egeria_engine::{AttributeChange, Outcome};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::SystemTime;

impl Filesystem for Requests {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiation::request(config);
        Ok(())
    }

    fn destroy(&mut self) {
        self.0.release_all();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (name, asker) = (name.to_owned(), Asker(request.pid()));
        self.serve_or_wait(
            Operation::of(RequestKind::Lookup, parent),
            move |adapter| adapter.look_up(inode(parent), &name, asker),
            |_, outcome| answer_look_up(reply, outcome),
        );
    }

    fn forget(&self, request: &Request, ino: INodeNo, times: u64) {
        self.serve_forget(request, ino, times);
    }

    fn getattr(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let asker = Asker(request.pid());
        // With a handle the kernel itself wants the size, which stores do not change.
        let stored_to = handle.is_none().then_some(inode(ino));
        self.serve_after_stores(
            Operation::of(RequestKind::Getattr, ino),
            stored_to,
            move |adapter| adapter.attributes(inode(ino), asker),
            |_, outcome| answer_shown(reply, outcome),
        );
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size_bytes: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = AttributeChange {
            clears: 0,
            permissions: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size_bytes,
            atime: atime.map(convert::time_change),
            mtime: mtime.map(convert::time_change),
        };
        let caller = Caller::of(request);
        self.serve_or_wait(
            Operation::of(RequestKind::Setattr, ino),
            move |adapter| adapter.change_attributes(caller, inode(ino), &change),
            |_, outcome| answer_attributes(reply, outcome),
        );
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        self.serve_or_wait(
            Operation::of(RequestKind::Readlink, ino),
            move |adapter| adapter.symlink_target(inode(ino)),
            |_, outcome| answer_data(reply, outcome),
        );
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let new = new_inode(Caller::of(request), mode, umask, rdev);
        let (name, asker) = (name.to_owned(), Asker(request.pid()));
        self.serve_writer(
            request,
            Operation::of(RequestKind::Mknod, parent),
            move |adapter| adapter.make(inode(parent), &name, &new, asker),
            |_, outcome| answer_entry(reply, outcome),
        );
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let mode = libc::S_IFDIR | (mode & 0o7777);
        let new = new_inode(Caller::of(request), mode, umask, 0);
        let (name, asker) = (name.to_owned(), Asker(request.pid()));
        self.serve_writer(
            request,
            Operation::of(RequestKind::Mkdir, parent),
            move |adapter| adapter.make(inode(parent), &name, &new, asker),
            |_, outcome| answer_entry(reply, outcome),
        );
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (name, asker) = (name.to_owned(), Asker(request.pid()));
        self.serve_or_wait(
            Operation::of(RequestKind::Unlink, parent),
            move |adapter| adapter.remove_name(inode(parent), &name, asker),
            |_, outcome| answer_empty(reply, outcome),
        );
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (name, asker) = (name.to_owned(), Asker(request.pid()));
        self.serve_or_wait(
            Operation::of(RequestKind::Rmdir, parent),
            move |adapter| adapter.remove_directory(inode(parent), &name, asker),
            |_, outcome| answer_empty(reply, outcome),
        );
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (name, target) = (name.to_owned(), target.to_owned());
        let caller = Caller::of(request);
        self.serve_writer(
            request,
            Operation::of(RequestKind::Symlink, parent),
            move |adapter| adapter.make_symlink(caller, inode(parent), &name, &target),
            |_, outcome| answer_entry(reply, outcome),
        );
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        let asker = Asker(request.pid());
        self.serve_or_wait(
            Operation::of(RequestKind::Rename, parent),
            move |adapter| {
                let from = (inode(parent), name.as_os_str());
                let to = (inode(new_parent), new_name.as_os_str());
                adapter.move_name(from, to, flags, asker)
            },
            |_, outcome| answer_empty(reply, outcome),
        );
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_owned();
        self.serve_or_wait(
            Operation::of(RequestKind::Link, ino),
            move |adapter| adapter.make_link(inode(ino), inode(parent), &name),
            |_, outcome| answer_entry(reply, outcome),
        );
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let asker = Asker(request.pid());
        self.serve_or_wait(
            Operation::of(RequestKind::Open, ino),
            move |adapter| adapter.open_file(inode(ino), flags.0, asker),
            |_, outcome| answer_open(reply, outcome),
        );
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let new = new_inode(
            Caller::of(request),
            libc::S_IFREG | (mode & 0o7777),
            umask,
            0,
        );
        let (name, opening) = (name.to_owned(), (flags, Asker(request.pid())));
        self.serve_writer(
            request,
            Operation::of(RequestKind::Create, parent),
            move |adapter| adapter.create_file(inode(parent), &name, &new, opening),
            |_, outcome| answer_created(reply, outcome),
        );
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset_bytes: u64,
        size_bytes: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let for_pages = owner.is_none();
        // The reply goes with the data while that is in the thread's buffer, or with the error.
        let reply = Cell::new(Some(reply));
        let send = |data: &[u8]| {
            if let Some(reply) = reply.take() {
                reply.data(data);
            }
        };
        let caller = request.pid();
        let operation = Operation::of(RequestKind::Read, ino).at(offset_bytes, size_bytes.into());
        self.serve(operation, |adapter| {
            let read = || {
                let read = || adapter.read(handle.0, offset_bytes, size_bytes, for_pages, send);
                adapter.volume.for_caller(caller, read)
            };
            match (waiting::soon(read), reply.take()) {
                (Some(Err(error)), Some(reply)) => reply.error(errno(error)),
                (None, Some(reply)) => waiting::elsewhere(
                    &self.0,
                    operation,
                    move |adapter| {
                        let copy = |data: &[u8]| data.to_vec();
                        let read =
                            || adapter.read(handle.0, offset_bytes, size_bytes, for_pages, copy);
                        adapter.volume.for_caller(caller, read)
                    },
                    |_, outcome| answer_data(reply, outcome),
                ),
                _ => {}
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset_bytes: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let manner = WriteManner {
            caller: Caller::of(request),
            write_flags,
            open_flags: flags.0,
            direct: owner.is_some(),
        };
        let operation = Operation::of(RequestKind::Write, ino).at(offset_bytes, data.len() as u64);
        let answer = move |adapter: &Adapter, outcome: Outcome<Written>| match outcome {
            Err(error) => {
                if write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
                    adapter.note_lost_stores(operation, inode(ino), error);
                }
                reply.error(errno(error));
            }
            Ok(written) => adapter.answer_written(reply, written, manner.direct),
        };
        let caller = request.pid();
        self.serve(operation, |adapter| {
            let write = || adapter.write(handle.0, offset_bytes, data, manner);
            match waiting::soon(|| adapter.write_for(caller, write)) {
                Some(outcome) => answer(adapter, outcome),
                None => {
                    let data = data.to_vec();
                    let write = move |adapter: &Adapter| {
                        let write = || adapter.write(handle.0, offset_bytes, &data, manner);
                        adapter.write_for(caller, write)
                    };
                    waiting::elsewhere(&self.0, operation, write, answer);
                }
            }
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        // What would have to wait is left to later.
        self.serve(Operation::of(RequestKind::Release, ino), |adapter| {
            let _ = waiting::soon(|| {
                adapter.release(handle.0);
                Ok(())
            });
            reply.ok();
        });
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.serve_or_wait(
            Operation::of(RequestKind::Opendir, ino),
            move |adapter| adapter.open_directory(inode(ino)),
            |_, outcome| answer_open(reply, outcome),
        );
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectory,
    ) {
        self.serve(
            Operation::of(RequestKind::Readdir, ino),
            |adapter| match adapter.list(handle.0, cookie, &mut reply) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn releasedir(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        // What would have to wait is left to later.
        self.serve(Operation::of(RequestKind::Releasedir, ino), |adapter| {
            let _ = waiting::soon(|| {
                adapter.release_directory(handle.0);
                Ok(())
            });
            reply.ok();
        });
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        self.serve(Operation::of(RequestKind::Statfs, ino), |adapter| {
            let space = adapter.volume.space_at(inode(ino));
            reply.statfs(
                space.blocks,
                space.free_blocks,
                space.available_blocks,
                space.inodes,
                space.free_inodes,
                4096,
                255,
                4096,
            );
        });
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.serve_or_wait(
            Operation::of(RequestKind::Setxattr, ino),
            move |adapter| adapter.set_xattr(inode(ino), &name, &value, flags),
            |_, outcome| answer_empty(reply, outcome),
        );
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.to_owned();
        self.serve_or_wait(
            Operation::of(RequestKind::Getxattr, ino),
            move |adapter| adapter.xattr(inode(ino), &name),
            move |_, outcome| xattr::answer(reply, outcome, size),
        );
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let caller = Caller::of(request);
        self.serve_or_wait(
            Operation::of(RequestKind::Listxattr, ino),
            move |adapter| adapter.xattr_names(caller, inode(ino)),
            move |_, outcome| xattr::answer(reply, outcome, size),
        );
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve_or_wait(
            Operation::of(RequestKind::Removexattr, ino),
            move |adapter| adapter.remove_xattr(inode(ino), &name),
            |_, outcome| answer_empty(reply, outcome),
        );
    }

    fn ioctl(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: IoctlFlags,
        command: u32,
        data: &[u8],
        room_bytes: u32,
        reply: ReplyIoctl,
    ) {
        let call = ControlCall {
            caller: Caller::of(request),
            command,
            data: data.to_vec(),
            room_bytes: room_bytes as usize,
        };
        self.serve_or_wait(
            Operation::of(RequestKind::Ioctl, ino),
            move |adapter| adapter.control(handle.0, &call),
            |_, outcome| match outcome {
                Ok(answer) => reply.ioctl(0, &answer),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset_bytes: u64,
        length_bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let range = Range {
            offset_bytes,
            length_bytes,
        };
        let caller = Caller::of(request);
        self.serve_writer(
            request,
            Operation::of(RequestKind::Fallocate, ino).at(offset_bytes, length_bytes),
            move |adapter| adapter.allocate(caller, handle.0, range, mode),
            |adapter, outcome| match outcome {
                Err(error) => reply.error(errno(error)),
                Ok(changed) => adapter.after_invalidation(Some(changed), move || reply.ok()),
            },
        );
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.serve_after_stores(
            Operation::of(RequestKind::Lseek, ino),
            Some(inode(ino)),
            move |adapter| adapter.seek(handle.0, offset, whence),
            |_, outcome| match outcome {
                Ok(found) => reply.offset(found),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn copy_file_range(
        &self,
        request: &Request,
        ino: INodeNo,
        from: FileHandle,
        from_offset_bytes: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset_bytes: u64,
        length_bytes: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = (from.0, to.0);
        let copy = Copy {
            from,
            from_offset_bytes,
            to,
            to_offset_bytes,
            length_bytes,
        };
        let caller = Caller::of(request);
        self.serve_writer(
            request,
            Operation::of(RequestKind::CopyFileRange, ino).at(from_offset_bytes, length_bytes),
            move |adapter| adapter.copy(caller, &copy),
            |adapter, outcome| match outcome {
                Err(error) => reply.error(errno(error)),
                Ok(Written { bytes, changed }) => {
                    adapter.after_invalidation(changed, move || reply.written(bytes as u32));
                }
            },
        );
    }
}
