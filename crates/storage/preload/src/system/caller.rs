//! What a program hands to a hooked function: pointers that are good, as libc demands them of its callers, or null. (Where
//! the kernel would answer for a bad one, `guarded` does.)

/// What is there to be read; `None` for null.
#[inline(always)]
pub fn read<T: Copy>(from: *const T) -> Option<T> {
    // SAFETY: null, or the program's, to be read.
    unsafe { from.as_ref() }.copied()
}

/// Write where the program wants it, unless that is null.
#[inline(always)]
pub fn write<T: Copy>(to: *mut T, value: T) {
    // SAFETY: null, or the program's, to be written.
    if let Some(to) = unsafe { to.as_mut() } {
        *to = value;
    }
}
