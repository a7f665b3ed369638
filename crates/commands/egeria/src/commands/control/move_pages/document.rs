//! What `egeria move` prints.

use egeria_cli::output::{self, printable};
use egeria_machine::{NamedPath, NodeId, format_bandwidth, format_bytes};
use egeria_pages::NodeBytes;
use egeria_pages::migrate::{Migration, Outcome};
use serde::Serialize;

/// All that was done.
#[derive(Serialize, Default)]
pub(super) struct Document {
    /// `files` or `processes`.
    pub(super) kind: &'static str,
    pub(super) files: usize,
    pub(super) seconds: f64,
    /// Every page that may be moved is where it should be.
    pub(super) complete: bool,
    #[serde(flatten)]
    pub(super) bytes: Bytes,
    /// Where the pages are in the end; of files, those that are where they should be.
    pub(super) nodes: Vec<OfNode>,
    pub(super) processes: Vec<OfProcess>,
    pub(super) failures: Vec<Problem>,
}

/// What came of pages.
#[derive(Serialize, Default, Clone, Copy)]
pub(super) struct Bytes {
    pub(super) there_bytes: u64,
    pub(super) moved_bytes: u64,
    /// Of `moved_bytes`, as whole huge pages.
    pub(super) huge_bytes: u64,
    /// Left: other processes have them mapped, too.
    pub(super) shared_bytes: u64,
    /// Left: pinned, or in use for long.
    pub(super) pinned_bytes: u64,
    /// Left: bound to other nodes by their owner.
    pub(super) bound_bytes: u64,
    /// Left: no memory at the node.
    pub(super) no_room_bytes: u64,
    /// Left: more than `--max`.
    pub(super) over_max_bytes: u64,
}

#[derive(Serialize)]
pub(super) struct OfNode {
    pub(super) node: NodeId,
    pub(super) bytes: u64,
}

#[derive(Serialize)]
pub(super) struct OfProcess {
    process_id: u32,
    name: String,
    #[serde(flatten)]
    bytes: Bytes,
    workers: usize,
    seconds: f64,
    /// It ended during the migration.
    ended: bool,
}

#[derive(Serialize)]
pub(super) struct Problem {
    pub(super) path: NamedPath,
    pub(super) cause: String,
}

impl From<&Outcome> for Bytes {
    fn from(outcome: &Outcome) -> Bytes {
        Bytes {
            there_bytes: outcome.right,
            moved_bytes: outcome.moved,
            huge_bytes: outcome.huge,
            shared_bytes: outcome.shared,
            pinned_bytes: outcome.pinned,
            bound_bytes: outcome.bound,
            no_room_bytes: outcome.no_room,
            over_max_bytes: outcome.over_budget,
        }
    }
}

/// Bytes by node, as documents have them.
pub(super) fn of_nodes(bytes: &NodeBytes) -> Vec<OfNode> {
    let nodes = bytes.iter();
    nodes.map(|(node, bytes)| OfNode { node, bytes }).collect()
}

impl OfProcess {
    pub(super) fn new(process_id: u32, name: String, done: &Migration) -> OfProcess {
        OfProcess {
            process_id,
            name,
            bytes: (&done.outcome).into(),
            workers: done.workers,
            seconds: done.took.as_secs_f64(),
            ended: done.is_ended,
        }
    }

    fn line(&self) -> String {
        let moved = self.bytes.moved_bytes;
        let plural = if self.workers == 1 { "" } else { "s" };
        let mut line = format!(
            "process {} ({}): moved {} in {:.2} s by {} worker{plural}",
            self.process_id,
            printable(&self.name),
            format_bytes(moved),
            self.seconds,
            self.workers
        );
        if moved > 0 {
            let bytes_s = moved as f64 / self.seconds.max(1e-9);
            line += &format!(", {}", format_bandwidth(bytes_s));
        }
        if self.bytes.huge_bytes > 0 {
            line += &format!(
                ", {} of it in huge pages",
                format_bytes(self.bytes.huge_bytes)
            );
        }
        if self.ended {
            line += "; it ended meanwhile";
        }
        line
    }
}

impl Document {
    pub(super) fn human(&self) -> String {
        let mut lines: Vec<String> = self.processes.iter().map(OfProcess::line).collect();
        if self.kind == "files" {
            lines.push(format!(
                "files: {}, moved {} in {:.2} s; {} cached and where it should be",
                self.files,
                format_bytes(self.bytes.moved_bytes),
                self.seconds,
                format_bytes(self.bytes.there_bytes)
            ));
        }
        let rows = self.nodes.iter();
        let rows = rows.map(|node| vec![node.node.0.to_string(), format_bytes(node.bytes)]);
        if !self.nodes.is_empty() {
            lines.push(output::table(&[">node", ">now"], rows.collect()));
        }
        lines.extend(self.bytes.left());
        let problems = self.failures.iter();
        lines.extend(problems.map(|problem| {
            let path = &problem.path;
            format!("{path}: {}", printable(&problem.cause))
        }));
        lines.join("\n")
    }
}

impl Bytes {
    /// What was left, and what moves it.
    fn left(&self) -> Vec<String> {
        let all = [
            (
                self.shared_bytes,
                "other processes have it mapped, too: --mapped moves it",
            ),
            (
                self.pinned_bytes,
                "pinned by a device or the kernel, or in use all the time",
            ),
            (
                self.bound_bytes,
                "its owner bound it to other nodes (numactl, mbind)",
            ),
            (
                self.no_room_bytes,
                "the node has no memory for it: see `egeria machine`, or --spread it",
            ),
            (self.over_max_bytes, "more than --max"),
        ];
        let left = all.into_iter().filter(|(bytes, _)| *bytes > 0);
        left.map(|(bytes, why)| format!("left {}: {why}", format_bytes(bytes)))
            .collect()
    }
}
