//! A volume: names and what is known of them.

use crate::error::{Error, Result, words};
use crate::file::{File, OpenOptions};
use crate::lineage::{self, Process};
use crate::path::{Place, walk};
use egeria_fs::{
    AttachMode, AttachOptions, Attributes, Errno, ExtentReport, FileKind, FileReference,
    InodeNumber, NewInode, Outcome, RenameMode, forget_failure_cause,
};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

/// How often a path is looked up again when others removed what it led to meanwhile.
const TRIES: usize = 8;

/// A volume that this process has attached. Cloning gives another handle of the same; the last one that goes, with
/// all files opened from it, detaches.
#[derive(Clone)]
pub struct Volume {
    pub(crate) inner: Arc<egeria_fs::Volume>,
    process: Process,
}

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FileType {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Pipe, socket or device: only to be used through a mount.
    Other,
}

/// What `stat` says of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Metadata {
    /// Number of the inode.
    pub inode: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size, bytes.
    pub size_bytes: u64,
    /// Space it takes, bytes.
    pub allocated_bytes: u64,
    /// Last access as far as somebody set it, ns since the epoch.
    pub accessed_ns: i64,
    /// Last change of its data, ns since the epoch.
    pub modified_ns: i64,
    /// Last change of the inode, ns since the epoch.
    pub changed_ns: i64,
}

impl Metadata {
    pub(crate) fn of(attributes: &Attributes) -> Metadata {
        Metadata {
            inode: attributes.ino.0,
            mode: attributes.mode,
            links: attributes.nlink,
            uid: attributes.uid,
            gid: attributes.gid,
            size_bytes: attributes.size_bytes,
            allocated_bytes: attributes.blocks * 4096,
            accessed_ns: attributes.atime_ns,
            modified_ns: attributes.mtime_ns,
            changed_ns: attributes.ctime_ns,
        }
    }

    /// What it is.
    pub fn file_type(&self) -> FileType {
        FileKind::from_mode(self.mode).map_or(FileType::Other, file_type)
    }
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// The name.
    pub name: OsString,
    /// Number of its inode.
    pub inode: u64,
    /// What it is.
    pub file_type: FileType,
}

/// A part of a file's data, on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Part {
    /// Where it begins in the file.
    pub offset_bytes: u64,
    /// How long it is; a multiple of the block size, so the last one may go beyond the end of file.
    pub length_bytes: u64,
    /// The NUMA node that holds it.
    pub node: u16,
    /// The pool that holds it, by its index in the volume.
    pub pool: u16,
}

/// Space of a volume, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Space {
    /// For data, in all.
    pub total_bytes: u64,
    /// Of it, free.
    pub free_bytes: u64,
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::File,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        _ => FileType::Other,
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if lineage::is_untold_child() {
            // The engine takes itself for the parent, and would leave the session for it.
            std::mem::forget(Arc::clone(&self.inner));
        }
    }
}

impl Volume {
    /// Attach a volume by the path of any of its pools: join those who have it attached, or recover it first.
    ///
    /// The process gets handlers for `SIGSEGV` and `SIGBUS`, which pass on every fault that is not of a pool.
    ///
    /// # Errors
    /// `ENOENT` for no pool; `EINVAL` for what is none; `EPERM` for a pool of another user or one that others may
    /// open; `EBUSY` while it is checked; `EPROTO` when another build of Egeria has it attached; `EIO` for damage.
    pub fn attach(pool: impl AsRef<Path>) -> Result<Volume> {
        Volume::attach_as(pool.as_ref(), AttachMode::CreateOrJoin)
    }

    /// The same, with every change refused (`EROFS`).
    ///
    /// # Errors
    /// As [`Volume::attach`].
    pub fn attach_read_only(pool: impl AsRef<Path>) -> Result<Volume> {
        Volume::attach_as(pool.as_ref(), AttachMode::ReadOnly)
    }

    fn attach_as(pool: &Path, mode: AttachMode) -> Result<Volume> {
        egeria_media::guard::install().map_err(unprepared)?;
        let attached = lineage::attach(|| {
            let options = AttachOptions::default();
            egeria_fs::Volume::attach(pool, mode, &options).map_err(Failure::Volume)
        });
        match attached {
            Ok((inner, process)) => Ok(Volume { inner, process }),
            Err(Failure::Volume(error)) => Err(error.into()),
            Err(Failure::System(error)) => Err(unprepared(error)),
        }
    }

    /// Whether every change is refused.
    pub fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    /// Whether this process attached it, and not one that it was forked from: otherwise every operation fails.
    pub fn is_attached_here(&self) -> bool {
        self.process.is_this()
    }

    /// The NUMA node of each pool, by pool index.
    pub fn nodes(&self) -> Vec<u16> {
        self.inner.pool_nodes()
    }

