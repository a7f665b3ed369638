//! The figures, as rows and as a table.

use egeria_machine::format_bytes;
use serde::Serialize;

use crate::experiment::{Column, table};

/// So many threads on one CPU: medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchRow {
    pub threads: usize,
    /// What each of them walks, bytes.
    pub working_set_bytes: usize,
    /// What all get together, beside one thread alone.
    pub of_alone: f64,
    /// Time between two switches, ns.
    pub slice_ns: f64,
    /// What each takes from the threads, ns.
    pub switch_ns: f64,
}

/// Result of [`super::run`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchesReport {
    /// Rounds that the medians are over.
    pub rounds: usize,
    /// One per memory and number of threads.
    pub rows: Vec<SwitchRow>,
}

impl SwitchesReport {
    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let columns: &[Column<SwitchRow>] = &[
            (">memory of each", |row| {
                format_bytes(row.working_set_bytes as u64)
            }),
            (">threads", |row| row.threads.to_string()),
            (">of one alone", |row| format!("{:.3}", row.of_alone)),
            (">slice, ms", |row| format!("{:.2}", row.slice_ns / 1e6)),
            (">a switch, us", |row| format!("{:.1}", row.switch_ns / 1e3)),
        ];
        let words = format!(
            "Threads that take turns on one CPU, medians of {} rounds; what a switch takes includes fetching their memory again.",
            self.rounds
        );
        table(columns, &self.rows, &words)
    }
}
