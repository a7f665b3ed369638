//! Accesses as the kernel's DAMON samples them.
//!
//! DAMON cuts the memory of a process into regions, and looks at one page of each in every sample: whether it was used
//! since the last one. Regions that are used alike are joined, others are cut further. So its cost follows from the number
//! of regions, and not from the size of memory or the number of mappings, and it tells used from unused memory within a
//! mapping.
//!
//! ```text
//!   keep ──▶ the processes that run most ──▶ Observer, a thread ──▶ kdamond, a thread of the kernel
//!                                                    │ regions with the share of samples that saw a use
//!   sample ◀── mappings with their nodes ◀── Seen ◀──┘
//! ```
//!
//! There is one set-up for the whole machine ([`Setup`](setup::Setup)). That of another program is left alone, and page
//! tables are asked instead, as for processes that are not observed (yet).

mod kernel;
mod observer;
mod pieces;
mod setup;
#[cfg(test)]
mod tests;
mod unusable;
mod used;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use egeria_facts::ProcessKey;

use super::mapped::{self, Mapped};
use super::referenced::{HotAreas, Referenced};
use super::sampler::{Sample, Sampler, Spent};
use crate::kernel::calls;
use crate::memory::located::BATCH_PAGES;
pub use kernel::{Kernel, Sysfs, check};
pub use observer::Notes;
use observer::{Observer, Seen};
use setup::MAX_TARGETS;
pub use setup::{Change, restore};
pub use unusable::Unusable;
use used::Used;

/// DAMON for the processes that run most, page tables for the others.
pub struct Damon {
    observer: Option<Observer>,
    tables: Referenced,
    known: HashMap<ProcessKey, Known>,
    targets: Vec<ProcessKey>,
}

/// What is known of a process.
#[derive(Debug, Default)]
struct Known {
    mapped: Mapped,
    /// Whether another program tracks its writes, as the page tables said.
    is_tracked: bool,
    /// For how many windows it ran.
    windows: u32,
}

/// What was seen longer ago says nothing any more.
const MAX_AGE: Duration = Duration::from_secs(60);
/// A process that ran for fewer windows is not observed: it may end soon, and all regions would be learned again.
const MIN_WINDOWS: u32 = 3;

impl Damon {
    /// Sets DAMON up for this machine. `notes` writes the journal, which undoes it after a kill ([`restore`]).
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn begin(
        kernel: Arc<dyn Kernel>,
        notes: Notes,
        tables: Referenced,
    ) -> Result<Damon, Unusable> {
        Ok(Damon {
            observer: Some(Observer::begin(kernel, notes)?),
            tables,
            known: HashMap::new(),
            targets: Vec::new(),
        })
    }

    /// Where what it finds used is noted.
    pub fn hot(&self) -> HotAreas {
        self.tables.hot()
    }

    /// What was seen, as long as DAMON is ours.
    fn seen(&mut self) -> Option<Arc<Seen>> {
        let observer = self.observer.as_ref()?;
        if let Some(why) = observer.lost() {
            tracing::warn!("accesses to memory are seen by page tables from now on: {why}");
            self.observer = None;
            return None;
        }
        observer.seen()
    }

    fn look(&mut self, process: ProcessKey, used: &[Used], sample: Duration) -> io::Result<Sample> {
        let moment = self.tables.moment();
        let known = self.known.entry(process).or_default();
        let mapped = &mut known.mapped;
        mapped.look(process.process_id, "maps")?;
        let busy = |share: f64| busy(share, sample, moment);
        let mut nodes = |pages: &[usize]| nodes_of(process, pages);
        let mut hot = pieces::of(used, mapped.parts(), busy, &mut nodes);
        mapped::sort_by_use(&mut hot);
        let sample = mapped.sample(process, &hot, moment);
        self.tables.hot().note(process, hot);
        Ok(Sample {
            is_tracked: known.is_tracked,
            ..sample
        })
    }
}

impl Sampler for Damon {
    fn sample(&mut self, processes: &[ProcessKey]) -> Vec<Sample> {
        let seen = self.seen().filter(|seen| seen.at.elapsed() < MAX_AGE);
        let used = |process: &ProcessKey| seen.as_ref()?.used.get(process);
        // Where nothing was seen used, page tables may know more: regions are still large at the begin.
        let (observed, others): (Vec<ProcessKey>, Vec<ProcessKey>) = processes
            .iter()
            .partition(|process| used(process).is_some_and(|used| !used.is_empty()));
        let mut samples = Vec::new();
        if !others.is_empty() {
            samples = self.tables.sample(&others);
        }
        for sample in &samples {
            let known = self.known.entry(sample.process).or_default();
            known.is_tracked = sample.is_tracked;
        }
        for process in observed {
            let Some((used, seen)) = used(&process).zip(seen.as_ref()) else {
                continue;
            };
            match self.look(process, used, seen.sample) {
                Ok(sample) => samples.push(sample),
                // It has ended.
                Err(_) => drop(self.known.remove(&process)),
            }
        }
        samples
    }

    fn looks_at_each(&self) -> bool {
        true
    }

    fn keep(&mut self, processes: &[ProcessKey]) {
        self.tables.keep(processes);
        self.known.retain(|process, _| processes.contains(process));
        for process in processes {
            let known = self.known.entry(*process).or_default();
            known.windows = known.windows.saturating_add(1);
        }
        let is_old = |process: &&ProcessKey| self.known[process].windows >= MIN_WINDOWS;
        let old: Vec<ProcessKey> = processes.iter().filter(is_old).copied().collect();
        let targets = choose(&self.targets, &old);
        if targets != self.targets {
            self.targets = targets;
            if let Some(observer) = &self.observer {
                observer.want(self.targets.clone());
            }
        }
    }

    fn take_spent(&mut self) -> Spent {
        let observer = self.observer.as_ref();
        observer.map(Observer::take_spent).unwrap_or_default()
    }
}

/// The processes to observe: those that are observed and still run, and then those that run most.
fn choose(observed: &[ProcessKey], processes: &[ProcessKey]) -> Vec<ProcessKey> {
    let stay = observed
        .iter()
        .filter(|process| processes.contains(process));
    let mut targets: Vec<ProcessKey> = stay.copied().collect();
    let others = processes
        .iter()
        .filter(|process| !observed.contains(process));
    targets.extend(
        others
            .copied()
            .take(MAX_TARGETS.saturating_sub(targets.len())),
    );
    targets
}

/// How much of some memory is used in a moment, if this share of samples saw a use of it: each page is used now and then
/// by itself.
fn busy(share: f64, sample: Duration, moment: Duration) -> f64 {
    let samples = moment.as_secs_f64() / sample.as_secs_f64().max(1e-6);
    1.0 - (1.0 - share.clamp(0.0, 1.0)).powf(samples)
}

fn nodes_of(process: ProcessKey, pages: &[usize]) -> Vec<i32> {
    let batches = pages.chunks(BATCH_PAGES);
    let answers = batches.flat_map(|batch| {
        let answer = calls::nodes_of(process.process_id, batch);
        answer.unwrap_or_else(|_| vec![-1; batch.len()])
    });
    answers.collect()
}
