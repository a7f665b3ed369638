//! Stage 10, for threads: migrations after which threads get less are undone (ours).
//!
//! ```text
//!   still ── threads move ──▶ moved ── a still window later: speed < 0.98 of before ──▶ undone
//!     ▲                         │                                                         │
//!     └──── as fast or faster ──┘◀── undoing brought less than half of that back ─────────┘
//!                                    else they stay for `retry_windows`
//! ```
//!
//! Speed is that of all threads, of processes that use their memory too, in a geometric mean: contention is about others. What
//! the second look is for: threads may be slower because their work changed in the same moment.

use std::collections::{BTreeMap, HashMap};

use egeria_facts::{Facts, ThreadKey};
use egeria_machine::NodeId;

use super::progress::{Progress, are_alike, speed};
use super::settings::Feedback;
use crate::{Move, Plan, Reason};

/// What is lost below this is not worth another migration.
const MIN_SPEED: f64 = 0.98;

/// Migrations that are not judged yet, and those that were undone.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo {
    state: State,
    /// What threads got in the last window.
    last: Progress,
    /// Threads that stay where they were, and for how many windows.
    held: BTreeMap<ThreadKey, (NodeId, u32)>,
    /// What was lost, while threads are on their way back.
    lost: Option<f64>,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Nothing has moved since it was judged.
    #[default]
    Still,
    /// Threads have moved from these nodes; what all got before.
    Moved {
        before: Progress,
        origins: BTreeMap<ThreadKey, NodeId>,
        still_windows: u32,
    },
    /// They have gone back; what all got before that, and how much less it was.
    Undone {
        moved: Progress,
        speed: f64,
        still_windows: u32,
    },
}

impl Undo {
    /// Takes what threads got in a window.
    pub(super) fn look(&mut self, progress: Progress, settings: &Feedback) {
        self.held.retain(|_, (_, windows)| {
            *windows = windows.saturating_sub(1);
            *windows > 0
        });
        self.lost = None;
        match std::mem::take(&mut self.state) {
            State::Moved {
                before,
                origins,
                still_windows: 1..,
            } => self.judge(before, origins, &progress, settings),
            State::Undone {
                moved,
                speed: lost,
                still_windows: 1..,
            } => {
                let gain = speed(&progress, &moved);
                if !are_alike(&progress, &moved) || gain < 1.0 + (1.0 / lost - 1.0) / 2.0 {
                    self.held.clear();
                }
            }
            state => self.state = state,
        }
        self.last = progress;
    }

    fn judge(
        &mut self,
        before: Progress,
        origins: BTreeMap<ThreadKey, NodeId>,
        progress: &Progress,
        settings: &Feedback,
    ) {
        let speed = speed(progress, &before);
        if !are_alike(progress, &before) || speed >= MIN_SPEED {
            return;
        }
        let windows = settings.retry_windows;
        let held = origins
            .into_iter()
            .map(|(key, node)| (key, (node, windows)));
        self.held.extend(held);
        self.lost = Some(speed);
        self.state = State::Undone {
            moved: progress.clone(),
            speed,
            still_windows: 0,
        };
    }

    /// Threads that stay where they were before.
    pub(super) fn held(&self, held: &mut HashMap<ThreadKey, NodeId>) {
        for (key, (node, _)) in &self.held {
            held.entry(*key).or_insert(*node);
        }
    }

    /// The way back of threads that go back now.
    pub(super) fn steps_back(&self, facts: &Facts) -> Vec<Move> {
        let Some(speed) = self.lost else {
            return Vec::new();
        };
        let step = |(key, (node, _)): (&ThreadKey, &(NodeId, u32))| {
            let thread = facts.window.thread(*key)?;
            (thread.node != *node).then_some(Move {
                thread: *key,
                from: thread.node,
                to: *node,
                reason: Reason::BroughtLess { speed },
            })
        };
        self.held.iter().filter_map(step).collect()
    }

    /// Threads of a process that would go back stay where they are: it may not pay for that.
    pub(super) fn leave(&mut self, facts: &Facts, process: u32) {
        let is_back = |key: &ThreadKey, node: NodeId| {
            let thread = facts.window.thread(*key);
            thread.is_none_or(|thread| thread.node == node)
        };
        self.held
            .retain(|key, (node, _)| key.process_id != process || is_back(key, *node));
    }

    /// Adds the way back to a plan that was made with them held.
    pub(super) fn send_back(&self, facts: &Facts, plan: &mut Plan) {
        let steps: Vec<Move> = (self.steps_back(facts).into_iter())
            .filter(|step| plan.move_of(step.thread).is_none())
            .collect();
        plan.moves.extend(steps);
        plan.moves.sort_by_key(|step| step.thread);
    }

    /// Takes what was decided about a window. `is_still` says that nothing else changes.
    pub(super) fn note(&mut self, plan: &Plan, is_still: bool) {
        let moves = plan.moves.iter();
        let origins = moves.clone().map(|step| (step.thread, step.from));
        match &mut self.state {
            State::Undone { still_windows, .. } if plan.moves.is_empty() && is_still => {
                *still_windows += 1;
            }
            State::Moved {
                origins: known,
                still_windows,
                ..
            } => {
                for (thread, node) in origins {
                    known.entry(thread).or_insert(node);
                }
                let rests = plan.moves.is_empty() && is_still;
                *still_windows = if rests { *still_windows + 1 } else { 0 };
            }
            State::Still if !plan.moves.is_empty() && !self.last.is_empty() => {
                self.state = State::Moved {
                    before: self.last.clone(),
                    origins: origins.collect(),
                    still_windows: 0,
                };
            }
            State::Still | State::Undone { .. } => {}
        }
    }

    /// Whether migrations are not judged yet, so that nothing else should change.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Still)
    }
}
