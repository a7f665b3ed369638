//! OdinFS's claims.

use crate::answer::Answer::{Faster, Input, Unanswered};
use crate::answer::{Entry, Reading, compared, least, times};
use crate::results::Results;

fn used(results: &Results, case: &str) -> Option<f64> {
    results.ratio("O", case, "existing", "raw")
}

fn gained(results: &Results, case: &str) -> Option<f64> {
    results.ratio("O", case, "odin", "existing")
}

/// How much slower one thread is on another node than on its data's.
fn slowdown(results: &Results, group: &str) -> Option<f64> {
    results.ratio("O one thread", group, "local", "remote")
}

const fn entry(id: &'static str, answers: &'static [crate::answer::Answer]) -> Entry {
    Entry { id, answers }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "O01",
        &[compared(Reading::Share, |results| {
            used(results, "2 MB writes")
        })],
    ),
    entry(
        "O02",
        &[compared(Reading::Share, |results| {
            used(results, "2 MB reads")
        })],
    ),
    entry("O03", &[Input("odin-8s: cores and nodes")]),
    entry(
        "O04",
        &[Input(
            "odin-8s: latency (305 ns, measured elsewhere, is taken)",
        )],
    ),
    entry("O05", &[Unanswered("no result here depends on capacity")]),
    entry(
        "O06",
        &[Unanswered(
            "which bar is which is not in the slides' text (1.6 is assumed to be remote DRAM)",
        )],
    ),
    entry(
        "O07",
        &[Faster {
            said: |results| {
                let beside = |kind: &str| {
                    let persistent = slowdown(results, &format!("persistent {kind}"))?;
                    Some(persistent / slowdown(results, &format!("DRAM {kind}"))?)
                };
                least([beside("read"), beside("write")])
            },
        }],
    ),
    entry("O08", &[Input("odin-8s: write_curve")]),
    entry("O09", &[times(|results| gained(results, "2 MB writes"))]),
    entry("O10", &[times(|results| gained(results, "2 MB reads"))]),
    entry(
        "O11",
        &[Unanswered(
            "bytes written inside a DIMM are not counted, only the bandwidth they cost",
        )],
    ),
    entry("O12", &[times(|results| gained(results, "4 KB reads"))]),
    entry("O13", &[times(|results| gained(results, "4 KB writes"))]),
    entry(
        "O14",
        &[Unanswered("the slides do not say which workloads")],
    ),
    entry(
        "O15",
        // The path is not named. One thread at a time, most of them on other nodes, compared with locks on ranges.
        &[Faster {
            said: |results| {
                let odin = results.bar("O", "2 MB writes", "odin")?;
                Some(odin / results.bar("O one thread", "persistent write", "remote")?)
            },
        }],
    ),
];
