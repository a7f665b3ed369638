//! The directory that a tree is received into, and the one that an earlier tree was received into.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    self as sys, AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags,
    ResolveFlags, SeekFrom, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use tempfile::TempDir;
use uuid::Uuid;

use crate::error::{Outcome, TransferError};
use crate::stream::{BaseFile, DATA_BYTES, Inode};

/// Which stream a directory was received from.
const MARK: &str = "user.egeria.received";
/// Paths never leave the directory, and no symbolic link is followed.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
const SEARCHED: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// What is made in a way of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    File,
    Directory,
    Symlink,
    /// Pipes, sockets and devices.
    Other,
}

impl Kind {
    pub(super) fn of(mode: u32) -> Option<Kind> {
        match FileType::from_raw_mode(mode) {
            FileType::RegularFile => Some(Kind::File),
            FileType::Directory => Some(Kind::Directory),
            FileType::Symlink => Some(Kind::Symlink),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice => Some(Kind::Other),
            FileType::Unknown => None,
        }
    }
}

pub(super) fn name_of(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o7777)
}

fn times_of(inode: &Inode) -> Timestamps {
    const SECOND_NS: i64 = 1_000_000_000;
    let of = |ns: i64| Timespec {
        tv_sec: ns.div_euclid(SECOND_NS),
        tv_nsec: ns.rem_euclid(SECOND_NS),
    };
    Timestamps {
        last_access: of(inode.atime_ns),
        last_modification: of(inode.mtime_ns),
    }
}

/// Whether an attribute or owner cannot be had here, which stops nothing.
fn cannot_be_set(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::NOSPC | Errno::RANGE
    )
}

/// 1 for what was left out.
fn left_out(set: Result<(), Errno>) -> Result<u64, Errno> {
    match set {
        Ok(()) => Ok(0),
        Err(errno) if cannot_be_set(errno) => Ok(1),
        Err(errno) => Err(errno),
    }
}

/// A tree that is made next to the place it is to have. It is removed, unless it gets its name.
pub(super) struct Staging {
    directory: TempDir,
    top: OwnedFd,
    /// Whether owners can be set.
    is_root: bool,
}

impl Staging {
    pub(super) fn next_to(directory: &Path) -> Outcome<Staging> {
        let failed = |path: &Path, error: io::Error| TransferError::Place {
            path: path.to_owned(),
            error,
            remedy: "name a directory that can be made",
        };
        match fs::symlink_metadata(directory) {
            Ok(_) => return Err(TransferError::Exists(directory.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(directory, error)),
        }
        let parent = match directory.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let made = tempfile::Builder::new()
            .prefix(".egeria-receive-")
            .tempdir_in(parent);
        let made = made.map_err(|error| failed(parent, error))?;
        let top = sys::open(made.path(), SEARCHED | OFlags::NOFOLLOW, Mode::empty());
        let top = top.map_err(|errno| failed(made.path(), errno.into()))?;
        Ok(Staging {
            directory: made,
            top,
            is_root: rustix::process::geteuid().is_root(),
        })
    }

    fn failed(&self, path: &Path, error: impl Into<io::Error>) -> TransferError {
        let error = error.into();
        let remedy = match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => "free space there",
            Some(libc::EROFS) => "name a directory that can be written",
            _ => "look at the file system there",
        };
        TransferError::Place {
            path: self.directory.path().join(path),
            error,
            remedy,
        }
    }

    /// An open directory of the tree.
    pub(super) fn directory(&self, path: &Path) -> Outcome<OwnedFd> {
        self.open(path, SEARCHED)
    }

    fn open(&self, path: &Path, flags: OFlags) -> Outcome<OwnedFd> {
        let inside = if path == Path::new("") {
            Path::new(".")
        } else {
            path
        };
        let opened = sys::openat2(&self.top, inside, flags, Mode::empty(), BENEATH);
        opened.map_err(|errno| self.failed(path, errno))
    }

