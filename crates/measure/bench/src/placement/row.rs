//! One run as a row: the share at its end, when it came there, what moved.

use serde::Serialize;

use super::gain::{self, Gains};
use super::raw::{self, Kind, Run, Sample};

/// A system begins at 0; looks are not that exact.
const BEGUN_S: f64 = 0.15;
/// A share has settled once it stays so near its last value.
const NEAR: f64 = 0.03;
/// Samples that a share is taken over, so that one that happens to be odd is no change.
const SMOOTHED: usize = 3;

/// A case under a system.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    pub fault: String,
    pub kind: Kind,
    pub what: String,
    /// Nodes with CPUs.
    pub nodes: usize,
    pub system: String,
    /// Local share of accesses in the last 3 s; `None` without accesses.
    pub local_share: Option<f64>,
    /// Before the system began.
    pub first_share: Option<f64>,
    /// Local share that the case allows.
    pub best_possible: Option<f64>,
    /// From the system's begin until the share stays within 3 points of its last value.
    pub settled_s: Option<f64>,
    /// When the last page or mask changed; 0 if none did.
    pub rest_s: f64,
    pub pages_moved: u64,
    /// Threads that a look found on another node than the look before, whatever moved them.
    pub threads_moved: u64,
    /// Changes of what CPUs threads may use.
    pub masks_changed: u64,
    /// Pages moved while the share was the best already.
    pub pages_moved_needlessly: u64,
    /// Throughput of the end state in the model, compared with that of `nothing`: the less of the profiles.
    pub model_gain: Option<f64>,
    /// By profile.
    pub model_gains: Gains,
    /// What Egeria said of it.
    pub why: String,
    /// False: the scheduler disturbed the case before the system began.
    pub begun: bool,
    /// Time (s) and local share.
    pub samples: Vec<(f64, f64)>,
}

/// The rows of all runs.
pub fn rows(runs: &[Run]) -> Vec<Row> {
    runs.iter()
        .map(|run| {
            let same = |other: &&Run| other.head.fault == run.head.fault;
            let of_fault: Vec<&Run> = runs.iter().filter(same).collect();
            row(run, &gain::gains(run, &of_fault))
        })
        .collect()
}

fn row(run: &Run, gains: &Gains) -> Row {
    let (before, after) = split(run);
    let first = before.last().or(after.first());
    let from_begin = &run.samples[before.len().saturating_sub(1)..];
    let last = after.last();
    let moved = |count: fn(&Sample) -> u64| match (first, last) {
        (Some(first), Some(last)) => count(last).saturating_sub(count(first)),
        _ => 0,
    };
    let local_share = raw::share(run.end().iter().flat_map(|sample| &sample.flows));
    let least = gains.values().copied().reduce(f64::min);
    Row {
        fault: run.head.fault.clone(),
        kind: run.head.kind,
        what: run.head.what.clone(),
        nodes: run.head.nodes,
        system: run.head.system.clone(),
        local_share,
        first_share: raw::share(before.iter().flat_map(|sample| &sample.flows)),
        best_possible: run.head.best_possible,
        settled_s: local_share.map(|share| settled_s(from_begin, share)),
        rest_s: rest_s(run),
        pages_moved: moved(|sample| sample.migrated),
        threads_moved: moved(|sample| sample.wandered),
        masks_changed: moved(|sample| sample.masks),
        pages_moved_needlessly: needless(run),
        model_gain: least,
        model_gains: gains.clone(),
        why: run.head.why.clone(),
        begun: run.head.begun,
        samples: shares(&run.samples),
    }
}

/// What was before the system began, and after.
fn split(run: &Run) -> (&[Sample], &[Sample]) {
    let began = run
        .samples
        .iter()
        .position(|sample| sample.time_s > BEGUN_S);
    run.samples.split_at(began.unwrap_or(run.samples.len()))
}

fn shares(samples: &[Sample]) -> Vec<(f64, f64)> {
    let known = |sample: &Sample| sample.share().map(|share| (sample.time_s, share));
    samples.iter().filter_map(known).collect()
}

/// When the share was last far from its last value; `samples` begin with what was before the system.
fn settled_s(samples: &[Sample], last: f64) -> f64 {
    let smoothed = samples.windows(SMOOTHED.min(samples.len().max(1)));
    let is_far = |some: &[Sample]| {
        let share = raw::share(some.iter().flat_map(|sample| &sample.flows));
        share.is_some_and(|share| (share - last).abs() > NEAR)
    };
    let mut settled_s = 0.0;
    for some in smoothed {
        if is_far(some) {
            settled_s = some[some.len() - 1].time_s;
        }
    }
    settled_s
}

/// Each pair of neighbours after the system began, with its first before that.
fn steps(run: &Run) -> impl Iterator<Item = (&Sample, &Sample)> {
    let before = split(run).0.len();
    let pairs = run.samples.windows(2).map(|pair| (&pair[0], &pair[1]));
    pairs.skip(before.saturating_sub(1))
}

fn rest_s(run: &Run) -> f64 {
    let changed =
        |(one, next): &(&Sample, &Sample)| one.migrated != next.migrated || one.masks != next.masks;
    let last = steps(run).filter(changed).last();
    last.map_or(0.0, |(_, next)| next.time_s)
}

fn needless(run: &Run) -> u64 {
    let Some(best) = run.head.best_possible else {
        return 0;
    };
    let is_best = |sample: &Sample| sample.share().is_some_and(|share| share > best - 0.01);
    steps(run)
        .filter(|(one, _)| is_best(one))
        .map(|(one, next)| next.migrated.saturating_sub(one.migrated))
        .sum()
}
