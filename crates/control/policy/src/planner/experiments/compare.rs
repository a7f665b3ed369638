//! Work that begins after they moved is compared with how it goes where they were (ours).
//!
//! ```text
//!   work that was never seen where they were, two windows alike ──▶ back for one window ──▶ no faster: on again
//!                                                                           └──▶ faster: they stay as long as that work
//! ```
//!
//! A migration is judged by windows like those before it. Work of another kind was never seen at the old places, and
//! may lose there what the first kind gained. The loss by these comparisons is bounded, as that of trials is. Kinds of
//! work differ in which threads are active, how much of it they write, and how fast they are where nothing else
//! changed. Work whose speed differs as much by chance is one kind, and one window says nothing about it.

use std::collections::HashMap;

use egeria_facts::{Facts, ThreadKey};
use egeria_machine::NodeId;

use super::credit::Credit;
use super::places::{Places, moves};
use super::progress::{OTHER_SPEED, Progress, are_alike, are_as_fast, speed};
use crate::swing::Swing;
use crate::{Move, Plan, Reason};

/// A gain at the old places above this is worth going back.
const MIN_SPEED: f64 = 1.02;
/// How long to wait for work that does not stay the same, in windows.
const MAX_DUE_WINDOWS: u32 = 3;
/// Kinds of work that are remembered.
const MAX_KINDS: usize = 16;

/// Where threads were before they moved, and which work is faster there.
#[derive(Clone, Debug, Default)]
pub(super) struct Compare {
    /// Where each thread was before its first move.
    old_places: Places,
    kinds: Vec<Kind>,
    state: State,
    last: Progress,
    /// What windows differ by while nothing is changed.
    swing: Swing,
    /// Windows since something changed.
    quiet_windows: u32,
    /// Consecutive windows of new work without a comparison.
    due_windows: u32,
    /// Where threads are sent now, and, if known, what they get there compared with their present nodes.
    sent: Option<(Places, Option<f64>)>,
}

/// Work that was compared.
#[derive(Clone, Debug)]
struct Kind {
    /// What threads get at the new places.
    new: Progress,
    /// What they get at the old ones, if it is more.
    old: Option<Progress>,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Threads are where the planner wants them.
    #[default]
    New,
    /// They are back for one window.
    Looking { new: Progress, places: Places },
    /// They stay back while work is of this kind.
    Old { work: Progress },
}

impl Compare {
    /// Takes what threads got in a window. `is_free` says that nothing else is being tried or judged.
    pub(super) fn look(
        &mut self,
        facts: &Facts,
        progress: &Progress,
        is_free: bool,
        credit: &mut Credit,
    ) {
        let window = &facts.window;
        (self.old_places).retain(|key, _| window.thread(*key).is_some());
        self.sent = None;
        if self.quiet_windows > 0 && are_alike(progress, &self.last) {
            self.swing.note(Some(speed(progress, &self.last)));
        }
        let is_free = is_free && self.swing.is_below(OTHER_SPEED);
        let is_steady = self.quiet_windows > 0 && are_same(progress, &self.last);
        let mut due_windows = 0;
        self.state = match std::mem::take(&mut self.state) {
            State::New => match self.old_places_of(facts).filter(|_| is_free) {
                Some(places) if is_steady => self.begin(facts, progress, places, credit),
                Some(_) if credit.covers(0.0) && !self.is_known(progress) => {
                    due_windows = self.due_windows + 1;
                    State::New
                }
                _ => State::New,
            },
            State::Looking { new, places } => self.judge(progress, new, places, credit),
            State::Old { work } if self.is_like(progress, &work) => State::Old {
                work: progress.clone(),
            },
            State::Old { .. } => State::New,
        };
        self.due_windows = due_windows;
        self.last = progress.clone();
    }

    fn is_known(&self, progress: &Progress) -> bool {
        self.kinds.iter().any(|kind| are_same(progress, &kind.new))
    }

    /// Whether work is of the kind that it was, at any speed if that differs by chance.
    fn is_like(&self, progress: &Progress, work: &Progress) -> bool {
        are_same(progress, work) || (are_alike(progress, work) && !self.swing.is_below(OTHER_SPEED))
    }

    /// The old places of threads that are elsewhere now.
    fn old_places_of(&self, facts: &Facts) -> Option<Places> {
        let is_away = |(key, node): &(&ThreadKey, &NodeId)| {
            let thread = facts.window.thread(**key);
            thread.is_some_and(|thread| thread.node != **node && !thread.pinned)
        };
        let away = self.old_places.iter().filter(is_away);
        let away: Places = away.map(|(key, node)| (*key, *node)).collect();
        (!away.is_empty()).then_some(away)
    }

