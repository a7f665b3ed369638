//! An open file.

use crate::error::{Error, Result};
use crate::kinds::{Metadata, Part, parts};
use crate::path::walk;
use crate::volume::{Volume, create_open};
use egeria_engine::rights::Credentials;
use egeria_engine::{
    AttributeChange, CallerDestination, CallerSource, Errno, FileKind, FileReference, Outcome,
};

/// How a file is opened, like `std::fs::OpenOptions`. All options are off at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
    follow: bool,
    mode: u32,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// No reading, no writing, no creation; links are followed.
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            create: false,
            create_new: false,
            truncate: false,
            follow: true,
            mode: 0o644,
        }
    }

    /// Permit reads.
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.read = read;
        self
    }

    /// Permit writes.
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.write = write;
        self
    }

    /// Make the file if it is missing.
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.create = create;
        self
    }

    /// Create the file, and fail if the name exists.
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.create_new = create_new;
        self
    }

    /// Cut the file to nothing; needs `write`.
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.truncate = truncate;
        self
    }

    /// Follow a symbolic link at the end of the path (else: `ELOOP`).
    pub fn follow(&mut self, follow: bool) -> &mut OpenOptions {
        self.follow = follow;
        self
    }

    /// Permission bits of a new file (0644).
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.mode = mode;
        self
    }

    /// Open; the file counts as open.
    pub(crate) fn open(
        &self,
        volume: &egeria_engine::Volume,
        path: &[u8],
    ) -> Outcome<FileReference> {
        let asks = self.read || self.write;
        if !asks || (self.truncate && !self.write) {
            return Err(Errno(libc::EINVAL));
        }
        let makes = self.create || self.create_new;
        let place = walk(volume, path, self.follow && !self.create_new)?;
        let Some(found) = place.found else {
            return match (makes, place.wants_directory) {
                (true, false) => self.make(volume, &place),
                (true, true) => Err(Errno(libc::EISDIR)),
                (false, _) => Err(Errno(libc::ENOENT)),
            };
        };
        if self.create_new {
            return Err(Errno(libc::EEXIST));
        }
        place.existing()?;
        match found.kind() {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno(libc::EISDIR)),
            FileKind::Symlink => return Err(Errno(libc::ELOOP)),
            _ => return Err(Errno(libc::ENXIO)),
        }
        if self.write && volume.is_read_only() {
            return Err(Errno(libc::EROFS));
        }
        let file = volume.open(found.ino, Some(found.generation))?;
        if self.truncate && found.size_bytes > 0 {
            set_size(volume, file, 0).inspect_err(|_| volume.close(found.ino))?;
        }
        Ok(file)
    }

    fn make(
        &self,
        volume: &egeria_engine::Volume,
        place: &crate::path::Place,
    ) -> Outcome<FileReference> {
        match create_open(volume, place, self.mode) {
            // Another thread created it first: look it up again.
            Err(Errno(libc::EEXIST)) if !self.create_new => Err(Errno(libc::ESTALE)),
            made => made,
        }
    }
}

fn set_size(volume: &egeria_engine::Volume, file: FileReference, bytes: u64) -> Outcome<()> {
    let change = AttributeChange {
        size_bytes: Some(bytes),
        ..AttributeChange::default()
    };
    clear_privileges(volume, file)?;
    past_kernel(volume, file, || {
        volume.set_attributes_direct(file.ino(), &change)
    })
}

/// Called before the content changes: removes the file's capabilities, and the set-user-id and set-group-id bits that
/// the kernel would clear.
#[inline]
fn clear_privileges(volume: &egeria_engine::Volume, file: FileReference) -> Outcome<()> {
    if volume.may_have_privileges(file) {
        clear_what_there_is(volume, file)
    } else {
        Ok(())
    }
}

#[cold]
fn clear_what_there_is(volume: &egeria_engine::Volume, file: FileReference) -> Outcome<()> {
    volume.drop_capability(file)?;
    let clears = Credentials::of_thread().clears(&volume.attributes(file.ino())?);
    if clears == 0 {
        return Ok(());
    }
    let change = AttributeChange {
        clears,
        ..AttributeChange::default()
    };
    volume.set_attributes(file.ino(), &change).map(drop)
}

