//! AsymSched's claims.

use egeria_policy::asymsched::Settings;

use crate::answer::Answer::{Setting, Unanswered};
use crate::answer::{Entry, Reading};

const NOT_YET: &str = "the model does not run AsymSched";

const fn entry(id: &'static str, answers: &'static [crate::answer::Answer]) -> Entry {
    Entry { id, answers }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("A01", &[Unanswered(NOT_YET)]),
    entry("A02", &[Unanswered(NOT_YET)]),
    entry("A03", &[Unanswered(NOT_YET)]),
    entry("A04", &[Unanswered(NOT_YET)]),
    entry("A05", &[Unanswered(NOT_YET)]),
    entry("A06", &[Unanswered(NOT_YET)]),
    entry("A07", &[Unanswered(NOT_YET)]),
    entry("A08", &[Unanswered(NOT_YET)]),
    entry("A09", &[Unanswered(NOT_YET)]),
    entry("A10", &[Unanswered(NOT_YET)]),
    entry("A11", &[Unanswered(NOT_YET)]),
    entry("A12", &[Unanswered(NOT_YET)]),
    entry("A13", &[Unanswered(NOT_YET)]),
    entry("A14", &[Unanswered(NOT_YET)]),
    entry("A15", &[Unanswered(NOT_YET)]),
    entry("A16", &[Unanswered(NOT_YET)]),
    entry("A17", &[Unanswered(NOT_YET)]),
    entry("A18", &[Unanswered(NOT_YET)]),
    entry("A19", &[Unanswered(NOT_YET)]),
    entry("A20", &[Unanswered(NOT_YET)]),
    entry("A21", &[Unanswered(NOT_YET)]),
    entry("A22", &[Unanswered(NOT_YET)]),
    entry(
        "A23",
        &[Unanswered(
            "the period is the caller's: the policy is asked whenever a window ends",
        )],
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
    entry("A27", &[Unanswered(NOT_YET)]),
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
    entry("A30", &[Unanswered(NOT_YET)]),
    entry("A31", &[Unanswered(NOT_YET)]),
    entry("A32", &[Unanswered(NOT_YET)]),
    entry("A33", &[Unanswered(NOT_YET)]),
    entry(
        "A34",
        &[Setting {
            reading: Reading::Plain,
            value: || Settings::default().chunk_pages as f64 / 1e3,
        }],
    ),
    entry("A35", &[Unanswered(NOT_YET)]),
    entry("A36", &[Unanswered(NOT_YET)]),
    entry("A37", &[Unanswered(NOT_YET)]),
    entry("A38", &[Unanswered(NOT_YET)]),
    entry("A39", &[Unanswered(NOT_YET)]),
    entry("A40", &[Unanswered(NOT_YET)]),
    entry("A41", &[Unanswered(NOT_YET)]),
    entry("A42", &[Unanswered(NOT_YET)]),
    entry("A43", &[Unanswered(NOT_YET)]),
    entry("A44", &[Unanswered(NOT_YET)]),
    entry("A45", &[Unanswered(NOT_YET)]),
    entry("A46", &[Unanswered(NOT_YET)]),
    entry("A47", &[Unanswered(NOT_YET)]),
    entry("A48", &[Unanswered(NOT_YET)]),
    entry("A49", &[Unanswered(NOT_YET)]),
    entry("A50", &[Unanswered(NOT_YET)]),
    entry("A51", &[Unanswered(NOT_YET)]),
    entry("A52", &[Unanswered(NOT_YET)]),
    entry("A53", &[Unanswered(NOT_YET)]),
    entry("A54", &[Unanswered(NOT_YET)]),
    entry("A55", &[Unanswered(NOT_YET)]),
    entry("A56", &[Unanswered(NOT_YET)]),
];
