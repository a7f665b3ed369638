//! Which threads write which memory: a refinement of page tables, or of DAMON.
//!
//! The kernel write-protects all pages of a process when `/proc/PID/clear_refs` clears the bits that say which were
//! written. Then the next write of each page is a minor fault, and samples of page faults say the address and the CPU
//! that it came from. Memory that is only read has no such faults: which threads read it stays unknown.
//!
//! A look costs the process a fault for each page that it writes, so looks rest in proportion. A fault says which thread
//! was first to write a page; what several looks find is added up, with the older ones counting less.

mod known;
mod live;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use egeria_facts::ProcessKey;
use egeria_machine::NodeId;

use super::referenced::HotAreas;
use super::region::Region;
use super::sampler::{HotPages, Sample, Sampler, Spent};
use crate::NodeBytes;
use known::Known;
pub use live::LiveFaults;

/// What a fault costs the process: half a microsecond to one, and its pages leave the TLB.
const FAULT_NS: u64 = 1000;
/// Part of its time that a process may lose by these faults.
const SHARE: f64 = 0.005;
/// A process that would lose more in one look is not looked at.
const MAX_COST: Duration = Duration::from_secs(2);
const MIN_REST: Duration = Duration::from_secs(5);

/// Finds which threads write.
pub trait WriteFaults: Send {
    /// Pages of these processes that were written in a moment, with the node of the thread and a weight.
    fn look(&mut self, processes: &[ProcessKey]) -> Vec<(ProcessKey, usize, NodeId, u64)>;
}

/// Another sampler that finds mappings, and write faults where they say more.
pub struct Written<S, F> {
    inner: S,
    areas: HotAreas,
    faults: F,
    writers: Writers,
}

/// What was written from which nodes. Clones share it.
#[derive(Clone, Debug, Default)]
struct Writers(Arc<Mutex<HashMap<ProcessKey, Looked>>>);

/// What is known of one process, and when to look again.
#[derive(Clone, Debug)]
struct Looked {
    known: Known,
    rest_until: Instant,
}

/// The memory that was found used, with what is known of its writers.
pub struct HotWritten {
    areas: HotAreas,
    writers: Writers,
}

impl<S: Sampler, F: WriteFaults> Written<S, F> {
    /// On top of looks by another sampler, which notes here what it finds used.
    pub fn new(inner: S, areas: HotAreas, faults: F) -> Written<S, F> {
        Written {
            inner,
            areas,
            faults,
            writers: Writers::default(),
        }
    }

    /// Where what it finds is noted.
    pub fn hot(&self) -> HotWritten {
        HotWritten {
            areas: self.areas.clone(),
            writers: self.writers.clone(),
        }
    }

    /// Looks at those of these processes for which it is time.
    fn look(&mut self, samples: &[&Sample]) {
        let due: Vec<ProcessKey> = samples
            .iter()
            .filter(|sample| self.writers.begin_look(sample, Instant::now()))
            .map(|sample| sample.process)
            .collect();
        if due.is_empty() {
            return;
        }
        let found = self.faults.look(&due);
        tracing::debug!(
            processes = due.len(),
            faults = found.len(),
            "writes were looked at"
        );
        let mut all = self.writers.lock();
        for (process, page, node, weight) in found {
            if let Some(looked) = all.get_mut(&process) {
                looked.known.add(page, node, weight);
            }
        }
    }
}

impl<S: Sampler, F: WriteFaults> Sampler for Written<S, F> {
    fn sample(&mut self, processes: &[ProcessKey]) -> Vec<Sample> {
        self.inner.sample(processes)
    }

    fn refine(&mut self, samples: &mut [Sample], spread: &[ProcessKey]) {
        let of_interest = |sample: &&Sample| spread.contains(&sample.process);
        self.look(&samples.iter().filter(of_interest).collect::<Vec<_>>());
        let all = self.writers.lock();
        for sample in samples {
            let looked = all.get(&sample.process);
            if let Some(looked) = looked.filter(|_| spread.contains(&sample.process)) {
                sample.regions = looked.known.refined(std::mem::take(&mut sample.regions));
                assign(sample);
                tracing::debug!(
                    process = sample.process.process_id,
                    is_known = !sample.from.is_empty(),
                    regions = ?sample.regions.iter().map(shown).collect::<Vec<_>>(),
                    "writers of memory"
                );
            }
        }
    }

    fn looks_at_each(&self) -> bool {
        true
    }

    fn keep(&mut self, processes: &[ProcessKey]) {
        self.inner.keep(processes);
        let mut all = self.writers.lock();
        all.retain(|process, _| processes.contains(process));
    }

    fn take_spent(&mut self) -> Spent {
        self.inner.take_spent()
    }
}

/// A region for the log: its begin, MiB, and accessor.
fn shown(region: &Region) -> (String, usize, Option<NodeId>) {
    let start = format!("{:x}", region.range.start);
    (start, region.range.len() >> 20, region.accessor())
}

/// What is accessed goes to the nodes whose threads write it, and the rest to none, if most is known.
fn assign(sample: &mut Sample) {
    let (mut from, mut rest) = (Vec::<(NodeId, NodeBytes)>::new(), NodeBytes::default());
    for region in &sample.regions {
        if region.from.is_empty() {
            rest.add_all(&region.resident.scaled_to(region.accessed_bytes));
        }
        for (node, bytes) in &region.from {
            let accessed = region.resident.scaled_to(*bytes);
            match from.iter_mut().find(|(known, _)| known == node) {
                Some((_, sum)) => sum.add_all(&accessed),
                None => from.push((*node, accessed)),
            }
        }
    }
    let known = from.iter().map(|(_, accessed)| accessed.total());
    let known = known.fold(0, u64::saturating_add);
    if known > 0 && known >= rest.total() {
        (sample.from, sample.unassigned) = (from, rest);
    }
}

impl Writers {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessKey, Looked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a process may be looked at now; the look is noted.
    fn begin_look(&self, sample: &Sample, now: Instant) -> bool {
        let cost = Duration::from_nanos(sample.pages.saturating_mul(FAULT_NS));
        let mut all = self.lock();
        let looked = all.get_mut(&sample.process);
        let rests = looked.as_ref().is_some_and(|each| now < each.rest_until);
        // What another program tracks would be lost to it.
        let is_foreign = sample.is_tracked && looked.is_none();
        if rests || is_foreign || cost > MAX_COST {
            return false;
        }
        let rest_until = now + cost.div_f64(SHARE).max(MIN_REST);
        match looked {
            Some(looked) => {
                looked.rest_until = rest_until;
                looked.known.age();
            }
            None => {
                let known = Known::default();
                all.insert(sample.process, Looked { known, rest_until });
            }
        }
        true
    }
}

impl HotPages for HotWritten {
    fn hot_pages(
        &mut self,
        process: ProcessKey,
        on: &[NodeId],
        max: usize,
    ) -> Vec<(usize, NodeId)> {
        self.areas.hot_pages(process, on, max)
    }

    fn regions(&self, process: ProcessKey) -> Vec<Region> {
        let regions = self.areas.regions(process);
        match self.writers.lock().get(&process) {
            Some(looked) => looked.known.refined(regions),
            None => regions,
        }
    }
}

#[cfg(test)]
mod tests;
