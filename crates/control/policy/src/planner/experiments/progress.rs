//! What threads got in a window, and whether that is comparable with another window.

use std::collections::BTreeMap;

use egeria_facts::{Facts, ThreadKey};

/// A thread that stops or begins counts as slower or faster by at most this factor.
const MAX_RATIO: f64 = 16.0;
/// Windows are alike when at least this share of the threads do the same in both.
const ALIKE_SHARE: f64 = 0.9;
/// Shares of writes count as equal up to this difference, in hundredths. They vary from window to window; with fixed
/// steps, work between two steps would count as new again and again.
const SAME_WRITES: u8 = 12;

/// What makes progress.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Actor {
    Thread(ThreadKey),
    Process(u32),
    /// No thread or process: the mean length of requests to persistent memory.
    Requests,
}

/// Kinds of windows that are remembered.
const MAX_KINDS: usize = 4;
/// Requests that are longer by this factor belong to other work.
const OTHER_LENGTH: f64 = 8.0;
/// A process that is faster by this factor, while nothing else changed, does other work.
pub(super) const OTHER_SPEED: f64 = 1.3;

/// The progress of one actor in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deed {
    /// Bytes/s of a thread that uses files; accesses/s of a process' memory.
    rate: f64,
    threads: f64,
    /// Share of writes in the bytes it moves, in hundredths.
    class: u8,
}

/// The progress of all actors in one window, or in several.
pub(super) type Progress = BTreeMap<Actor, Deed>;

/// The progress in one window.
pub(super) fn progress(facts: &Facts) -> Progress {
    let window = &facts.window;
    let threads = window.threads.iter().filter(|each| each.moved_total() > 0);
    let threads = threads.map(|each| {
        let written = each.written_total() as f64 / each.moved_total() as f64;
        let deed = Deed {
            rate: window.rate_bytes_s(each.moved_total()),
            threads: 1.0,
            class: (written * 100.0).round() as u8,
        };
        (Actor::Thread(each.key), deed)
    });
    let processes = facts.accesses.processes.iter().map(|process| {
        let rates = process.nodes.iter().flat_map(|each| &each.accesses_s);
        let deed = Deed {
            rate: rates.filter(|rate| rate.is_finite() && **rate > 0.0).sum(),
            threads: process
                .nodes
                .iter()
                .map(|each| f64::from(each.threads))
                .sum(),
            class: 0,
        };
        (Actor::Process(process.process.process_id), deed)
    });
    let processes = processes.filter(|(_, deed)| deed.rate > 0.0 && deed.threads > 0.0);
    threads.chain(processes).chain(requests(facts)).collect()
}

/// The mean length of requests to persistent memory, of all threads together.
fn requests(facts: &Facts) -> Option<(Actor, Deed)> {
    let mixes = || facts.media.iter().map(|each| each.measured.mix);
    let count: f64 = mixes().map(|mix| mix.requests as f64).sum();
    let bytes: f64 = mixes()
        .map(|mix| mix.requests as f64 * mix.mean_bytes)
        .sum();
    let deed = Deed {
        rate: bytes / count,
        threads: 0.0,
        class: 0,
    };
    (count > 0.0 && bytes > 0.0).then_some((Actor::Requests, deed))
}

/// The mean progress of some windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Mean {
    windows: u32,
    sum: Progress,
}

impl Mean {
    pub(super) fn add(&mut self, progress: &Progress) {
        self.windows += 1;
        for (actor, deed) in progress {
            let all = self
                .sum
                .entry(*actor)
                .or_insert(Deed { rate: 0.0, ..*deed });
            all.rate += deed.rate;
        }
    }

    /// How many windows.
    pub(super) fn windows(&self) -> u32 {
        self.windows
    }

    pub(super) fn progress(&self) -> Progress {
        let mut mean = self.sum.clone();
        for deed in mean.values_mut() {
            deed.rate /= f64::from(self.windows.max(1));
        }
        mean
    }
}

