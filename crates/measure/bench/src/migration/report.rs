//! The figures, as rows and as a table.

use egeria_machine::{NodeId, format_bandwidth, format_bytes};
use serde::Serialize;

use crate::experiment::{Column, table};

/// §4.3 of the AsymSched paper: its own migration against `migrate_pages`, between one pair of nodes.
pub const PAPER_RATIO: f64 = 17.0;

/// One kind of pages: medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// `small` (4 KiB) or `huge` (2 MiB).
    pub pages: &'static str,
    /// Bytes moved at once.
    pub bytes: u64,
    /// Workers at once, in `workers_bytes_s`.
    pub workers: usize,
    /// By our workers.
    pub workers_bytes_s: f64,
    /// By one of them.
    pub one_worker_bytes_s: f64,
    /// By one call of `migrate_pages`.
    pub system_call_bytes_s: f64,
    /// `workers_bytes_s / system_call_bytes_s`.
    pub ratio: f64,
    /// Least part of the bytes that had arrived after ours, as the kernel said.
    pub arrived_share: f64,
    /// Of huge pages: the part that was moved whole.
    pub whole_share: Option<f64>,
}

/// Result of [`super::run`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MigrationReport {
    /// Where the memory was at first.
    pub from: NodeId,
    pub to: NodeId,
    /// Rounds that the medians are over.
    pub rounds: usize,
    /// CPUs are emulated by QEMU: figures say nothing of hardware.
    pub is_emulated: bool,
    /// What the paper has.
    pub paper_ratio: f64,
    /// One per kind of pages.
    pub rows: Vec<Row>,
}

impl MigrationReport {
    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let columns: &[Column<Row>] = &[
            ("pages", |row| row.pages.to_owned()),
            (">bytes", |row| format_bytes(row.bytes)),
            (">workers", |row| row.workers.to_string()),
            (">workers, bytes/s", |row| {
                format_bandwidth(row.workers_bytes_s)
            }),
            (">one worker", |row| {
                format_bandwidth(row.one_worker_bytes_s)
            }),
            (">migrate_pages", |row| {
                format_bandwidth(row.system_call_bytes_s)
            }),
            (">ratio", |row| format!("{:.2}", row.ratio)),
            (">paper", |_| format!("{PAPER_RATIO:.0}")),
            (">arrived", |row| {
                format!("{:.1} %", row.arrived_share * 100.0)
            }),
        ];
        let emulated = if self.is_emulated {
            "\nCPUs emulated by QEMU (TCG): these figures say nothing of hardware."
        } else {
            ""
        };
        let words = format!(
            "From node {} to node {}, medians of {} rounds. The paper's 17 is of its own system call, between one pair of nodes (§4.3).{emulated}",
            self.from.0, self.to.0, self.rounds
        );
        table(columns, &self.rows, &words)
    }
}
