//! Hot data that is read is moved or copied where that pays off (ours; NThread §III-C1 does not relieve contention
//! among readers, because its data never moves).
//!
//! Candidates are files with at most `max_written_share` of the used bytes written. Their node is contended for reads,
//! or they are read mostly from other nodes even after threads have moved. For each file and node, the options are:
//! all of it goes there (with the threads that would follow, or without), a part of it goes that fits what both memories
//! give, or a copy is made.
//!
//! ```text
//!   gain    = W now - W afterwards                            threads that need not wait          traffic.rs
//!   taken   = bytes x use of the source / its read bandwidth
//!           + bytes x use of the target / its write bandwidth
//!           + bytes x use of each lane between / its width    s
//!   loss    = the same, each times the threads that wait there                                    thread seconds
//!   worth   : gain x horizon > loss                           repaid within the horizon
//! ```
//!
//! *Taken* is charged to the budget of each process that uses the file: for this time, no other process could use the
//! memories as much. A copy is given up by the first write, so its horizon is at most the time for which the file was
//! not written. For each file, the step with the most gain x horizon - loss counts. The file with the most of this per
//! time taken comes first, and the next is judged by what is left. No process goes over its budget, and no memory or
//! lane gives more than `copy_share` to all copies together.
//!
//! *No oscillation.* A file rests after a step, except for parts of it that gather at the target of the last step. It
//! goes back to a node that it left, or that gave up a copy, after 16 rests at the earliest, and after twice as many
//! each time. A step is not taken if it gains less than a twentieth of what readers of the file wait and read, or less
//! than a hundredth of a thread.
//!
//! *Results.* Steps after which threads get less are undone (experiments).
//!
//! *Nodes without CPUs* (CXL) never get hot data: it would be far from all threads. If a node lacks room for hot data,
//! files on it that are hardly used go to the nearest such node first.

mod candidates;
mod history;
mod options;
mod rates;
mod round;
mod scene;
mod speeds;
mod steps;
mod traffic;

use std::collections::HashSet;

use egeria_facts::{Facts, FileKey, ThreadFacts, ThreadKey};

use super::decision::{Relocate, RelocationReason, RelocationStep};
use super::experiments::Back;
use super::ledger::Ledger;
use candidates::{Candidate, MAIN_PART, MAX_FILES, candidates, places};
use history::{Histories, History};
use options::{Before, Choice, Now, choices};
use round::{Round, drop_step};
pub(super) use scene::Scene;
use speeds::Speeds;
use traffic::Traffic;

/// A file with at least this share of remote reads counts as mostly read from other nodes.
const MOSTLY: f64 = 0.5;

/// The state between windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Relocations {
    histories: Histories,
    /// Steps after which threads got less, and how much; they are undone in the next decision.
    back: Option<Back>,
}

/// A file that may go somewhere, by position, and the node it may leave.
type Open = (usize, usize);

impl Relocations {
    /// Whether data is on its way.
    pub(super) fn is_under_way(&self) -> bool {
        self.histories.under_way().next().is_some()
    }

    /// Threads that mostly read a file which is on its way: it is nearer to them when it has arrived, so they do not go
    /// where it was.
    pub(super) fn awaiting(&self, facts: &Facts) -> HashSet<ThreadKey> {
        let is_awaited = |file: &FileKey| {
            let history = self.histories.of(*file);
            history.is_some_and(History::is_under_way)
        };
        let awaits = |thread: &&ThreadFacts| {
            let files = thread.files.iter();
            let awaited = files.filter(|each| is_awaited(&each.file));
            let bytes: u64 = awaited.map(|each| each.read_bytes).sum();
            bytes > 0 && bytes as f64 >= MAIN_PART * thread.read_total() as f64
        };
        let threads = facts.window.threads.iter().filter(awaits);
        threads.map(|thread| thread.key).collect()
    }

    /// Steps after which threads got less: they are undone in the next decision.
    pub(super) fn take_back(&mut self, back: Option<Back>) {
        self.back = back.or(self.back.take());
    }

    /// The steps for data; their costs are charged.
    pub(super) fn next(&mut self, scene: &Scene<'_>, ledger: &mut Ledger) -> Vec<RelocationStep> {
        let places = places(scene);
        let candidates = candidates(scene, &places);
        let duration_ns = scene.facts.window.duration_ns;
        self.histories.pass(&candidates, duration_ns);
        if duration_ns == 0 {
            return Vec::new();
        }
        let speeds = Speeds::new(scene.machine, scene.paths);
        let mut traffic = round::traffic(scene, &speeds, &places);
        let mut round = Round::new(scene, &speeds, &candidates, &traffic);
        for copy in self.histories.under_way() {
            round.add_under_way(copy);
        }
        if let Some((speed, mut steps)) = self.back.take() {
            let usage = traffic.usage();
            steps.retain(|step| !self.go_back(&mut round, step, speed, &usage, ledger));
            // Other files are considered when these steps are done.
            let goes_on = !steps.is_empty() && self.is_under_way();
            self.back = goes_on.then_some((speed, steps));
            return round.steps;
        }
        self.drop_copies(&mut round);
        if scene.is_still {
            return round.steps;
        }
        let mut open = self.open(&round);
        for _ in 0..scene.settings.relocation.max_steps {
            let Some(after) = self.best_step(&mut round, &mut open, &traffic, ledger) else {
                break;
            };
            traffic = after;
        }
        round.steps
    }

