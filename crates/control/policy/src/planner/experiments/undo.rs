//! Stage 10, for threads: migrations after which threads get less are undone (ours).
//!
//! ```text
//!   still ── threads move ──▶ moved ── a still window later: speed < 0.98 of before ──▶ undone, no moves
//!     ▲                         │                                                         │
//!     └──── as fast or faster ──┘◀── undoing brought less than half of that back ─────────┘
//!                                    else their processes' threads stay for `retry_windows`
//! ```
//!
//! Speed is a geometric mean over all threads, and over processes that use their memory too, because contention
//! concerns other threads. The second look is needed because threads may be slower when their work changed at the same
//! moment. If the work of threads changes over time, a window is compared with an earlier window of the same work, and
//! waited for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use egeria_facts::{Facts, ThreadKey};
use egeria_machine::NodeId;

use super::super::settings::Feedback;
use super::progress::{Kinds, Progress, are_alike, speed};
use crate::{Move, Plan, Reason};

/// A loss below this is not worth another migration.
pub(in crate::planner) const MIN_SPEED: f64 = 0.98;
/// How long to wait for a window like those before, in windows.
pub(in crate::planner) const PATIENCE_WINDOWS: u32 = 24;
/// How long nothing else is compared during that, in windows.
const FEW_WINDOWS: u32 = 4;
/// How long to wait for data that goes on moving, in windows.
const MAX_UNREST_WINDOWS: u32 = 4;

/// Migrations that are not judged yet, and those that were undone.
#[derive(Clone, Debug, Default)]
pub(in crate::planner) struct Undo {
    state: State,
    /// What threads got since they moved.
    recent: Kinds,
    /// Threads that stay at their former nodes, and for how many windows.
    held: BTreeMap<ThreadKey, (NodeId, u32)>,
    /// The speed that was lost, while threads are on their way back.
    lost: Option<f64>,
    /// Former nodes of threads that have moved since data last moved.
    since_data: BTreeMap<ThreadKey, NodeId>,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Nothing has moved since the last judgement.
    #[default]
    Still,
    /// Threads have moved from these nodes; their progress before, in windows of each kind that has not occurred
    /// since.
    Moved {
        before: Kinds,
        origins: BTreeMap<ThreadKey, NodeId>,
        still_windows: u32,
        unrest_windows: u32,
        windows: u32,
    },
    /// They have gone back; their progress before that, and the loss.
    Undone {
        moved: Progress,
        speed: f64,
        still_windows: u32,
        windows: u32,
    },
}

impl Undo {
    /// Takes what threads got in a window. Returns whether this window shows that the last migration was good.
    pub(in crate::planner) fn look(&mut self, progress: Progress, settings: &Feedback) -> bool {
        self.held.retain(|_, (_, windows)| {
            *windows = windows.saturating_sub(1);
            *windows > 0
        });
        self.lost = None;
        let mut is_good = false;
        match std::mem::take(&mut self.state) {
            State::Moved {
                before,
                origins,
                still_windows: 1..,
                unrest_windows,
                windows,
            } => {
                let all = (unrest_windows, windows);
                is_good = self.judge(before, origins, all, &progress, settings);
            }
            State::Undone {
                moved,
                speed: lost,
                still_windows: 1..,
                windows,
            } => {
                if are_alike(&progress, &moved) {
                    let gain = speed(&progress, &moved);
                    if gain < 1.0 + (1.0 / lost - 1.0) / 2.0 {
                        self.held.clear();
                    }
                } else if windows < PATIENCE_WINDOWS {
                    self.state = State::Undone {
                        moved,
                        speed: lost,
                        still_windows: 1,
                        windows: windows + 1,
                    };
                }
            }
            state => self.state = state,
        }
        self.recent.remember(progress);
        is_good
    }

    fn judge(
        &mut self,
        mut before: Kinds,
        origins: BTreeMap<ThreadKey, NodeId>,
        (unrest_windows, windows): (u32, u32),
        progress: &Progress,
        settings: &Feedback,
    ) -> bool {
        let met = before.meet(progress);
        if let Some(speed) = met.filter(|speed| *speed < MIN_SPEED) {
            self.go_back(origins, speed, progress, settings);
            return false;
        }
        if !before.is_empty() && windows < PATIENCE_WINDOWS {
            self.state = State::Moved {
                before,
                origins,
                still_windows: 1,
                unrest_windows,
                windows: windows + 1,
            };
        }
        met.is_some()
    }

