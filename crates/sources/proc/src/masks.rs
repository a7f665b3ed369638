//! The CPU masks of threads: what owners allowed and what was applied in its place. Held once, and shared by the source
//! of facts and the actuator.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egeria_facts::{CpuSet, ThreadKey};
use serde::{Deserialize, Serialize};

use crate::task;

/// A mask that was applied to a thread.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AppliedMask {
    pub thread: ThreadKey,
    /// What its owner allowed.
    pub original: CpuSet,
    /// What it got instead.
    pub applied: CpuSet,
}

/// The masks of all threads watched.
#[derive(Debug, Default)]
pub struct Masks {
    /// Threads of a process are next to each other.
    threads: BTreeMap<ThreadKey, Mask>,
    /// What is applied in each process, once per kind: a new thread is compared with these, not with all threads.
    kinds: HashMap<u32, Vec<Kind>>,
    /// Masks of threads that ended: threads that they started keep these masks. One of each kind per process.
    ended: Vec<AppliedMask>,
}

#[derive(Debug)]
struct Mask {
    original: CpuSet,
    applied: Option<CpuSet>,
    /// Its owner bound it to fewer CPUs than its process, or than it had.
    pinned: bool,
}

/// A mask applied to threads with the same mask from their owner.
#[derive(Debug)]
struct Kind {
    applied: CpuSet,
    original: CpuSet,
    threads: usize,
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

    /// Whether a thread's owner bound it to CPUs.
    pub fn is_pinned(&self, thread: ThreadKey) -> bool {
        self.threads.get(&thread).is_some_and(|mask| mask.pinned)
    }

    /// A thread has these CPUs now; returns what its owner allows. A new thread inherits its parent's mask. If that
    /// mask was applied by us, its owner allowed what the parent's did. For a known thread see [`Masks::look`].
    pub fn meet(&mut self, thread: ThreadKey, now: &CpuSet) -> CpuSet {
        self.look(thread, now);
        if let Some(original) = self.original(thread) {
            return original.clone();
        }
        let own = self.applied_in(thread.process_id, now);
        let may_inherit = own.is_none() && !self.kinds.is_empty();
        let parent = may_inherit.then(|| task::parent(thread.process_id));
        let of_parent = parent.flatten().and_then(|id| self.applied_in(id, now));
        // A process may leave its parent, and begin others itself: what it inherited counts as applied to it.
        let applied = of_parent.is_some().then(|| now.clone());
        let original = own.or(of_parent).unwrap_or_else(|| now.clone());
        let mask = Mask {
            pinned: self.is_narrower_than_process(thread, &original),
            original: original.clone(),
            applied: None,
        };
        self.threads.insert(thread, mask);
        if applied.is_some() {
            self.set_applied(thread, applied);
        }
        original
    }

    /// What the owner of a process allowed where this mask is applied in it.
    fn applied_in(&self, process: u32, now: &CpuSet) -> Option<CpuSet> {
        let mut kinds = self.kinds.get(&process)?.iter();
        let kind = kinds.find(|kind| kind.applied == *now)?;
        Some(kind.original.clone())
    }

    /// Whether a thread may use fewer CPUs than the first thread of its process.
    fn is_narrower_than_process(&self, thread: ThreadKey, original: &CpuSet) -> bool {
        let process_id = thread.process_id;
        if process_id == thread.thread_id {
            return false;
        }
        let first = |start_ticks| ThreadKey {
            process_id,
            thread_id: process_id,
            start_ticks,
        };
        let mut firsts = self.threads.range(first(0)..=first(u64::MAX));
        let first = firsts.next_back();
        let first = match first {
            Some((_, mask)) => Some(mask.original.clone()),
            None => task::affinity(process_id).ok(),
        };
        first.is_some_and(|first| *original != first && original.is_subset(&first))
    }

    /// A known thread has these CPUs now. If they are neither what its owner allowed nor what was applied, its owner
    /// changed them: returns whether that is so.
    pub fn look(&mut self, thread: ThreadKey, now: &CpuSet) -> bool {
        let Some(mask) = self.threads.get_mut(&thread) else {
            return false;
        };
        if *now == mask.original || mask.applied.as_ref() == Some(now) {
            return false;
        }
        mask.pinned = now.is_subset(&mask.original);
        let original = std::mem::replace(&mut mask.original, now.clone());
        if let Some(applied) = mask.applied.take() {
            self.uncount(thread.process_id, &applied, &original);
        }
        true
    }

