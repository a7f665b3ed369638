//! Slots of open descriptions: a lock per kernel file position, and the session's sums.

use crate::requests::{Counters, DescriptionSlot};
use crate::session::layout::{DESCRIPTION_SLOTS, THREAD_SLOTS};
use crate::session::slots::count;
use crate::session::volume::Volume;
use crate::types::{Errno, Outcome};
use std::sync::atomic::{AtomicU64, Ordering};

/// How often to compute sums again when they changed during the computation.
const MAX_LOOKS: u32 = 16;

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

impl Volume {
    /// Take a slot for a new open description; None when all are taken.
    pub fn description_allocate(&self) -> Option<DescriptionSlot> {
        let process = self.process_slot().ok()? as u64 + 1;
        let entries = self.session.descriptions();
        let high = &self.session.header().description_high;
        let start =
            self.description_hint.fetch_add(1, Ordering::Relaxed) as usize % DESCRIPTION_SLOTS;
        (start..DESCRIPTION_SLOTS).chain(0..start).find_map(|at| {
            self.session.back(&entries[at]).ok()?;
            let owner = &entries[at].owner;
            let free = owner.load(Ordering::Relaxed) == 0;
            if free {
                // Before the slot is taken: the reaper stops at this bound.
                high.fetch_max(at as u64 + 1, Ordering::AcqRel);
            }
            // The owner is stored in the same step that takes the slot: a death in between loses nothing.
            (free
                && owner
                    .compare_exchange(0, process, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok())
            .then_some(DescriptionSlot(at as u32))
        })
    }

    /// Give a slot back.
    pub fn description_free(&self, slot: DescriptionSlot) {
        if let Some(entry) = self.session.descriptions().get(slot.0 as usize) {
            entry.owner.store(0, Ordering::Release);
        }
    }

    /// Run `body` under the slot's lock (survives a dead owner). The lock is held across the kernel's
    /// lseek calls, never across anything that takes engine locks of another slot.
    ///
    /// # Errors
    /// `EBADF` for a slot that does not exist; `EIO` when its lock cannot be used any more. `body` did not run.
    pub fn description_locked<T>(
        &self,
        slot: DescriptionSlot,
        body: impl FnOnce() -> T,
    ) -> Outcome<T> {
        let entry = self.session.descriptions().get(slot.0 as usize);
        // It protects the kernel's position only, which is whole at any time.
        entry.ok_or(Errno(libc::EBADF))?.mutex.with(|| (), body)
    }

    /// Give back the slots of a dead process. Slots never used stay untouched memory: to look at them
    /// all would cost every process milliseconds at its end.
    pub(crate) fn reap_descriptions(&self, process: usize) {
        let high = &self.session.header().description_high;
        let high = (high.load(Ordering::Acquire) as usize).min(DESCRIPTION_SLOTS);
        for entry in &self.session.descriptions()[..high] {
            let _ = entry.owner.compare_exchange(
                process as u64 + 1,
                0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// Sum over all threads, living and dead, of the session.
    pub fn counters(&self) -> Counters {
        // A thread that ends during the computation would count twice: in its slot, and among the ended threads.
        let ended = || self.session.header().ended.all().map(load);
        for _ in 0..MAX_LOOKS {
            let before: Vec<u64> = ended().collect();
            let sum = self.counters_now();
            if ended().eq(before) {
                return sum;
            }
        }
        self.counters_now()
    }

    fn counters_now(&self) -> Counters {
        let header = self.session.header();
        let high = (header.thread_high.load(Ordering::Relaxed) as usize).min(THREAD_SLOTS);
        let mut sum = Counters::default();
        let sources = self.session.threads()[..high]
            .iter()
            .map(|slot| &slot.counters)
            .chain([&header.ended]);
        for source in sources {
            let words: Vec<u64> = source.all().map(load).collect();
            for pool in 0..16 {
                sum.read_bytes[pool] += words[pool];
                sum.written_bytes[pool] += words[16 + pool];
                sum.remote_of_pool_bytes[pool] += words[32 + pool];
            }
            sum.direct_calls += words[48];
            sum.passed_calls += words[49];
            sum.mount_requests += words[50];
            sum.checksum_failures += words[51];
            sum.admission_waits += words[52];
            sum.admission_waited_ns += words[53];
            sum.delegated_bytes += words[54];
            for (pool, asked) in sum.asked.iter_mut().enumerate() {
                asked.requests += words[55 + pool];
                asked.writes += words[71 + pool];
                asked.bytes += words[87 + pool];
            }
        }
        sum.remote_bytes = sum.remote_of_pool_bytes.iter().sum();
        let total = sum.read_bytes.iter().chain(&sum.written_bytes).sum::<u64>();
        // Threads count while we add up.
        sum.local_bytes = total.saturating_sub(sum.remote_bytes);
        sum
    }

    /// Count a call served directly (preload), passed on (preload), or a request (mount) for this thread.
    #[inline]
    pub fn count_direct(&self) {
        if let Ok(me) = self.me() {
            count(&me.slot.counters.direct_calls, 1);
        }
    }

    /// See `count_direct`.
    pub fn count_passed(&self) {
        if let Ok(me) = self.me() {
            count(&me.slot.counters.passed_calls, 1);
        }
    }

    /// See `count_direct`.
    pub fn count_mount_request(&self) {
        if let Ok(me) = self.me() {
            count(&me.slot.counters.mount_requests, 1);
        }
    }
}
