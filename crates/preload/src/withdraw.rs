//! Leaving the volumes for good, before the process gives up rights that opened them, or lets itself be
//! confined: what it may no longer open, it must not have mapped. From then on the kernel serves every call.
//!
//! ```text
//! leaver:  say "off" ─ wait for who was admitted ─ positions to the kernel, words out of the table
//!          ─ wait for the pins ─ detach, which unmaps ─ handlers back to the program
//! others:  be admitted, unless off ─ attach, put words into the table ─ go
//! ```
//!
//! It waits for calls under way, as libc's own `setuid` waits for every thread to change its rights, and as
//! `munmap` waits for the faults of others: none of them waits for the caller. They hold no lock of the program,
//! and its handlers wait for their end.

use crate::sync::pause;
use crate::thread::{self, Thread};
use crate::{errno, pins, process, registry, settings, signals, table};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static ADMITTED: AtomicUsize = AtomicUsize::new(0);
static IS_DONE: AtomicBool = AtomicBool::new(false);

/// Run what makes the table or a volume ours; `None` when that is over. The caller is inside, so that no
/// handler of the program jumps out of it.
pub fn admitted<T>(body: impl FnOnce() -> T) -> Option<T> {
    struct Admission;
    impl Drop for Admission {
        fn drop(&mut self) {
            ADMITTED.fetch_sub(1, Ordering::SeqCst);
        }
    }
    ADMITTED.fetch_add(1, Ordering::SeqCst);
    let _admission = Admission;
    (!settings::is_off()).then(body)
}

/// Run a call that changes the rights of the process, or where its paths lead.
pub fn around<T>(call: impl FnOnce() -> T) -> T {
    if is_attached() {
        for_good();
    }
    let answer = call();
    // Another thread attached meanwhile, perhaps with the rights that were.
    if is_attached() {
        let error = errno::get();
        for_good();
        errno::set(error);
    }
    answer
}

/// Whether there is anything to leave. Waits for a thread that is attaching.
pub fn is_attached() -> bool {
    !thread::current().has(thread::INSIDE | thread::FORKING)
        && registry::any()
        && thread::inside(registry::is_attached)
}

/// Leave. What a `vfork` child does is for itself alone: its parent's memory stays as it is.
pub fn for_good() {
    let thread = thread::current();
    if thread.has(thread::INSIDE | thread::FORKING)
        || process::wiped().is_some() && !process::owns_tables()
    {
        return;
    }
    let error = errno::get();
    thread::inside(|| {
        process::without_forks(|| {
            if !IS_DONE.swap(true, Ordering::Relaxed) {
                leave(thread);
            }
        })
    });
    errno::set(error);
}

/// Every step is the condition of the next.
fn leave(thread: &Thread) {
    settings::switch_off();
    let mut round = 0;
    while ADMITTED.load(Ordering::SeqCst) != 0 {
        pause(&mut round);
    }
    // Records are freed under limbo's lock alone: those that the table names stay meanwhile.
    pins::while_none_is_freed(table::hand_over_records);
    pins::drain_all();
    registry::detach_all();
    signals::give_back(thread);
}
