//! What can be done about a window, one action at a time, and what is expected of it.

use std::fmt;

use egeria_facts::Facts;
use egeria_machine::{Machine, NodeId};
use serde::{Deserialize, Serialize};

use crate::asymsched::{MemoryStep, NodeMove};
use crate::mba::MbaPlan;
use crate::planner::{Decision, DelegationPlan, Limit, Relocate, RelocationStep};
use crate::{ActionKind, Expectation, Move, Subject, asymsched};

/// One thing that a decision orders. An actuator carries it out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// One thread runs on another node from now on.
    MigrateThread(Move),
    /// All threads of a process on one node run on another from now on.
    MigrateProcess {
        /// Which process, from where and where to.
        step: NodeMove,
        because: asymsched::Decision,
    },
    /// Memory of a process follows its threads, or does so no longer.
    MigrateMemory(MemoryStep),
    /// At most this number of threads access a node's persistent memory at once.
    SetLimit(Limit),
    /// A node's persistent memory has no limit any more.
    LiftLimit { node: NodeId },
    /// Which accesses are delegated from now on.
    SetDelegation { plan: DelegationPlan },
    /// Which programs that do not ask for admission get a share of their bandwidth from now on.
    SetMba { plan: MbaPlan },
    /// A file's data goes to another node, or is copied there.
    Relocate(RelocationStep),
}

impl Action {
    /// Which kind of action it is: an actuator takes some kinds.
    pub fn kind(&self) -> ActionKind {
        match self {
            Action::MigrateThread(_) => ActionKind::ThreadMigration,
            Action::MigrateProcess { .. } => ActionKind::ProcessMigration,
            Action::MigrateMemory(_) => ActionKind::MemoryMigration,
            Action::SetLimit(_) | Action::LiftLimit { .. } => ActionKind::AdmissionLimit,
            Action::SetDelegation { .. } => ActionKind::Delegation,
            Action::SetMba { .. } => ActionKind::Mba,
            Action::Relocate(_) => ActionKind::Relocation,
        }
    }

    /// What it is about, as far as feedback tells actions apart.
    pub fn subject(&self) -> Subject {
        match self {
            Action::MigrateThread(step) => Subject::Thread {
                thread: step.thread,
                to: step.to,
            },
            Action::MigrateProcess { step, .. } => Subject::Process {
                process: step.process,
            },
            Action::MigrateMemory(step) => Subject::Memory {
                process: step.process,
            },
            Action::SetLimit(limit) => Subject::Limit { node: limit.node },
            Action::LiftLimit { node } => Subject::Limit { node: *node },
            Action::SetDelegation { .. } => Subject::Delegation,
            Action::SetMba { .. } => Subject::Mba,
            Action::Relocate(step) => Subject::File {
                file: step.file,
                to: match step.action {
                    Relocate::Move { to, .. } | Relocate::Replicate { to, .. } => to,
                    Relocate::Drop { on } => on,
                },
            },
        }
    }

    /// The migration of a single thread, if it is one.
    pub fn as_thread_move(&self) -> Option<&Move> {
        match self {
            Action::MigrateThread(step) => Some(step),
            _ => None,
        }
    }
}

/// In one line.
impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::MigrateThread(step) => step.fmt(formatter),
            Action::MigrateProcess { step, because } => write!(formatter, "{step}: {because}"),
            Action::MigrateMemory(step) => step.fmt(formatter),
            Action::SetLimit(limit) => limit.fmt(formatter),
            Action::LiftLimit { node } => {
                write!(formatter, "memory of node {}: no limit any more", node.0)
            }
            Action::SetDelegation { plan } => plan.fmt(formatter),
            Action::SetMba { plan } => plan.fmt(formatter),
            Action::Relocate(step) => step.fmt(formatter),
        }
    }
}

/// What became of an action when it was tried.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ActionOutcome {
    /// It was done and verified.
    Done,
    /// What it was about is gone.
    Vanished,
    /// It could not be done.
    Refused {
        /// Why, in one line.
        reason: String,
    },
    /// It has begun, and goes on in the next windows.
    GoesOn {
        /// What is done, what is left and when that will be done, in one line.
        reason: String,
    },
    /// No actuator takes this kind of action.
    NoActuator,
}

impl ActionOutcome {
    /// Whether it was done, or is being done.
    pub fn took_effect(&self) -> bool {
        matches!(self, ActionOutcome::Done | ActionOutcome::GoesOn { .. })
    }
}

/// An action that was tried.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActionRecord {
    pub action: Action,
    /// What it should bring.
    pub expected: Option<Expectation>,
    /// What became of it.
    pub outcome: ActionOutcome,
}

/// What came of an action that was done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActionResult {
    pub action: Action,
    /// What it should have brought.
    pub expected: Option<Expectation>,
    /// The measure of `expected` now; `None` when it cannot be measured, or another action took the place of this one
    /// first.
    pub measured: Option<f64>,
    /// It brought less than half of what was expected.
    pub missed: bool,
}

impl ActionResult {
    /// Of what cannot be measured.
    pub fn unmeasured(record: &ActionRecord) -> ActionResult {
        ActionResult {
            action: record.action.clone(),
            expected: record.expected,
            measured: None,
            missed: false,
        }
    }

    /// Looks at what became of an action that was done before this window.
    pub fn of(record: &ActionRecord, machine: &Machine, facts: &Facts) -> ActionResult {
        let measured = record
            .expected
            .and_then(|expected| expected.measured(&record.action, machine, facts));
        let both = record.expected.zip(measured);
        ActionResult {
            action: record.action.clone(),
            expected: record.expected,
            measured,
            missed: both.is_some_and(|(expected, after)| expected.is_missed(after)),
        }
    }
}

impl Decision {
    /// What is to be done, in this order: threads, processes, their memory, limits, delegation, bounds, files. Limits,
    /// delegation and bounds only as far as they are others than in the decision before.
    pub fn actions(&self, previous: &Decision) -> Vec<Action> {
        let mut actions: Vec<Action> = Vec::new();
        actions.extend(
            self.threads
                .moves
                .iter()
                .cloned()
                .map(Action::MigrateThread),
        );
        let placement = &self.placement;
        actions.extend(placement.single.iter().cloned().map(Action::MigrateThread));
        let processes = placement.moves.iter().cloned();
        actions.extend(processes.map(|step| Action::MigrateProcess {
            step,
            because: placement.decision.clone(),
        }));
        actions.extend(placement.memory.iter().cloned().map(Action::MigrateMemory));
        let in_force = |limits: &[Limit], node: NodeId| {
            let mut limits = limits.iter();
            let limit = limits.find(|limit| limit.node == node);
            limit.map(|limit| limit.threads)
        };
        let before = &previous.limits;
        let lifted = before.iter().map(|limit| limit.node);
        let lifted = lifted.filter(|node| in_force(&self.limits, *node).is_none());
        actions.extend(lifted.map(|node| Action::LiftLimit { node }));
        let set = self.limits.iter();
        let set = set.filter(|limit| in_force(before, limit.node) != Some(limit.threads));
        actions.extend(set.copied().map(Action::SetLimit));
        if !self.delegation.is_like(&previous.delegation) {
            let plan = self.delegation;
            actions.push(Action::SetDelegation { plan });
        }
        if !self.mba.is_like(&previous.mba) {
            let plan = self.mba.clone();
            actions.push(Action::SetMba { plan });
        }
        actions.extend(self.relocations.iter().cloned().map(Action::Relocate));
        actions
    }
}