    /// The volume's UUID.
    pub fn uuid(&self) -> String {
        self.inner.uuid().to_string()
    }

    /// Open a regular file.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `ENOTDIR`, `EISDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EINVAL` for options that
    /// contradict each other; `ENXIO` for a pipe, socket or device; `EROFS`, `ENOSPC`, `EIO`, `ENOTCONN`.
    pub fn open(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<File> {
        let file = self.on_path(path.as_ref(), |volume, path| options.open(volume, path))?;
        Ok(File::new(self.clone(), file, options))
    }

    /// What is known of a file; links are followed.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EIO`, `ENOTCONN`.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.stat(path.as_ref(), true)
    }

    /// What is known of a file, or of a link at the end of the path.
    ///
    /// # Errors
    /// As [`Volume::metadata`].
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.stat(path.as_ref(), false)
    }

    fn stat(&self, path: &Path, follows: bool) -> Result<Metadata> {
        self.on_path(path, |volume, path| {
            let found = walk(volume, path, follows)?.existing()?;
            Ok(Metadata::of(&found))
        })
    }

    /// Make a directory.
    ///
    /// # Errors
    /// `EEXIST`; `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EROFS`, `ENOSPC`, `EIO`, `ENOTCONN`.
    pub fn create_directory(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        self.on_path(path.as_ref(), |volume, path| {
            let place = walk(volume, path, false)?;
            if place.found.is_some() {
                return Err(Errno(libc::EEXIST));
            }
            let new = new_inode(libc::S_IFDIR, mode);
            in_directory(volume, &place.directory, || {
                volume.create(place.directory.ino, &place.name, &new)
            })?;
            Ok(())
        })
    }

    /// Remove a name of a file that is no directory.
    ///
    /// # Errors
    /// `EISDIR`; `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EROFS`, `EIO`, `ENOTCONN`.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        self.on_path(path.as_ref(), |volume, path| {
            let place = walk(volume, path, false)?;
            place.existing()?;
            if place.name.is_empty() {
                return Err(Errno(libc::EISDIR));
            }
            in_directory(volume, &place.directory, || {
                volume.unlink(place.directory.ino, &place.name)
            })
        })
    }

    /// Remove an empty directory.
    ///
    /// # Errors
    /// `ENOTEMPTY`; `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EBUSY` for the root; `EINVAL` for
    /// `.`; `EROFS`, `EIO`, `ENOTCONN`.
    pub fn remove_directory(&self, path: impl AsRef<Path>) -> Result<()> {
        self.on_path(path.as_ref(), |volume, path| {
            let place = walk(volume, path, false)?;
            place.existing()?;
            if place.name.is_empty() {
                return Err(Errno(libc::EBUSY));
            }
            in_directory(volume, &place.directory, || {
                volume.remove_directory(place.directory.ino, &place.name)
            })
        })
    }

    /// Rename; what has the new name is replaced, in one step.
    ///
    /// # Errors
    /// As `rename(2)`; `EXDEV` for a path that leads out of the volume; `ENOTCONN`.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let to = to.as_ref();
        self.on_path(from.as_ref(), |volume, path| {
            let from = walk(volume, path, false)?;
            let moved = from.existing()?;
            let to = walk(volume, to.as_os_str().as_bytes(), false)?;
            if from.name.is_empty() || to.name.is_empty() {
                return Err(Errno(libc::EBUSY));
            }
            if to.wants_directory && moved.kind() != FileKind::Directory {
                return Err(Errno(libc::ENOTDIR));
            }
            in_directory(volume, &from.directory, || {
                in_directory(volume, &to.directory, || {
                    let mode = RenameMode::Replace;
                    volume.rename(
                        from.directory.ino,
                        &from.name,
                        to.directory.ino,
                        &to.name,
                        mode,
                    )
                })
            })
        })
        .map_err(|error| error_with_target(error, to))
    }

    /// The names in a directory, without `.` and `..`.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EIO`, `ENOTCONN`.
    pub fn read_directory(&self, path: impl AsRef<Path>) -> Result<Vec<DirectoryEntry>> {
        self.on_path(path.as_ref(), |volume, path| {
            let found = walk(volume, path, true)?.existing()?;
            let mut entries = Vec::new();
            in_directory(volume, &found, || {
                volume.read_directory(found.ino, 0, &mut |entry| {
                    if entry.name != b"." && entry.name != b".." {
                        entries.push(DirectoryEntry {
                            name: OsString::from_vec(entry.name.to_vec()),
                            inode: entry.ino.0,
                            file_type: file_type(entry.kind),
                        });
                    }
                    true
                })
            })?;
            Ok(entries)
        })
    }

    /// Which nodes hold the data of a file, from its begin to its end. Holes are left out.
    ///
    /// # Errors
    /// As [`Volume::metadata`]; `EISDIR`.
    pub fn locate(&self, path: impl AsRef<Path>) -> Result<Vec<Part>> {
        self.on_path(path.as_ref(), |volume, path| {
            let found = walk(volume, path, true)?.existing()?;
            if found.kind() == FileKind::Directory {
                return Err(Errno(libc::EISDIR));
            }
            in_directory(volume, &found, || parts(volume, found.ino))
        })
    }

    /// Space for data, and how much of it is free.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn space(&self) -> Result<Space> {
        self.check_process()?;
        let space = self.inner.space(None);
        Ok(Space {
            total_bytes: space.blocks * 4096,
            free_bytes: space.free_blocks * 4096,
        })
    }

    /// Do what begins with a path; once more when what the path led to was removed meanwhile.
    fn on_path<T>(
        &self,
        path: &Path,
        body: impl Fn(&egeria_fs::Volume, &[u8]) -> Outcome<T>,
    ) -> Result<T> {
        let named = || path.display().to_string();
        self.checked(named, || {
            let mut outcome = Err(Errno(libc::ESTALE));
            for _ in 0..TRIES {
                outcome = body(&self.inner, path.as_os_str().as_bytes());
                if !matches!(outcome, Err(Errno(libc::ESTALE))) {
                    break;
                }
            }
            outcome
        })
    }

    /// Refuse what a child does with its parent's volume.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        match self.process.is_this() {
            true => Ok(()),
            false => Err(Error::new(
                libc::ENOTCONN,
                "the volume was attached before this process was forked; attach it again in the child",
            )),
        }
    }

    /// Do something in the process that attached the volume; what failed is named.
    #[inline]
    pub(crate) fn checked<T>(
        &self,
        named: impl FnOnce() -> String,
        body: impl FnOnce() -> Outcome<T>,
    ) -> Result<T> {
        self.check_process()?;
        forget_failure_cause();
        body().map_err(|errno| self.error(named(), errno))
    }

    #[cold]
    fn error(&self, named: String, errno: Errno) -> Error {
        let cause = match errno.0 {
            libc::EIO => self.inner.failure_cause().map(|cause| cause.to_string()),
            libc::EROFS if self.is_read_only() => {
                Some("the volume is attached for reading only".to_owned())
            }
            libc::EXDEV => Some("the path leads out of the volume".to_owned()),
            _ => None,
        };
        Error::new(
            errno.0,
            format!("{named}: {}", cause.unwrap_or_else(|| words(errno))),
        )
    }
}

