//! PATS's claims.

use egeria_policy::pats::{Settings, model};

use crate::answer::Answer::{Input, Setting, Unanswered};
use crate::answer::{Entry, Reading};

const NOT_YET: &str = "the model does not run DRAM beside persistent memory";

/// `T_S` of large writes on one DIMM (Eq. 1).
fn threads(tolerated_loss: f64) -> f64 {
    f64::from(model::serving_threads(tolerated_loss, 1, 4096.0, 1.0))
}

const fn entry(id: &'static str, answers: &'static [crate::answer::Answer]) -> Entry {
    Entry { id, answers }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("P01", &[Unanswered(NOT_YET)]),
    entry("P02", &[Unanswered(NOT_YET)]),
    entry("P03", &[Unanswered(NOT_YET)]),
    entry("P04", &[Unanswered(NOT_YET)]),
    entry("P05", &[Unanswered(NOT_YET)]),
    entry("P06", &[Unanswered(NOT_YET)]),
    entry("P07", &[Unanswered(NOT_YET)]),
    entry("P08", &[Unanswered(NOT_YET)]),
    entry("P09", &[Unanswered(NOT_YET)]),
    entry("P10", &[Unanswered(NOT_YET)]),
    entry("P11", &[Unanswered(NOT_YET)]),
    entry("P12", &[Unanswered(NOT_YET)]),
    entry("P13", &[Unanswered(NOT_YET)]),
    entry("P14", &[Unanswered(NOT_YET)]),
    entry(
        "P15",
        &[Unanswered(
            "it is a fact of the program: the model's copy misses the cache always",
        )],
    ),
    entry("P16", &[Unanswered(NOT_YET)]),
    entry("P17", &[Unanswered(NOT_YET)]),
    entry("P18", &[Unanswered(NOT_YET)]),
    entry("P19", &[Unanswered(NOT_YET)]),
    entry("P20", &[Unanswered(NOT_YET)]),
    entry("P21", &[Unanswered(NOT_YET)]),
    entry("P22", &[Unanswered(NOT_YET)]),
    entry("P23", &[Unanswered(NOT_YET)]),
    entry("P24", &[Unanswered(NOT_YET)]),
    entry(
        "P25",
        &[Input(
            "optane-1s: not used: it is physically a controller of three channels'",
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
    entry("P30", &[Unanswered(NOT_YET)]),
    entry("P31", &[Unanswered(NOT_YET)]),
    entry("P32", &[Unanswered(NOT_YET)]),
    entry("P33", &[Unanswered(NOT_YET)]),
    entry("P34", &[Unanswered(NOT_YET)]),
    entry("P35", &[Unanswered(NOT_YET)]),
    entry("P36", &[Unanswered(NOT_YET)]),
    entry("P37", &[Unanswered(NOT_YET)]),
    entry("P38", &[Unanswered(NOT_YET)]),
    entry("P39", &[Unanswered(NOT_YET)]),
    entry("P40", &[Unanswered(NOT_YET)]),
    entry("P41", &[Unanswered(NOT_YET)]),
    entry("P42", &[Unanswered(NOT_YET)]),
    entry(
        "P43",
        &[Unanswered("what PATS itself computes is not modelled")],
    ),
    entry("P44", &[Unanswered(NOT_YET)]),
    entry("P45", &[Unanswered(NOT_YET)]),
    entry("P46", &[Unanswered(NOT_YET)]),
    entry("P47", &[Unanswered(NOT_YET)]),
    entry("P48", &[Unanswered(NOT_YET)]),
    entry("P49", &[Unanswered(NOT_YET)]),
    entry("P50", &[Unanswered(NOT_YET)]),
    entry("P51", &[Unanswered(NOT_YET)]),
];