    pub(super) fn make_file(&self, parent: &OwnedFd, name: &[u8], path: &Path) -> Outcome<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = sys::openat(parent, name, flags, Mode::RUSR | Mode::WUSR);
        made.map(File::from)
            .map_err(|errno| self.failed(path, errno))
    }

    pub(super) fn make_directory(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        path: &Path,
    ) -> Outcome<OwnedFd> {
        let made = sys::mkdirat(parent, name, Mode::RWXU);
        made.map_err(|errno| self.failed(path, errno))?;
        self.directory(path)
    }

    pub(super) fn make_symlink(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        path: &Path,
        target: &[u8],
    ) -> Outcome<()> {
        let made = sys::symlinkat(target, parent, name);
        made.map_err(|errno| self.failed(path, errno))
    }

    /// A pipe, socket or device. Returns whether it can be made here.
    pub(super) fn make_node(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        path: &Path,
        inode: &Inode,
    ) -> Outcome<bool> {
        let kind = FileType::from_raw_mode(inode.mode);
        let made = sys::mknodat(
            parent,
            name,
            kind,
            Mode::RUSR | Mode::WUSR,
            inode.rdev.into(),
        );
        match left_out(made) {
            Ok(count) => Ok(count == 0),
            Err(errno) => Err(self.failed(path, errno)),
        }
    }

    pub(super) fn link(
        &self,
        existing: &Path,
        parent: &OwnedFd,
        name: &[u8],
        path: &Path,
    ) -> Outcome<()> {
        let (directory, file) = (existing.parent(), existing.file_name());
        let directory = self.directory(directory.unwrap_or(Path::new("")))?;
        let file = file.ok_or(TransferError::Damaged("a link leads to nothing"))?;
        let made = sys::linkat(&directory, file, parent, name, AtFlags::empty());
        made.map_err(|errno| self.failed(path, errno))
    }

    pub(super) fn write(&self, file: &File, path: &Path, at: u64, bytes: &[u8]) -> Outcome<()> {
        let written = file.write_all_at(bytes, at);
        written.map_err(|error| self.failed(path, error))
    }

    /// Have zeros where the file may have data.
    pub(super) fn write_zeros(
        &self,
        file: &File,
        path: &Path,
        at: u64,
        length_bytes: u64,
    ) -> Outcome<()> {
        let failed = |error: io::Error| self.failed(path, error);
        let end = at + length_bytes;
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match sys::fallocate(file, punch, at, length_bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        // Behind its end there are zeros.
        let end = end.min(file.metadata().map_err(failed)?.len());
        let zeros = vec![0; DATA_BYTES];
        let mut here = at;
        while here < end {
            let length = (end - here).min(DATA_BYTES as u64);
            let written = file.write_all_at(&zeros[..length as usize], here);
            written.map_err(failed)?;
            here += length;
        }
        Ok(())
    }

    /// Set extended attributes; returns how many cannot be set here.
    pub(super) fn set_xattrs(&self, fd: impl AsFd, inode: &Inode) -> Outcome<u64> {
        let mut count = 0;
        for (name, value) in &inode.xattrs {
            if name == MARK.as_bytes() {
                continue;
            }
            let set = sys::fsetxattr(&fd, &name[..], value, XattrFlags::empty());
            count += left_out(set).map_err(|errno| self.failed(Path::new(""), errno))?;
        }
        Ok(count)
    }

    /// The size, then what a change of the size would change again.
    pub(super) fn finish_file(&self, file: &File, path: &Path, inode: &Inode) -> Outcome<u64> {
        let sized = file.set_len(inode.size_bytes);
        sized.map_err(|error| self.failed(path, error))?;
        self.finish_open(file, path, inode)
    }

    pub(super) fn finish_directory(&self, path: &Path, inode: &Inode) -> Outcome<u64> {
        let directory = self.directory(path)?;
        self.finish_open(&directory, path, inode)
    }

    fn finish_open(&self, fd: impl AsFd, path: &Path, inode: &Inode) -> Outcome<u64> {
        let mut count = 0;
        if self.is_root {
            let (uid, gid) = owner_of(inode);
            count +=
                left_out(sys::fchown(&fd, uid, gid)).map_err(|errno| self.failed(path, errno))?;
        }
        // After the owner, a change of which takes privileges away.
        let set = sys::fchmod(&fd, permissions(inode.mode))
            .and_then(|()| sys::futimens(&fd, &times_of(inode)));
        set.map_err(|errno| self.failed(path, errno))?;
        Ok(count)
    }

    /// As for files, of what is not opened: symbolic links, pipes, sockets, devices.
    pub(super) fn finish_node(&self, path: &Path, inode: &Inode) -> Outcome<u64> {
        let directory = self.directory(path.parent().unwrap_or(Path::new("")))?;
        let name = path.file_name().unwrap_or_default();
        let mut count = 0;
        let none = AtFlags::SYMLINK_NOFOLLOW;
        if self.is_root {
            let (uid, gid) = owner_of(inode);
            count += left_out(sys::chownat(&directory, name, uid, gid, none))
                .map_err(|errno| self.failed(path, errno))?;
        }
        if Kind::of(inode.mode) == Some(Kind::Other) {
            let set = sys::chmodat(&directory, name, permissions(inode.mode), AtFlags::empty());
            set.map_err(|errno| self.failed(path, errno))?;
        }
        let set = sys::utimensat(&directory, name, &times_of(inode), none);
        set.map_err(|errno| self.failed(path, errno))?;
        Ok(count)
    }

    /// Note which stream it comes from. Returns whether that can be noted here.
    pub(super) fn mark(&self, id: Uuid) -> bool {
        let value = id.to_string();
        sys::fsetxattr(&self.top, MARK, value.as_bytes(), XattrFlags::empty()).is_ok()
    }

    /// Make all of it durable, and give it its name.
    pub(super) fn publish(self, directory: &Path) -> Outcome<()> {
        sys::syncfs(&self.top).map_err(|errno| self.failed(Path::new(""), errno))?;
        let from = self.directory.path();
        let renamed = match sys::renameat_with(CWD, from, CWD, directory, RenameFlags::NOREPLACE) {
            // Not every file system has the flag. A directory that is not empty is not replaced without it either.
            Err(Errno::INVAL | Errno::NOSYS) => sys::renameat(CWD, from, CWD, directory),
            renamed => renamed,
        };
        match renamed {
            Ok(()) => {}
            Err(Errno::EXIST | Errno::NOTEMPTY) => {
                return Err(TransferError::Exists(directory.to_owned()));
            }
            Err(errno) => return Err(self.failed(Path::new(""), errno)),
        }
        // It has another name now.
        let _ = self.directory.keep();
        Ok(())
    }
}

