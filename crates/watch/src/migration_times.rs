//! How long the memory of processes has been migrated. Held once, and shared by the source of facts and the actuator.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use egeria_facts::ProcessKey;

/// Time spent on each process, all together.
#[derive(Clone, Debug, Default)]
pub struct MigrationTimes(Arc<Mutex<HashMap<ProcessKey, u64>>>);

impl MigrationTimes {
    /// Charges a process.
    pub fn add(&self, process: ProcessKey, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut times = self.lock();
        let spent_ns = times.entry(process).or_default();
        *spent_ns = spent_ns.saturating_add(took_ns);
    }

    /// What a process was charged, ns.
    pub fn of(&self, process: ProcessKey) -> u64 {
        self.lock().get(&process).copied().unwrap_or(0)
    }

    /// Forgets processes that are gone.
    pub fn retain(&self, is_there: impl Fn(ProcessKey) -> bool) {
        self.lock().retain(|process, _| is_there(*process));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessKey, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
