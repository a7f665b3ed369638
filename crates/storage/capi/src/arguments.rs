//! Arguments that C passes: each kind of pointer has its own type, and only a call from C creates its values. So every
//! value of these types meets the rules that the documentation of the C function demands of its caller. Therefore the
//! functions themselves are safe.
//!
//! Their memory layout is that of the pointer they hold; `cbindgen.toml` gives the pointer type of each in `egeria.h`.

use crate::call::{Answer, failure};
use egeria_client::File;
use libc::{c_char, c_int, c_void, iovec, off_t, stat};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Maximum number of buffers in one call, as in Linux.
const MAX_BUFFERS: usize = 1024;

/// The object behind a handle. Each kind has its own mark.
pub trait Handle {
    /// Its first word.
    const MARK: u64;
}

/// The object behind a handle: the mark comes first, so that the first word tells a handle's kind.
#[repr(C)]
struct Marked<T> {
    mark: u64,
    handle: T,
}

/// A handle that the caller keeps: NULL, or a handle of this library that no thread closes during the call.
#[repr(transparent)]
pub struct Lent<T>(*const T);

/// A handle that is given back: NULL, or a handle of this library that is not used afterwards.
#[repr(transparent)]
pub struct Returned<T>(*mut T);

/// Where a result goes: NULL, or memory for one.
#[repr(transparent)]
pub struct Place<T>(*mut T);

/// Memory for several results: as many as the accompanying count says.
#[repr(transparent)]
pub struct Room<T>(*mut T);

// cbindgen does not expand macros. So it sees these names, which its configuration translates.
macro_rules! argument_types {
    ($($(#[$about:meta])* $type:ident($pointer:ty);)*) => {
        $(
            $(#[$about])*
            #[repr(transparent)]
            pub struct $type($pointer);
        )*
    };
}

macro_rules! argument_names {
    ($($name:ident = $means:ty;)*) => {
        $(
            #[doc = concat!("What C sees as `", stringify!($means), "`.")]
            pub type $name = $means;
        )*
    };
}

argument_types! {
    /// A path: NULL, or a terminated string.
    Text(*const c_char);
    /// Memory to read into, which no other thread uses during the call; or a bad address, which is detected.
    Destination(*mut c_void);
    /// Memory to write from, which no other thread changes during the call; or a bad address, which is detected.
    Source(*const c_void);
    /// Memory to read, as many bytes as the accompanying count says; NULL for none.
    Value(*const c_void);
    /// NULL, or as many buffers as the accompanying count says.
    Buffers(*const iovec);
}

argument_names! {
    StatPlace = Place<stat>;
    OffsetPlace = Place<off_t>;
}

impl<T: Handle> Lent<T> {
    /// What it means.
    pub(crate) fn get(&self) -> Answer<&T> {
        let marked = self.0.cast::<Marked<T>>();
        check(marked)?;
        // SAFETY: it is of this kind, and alive.
        Ok(unsafe { &(*marked).handle })
    }
}

impl<T: Handle> Returned<T> {
    /// Take ownership of the handle from the caller.
    pub(crate) fn take(self) -> Answer<T> {
        let marked = self.0.cast::<Marked<T>>();
        check(marked)?;
        // SAFETY: made by `hand_out`; the mark goes, so that using it once more is found out as long as its memory
        // stays.
        unsafe {
            marked.cast::<u64>().write_volatile(0);
            Ok(Box::from_raw(marked).handle)
        }
    }
}

/// Give a handle to the caller.
pub(crate) fn hand_out<T: Handle>(handle: T) -> *mut T {
    let mark = T::MARK;
    Box::into_raw(Box::new(Marked { mark, handle })).cast()
}

fn check<T: Handle>(marked: *const Marked<T>) -> Answer<()> {
    if marked.is_null() || !marked.is_aligned() {
        return Err(failure(libc::EINVAL, "the handle is NULL or no handle"));
    }
    // SAFETY: a handle of any kind: its first word is the mark.
    let mark = unsafe { marked.cast::<u64>().read_volatile() };
    if mark == T::MARK {
        return Ok(());
    }
    let message = "the handle is of another kind, or was closed";
    Err(failure(libc::EBADF, message))
}

impl<T> Place<T> {
    /// Whether there is none.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Write a result.
    pub(crate) fn put(self, value: T) -> Answer<()> {
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(failure(libc::EINVAL, "there is no place for the result"));
        }
        // SAFETY: memory for one.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

impl Text {
    /// The path that it is.
    pub(crate) fn path(&self) -> Answer<&Path> {
        if self.0.is_null() {
            return Err(failure(libc::EINVAL, "the path is NULL"));
        }
        // SAFETY: a string that ends.
        let bytes = unsafe { CStr::from_ptr(self.0) }.to_bytes();
        Ok(Path::new(OsStr::from_bytes(bytes)))
    }
}

impl Destination {
    /// Read this many bytes at an offset of the file.
    pub(crate) fn fill(&self, bytes: usize, file: &File, at: u64) -> Answer<usize> {
        // SAFETY: memory of the caller, or a bad address, which the client answers for.
        Ok(unsafe { file.read_raw(self.0.cast(), bytes, at) }?)
    }
}

impl Source {
    /// Write this many bytes at an offset of the file.
    pub(crate) fn write(&self, bytes: usize, file: &File, at: u64) -> Answer<usize> {
        // SAFETY: memory of the caller, or a bad address, which the client answers for.
        Ok(unsafe { file.write_raw(self.0.cast(), bytes, at) }?)
    }

    /// Append this many bytes to the file; returns the offset and the count.
    pub(crate) fn append(&self, bytes: usize, file: &File) -> Answer<(u64, usize)> {
        // SAFETY: memory of the caller, or a bad address, which the client answers for.
        Ok(unsafe { file.append_raw(self.0.cast(), bytes) }?)
    }
}

impl Value {
    /// Its bytes.
    pub(crate) fn bytes(&self, count: usize) -> Answer<&[u8]> {
        match count {
            0 => Ok(&[]),
            _ if self.0.is_null() || count > isize::MAX as usize => {
                Err(failure(libc::EINVAL, "there is no value of that length"))
            }
            // SAFETY: the caller promises `count` bytes.
            _ => Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), count) }),
        }
    }
}

