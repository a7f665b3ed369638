//! Migrations after which threads get less are undone (ours).
//!
//! ```text
//!   still ── threads move ──▶ moved ── a still window later: speed < 0.98 of before ──▶ undone, no moves
//!     ▲                         │                                                         │
//!     └──── as fast or faster ──┘◀── undoing brought less than half of that back ─────────┘
//!                                    else their processes' threads stay for `retry_windows`
//! ```
//!
//! A loss that is not clearly greater than what windows differ by chance is none.
//!
//! Speed is a geometric mean over all threads, and over processes that use their memory too, because contention
//! concerns other threads. Going back is an experiment as well, because threads may be slower when their work changed
//! at the same moment.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use egeria_facts::{Facts, ThreadKey};
use egeria_machine::NodeId;

use super::super::settings::Feedback;
use super::experiment::{Experiment, Judged};
use super::places::{Places, moves};
use super::progress::{Kinds, Progress};
use crate::swing::Swing;
use crate::{Move, Plan, Reason};

/// A loss below this is not worth another migration.
pub(super) const MIN_SPEED: f64 = 0.98;
/// How long nothing else is compared during that, in windows.
const FEW_WINDOWS: u32 = 4;
/// How long to wait for data that goes on moving, in windows.
const MAX_UNREST_WINDOWS: u32 = 4;

/// Migrations that are not judged yet, and those that were undone.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo {
    state: State,
    /// What threads got since they moved.
    recent: Kinds,
    swing: Swing,
    /// Threads that stay at their former nodes, and for how many windows.
    held: BTreeMap<ThreadKey, (NodeId, u32)>,
    /// The speed that was lost, while threads are on their way back.
    lost: Option<f64>,
    /// Former nodes of threads that have moved since data last moved.
    since_data: Places,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Nothing has moved since the last judgement.
    #[default]
    Still,
    /// Threads have moved from these nodes.
    Moved(Experiment<Places>),
    /// They have gone back, because they got this speed.
    Undone(Experiment<f64>),
}

impl Undo {
    /// Takes what threads got in a window. Returns whether this window shows that the last migration was good.
    pub(super) fn look(&mut self, progress: &Progress, settings: &Feedback) -> bool {
        self.held.retain(|_, (_, windows)| {
            *windows = windows.saturating_sub(1);
            *windows > 0
        });
        self.lost = None;
        let mut is_good = false;
        match std::mem::take(&mut self.state) {
            State::Moved(mut moved) => match moved.judge_loss(progress, &self.swing, MIN_SPEED) {
                Some(Judged::Loss(speed)) => {
                    self.go_back(moved.change, speed, progress, settings);
                }
                judged => {
                    is_good = judged == Some(Judged::Good);
                    if !moved.is_over() {
                        self.state = State::Moved(moved);
                    }
                }
            },
            State::Undone(mut undone) => {
                let half = 1.0 + (1.0 / undone.change - 1.0) / 2.0;
                if undone.judge(progress).is_some_and(|gain| gain < half) {
                    self.held.clear();
                }
                if !undone.is_over() {
                    self.state = State::Undone(undone);
                }
            }
            State::Still => {}
        }
        let change = self.recent.remember(progress.clone());
        // A window right after a change differs from the one before for that reason.
        let is_still = match &self.state {
            State::Still => true,
            State::Moved(moved) => moved.is_still(),
            State::Undone(_) => false,
        };
        if is_still {
            self.swing.note(change);
        }
        is_good
    }

    fn go_back(&mut self, origins: Places, speed: f64, progress: &Progress, settings: &Feedback) {
        let windows = settings.retry_windows;
        let held = origins
            .into_iter()
            .map(|(key, node)| (key, (node, windows)));
        self.held.extend(held);
        self.lost = Some(speed);
        let mut moved = Kinds::default();
        moved.remember(progress.clone());
        self.state = State::Undone(Experiment::new(speed, moved));
    }

    /// Data goes back because threads got this speed. Threads that have moved since go back, too.
    pub(super) fn follow_back(&mut self, speed: f64, progress: &Progress, settings: &Feedback) {
        let origins = std::mem::take(&mut self.since_data);
        if !origins.is_empty() {
            self.go_back(origins, speed, progress, settings);
        }
    }

    /// Data begins to move: threads may follow.
    pub(super) fn note_data(&mut self) {
        self.since_data.clear();
    }

    /// Adds threads that stay at their former nodes, and others that stay where they are now. Before the undoing is
    /// judged these are all threads; later, threads of the same processes while these are held. Otherwise the reason
    /// that moved the first threads would move the others.
    pub(super) fn held(&self, facts: &Facts, held: &mut HashMap<ThreadKey, NodeId>) {
        for (key, (node, _)) in &self.held {
            held.entry(*key).or_insert(*node);
        }
        let processes: BTreeSet<u32> = self.held.keys().map(|key| key.process_id).collect();
        let all = matches!(self.state, State::Undone(_));
        let stays = |key: &ThreadKey| all || processes.contains(&key.process_id);
        for thread in facts.window.threads.iter().filter(|each| stays(&each.key)) {
            held.entry(thread.key).or_insert(thread.node);
        }
    }

    /// The moves of threads that go back now.
    pub(super) fn steps_back(&self, facts: &Facts) -> Vec<Move> {
        let Some(speed) = self.lost else {
            return Vec::new();
        };
        let places = self.held.iter().map(|(key, (node, _))| (key, node));
        moves(facts, places, &Reason::BroughtLess { speed })
    }

    /// Threads of a process that would go back stay where they are, because the process may not pay for it.
    pub(super) fn leave(&mut self, facts: &Facts, process: u32) {
        let is_back = |key: &ThreadKey, node: NodeId| {
            let thread = facts.window.thread(*key);
            thread.is_none_or(|thread| thread.node == node)
        };
        self.held
            .retain(|key, (node, _)| key.process_id != process || is_back(key, *node));
    }

    /// Takes the decision about a window. `is_still` says that nothing else changes.
    pub(super) fn note(&mut self, plan: &Plan, is_still: bool) {
        let is_own = |step: &&Move| !matches!(step.reason, Reason::Compared { .. });
        let moves = plan.moves.iter().filter(is_own);
        let origins = moves.clone().map(|step| (step.thread, step.from));
        for (thread, node) in origins.clone() {
            self.since_data.entry(thread).or_insert(node);
        }
        let is_move = !plan.moves.is_empty();
        match &mut self.state {
            State::Undone(undone) => undone.note(is_move, is_still, u32::MAX),
            State::Moved(moved) => {
                for (thread, node) in origins {
                    moved.change.entry(thread).or_insert(node);
                }
                moved.note(is_move, is_still, MAX_UNREST_WINDOWS);
            }
            State::Still if is_move && !self.recent.is_empty() => {
                let before = std::mem::take(&mut self.recent);
                self.state = State::Moved(Experiment::new(origins.collect(), before));
            }
            State::Still => {}
        }
    }

    /// Whether to wait for windows that are like those before a migration.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(&self.state, State::Moved(moved) if moved.windows() < FEW_WINDOWS)
    }

    /// Whether migrations are not judged yet, so that nothing else should change.
    pub(super) fn is_open(&self) -> bool {
        match &self.state {
            State::Still => false,
            // A window of another kind may come, or not.
            State::Moved(moved) => moved.windows() == 0,
            State::Undone(_) => true,
        }
    }
}
