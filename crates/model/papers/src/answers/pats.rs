//! PATS's claims.

use egeria_policy::pats::{Settings, model};

use crate::answer::Answer::{Bound, Faster, Input, Setting, Similar, Unanswered};
use crate::answer::{Entry, Reading, compared, farthest, least, most, number, times};
use crate::experiment::pats::{DEFAULT, LESS, MAX_THREADS, MORE, SIZES, Series, Who};
use crate::results::Results;

const MEMCACHED: &str = "neither Memcached's requests nor what it computes for one are told, so its share of time at DRAM is unknown";
const ONE: Series = Series::writes(Who::Baseline, 4096);
const ONE_PATS: Series = Series::writes(DEFAULT, 4096);
const TWO: Series = Series::on("optane-1s-2i", Who::Baseline, 0.0, 4096);
const TWO_PATS: Series = Series::on("optane-1s-2i", DEFAULT, 0.0, 4096);
const THREE: Series = Series::on("optane-1s-3i", Who::Baseline, 0.0, 4096);
const SMALL: Series = Series::writes(Who::Baseline, 512);
const SMALL_PATS: Series = Series::writes(DEFAULT, 512);
const SMALL_LESS: Series = Series::writes(LESS, 512);
const SMALL_MORE: Series = Series::writes(MORE, 512);

/// `T_S` of large writes on one DIMM (Eq. 1).
fn threads(tolerated_loss: f64) -> f64 {
    f64::from(model::serving_threads(tolerated_loss, 1, 4096.0, 1.0))
}

/// The copy with `threads` threads at persistent memory, compared with none.
fn copy_left(results: &Results, series: &Series, threads: u32) -> Option<f64> {
    Some(series.copy(results, threads)? / series.copy(results, 0)?)
}

/// The copy on one curve divided by that on another.
fn copies(results: &Results, over: &Series, under: &Series, threads: u32) -> Option<f64> {
    Some(over.copy(results, threads)? / under.copy(results, threads)?)
}

fn persistent(results: &Results, over: &Series, under: &Series, threads: u32) -> Option<f64> {
    Some(over.persistent(results, threads)? / under.persistent(results, threads)?)
}

/// What a function of threads gives over some of them.
fn over(threads: impl Iterator<Item = u32>, of: impl Fn(u32) -> Option<f64>) -> Option<Vec<f64>> {
    threads.map(of).collect()
}

fn largest(values: Vec<f64>) -> Option<f64> {
    values.into_iter().reduce(f64::max)
}

fn smallest(values: Vec<f64>) -> Option<f64> {
    values.into_iter().reduce(f64::min)
}

/// With how many threads the copy falls below half; one more than there are when it does not.
fn knee(results: &Results, series: &Series) -> Option<f64> {
    let curve = over(1..=MAX_THREADS, |threads| {
        copy_left(results, series, threads)
    })?;
    let at = curve.iter().position(|left| *left < 0.5);
    Some(at.map_or(f64::from(MAX_THREADS) + 1.0, |at| at as f64 + 1.0))
}

/// With how many threads the copy still has 95 % of what it has alone: its knee.
fn still_whole(results: &Results, series: &Series) -> Option<f64> {
    let curve = over(1..=MAX_THREADS, |threads| {
        copy_left(results, series, threads)
    })?;
    Some(curve.iter().take_while(|left| **left >= 0.95).count() as f64)
}

/// 4 KB writes of 14 threads, PATS compared with no controller (Fig. 12b; stated three times).
fn large_writes(results: &Results) -> Option<f64> {
    persistent(results, &ONE_PATS, &ONE, MAX_THREADS)
}

/// Sizes that PATS schedules.
fn scheduled() -> impl Iterator<Item = u64> {
    SIZES.into_iter().filter(|bytes| *bytes > 256)
}

