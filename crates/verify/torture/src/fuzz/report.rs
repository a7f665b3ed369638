//! What a run says at its end.

use super::target::Target;
use crate::text::{stopped, wrong};
use egeria_machine::NamedPath;
use serde::Serialize;
use std::fmt::Write as _;

/// Result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FuzzReport {
    /// Inputs that were made and tried.
    pub runs: u64,
    /// Inputs in which something was wrong.
    pub findings: u64,
    /// How long it took.
    pub seconds: f64,
    /// More of the same.
    pub details: Details,
}

/// The breakdown.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Details {
    /// By what was fuzzed.
    pub by_target: Vec<TargetRow>,
    /// What chance followed from.
    pub seed: u64,
    /// Stopped before the end.
    pub stopped: bool,
    /// What could not be tried here, and why.
    pub skipped: Vec<String>,
    /// What is wrong, and the file that shows it; of findings that read alike, the first.
    pub cases: Vec<CaseRow>,
}

/// One target.
#[derive(Clone, Debug, Serialize)]
pub struct TargetRow {
    pub target: Target,
    /// As in [`FuzzReport`].
    pub runs: u64,
    /// As in [`FuzzReport`].
    pub findings: u64,
    /// As in [`FuzzReport`].
    pub seconds: f64,
    /// Inputs in which something happened that no earlier one of the same worker showed.
    pub corpus: u64,
    /// The most CPU time that one input took, ns.
    pub slowest_ns: u64,
    /// The most heap that was in use, bytes.
    pub heap_bytes: u64,
}

impl TargetRow {
    pub(super) fn new(target: Target) -> TargetRow {
        TargetRow {
            target,
            runs: 0,
            findings: 0,
            seconds: 0.0,
            corpus: 0,
            slowest_ns: 0,
            heap_bytes: 0,
        }
    }
}

/// One finding.
#[derive(Clone, Debug, Serialize)]
pub struct CaseRow {
    /// What was fuzzed.
    pub target: Target,
    pub reason: String,
    /// Shows it again: `egeria-torture fuzz --replay FILE`.
    pub file: Option<NamedPath>,
}

impl FuzzReport {
    pub fn text(&self) -> String {
        let mut text = String::new();
        for case in &self.details.cases {
            let what = format!("{}: {}", case.target, case.reason);
            text += &wrong(&what, "fuzz", case.file.as_ref());
        }
        for row in &self.details.by_target {
            let _ = writeln!(
                text,
                "{:<9} {:>9} inputs, {:>6.0}/s, {:>5} corpus, slowest {:>4} ms, heap {:>4} MiB, {} findings",
                row.target.name(),
                row.runs,
                row.runs as f64 / row.seconds.max(1e-9),
                row.corpus,
                row.slowest_ns / 1_000_000,
                row.heap_bytes >> 20,
                row.findings
            );
        }
        for skipped in &self.details.skipped {
            let _ = writeln!(text, "SKIPPED: {skipped}");
        }
        let stopped = stopped(self.details.stopped);
        let _ = write!(
            text,
            "{} inputs, {} findings, {:.1} s{stopped}",
            self.runs, self.findings, self.seconds
        );
        text
    }
}