/// Whether the processes of both are about equally fast, weighted by threads. A process with a very different speed,
/// while nothing else changed, does other work. The sum of a process is compared, which is steadier than its single
/// threads.
pub(super) fn are_as_fast(one: &Progress, other: &Progress) -> bool {
    let (one, other) = (by_process(one), by_process(other));
    let threads = |all: &Sums| all.values().map(|deed| deed.threads).sum::<f64>();
    let is_same = |process: &(&ProcessPart, &Deed)| {
        let found = other.get(process.0).map_or(0.0, |deed| deed.rate);
        let rate = process.1.rate;
        rate.max(found) <= OTHER_SPEED * rate.min(found)
    };
    let same = one.iter().filter(is_same);
    let same: f64 = same.map(|(_, deed)| deed.threads).sum();
    same >= ALIKE_SHARE * threads(&one).max(threads(&other))
}

/// A process' files, or its memory.
type ProcessPart = (u32, bool);
type Sums = BTreeMap<ProcessPart, Deed>;

fn by_process(progress: &Progress) -> Sums {
    let mut sums = Sums::new();
    for (actor, deed) in progress {
        let part = match actor {
            Actor::Thread(key) => (key.process_id, true),
            Actor::Process(process) => (*process, false),
            Actor::Requests => continue,
        };
        let none = Deed {
            rate: 0.0,
            threads: 0.0,
            class: 0,
        };
        let sum = sums.entry(part).or_insert(none);
        sum.rate += deed.rate;
        sum.threads += deed.threads;
    }
    sums
}

/// Whether the same threads do the same work in both, at any speed.
pub(super) fn are_alike(one: &Progress, other: &Progress) -> bool {
    let sum = |progress: &Progress| progress.values().map(|deed| deed.threads).sum::<f64>();
    let same = one.iter().filter(|(actor, deed)| {
        let found = other.get(*actor);
        found.is_some_and(|found| found.class.abs_diff(deed.class) <= SAME_WRITES)
    });
    let same: f64 = same.map(|(_, deed)| deed.threads).sum();
    same >= ALIKE_SHARE * sum(one).max(sum(other))
}

/// The last progress of threads in windows of each kind; the latest is last.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds(Vec<Progress>);

impl Kinds {
    /// Stores a window; it replaces the last one like it. Returns how fast threads are compared with that.
    pub(super) fn remember(&mut self, progress: Progress) -> Option<f64> {
        if progress.is_empty() {
            return None;
        }
        let change = self.meet(&progress);
        self.0.retain(|other| !are_alike(other, &progress));
        if self.0.len() == MAX_KINDS {
            self.0.remove(0);
        }
        self.0.push(progress);
        change
    }

    /// How fast threads are in a window, compared with the remembered window like it. That one is then removed.
    pub(super) fn meet(&mut self, progress: &Progress) -> Option<f64> {
        let like = self.0.iter().position(|each| are_alike(each, progress))?;
        Some(speed(progress, &self.0.swap_remove(like)))
    }

    /// The remembered window like this one.
    pub(super) fn like(&self, progress: &Progress) -> Option<&Progress> {
        self.0.iter().find(|each| are_alike(each, progress))
    }

    /// Remembers a window again that was removed when another met it.
    pub(super) fn put_back(&mut self, window: Option<Progress>) {
        self.0.extend(window);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether requests are about as long in both, as far as that is known. The setting decides which threads send many
/// requests, so only windows under one setting are comparable.
pub(super) fn are_as_long(one: &Progress, other: &Progress) -> bool {
    let length = |progress: &Progress| progress.get(&Actor::Requests).map(|deed| deed.rate);
    let lengths = length(one).zip(length(other));
    lengths.is_none_or(|(one, other)| one.max(other) <= OTHER_LENGTH * one.min(other))
}

/// One progress compared with another: geometric mean over threads, of the first one's threads.
pub(super) fn speed(progress: &Progress, first: &Progress) -> f64 {
    let (mut sum, mut threads) = (0.0, 0.0);
    for (actor, before) in first {
        let now = progress.get(actor).map_or(0.0, |deed| deed.rate);
        let ratio = now / before.rate.max(f64::MIN_POSITIVE);
        sum += ratio.clamp(1.0 / MAX_RATIO, MAX_RATIO).ln() * before.threads;
        threads += before.threads;
    }
    if threads > 0.0 {
        f64::exp(sum / threads)
    } else {
        1.0
    }
}