    /// Drops copies that are out of date or not read.
    fn drop_copies(&mut self, round: &mut Round<'_>) {
        let settings = &round.scene.settings.relocation;
        for candidate in round.candidates {
            let facts = candidate.facts;
            for node in (0..round.speeds.nodes).filter(|node| facts.has_replica(*node)) {
                let history = self.histories.of(facts.file);
                let windows = history.map_or(0, |history| history.unread(node));
                let why = match facts.written_bytes {
                    0 if windows < settings.rest_windows => continue,
                    0 => RelocationReason::Unread { windows },
                    written_bytes => RelocationReason::Written { written_bytes },
                };
                let step = drop_step(facts.file, round.id(node), why, settings.horizon_ms);
                round.steps.push(step);
                self.histories.give_up(facts.file, settings, node);
            }
        }
    }

    /// The files that may go somewhere.
    fn open(&self, round: &Round<'_>) -> Vec<Open> {
        let settings = &round.scene.settings.relocation;
        let seconds = round.scene.facts.window.seconds();
        let is_open = |(index, candidate): (usize, &Candidate<'_>)| {
            let history = self.histories.of(candidate.facts.file)?;
            let source = candidate.source(|node| round.is_contended(node))?;
            let is_read = candidate.read_bytes_s >= settings.min_read_bytes_s
                && candidate.written_share(seconds) <= settings.max_written_share;
            let wants = round.is_contended(source) || candidate.remote_share() > MOSTLY;
            (!history.is_under_way() && is_read && wants).then_some((index, source))
        };
        let all = round.candidates.iter().enumerate().filter_map(is_open);
        all.take(MAX_FILES).collect()
    }

    /// Takes the most worthwhile step that is possible. Returns the reads after it.
    fn best_step<'a>(
        &mut self,
        round: &mut Round<'a>,
        open: &mut Vec<Open>,
        traffic: &Traffic<'a>,
        ledger: &mut Ledger,
    ) -> Option<Traffic<'a>> {
        let now = Now::new(traffic);
        let mut all: Vec<(usize, Choice)> = Vec::new();
        let mut after = traffic.clone();
        // A step that is not worth it now will not be worth it after others.
        open.retain(|each| {
            let found = self.choices_of(round, *each, &now, &mut after);
            let best = found
                .into_iter()
                .max_by(|one, other| one.net_thread_s().total_cmp(&other.net_thread_s()));
            let any = best.is_some();
            all.extend(best.map(|choice| (each.0, choice)));
            any
        });
        // The budget goes to the steps with the most gain per cost.
        all.sort_by(|(_, one), (_, other)| other.worth().total_cmp(&one.worth()));
        for (index, choice) in all {
            let candidate = &round.candidates[index];
            let is_done = if round.has_room(&choice) {
                self.take(round, candidate, &choice, traffic, ledger)
            } else {
                self.make_room(round, candidate, &choice, &now.usage, ledger)
            };
            if is_done {
                let has_gone =
                    round.steps.last().map(|step| step.file) == Some(candidate.facts.file);
                open.retain(|(other, _)| *other != index);
                return Some(if has_gone {
                    choice.after(candidate, traffic)
                } else {
                    traffic.clone()
                });
            }
        }
        None
    }

    fn choices_of<'a>(
        &self,
        round: &Round<'a>,
        (index, source): Open,
        now: &Now<'_, 'a>,
        after: &mut Traffic<'a>,
    ) -> Vec<Choice> {
        let candidate = &round.candidates[index];
        let horizon_s = round.scene.settings.relocation.horizon_ms as f64 / 1e3;
        let history = self.histories.of(candidate.facts.file);
        let unwritten_ns = history.map_or(0, |history| history.unwritten_ns);
        let times = (horizon_s, unwritten_ns as f64 / 1e9);
        let may_replicate = round.scene.settings.relocation.replicas;
        let before = Before::new(candidate, now, may_replicate);
        let mut found = Vec::new();
        for to in (0..round.speeds.nodes).filter(|to| *to != source) {
            let may_go = history.is_some_and(|history| history.may_go(source, to))
                && !round.is_resting(candidate, to);
            if round.is_hot_place(to) && may_go {
                let may_follow = round.may_follow(candidate, to);
                found.extend(choices(
                    candidate,
                    &before,
                    after,
                    (source, to),
                    may_follow,
                    times,
                ));
            }
        }
        found
    }
}
