//! Stores to callers' memory that come from no pool.

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
