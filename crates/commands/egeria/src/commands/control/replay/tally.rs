//! What a replay comes to, and which threads never came to rest.

use std::collections::HashMap;

use egeria_facts::{ThreadKey, Window};
use egeria_machine::Machine;
use egeria_policy::Note;
use egeria_policy::control::Turn;
use egeria_policy::planner::System;
use serde::Serialize;

/// Windows in a row without a move after which a thread has settled.
const SETTLED_WINDOWS: u64 = 3;

/// Most different notes kept.
const MAX_NOTES: usize = 100;

/// What one policy did.
pub(super) struct Tally {
    pub(super) policy: System,
    moves: u64,
    /// Actions that are no moves of single threads.
    other_actions: u64,
    /// Actions that brought less than half of what was expected.
    missed: u64,
    local_bytes: u128,
    all_bytes: u128,
    /// Threads that were moved.
    moved: HashMap<ThreadKey, Moved>,
    /// What limited the plans.
    pub(super) notes: Vec<Note>,
}

struct Moved {
    name: String,
    moves: u64,
    /// Windows since the last move.
    stay: u64,
    longest_stay: u64,
}

/// One policy in a report.
#[derive(Serialize)]
pub(super) struct PolicyRow {
    pub(super) policy: System,
    pub(super) moves: u64,
    pub(super) moved_threads: usize,
    pub(super) max_moves: u64,
    /// Actions that are no moves of single threads.
    pub(super) other_actions: u64,
    /// Actions that brought less than half of what was expected.
    pub(super) missed: u64,
    pub(super) unsettled_threads: usize,
    /// Of the bytes read and written, with threads where the replay has put them.
    pub(super) local_share: Option<f64>,
}

/// A thread that never came to rest.
#[derive(Serialize)]
pub(super) struct Unsettled {
    #[serde(flatten)]
    pub(super) key: ThreadKey,
    pub(super) name: String,
    pub(super) moves: u64,
}

impl Tally {
    pub(super) fn new(policy: System) -> Tally {
        Tally {
            policy,
            other_actions: 0,
            missed: 0,
            moves: 0,
            local_bytes: 0,
            all_bytes: 0,
            moved: HashMap::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a window, with threads where they were then, and its plan.
    pub(super) fn add(&mut self, machine: &Machine, window: &Window, turn: &Turn) {
        let plan = &turn.decision.threads;
        self.moves += plan.moves.len() as u64;
        self.other_actions += (turn.actions.len() - plan.moves.len()) as u64;
        self.missed += turn.results.iter().filter(|result| result.missed).count() as u64;
        for thread in &window.threads {
            let index = machine.index_of(thread.node);
            self.local_bytes += u128::from(index.map_or(0, |index| thread.moved_at(index)));
            self.all_bytes += u128::from(thread.moved_total());
            if plan.move_of(thread.key).is_some() {
                let moved = self.moved.entry(thread.key);
                let moved = moved.or_insert_with(|| Moved::new(&thread.name));
                (moved.moves, moved.stay) = (moved.moves + 1, 0);
            } else if let Some(moved) = self.moved.get_mut(&thread.key) {
                moved.stay += 1;
                moved.longest_stay = moved.longest_stay.max(moved.stay);
            }
        }
        for note in &plan.notes {
            if self.notes.len() < MAX_NOTES && !self.notes.contains(note) {
                self.notes.push(*note);
            }
        }
    }

    pub(super) fn row(&self) -> PolicyRow {
        let moved = self.moved.values();
        let local = || self.local_bytes as f64 / self.all_bytes as f64;
        PolicyRow {
            policy: self.policy,
            moves: self.moves,
            moved_threads: self.moved.len(),
            other_actions: self.other_actions,
            missed: self.missed,
            max_moves: moved.map(|each| each.moves).max().unwrap_or_default(),
            unsettled_threads: self.unsettled().len(),
            local_share: (self.all_bytes > 0).then(local),
        }
    }

    /// Threads that never came to rest, most restless first.
    pub(super) fn unsettled(&self) -> Vec<Unsettled> {
        let restless = self.moved.iter().filter(|(_, each)| !each.has_settled());
        let mut unsettled: Vec<Unsettled> = restless
            .map(|(&key, each)| Unsettled {
                key,
                name: each.name.clone(),
                moves: each.moves,
            })
            .collect();
        unsettled.sort_by_key(|each| (std::cmp::Reverse(each.moves), each.key));
        unsettled
    }
}

impl Moved {
    fn new(name: &str) -> Moved {
        Moved {
            name: name.to_owned(),
            moves: 0,
            stay: 0,
            longest_stay: 0,
        }
    }

    fn has_settled(&self) -> bool {
        self.moves < 2 || self.longest_stay >= SETTLED_WINDOWS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(moves: u64, longest_stay: u64) -> Moved {
        Moved {
            moves,
            longest_stay,
            ..Moved::new("")
        }
    }

    #[test]
    fn who_moves_on_within_three_windows_has_not_settled() {
        assert!(moved(1, 0).has_settled());
        assert!(moved(2, 3).has_settled());
        assert!(!moved(2, 2).has_settled());
        assert!(!moved(9, 0).has_settled());
    }
}