fn owner_of(inode: &Inode) -> (Option<Uid>, Option<Gid>) {
    (
        Some(Uid::from_raw(inode.uid)),
        Some(Gid::from_raw(inode.gid)),
    )
}

/// A directory that an earlier stream was received into.
pub(super) struct Base {
    path: PathBuf,
    top: OwnedFd,
}

impl Base {
    /// Open it, if it was received from this stream.
    pub(super) fn open(path: &Path, id: Uuid) -> Outcome<Base> {
        let opened = sys::open(path, SEARCHED, Mode::empty());
        let top = opened.map_err(|errno| TransferError::Place {
            path: path.to_owned(),
            error: errno.into(),
            remedy: "name the directory that the stream before was received into",
        })?;
        let mut mark = [0; 64];
        let length = sys::fgetxattr(&top, MARK, &mut mark[..]).unwrap_or(0);
        if mark[..length] != *id.to_string().as_bytes() {
            return Err(TransferError::OtherBase {
                base: path.to_owned(),
                wanted: id,
            });
        }
        Ok(Base {
            path: path.to_owned(),
            top,
        })
    }

    /// Copy the data of a file; returns its bytes.
    pub(super) fn copy(&self, file: &BaseFile, to: &File) -> Outcome<u64> {
        let path = &file.path[..];
        let shown = self.path.join(name_of(path));
        let changed = || TransferError::BaseChanged(shown.clone());
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let from = sys::openat2(&self.top, path, flags, Mode::empty(), BENEATH);
        let from = File::from(from.map_err(|_| changed())?);
        let facts = from.metadata().map_err(|_| changed())?;
        let mtime_ns = i128::from(facts.mtime()) * 1_000_000_000 + i128::from(facts.mtime_nsec());
        let is_same = facts.is_file()
            && facts.len() == file.size_bytes
            && mtime_ns == i128::from(file.mtime_ns);
        if !is_same {
            return Err(changed());
        }
        copy_data(&from, to).map_err(|error| TransferError::Place {
            path: shown.clone(),
            error,
            remedy: "look at the file systems of both directories, and free space",
        })
    }
}

/// Copy all that has data; holes stay holes.
fn copy_data(from: &File, to: &File) -> io::Result<u64> {
    let mut buffer = vec![0; DATA_BYTES];
    let (mut at, mut copied) = (0, 0);
    loop {
        let start = match sys::seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(copied),
            Err(errno) => return Err(errno.into()),
        };
        let end = sys::seek(from, SeekFrom::Hole(start))?;
        let mut here = start;
        while here < end {
            let length = (end - here).min(DATA_BYTES as u64) as usize;
            let read = from.read_at(&mut buffer[..length], here)?;
            if read == 0 {
                return Ok(copied);
            }
            to.write_all_at(&buffer[..read], here)?;
            here += read as u64;
            copied += read as u64;
        }
        at = end;
    }
}
