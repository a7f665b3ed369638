//! The requests, each passed on.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{self, AtFlags, Dir, Mode, OFlags, Timestamps};
use rustix::io::Errno;

use crate::answers::{
    Answer, GENERATION, KEPT, answer_attributes, answer_empty, answer_entry, answer_opened,
};
use crate::convert::{attributes, errno, kind, time};
use crate::handles::Handles;
use crate::nodes::{Nodes, Place, ROOT};

/// What libfuse asks for, where the kernel has it.
const CAPABILITIES: [InitFlags; 5] = [
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
];

/// A directory, seen through FUSE.
pub struct Loopback {
    nodes: Nodes,
    files: Handles<File>,
    lists: Handles<Mutex<List>>,
}

/// An open directory, and the entry that did not fit into the last reply.
struct List {
    entries: Dir,
    next: u64,
}

impl Loopback {
    /// Of this directory.
    pub fn of(source: &Path) -> io::Result<Loopback> {
        Ok(Loopback {
            nodes: Nodes::of(source)?,
            files: Handles::default(),
            lists: Handles::default(),
        })
    }

    fn entry(&self, parent: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        Ok(attributes(&self.nodes.look_up(parent.0, name)?))
    }

    /// The entry of a name that was made, if it was.
    fn made(
        &self,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&Place) -> Answer<()>,
    ) -> Answer<FileAttr> {
        make(&self.nodes.below(parent.0, name)?)?;
        self.entry(parent, name)
    }

    fn facts(&self, ino: INodeNo, handle: Option<FileHandle>) -> Answer<FileAttr> {
        let facts = match handle.and_then(|handle| self.files.get(handle).ok()) {
            Some(file) => fs::fstat(&*file)?,
            None => {
                let place = self.nodes.place(ino.0)?;
                fs::statat(&place.parent, &place.name, AtFlags::SYMLINK_NOFOLLOW)?
            }
        };
        Ok(FileAttr {
            ino,
            ..attributes(&facts)
        })
    }

    fn change(
        &self,
        ino: INodeNo,
        handle: Option<FileHandle>,
        change: &Change,
    ) -> Answer<FileAttr> {
        let place = self.nodes.place(ino.0)?;
        let (parent, name) = (&place.parent, &place.name);
        if let Some(mode) = change.mode {
            fs::chmodat(parent, name, permissions(mode), AtFlags::empty())?;
        }
        if change.uid.is_some() || change.gid.is_some() {
            let uid = change.uid.map(fs::Uid::from_raw);
            let gid = change.gid.map(fs::Gid::from_raw);
            fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if let Some(bytes) = change.size {
            match handle.and_then(|handle| self.files.get(handle).ok()) {
                Some(file) => fs::ftruncate(&*file, bytes)?,
                None => {
                    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    fs::ftruncate(fs::openat(parent, name, flags, Mode::empty())?, bytes)?;
                }
            }
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times = Timestamps {
                last_access: time(change.atime),
                last_modification: time(change.mtime),
            };
            fs::utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        self.facts(ino, handle)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> Answer<()> {
        let place = self.nodes.below(parent.0, name)?;
        let ino = self.nodes.named(&place);
        fs::unlinkat(&place.parent, name, flags)?;
        if let Some(ino) = ino {
            self.nodes.unnamed(ino, parent.0, name);
        }
        Ok(())
    }

    fn move_name(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Answer<()> {
        let from = self.nodes.below(parent.0, name)?;
        let to = self.nodes.below(new_parent.0, new_name)?;
        let moved = self.nodes.named(&from);
        let replaced = self.nodes.named(&to);
        let exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        let flags = fs::RenameFlags::from_bits_retain(flags.bits());
        fs::renameat_with(&from.parent, name, &to.parent, new_name, flags)?;
        if let Some(ino) = replaced {
            self.nodes.unnamed(ino, new_parent.0, new_name);
            if exchange {
                self.nodes.renamed(ino, parent.0, name);
            }
        }
        if let Some(ino) = moved {
            self.nodes.unnamed(ino, parent.0, name);
            self.nodes.renamed(ino, new_parent.0, new_name);
        }
        Ok(())
    }

    /// Gives entries to `add` from `offset` on, until it has enough.
    fn entries(
        &self,
        handle: FileHandle,
        offset: u64,
        mut add: impl FnMut(&OsStr, &fs::DirEntry) -> Answer<bool>,
    ) -> Answer<()> {
        let list = self.lists.get(handle)?;
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.next != offset {
            list.entries.seek(offset as i64)?;
        }
        list.next = offset;
        while let Some(entry) = list.entries.read() {
            let entry = entry?;
            if add(OsStr::from_bytes(entry.file_name().to_bytes()), &entry)? {
                // It must be read again: the place in the list is no longer the one noted.
                list.next = u64::MAX;
                break;
            }
            list.next = entry.offset() as u64;
        }
        Ok(())
    }

    fn open_list(&self, ino: INodeNo) -> Answer<FileHandle> {
        let place = self.nodes.place(ino.0)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = Dir::new(fs::openat(
            &place.parent,
            &place.name,
            flags,
            Mode::empty(),
        )?)?;
        Ok(self.lists.keep(Mutex::new(List { entries, next: 0 })))
    }

    fn open_at(&self, place: &Place, flags: i32, mode: u32) -> Answer<FileHandle> {
        let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
        let flags = flags.difference(OFlags::NOFOLLOW);
        let mode = permissions(mode);
        let file = fs::openat(&place.parent, &place.name, flags, mode)?;
        Ok(self.files.keep(File::from(file)))
    }
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o7777)
}

/// What a request changes of an inode.
struct Change {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    atime: Option<TimeOrNow>,
    mtime: Option<TimeOrNow>,
}

impl Filesystem for Loopback {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for capability in CAPABILITIES {
            // An older kernel does without.
            let _ = config.add_capabilities(capability);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.entry(parent, name));
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        self.nodes.forget(ino.0, times);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        answer_attributes(reply, self.facts(ino, handle));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        };
        answer_attributes(reply, self.change(ino, handle, &change));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self
            .nodes
            .place(ino.0)
            .and_then(|place| fs::readlinkat(&place.parent, &place.name, Vec::new()));
        match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let made = self.made(parent, name, |place| {
            let kind = fs::FileType::from_raw_mode(mode);
            fs::mknodat(&place.parent, name, kind, permissions(mode), rdev.into())
        });
        answer_entry(reply, made);
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.made(parent, name, |place| {
            fs::mkdirat(&place.parent, name, permissions(mode))
        });
        answer_entry(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.remove(parent, name, AtFlags::empty()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.remove(parent, name, AtFlags::REMOVEDIR));
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let made = self.made(parent, name, |place| {
            fs::symlinkat(target, &place.parent, name)
        });
        answer_entry(reply, made);
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
        answer_empty(
            reply,
            self.move_name((parent, name), (new_parent, new_name), flags),
        );
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = self.made(parent, name, |to| {
            let from = self.nodes.place(ino.0)?;
            fs::linkat(&from.parent, &from.name, &to.parent, name, AtFlags::empty())
        });
        answer_entry(reply, made);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self
            .nodes
            .place(ino.0)
            .and_then(|place| self.open_at(&place, flags.0, 0));
        answer_opened(reply, opened);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut buffer = vec![0; bytes as usize];
        let read = self
            .files
            .get(handle)
            .map_err(io::Error::from)
            .and_then(|file| file.read_at(&mut buffer, offset));
        match read {
            Ok(bytes) => reply.data(&buffer[..bytes]),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self
            .files
            .get(handle)
            .map_err(io::Error::from)
            .and_then(|file| file.write_at(data, offset));
        match written {
            Ok(bytes) => reply.written(bytes as u32),
            Err(error) => reply.error(error.into()),
        }
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
        self.files.close(handle);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        answer_opened(reply, self.open_list(ino));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.entries(handle, offset, |name, entry| {
            let kind = kind(entry.file_type());
            Ok(reply.add(INodeNo(entry.ino()), entry.offset() as u64, kind, name))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        directory: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.entries(handle, offset, |name, entry| {
            let is_itself = name == "." || name == "..";
            let facts = if is_itself {
                self.facts(directory, None)?
            } else {
                match self.entry(directory, name) {
                    Ok(facts) => facts,
                    // Removed since it was listed.
                    Err(Errno::NOENT) => return Ok(false),
                    Err(error) => return Err(error),
                }
            };
            let place = entry.offset() as u64;
            let is_full = reply.add(facts.ino, place, name, &KEPT, &facts, GENERATION);
            if is_full && !is_itself {
                self.nodes.forget(facts.ino.0, 1);
            }
            Ok(is_full)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.lists.close(handle);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let space = self
            .nodes
            .place(ROOT)
            .and_then(|place| fs::fstatvfs(&place.parent));
        match space {
            Ok(space) => reply.statfs(
                space.f_blocks,
                space.f_bfree,
                space.f_bavail,
                space.f_files,
                space.f_ffree,
                space.f_bsize as u32,
                space.f_namemax as u32,
                space.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = self.nodes.below(parent.0, name).and_then(|place| {
            let flags = flags | OFlags::CREATE.bits() as i32;
            let handle = self.open_at(&place, flags, mode)?;
            Ok((handle, self.entry(parent, name)?))
        });
        match created {
            Ok((handle, facts)) => {
                reply.created(&KEPT, &facts, GENERATION, handle, FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
        }
    }
}
