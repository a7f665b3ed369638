//! From where to where the threads of processes were moved: memory follows these moves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egeria_facts::ProcessKey;
use egeria_machine::NodeId;

/// A node that was left, and where its threads went.
type Pairs = Vec<(NodeId, NodeId)>;

/// The last move of each process, shared by the actuators of threads and of memory.
#[derive(Clone, Debug, Default)]
pub struct Departures(Arc<Mutex<HashMap<ProcessKey, Pairs>>>);

impl Departures {
    /// Threads of a process left a node.
    pub(crate) fn add(&self, process: ProcessKey, from: NodeId, to: NodeId) {
        let mut all = self.lock();
        let pairs = all.entry(process).or_default();
        pairs.retain(|(other, _)| *other != from);
        pairs.push((from, to));
    }

    /// Which nodes threads of a process left.
    pub(crate) fn of(&self, process: ProcessKey) -> Pairs {
        self.lock().get(&process).cloned().unwrap_or_default()
    }

    /// Its memory has followed, or does not follow any more.
    pub(crate) fn forget(&self, process: ProcessKey) {
        self.lock().remove(&process);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessKey, Pairs>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
