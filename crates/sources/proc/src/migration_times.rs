//! How long the memory of processes has been migrated, what a gigabyte took, and which migrations have ended as far as
//! is known. Held once, and shared by the source of facts and the actuator.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use egeria_facts::{MigrationCost, ProcessKey};

/// Migrations that the cost is taken from: the last ones, so that it follows a change of load.
const MAX_SAMPLES: usize = 15;
/// Smaller migrations show what beginning one takes rather than what memory takes.
const MIN_SAMPLE_BYTES: u64 = 1 << 20;

/// Time spent on each process, all together.
#[derive(Clone, Debug, Default)]
pub struct MigrationTimes(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    spent_ns: HashMap<ProcessKey, u64>,
    wanted: HashSet<ProcessKey>,
    /// Bytes moved and ns taken, the oldest first.
    samples: VecDeque<(u64, u64)>,
}

impl MigrationTimes {
    /// Charges a process for a migration of this number of bytes, and takes what a gigabyte costs from it.
    pub fn migrated(&self, process: ProcessKey, bytes: u64, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut shared = self.lock();
        let spent_ns = shared.spent_ns.entry(process).or_default();
        *spent_ns = spent_ns.saturating_add(took_ns);
        if bytes < MIN_SAMPLE_BYTES || took_ns == 0 {
            return;
        }
        let samples = &mut shared.samples;
        samples.push_back((bytes, took_ns));
        if samples.len() > MAX_SAMPLES {
            samples.pop_front();
        }
    }

    /// What a gigabyte took: the median of the last migrations, the upper one of two. So one migration that was
    /// hindered does not decide.
    pub fn cost(&self) -> Option<MigrationCost> {
        let samples = self.lock().samples.clone();
        // 1 ns/byte is 1 s/GB.
        let costs = samples
            .iter()
            .map(|(bytes, took)| *took as f64 / *bytes as f64);
        let mut costs: Vec<f64> = costs.collect();
        costs.sort_by(f64::total_cmp);
        let bytes = samples.iter().map(|(bytes, _)| *bytes);
        Some(MigrationCost {
            s_per_gb: *costs.get(costs.len() / 2)?,
            bytes: bytes.fold(0, u64::saturating_add),
            migrations: costs.len() as u32,
        })
    }

    /// What a process was charged, ns.
    pub fn of(&self, process: ProcessKey) -> u64 {
        self.lock().spent_ns.get(&process).copied().unwrap_or(0)
    }

    /// Asks for another look at a process: some of its memory should go elsewhere, and what is known to be used is
    /// there already.
    pub fn want_look(&self, process: ProcessKey) {
        self.lock().wanted.insert(process);
    }

    /// Whether a look at it was requested since the last time; the request counts as served.
    pub fn take_wanted(&self, process: ProcessKey) -> bool {
        self.lock().wanted.remove(&process)
    }

    /// Forgets processes that are gone.
    pub fn retain(&self, is_there: impl Fn(ProcessKey) -> bool) {
        let mut shared = self.lock();
        shared.spent_ns.retain(|process, _| is_there(*process));
        shared.wanted.retain(|process| is_there(*process));
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated(times: &MigrationTimes, bytes: u64, ms: u64) {
        times.migrated(ProcessKey::default(), bytes, Duration::from_millis(ms));
    }

    fn s_per_gb(times: &MigrationTimes) -> Option<f64> {
        times.cost().map(|cost| cost.s_per_gb)
    }

    #[test]
    fn the_first_migration_gives_a_cost_and_one_outlier_does_not() {
        let times = MigrationTimes::default();
        assert_eq!(times.cost(), None);
        migrated(&times, 4096, 900);
        assert_eq!(times.cost(), None, "a page says nothing of a gigabyte");
        migrated(&times, 1_000_000_000, 400);
        assert_eq!(s_per_gb(&times), Some(0.4));
        migrated(&times, 2_000_000_000, 1000);
        assert_eq!(s_per_gb(&times), Some(0.5), "the dearer of two");
        for (ms, is) in [(60_000, 0.5), (450, 0.5), (1, 0.45)] {
            migrated(&times, 1_000_000_000, ms);
            assert_eq!(s_per_gb(&times), Some(is));
        }
        let cost = times.cost().unwrap();
        assert_eq!((cost.migrations, cost.bytes), (5, 6_000_000_000));
        assert_eq!(times.of(ProcessKey::default()), 62_751_000_000);
    }

    #[test]
    fn the_cost_follows_a_change_and_remembers_little() {
        let times = MigrationTimes::default();
        for _ in 0..100 {
            migrated(&times, 1 << 30, 100);
        }
        for _ in 0..8 {
            migrated(&times, 1_000_000_000, 2000);
        }
        let cost = times.cost().unwrap();
        assert_eq!((cost.s_per_gb, cost.migrations), (2.0, 15));
    }
}