/// `EBUSY` where a kernel holds pages of the file: then the kernel must read or change it.
#[inline]
fn past_kernel<T>(
    volume: &egeria_engine::Volume,
    file: FileReference,
    body: impl FnOnce() -> Outcome<T>,
) -> Outcome<T> {
    body().map_err(|errno| match errno {
        Errno(libc::EAGAIN) if volume.is_kernel_cached(file) => Errno(libc::EBUSY),
        errno => errno,
    })
}

/// An open regular file. Every call takes an offset: there is no file position. Dropping it closes it.
pub struct File {
    pub(crate) volume: Volume,
    pub(crate) reference: FileReference,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl File {
    pub(crate) fn new(volume: Volume, reference: FileReference, options: &OpenOptions) -> File {
        File {
            volume,
            reference,
            reads: options.read,
            writes: options.write,
        }
    }

    /// Read into a buffer, as far as it and the file reach.
    ///
    /// # Errors
    /// `EBADF` when not opened for reading; `EBUSY` while a program has it mapped through a mount; `EIO` for damage;
    /// `ENOTCONN` in a child.
    pub fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.read_to(buffer.into(), offset_bytes)
    }

    /// Read to memory at an address.
    ///
    /// # Safety
    /// No other thread uses these bytes during the call. If they are not mapped, the call fails with `EFAULT`.
    ///
    /// # Errors
    /// As [`File::read_at`]; `EFAULT`.
    pub unsafe fn read_raw(
        &self,
        start: *mut u8,
        bytes: usize,
        offset_bytes: u64,
    ) -> Result<usize> {
        // SAFETY: as the caller promises.
        self.read_to(
            unsafe { CallerDestination::new(start, bytes) },
            offset_bytes,
        )
    }

    fn read_to(&self, to: CallerDestination<'_>, offset_bytes: u64) -> Result<usize> {
        self.checked("read", || {
            if self.reads {
                check_range(offset_bytes, to.bytes())?
            } else {
                return Err(Errno(libc::EBADF));
            }
            let volume = &*self.volume.inner;
            past_kernel(volume, self.reference, || {
                volume.read_direct(self.reference, offset_bytes, to)
            })
        })
    }

    /// Write a buffer, durable when this returns. Writes fewer bytes only when space runs out in between.
    ///
    /// # Errors
    /// `EBADF` when not opened for writing; `EBUSY` while a program has it mapped through a mount; `ENOSPC`; `EDQUOT`;
    /// `EFBIG`; `EROFS`; `EIO` for damage; `ENOTCONN` in a child.
    pub fn write_at(&self, buffer: &[u8], offset_bytes: u64) -> Result<usize> {
        self.write_from(buffer.into(), offset_bytes)
    }

    /// Write from memory at an address.
    ///
    /// # Safety
    /// No other thread changes these bytes during the call. If they are not mapped, the call fails with `EFAULT`.
    ///
    /// # Errors
    /// As [`File::write_at`]; `EFAULT`.
    pub unsafe fn write_raw(
        &self,
        start: *const u8,
        bytes: usize,
        offset_bytes: u64,
    ) -> Result<usize> {
        // SAFETY: as the caller promises.
        self.write_from(unsafe { CallerSource::new(start, bytes) }, offset_bytes)
    }

    fn write_from(&self, from: CallerSource<'_>, offset_bytes: u64) -> Result<usize> {
        self.checked("write", || {
            if self.writes {
                check_range(offset_bytes, from.bytes())?
            } else {
                return Err(Errno(libc::EBADF));
            }
            let volume = &*self.volume.inner;
            clear_privileges(volume, self.reference)?;
            past_kernel(volume, self.reference, || {
                volume.write_direct(self.reference, offset_bytes, from)
            })
        })
    }

