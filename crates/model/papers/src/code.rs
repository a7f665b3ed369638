//! What is no simple quotient of results: computed here, and named in the table of answers.

use egeria_policy::planner::System;
use egeria_policy::{asymsched, nthread, pats};
use egeria_sim::Options;

use crate::alike::farthest;
use crate::experiment::managed;
use crate::experiment::pats::{Controller, DEFAULT, MAX_THREADS, SIZES, Series};
use crate::results::Results;

/// What the model gives: `None` when the experiment was not run.
pub(crate) type Said = fn(&Results) -> Option<f64>;

const SAID: [(&str, Said); 19] = [
    ("four threads compared with eight", four_of_eight),
    ("bandwidth weighted by 1/3", weighted_by_a_third),
    ("readers that leave the copy whole", still_whole),
    ("later knee of small writes", later_knee),
    ("copy with more DIMMs", more_dimms),
    ("range of the copy under PATS", copy_range),
    ("copy with unscheduled sizes", unscheduled),
    ("copy at the floor, GB/s", floor),
    ("loads with PATS", loads),
    ("held peak of large writes", held_peak),
    ("writes of 14 threads, GB/s", writes),
    ("gap of one and two DIMMs", gap),
    ("slowdown of persistent memory compared with DRAM", slowdown),
    ("OdinFS compared with one thread at a time", odin),
    ("fewer cycles than mean", |results| {
        fewer_cycles(results, "mean")
    }),
    ("fewer cycles than worst", |results| {
        fewer_cycles(results, "worst")
    }),
    ("largest gain of AsymSched", largest_gain),
    ("steadier than memory alone on three nodes", |results| {
        steadier(results, "A2", "facerec")
    }),
    (
        "steadier than memory alone with three programs",
        |results| steadier(results, "A6", "3 + 3 + 2 nodes"),
    ),
];

/// A policy's own value.
pub(crate) type Setting = fn() -> f64;

const SETTINGS: [(&str, Setting); 19] = [
    ("NThread window, s", || {
        nthread::Settings::WINDOW_NS as f64 / 1e9
    }),
    ("NThread read margin, MB/s", || {
        nthread().read_margin_bytes_s / 1e6
    }),
    ("NThread read weight", || nthread().read_weight),
    ("NThread limit of persistent memory", || nthread().pm_limit),
    ("NThread ratio of persistent memory, inverse", || {
        1.0 / nthread().pm_ratio
    }),
    ("NThread limit of CPUs", || nthread().cpu_limit),
    ("NThread ratio of CPUs", || nthread().cpu_ratio),
    ("PATS threads at a loss of 0.1", || serving_threads(0.1)),
    ("PATS threads at a loss of 0.5", || serving_threads(0.5)),
    ("PATS tolerated loss", || {
        pats::Settings::default().tolerated_loss
    }),
    ("PATS bypass, bytes", || {
        pats::Settings::default().bypass_bytes as f64
    }),
    ("AsymSched window, s", || {
        Options::published(System::Asymsched).window_ns as f64 / 1e9
    }),
    ("AsymSched filter", || asymsched().filter),
    ("AsymSched cost, s/GB", || asymsched().cost_s_per_gb),
    ("AsymSched budget", || asymsched().budget),
    ("AsymSched full migration, s", || {
        asymsched().full_after_ms as f64 / 1e3
    }),
    ("AsymSched old share", || asymsched().old_share),
    ("AsymSched chunk, 1,000 pages", || {
        asymsched().chunk_pages as f64 / 1e3
    }),
    ("AsymSched ways", || managed::ways().len() as f64),
];

/// The function of this name.
pub(crate) fn said(name: &str) -> Option<Said> {
    named(&SAID, name)
}

/// What a policy has under this name.
pub(crate) fn setting(name: &str) -> Option<Setting> {
    named(&SETTINGS, name)
}

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|each| each.0 == name).map(|each| each.1)
}

fn nthread() -> nthread::Settings {
    nthread::Settings::default()
}

fn asymsched() -> asymsched::Settings {
    asymsched::Settings::default()
}

/// `T_S` of large writes on one DIMM (Eq. 1).
fn serving_threads(tolerated_loss: f64) -> f64 {
    f64::from(pats::model::serving_threads(tolerated_loss, 1, 4096.0, 1.0))
}

/// rl with 4 threads divided by rl with 8: the least of these mixes.
fn four_of_eight(results: &Results) -> Option<f64> {
    let mixes = ["read-only", "rw80", "rw60", "rw40", "rw20"];
    let ratio = |mix: &str| Some(results.bar("5a", mix, "rl")? / results.bar("5b", mix, "rl")?);
    smallest(mixes.into_iter().map(ratio).collect::<Option<_>>()?)
}

/// Eq. 1's bandwidth over the shares of reads (Fig. 9): the one farthest from their mean.
fn weighted_by_a_third(results: &Results) -> Option<f64> {
    let points = results.curve("9", "1/3")?;
    let mean = points.iter().map(|(_, value)| value).sum::<f64>() / points.len() as f64;
    farthest(points.iter().map(|(_, value)| value / mean))
}

const BYTES_PER_GB: f64 = 1e9;
const ONE: Series = Series::writes(Controller::Baseline, 4096);
const ONE_PATS: Series = Series::writes(DEFAULT, 4096);
const TWO: Series = Series::on("optane-1s-2i", Controller::Baseline, 0.0, 4096);
const TWO_PATS: Series = Series::on("optane-1s-2i", DEFAULT, 0.0, 4096);
const THREE: Series = Series::on("optane-1s-3i", Controller::Baseline, 0.0, 4096);

/// The copy with `threads` threads at persistent memory, compared with none.
fn copy_left(results: &Results, series: &Series, threads: u32) -> Option<f64> {
    Some(series.copy(results, threads)? / series.copy(results, 0)?)
}

