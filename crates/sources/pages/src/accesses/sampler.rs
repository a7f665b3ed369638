//! Contracts: the sampler, and its result.

use std::time::Duration;

use egeria_facts::ProcessKey;
use egeria_machine::NodeId;

use super::region::Region;
use crate::NodeBytes;

/// What one process did in a short time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub process: ProcessKey,
    /// Memory that it accessed at least once, by node.
    pub accessed: NodeBytes,
    /// All memory that it has, by node.
    pub resident: NodeBytes,
    /// Where the sampler knows it: what threads on each node accessed, by the node of the memory. Else empty.
    pub from: Vec<(NodeId, NodeBytes)>,
    /// What was accessed beyond `from`, where that is known of a part only: by which threads is not known.
    pub unassigned: NodeBytes,
    /// Entries of its page tables, as far as the sampler knows: each is a fault if all are written again.
    pub pages: u64,
    /// Another program tracks which of its pages are written, by clearing bits that a look would clear as well.
    pub is_tracked: bool,
    /// Its memory in parts, the most used first, as far as the sampler knows parts.
    pub regions: Vec<Region>,
    /// How long it was looked at.
    pub took: Duration,
}

/// Looks at processes.
pub trait Sampler: Send {
    /// Looks at all of these for the same moment; those that are gone or may not be looked at are left out.
    fn sample(&mut self, processes: &[ProcessKey]) -> Vec<Sample>;

    /// Finds out more of these samples; of those processes that have busy threads on several nodes.
    fn refine(&mut self, _samples: &mut [Sample], _spread: &[ProcessKey]) {}

    /// Whether one process can be looked at without the others. Else all are asked for whenever one is.
    fn looks_at_each(&self) -> bool {
        false
    }

    /// Forgets what it knows of others than these, of which the first run most.
    fn keep(&mut self, _processes: &[ProcessKey]) {}

    /// CPU time that was spent for it on other threads since the last call.
    fn take_spent(&mut self) -> Spent {
        Spent::default()
    }
}

/// CPU time that looks take on other threads than that which calls.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Spent {
    /// On threads of this process.
    pub own: Duration,
    /// On threads of the kernel.
    pub kernel: Duration,
}

impl Sampler for Box<dyn Sampler> {
    fn sample(&mut self, processes: &[ProcessKey]) -> Vec<Sample> {
        (**self).sample(processes)
    }

    fn refine(&mut self, samples: &mut [Sample], spread: &[ProcessKey]) {
        (**self).refine(samples, spread);
    }

    fn looks_at_each(&self) -> bool {
        (**self).looks_at_each()
    }

    fn keep(&mut self, processes: &[ProcessKey]) {
        (**self).keep(processes);
    }

    fn take_spent(&mut self) -> Spent {
        (**self).take_spent()
    }
}

/// Finds pages that are used.
pub trait HotPages: Send {
    /// Addresses of the most used pages of a process that lie on one of these nodes, those of the hottest memory
    /// first, with the node of each; at most `max`.
    fn hot_pages(&mut self, process: ProcessKey, on: &[NodeId], max: usize)
    -> Vec<(usize, NodeId)>;

    /// The memory of a process that was seen used, in parts, the most used first.
    fn regions(&self, process: ProcessKey) -> Vec<Region>;
}
