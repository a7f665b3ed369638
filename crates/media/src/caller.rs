//! Callers' memory, read and written apart from any pool.

use crate::error::AccessFault;
use crate::guard::routines;

/// Zeroes memory of unknown quality, as a hole of a file reads.
///
/// # Errors
/// [`AccessFault::Caller`] when the memory cannot be written; part of it may be zeroed.
///
/// # Safety
/// `destination` may be invalid, but if it is mapped, those bytes must be the caller's to overwrite.
#[inline]
pub unsafe fn zero_caller(destination: *mut u8, bytes: usize) -> Result<(), AccessFault> {
    // SAFETY: the routine is guarded; the bytes are the caller's by contract.
    match unsafe { routines::egeria_media_guard_zero(destination, bytes) } {
        0 => Ok(()),
        _ => Err(AccessFault::Caller),
    }
}

/// Copies memory of unknown quality into a buffer.
///
/// # Errors
/// [`AccessFault::Caller`] when the memory cannot be read.
///
/// # Safety
/// `source` may be invalid, but if it is mapped, those bytes must be the caller's to read.
#[inline]
pub unsafe fn copy_from_caller(source: *const u8, into: &mut [u8]) -> Result<(), AccessFault> {
    // SAFETY: the slice is valid; the source is the caller's by contract.
    unsafe { guarded_copy(into.as_mut_ptr(), source, into.len()) }
}

/// Copies bytes to memory of unknown quality.
///
/// # Errors
/// [`AccessFault::Caller`] when the memory cannot be written; part of it may be.
///
/// # Safety
/// As [`zero_caller`].
#[inline]
pub unsafe fn copy_to_caller(from: &[u8], destination: *mut u8) -> Result<(), AccessFault> {
    // SAFETY: the slice is valid; the destination is the caller's by contract.
    unsafe { guarded_copy(destination, from.as_ptr(), from.len()) }
}

/// # Safety
/// At most one side is invalid memory.
unsafe fn guarded_copy(to: *mut u8, from: *const u8, bytes: usize) -> Result<(), AccessFault> {
    // SAFETY: by contract; invalid memory becomes an answer.
    match unsafe { routines::call_copy(routines::routines().copy, to, from, bytes) } {
        0 => Ok(()),
        _ => Err(AccessFault::Caller),
    }
}
