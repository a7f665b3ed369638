//! Ctrl-Z waits for the end of a write: whoever is stopped in the middle of one holds its lock until he is
//! continued, and all other writers of the file wait for him.
//!
//! Nothing runs at a default stop that could put it off, so the library has a handler of its own for the stop
//! signals that the program left to the kernel. Inside it waits like every other; outside it does what the
//! kernel would have done. A handler can be noticed: calls that sleep answer `EINTR` after one, and go on after a
//! default stop. So it is there only while a process of one thread writes and does not sleep: from some pages of
//! writes on, which are worth the system calls that install it, until the first call that sleeps. What sleeps
//! otherwise begins anew after this handler (`SA_RESTART`) as after a stop.
//!
//! A `SIGCONT` undoes stops that were sent before it, also while ours waits. It has a handler for as long, which does
//! nothing: so one that comes while the kernel calls the other handler is not lost, but seen there.
//!
//! Left are `SIGSTOP`, programs of several threads (a stop is for all of them, and any may be inside), the first
//! pages after a sleep, and who looks at `/proc/PID/status`. A `SIGCONT` between the last look and the stop, within a
//! fraction of a microsecond, comes too early, as in every program that handles Ctrl-Z.

use super::actions::{self, is_left_to_the_kernel};
use super::sets::{SET_BYTES, bit, is_over};
use crate::system::{libc_threads, raw};
use crate::thread;
use libc::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What stops by default and can be caught, and what undoes it.
pub const SIGNALS: [c_int; 4] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGCONT];

/// Pages written without a sleep in between; from here on the handler is there.
const ENOUGH_PAGES: usize = 64;
const PAGE_BITS: u32 = 12;
static PAGES: AtomicUsize = AtomicUsize::new(0);

/// Before a write takes a lock.
#[inline(always)]
pub fn before_write(bytes: usize) {
    if PAGES.load(Ordering::Relaxed) < ENOUGH_PAGES {
        count(bytes);
    }
}

/// Whether [`before_write`] has nothing to do.
#[inline(always)]
pub fn counts_no_writes() -> bool {
    PAGES.load(Ordering::Relaxed) >= ENOUGH_PAGES || !libc_threads::alone()
}

#[inline(never)]
fn count(bytes: usize) {
    if !libc_threads::alone() {
        return;
    }
    let pages = PAGES.load(Ordering::Relaxed) + 1 + (bytes >> PAGE_BITS);
    PAGES.store(pages.min(ENOUGH_PAGES), Ordering::Relaxed);
    if pages >= ENOUGH_PAGES {
        thread::inside(|| actions::catch(&SIGNALS, true));
    }
}

/// Before a call that sleeps, and answers `EINTR` after a handler only.
#[inline(always)]
pub fn before_sleep() {
    if PAGES.load(Ordering::Relaxed) != 0 {
        leave_to_the_kernel();
    }
}

#[cold]
fn leave_to_the_kernel() {
    // A `vfork` child sleeps in its parent's memory, but with handlers of its own.
    if !thread::current().has(thread::INSIDE | thread::VFORK)
        && PAGES.swap(0, Ordering::Relaxed) >= ENOUGH_PAGES
    {
        thread::inside(|| actions::catch(&SIGNALS, false));
    }
}

/// The library leaves, and its handlers with it.
pub fn forget() {
    PAGES.store(0, Ordering::Relaxed);
}

/// Whether this is a stop that only we handle.
pub fn is_stop(signal: c_int) -> bool {
    signal != libc::SIGCONT && SIGNALS.contains(&signal) && is_left_to_the_kernel(signal)
}

/// Whether it has done all it does when it arrives.
pub fn is_continue(signal: c_int) -> bool {
    signal == libc::SIGCONT && is_left_to_the_kernel(signal)
}

/// Stop now, outside of the engine, with all blocked since the signal came.
pub fn stop(signal: c_int) {
    let (process, id, set) = (raw::getpid(), raw::gettid(), bit(signal));
    thread::inside(|| actions::catch(&[signal], false));
    if !is_over() {
        // The kernel finds out whether anybody is there to continue an orphan.
        raw::tgkill(process, id, signal);
        raw::signal_mask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut(), SET_BYTES);
    }
    let caught = PAGES.load(Ordering::Relaxed) >= ENOUGH_PAGES;
    thread::inside(|| actions::catch(&SIGNALS, caught));
}
