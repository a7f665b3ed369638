//! Options for a file, with their gains and costs.

use super::candidates::{Candidate, GATHERED};
use super::traffic::{Copying, Traffic, Usage};

/// An option for a file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    /// This part of the data on the source goes; its threads follow or stay.
    Move { part: f64, threads_follow: bool },
    /// A copy of all of it.
    Replicate,
}

impl Kind {
    /// Whether threads follow the file.
    pub(super) fn threads_follow(self) -> bool {
        matches!(
            self,
            Kind::Move {
                threads_follow: true,
                ..
            }
        )
    }
}

/// One option. Nodes are positions.
pub(super) struct Choice {
    pub(super) kind: Kind,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
    /// Threads that need not wait any more, at the present rates.
    pub(super) gain_threads: f64,
    pub(super) copying: Copying,
    pub(super) horizon_s: f64,
    /// The factor by which a read from the source takes longer than undisturbed, after the step.
    pub(super) stretch_after: f64,
}

impl Choice {
    /// The reads after it.
    pub(super) fn after<'a>(
        &self,
        candidate: &Candidate<'_>,
        traffic: &Traffic<'a>,
    ) -> Traffic<'a> {
        let mut after = traffic.clone();
        relocate(candidate, &mut after, self.kind, (self.from, self.to));
        after
    }

    /// Thread seconds gained within the horizon, beyond what copying loses.
    pub(super) fn net_thread_s(&self) -> f64 {
        self.gain_threads * self.horizon_s - self.copying.loss_thread_s
    }

    /// This value per second charged to the budget; a tiny charge counts as a millisecond.
    pub(super) fn worth(&self) -> f64 {
        self.net_thread_s() / self.copying.taken_s.max(MIN_TAKEN_S)
    }
}

/// The state before any file is moved.
pub(super) struct Now<'t, 'a> {
    traffic: &'t Traffic<'a>,
    pub(super) usage: Usage<'a>,
    /// `W`.
    threads: f64,
}

impl<'t, 'a> Now<'t, 'a> {
    pub(super) fn new(traffic: &'t Traffic<'a>) -> Self {
        Now {
            traffic,
            usage: traffic.usage(),
            threads: traffic.reading_threads(),
        }
    }
}

/// The state before one file is moved.
pub(super) struct Before<'t, 'a> {
    now: &'t Now<'t, 'a>,
    /// What a step must gain, threads.
    min_threads: f64,
    may_replicate: bool,
}

impl<'t, 'a> Before<'t, 'a> {
    pub(super) fn new(
        candidate: &Candidate<'_>,
        now: &'t Now<'t, 'a>,
        may_replicate: bool,
    ) -> Self {
        let own = now.traffic.reading_threads_of(&candidate.reads.concat());
        Before {
            now,
            min_threads: (MIN_GAIN * own).max(MIN_THREADS),
            may_replicate,
        }
    }

    /// The effect of a step; `None` if it is not repaid. The content of `after` is overwritten.
    fn choice(
        &self,
        candidate: &Candidate<'_>,
        after: &mut Traffic<'a>,
        kind: Kind,
        (from, to): (usize, usize),
        (horizon_s, unwritten_s): (f64, f64),
    ) -> Option<Choice> {
        let (bytes, horizon_s) = match kind {
            Kind::Move { part, .. } => {
                let bytes = (candidate.facts.on(from) as f64 * part) as u64;
                (bytes, horizon_s)
            }
            // The file was not written for this time; the best guess is that it will not be written for as long again.
            Kind::Replicate => (candidate.facts.bytes, horizon_s.min(unwritten_s)),
        };
        after.clone_from(self.now.traffic);
        relocate(candidate, after, kind, (from, to));
        let sure = if kind.threads_follow() { FOLLOWED } else { 1.0 };
        let choice = Choice {
            kind,
            from,
            to,
            bytes,
            gain_threads: (self.now.threads - after.reading_threads()) * sure,
            copying: self.now.usage.copying(from, to, bytes)?,
            horizon_s,
            stretch_after: after.stretch(from),
        };
        let is_worth_it = choice.gain_threads > self.min_threads && choice.net_thread_s() > 0.0;
        (bytes > 0 && is_worth_it).then_some(choice)
    }
}

/// The options of a file from one node to another that are repaid: `gain x horizon > loss`. What `after` holds is
/// overwritten.
pub(super) fn choices<'a>(
    candidate: &Candidate<'_>,
    before: &Before<'_, 'a>,
    after: &mut Traffic<'a>,
    (from, to): (usize, usize),
    may_follow: bool,
    (horizon_s, unwritten_s): (f64, f64),
) -> Vec<Choice> {
    let times = (horizon_s, unwritten_s);
    let choice = |kind: Kind| before.choice(candidate, after, kind, (from, to), times);
    let move_of = |part, threads_follow| Kind::Move {
        part,
        threads_follow,
    };
    // A thread that also reads much of the file elsewhere has no target to follow to.
    let gathered = candidate.read_from(from) + candidate.read_from(to);
    let may_follow = may_follow && gathered >= GATHERED * candidate.read_bytes_s;
    // If two are equal, the last is taken.
    let kinds = [
        (before.may_replicate && !candidate.facts.has_replica(to)).then_some(Kind::Replicate),
        Some(move_of(before.now.traffic.spread_part(from, to), false)),
        may_follow.then_some(move_of(1.0, true)),
        Some(move_of(1.0, false)),
    ];
    kinds.into_iter().flatten().filter_map(choice).collect()
}

/// Factor for options that also need threads to move.
const FOLLOWED: f64 = 0.95;

/// Costs below this are all the same, s.
const MIN_TAKEN_S: f64 = 1e-3;

/// A gain below this share of the time that readers of the file take is not worth it.
const MIN_GAIN: f64 = 0.05;

/// A gain below this part of a thread is not worth it.
const MIN_THREADS: f64 = 0.01;

/// The reads after a step.
fn relocate(
    candidate: &Candidate<'_>,
    traffic: &mut Traffic<'_>,
    kind: Kind,
    (from, to): (usize, usize),
) {
    for reader in 0..candidate.reads.len() {
        match kind {
            Kind::Move {
                part,
                threads_follow,
            } => {
                let bytes_s = candidate.reads[reader][from] * part;
                let following = if threads_follow {
                    candidate.following[reader]
                } else {
                    0.0
                };
                let following = following.min(bytes_s);
                traffic.shift((reader, from), (to, to), following);
                traffic.shift((reader, from), (reader, to), bytes_s - following);
            }
            Kind::Replicate => {
                for data in 0..candidate.reads.len() {
                    if traffic.is_nearer(reader, to, data) {
                        let bytes_s = candidate.reads[reader][data];
                        traffic.shift((reader, data), (reader, to), bytes_s);
                    }
                }
            }
        }
    }
    traffic.settle();
}
