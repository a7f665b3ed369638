//! What a run did: bytes by node, calls by the way they took.

use egeria_engine::Counters;
use egeria_machine::{NamedPath, format_bandwidth, format_bytes};
use serde::Serialize;

use crate::machine_choice::MachineLabel;
use crate::session::PoolLabel;

/// The summary of `egeria run`, as `--report` and `--json` have it.
#[derive(Serialize, Debug)]
pub struct Summary {
    /// The command, lossily as text.
    pub command: Vec<String>,
    /// Its exit status; 128 + signal when one killed it.
    pub exit_status: u8,
    /// From its start to its end, seconds on the wall clock.
    pub elapsed_s: f64,
    /// From its start to its end, seconds in the time of the emulated machine.
    pub machine_elapsed_s: f64,
    /// UUID of the volume.
    pub volume: String,
    /// Where it was mounted.
    pub mount: NamedPath,
    /// The volume was made for this run.
    pub scratch: bool,
    /// The machine it ran on.
    pub machine: MachineLabel,
    /// Where new data went: `local`, `random`, `node=N`.
    pub allocation: String,
    /// What moved threads.
    pub policy: String,
    /// What the steward did, when there was one.
    pub steward: Option<egeria_steward::Summary>,
    /// The preload library, when one was found.
    pub preload: Option<NamedPath>,
    /// Bytes read or written on the node of the thread.
    pub local_bytes: u64,
    /// Bytes read or written on other nodes.
    pub remote_bytes: u64,
    /// Of the local ones, bytes that delegates read or wrote for others.
    pub delegated_bytes: u64,
    pub pools: Vec<PoolTraffic>,
    /// Calls of programs on files of the mount.
    pub calls: Calls,
    /// Requests that the mount served.
    pub mount_requests: u64,
    /// Reads that met data which does not match its checksum.
    pub checksum_failures: u64,
}

/// How calls were served.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Calls {
    /// By the preload library itself.
    pub direct: u64,
    /// By the kernel and the mount.
    pub passed: u64,
}

/// What went to and from one pool.
#[derive(Serialize, Debug)]
pub struct PoolTraffic {
    /// Which pool.
    #[serde(flatten)]
    pub label: PoolLabel,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Mean read bandwidth over the run, bytes/s of machine time.
    pub read_bytes_s: f64,
    /// Mean write bandwidth over the run, bytes/s of machine time.
    pub written_bytes_s: f64,
}

/// What was counted between two readings.
pub fn difference(before: &Counters, after: &Counters) -> Counters {
    let each = |before: &[u64; 16], after: &[u64; 16]| {
        std::array::from_fn(|pool| after[pool].saturating_sub(before[pool]))
    };
    Counters {
        read_bytes: each(&before.read_bytes, &after.read_bytes),
        written_bytes: each(&before.written_bytes, &after.written_bytes),
        local_bytes: after.local_bytes.saturating_sub(before.local_bytes),
        remote_bytes: after.remote_bytes.saturating_sub(before.remote_bytes),
        remote_of_pool_bytes: each(&before.remote_of_pool_bytes, &after.remote_of_pool_bytes),
        direct_calls: after.direct_calls.saturating_sub(before.direct_calls),
        passed_calls: after.passed_calls.saturating_sub(before.passed_calls),
        mount_requests: after.mount_requests.saturating_sub(before.mount_requests),
        checksum_failures: after
            .checksum_failures
            .saturating_sub(before.checksum_failures),
        admission_waits: after.admission_waits.saturating_sub(before.admission_waits),
        admission_waited_ns: (after.admission_waited_ns).saturating_sub(before.admission_waited_ns),
        delegated_bytes: after.delegated_bytes.saturating_sub(before.delegated_bytes),
        asked: std::array::from_fn(|pool| after.asked[pool].since(before.asked[pool])),
    }
}

/// The traffic of each pool.
pub fn traffic(
    pools: Vec<PoolLabel>,
    counters: &Counters,
    machine_elapsed_s: f64,
) -> Vec<PoolTraffic> {
    let seconds = machine_elapsed_s.max(1e-9);
    let of = |label: PoolLabel| {
        let read_bytes = counters.read_bytes.get(label.pool).copied().unwrap_or(0);
        let written_bytes = counters.written_bytes.get(label.pool).copied().unwrap_or(0);
        PoolTraffic {
            label,
            read_bytes,
            written_bytes,
            read_bytes_s: read_bytes as f64 / seconds,
            written_bytes_s: written_bytes as f64 / seconds,
        }
    };
    pools.into_iter().map(of).collect()
}

