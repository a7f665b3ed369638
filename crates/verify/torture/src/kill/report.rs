//! What a run came to.

use super::ledger::Ledger;
use super::round::Tally;
use super::stop::{Afterwards, StopReport};
use crate::text::lined;
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Nobody may wait longer for one that died, ms.
pub const LONGEST_WAIT_MS: f64 = 1000.0;

/// What a run came to.
#[derive(Serialize, Default, Debug)]
pub struct KillReport {
    /// Processes killed.
    pub kills: u64,
    /// Mounts among them.
    pub mount_kills: u64,
    /// Lives of threads that worked.
    pub workers: u64,
    /// Operations that returned (acknowledged).
    pub operations: u64,
    /// Acknowledged operations that are missing, and everything else that is not as it must be.
    pub lost: u64,
    /// Longest operation of anybody, waiting for CPUs included.
    pub longest_wait_ms: f64,
    /// Blocks nobody has and nobody can get after everything was removed.
    pub leaked_blocks: i64,
    /// The same of inodes.
    pub leaked_inodes: i64,
    /// What `egeria check` finds.
    pub findings: u64,
    /// How long it took.
    pub seconds: f64,
    /// Calls the preload library served itself.
    pub direct_calls: u64,
    /// Requests the mounts answered.
    pub mount_requests: u64,
    /// Snapshots that were read whole.
    pub snapshots: u64,
    /// What stopped workers kept others from; nothing when none were stopped.
    pub stopped: Option<StopReport>,
    /// A line for everything lost or found.
    pub faults: Vec<String>,
}

impl KillReport {
    pub(super) fn add(&mut self, tally: Tally) {
        self.kills += tally.kills;
        self.mount_kills += tally.mount_kills;
        self.lost += tally.faults.len() as u64;
        self.leaked_blocks += tally.leaked.blocks.abs();
        self.leaked_inodes += tally.leaked.inodes.abs();
        self.findings += tally.findings.len() as u64;
        self.direct_calls += tally.direct_calls;
        self.mount_requests += tally.mount_requests;
        self.faults.extend(tally.faults);
        self.faults.extend(tally.findings);
    }

    /// What is found after the stops counts like what is found after deaths.
    pub(super) fn look(&mut self, after: Afterwards) {
        self.leaked_blocks += after.leaked.blocks.abs();
        self.leaked_inodes += after.leaked.inodes.abs();
        self.findings += after.findings.len() as u64;
        self.faults.extend(after.findings);
    }

    pub(super) fn sum(&mut self, ledger: &Ledger, elapsed: Duration) {
        self.workers = ledger.worker_count();
        self.operations = ledger.steps();
        self.snapshots = ledger.header().snapshots.load(Ordering::Acquire);
        self.longest_wait_ms = ledger.longest().0 as f64 / 1e6;
        self.seconds = elapsed.as_secs_f64();
        let wrong = ledger.faults();
        if wrong > 0 {
            self.lost += wrong;
            let line = format!("{wrong} operations went wrong; see their lines above");
            self.faults.push(line);
        }
    }

    /// What must not be, in a line; nothing when all is well.
    pub fn verdict(&self) -> Option<String> {
        let (lost, findings) = (self.lost, self.findings);
        let (blocks, inodes) = (self.leaked_blocks, self.leaked_inodes);
        if lost + findings > 0 || blocks + inodes > 0 {
            return Some(format!(
                "{lost} operations lost or wrong, {findings} findings of the check, \
                 {blocks} blocks and {inodes} inodes leaked; see above"
            ));
        }
        if self.longest_wait_ms > LONGEST_WAIT_MS {
            return Some(format!(
                "somebody waited {:.0} ms, more than {LONGEST_WAIT_MS} ms; try again on an idle machine",
                self.longest_wait_ms
            ));
        }
        self.stopped.as_ref().and_then(StopReport::verdict)
    }

    /// The report as a table.
    pub fn table(&self) -> String {
        let rows = [
            ("processes killed", self.kills.to_string()),
            ("mounts among them", self.mount_kills.to_string()),
            ("workers", self.workers.to_string()),
            ("operations that returned", self.operations.to_string()),
            ("lost or wrong", self.lost.to_string()),
            ("longest wait", format!("{:.0} ms", self.longest_wait_ms)),
            ("blocks leaked", self.leaked_blocks.to_string()),
            ("inodes leaked", self.leaked_inodes.to_string()),
            ("findings of the check", self.findings.to_string()),
            ("calls served by preload", self.direct_calls.to_string()),
            ("requests to mounts", self.mount_requests.to_string()),
            ("snapshots read", self.snapshots.to_string()),
            ("time", format!("{:.0} s", self.seconds)),
        ];
        let mut text = match self.kills {
            0 => String::new(),
            _ => lined(rows.map(|(what, value)| vec![what.to_owned(), value]), &[]),
        };
        if let Some(stopped) = &self.stopped {
            text += &format!("\n{}", stopped.table());
        }
        for fault in &self.faults {
            text.push('\n');
            text.push_str(fault);
        }
        text.trim_start().to_owned()
    }
}
