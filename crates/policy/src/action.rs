//! What can be done about a window, one action at a time, and what is expected of it.

use std::fmt;

use egeria_facts::Facts;
use egeria_machine::{Machine, NodeId};
use serde::{Deserialize, Serialize};

use crate::asymsched::{MemoryStep, NodeMove};
use crate::planner::{Decision, DelegationPlan, Limit, RelocationStep};
use crate::{ActionKind, Expectation, Measure, Move, Plan, Reason, asymsched};

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
        /// Why.
        because: asymsched::Decision,
    },
    /// Memory of a process follows its threads, or does so no longer.
    MigrateMemory(MemoryStep),
    /// At most so many threads access a node's persistent memory at once.
    SetLimit(Limit),
    /// A node's persistent memory has no limit any more.
    LiftLimit {
        /// Which node.
        node: NodeId,
    },
    /// Which accesses are delegated from now on.
    SetDelegation {
        /// Which.
        plan: DelegationPlan,
    },
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
            Action::Relocate(_) => ActionKind::Relocation,
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
            Action::LiftLimit { node } => write!(
                formatter,
                "persistent memory of node {}: no limit any more",
                node.0
            ),
            Action::SetDelegation { plan } => plan.fmt(formatter),
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
    /// No actuator takes this kind of action.
    NoActuator,
}

impl Expectation {
    /// What was expected of an action that is decided on these facts and this plan; `None` where nothing can be
    /// said, or where the policy that ordered it measures by itself (limits).
    pub fn of(
        action: &Action,
        machine: &Machine,
        facts: &Facts,
        plan: &Plan,
    ) -> Option<Expectation> {
        let step = action.as_thread_move()?;
        let window = &facts.window;
        let thread = window.thread(step.thread)?;
        let bytes_s = window.rate_bytes_s(thread.moved_total());
        match &step.reason {
            Reason::RemoteReads { .. } | Reason::ContentionOver { .. } => {
                let read = *thread.read_bytes.get(machine.index_of(step.to)?)?;
                let local = read as f64 + thread.written_total() as f64;
                Some(Expectation {
                    measure: Measure::LocalShare,
                    before: thread.local_share(machine)?,
                    expected: local / thread.moved_total() as f64,
                })
            }
            // Who stays uses what becomes free, and who leaves keeps its rate elsewhere.
            Reason::PmContention { .. } => {
                let total = window.read_total().saturating_add(window.written_total());
                let before = window.rate_bytes_s(total);
                Some(Expectation {
                    measure: Measure::TotalBytesPerSecond,
                    before,
                    expected: before + bytes_s,
                })
            }
            // Threads of a node with too few CPUs take turns; elsewhere this one has a CPU for itself.
            Reason::CpuContention { contended, .. } => {
                let loads = plan.measured.iter().chain(&plan.local);
                let here = loads.filter(|load| load.node == *contended);
                let crowding = here.map(|load| load.cpu_share).fold(1.0, f64::max);
                Some(Expectation {
                    measure: Measure::ThreadBytesPerSecond,
                    before: bytes_s,
                    expected: bytes_s * crowding,
                })
            }
        }
    }

    /// The same measure afterwards; `None` when the thread is gone or did nothing.
    pub fn measured(&self, action: &Action, machine: &Machine, facts: &Facts) -> Option<f64> {
        let step = action.as_thread_move()?;
        let window = &facts.window;
        let thread = window.thread(step.thread)?;
        if thread.moved_total() == 0 {
            return None;
        }
        match self.measure {
            Measure::LocalShare => thread.local_share(machine),
            Measure::ThreadBytesPerSecond => Some(window.rate_bytes_s(thread.moved_total())),
            Measure::TotalBytesPerSecond => {
                let total = window.read_total().saturating_add(window.written_total());
                Some(window.rate_bytes_s(total))
            }
        }
    }
}

/// An action that was tried.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActionRecord {
    /// What.
    pub action: Action,
    /// What it should bring.
    pub expected: Option<Expectation>,
    /// What became of it.
    pub outcome: ActionOutcome,
}

/// What came of an action that was done in the window before.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActionResult {
    /// Which action.
    pub action: Action,
    /// What it should have brought.
    pub expected: Option<Expectation>,
    /// The measure of `expected` now; `None` when it cannot be measured any more.
    pub measured: Option<f64>,
    /// It brought less than half of what was expected.
    pub missed: bool,
}

impl ActionResult {
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
    /// What is to be done, in this order: threads, processes, their memory, limits, delegation, files. Limits and
    /// delegation only as far as they are others than in the decision before.
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
        actions.extend(self.relocations.iter().cloned().map(Action::Relocate));
        actions
    }
}
