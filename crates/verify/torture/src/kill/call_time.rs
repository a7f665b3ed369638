//! How long the calls of a thread take, in memory that other processes read.

use egeria_harness::shared_values;
use std::sync::atomic::{AtomicU64, Ordering};

shared_values! {
    /// The times of one thread.
    pub struct CallTime {
        /// When the call under way began, ns of the machine's monotonic clock; 0 between calls.
        begun_ns: AtomicU64,
        /// Longest call since the last reset.
        longest_ns: AtomicU64,
    }
}

impl CallTime {
    pub fn begin(&self) {
        self.begun_ns.store(monotonic_ns(), Ordering::Release);
    }

    pub fn end(&self) {
        self.note();
        self.begun_ns.store(0, Ordering::Release);
    }

    /// The call under way counts as if it ended now: it may never end.
    pub fn note(&self) {
        self.longest_ns.fetch_max(self.waits_ns(), Ordering::AcqRel);
    }

    /// Tells one call from the next; 0 between calls.
    pub fn begun_ns(&self) -> u64 {
        self.begun_ns.load(Ordering::Acquire)
    }

    fn waits_ns(&self) -> u64 {
        match self.begun_ns() {
            0 => 0,
            begun_ns => monotonic_ns().saturating_sub(begun_ns),
        }
    }

    /// Longest call that was noted since the last reset, ns. A thread that died in a call has one under way for ever.
    pub fn noted_ns(&self) -> u64 {
        self.longest_ns.load(Ordering::Acquire)
    }

    /// Longest call since the last reset, ns, also one that has not ended.
    pub fn longest_ns(&self) -> u64 {
        let waits_ns = self.waits_ns();
        self.noted_ns().max(waits_ns)
    }

    /// Forget the calls before.
    pub fn reset(&self) {
        self.longest_ns.store(0, Ordering::Release);
    }
}

/// A clock that all processes of the machine see alike, ns.
fn monotonic_ns() -> u64 {
    egeria_media::clock::now_ns(libc::CLOCK_MONOTONIC) as u64
}