    fn begin(
        &mut self,
        facts: &Facts,
        progress: &Progress,
        places: Places,
        credit: &Credit,
    ) -> State {
        let known = self.kinds.iter().find(|kind| are_same(progress, &kind.new));
        match known {
            Some(Kind { old: None, .. }) => State::New,
            Some(Kind { old: Some(old), .. }) => {
                let work = old.clone();
                self.sent = Some((places, Some(speed(&work, progress))));
                State::Old { work }
            }
            None if !credit.covers(0.0) => State::New,
            None => {
                let now = |key: &ThreadKey| Some((*key, facts.window.thread(*key)?.node));
                let back = places.keys().filter_map(now).collect();
                self.sent = Some((places, None));
                State::Looking {
                    new: progress.clone(),
                    places: back,
                }
            }
        }
    }

    fn judge(
        &mut self,
        progress: &Progress,
        new: Progress,
        places: Places,
        credit: &mut Credit,
    ) -> State {
        let is_comparable = are_alike(progress, &new);
        let speed = speed(progress, &new);
        if is_comparable && self.swing.is_gain(speed, MIN_SPEED) {
            self.remember(new, Some(progress.clone()));
            return State::Old {
                work: progress.clone(),
            };
        }
        credit.lose((1.0 - speed).max(0.0));
        self.sent = Some((places, Some(1.0 / speed)));
        if is_comparable {
            self.remember(new, None);
        }
        State::New
    }

    fn remember(&mut self, new: Progress, old: Option<Progress>) {
        if self.kinds.len() == MAX_KINDS {
            self.kinds.remove(0);
        }
        self.kinds.push(Kind { new, old });
    }

    /// Records progress after a migration that was found good: it needs no comparison.
    pub(super) fn know(&mut self, progress: &Progress) {
        if !self.is_known(progress) {
            self.remember(progress.clone(), None);
        }
    }

    /// Whether threads were back for a comparison in the last window, or will be in the next. Such a window is like
    /// neither of its neighbours.
    pub(super) fn is_looking(&self) -> bool {
        matches!(self.state, State::Looking { .. })
    }

    /// Whether threads go somewhere, or are at their old places for a window, or may be sent there after another
    /// window like the last. Nothing else should begin then.
    pub(super) fn is_under_way_or_due(&self) -> bool {
        let is_due = (1..=MAX_DUE_WINDOWS).contains(&self.due_windows);
        self.is_looking() || self.sent.is_some() || is_due
    }

    /// Threads that go now, of each process.
    pub(super) fn goers(&self) -> impl Iterator<Item = &ThreadKey> {
        self.sent.iter().flat_map(|(places, _)| places.keys())
    }

    /// Number of moves that follow from that.
    pub(super) fn ways(&self) -> u64 {
        if self.is_looking() { 2 } else { 1 }
    }

    /// They stay where they are, because their processes may not pay for it.
    pub(super) fn give_up(&mut self) {
        (self.sent, self.state) = (None, State::New);
    }

    /// Threads that stay where they are, or where they go now: all during a comparison, else those that are back.
    pub(super) fn held(&self, facts: &Facts, held: &mut HashMap<ThreadKey, NodeId>) {
        let is_back = matches!(self.state, State::Old { .. });
        if !is_back && !self.is_looking() && self.sent.is_none() {
            return;
        }
        let holds_all = !is_back || self.sent.is_some();
        for thread in &facts.window.threads {
            if holds_all || self.old_places.contains_key(&thread.key) {
                held.entry(thread.key).or_insert(thread.node);
            }
        }
    }

    /// The moves of threads that go now.
    pub(super) fn steps(&self, facts: &Facts) -> Vec<Move> {
        let Some((places, speed)) = &self.sent else {
            return Vec::new();
        };
        moves(facts, places.iter(), &Reason::Compared { speed: *speed })
    }

    /// Takes the decision about a window. `is_still` says that nothing else changes.
    pub(super) fn note(&mut self, plan: &Plan, is_still: bool) {
        for step in &plan.moves {
            let is_own = matches!(step.reason, Reason::Compared { .. });
            if !is_own {
                self.old_places.entry(step.thread).or_insert(step.from);
            }
        }
        let is_quiet = is_still && plan.moves.is_empty();
        self.quiet_windows = if is_quiet { self.quiet_windows + 1 } else { 0 };
    }
}

/// Whether threads do the same work at the same speed.
fn are_same(one: &Progress, other: &Progress) -> bool {
    are_alike(one, other) && are_as_fast(one, other)
}
