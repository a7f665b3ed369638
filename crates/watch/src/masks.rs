//! The CPU masks of threads: what owners allowed and what was applied in its place. Held once, and shared by the source
//! of facts and the actuator.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egeria_facts::{CpuSet, ThreadKey};
use serde::{Deserialize, Serialize};

use crate::task;

/// One thread whose CPUs were narrowed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NarrowedThread {
    /// Which thread.
    pub thread: ThreadKey,
    /// What its owner allowed.
    pub original: CpuSet,
    /// What it got instead.
    pub applied: CpuSet,
}

/// The masks of all threads watched.
#[derive(Debug, Default)]
pub struct Masks {
    threads: HashMap<ThreadKey, Mask>,
    /// Of threads that ended: what they started goes on with their masks. One of each kind per process.
    ended: Vec<NarrowedThread>,
}

#[derive(Debug)]
struct Mask {
    original: CpuSet,
    applied: Option<CpuSet>,
}

/// The masks, shared by the source of facts and the actuator.
#[derive(Clone, Debug, Default)]
pub struct SharedMasks(Arc<Mutex<Masks>>);

impl SharedMasks {
    /// Exclusive access; not to be held across a wait.
    pub fn lock(&self) -> MutexGuard<'_, Masks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Masks {
    /// What a thread's owner allowed.
    pub fn original(&self, thread: ThreadKey) -> Option<&CpuSet> {
        self.threads.get(&thread).map(|mask| &mask.original)
    }

    /// Takes a thread in that has these CPUs now. A new thread inherits its parent's mask: where that was applied by us,
    /// its owner allowed what the parent's did.
    pub(crate) fn meet(&mut self, thread: ThreadKey, now: CpuSet) {
        let parent = task::parent(thread.process_id);
        let related = |other: &ThreadKey| {
            other.process_id == thread.process_id || parent == Some(other.process_id)
        };
        let mut others = self.threads.iter();
        let heir_of =
            others.find(|(other, mask)| mask.applied.as_ref() == Some(&now) && related(other));
        let original = heir_of.map_or(now, |(_, mask)| mask.original.clone());
        let mask = Mask {
            original,
            applied: None,
        };
        self.threads.insert(thread, mask);
    }

    /// A known thread has these CPUs now. When they are neither what its owner allowed nor what was applied, the owner
    /// decided anew: says so.
    pub fn look(&mut self, thread: ThreadKey, now: &CpuSet) -> Option<OwnerChange> {
        let mask = self.threads.get_mut(&thread)?;
        if *now == mask.original || mask.applied.as_ref() == Some(now) {
            return None;
        }
        let is_narrower = now.is_subset(&mask.original);
        (mask.original, mask.applied) = (now.clone(), None);
        Some(OwnerChange { is_narrower })
    }

    /// A thread was narrowed to these CPUs; `None`: it has its owner's again.
    pub fn set_applied(&mut self, thread: ThreadKey, applied: Option<CpuSet>) {
        if let Some(mask) = self.threads.get_mut(&thread) {
            mask.applied = applied;
        }
    }

    /// A thread that may have ended while it was narrowed: what it started has that mask.
    pub fn remember_ended(&mut self, narrowed: NarrowedThread) {
        let kind = |each: &NarrowedThread| (each.thread.process_id, each.applied.clone());
        if !self.ended.iter().any(|each| kind(each) == kind(&narrowed)) {
            self.ended.push(narrowed);
        }
    }

    /// Forgets threads that are not among the living, but not what those they started may have of them.
    pub(crate) fn retain(&mut self, living: &HashSet<ThreadKey>) {
        let gone = self
            .threads
            .extract_if(|thread, _| !living.contains(thread));
        let narrowed: Vec<NarrowedThread> = gone
            .filter_map(|(thread, mask)| mask.narrowed(thread))
            .collect();
        if narrowed.is_empty() {
            return;
        }
        for each in narrowed {
            self.remember_ended(each);
        }
        self.ended.retain(|each| task::is_process_of(each.thread));
    }

    /// The threads that are narrowed now, and those that were when they ended.
    pub fn narrowed(&self) -> (Vec<NarrowedThread>, Vec<NarrowedThread>) {
        let living = self.threads.iter();
        let living = living.filter_map(|(thread, mask)| mask.narrowed(*thread));
        (living.collect(), self.ended.clone())
    }
}

impl Mask {
    fn narrowed(&self, thread: ThreadKey) -> Option<NarrowedThread> {
        Some(NarrowedThread {
            thread,
            original: self.original.clone(),
            applied: self.applied.clone()?,
        })
    }
}

/// An owner changed the CPUs of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerChange {
    /// To some of those it had.
    pub is_narrower: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(process_id: u32, thread_id: u32) -> ThreadKey {
        ThreadKey {
            process_id,
            thread_id,
            start_ticks: 1,
        }
    }

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn a_thread_that_inherits_an_applied_mask_has_its_parents_original() {
        let mut masks = Masks::default();
        masks.meet(key(9, 1), cpus("0-3"));
        masks.set_applied(key(9, 1), Some(cpus("0-1")));
        masks.meet(key(9, 2), cpus("0-1"));
        assert_eq!(masks.original(key(9, 2)), Some(&cpus("0-3")));
        masks.meet(key(9, 3), cpus("2"));
        assert_eq!(masks.original(key(9, 3)), Some(&cpus("2")));
    }

    #[test]
    fn only_an_owners_change_takes_the_place_of_the_original() {
        let mut masks = Masks::default();
        let thread = key(9, 1);
        masks.meet(thread, cpus("0-3"));
        masks.set_applied(thread, Some(cpus("0-1")));
        assert_eq!(masks.look(thread, &cpus("0-1")), None);
        assert_eq!(masks.look(thread, &cpus("0-3")), None);
        assert_eq!(
            masks.look(thread, &cpus("2")),
            Some(OwnerChange { is_narrower: true })
        );
        assert_eq!(masks.original(thread), Some(&cpus("2")));
        assert_eq!(masks.narrowed(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn threads_that_ended_narrowed_are_remembered_once_per_kind() {
        let mut masks = Masks::default();
        let own = std::process::id();
        let start_ticks = task::start_ticks(own, own).unwrap();
        for thread_id in [1, 2] {
            let thread = ThreadKey {
                process_id: own,
                thread_id,
                start_ticks,
            };
            masks.meet(thread, cpus("0-3"));
            masks.set_applied(thread, Some(cpus("0-1")));
        }
        masks.retain(&HashSet::new());
        let (living, ended) = masks.narrowed();
        assert_eq!((living.len(), ended.len()), (0, 1));
    }
}