    /// These CPUs were applied to a thread; `None`: it has its owner's again.
    pub fn set_applied(&mut self, thread: ThreadKey, applied: Option<CpuSet>) {
        let Some(mask) = self.threads.get_mut(&thread) else {
            return;
        };
        let original = mask.original.clone();
        let before = std::mem::replace(&mut mask.applied, applied.clone());
        if let Some(applied) = applied {
            self.count(thread.process_id, applied, &original);
        }
        if let Some(before) = before {
            self.uncount(thread.process_id, &before, &original);
        }
    }

    fn count(&mut self, process_id: u32, applied: CpuSet, original: &CpuSet) {
        let kinds = self.kinds.entry(process_id).or_default();
        match kinds.iter_mut().find(|kind| kind.is(&applied, original)) {
            Some(kind) => kind.threads += 1,
            None => kinds.push(Kind {
                applied,
                original: original.clone(),
                threads: 1,
            }),
        }
    }

    fn uncount(&mut self, process_id: u32, applied: &CpuSet, original: &CpuSet) {
        let Some(kinds) = self.kinds.get_mut(&process_id) else {
            return;
        };
        if let Some(kind) = kinds.iter_mut().find(|kind| kind.is(applied, original)) {
            kind.threads -= 1;
        }
        kinds.retain(|kind| kind.threads > 0);
        if kinds.is_empty() {
            self.kinds.remove(&process_id);
        }
    }

    /// A thread may have ended with an applied mask: threads that it started have that mask.
    pub fn remember_ended(&mut self, applied: AppliedMask) {
        let kind = |each: &AppliedMask| (each.thread.process_id, each.applied.clone());
        if !self.ended.iter().any(|each| kind(each) == kind(&applied)) {
            self.ended.push(applied);
        }
    }

    /// Forgets threads that are not in `living`, but keeps the masks that their children may have.
    pub fn retain(&mut self, living: &HashSet<ThreadKey>) {
        let mut applied: Vec<AppliedMask> = Vec::new();
        self.threads.retain(|thread, mask| {
            let stays = living.contains(thread);
            applied.extend(mask.applied_to(*thread).filter(|_| !stays));
            stays
        });
        if applied.is_empty() {
            return;
        }
        for each in applied {
            self.uncount(each.thread.process_id, &each.applied, &each.original);
            self.remember_ended(each);
        }
        self.ended.retain(|each| task::is_process_of(each.thread));
    }

    /// The masks applied now, and those of threads that ended with one.
    pub fn applied(&self) -> (Vec<AppliedMask>, Vec<AppliedMask>) {
        let living = self.threads.iter();
        let living = living.filter_map(|(thread, mask)| mask.applied_to(*thread));
        (living.collect(), self.ended.clone())
    }
}

impl Kind {
    fn is(&self, applied: &CpuSet, original: &CpuSet) -> bool {
        self.applied == *applied && self.original == *original
    }
}

impl Mask {
    fn applied_to(&self, thread: ThreadKey) -> Option<AppliedMask> {
        Some(AppliedMask {
            thread,
            original: self.original.clone(),
            applied: self.applied.clone()?,
        })
    }
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
    fn an_inherited_mask_has_the_parents_original() {
        let mut masks = Masks::default();
        masks.meet(key(9, 1), &cpus("0-3"));
        masks.set_applied(key(9, 1), Some(cpus("0-1")));
        assert_eq!(masks.meet(key(9, 2), &cpus("0-1")), cpus("0-3"));
        assert_eq!(masks.meet(key(9, 3), &cpus("2")), cpus("2"));
    }

