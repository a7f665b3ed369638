//! Whether the kernel has opened the file of a record: it has not, or it has, and every number of the record means that
//! file. Nobody meets what is between, whose numbers mean the one and the other.
//!
//! ```text
//! opener: lock ─ deferred still? open ─ numbers that the table gives the record mean the file ─ slot ─ deferred no more ─
//!         unlock
//! user:   deferred? then as the opener; else the number means the file, and the slot is known
//! hook:   no record was ever deferred? then every number means its file
//! closer: the number out of the table ─ wait for calls by it ─ wait for the opener ─ close
//! ```
//! An opener may have found a number by another one of the record, so calls by the number alone are not all that a closer
//! waits for.

use crate::sync::Lock;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What all records share.
pub struct Openings {
    /// Held by who opens a file in the kernel; after a record's offset.
    lock: Lock,
    /// Whether a record was ever deferred. It stays so: a count would be written by every open of every thread, and a program that
    /// has opened one file of ours opens more.
    has_deferred: AtomicU32,
}

impl Openings {
    /// No record is deferred.
    pub const fn new() -> Openings {
        Openings {
            lock: Lock::new(),
            has_deferred: AtomicU32::new(0),
        }
    }

    /// Whether there may be a record whose file the kernel has not opened. Relaxed: whoever has a number of one learned
    /// of it from the thread that made it, and of this with it.
    #[inline(always)]
    pub fn may_any_be_deferred(&self) -> bool {
        self.has_deferred.load(Ordering::Relaxed) != 0
    }

    /// A record begins.
    pub fn begin(&self, is_deferred: bool, slot: u32) -> Deferral {
        if is_deferred && !self.may_any_be_deferred() {
            self.has_deferred.store(1, Ordering::Relaxed);
        }
        Deferral {
            is_on: AtomicBool::new(is_deferred),
            slot: AtomicU32::new(slot),
        }
    }

    /// Have `open` open the file of a record, unless somebody has: it makes the record's numbers mean the file, and tells
    /// its slot. By a thread that is inside.
    ///
    /// # Errors
    /// What `open` says: the record is deferred as before.
    pub fn open<E>(
        &self,
        deferral: &Deferral,
        open: impl FnOnce() -> Result<u32, E>,
    ) -> Result<(), E> {
        self.lock.with(|| {
            if deferral.is_on() {
                deferral.slot.store(open()?, Ordering::Release);
                deferral.is_on.store(false, Ordering::Release);
            }
            Ok(())
        })
    }

    /// Wait for who may give a file to a number that was taken out of the table. By a thread that is inside.
    pub fn wait_for_opener(&self) {
        if self.may_any_be_deferred() {
            self.lock.with(|| ());
        }
    }

    /// In a fork child: whoever was opening is not here.
    pub fn reset_in_child(&self) {
        self.lock.reset();
    }
}

pub struct Deferral {
    /// The kernel has no open file yet, but a placeholder. Goes from true to false, never back.
    is_on: AtomicBool,
    /// Slot of the description in the session.
    slot: AtomicU32,
}

impl Deferral {
    /// The kernel has no open file yet. Acquire: if it has, all numbers mean it.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// The slot, as far as it is known.
    #[inline(always)]
    pub fn slot(&self) -> u32 {
        self.slot.load(Ordering::Acquire)
    }
}
