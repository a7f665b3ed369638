//! Naming a record as in use, and looking who does: the core of `reclaim` and `serve`.
//!
//! ```text
//! user:    name it in the pin ─ light barrier ─ still in the table? then use it ─ take the name out
//! remover: take it out of the table ─ heavy barrier ─ in a pin? then later, else free
//! ```

use super::record::Record;
use crate::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use crate::sync::{heavy_barrier, light_barrier, pause};

/// One thread's pin.
#[repr(C, align(64))]
pub struct Pin {
    /// Kernel id of the thread that has it; 0: nobody, or the page was wiped by a fork.
    pub thread: AtomicU32,
    pub record: AtomicPtr<Record>,
    /// Number it is used by.
    pub fd: AtomicI32,
}

impl Pin {
    /// Name a record, and the number it was found by. It may be used when this is true: `still_named`
    /// says whether the table names it (still).
    #[inline(always)]
    pub fn hold(&self, fd: i32, record: *mut Record, still_named: impl FnOnce() -> bool) -> bool {
        self.fd.store(fd, Ordering::Relaxed);
        self.record.store(record, Ordering::Release);
        light_barrier();
        still_named()
    }

    /// Name none any more.
    #[inline(always)]
    pub fn let_go(&self) {
        self.record.store(std::ptr::null_mut(), Ordering::Release);
        light_barrier();
    }

    /// Whether the thread is in a call.
    pub fn is_in_any_call(&self) -> bool {
        !self.record.load(Ordering::Acquire).is_null()
    }

    /// Whether the thread is in a call that found its record by this number.
    pub fn is_in_call(&self, fd: i32) -> bool {
        self.fd.load(Ordering::Relaxed) == fd && self.is_in_any_call()
    }
}

/// Free the records of limbo (nothing in the table names them, each names the `next`) that no thread uses;
/// the others stay there. Under limbo's lock.
pub fn free_unused(limbo: &AtomicPtr<Record>, pins: &[Pin], free: impl Fn(*mut Record)) {
    if !heavy_barrier() {
        return;
    }
    let mut record = limbo.swap(std::ptr::null_mut(), Ordering::Relaxed);
    while !record.is_null() {
        // SAFETY: records in limbo are alive, and change under its lock only.
        let next = unsafe { &(*record).next };
        let after = next.load(Ordering::Relaxed);
        // Acquire: what its last user did with it is over.
        let in_use = |pin: &Pin| pin.record.load(Ordering::Acquire) == record;
        if pins.iter().any(in_use) {
            next.store(limbo.load(Ordering::Relaxed), Ordering::Relaxed);
            limbo.store(record, Ordering::Relaxed);
        } else {
            free(record);
        }
        record = after;
    }
}

/// Wait until no call is under way that found the number before the table said otherwise.
pub fn drain(fd: i32, pins: &[Pin]) {
    wait_while(pins, |pin| pin.is_in_call(fd));
}

/// Wait until no call is under way that found a number before the table said otherwise of all of them.
pub fn drain_all(pins: &[Pin]) {
    wait_while(pins, Pin::is_in_any_call);
}

fn wait_while(pins: &[Pin], is_in_call: impl Fn(&Pin) -> bool) {
    if !heavy_barrier() {
        return;
    }
    for pin in pins {
        let mut round = 0;
        while is_in_call(pin) {
            pause(&mut round);
        }
    }
}