const fn entry(id: &'static str, answers: &'static [crate::answer::Answer]) -> Entry {
    Entry { id, answers }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "P01",
        &[Bound {
            reading: Reading::Loss,
            part: 0,
            at_most: true,
            said: |results| copy_left(results, &ONE, MAX_THREADS),
        }],
    ),
    entry(
        "P02",
        &[Input("optane-1s: read_stream_bytes_s of persistent memory")],
    ),
    entry("P03", &[Input("optane-1s: read_curve")]),
    entry("P04", &[Input("optane-1s: write_curve")]),
    entry("P05", &[Input("optane-1s: write_curve")]),
    entry("P06", &[Input("optane-1s: DRAM's latency")]),
    entry(
        "P07",
        &[Input(
            "optane-1s: queue_lines, and lines in flight of a reader",
        )],
    ),
    entry(
        "P08",
        &[Bound {
            reading: Reading::Loss,
            part: 0,
            at_most: true,
            said: |results| copy_left(results, &ONE, MAX_THREADS),
        }],
    ),
    entry("P09", &[Unanswered(MEMCACHED)]),
    entry("P10", &[Unanswered(MEMCACHED)]),
    entry(
        "P11",
        &[compared(Reading::Loss, |results| {
            copy_left(results, &ONE, 8)
        })],
    ),
    entry("P12", &[Unanswered(MEMCACHED)]),
    entry("P13", &[Input("optane-1s: lines in flight of a writer")]),
    entry(
        "P14",
        &[Unanswered(
            "MBW's operations differ in what their blocks leave in caches, which rates do not show",
        )],
    ),
    entry(
        "P15",
        &[number(Reading::Share, |results| {
            results.bar("P table", "MBW", "missed")
        })],
    ),
    entry(
        "P16",
        &[number(Reading::Plain, |results| {
            let readers = Series::on("optane-1s-dimc", Who::Baseline, 1.0, 4096);
            still_whole(results, &readers)
        })],
    ),
    entry("P17", &[Input("optane-1s-dimc: socket_queue_lines")]),
    entry("P18", &[Input("optane-1s: lines in flight of a reader")]),
    entry(
        "P19",
        &[compared(Reading::Loss, |results| {
            let readers = Series::on("optane-1s", Who::Baseline, 1.0, 4096);
            copy_left(results, &readers, MAX_THREADS)
        })],
    ),
    entry(
        "P20",
        &[Faster {
            said: |results| {
                let of = |bytes| knee(results, &Series::writes(Who::Baseline, bytes));
                let small = least([of(64), of(128)])?;
                let large = most([of(512), of(1024), of(2048), of(4096)])?;
                Some(small / large)
            },
        }],
    ),
    entry("P21", &[Input("optane-1s: lines in flight of a writer")]),
    entry("P22", &[Input("optane-1s: lines in flight of a reader")]),
    entry("P23", &[Input("optane-1s-2i and -3i: bandwidths add up")]),
    entry(
        "P24",
        &[Faster {
            said: |results| {
                let mean = |series: &Series| {
                    let curve = over(1..=MAX_THREADS, |threads| series.copy(results, threads))?;
                    Some(curve.iter().sum::<f64>())
                };
                let (one, two, three) = (mean(&ONE)?, mean(&TWO)?, mean(&THREE)?);
                least([Some(two / one), Some(three / two)])
            },
        }],
    ),
    entry(
        "P25",
        &[Input(
            "optane-1s: DRAM's read bandwidth, of a controller of three channels",
        )],
    ),
    entry(
        "P26",
        &[Setting {
            reading: Reading::Plain,
            value: || threads(0.1),
        }],
    ),
    entry(
        "P27",
        &[Setting {
            reading: Reading::Plain,
            value: || threads(0.5),
        }],
    ),
    entry(
        "P28",
        &[Setting {
            reading: Reading::Plain,
            value: || Settings::default().tolerated_loss,
        }],
    ),
    entry(
        "P29",
        &[Setting {
            reading: Reading::Plain,
            value: || Settings::default().bypass_bytes as f64,
        }],
    ),
    entry(
        "P30",
        &[Bound {
            reading: Reading::Share,
            part: 0,
            at_most: true,
            said: |results| {
                let mut all = Vec::new();
                for bytes in scheduled() {
                    let series = Series::writes(DEFAULT, bytes);
                    all.extend(over(1..=MAX_THREADS, |threads| {
                        series.copy(results, threads)
                    })?);
                }
                Some(1.0 - smallest(all.clone())? / largest(all)?)
            },
        }],
    ),
    entry(
        "P31",
        &[Faster {
            // What is scheduled keeps more of the copy than what is not.
            said: |results| {
                let of = |bytes| copy_left(results, &Series::writes(DEFAULT, bytes), MAX_THREADS);
                Some(of(512)? / of(256)?)
            },
        }],
    ),
    entry(
        "P32",
        &[number(Reading::Plain, |results| {
            const BYTES_PER_GB: f64 = 1e9;
            Some(ONE.copy(results, MAX_THREADS)? / BYTES_PER_GB)
        })
        .at(1, "floor; the peak is an input")],
    ),
    entry(
        "P33",
        &[times(|results| {
            let mut all = Vec::new();
            for bytes in scheduled() {
                let (pats, none) = (
                    Series::writes(DEFAULT, bytes),
                    Series::writes(Who::Baseline, bytes),
                );
                all.extend(over(1..=MAX_THREADS, |threads| {
                    copies(results, &pats, &none, threads)
                })?);
            }
            largest(all)
        })],
    ),
    entry(
        "P34",
        &[Bound {
            reading: Reading::Loss,
            part: 0,
            at_most: false,
            said: |results| copy_left(results, &ONE_PATS, MAX_THREADS),
        }],
    ),
    entry("P35", &[Unanswered(MEMCACHED)]),
    entry(
        "P36",
        // No program loses more than one that does nothing but wait for DRAM.
        &[Bound {
            reading: Reading::Loss,
            part: 0,
            at_most: false,
            said: |results| {
                let loads = |threads| results.at("P11", "loads", f64::from(threads));
                Some(loads(MAX_THREADS)? / loads(0)?)
            },
        }],
    ),
    entry(
        "P37",
        &[Similar {
            said: |results| {
                let mut all = Vec::new();
                for bytes in [2048, 4096, 8192] {
                    let series = Series::writes(DEFAULT, bytes);
                    let curve = over(1..=MAX_THREADS, |threads| {
                        series.persistent(results, threads)
                    })?;
                    let peak = largest(curve.clone())?;
                    // From the limit on: below, threads cannot give more than they have.
                    let held = curve.into_iter().skip(1).map(|value| Some(value / peak));
                    all.extend(held);
                }
                all.into_iter()
                    .reduce(|one, other| farthest([one, other]))
                    .flatten()
            },
        }],
    ),
    entry("P38", &[times(large_writes)]),
    entry("P39", &[times(large_writes)]),
    entry("P40", &[crate::answer::change(large_writes)]),
    entry(
        "P41",
        &[compared(Reading::Loss, |results| {
            smallest(over(1..=2, |threads| {
                persistent(results, &SMALL_PATS, &SMALL, threads)
            })?)
        })],
    ),
    entry(
        "P42",
        &[Faster {
            said: |results| {
                smallest(over(7..=MAX_THREADS, |threads| {
                    persistent(results, &SMALL_PATS, &SMALL, threads)
                })?)
            },
        }],
    ),
    entry(
        "P43",
        &[Unanswered("what PATS itself computes is not modelled")],
    ),
    entry(
        "P44",
        &[compared(Reading::Loss, |results| {
            let of = |series| copy_left(results, series, MAX_THREADS);
            Some((of(&ONE_PATS)? + of(&TWO_PATS)?) / 2.0)
        })],
    ),
    entry(
        "P45",
        &[times(|results| copies(results, &TWO_PATS, &TWO, 6))],
    ),
    entry(
        "P46",
        &[times(|results| copies(results, &ONE_PATS, &ONE, 6))],
    ),
    entry(
        "P47",
        &[Faster {
            said: |results| {
                let gap = |threads| {
                    let one = copies(results, &ONE_PATS, &ONE, threads)?;
                    Some(one / copies(results, &TWO_PATS, &TWO, threads)?)
                };
                Some(gap(6)? / gap(12)?)
            },
        }],
    ),
    entry(
        "P48",
        &[compared(Reading::Change, |results| {
            largest(over(1..=MAX_THREADS, |threads| {
                copies(results, &SMALL_LESS, &SMALL_PATS, threads)
            })?)
        })],
    ),
    entry(
        "P49",
        &[compared(Reading::Change, |results| {
            smallest(over(1..=MAX_THREADS, |threads| {
                persistent(results, &SMALL_LESS, &SMALL_PATS, threads)
            })?)
        })],
    ),
    entry(
        "P50",
        &[compared(Reading::Change, |results| {
            copies(results, &SMALL_MORE, &SMALL_PATS, MAX_THREADS)
        })],
    ),
    entry(
        "P51",
        &[Bound {
            reading: Reading::Change,
            part: 0,
            at_most: true,
            said: |results| persistent(results, &SMALL_MORE, &SMALL_PATS, MAX_THREADS),
        }],
    ),
];