    /// Write all of a buffer.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_all_at(&self, mut buffer: &[u8], mut offset_bytes: u64) -> Result<()> {
        while !buffer.is_empty() {
            let written = self.write_at(buffer, offset_bytes)?;
            buffer = &buffer[written..];
            offset_bytes += written as u64;
        }
        Ok(())
    }

    /// Append a buffer at the present end of file; returns its offset, and how many bytes were written.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn append(&self, buffer: &[u8]) -> Result<(u64, usize)> {
        self.append_from(buffer.into())
    }

    /// Append from memory at an address.
    ///
    /// # Safety
    /// As [`File::write_raw`].
    ///
    /// # Errors
    /// As [`File::write_raw`].
    pub unsafe fn append_raw(&self, start: *const u8, bytes: usize) -> Result<(u64, usize)> {
        // SAFETY: as the caller promises.
        self.append_from(unsafe { CallerSource::new(start, bytes) })
    }

    fn append_from(&self, from: CallerSource<'_>) -> Result<(u64, usize)> {
        self.checked("append", || {
            if !self.writes {
                return Err(Errno(libc::EBADF));
            }
            check_range(0, from.bytes())?;
            let volume = &*self.volume.inner;
            clear_privileges(volume, self.reference)?;
            past_kernel(volume, self.reference, || {
                volume.append_direct(self.reference, from)
            })
        })
    }

    /// Make earlier writes durable. They are already, so this only checks that the file can be used.
    ///
    /// # Errors
    /// `ENOTCONN` in a child.
    pub fn sync(&self) -> Result<()> {
        self.volume.check_process()
    }

    /// Cut or grow the file.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn set_size(&self, bytes: u64) -> Result<()> {
        self.checked("set the size", || {
            if self.writes {
                set_size(&self.volume.inner, self.reference, bytes)
            } else {
                Err(Errno(libc::EBADF))
            }
        })
    }

    /// Size now, bytes.
    ///
    /// # Errors
    /// `EIO` for damage; `ENOTCONN` in a child.
    pub fn size_bytes(&self) -> Result<u64> {
        self.checked("ask for the size", || {
            self.volume.inner.size_bytes(self.reference)
        })
    }

    /// Whether it has no bytes now.
    ///
    /// # Errors
    /// As [`File::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Size now, bytes: [`File::size_bytes`] by the name that std has for it.
    ///
    /// # Errors
    /// `EIO` for damage; `ENOTCONN` in a child.
    pub fn len(&self) -> Result<u64> {
        self.size_bytes()
    }

    /// What is known of it.
    ///
    /// # Errors
    /// `EIO` for damage; `ENOTCONN` in a child.
    pub fn metadata(&self) -> Result<Metadata> {
        self.checked("ask for attributes", || {
            let attributes = self.volume.inner.attributes(self.reference.ino())?;
            Ok(Metadata::of(&self.volume.inner, &attributes))
        })
    }

    /// Which nodes hold its data, from beginning to end. Holes are left out.
    ///
    /// # Errors
    /// `EIO` for damage; `ENOTCONN` in a child.
    pub fn locate(&self) -> Result<Vec<Part>> {
        self.checked("locate", || parts(&self.volume.inner, self.reference.ino()))
    }

    #[inline]
    pub(crate) fn checked<T>(
        &self,
        doing: &'static str,
        body: impl FnOnce() -> Outcome<T>,
    ) -> Result<T> {
        let named = || format!("{doing} inode {}", self.reference.ino().0);
        self.volume.checked(named, body).map_err(explain)
    }
}

/// Errors of open files that paths do not have.
#[cold]
fn explain(error: Error) -> Error {
    let cause = match error.errno() {
        libc::EBUSY => {
            "a kernel holds pages of it for a mount; end what maps it there, or use the file through the mount"
        }
        libc::EBADF => "it was not opened for that",
        _ => return error,
    };
    let named = error.message().rsplit_once(": ");
    let named = named.map_or(error.message(), |(named, _)| named);
    Error::new(error.errno(), format!("{named}: {cause}"))
}

/// What the kernel refuses, too.
fn check_range(offset_bytes: u64, bytes: usize) -> Outcome<()> {
    let end = offset_bytes.checked_add(bytes as u64);
    if end.is_some_and(|end| end <= i64::MAX as u64) && bytes <= isize::MAX as usize {
        Ok(())
    } else {
        Err(Errno(libc::EINVAL))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // In a child: the parent has it open.
        if self.volume.is_attached_here() {
            self.volume.inner.close(self.reference.ino());
        }
    }
}
