//! FUSE requests, each handed to its family and answered.
//!
//! Requests that are missing here are answered `ENOSYS`, after which the kernel sends no more
//! of them: FLUSH and FSYNC (what returned is durable; the kernel still writes its own dirty
//! pages back), ACCESS (the kernel checks), locks (the kernel keeps them), BMAP, POLL.

use crate::coherence::{Coherence, Range};
use crate::control::Identity;
use crate::convert::{self, Entry, NO_TIME, errno, inode};
use crate::data::{Copy, REQUEST_BYTES, WriteManner};
use crate::known::KnownInodes;
use crate::names::new_inode;
use crate::open::OpenFiles;
use crate::xattr;
use egeria_fs::control::{CONTROL_REQUEST, ControlReply, MARK_REQUEST};
use egeria_fs::{AttributeChange, Outcome, Volume};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// What is asked of the kernel, as far as it can.
const CAPABILITIES: [InitFlags; 8] = [
    // One request for open with O_TRUNC.
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    // The control call on directories.
    InitFlags::FUSE_HAS_IOCTL_DIR,
    // Pages go when `stat` shows another time or size.
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    // Who clears set-user-id bits: we do (module `privilege`).
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // Shared mappings of files that are read and written directly.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // `name_to_handle_at` is refused: a handle could not be opened once the kernel forgot.
    InitFlags::FUSE_NO_EXPORT_SUPPORT,
];

/// Every file is read and written directly, several at a time: the engine has its own locks.
const OPEN_FLAGS: FopenFlags =
    FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

/// The engine as fuser wants it.
pub(crate) struct Adapter {
    pub volume: Arc<Volume>,
    pub coherence: Arc<Coherence>,
    pub identity: Identity,
    pub known: KnownInodes,
    pub files: OpenFiles,
}

impl Adapter {
    pub(crate) fn new(volume: Arc<Volume>, coherence: Arc<Coherence>, read_only: bool) -> Self {
        let identity = Identity::new(&volume, read_only);
        let (known, files) = (KnownInodes::new(&volume), OpenFiles::default());
        Adapter {
            volume,
            coherence,
            identity,
            known,
            files,
        }
    }

    /// Serve one request. A panic inside drops the reply unsent, which fuser answers with `EIO`.
    fn serve(&self, body: impl FnOnce()) {
        self.volume.count_mount_request();
        let _ = catch_unwind(AssertUnwindSafe(body));
    }
}

