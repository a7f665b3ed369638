//! What is done by path.

use crate::error::{Error, Result};
use crate::file::{File, OpenOptions};
use crate::kinds::{DirectoryEntry, Metadata, Part, file_type, parts};
use crate::path::walk;
use crate::volume::{Volume, in_directory, new_inode};
use egeria_engine::{Errno, FileKind, RenameMode};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

impl Volume {
    /// Open a regular file.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `ENOTDIR`, `EISDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EINVAL` for options that
    /// contradict each other; `ENXIO` for a pipe, socket or device; `EROFS`, `ENOSPC`, `EDQUOT`, `EIO`, `ENOTCONN`.
    pub fn open(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<File> {
        let file = self.on_path(path.as_ref(), |volume, path| options.open(volume, path))?;
        Ok(File::new(self.clone(), file, options))
    }

    /// Metadata of a file; links are followed.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EIO`, `ENOTCONN`.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.stat(path.as_ref(), true)
    }

    /// Metadata of a file, or of a link at the end of the path.
    ///
    /// # Errors
    /// As [`Volume::metadata`].
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.stat(path.as_ref(), false)
    }

    fn stat(&self, path: &Path, follows: bool) -> Result<Metadata> {
        self.on_path(path, |volume, path| {
            let found = walk(volume, path, follows)?.existing()?;
            Ok(Metadata::of(volume, &found))
        })
    }

    /// Make a directory.
    ///
    /// # Errors
    /// `EEXIST`; `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EROFS`, `ENOSPC`, `EDQUOT`, `EIO`,
    /// `ENOTCONN`.
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

    /// Rename; an existing target is replaced atomically.
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

    /// Which nodes hold the data of a file, from beginning to end. Holes are left out.
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
}

fn error_with_target(error: Error, to: &Path) -> Error {
    Error::new(
        error.errno(),
        format!("rename to {}: {}", to.display(), error.message()),
    )
}