impl Buffers {
    /// All buffers to be read into, with their lengths.
    pub(crate) fn destinations(
        &self,
        count: c_int,
    ) -> Answer<impl Iterator<Item = (Destination, usize)>> {
        let destination = |buffer: &iovec| (Destination(buffer.iov_base), buffer.iov_len);
        Ok(self.list(count)?.iter().map(destination))
    }

    /// All buffers to be written from, with their lengths.
    pub(crate) fn sources(&self, count: c_int) -> Answer<impl Iterator<Item = (Source, usize)>> {
        let source = |buffer: &iovec| (Source(buffer.iov_base), buffer.iov_len);
        Ok(self.list(count)?.iter().map(source))
    }

    fn list(&self, count: c_int) -> Answer<&[iovec]> {
        let wrong = || failure(libc::EINVAL, "no list of at most 1024 buffers");
        let count = usize::try_from(count).map_err(|_| wrong())?;
        if count > MAX_BUFFERS {
            return Err(wrong());
        }
        if count == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(wrong());
        }
        // SAFETY: the caller promises `count` buffers.
        let list = unsafe { std::slice::from_raw_parts(self.0, count) };
        let sum = list
            .iter()
            .try_fold(0usize, |sum, buffer| sum.checked_add(buffer.iov_len));
        if sum.is_some_and(|sum| sum <= isize::MAX as usize) {
            Ok(list)
        } else {
            Err(wrong())
        }
    }
}

impl<T> Room<T> {
    /// Write as many results as there is room for; returns how many there are.
    pub(crate) fn put(
        &self,
        found: impl ExactSizeIterator<Item = T>,
        room: usize,
    ) -> Answer<isize> {
        if room > 0 && (self.0.is_null() || !self.0.is_aligned()) {
            return Err(failure(libc::EINVAL, "there is no place for the result"));
        }
        let count = found.len();
        for (at, value) in found.take(room).enumerate() {
            // SAFETY: there is room.
            unsafe { self.0.add(at).write(value) };
        }
        Ok(count as isize)
    }
}
