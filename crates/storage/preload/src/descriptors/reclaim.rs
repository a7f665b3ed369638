//! Records stay alive while a thread uses them, at the price of two plain stores per call.
//!
//! A thread names the record it uses in its pin, then looks at the table again. Whoever drops the
//! last reference first makes every running thread pass a barrier (`membarrier`), then looks at all
//! pins: a record named in one waits in limbo until somebody else closes something.

use super::table::Word;
use crate::description::pin::{self, Pin};
use crate::description::record::Record;
use crate::sync::{Apart, Lock};
use crate::system::{libc_threads, raw};
use crate::thread::process::{self, PINS};
use crate::thread::{self, Thread};
use libc::c_int;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

static LIMBO: AtomicPtr<Record> = AtomicPtr::new(std::ptr::null_mut());
/// Of the list. Taken after one of [`FREEING`].
static LIMBO_LOCK: Apart<Lock> = Apart(Lock::new());
/// Who frees a record that never was in limbo holds one of these; who wants none to be freed holds all.
static FREEING: [Apart<Lock>; 4] = [const { Apart(Lock::new()) }; 4];
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Pins from here on were never taken: most programs have few threads, and need not look at all pins.
static END: AtomicUsize = AtomicUsize::new(0);

/// The thread's pin, taken at its first use; `None`: no pins left.
#[cold]
pub fn take(thread: &Thread) -> Option<&'static Pin> {
    let wiped = process::wiped()?;
    let id = raw::gettid() as u32;
    let free = free_pin(&wiped.pins, id).or_else(|| {
        give_back_dead(&wiped.pins);
        free_pin(&wiped.pins, id)
    })?;
    thread
        .pin
        .store(std::ptr::from_ref(free).cast_mut(), Ordering::Relaxed);
    crate::signals::open_faults(thread);
    Some(free)
}

fn free_pin(pins: &'static [Pin; PINS], id: u32) -> Option<&'static Pin> {
    let first = NEXT.fetch_add(1, Ordering::Relaxed);
    let free = (0..PINS).map(|step| (first + step) % PINS).find(|&index| {
        let thread = &pins[index].thread;
        thread.load(Ordering::Relaxed) == 0
            && thread
                .compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    })?;
    END.fetch_max(free + 1, Ordering::Relaxed);
    // Before the thread looks at the table; see `taken`.
    fence(Ordering::SeqCst);
    Some(&pins[free])
}

/// Pins that may be in use. Who takes another from now on sees the table as it is: what was taken out of it cannot be
/// named there.
fn taken(pins: &[Pin; PINS]) -> &[Pin] {
    fence(Ordering::SeqCst);
    &pins[..END.load(Ordering::Relaxed).min(PINS)]
}

/// Pins of threads that ended: nobody tells us when a thread ends, so it is asked for here.
fn give_back_dead(pins: &[Pin; PINS]) {
    let process = raw::getpid();
    for pin in pins {
        let id = pin.thread.load(Ordering::Relaxed);
        if id != 0 && raw::tgkill(process, id as isize, 0) == -libc::ESRCH as isize {
            let _ = pin
                .thread
                .compare_exchange(id, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// At the start, and again before the first record, when it must have been done.
pub fn register_barrier() -> bool {
    raw::membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0) >= 0
}

/// Nothing in the table names the record any more: free it and those in limbo that are not in use.
#[cold]
pub fn retire(record: *mut Record) {
    let thread = thread::current();
    if thread.has(thread::FORKING) {
        // Inside the program's fork handlers: locks are held still, so this one is left to the exit.
        return;
    }
    thread::inside(|| {
        LIMBO_LOCK.with(|| {
            // SAFETY: the record is alive until `free_unused` frees it.
            unsafe {
                (*record)
                    .next
                    .store(LIMBO.load(Ordering::Relaxed), Ordering::Relaxed)
            };
            LIMBO.store(record, Ordering::Relaxed);
            free_limbo();
        });
    });
}

/// Free those that no thread uses. Under limbo's lock.
fn free_limbo() {
    if let Some(wiped) = process::wiped() {
        // SAFETY: no table entry and no pin names it.
        pin::free_unused(&LIMBO, taken(&wiped.pins), |record| unsafe {
            Record::free(record)
        });
    }
}

/// As [`retire`], of a record that one number names and that only the calling thread has used.
pub fn retire_sole(record: *mut Record) {
    let thread = thread::current();
    if thread.has(thread::FORKING) {
        return;
    }
    let own = thread.id(process::owner()) as usize % FREEING.len();
    thread::inside(|| {
        FREEING[own].with(|| {
            // SAFETY: the table names it no more, no other thread got at it, and this one is in no call.
            if unsafe { (*record).drop_reference() } {
                // SAFETY: so it is the last.
                unsafe { Record::free(record) };
            }
        });
        if !LIMBO.load(Ordering::Relaxed).is_null() {
            LIMBO_LOCK.with(free_limbo);
        }
    });
}

/// Wait until no call is under way that found the number before it was marked as closing: such a call
/// moves the position by the number, which will soon mean something else.
pub fn drain(fd: c_int) {
    if let Some(wiped) = process::wiped().filter(|_| !libc_threads::alone()) {
        pin::drain(fd, taken(&wiped.pins));
    }
}

/// Wait until no call is under way at all. The table names no record any more.
pub fn drain_all() {
    if let Some(wiped) = process::wiped().filter(|_| !libc_threads::alone()) {
        pin::drain_all(taken(&wiped.pins));
    }
}

/// Run `body` while no record is freed. The caller is inside.
pub fn while_none_is_freed(body: impl FnOnce()) {
    struct Held;
    impl Drop for Held {
        fn drop(&mut self) {
            release();
        }
    }
    hold();
    let _held = Held;
    body();
}

/// Hold limbo, and records on their way out, still across a fork.
pub fn hold() {
    FREEING.iter().for_each(|lock| lock.take());
    LIMBO_LOCK.take();
}

/// Let them go in the parent.
pub fn release() {
    LIMBO_LOCK.give();
    FREEING.iter().for_each(|lock| lock.give());
}

/// In a fork child: the parent's records are not the child's to give back.
pub fn reset_in_child() {
    LIMBO.store(std::ptr::null_mut(), Ordering::Relaxed);
    LIMBO_LOCK.reset();
    FREEING.iter().for_each(|lock| lock.reset());
}

/// Give back what a word that was taken out of the table held.
pub fn drop_reference(word: Word) {
    if word.is_ours() && !word.record().is_null() {
        // SAFETY: the word's reference keeps it alive until here.
        if unsafe { (*word.record()).drop_reference() } {
            retire(word.record());
        }
    }
}