/// Why a volume is not attached.
enum Failure {
    Volume(egeria_fs::VolumeError),
    System(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::System(error)
    }
}

fn unprepared(error: io::Error) -> Error {
    Error::new(
        error.raw_os_error().unwrap_or(libc::EIO),
        format!("cannot prepare this process for volumes: {error}"),
    )
}

fn error_with_target(error: Error, to: &Path) -> Error {
    Error::new(
        error.errno(),
        format!("rename to {}: {}", to.display(), error.message()),
    )
}

pub(crate) fn new_inode(kind: u32, mode: u32) -> NewInode {
    NewInode {
        mode: kind | (mode & 0o7777),
        // SAFETY: they cannot fail.
        uid: unsafe { libc::geteuid() },
        // SAFETY: as above.
        gid: unsafe { libc::getegid() },
        rdev: 0,
    }
}

/// Do something in a directory, or to a file, that keeps its number meanwhile.
pub(crate) fn in_directory<T>(
    volume: &egeria_fs::Volume,
    found: &Attributes,
    body: impl FnOnce() -> Outcome<T>,
) -> Outcome<T> {
    volume.open(found.ino, Some(found.generation))?;
    let outcome = body();
    volume.close(found.ino);
    outcome
}

/// A new file, open.
pub(crate) fn create_open(
    volume: &egeria_fs::Volume,
    place: &Place,
    mode: u32,
) -> Outcome<FileReference> {
    let new = new_inode(libc::S_IFREG, mode);
    let made = in_directory(volume, &place.directory, || {
        volume.create_open(place.directory.ino, &place.name, &new)
    })?;
    let file = volume.open(made.ino, Some(made.generation));
    volume.close(made.ino);
    file
}

pub(crate) fn parts(volume: &egeria_fs::Volume, ino: InodeNumber) -> Outcome<Vec<Part>> {
    let part = |extent: &ExtentReport| Part {
        offset_bytes: extent.file_offset_bytes,
        length_bytes: extent.length_bytes,
        node: extent.node,
        pool: extent.pool.into(),
    };
    let mut parts: Vec<Part> = Vec::new();
    for next in volume.extents(ino)?.iter().map(part) {
        match parts.last_mut() {
            Some(last)
                if last.pool == next.pool
                    && last.offset_bytes + last.length_bytes == next.offset_bytes =>
            {
                last.length_bytes += next.length_bytes;
            }
            _ => parts.push(next),
        }
    }
    Ok(parts)
}
