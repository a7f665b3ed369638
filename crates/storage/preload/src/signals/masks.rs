//! SIGSEGV and SIGBUS stay open, whatever the program blocks: a fault in a copy to or from a bad
//! buffer must reach the handler to become `EFAULT`, and one that is blocked kills. The program is
//! told what it set.

use super::sets::{SET_BYTES, bit};
use crate::system::{caller, raw};
use crate::thread::{self, Thread};
use crate::trust::{admission, settings};
use libc::{c_int, sigset_t};
use std::sync::atomic::Ordering;

const FAULTS: u64 = bit(libc::SIGSEGV) | bit(libc::SIGBUS);

/// At a thread's first call on a file of ours.
pub fn open_faults(thread: &Thread) {
    let mut before = 0;
    raw::signal_mask(libc::SIG_UNBLOCK, &FAULTS, &raw mut before, SET_BYTES);
    thread
        .believed_mask
        .fetch_or(before & FAULTS, Ordering::Relaxed);
}

/// The library leaves: what the program blocked is blocked.
pub fn close_faults(thread: &Thread) {
    let believed = thread.believed_mask.swap(0, Ordering::Relaxed);
    if believed != 0 {
        raw::signal_mask(libc::SIG_BLOCK, &believed, std::ptr::null_mut(), SET_BYTES);
    }
}

/// A change of the thread's mask by the program, with libc's own function for the doing.
pub fn hook_mask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
    mask: impl FnOnce(c_int, *const sigset_t, *mut sigset_t) -> c_int,
) -> c_int {
    let thread = thread::current();
    if !admission::any()
        || settings::is_off()
        || thread.has(thread::INSIDE)
        || thread.handler_depth.load(Ordering::Relaxed) > 0
    {
        return mask(how, new, old);
    }
    let believed = thread.believed_mask.load(Ordering::Relaxed);
    let Some(mut changed) = caller::read(new) else {
        return report_believed(mask(how, new, old), old, believed);
    };
    // SAFETY: the kernel's set begins libc's larger one, which is a local value.
    let word = unsafe { &mut *(&raw mut changed).cast::<u64>() };
    let wanted = *word & FAULTS;
    if how != libc::SIG_UNBLOCK {
        *word &= !FAULTS;
    }
    let answer = mask(how, &raw const changed, old);
    if answer == 0 {
        let now = match how {
            libc::SIG_BLOCK => believed | wanted,
            libc::SIG_UNBLOCK => believed & !wanted,
            _ => wanted,
        };
        thread.believed_mask.store(now, Ordering::Relaxed);
    }
    report_believed(answer, old, believed)
}

fn report_believed(answer: c_int, old: *mut sigset_t, believed: u64) -> c_int {
    // The kernel's set begins libc's, which has just been written there.
    let old = old.cast::<u64>();
    if let Some(mask) = caller::read(old) {
        caller::write(old, mask | believed);
    }
    answer
}
