//! A replay as JSON.

use std::cell::RefCell;

use egeria_facts::Window;
use egeria_machine::NodeId;
use egeria_policy::control::Turn;
use egeria_policy::planner::{Settings, System};
use egeria_policy::{ActionRecord, ActionResult, Displaced, Kept, NodeLoad, Note};
use serde::Serialize;

use super::tally::{PolicyRow, Unsettled};
use super::view::{CAVEAT, View};
use crate::commands::control::recording::{self, Label, Stream};
use crate::commands::look::diagnose::Document as Placement;
use egeria_cli::failure::Outcome;
use egeria_policy::control::Replay;

#[derive(Serialize)]
struct Document<'a, W: Serialize> {
    #[serde(flatten)]
    recording: &'a Label,
    policy: System,
    settings: &'a Settings,
    caveat: &'static str,
    summary: Summary<'a>,
    windows: W,
}

#[derive(Serialize)]
struct Summary<'a> {
    windows: u64,
    /// Every policy with the same `--set`.
    policies: Vec<PolicyRow>,
    /// Under the policy asked for.
    unsettled: Vec<Unsettled>,
    notes: Vec<Sentence<Note>>,
    /// As `egeria diagnose --trace` finds it, whatever the policy.
    placement: &'a Placement,
}

/// One window and what the policy does about it.
#[derive(Serialize)]
struct Planned {
    window: u64,
    start_ns: u64,
    duration_ns: u64,
    threads: usize,
    quiet_threads: usize,
    local_share: Option<f64>,
    /// What the policy orders.
    actions: Vec<Sentence<ActionRecord>>,
    /// What came of the actions of the window before.
    results: Vec<ActionResult>,
    kept: Vec<Sentence<Kept>>,
    displaced: Vec<Displaced>,
    pm_contended: Option<NodeId>,
    cpu_contended: Option<NodeId>,
    measured: Vec<NodeLoad>,
    local: Vec<NodeLoad>,
    expected: Vec<NodeLoad>,
}

/// Something with its numbers and as a sentence.
#[derive(Serialize)]
struct Sentence<T> {
    #[serde(flatten)]
    what: T,
    sentence: String,
}

/// Prints everything as one document.
pub(super) fn print(view: &View<'_>) -> Outcome {
    let failure = RefCell::new(None);
    let mut reader = view.again()?;
    let mut replay = Replay::new(&view.machine, view.policy.make(), view.settings.clone());
    let windows = view.windows(&mut reader).map(|window| {
        let (facts, turn) = replay.step(&window?);
        Ok(planned(view, &facts.window, turn))
    });
    let document = Document {
        recording: &view.label,
        policy: view.policy,
        settings: &view.settings,
        caveat: CAVEAT,
        summary: summary(view),
        windows: Stream::new(windows, &failure),
    };
    recording::print_json(&document, &failure)
}

fn summary<'a>(view: &'a View<'_>) -> Summary<'a> {
    Summary {
        windows: view.windows,
        policies: view.tallies.iter().map(super::tally::Tally::row).collect(),
        unsettled: view.tally().unsettled(),
        notes: sentences(view.tally().notes.clone()),
        placement: &view.placement,
    }
}

fn planned(view: &View<'_>, window: &Window, turn: Turn) -> Planned {
    let plan = turn.decision.threads;
    let actions = turn.actions.into_iter().map(|record| Sentence {
        sentence: record.action.to_string(),
        what: record,
    });
    Planned {
        window: window.number,
        start_ns: window.start_ns,
        duration_ns: window.duration_ns,
        threads: window.threads.len(),
        quiet_threads: plan.quiet_threads,
        local_share: window.local_share(&view.machine),
        actions: actions.collect(),
        results: turn.results,
        kept: sentences(plan.kept),
        displaced: plan.displaced,
        pm_contended: plan.pm_contended,
        cpu_contended: plan.cpu_contended,
        measured: plan.measured,
        local: plan.local,
        expected: plan.expected,
    }
}

fn sentences<T: ToString>(all: Vec<T>) -> Vec<Sentence<T>> {
    let sentence = |what: T| Sentence {
        sentence: what.to_string(),
        what,
    };
    all.into_iter().map(sentence).collect()
}
