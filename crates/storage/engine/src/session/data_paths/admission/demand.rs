//! How many threads use a pool without a limit, as input for setting one. Threads set marks in their own slots. No
//! thread waits, so an exact count is not needed.

use crate::format::MAX_POOLS;
use crate::session::layout::{AdmissionGate, ThreadSlot};
use crate::session::map::Session;
use std::sync::atomic::Ordering;

/// One of this many requests of a thread to a pool counts the threads that are there: reading all slots each time
/// would cost more than many requests do.
const COUNTED_REQUESTS: u64 = 64;

/// A thread uses pools without a limit, until this is dropped. If the thread dies there, its mark is cleared with its
/// slot.
pub(crate) struct Accessing<'a>(&'a ThreadSlot);

impl<'a> Accessing<'a> {
    /// `pools`: a bit per pool. The thread is at no pool yet.
    pub(super) fn begin(slot: &'a ThreadSlot, pools: u64) -> Accessing<'a> {
        slot.accessed_pools.store(pools, Ordering::Relaxed);
        Accessing(slot)
    }
}

impl Drop for Accessing<'_> {
    fn drop(&mut self) {
        self.0.accessed_pools.store(0, Ordering::Relaxed);
    }
}

impl AdmissionGate {
    /// Note that this many threads were at the pool at the same time, or waited for it.
    pub(super) fn note_demand(&self, threads: u32) {
        let threads = u64::from(threads);
        if self.max_demand.load(Ordering::Relaxed) < threads {
            self.max_demand.fetch_max(threads, Ordering::Relaxed);
        }
    }
}

impl Session {
    /// A thread makes its request of this number to a pool without a limit: at intervals, count the other threads
    /// there.
    #[inline]
    pub(super) fn note_open_demand(&self, gate: &AdmissionGate, pool: usize, request: u64) {
        if request.is_multiple_of(COUNTED_REQUESTS) || gate.max_demand.load(Ordering::Relaxed) == 0
        {
            gate.note_demand(self.threads_at_pools()[pool]);
        }
    }

    /// Threads that use each pool without a limit now, or wait for its delegates: without delegates they would use it
    /// themselves.
    pub(in crate::session) fn threads_at_pools(&self) -> [u32; MAX_POOLS] {
        let mut threads = [0; MAX_POOLS];
        for slot in self.used_threads() {
            let mut pools = slot.awaited_pools.load(Ordering::Relaxed)
                | slot.accessed_pools.load(Ordering::Relaxed);
            while pools != 0 {
                let pool = pools.trailing_zeros() as usize;
                // The words are other processes', too.
                if let Some(threads) = threads.get_mut(pool) {
                    *threads += 1;
                }
                pools &= pools - 1;
            }
        }
        threads
    }
}