impl Summary {
    /// A few lines for stderr, each beginning `egeria: `.
    pub fn lines(&self) -> String {
        let emulated = self
            .machine
            .remark()
            .map_or(String::new(), |remark| format!(", {remark}"));
        let preload = if self.preload.is_some() {
            ""
        } else {
            " (no preload library)"
        };
        let mut text = format!(
            "egeria: {:.2} s{emulated}: {} local, {} remote; {} calls direct, {} passed{preload}; {} mount requests\n",
            self.elapsed_s,
            format_bytes(self.local_bytes),
            format_bytes(self.remote_bytes),
            self.calls.direct,
            self.calls.passed,
            self.mount_requests
        );
        for pool in &self.pools {
            text.push_str(&format!(
                "egeria: node {}: {} read ({}), {} written ({})\n",
                pool.label.node,
                format_bytes(pool.read_bytes),
                format_bandwidth(pool.read_bytes_s),
                format_bytes(pool.written_bytes),
                format_bandwidth(pool.written_bytes_s)
            ));
        }
        if self.checksum_failures > 0 {
            text.push_str(&format!(
                "egeria: {} reads met data that does not match its checksum: `egeria scrub` names the files\n",
                self.checksum_failures
            ));
        }
        if let Some(steward) = &self.steward {
            text.push_str(&steward_line(&self.policy, steward));
        }
        text
    }
}

/// What a steward did in addition to migrating threads, and how often.
fn other_actions(steward: &egeria_steward::Summary) -> Vec<String> {
    let mut counts = std::collections::BTreeMap::<&str, u64>::new();
    let done = steward.actions.iter().filter(|each| each.outcome == "done");
    for each in done.filter(|each| each.action != "migrate_thread") {
        *counts.entry(&each.action).or_default() += each.count;
    }
    let words = |(action, count): (&str, u64)| format!("{} ({count})", action.replace('_', " "));
    counts.into_iter().map(words).collect()
}

fn steward_line(policy: &str, steward: &egeria_steward::Summary) -> String {
    let mut line = format!(
        "egeria: policy {policy}: {} moves of {} threads in {} windows",
        steward.moves, steward.moved_threads, steward.windows
    );
    for (at, (reason, count)) in steward.reasons.iter().enumerate() {
        let lead = if at == 0 { " (" } else { ", " };
        line.push_str(&format!("{lead}{count} {}", reason.replace('_', " ")));
    }
    if !steward.reasons.is_empty() {
        line.push(')');
    }
    if steward.missed > 0 {
        line.push_str(&format!(
            "; {} brought less than half of what was expected",
            steward.missed
        ));
    }
    line.push('\n');
    let others = other_actions(steward);
    if !others.is_empty() {
        line.push_str(&format!(
            "egeria: also done: {}; `egeria explain` tells why\n",
            others.join(", ")
        ));
    }
    let off = policy == "off";
    if let Some(because) = steward.no_moves_because.as_ref().filter(|_| !off) {
        line.push_str(&format!("egeria: no thread was migrated: {because}\n"));
    }
    // As a rule one note per node, all alike.
    let note = steward.notes.iter().take(1);
    for each in note.chain(&steward.unavailable).chain(&steward.unseen) {
        line.push_str(&format!("egeria: {each}\n"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_steward_names_what_else_was_done() {
        let action = |action: &str, outcome: &str, count| egeria_steward::ActionCount {
            action: action.to_owned(),
            reason: "formula".to_owned(),
            outcome: outcome.to_owned(),
            count,
        };
        let steward = egeria_steward::Summary {
            windows: 31,
            actions: vec![
                action("set_limit", "done", 1),
                action("relocate", "done", 3),
                action("relocate", "vanished", 2),
                action("migrate_thread", "done", 4),
            ],
            ..egeria_steward::Summary::default()
        };
        let line = steward_line("all", &steward);
        assert!(
            line.contains("\negeria: also done: relocate (3), set limit (1);"),
            "{line}"
        );
    }
}
