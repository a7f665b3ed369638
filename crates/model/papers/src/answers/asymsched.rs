//! AsymSched's claims.

use egeria_policy::asymsched::Settings;
use egeria_policy::planner::System;
use egeria_sim::Options;

use crate::answer::Answer::{Bound, Faster, Input, Setting, Similar, Unanswered};
use crate::answer::{Answer, Entry, Reading, SIMILAR, change, most, number, times};
use crate::experiment::asymsched::sets;
use crate::experiment::managed;
use crate::results::Results;

const PROGRAMS: &str = "what each of the 20 programs computes and accesses is not described";
const SPECJBB: &str = "what SPECjbb computes and accesses is not described";
const COST: &str = "what the measuring and deciding itself takes is not modelled";
const CALL: &str = "migrate_pages, which the model's dynamic memory migration goes by";

fn facerec(results: &Results, over: &str, under: &str) -> Option<f64> {
    results.ratio("A2", "facerec", over, under)
}

/// Cycles of a line less than under another placement: negative.
fn fewer_cycles(results: &Results, under: &str) -> Option<f64> {
    Some(results.bar("A3", "facerec", "best")? - results.bar("A3", "facerec", under)?)
}

fn machine(results: &Results, group: &str) -> Option<f64> {
    results.ratio("A t3", group, "best", "worst")
}

/// Table 5, the fast migration.
const fn fast(said: crate::answer::Said) -> Answer {
    number(Reading::Plain, said).at(1, "fast, ms")
}

