//! Prefetches: loads requested before they are needed.

use std::sync::atomic::AtomicU64;

/// Bring a word of the index near.
#[inline(always)]
pub(crate) fn prefetch(slot: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults; the address is of a live word anyway.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(slot).cast()) };
    }
}
