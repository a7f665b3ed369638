//! The words of leases. Per inode: what a kernel may cache of it. Per session: which recalls are requested.
//!
//! ```text
//! mount:  lock the inode; bits on; unlock; the kernel remembers ─ take a recall ─ it forgets; bits off; ended += 1; wake
//! change: lock the inode; bits on? then unlock, and until they are off: { seen = ended; bits on? ask; sleep while ended
//!         is seen } and begin again, else change; unlock
//! ask:    there already? else into a free place; bell += 1; wake
//! serve:  rung = bell; over? then end, else take one, or sleep while bell is rung
//! ```
//! Each counter is read before the condition it counts is checked. So a thread that then sleeps on it misses no
//! change.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{sleep_until_changed, wake_all};
use std::time::Duration;

/// The kernel may cache the attributes and, of a directory, which names are absent.
pub(crate) const ATTRIBUTES: u32 = 1;
/// The kernel may cache names of subdirectories in the directory and their inodes.
pub(crate) const NAMES: u32 = 2;
/// The kernel may cache names of a file, and trust its owner.
pub(crate) const OWNER: u32 = 4;
pub(crate) const ALL: u32 = ATTRIBUTES | NAMES | OWNER;
/// In a recall: names too.
pub(crate) const WITH_NAMES: u64 = 1 << 63;

/// What a kernel may cache of an inode. Called under the inode's lock, so no bit is added during the call. Acquire:
/// the kernel forgot what is missing here before any later step of the caller.
#[inline(always)]
pub(crate) fn held(leases: &AtomicU32) -> u32 {
    leases.load(Ordering::Acquire)
}

/// A kernel may cache this from now on. Called under the inode's lock; the next holder of the lock sees it.
pub(crate) fn grant(leases: &AtomicU32, bits: u32) {
    leases.fetch_or(bits, Ordering::Relaxed);
}

/// The kernel has forgotten it.
pub(crate) fn end(leases: &AtomicU32, bits: u32) {
    // No bit is added during this call: only the mount adds bits, and it is the caller here, or there is no mount.
    if leases.load(Ordering::Relaxed) & bits != 0 {
        leases.fetch_and(!bits, Ordering::Release);
    }
}

/// Result of one wait for the end of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecallProgress {
    /// No such lease is left.
    Ended,
    /// Some recall ended, or the wait timed out: check again.
    Woken,
    /// All places for recalls are taken.
    NoRoom,
}

/// The session's words for recalls.
pub(crate) struct Recalls<'a> {
    /// What is asked for, 0: nothing.
    pub(crate) places: &'a [AtomicU64],
    /// Counts requests; the mount sleeps on it.
    pub(crate) bell: &'a AtomicU32,
    /// Counts recalls that ended; threads that asked for a recall sleep on it.
    pub(crate) ended: &'a AtomicU32,
}

impl Recalls<'_> {
    /// Have the leases of an inode in the mask ended. Not under the inode's lock.
    pub(crate) fn wait(
        &self,
        leases: &AtomicU32,
        ino: u64,
        mask: u32,
        limit: Duration,
    ) -> RecallProgress {
        let seen = self.ended.load(Ordering::Acquire);
        // Read each time: a lease may have been granted again since the last recall.
        let word = match held(leases) & mask {
            0 => return RecallProgress::Ended,
            ATTRIBUTES => ino,
            _ => ino | WITH_NAMES,
        };
        if !self.ask(word) {
            return RecallProgress::NoRoom;
        }
        sleep_until_changed(self.ended, seen, limit);
        RecallProgress::Woken
    }

    /// Ask for a recall; `false`: there is no room.
    pub(crate) fn ask(&self, word: u64) -> bool {
        let is_asked = self.places.iter().any(|place| leave_word(place, word));
        // Also when another thread had asked: it may have died before it rang.
        self.ring();
        is_asked
    }

    /// Wake all threads that wait for the next recall.
    pub(crate) fn ring(&self) {
        self.bell.fetch_add(1, Ordering::Release);
        wake_all(self.bell);
    }

    /// The result of `take`, which calls [`Recalls::take`]; if there is none, waits for a ring of the bell and tries
    /// again. `None` when it is over; the bell is rung after that is set.
    pub(crate) fn next<T>(
        &self,
        limit: Duration,
        is_over: impl Fn() -> bool,
        take: impl Fn() -> Option<T>,
    ) -> Option<T> {
        let rung = self.bell.load(Ordering::Acquire);
        if is_over() {
            return None;
        }
        take().or_else(|| {
            sleep_until_changed(self.bell, rung, limit);
            take()
        })
    }

    /// Take a requested recall; each recall is taken by one thread only.
    pub(crate) fn take(&self) -> Option<u64> {
        self.places.iter().find_map(|place| {
            let word = match place.load(Ordering::Relaxed) {
                0 => 0,
                _ => place.swap(0, Ordering::AcqRel),
            };
            (word != 0).then_some(word)
        })
    }

    /// Wake waiting threads to check again: called when bits were cleared, or when no mount is left to clear them.
    pub(crate) fn tell_ended(&self) {
        self.ended.fetch_add(1, Ordering::Release);
        wake_all(self.ended);
    }

    /// Drop all recalls: no mount serves them any more.
    pub(crate) fn drop_all(&self) {
        for place in self.places {
            place.store(0, Ordering::Relaxed);
        }
    }
}

/// Store the word in a place; true also if the place holds the word already.
fn leave_word(place: &AtomicU64, word: u64) -> bool {
    let there = place.load(Ordering::Relaxed);
    let leave = || place.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed);
    there == word || there == 0 && leave().is_ok()
}