/// What a function of threads gives with 1 to 14 of them.
fn over_threads(of: impl Fn(u32) -> Option<f64>) -> Option<Vec<f64>> {
    (1..=MAX_THREADS).map(of).collect()
}

fn largest(values: Vec<f64>) -> Option<f64> {
    values.into_iter().reduce(f64::max)
}

fn smallest(values: Vec<f64>) -> Option<f64> {
    values.into_iter().reduce(f64::min)
}

/// With how many threads the copy still has 95 % of what it has alone: its knee.
fn still_whole(results: &Results) -> Option<f64> {
    let readers = Series::on("optane-1s-dimc", Controller::Baseline, 1.0, 4096);
    let curve = over_threads(|threads| copy_left(results, &readers, threads))?;
    Some(curve.iter().take_while(|left| **left >= 0.95).count() as f64)
}

/// With how many threads the copy falls below half; one more than there are when it does not. The least of small writes
/// over the most of large ones.
fn later_knee(results: &Results) -> Option<f64> {
    let knee = |bytes| {
        let series = Series::writes(Controller::Baseline, bytes);
        let curve = over_threads(|threads| copy_left(results, &series, threads))?;
        let at = curve.iter().position(|left| *left < 0.5);
        Some(at.map_or(f64::from(MAX_THREADS) + 1.0, |at| at as f64 + 1.0))
    };
    let small = smallest([64, 128].into_iter().map(knee).collect::<Option<_>>()?)?;
    let large = [512, 1024, 2048, 4096].into_iter().map(knee);
    Some(small / largest(large.collect::<Option<_>>()?)?)
}

fn more_dimms(results: &Results) -> Option<f64> {
    let sum = |series: &Series| {
        let curve = over_threads(|threads| series.copy(results, threads))?;
        Some(curve.iter().sum::<f64>())
    };
    let (one, two, three) = (sum(&ONE)?, sum(&TWO)?, sum(&THREE)?);
    Some((two / one).min(three / two))
}

/// Of all sizes that PATS schedules.
fn copy_range(results: &Results) -> Option<f64> {
    let mut all = Vec::new();
    for bytes in SIZES.into_iter().filter(|bytes| *bytes > 256) {
        let series = Series::writes(DEFAULT, bytes);
        all.extend(over_threads(|threads| series.copy(results, threads))?);
    }
    Some(1.0 - smallest(all.clone())? / largest(all)?)
}

/// A collapse leaves less than half of the copy, as in `later_knee`.
fn unscheduled(results: &Results) -> Option<f64> {
    let left = copy_left(results, &Series::writes(DEFAULT, 256), MAX_THREADS)?;
    Some(0.5 / left)
}

fn floor(results: &Results) -> Option<f64> {
    Some(ONE.copy(results, MAX_THREADS)? / BYTES_PER_GB)
}

/// The model's own baseline.
fn writes(results: &Results) -> Option<f64> {
    Some(ONE.persistent(results, MAX_THREADS)? / BYTES_PER_GB)
}

/// No program loses more than one that does nothing but wait for DRAM.
fn loads(results: &Results) -> Option<f64> {
    let loads = |threads| results.at("P11", "loads", f64::from(threads));
    Some(loads(MAX_THREADS)? / loads(0)?)
}

/// From the limit on: below, threads cannot give more than they have.
fn held_peak(results: &Results) -> Option<f64> {
    let mut all = Vec::new();
    for bytes in [2048, 4096, 8192] {
        let series = Series::writes(DEFAULT, bytes);
        let curve = over_threads(|threads| series.persistent(results, threads))?;
        let peak = largest(curve.clone())?;
        all.extend(curve.into_iter().skip(1).map(|value| value / peak));
    }
    farthest(all.into_iter())
}

fn gap(results: &Results) -> Option<f64> {
    let copies = |over: &Series, under: &Series, threads| {
        Some(over.copy(results, threads)? / under.copy(results, threads)?)
    };
    let gap = |threads| {
        let one: f64 = copies(&ONE_PATS, &ONE, threads)?;
        Some(one / copies(&TWO_PATS, &TWO, threads)?)
    };
    Some(gap(6)? / gap(12)?)
}

/// How much slower one thread is on another node than on its data's, of both memories.
fn slowdown(results: &Results) -> Option<f64> {
    let slower = |kind| {
        let of = |memory| {
            let group = format!("{memory} {kind}");
            results.ratio("O one thread", &group, "local", "remote")
        };
        Some(of("persistent")? / of("DRAM")?)
    };
    Some(f64::min(slower("read")?, slower("write")?))
}

/// The path is not named. One thread at a time, most of them on other nodes, compared with locks on ranges.
fn odin(results: &Results) -> Option<f64> {
    let odin = results.bar("O", "2 MB writes", "odin")?;
    Some(odin / results.bar("O one thread", "persistent write", "remote")?)
}

/// Cycles of a line less than under another placement: negative.
fn fewer_cycles(results: &Results, under: &str) -> Option<f64> {
    Some(results.bar("A3", "facerec", "best")? - results.bar("A3", "facerec", under)?)
}

fn largest_gain(results: &Results) -> Option<f64> {
    let of = |figure, program| results.ratio(figure, program, "asymsched", "worst");
    Some(f64::max(of("A2", "facerec")?, of("A4", "streamcluster")?))
}

/// How much less AsymSched's speeds from several placements deviate than those of memory alone from the same. Less
/// than a thousandth is no deviation.
fn steadier(results: &Results, figure: &str, group: &str) -> Option<f64> {
    let deviation = |system: &str| results.bar(figure, group, &format!("deviation of {system}"));
    Some(deviation("memory alone")? / deviation("asymsched")?.max(1e-3))
}
