//! Links, and extended attributes, by path.

use crate::error::Result;
use crate::path::walk;
use crate::volume::{Volume, in_directory};
use egeria_engine::{Errno, FileKind, Outcome, XattrMode};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Other attributes belong to the kernel, which a volume's mount serves.
const NAMESPACE: &[u8] = b"user.";

impl Volume {
    /// Whether a path leads to something; links are followed.
    ///
    /// # Errors
    /// `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EIO`, `ENOTCONN`.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.errno() == libc::ENOENT => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Make a symbolic link at `path` that leads to `target`. A target that leads out of the volume can be stored; it
    /// is followed through a mount only.
    ///
    /// # Errors
    /// `EEXIST`; `ENOENT` for an empty target or a missing directory; `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for
    /// names; `EROFS`, `ENOSPC`, `EDQUOT`, `EIO`, `ENOTCONN`.
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let target = target.as_ref().as_os_str().as_bytes();
        self.on_path(path.as_ref(), |volume, path| {
            let place = walk(volume, path, false)?;
            if place.found.is_some() {
                return Err(Errno(libc::EEXIST));
            }
            if place.wants_directory {
                return Err(Errno(libc::ENOENT));
            }
            let user = rustix::process::geteuid().as_raw();
            let group = rustix::process::getegid().as_raw();
            in_directory(volume, &place.directory, || {
                volume.symlink(place.directory.ino, &place.name, target, user, group)
            })?;
            Ok(())
        })
    }

    /// Where a symbolic link leads, as it was made.
    ///
    /// # Errors
    /// `EINVAL` when it is none; `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names; `EIO`, `ENOTCONN`.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let target = self.on_path(path.as_ref(), |volume, path| {
            let found = walk(volume, path, false)?.existing()?;
            if found.kind() != FileKind::Symlink {
                return Err(Errno(libc::EINVAL));
            }
            in_directory(volume, &found, || volume.read_link(found.ino))
        })?;
        Ok(OsString::from_vec(target).into())
    }

    /// Give a file another name. A symbolic link at the end of `existing` gets the name itself.
    ///
    /// # Errors
    /// `EEXIST`; `EPERM` for directories; `EMLINK`; `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`, `EXDEV` for names;
    /// `EROFS`, `ENOSPC`, `EDQUOT`, `EIO`, `ENOTCONN`.
    pub fn hard_link(&self, existing: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let existing = existing.as_ref().as_os_str().as_bytes();
        self.on_path(path.as_ref(), |volume, path| {
            let found = walk(volume, existing, false)?.existing()?;
            let place = walk(volume, path, false)?;
            if found.kind() == FileKind::Directory {
                return Err(Errno(libc::EPERM));
            }
            if place.found.is_some() {
                return Err(Errno(libc::EEXIST));
            }
            if place.wants_directory {
                return Err(Errno(libc::ENOENT));
            }
            in_directory(volume, &found, || {
                in_directory(volume, &place.directory, || {
                    volume.link(found.ino, place.directory.ino, &place.name)
                })
            })?;
            Ok(())
        })
    }

    /// The value of an extended attribute; links are followed. `user.egeria.layout` and `user.egeria.checksum` say how
    /// a file is stored.
    ///
    /// # Errors
    /// `ENODATA` when it is absent; as [`Volume::metadata`].
    pub fn xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<Vec<u8>> {
        let name = name.as_ref().as_bytes();
        self.on_path(path.as_ref(), |volume, path| {
            let found = walk(volume, path, true)?.existing()?;
            in_directory(volume, &found, || volume.get_xattr(found.ino, name))
        })
    }

    /// The names of all extended attributes; links are followed.
    ///
    /// # Errors
    /// As [`Volume::metadata`].
    pub fn xattr_names(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        let names = self.on_path(path.as_ref(), |volume, path| {
            let found = walk(volume, path, true)?.existing()?;
            in_directory(volume, &found, || volume.list_xattr(found.ino))
        })?;
        Ok(names.into_iter().map(OsString::from_vec).collect())
    }

    /// Set an extended attribute of the namespace `user`; links are followed. On a directory `user.egeria.layout` and
    /// `user.egeria.checksum` are for what is created in it.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for another namespace, or a value that the file can no longer have; `EINVAL` for a value of
    /// Egeria's attributes that is none; `ERANGE` for the length of the name; `E2BIG`, `ENOSPC` for a long value;
    /// `EPERM` for what is neither a file nor a directory; as [`Volume::metadata`]; `EROFS`.
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: &[u8],
    ) -> Result<()> {
        let name = name.as_ref().as_bytes();
        self.on_path(path.as_ref(), |volume, path| {
            let found = walk(volume, path, true)?.existing()?;
            check_change(name, found.kind())?;
            in_directory(volume, &found, || {
                volume.set_xattr(found.ino, name, value, XattrMode::Any)
            })
        })
    }

    /// Remove an extended attribute of the namespace `user`; links are followed.
    ///
    /// # Errors
    /// `ENODATA` when it is absent; as [`Volume::set_xattr`].
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<()> {
        let name = name.as_ref().as_bytes();
        self.on_path(path.as_ref(), |volume, path| {
            let found = walk(volume, path, true)?.existing()?;
            check_change(name, found.kind())?;
            in_directory(volume, &found, || volume.remove_xattr(found.ino, name))
        })
    }
}

/// What the kernel refuses, too.
fn check_change(name: &[u8], kind: FileKind) -> Outcome<()> {
    match kind {
        _ if !name.starts_with(NAMESPACE) => Err(Errno(libc::EOPNOTSUPP)),
        FileKind::Regular | FileKind::Directory => Ok(()),
        _ => Err(Errno(libc::EPERM)),
    }
}
