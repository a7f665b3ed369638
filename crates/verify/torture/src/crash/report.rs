//! What an exploration says at its end.

use super::explore::Tally;
use crate::text::{stopped, wrong};
use egeria_machine::NamedPath;
use serde::Serialize;
use std::fmt::Write as _;

/// Result of an exploration.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CrashReport {
    /// Crash states that were recovered and compared; no two of one workload are the same.
    pub states: u64,
    /// Different contents among them.
    pub unique_images: u64,
    /// Runs that were cut off.
    pub workloads: u64,
    /// Workloads in which something was wrong after a crash.
    pub violations: u64,
    /// How long it took.
    pub seconds: f64,
    /// More of the same.
    pub details: Details,
}

/// The breakdown.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Details {
    /// States after a second crash, inside recovery.
    pub states_in_recovery: u64,
    /// States and workloads by what was run.
    pub by_kind: Vec<KindRow>,
    /// What decided the samples.
    pub seed: u64,
    /// Stopped before the end of the plan.
    pub stopped: bool,
    /// What is wrong, and the file that shows it.
    pub cases: Vec<CaseRow>,
}

/// One kind of workload.
#[derive(Clone, Debug, Serialize)]
pub struct KindRow {
    pub kind: &'static str,
    /// As in [`CrashReport`].
    pub states: u64,
    /// As in [`CrashReport`].
    pub workloads: u64,
}

/// One violation.
#[derive(Clone, Debug, Serialize)]
pub struct CaseRow {
    pub workload: String,
    pub reason: String,
    /// Shows it again: `egeria-torture crash --replay FILE`.
    pub file: Option<NamedPath>,
}

impl CrashReport {
    pub(super) fn add(&mut self, kind: &'static str, tally: Tally) {
        self.states += tally.states;
        self.workloads += tally.workloads;
        self.details.states_in_recovery += tally.in_recovery;
        let rows = &mut self.details.by_kind;
        let at = rows.iter().position(|row| row.kind == kind);
        let at = at.unwrap_or_else(|| {
            let (states, workloads) = (0, 0);
            rows.push(KindRow {
                kind,
                states,
                workloads,
            });
            rows.len() - 1
        });
        rows[at].states += tally.states;
        rows[at].workloads += tally.workloads;
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for case in &self.details.cases {
            let what = format!("{}\n{}", case.workload, case.reason);
            text += &wrong(&what, "crash", case.file.as_ref());
        }
        for row in &self.details.by_kind {
            let _ = writeln!(
                text,
                "{:<44} {:>9} states of {:>7} workloads",
                row.kind, row.states, row.workloads
            );
        }
        let stopped = stopped(self.details.stopped);
        let _ = write!(
            text,
            "{} states explored, {} after a second crash, {} unique images, {} workloads, {} violations, {:.1} s{stopped}",
            self.states,
            self.details.states_in_recovery,
            self.unique_images,
            self.workloads,
            self.violations,
            self.seconds,
        );
        text
    }
}