    /// Of this process: the one that it began has what that one began as well.
    #[test]
    fn what_a_process_inherited_counts_as_applied_to_it() {
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("1000").spawn().unwrap();
        let mut masks = Masks::default();
        masks.meet(key(own, own), &cpus("0-3"));
        masks.set_applied(key(own, own), Some(cpus("0-1")));
        let of_child = masks.meet(key(child.id(), child.id()), &cpus("0-1"));
        let of_thread = masks.meet(key(child.id(), u32::MAX), &cpus("0-1"));
        let bound = masks.meet(key(child.id(), u32::MAX - 1), &cpus("0"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!([of_child, of_thread], [cpus("0-3"), cpus("0-3")]);
        assert_eq!(bound, cpus("0"));
        assert_eq!(masks.applied().0.len(), 2, "it is restored by itself");
    }

    #[test]
    fn only_an_owners_change_replaces_the_original() {
        let mut masks = Masks::default();
        let thread = key(9, 1);
        masks.meet(thread, &cpus("0-3"));
        masks.set_applied(thread, Some(cpus("0-1")));
        assert!(!masks.look(thread, &cpus("0-1")));
        assert!(!masks.look(thread, &cpus("0-3")));
        assert!(masks.look(thread, &cpus("2")));
        assert_eq!(masks.original(thread), Some(&cpus("2")));
        assert!(masks.is_pinned(thread));
        assert_eq!(masks.applied(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn meeting_a_known_thread_keeps_its_original() {
        let mut masks = Masks::default();
        let thread = key(9, 1);
        masks.meet(thread, &cpus("0-3"));
        masks.set_applied(thread, Some(cpus("0-1")));
        assert_eq!(masks.meet(thread, &cpus("0-1")), cpus("0-3"));
        assert_eq!(masks.applied().0.len(), 1, "it is still to be restored");
        assert!(!masks.look(thread, &cpus("0-1")));
    }

    #[test]
    fn a_thread_with_fewer_cpus_than_its_process_is_pinned() {
        let mut masks = Masks::default();
        masks.meet(key(9, 9), &cpus("0-3"));
        masks.meet(key(9, 2), &cpus("0-1"));
        masks.meet(key(9, 3), &cpus("0-3"));
        assert!(!masks.is_pinned(key(9, 9)) && !masks.is_pinned(key(9, 3)));
        assert!(masks.is_pinned(key(9, 2)));
    }

    #[test]
    fn what_is_applied_no_more_is_not_inherited() {
        let mut masks = Masks::default();
        let moved = || key(9, 1);
        masks.meet(moved(), &cpus("0-3"));
        masks.set_applied(moved(), Some(cpus("0-1")));
        masks.set_applied(moved(), Some(cpus("2-3")));
        assert_eq!(masks.meet(key(9, 2), &cpus("0-1")), cpus("0-1"));
        assert_eq!(masks.meet(key(9, 3), &cpus("2-3")), cpus("0-3"));
        assert_eq!(
            masks.meet(key(8, 1), &cpus("2-3")),
            cpus("2-3"),
            "another's"
        );
        masks.set_applied(moved(), None);
        assert_eq!(masks.meet(key(9, 4), &cpus("2-3")), cpus("2-3"));
        masks.set_applied(moved(), Some(cpus("2-3")));
        masks.retain(&HashSet::new());
        assert!(masks.kinds.is_empty());
    }

    /// Comparing each thread with each other would be 10 billion comparisons: minutes.
    #[test]
    fn a_hundred_thousand_threads_are_met_one_by_one() {
        const THREADS: u32 = 100_000;
        let (wide, narrow) = (cpus("0-3"), cpus("0-1"));
        let mut masks = Masks::default();
        let begin = std::time::Instant::now();
        for thread in 1..=THREADS {
            masks.meet(key(u32::MAX, thread), &wide);
            masks.set_applied(key(u32::MAX, thread), Some(narrow.clone()));
        }
        for thread in 1..=THREADS {
            let heir = key(u32::MAX, THREADS + thread);
            assert_eq!(masks.meet(heir, &narrow), wide);
        }
        assert_eq!(masks.applied().0.len(), THREADS as usize);
        masks.retain(&HashSet::new());
        assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    }

    #[test]
    fn ended_threads_are_remembered_once_per_mask() {
        let mut masks = Masks::default();
        let own = std::process::id();
        let start_ticks = task::start_ticks(own, own).unwrap();
        for thread_id in [1, 2] {
            let thread = ThreadKey {
                process_id: own,
                thread_id,
                start_ticks,
            };
            masks.meet(thread, &cpus("0-3"));
            masks.set_applied(thread, Some(cpus("0-1")));
        }
        masks.retain(&HashSet::new());
        let (living, ended) = masks.applied();
        assert_eq!((living.len(), ended.len()), (0, 1));
    }
}
