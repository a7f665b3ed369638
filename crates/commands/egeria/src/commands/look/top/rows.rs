//! Nodes and threads as rows, and bars.

use std::path::Path;

use clap::ValueEnum;
use egeria_facts::{FileFacts, ThreadKey, Window};
use egeria_machine::NodeId;
use egeria_steward::{NodeRecord, ThreadRecord};
use serde::Serialize;

use super::super::decision_log::printable;
use super::super::explain::totals::local_share;

/// One node in one window.
#[derive(Serialize)]
pub(in crate::commands::look) struct NodeRow {
    pub(in crate::commands::look) node: NodeId,
    pub(in crate::commands::look) read_bytes_s: f64,
    pub(in crate::commands::look) written_bytes_s: f64,
    /// `BW_N` (NThread Eq. 1): reads weighted, and writes, bytes/s.
    pub(in crate::commands::look) used_bytes_s: f64,
    /// What `used_bytes_s` can be at most, when known.
    pub(in crate::commands::look) maximum_bytes_s: Option<f64>,
    pub(in crate::commands::look) cpu_share: f64,
    pub(in crate::commands::look) threads: u32,
    #[serde(skip)]
    parts: [f64; 2],
}

impl NodeRow {
    pub(in crate::commands::look) fn new(
        record: &NodeRecord,
        read_weight: f64,
        peak_bytes_s: f64,
    ) -> NodeRow {
        let reads = record.read_bytes_s * read_weight;
        let end = record.pm_maximum_bytes_s.unwrap_or(peak_bytes_s);
        NodeRow {
            node: record.node,
            read_bytes_s: record.read_bytes_s,
            written_bytes_s: record.written_bytes_s,
            used_bytes_s: reads + record.written_bytes_s,
            maximum_bytes_s: record.pm_maximum_bytes_s,
            cpu_share: record.cpu_share,
            threads: record.threads,
            parts: [reads / end, record.written_bytes_s / end],
        }
    }

    /// Share of the maximum in use, when that is known.
    pub(in crate::commands::look) fn used_share(&self) -> Option<f64> {
        let maximum = self.maximum_bytes_s.filter(|maximum| *maximum > 0.0)?;
        Some(self.used_bytes_s / maximum)
    }

    /// Cells of a bar that reads and writes fill.
    pub(in crate::commands::look) fn memory_cells(&self, width: usize) -> [usize; 2] {
        let reads = cells(self.parts[0], width);
        let both = cells(self.parts[0] + self.parts[1], width).max(reads);
        [reads, both - reads]
    }

    /// Cells of a bar that busy CPUs fill.
    pub(in crate::commands::look) fn cpu_cells(&self, width: usize) -> usize {
        cells(self.cpu_share, width)
    }
}

/// Cells that a share of a bar fills: none for nothing, at least one for something, never too many.
fn cells(share: f64, width: usize) -> usize {
    if share.is_nan() || share <= 0.0 {
        return 0;
    }
    ((share * width as f64).round() as usize).clamp(1, width)
}

/// One thread in one window.
#[derive(Serialize)]
pub(in crate::commands::look) struct ThreadRow {
    pub(in crate::commands::look) thread: ThreadKey,
    pub(in crate::commands::look) name: String,
    pub(in crate::commands::look) node: NodeId,
    pub(in crate::commands::look) read_bytes_s: f64,
    pub(in crate::commands::look) written_bytes_s: f64,
    pub(in crate::commands::look) local_share: Option<f64>,
    pub(in crate::commands::look) cpu_share: f64,
    pub(in crate::commands::look) is_shared: bool,
    /// Moves since the steward began.
    pub(in crate::commands::look) moves: u64,
}

impl ThreadRow {
    pub(in crate::commands::look) fn new(
        nodes: &[NodeId],
        record: &ThreadRecord,
        moves: u64,
    ) -> ThreadRow {
        ThreadRow {
            thread: record.thread,
            name: record.name.clone(),
            node: record.node,
            read_bytes_s: record.read_bytes_s.iter().sum(),
            written_bytes_s: record.written_bytes_s.iter().sum(),
            local_share: local_share(nodes, record),
            cpu_share: record.cpu_share,
            is_shared: record.is_shared,
            moves,
        }
    }

    fn bytes_s(&self) -> f64 {
        self.read_bytes_s + self.written_bytes_s
    }
}

/// One file in one window.
#[derive(Clone, Serialize)]
pub(in crate::commands::look) struct FileRow {
    /// Its path when a process had it open.
    pub(super) path: Option<String>,
    pub(super) inode: u64,
    /// Read by threads on the node of the data, and by others.
    pub(super) local_read_bytes_s: f64,
    pub(super) remote_read_bytes_s: f64,
    pub(super) written_bytes_s: f64,
    /// Of what was read.
    pub(super) local_share: Option<f64>,
    /// The nodes of its data, and how much of it they hold.
    pub(super) shares: Vec<(NodeId, f64)>,
}

impl FileRow {
    pub(super) fn new(window: &Window, file: &FileFacts, path: Option<&Path>) -> FileRow {
        let rows = file.read_bytes.iter();
        let read: u64 = rows
            .flatten()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes));
        let nodes = 0..window.nodes.len();
        let local = nodes.map(|node| file.read(node, node));
        let local = local.fold(0, u64::saturating_add);
        let held = file.bytes_on.iter();
        let held = held.fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let on = window.nodes.iter().zip(&file.bytes_on);
        let on = on.filter(|(_, bytes)| **bytes > 0);
        FileRow {
            path: path.map(|path| printable(&path.to_string_lossy())),
            inode: file.file.inode,
            local_read_bytes_s: window.rate_bytes_s(local),
            remote_read_bytes_s: window.rate_bytes_s(read.saturating_sub(local)),
            written_bytes_s: window.rate_bytes_s(file.written_bytes),
            local_share: (read > 0).then(|| local as f64 / read as f64),
            shares: on
                .map(|(node, bytes)| (node.node, *bytes as f64 / held as f64))
                .collect(),
        }
    }
}

/// Order of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::commands::look) enum Sort {
    /// Busiest first.
    Bytes,
    /// Least local first.
    Local,
    /// Most CPU time first.
    Cpu,
    /// Most moves first.
    Moves,
    /// By process and thread id.
    Thread,
}

impl Sort {
    /// The next one, for a key.
    pub(in crate::commands::look) fn next(self) -> Sort {
        let all = Sort::value_variants();
        let at = all.iter().position(|each| *each == self).unwrap_or(0);
        all[(at + 1) % all.len()]
    }

    /// As typed.
    pub(in crate::commands::look) fn name(self) -> &'static str {
        match self {
            Sort::Bytes => "bytes",
            Sort::Local => "local",
            Sort::Cpu => "cpu",
            Sort::Moves => "moves",
            Sort::Thread => "thread",
        }
    }

    /// Sorts; ties by thread, so that rows do not jump.
    pub(in crate::commands::look) fn apply(self, rows: &mut [ThreadRow]) {
        let share = |row: &ThreadRow| row.local_share.unwrap_or(f64::INFINITY);
        rows.sort_by(|left, right| {
            let order = match self {
                Sort::Bytes => right.bytes_s().total_cmp(&left.bytes_s()),
                Sort::Local => share(left).total_cmp(&share(right)),
                Sort::Cpu => right.cpu_share.total_cmp(&left.cpu_share),
                Sort::Moves => right.moves.cmp(&left.moves),
                Sort::Thread => std::cmp::Ordering::Equal,
            };
            order.then_with(|| left.thread.cmp(&right.thread))
        });
    }
}
