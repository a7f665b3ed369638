//! A volume: attached, unusable in child processes, with explained errors.

use crate::error::{Error, Result, words};
use crate::kinds::Space;
use crate::lineage::{self, Process};
use crate::path::Place;
use egeria_engine::{
    AttachMode, AttachOptions, Attributes, Errno, FileReference, NewInode, Outcome,
    forget_failure_cause,
};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// How often a path is looked up again when its target was removed in the meantime.
const TRIES: usize = 8;

/// A volume that this process has attached. A clone is another handle of the volume. When the last handle and all
/// files opened from it are dropped, the volume is detached.
#[derive(Clone)]
pub struct Volume {
    pub(crate) inner: Arc<egeria_engine::Volume>,
    process: Process,
}

impl Drop for Volume {
    fn drop(&mut self) {
        if lineage::is_untold_child() {
            // In the child, the engine would act as the parent and detach from the session on its behalf.
            std::mem::forget(Arc::clone(&self.inner));
        }
    }
}

impl Volume {
    /// Attach a volume by the path of any of its pools: join its session if it is attached, otherwise recover it
    /// first.
    ///
    /// Installs handlers for `SIGSEGV` and `SIGBUS`, which pass on every fault outside of pools.
    ///
    /// # Errors
    /// `ENOENT` for no pool; `EINVAL` when it is no pool; `EPERM` for a pool of another user or one that others can
    /// open; `EBUSY` while it is checked; `EPROTO` when another build of Egeria has it attached; `EIO` for damage.
    pub fn attach(pool: impl AsRef<Path>) -> Result<Volume> {
        Volume::attach_as(pool.as_ref(), AttachMode::CreateOrJoin)
    }

    /// Attach a volume with every change refused (`EROFS`).
    ///
    /// # Errors
    /// As [`Volume::attach`].
    pub fn attach_read_only(pool: impl AsRef<Path>) -> Result<Volume> {
        Volume::attach_as(pool.as_ref(), AttachMode::ReadOnly)
    }

    fn attach_as(pool: &Path, mode: AttachMode) -> Result<Volume> {
        let attached = lineage::attach(|| {
            let options = AttachOptions::default();
            egeria_engine::Volume::attach(pool, mode, &options).map_err(Failure::Volume)
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

    /// Whether this process attached it, and not a parent before a fork: otherwise every operation fails.
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

    /// Run an operation on a path; retried when the path's target was removed in the meantime.
    pub(crate) fn on_path<T>(
        &self,
        path: &Path,
        body: impl Fn(&egeria_engine::Volume, &[u8]) -> Outcome<T>,
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

    /// Refuse operations of a child on its parent's volume.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.process.is_this() {
            Ok(())
        } else {
            Err(Error::new(
                libc::ENOTCONN,
                "the volume was attached before this process was forked; attach it again in the child",
            ))
        }
    }

    /// Run an operation in the process that attached the volume; errors name the operation.
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
            libc::ENOSPC => Some(format!("{}; {}", words(errno), self.inner.space_left())),
            libc::EROFS if self.is_read_only() => {
                Some("the volume is attached for reading only".to_owned())
            }
            libc::EDQUOT => Some(format!("{}; {}", words(errno), self.inner.quotas_left())),
            libc::EXDEV if self.inner.quotas().is_empty() => {
                Some("the path leads out of the volume".to_owned())
            }
            libc::EXDEV => Some(
                "the path leads out of the volume, or names are in directories with different limits; copy the file"
                    .to_owned(),
            ),
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
    Volume(egeria_engine::VolumeError),
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

/// Run an operation on a directory or file, whose number is not reused during the call.
pub(crate) fn in_directory<T>(
    volume: &egeria_engine::Volume,
    found: &Attributes,
    body: impl FnOnce() -> Outcome<T>,
) -> Outcome<T> {
    volume.open(found.ino, Some(found.generation))?;
    let outcome = body();
    volume.close(found.ino);
    outcome
}

pub(crate) fn new_inode(kind: u32, mode: u32) -> NewInode {
    NewInode {
        mode: kind | (mode & 0o7777),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
    }
}

/// A new file, open.
pub(crate) fn create_open(
    volume: &egeria_engine::Volume,
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
