//! Callers' memory: may be invalid, so only guarded routines read and write it.
//!
//! Code that has an address creates one of the two types here, and promises once that the memory may be used. All
//! functions that take these types are safe. A bad address answers [`AccessFault::Caller`].

use crate::error::AccessFault;
use crate::guard::routines;
use std::marker::PhantomData;

/// Memory of a caller to write to.
#[derive(Clone, Copy, Debug)]
pub struct CallerDestination<'a> {
    start: *mut u8,
    bytes: usize,
    memory: PhantomData<&'a mut [u8]>,
}

/// Memory of a caller to read from.
#[derive(Clone, Copy, Debug)]
pub struct CallerSource<'a> {
    start: *const u8,
    bytes: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> CallerDestination<'a> {
    /// Memory at an address that a program gave.
    ///
    /// # Safety
    /// The memory may be invalid when the guard is installed ([`crate::guard::install`]). But as far as it is mapped,
    /// the caller allows every copy of this value to overwrite these bytes for `'a`.
    #[inline(always)]
    pub unsafe fn new(start: *mut u8, bytes: usize) -> CallerDestination<'a> {
        CallerDestination {
            start,
            bytes,
            memory: PhantomData,
        }
    }

    /// Bytes of it.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Where it begins.
    #[inline(always)]
    pub(crate) fn start(self) -> *mut u8 {
        self.start
    }

    /// Its address, to pass to another thread that the caller waits for.
    #[inline(always)]
    pub fn address(self) -> usize {
        self.start.addr()
    }

    /// The first `bytes` bytes, or all if there are fewer.
    #[inline(always)]
    pub fn first(self, bytes: usize) -> CallerDestination<'a> {
        CallerDestination {
            bytes: bytes.min(self.bytes),
            ..self
        }
    }

    /// All but the first `bytes` bytes.
    #[inline(always)]
    pub fn after(self, bytes: usize) -> CallerDestination<'a> {
        let skipped = bytes.min(self.bytes);
        CallerDestination {
            start: self.start.wrapping_add(skipped),
            bytes: self.bytes - skipped,
            ..self
        }
    }

    /// Zeroes it, like reading a hole of a file.
    ///
    /// # Errors
    /// [`AccessFault::Caller`] when the memory cannot be written; part of it may be zeroed.
    #[inline]
    pub fn zero(self) -> Result<(), AccessFault> {
        // SAFETY: the routine is guarded; the bytes may be overwritten, as `new` was promised.
        match unsafe { routines::egeria_media_guard_zero(self.start, self.bytes) } {
            0 => Ok(()),
            _ => Err(AccessFault::Caller),
        }
    }

    /// Fills it with the first of these bytes; if there are fewer bytes, fills only its beginning.
    ///
    /// # Errors
    /// [`AccessFault::Caller`] when the memory cannot be written; part of it may be.
    #[inline]
    pub fn fill(self, from: &[u8]) -> Result<(), AccessFault> {
        let bytes = from.len().min(self.bytes);
        // SAFETY: `bytes` lie in both; the slice is valid, and the rest may be overwritten, as `new` was promised.
        unsafe { guarded_copy(self.start, from.as_ptr(), bytes) }
    }
}

impl<'a> From<&'a mut [u8]> for CallerDestination<'a> {
    #[inline(always)]
    fn from(slice: &'a mut [u8]) -> CallerDestination<'a> {
        CallerDestination {
            start: slice.as_mut_ptr(),
            bytes: slice.len(),
            memory: PhantomData,
        }
    }
}

impl<'a> CallerSource<'a> {
    /// Memory at an address that a program gave.
    ///
    /// # Safety
    /// The memory may be invalid when the guard is installed ([`crate::guard::install`]), and may change at any time.
    /// But as far as it is mapped, the caller allows reading these bytes for `'a`.
    #[inline(always)]
    pub unsafe fn new(start: *const u8, bytes: usize) -> CallerSource<'a> {
        CallerSource {
            start,
            bytes,
            memory: PhantomData,
        }
    }

    /// Bytes of it.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Where it begins.
    #[inline(always)]
    pub(crate) fn start(self) -> *const u8 {
        self.start
    }

    /// As [`CallerDestination::address`].
    #[inline(always)]
    pub fn address(self) -> usize {
        self.start.addr()
    }

    /// The first `bytes` bytes, or all if there are fewer.
    #[inline(always)]
    pub fn first(self, bytes: usize) -> CallerSource<'a> {
        CallerSource {
            bytes: bytes.min(self.bytes),
            ..self
        }
    }

    /// All but the first `bytes` bytes.
    #[inline(always)]
    pub fn after(self, bytes: usize) -> CallerSource<'a> {
        let skipped = bytes.min(self.bytes);
        CallerSource {
            start: self.start.wrapping_add(skipped),
            bytes: self.bytes - skipped,
            ..self
        }
    }

    /// Copies its first bytes, as many as fit.
    ///
    /// # Errors
    /// [`AccessFault::Caller`] when the memory cannot be read.
    #[inline]
    pub fn read(self, into: &mut [u8]) -> Result<(), AccessFault> {
        let bytes = into.len().min(self.bytes);
        // SAFETY: `bytes` lie in both; the slice is valid, and the rest may be read, as `new` was promised.
        unsafe { guarded_copy(into.as_mut_ptr(), self.start, bytes) }
    }
}

impl<'a> From<&'a [u8]> for CallerSource<'a> {
    #[inline(always)]
    fn from(slice: &'a [u8]) -> CallerSource<'a> {
        CallerSource {
            start: slice.as_ptr(),
            bytes: slice.len(),
            memory: PhantomData,
        }
    }
}

/// # Safety
/// As far as they are mapped, `from` may be read and `to` be overwritten.
unsafe fn guarded_copy(to: *mut u8, from: *const u8, bytes: usize) -> Result<(), AccessFault> {
    // SAFETY: a guarded routine; mapped memory is as this function's contract says.
    match unsafe { routines::call_copy(routines::routines().copy, to, from, bytes) } {
        0 => Ok(()),
        _ => Err(AccessFault::Caller),
    }
}
