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

use crate::descriptors::offset::publish_record;
use crate::descriptors::{placeholder, reclaim, table};
use crate::serve::{self, ownership};
use crate::signals;
use crate::system::errno;
use crate::thread::{self, Thread, process};
use crate::trust::{admission, settings};
use crate::volumes::registry;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_DONE: AtomicBool = AtomicBool::new(false);

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
        && admission::any()
        && thread::inside(registry::is_attached)
}

/// Leave. What a `vfork` child does is for itself alone: its parent's memory stays as it is.
pub fn for_good() {
    let thread = thread::current();
    if thread.has(thread::INSIDE | thread::FORKING)
        || process::wiped().is_some() && !ownership::owns_tables()
    {
        return;
    }
    let error = errno::get();
    thread::inside(|| {
        ownership::without_forks(|| {
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
    admission::wait_until_none();
    // Records are freed under limbo's lock alone: those that the table names stay meanwhile.
    reclaim::while_none_is_freed(|| hand_over_records(thread));
    placeholder::end();
    reclaim::drain_all();
    registry::detach_all();
    signals::give_back(thread);
}

/// The library gives up: the kernel gets all positions, and no file is ours any more. Nothing becomes ours
/// meanwhile, and no record is freed. The caller is inside. Calls that found the library off wait for the end of this, as
/// far as their number is concerned, and so do closes.
fn hand_over_records(thread: &Thread) {
    table::for_each_ours(|fd, _| {
        serve::while_open(thread, fd, |record| publish_record(record, fd));
    });
    table::forget_records();
}