fn answer_empty(reply: ReplyEmpty, outcome: Outcome<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn answer_entry(reply: ReplyEntry, outcome: Outcome<Entry>) {
    match outcome {
        Ok(entry) => reply.entry(&NO_TIME, &entry.attributes, entry.generation),
        Err(error) => reply.error(errno(error)),
    }
}

fn answer_attributes(reply: ReplyAttr, outcome: Outcome<fuser::FileAttr>) {
    match outcome {
        Ok(attributes) => reply.attr(&NO_TIME, &attributes),
        Err(error) => reply.error(errno(error)),
    }
}

fn answer_open(reply: ReplyOpen, outcome: Outcome<u64>, flags: FopenFlags) {
    match outcome {
        Ok(handle) => reply.opened(FileHandle(handle), flags),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for capability in CAPABILITIES {
            // An older kernel does without.
            let _ = config.add_capabilities(capability);
        }
        let _ = config.set_max_write(REQUEST_BYTES as u32);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn destroy(&mut self) {
        self.release_all();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.serve(|| answer_entry(reply, self.look_up(inode(parent), name)));
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        self.known.forget(&self.volume, inode(ino), times);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.serve(|| answer_attributes(reply, self.attributes(inode(ino))));
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
        self.serve(|| {
            let change = AttributeChange {
                permissions: mode.map(|mode| mode & 0o7777),
                uid,
                gid,
                size_bytes,
                atime: atime.map(convert::time_change),
                mtime: mtime.map(convert::time_change),
            };
            answer_attributes(reply, self.change_attributes(request, inode(ino), &change));
        });
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        self.serve(|| match self.symlink_target(inode(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        });
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
        self.serve(|| {
            let new = new_inode(request, mode, umask, rdev);
            answer_entry(reply, self.make(inode(parent), name, &new));
        });
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
        self.serve(|| {
            let mode = libc::S_IFDIR | (mode & 0o7777);
            let new = new_inode(request, mode, umask, 0);
            answer_entry(reply, self.make(inode(parent), name, &new));
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(|| answer_empty(reply, self.remove_name(inode(parent), name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(|| answer_empty(reply, self.remove_directory(inode(parent), name)));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.serve(|| {
            answer_entry(
                reply,
                self.make_symlink(request, inode(parent), name, target),
            );
        });
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.serve(|| {
            let (from, to) = ((inode(parent), name), (inode(new_parent), new_name));
            answer_empty(reply, self.move_name(from, to, flags));
        });
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.serve(|| answer_entry(reply, self.make_link(inode(ino), inode(parent), name)));
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.serve(|| {
            answer_open(
                reply,
                self.open_file(request, inode(ino), flags.0),
                OPEN_FLAGS,
            );
        });
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
        self.serve(|| {
            let new = new_inode(request, libc::S_IFREG | (mode & 0o7777), umask, 0);
            match self.create_file(inode(parent), name, &new, flags) {
                Err(error) => reply.error(errno(error)),
                Ok((entry, handle)) => {
                    let handle = FileHandle(handle);
                    let Entry {
                        attributes,
                        generation,
                    } = entry;
                    reply.created(&NO_TIME, &attributes, generation, handle, OPEN_FLAGS);
                }
            }
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset_bytes: u64,
        size_bytes: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let for_pages = owner.is_none();
        self.serve(|| {
            self.read(
                handle.0,
                offset_bytes,
                size_bytes,
                for_pages,
                |outcome| match outcome {
                    Ok(data) => reply.data(data),
                    Err(error) => reply.error(errno(error)),
                },
            );
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset_bytes: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let manner = WriteManner {
            write_flags,
            open_flags: flags.0,
            direct: owner.is_some(),
        };
        self.serve(|| self.write(handle.0, offset_bytes, data, manner, reply));
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
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.serve(|| {
            Adapter::release(self, handle.0);
            reply.ok();
        });
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.serve(|| answer_open(reply, self.open_directory(inode(ino)), FopenFlags::empty()));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectory,
    ) {
        self.serve(|| match self.list(handle.0, cookie, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.serve(|| {
            Adapter::release(self, handle.0);
            reply.ok();
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.serve(|| {
            let space = self.volume.space(None);
            let (free, files) = (space.free_blocks, space.inodes);
            reply.statfs(
                space.blocks,
                free,
                free,
                files,
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
        self.serve(|| answer_empty(reply, self.set_xattr(inode(ino), name, value, flags)));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.serve(|| xattr::answer(reply, self.xattr(inode(ino), name), size));
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.serve(|| xattr::answer(reply, self.xattr_names(request, inode(ino)), size));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(|| answer_empty(reply, self.remove_xattr(inode(ino), name)));
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: IoctlFlags,
        command: u32,
        _: &[u8],
        room_bytes: u32,
        reply: ReplyIoctl,
    ) {
        self.serve(|| {
            if command == MARK_REQUEST {
                return match self.mark(handle.0) {
                    Ok(()) => reply.ioctl(0, &[]),
                    Err(error) => reply.error(errno(error)),
                };
            }
            if command != CONTROL_REQUEST || (room_bytes as usize) < size_of::<ControlReply>() {
                return reply.error(fuser::Errno::ENOTTY);
            }
            match self.identify(handle.0) {
                Ok(identity) => reply.ioctl(0, identity.as_bytes()),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
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
        self.serve(|| self.allocate(request, handle.0, range, mode, reply));
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.serve(|| match self.seek(handle.0, offset, whence) {
            Ok(found) => reply.offset(found),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
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
        self.serve(|| self.copy(request, &copy, reply));
    }
}
