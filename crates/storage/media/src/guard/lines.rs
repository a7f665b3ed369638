//! Whole lines: stores by the routines of the module `routines`, in which a fault is an answer, and prefetches.

use std::arch::asm;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

unsafe extern "C" {
    fn egeria_media_guard_store_line();
    fn egeria_media_guard_stream_line();
}

/// Calls a routine that stores a line. The words are in registers: words in memory, stored one by one and loaded together,
/// would be loaded only when they are in the caches.
macro_rules! call_line {
    ($routine:ident, $to:expr, $words:expr) => {{
        let [first, second, third, fourth, fifth, sixth, seventh, last]: [u64; 8] = $words;
        let fault: usize;
        // SAFETY: a fault becomes the answer; the routine uses no stack and no registers but these.
        unsafe {
            asm!(
                "call {routine}",
                routine = sym $routine,
                inout("rdi") $to => _,
                inout("rsi") first => _,
                inout("rdx") second => _,
                inout("rcx") third => _,
                inout("r8") fourth => _,
                inout("r9") fifth => _,
                inout("r10") sixth => _,
                inout("r11") seventh => _,
                inout("rax") last => fault,
            );
        }
        fault
    }};
}

/// Stores a line through the caches.
///
/// # Safety
/// The line at `to` may be overwritten.
#[inline(always)]
pub(crate) unsafe fn store_line(to: *mut u8, words: [u64; 8]) -> usize {
    call_line!(egeria_media_guard_store_line, to, words)
}

/// Stores a line past the caches.
///
/// # Safety
/// As [`store_line`].
#[inline(always)]
pub(crate) unsafe fn stream_line(to: *mut u8, words: [u64; 8]) -> usize {
    call_line!(egeria_media_guard_stream_line, to, words)
}

/// Prefetches the lines of a range that will be stored to soon. Stores commit in order: without it, each waits for its
/// own line.
#[inline(always)]
pub(crate) fn prefetch_lines(start: *mut u8, bytes: usize) {
    for offset in (0..bytes).step_by(64) {
        let line = start.wrapping_add(offset);
        // SAFETY: a prefetch never faults and changes nothing; 64-bit CPUs without this one do nothing at it.
        unsafe { asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags)) };
    }
}

/// Prefetches the lines of a range that will be read soon.
#[inline(always)]
pub(crate) fn prefetch_lines_to_read(start: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(64) {
        // SAFETY: a prefetch never faults and changes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset).cast()) };
    }
}
