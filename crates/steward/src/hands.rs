//! Doing what a plan says, and undoing all of it.

use std::collections::HashMap;
use std::io;

use egeria_machine::{Machine, NodeId};
use egeria_watch::live::LiveWatch;
use egeria_watch::task;
use egeria_window::{CpuSet, ThreadKey};

use crate::grants::{Grant, Grants, put_back};
use crate::log::Outcome;

/// Narrows threads and remembers it.
pub(crate) struct Hands {
    grants: Grants,
    held: HashMap<ThreadKey, Grant>,
    /// Of threads that ended: what they started goes on with their masks. One of each kind per process.
    ended: Vec<Grant>,
}

impl Hands {
    pub(crate) fn new(grants: Grants) -> Hands {
        Hands {
            grants,
            held: HashMap::new(),
            ended: Vec::new(),
        }
    }

    /// Let a thread run on this node only.
    pub(crate) fn bring(
        &mut self,
        watch: &mut LiveWatch,
        thread: ThreadKey,
        node: NodeId,
    ) -> Outcome {
        let before = watch.given(thread).cloned();
        if before.is_some() && !watch.is_as_given(thread) && watch.given(thread).is_some() {
            return Outcome::Refused {
                why: "its owner bound it to other CPUs just now".to_owned(),
            };
        }
        let Some(given) = watch.given(thread).cloned() else {
            return Outcome::Vanished;
        };
        let narrowed = given.intersection(&cpus_of(watch.machine(), node));
        if narrowed.is_empty() {
            return Outcome::Refused {
                why: format!("none of the CPUs it was given is on node {}", node.0),
            };
        }
        let grant = Grant {
            thread,
            given,
            narrowed,
        };
        match self.narrow(watch, &grant) {
            Ok(()) => {
                watch.note_narrowed(thread, Some(grant.narrowed.clone()));
                self.held.insert(thread, grant);
                Outcome::Done
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Outcome::Vanished,
            Err(error) => Outcome::Refused {
                why: refusal(&error),
            },
        }
    }

    fn narrow(&mut self, watch: &LiveWatch, grant: &Grant) -> io::Result<()> {
        let key = grant.thread;
        // Known to the next steward before it is true.
        self.grants.add(grant)?;
        let before = task::affinity(key.thread_id)?;
        // As late as can be: its id may be another's by now, or its process another program.
        if !watch.is_member(key) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        task::set_affinity(key.thread_id, &grant.narrowed)?;
        if !task::is_still(key) {
            // It ended between the two calls: whoever has its id now is no business of ours.
            let _ = task::set_affinity(key.thread_id, &before);
            self.remember_ended(grant.clone());
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        match task::affinity(key.thread_id) {
            Ok(now) if now == grant.narrowed => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                // It ended just now, and may have started others with that mask.
                self.remember_ended(grant.clone());
                return Err(error);
            }
        }
        // Not what was wanted, so nothing that would be put back later.
        task::set_affinity(key.thread_id, &grant.given)?;
        Err(io::Error::other("its cpuset allows other CPUs"))
    }

    /// Give back what was taken, also from threads that inherited it. Answers how many threads got it.
    pub(crate) fn undo(mut self, watch: &mut LiveWatch) -> usize {
        let restored = self.put_all_back(watch);
        self.grants.remove();
        restored
    }

    fn put_all_back(&mut self, watch: &mut LiveWatch) -> usize {
        let mut restored = 0;
        for grant in self.held.values() {
            restored += usize::from(put_back(grant));
            watch.note_narrowed(grant.thread, None);
        }
        restored + self.restore_heirs()
    }

    /// Threads that narrowed ones started have their mask and may never have used the volume.
    fn restore_heirs(&self) -> usize {
        let mut restored = 0;
        let all = || self.held.values().chain(&self.ended);
        let mut processes: Vec<u32> = all().map(|grant| grant.thread.process_id).collect();
        processes.sort_unstable();
        processes.dedup();
        for process_id in processes {
            let of_it = |grant: &&Grant| {
                grant.thread.process_id == process_id && is_process_of(grant.thread)
            };
            let grants = || all().filter(of_it);
            for thread_id in task::threads(process_id) {
                let Ok(now) = task::affinity(thread_id) else {
                    continue;
                };
                let mut held = self.held.keys();
                let known = held.any(|key| key.thread_id == thread_id);
                if let (false, Some(parent)) = (known, grants().find(|grant| grant.narrowed == now))
                {
                    restored += usize::from(task::set_affinity(thread_id, &parent.given).is_ok());
                }
            }
        }
        restored
    }

    /// Forget threads that are gone, but not what those they started may have of them.
    pub(crate) fn forget_gone(&mut self, watch: &LiveWatch) {
        let gone: Vec<ThreadKey> = (self.held.keys().copied())
            .filter(|key| watch.given(*key).is_none())
            .collect();
        if gone.is_empty() {
            return;
        }
        for key in gone {
            if let Some(grant) = self.held.remove(&key) {
                self.remember_ended(grant);
            }
        }
        self.ended.retain(|grant| is_process_of(grant.thread));
    }

    fn remember_ended(&mut self, grant: Grant) {
        let kind = |grant: &Grant| (grant.thread.process_id, grant.narrowed.clone());
        if !self.ended.iter().any(|ended| kind(ended) == kind(&grant)) {
            self.ended.push(grant);
        }
    }
}

/// Whether the process of a thread lives: one that began later has only its number.
fn is_process_of(thread: ThreadKey) -> bool {
    task::began(thread.process_id).is_some_and(|began| began <= thread.start_ticks)
}

fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => "it belongs to another user".to_owned(),
        Some(libc::EINVAL) => "its cpuset has none of these CPUs".to_owned(),
        _ => error.to_string(),
    }
}

fn cpus_of(machine: &Machine, node: NodeId) -> CpuSet {
    let node = machine.node(node);
    node.map_or_else(CpuSet::empty, |node| node.cpus.iter().copied().collect())
}