const fn entry(id: &'static str, answers: &'static [Answer]) -> Entry {
    Entry { id, answers }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("A01", &[Input("bulldozer-8n: links")]),
    entry("A02", &[Input("bulldozer-8n: links and routes")]),
    entry("A03", &[Input("bulldozer-8n: links")]),
    entry(
        "A04",
        &[Setting {
            reading: Reading::Plain,
            // Three nodes can be put in order in six ways.
            value: || 6.0 * sets(8, 3).len() as f64,
        }],
    ),
    entry("A05", &[change(|results| facerec(results, "best", "mean"))]),
    entry(
        "A06",
        &[change(|results| facerec(results, "worst", "mean"))],
    ),
    entry(
        "A07",
        &[change(|results| facerec(results, "best", "worst"))],
    ),
    entry("A08", &[Unanswered(PROGRAMS)]),
    entry("A09", &[Unanswered(PROGRAMS)]),
    entry(
        "A10",
        &[number(Reading::Plain, |results| {
            fewer_cycles(results, "mean")
        })],
    ),
    entry(
        "A11",
        &[number(Reading::Plain, |results| {
            fewer_cycles(results, "worst")
        })],
    ),
    entry("A12", &[Input("bulldozer-8n: latency of links")]),
    entry("A13", &[change(|results| machine(results, "A"))]),
    entry(
        "A14",
        &[Faster {
            said: |results| {
                results.ratio("A t1", "pairs", "fastest of two hops", "slowest of one hop")
            },
        }],
    ),
    entry(
        "A15",
        &[change(|results| {
            results.ratio("A t2", "streamcluster", "SPECjbb's", "streamcluster's")
        })],
    ),
    entry("A16", &[Unanswered(SPECJBB)]),
    entry(
        "A17",
        &[Unanswered(
            "it is a count, and the paper does not say of what: sets of pairs are 2,520",
        )],
    ),
    entry(
        "A18",
        &[change(|results| machine(results, "A")).at(2, "best vs worst")],
    ),
    entry(
        "A19",
        &[change(|results| machine(results, "B")).at(2, "best vs worst")],
    ),
    entry(
        "A20",
        &[change(|results| machine(results, "C")).at(2, "best vs worst")],
    ),
    entry(
        "A21",
        &[change(|results| machine(results, "D")).at(2, "best vs worst")],
    ),
    entry(
        "A22",
        &[change(|results| {
            let streamcluster = results.ratio("A4", "streamcluster", "asymsched", "worst");
            most([facerec(results, "asymsched", "worst"), streamcluster])
        })],
    ),
    entry(
        "A23",
        &[Setting {
            reading: Reading::Plain,
            value: || Options::published(System::Asymsched).window_ns as f64 / 1e9,
        }],
    ),
    entry(
        "A24",
        &[Setting {
            reading: Reading::Share,
            value: || Settings::default().filter,
        }],
    ),
    entry(
        "A25",
        &[Setting {
            reading: Reading::Plain,
            value: || Settings::default().cost_s_per_gb,
        }],
    ),
    entry(
        "A26",
        &[Setting {
            reading: Reading::Share,
            value: || Settings::default().budget,
        }],
    ),
    entry("A27", &[Unanswered(COST)]),
    entry(
        "A28",
        &[Setting {
            reading: Reading::Plain,
            value: || Settings::default().full_after_ms as f64 / 1e3,
        }],
    ),
    entry(
        "A29",
        &[Setting {
            reading: Reading::Share,
            value: || Settings::default().old_share,
        }],
    ),
    entry("A30", &[Input(CALL)]),
    entry(
        "A31",
        &[times(|results| {
            results.bar("A migration", "one pair", "times")
        })],
    ),
    entry(
        "A32",
        &[times(|results| {
            results.bar("A migration", "two pairs", "times")
        })],
    ),
    entry("A33", &[Unanswered("locks in the kernel are not modelled")]),
    entry(
        "A34",
        &[Setting {
            reading: Reading::Plain,
            value: || Settings::default().chunk_pages as f64 / 1e3,
        }],
    ),
    entry(
        "A35",
        &[Bound {
            reading: Reading::Share,
            part: 0,
            at_most: false,
            said: |results| results.bar("A search", "4 x 2 nodes", "skipped"),
        }],
    ),
    entry(
        "A36",
        &[Bound {
            reading: Reading::Plain,
            part: 0,
            at_most: true,
            said: |results| results.bar("A search", "4 x 2 nodes", "evaluated"),
        }],
    ),
    entry(
        "A37",
        &[Unanswered(
            "how Linux scatters threads that share data is not modelled",
        )],
    ),
    entry(
        "A38",
        &[Setting {
            reading: Reading::Plain,
            value: || managed::ways().len() as f64,
        }],
    ),
    entry(
        "A39",
        &[Similar {
            said: |results| facerec(results, "asymsched", "best"),
        }],
    ),
    entry(
        "A40",
        &[Faster {
            said: |results| results.ratio("A4", "streamcluster", "asymsched", "best"),
        }],
    ),
    entry(
        "A41",
        &[Similar {
            said: |results| facerec(results, "memory alone", "mean"),
        }],
    ),
    entry("A42", &[Unanswered(SPECJBB)]),
    entry(
        "A43",
        &[Unanswered(
            "what is.D allocates, and when, is not described",
        )],
    ),
    entry(
        "A44",
        // Close to the best, or better: at worst a tenth below.
        &[Faster {
            said: |results| {
                let beside = results.ratio("A6", "3 + 3 + 2 nodes", "asymsched", "best")?;
                Some(beside / (1.0 - SIMILAR))
            },
        }],
    ),
    entry(
        "A45",
        &[fast(|results| results.bar("A t5", "cg.B", "fast"))],
    ),
    entry(
        "A46",
        &[fast(|results| results.bar("A t5", "ft.C", "fast"))],
    ),
    entry(
        "A47",
        &[fast(|results| results.bar("A t5", "is.D", "fast"))],
    ),
    entry(
        "A48",
        &[fast(|results| results.bar("A t5", "sp.A", "fast"))],
    ),
    entry(
        "A49",
        &[fast(|results| results.bar("A t5", "streamcluster", "fast"))],
    ),
    entry(
        "A50",
        &[fast(|results| results.bar("A t5", "graph500", "fast"))],
    ),
    entry(
        "A51",
        &[fast(|results| results.bar("A t5", "SPECjbb", "fast"))],
    ),
    entry(
        "A52",
        // How long is.D runs is not given, but by the overhead of the system call.
        &[number(Reading::Plain, |results| {
            const CALL_PERCENT: f64 = 50.0;
            Some(CALL_PERCENT * results.ratio("A t5", "is.D", "fast", "system call")?)
        })
        .at(1, "fast, given the system call's")],
    ),
    entry("A53", &[Unanswered(COST)]),
    entry("A54", &[Unanswered("memory used is not modelled")]),
    entry("A55", &[Unanswered(COST)]),
    entry("A56", &[Unanswered("memory used is not modelled")]),
];
