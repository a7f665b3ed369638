//! What a steward did, for reports.

use egeria_machine::NodeId;
use serde::Serialize;

/// What went through one node in one window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct NodeRates {
    /// Which node.
    pub node: NodeId,
    /// Read from its pool, bytes/s of machine time.
    pub read_bytes_s: f64,
    /// Written to its pool, bytes/s of machine time.
    pub written_bytes_s: f64,
    /// Share of its CPUs in use.
    pub cpu_share: f64,
}

/// One window, in short.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WindowSummary {
    /// When it began, ns of machine time since the steward did.
    pub start_ns: u64,
    /// How long it was, ns of machine time.
    pub duration_ns: u64,
    /// Threads that were migrated at its end.
    pub moves: u32,
    /// Share of local bytes, `None` when none moved.
    pub local_share: Option<f64>,
    /// By node, in the machine's order.
    pub nodes: Vec<NodeRates>,
}

/// What a steward did from start to stop.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// Windows looked at.
    pub windows: u64,
    /// Threads migrated, each time counted.
    pub moves: u64,
    /// Threads migrated at least once.
    pub moved_threads: u64,
    /// Migrations of the thread that was migrated most.
    pub max_moves_per_thread: u64,
    /// Migrations that a vanished thread, its owner or the kernel prevented.
    pub moves_failed: u64,
    /// Processes whose threads on a node were migrated together, each time counted (AsymSched).
    pub process_moves: u64,
    /// Memory of processes that was migrated, bytes.
    pub memory_moved_bytes: u64,
    /// Actions that brought less than half of what was expected.
    pub missed: u64,
    /// Why no thread was migrated, where none was; at the end.
    pub no_moves_because: Option<String>,
    /// What limits the decisions, each once.
    pub notes: Vec<String>,
    /// Stages of the policy that are off, and why.
    pub unavailable: Vec<String>,
    /// Threads that got their CPUs back at the end.
    pub restored: u64,
    /// Threads that a steward killed before had narrowed, put back at the start.
    pub restored_at_start: u64,
    /// Reasons, with how often each moved a thread.
    pub reasons: Vec<(String, u64)>,
    /// The windows; at most the last [`MAX_WINDOWS`].
    pub series: Vec<WindowSummary>,
}

/// Windows kept in [`Summary::series`].
pub const MAX_WINDOWS: usize = 10_000;
