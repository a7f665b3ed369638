//! Migration of threads by their CPU affinity.

use std::io;
use std::sync::Arc;

use egeria_facts::{CpuSet, Facts, ThreadKey};
use egeria_machine::{Machine, NodeId};
use egeria_policy::asymsched::NodeMove;
use egeria_policy::control::Actuator;
use egeria_policy::{Action, ActionKind, ActionOutcome};
use egeria_proc::masks::{AppliedMask, SharedMasks};
use egeria_proc::{Membership, task};

use crate::departures::Departures;
use crate::journal::Journal;
use crate::restore;

/// Restricts threads to the CPUs of a node, within what their owners allowed, and restores everything at the end.
pub struct ThreadAffinity {
    machine: Machine,
    masks: SharedMasks,
    members: Arc<dyn Membership>,
    journal: Option<Journal>,
    kinds: Vec<ActionKind>,
    departures: Departures,
}

impl ThreadAffinity {
    /// For the threads that these masks are about; `members` decides which of them may be migrated.
    pub fn new(
        machine: &Machine,
        masks: SharedMasks,
        members: Arc<dyn Membership>,
        journal: Journal,
    ) -> ThreadAffinity {
        ThreadAffinity {
            machine: machine.clone(),
            masks,
            members,
            journal: Some(journal),
            kinds: vec![ActionKind::ThreadMigration],
            departures: Departures::default(),
        }
    }

    /// Migrates whole processes as well, and records from where to where.
    #[must_use]
    pub fn with_processes(mut self, departures: Departures) -> ThreadAffinity {
        self.kinds.push(ActionKind::ProcessMigration);
        self.departures = departures;
        self
    }

    /// Lets the threads that a process has on one node run on another only. Threads bound by their owner stay.
    fn migrate_process(&mut self, step: &NodeMove, facts: &Facts) -> ActionOutcome {
        let threads = facts.window.threads.iter().filter(|thread| {
            thread.key.process_id == step.process.process_id && thread.node == step.from
        });
        let mut outcome = ActionOutcome::Vanished;
        for thread in threads {
            outcome = match (self.migrate(thread.key, step.to), outcome) {
                (ActionOutcome::Done, _) | (_, ActionOutcome::Done) => ActionOutcome::Done,
                (ActionOutcome::Vanished, before) => before,
                (refused, _) => refused,
            };
        }
        if outcome == ActionOutcome::Done {
            self.departures.add(step.process, step.from, step.to);
        }
        outcome
    }

    /// Lets a thread run on this node only.
    fn migrate(&mut self, thread: ThreadKey, node: NodeId) -> ActionOutcome {
        let refused = |reason: String| ActionOutcome::Refused { reason };
        if !self.members.holds(thread) {
            return ActionOutcome::Vanished;
        }
        let Ok(now) = task::affinity(thread.thread_id) else {
            return ActionOutcome::Vanished;
        };
        let mut masks = self.masks.lock();
        if masks.look(thread, &now) {
            return refused("its owner bound it to other CPUs just now".to_owned());
        }
        let Some(original) = masks.original(thread).cloned() else {
            return ActionOutcome::Vanished;
        };
        drop(masks);
        let applied = original.intersection(&cpus_of(&self.machine, node));
        if applied.is_empty() {
            return refused(format!(
                "none of the CPUs it was given is on node {}",
                node.0
            ));
        }
        let mask = AppliedMask {
            thread,
            original,
            applied,
        };
        match self.set(&mask) {
            Ok(()) => {
                self.masks.lock().set_applied(thread, Some(mask.applied));
                ActionOutcome::Done
            }
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => ActionOutcome::Vanished,
            Err(error) => refused(reason(&error)),
        }
    }

    /// Journals, applies and verifies a mask.
    fn set(&mut self, mask: &AppliedMask) -> io::Result<()> {
        let thread = mask.thread;
        if let Some(journal) = &self.journal {
            // The next steward must know of it before it is applied.
            journal.add(mask)?;
        }
        let before = task::affinity(thread.thread_id)?;
        // Checked as late as possible: the id may be reused by now, or the process may run another program.
        if !self.members.holds(thread) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        task::set_affinity(thread.thread_id, &mask.applied)?;
        if !task::is_still(thread) {
            // It ended between the two calls: a new thread with its id must not be changed.
            let _ = task::set_affinity(thread.thread_id, &before);
            self.masks.lock().remember_ended(mask.clone());
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        match task::affinity(thread.thread_id) {
            Ok(now) if now == mask.applied => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                // It ended just now, and may have started other threads with that mask.
                self.masks.lock().remember_ended(mask.clone());
                return Err(error);
            }
        }
        // Not what was wanted, so nothing that would be restored later.
        task::set_affinity(thread.thread_id, &mask.original)?;
        Err(io::Error::other("its cpuset allows other CPUs"))
    }
}

impl Actuator for ThreadAffinity {
    fn kinds(&self) -> &[ActionKind] {
        &self.kinds
    }

    fn apply(&mut self, action: &Action, facts: &Facts) -> ActionOutcome {
        match action {
            Action::MigrateThread(step) => self.migrate(step.thread, step.to),
            Action::MigrateProcess { step, .. } => self.migrate_process(step, facts),
            _ => ActionOutcome::NoActuator,
        }
    }

    fn undo(&mut self) -> usize {
        let mut masks = self.masks.lock();
        let (living, ended) = masks.applied();
        let all: Vec<AppliedMask> = living.iter().chain(&ended).cloned().collect();
        let restored = restore::restore(&living, &all);
        for each in &living {
            masks.set_applied(each.thread, None);
        }
        drop(masks);
        if let Some(journal) = self.journal.take() {
            journal.remove();
        }
        restored
    }
}

fn reason(error: &io::Error) -> String {
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
