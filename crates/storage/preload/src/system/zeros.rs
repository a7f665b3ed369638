//! Structures of libc before anybody fills them.

/// Numbers and pointers, of which all may be zero.
///
/// # Safety
/// Zeros are a value of the type.
pub unsafe trait Zeros {}

macro_rules! zeros {
    ($($type:ident)*) => {
        $(
            // SAFETY: numbers, null pointers and padding.
            unsafe impl Zeros for libc::$type {}
        )*
    };
}

zeros!(stack_t stat statfs statx statx_timestamp);

/// All zeros.
#[inline(always)]
pub fn zeros<T: Zeros>() -> T {
    // SAFETY: as the trait says.
    unsafe { std::mem::zeroed() }
}
