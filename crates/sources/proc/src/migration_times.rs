//! How long the memory of processes has been migrated, and which migrations have ended as far as is known. Held once,
//! and shared by the source of facts and the actuator.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use egeria_facts::ProcessKey;

/// Time spent on each process, all together.
#[derive(Clone, Debug, Default)]
pub struct MigrationTimes(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    spent_ns: HashMap<ProcessKey, u64>,
    wanted: HashSet<ProcessKey>,
}

impl MigrationTimes {
    /// Charges a process.
    pub fn add(&self, process: ProcessKey, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut shared = self.lock();
        let spent_ns = shared.spent_ns.entry(process).or_default();
        *spent_ns = spent_ns.saturating_add(took_ns);
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
