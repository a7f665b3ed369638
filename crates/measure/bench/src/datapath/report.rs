//! The figures, as rows and as a table.

use serde::Serialize;

use super::plan::{Case, Files};
use crate::experiment::{Column, over, table};
use egeria_stats::text::thousands;

/// Figures of one case: medians over all turns of all rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was done; see [`super::plan::Operation::name`].
    pub op: String,
    /// Bytes of each call.
    pub block_bytes: u64,
    /// Threads at once.
    pub threads: usize,
    /// Calls per second of all threads, through the preload library.
    pub egeria_ops_s: f64,
    /// The same calls on tmpfs.
    pub tmpfs_ops_s: f64,
    /// Bare copies of the same pattern, without flush and fence.
    pub memcpy_ops_s: f64,
    /// `egeria_ops_s / memcpy_ops_s`.
    pub of_memcpy: f64,
    /// `egeria_ops_s / tmpfs_ops_s`.
    pub of_tmpfs: f64,
    /// Of striped files: the same calls on files of Egeria on one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_ops_s: Option<f64>,
    /// `egeria_ops_s / local_ops_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_local: Option<f64>,
}

impl Row {
    /// The row of a case from its turns: each Egeria's, tmpfs's and the bare copy's calls per second, and where the
    /// files are striped, those on local ones.
    pub(crate) fn of_turns(case: &Case, turns: &[Vec<f64>]) -> Row {
        let middle = |subject: usize| over(turns, |turn: &Vec<f64>| turn[subject]);
        let is_striped = matches!(case.files, Files::Striped | Files::Shared);
        let local = is_striped.then(|| middle(3));
        let (egeria, tmpfs, memcpy) = (middle(0), middle(1), middle(2));
        Row {
            op: case.name(),
            block_bytes: case.block_bytes,
            threads: case.threads,
            egeria_ops_s: egeria.round(),
            tmpfs_ops_s: tmpfs.round(),
            memcpy_ops_s: memcpy.round(),
            of_memcpy: ratio(egeria, memcpy),
            of_tmpfs: ratio(egeria, tmpfs),
            local_ops_s: local.map(f64::round),
            of_local: local.map(|local| ratio(egeria, local)),
        }
    }
}

/// Bytes for people.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ => format!("{} KiB", bytes >> 10),
    }
}

/// A ratio to four places; 0 when there is nothing to divide by.
fn ratio(value: f64, by: f64) -> f64 {
    if by > 0.0 {
        (value / by * 1e4).round() / 1e4
    } else {
        0.0
    }
}

/// Result of [`super::run`]. Serialised, it is the array of its rows and nothing else.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct DatapathReport {
    pub rows: Vec<Row>,
    /// Rounds the medians are over.
    #[serde(skip)]
    pub rounds: usize,
    /// Bytes of each thread's file.
    #[serde(skip)]
    pub file_bytes: u64,
}

impl DatapathReport {
    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let columns: &[Column<Row>] = &[
            ("op", |row| row.op.clone()),
            (">block", |row| size(row.block_bytes)),
            (">threads", |row| row.threads.to_string()),
            (">Egeria ops/s", |row| thousands(row.egeria_ops_s)),
            (">tmpfs ops/s", |row| thousands(row.tmpfs_ops_s)),
            (">memcpy ops/s", |row| thousands(row.memcpy_ops_s)),
            (">of memcpy", |row| format!("{:.2}", row.of_memcpy)),
            (">of tmpfs", |row| format!("{:.2}", row.of_tmpfs)),
            (">of local", |row| {
                row.of_local.map_or(String::new(), |of| format!("{of:.2}"))
            }),
        ];
        let words = format!(
            "Medians of {} rounds, files of {} MiB a thread, DRAM, emulation off. one_file: a part of one file on one node for each thread; striped: over 4 pools, beside files on one; shared: a part of one striped file for each thread. Nobody flushes: pools in DRAM survive no power loss.",
            self.rounds,
            self.file_bytes >> 20
        );
        table(columns, &self.rows, &words)
    }
}
