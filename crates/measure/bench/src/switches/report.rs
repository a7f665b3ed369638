//! The figures, as rows and as a table.

use comfy_table::{CellAlignment, Table, presets};
use egeria_machine::format_bytes;
use serde::Serialize;

/// So many threads on one CPU: medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchRow {
    /// Threads.
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
    /// A table for people.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_header([
            "memory of each",
            "threads",
            "of one alone",
            "slice, ms",
            "a switch, us",
        ]);
        for row in &self.rows {
            table.add_row([
                format_bytes(row.working_set_bytes as u64),
                row.threads.to_string(),
                format!("{:.3}", row.of_alone),
                format!("{:.2}", row.slice_ns / 1e6),
                format!("{:.1}", row.switch_ns / 1e3),
            ]);
        }
        for column in table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!(
            "{table}\nThreads that take turns on one CPU, medians of {} rounds; what a switch takes includes fetching their memory again.",
            self.rounds
        )
    }
}