    fn go_back(
        &mut self,
        origins: BTreeMap<ThreadKey, NodeId>,
        speed: f64,
        progress: &Progress,
        settings: &Feedback,
    ) {
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
            windows: 0,
        };
    }

    /// Data goes back because threads got this speed. Threads that have moved since go back, too.
    pub(in crate::planner) fn follow_back(
        &mut self,
        speed: f64,
        progress: &Progress,
        settings: &Feedback,
    ) {
        let origins = std::mem::take(&mut self.since_data);
        if !origins.is_empty() {
            self.go_back(origins, speed, progress, settings);
        }
    }

    /// Data begins to move: threads may follow.
    pub(in crate::planner) fn note_data(&mut self) {
        self.since_data.clear();
    }

    /// Adds threads that stay where they are now, in addition to those that were sent back. Before the undoing is
    /// judged these are all threads; later, threads of the same processes while these are held. Otherwise the reason
    /// that moved the first threads would move the others.
    fn beside_held(&self, facts: &Facts, held: &mut HashMap<ThreadKey, NodeId>) {
        let processes: BTreeSet<u32> = self.held.keys().map(|key| key.process_id).collect();
        let all = matches!(self.state, State::Undone { .. });
        let stays = |key: &ThreadKey| all || processes.contains(&key.process_id);
        for thread in facts.window.threads.iter().filter(|each| stays(&each.key)) {
            held.entry(thread.key).or_insert(thread.node);
        }
    }

    /// Adds threads that stay at their former nodes.
    pub(in crate::planner) fn held(&self, facts: &Facts, held: &mut HashMap<ThreadKey, NodeId>) {
        for (key, (node, _)) in &self.held {
            held.entry(*key).or_insert(*node);
        }
        self.beside_held(facts, held);
    }

    /// The moves of threads that go back now.
    pub(in crate::planner) fn steps_back(&self, facts: &Facts) -> Vec<Move> {
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

    /// Threads of a process that would go back stay where they are, because the process may not pay for it.
    pub(in crate::planner) fn leave(&mut self, facts: &Facts, process: u32) {
        let is_back = |key: &ThreadKey, node: NodeId| {
            let thread = facts.window.thread(*key);
            thread.is_none_or(|thread| thread.node == node)
        };
        self.held
            .retain(|key, (node, _)| key.process_id != process || is_back(key, *node));
    }

    /// Adds the moves back to a plan that was made with these threads held.
    pub(in crate::planner) fn send_back(&self, facts: &Facts, plan: &mut Plan) {
        let steps: Vec<Move> = (self.steps_back(facts).into_iter())
            .filter(|step| plan.move_of(step.thread).is_none())
            .collect();
        plan.moves.extend(steps);
        plan.moves.sort_by_key(|step| step.thread);
    }

    /// Takes the decision about a window. `is_still` says that nothing else changes.
    pub(in crate::planner) fn note(&mut self, plan: &Plan, is_still: bool) {
        let is_own = |step: &&Move| !matches!(step.reason, Reason::Compared { .. });
        let moves = plan.moves.iter().filter(is_own);
        let origins = moves.clone().map(|step| (step.thread, step.from));
        for (thread, node) in origins.clone() {
            self.since_data.entry(thread).or_insert(node);
        }
        match &mut self.state {
            State::Undone { still_windows, .. } if plan.moves.is_empty() && is_still => {
                *still_windows += 1;
            }
            State::Moved {
                origins: known,
                still_windows,
                unrest_windows,
                ..
            } => {
                for (thread, node) in origins {
                    known.entry(thread).or_insert(node);
                }
                *unrest_windows = if plan.moves.is_empty() {
                    *unrest_windows + u32::from(!is_still)
                } else {
                    0
                };
                let is_waited_for = !is_still && *unrest_windows <= MAX_UNREST_WINDOWS;
                let rests = plan.moves.is_empty() && !is_waited_for;
                *still_windows = if rests { *still_windows + 1 } else { 0 };
            }
            State::Still if !plan.moves.is_empty() && !self.recent.is_empty() => {
                self.state = State::Moved {
                    before: std::mem::take(&mut self.recent),
                    origins: origins.collect(),
                    still_windows: 0,
                    unrest_windows: 0,
                    windows: 0,
                };
            }
            State::Still | State::Undone { .. } => {}
        }
    }

    /// Whether to wait for windows that are like those before a migration.
    pub(in crate::planner) fn is_waiting(&self) -> bool {
        matches!(&self.state, State::Moved { windows, .. } if *windows < FEW_WINDOWS)
    }

    /// Whether migrations are not judged yet, so that nothing else should change.
    pub(in crate::planner) fn is_open(&self) -> bool {
        match &self.state {
            State::Still => false,
            // A window of another kind may come, or not.
            State::Moved { windows, .. } => *windows == 0,
            State::Undone { .. } => true,
        }
    }
}
