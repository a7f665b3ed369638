//! Slots of open descriptions: a lock per kernel file position, and the session's sums.

use crate::requests::Counters;
use crate::session::layout::DESCRIPTION_SLOTS;
use crate::session::map::Session;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often to compute sums again when they changed during the computation.
pub(in crate::session) const MAX_LOOKS: u32 = 16;

pub(in crate::session) fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

impl Session {
    /// Give back the slots of a dead process. Slots never used stay untouched memory: to look at them
    /// all would cost every process milliseconds at its end.
    pub(crate) fn reap_descriptions(&self, process: usize) {
        let high = &self.header().description_high;
        let high = (high.load(Ordering::Acquire) as usize).min(DESCRIPTION_SLOTS);
        for entry in &self.descriptions()[..high] {
            let _ = entry.owner.compare_exchange(
                process as u64 + 1,
                0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    pub(in crate::session) fn counters_now(&self) -> Counters {
        let header = self.header();
        let mut sum = Counters::default();
        let sources = (self.used_threads().iter())
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
}
