//! What a steward did, for reports.

use egeria_machine::NodeId;
use egeria_policy::mba::MbaPlan;
use egeria_policy::planner::{Balance, DelegationPlan};
use egeria_policy::{Action, ActionRecord};
use serde::Serialize;

/// Traffic of one node in one window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct NodeRates {
    pub node: NodeId,
    /// Read from its pool, bytes/s of machine time.
    pub read_bytes_s: f64,
    /// Written to its pool, bytes/s of machine time.
    pub written_bytes_s: f64,
    /// Share of its CPUs in use.
    pub cpu_share: f64,
}

/// One window, in short.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WindowSummary {
    /// When it began, ns of machine time since the steward did.
    pub start_ns: u64,
    /// How long it was, ns of machine time.
    pub duration_ns: u64,
    /// Threads that were migrated at its end.
    pub moves: u32,
    /// Share of local bytes, `None` when none moved.
    pub local_share: Option<f64>,
    /// By node, in the machine's order.
    pub nodes: Vec<NodeRates>,
}

/// What a steward did from start to stop.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// Windows looked at.
    pub windows: u64,
    /// Threads migrated, each time counted.
    pub moves: u64,
    /// Threads migrated at least once.
    pub moved_threads: u64,
    /// Migrations of the thread that was migrated most.
    pub max_moves_per_thread: u64,
    /// Migrations that failed because of a vanished thread, its owner or the kernel.
    pub moves_failed: u64,
    /// Processes with threads on a node that were migrated together, each time counted (AsymSched).
    pub process_moves: u64,
    /// Memory of processes that was migrated, bytes.
    pub memory_moved_bytes: u64,
    /// Actions that brought less than half of what was expected.
    pub missed: u64,
    /// Why no thread was migrated, where none was; at the end.
    pub no_moves_because: Option<String>,
    /// What limits the decisions, each once.
    pub notes: Vec<String>,
    /// Stages of the policy that are off, and why.
    pub unavailable: Vec<String>,
    /// What cannot be observed here, and therefore is not done.
    pub unseen: Vec<String>,
    /// How the facts are observed, if there are several ways, and what each cannot observe.
    pub sources: Vec<String>,
    /// Threads that got their CPUs back at the end.
    pub restored: u64,
    /// Threads that a killed steward had restricted, restored at the start.
    pub restored_at_start: u64,
    /// Reasons, with how often each moved a thread.
    pub reasons: Vec<(String, u64)>,
    /// All actions that were tried, by kind, reason and outcome.
    pub actions: Vec<ActionCount>,
    /// Why threads stayed that would have gained elsewhere, with how often.
    pub kept: Vec<(String, u64)>,
    /// What all processes have spent on moves, and may spend; `None` without a budget.
    pub budget: Option<Balance>,
    /// The windows; at most the last [`MAX_WINDOWS`].
    pub series: Vec<WindowSummary>,
}

/// Actions of one kind, with one reason and outcome. The names are those of the decision log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ActionCount {
    /// The kind of action.
    pub action: String,
    pub reason: String,
    pub outcome: String,
    pub count: u64,
}

/// Most notes that are kept.
const MAX_NOTES: usize = 64;

impl Summary {
    /// One more note, as long as there are not too many; whether it was added.
    pub(crate) fn add_note(&mut self, note: String) -> bool {
        let is_added = self.notes.len() < MAX_NOTES;
        if is_added {
            self.notes.push(note);
        }
        is_added
    }

    /// One more migration of a thread.
    pub(crate) fn count_reason(&mut self, name: &str) {
        match self.reasons.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => self.reasons.push((name.to_owned(), 1)),
        }
    }

    /// One more window; the oldest is forgotten if there are too many.
    pub(crate) fn add_window(&mut self, window: WindowSummary) {
        if self.series.len() >= MAX_WINDOWS {
            self.series.remove(0);
        }
        self.series.push(window);
    }

    /// Why no thread was migrated: what is said of a whole process, else what is said most often of threads.
    pub(crate) fn no_moves_because(
        &self,
        of_process: Option<&str>,
        of_threads: Option<&str>,
    ) -> String {
        let shares = || self.series.iter().filter_map(|window| window.local_share);
        if let Some(words) = of_process {
            words.to_owned()
        } else if shares().next().is_none() {
            "no thread of the volume read or wrote".to_owned()
        } else if let Some(words) = of_threads {
            format!("most often, of a thread that stayed: {words}")
        } else {
            let share = shares().sum::<f64>() / shares().count() as f64;
            format!(
                "{:.0} % of the bytes were local, and no node was contended",
                share * 100.0
            )
        }
    }

    /// One more action.
    pub(crate) fn count_action(&mut self, record: &ActionRecord) {
        let (action, reason) = (kind(&record.action), reason(&record.action));
        let outcome = kind(&record.outcome);
        let known = self.actions.iter_mut().find(|known| {
            (&known.action, &known.reason) == (&action, &reason) && known.outcome == outcome
        });
        match known {
            Some(known) => known.count += 1,
            None => self.actions.push(ActionCount {
                action,
                reason,
                outcome,
                count: 1,
            }),
        }
    }

    /// One more thread that stayed.
    pub(crate) fn count_kept(&mut self, because: &impl Serialize) {
        let name = kind(because);
        match self.kept.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => self.kept.push((name, 1)),
        }
    }
}

/// The name of a variant, as in the decision log.
fn kind(variant: &impl Serialize) -> String {
    let value = serde_json::to_value(variant).unwrap_or_default();
    let name = value.get("kind").unwrap_or(&value).as_str();
    name.unwrap_or("unknown").to_owned()
}

fn reason(action: &Action) -> String {
    match action {
        Action::MigrateThread(step) => kind(&step.reason),
        Action::MigrateProcess { because, .. } => kind(because),
        Action::MigrateMemory(step) => kind(&step.action),
        Action::SetLimit(limit) => kind(&limit.decision.because),
        Action::LiftLimit { .. } => "no_limit".to_owned(),
        Action::SetDelegation { plan } => match plan {
            DelegationPlan::Off { because } => kind(because),
            DelegationPlan::On { because, .. } => kind(because),
        },
        Action::SetMba { plan } => match plan {
            MbaPlan::Off { because } => kind(because),
            MbaPlan::On { .. } => "crowded".to_owned(),
        },
        Action::Relocate(step) => kind(&step.why),
    }
}

/// Windows kept in [`Summary::series`].
pub const MAX_WINDOWS: usize = 10_000;
