//! How a run is made, and what comes of it.

use egeria_machine::costs::{HANDOVER_NS, TURN_NS};
use egeria_machine::{MemoryKind, NodeId};
use egeria_policy::planner::{Make, Settings, System};
use serde::Serialize;

/// Where data that is written goes (NThread's baselines; OdinFS).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// To the node of the thread that writes.
    Local,
    /// To all nodes alike (`nova_n`); what is there at first lies so too.
    Spread,
    /// To the node at this position (`nova`).
    Node(usize),
    /// Where the file's data is: a file system of its own on each node.
    InPlace,
    /// Every file is [striped](crate::Layout::Striped), what is there at first too (OdinFS).
    Striped,
}

/// How a run is made.
#[derive(Clone, Debug)]
pub struct Options {
    pub policy: Make,
    pub planner: Settings,
    /// Where written data goes.
    pub allocation: Allocation,
    /// Time between two decisions, ns.
    pub window_ns: u64,
    /// What a move costs a thread, ns: it does nothing for so long.
    pub move_pause_ns: f64,
    /// What handing an access over to a delegate and back takes, ns.
    pub handover_ns: f64,
    /// What asking for a turn at persistent memory takes, ns.
    pub turn_ns: f64,
    /// What moving memory of a process takes, s/GB.
    pub migration_s_per_gb: f64,
}

/// AsymSched §4.3: one call of `migrate_pages` takes 51 s for 10 GB.
const CALL_S_PER_GB: f64 = 51.0 / 10.0;
/// The speed of Egeria's workers, compared with that call: 4 KiB pages, measured in QEMU, which emulates CPUs
/// (docs/explanation/observing.md).
const WORKERS_TO_CALL: f64 = 0.93;

impl Options {
    /// A system, deciding every second.
    pub fn of(system: System) -> Options {
        Options {
            planner: system.settings(),
            ..Options::published(system)
        }
    }

    /// A system as its paper has it, deciding every second.
    pub fn published(system: System) -> Options {
        Options {
            planner: system.published(),
            policy: system.make(),
            allocation: if system.stripes() {
                Allocation::Striped
            } else {
                Allocation::Local
            },
            window_ns: 1_000_000_000,
            move_pause_ns: 50_000.0,
            handover_ns: HANDOVER_NS,
            turn_ns: TURN_NS,
            migration_s_per_gb: CALL_S_PER_GB / WORKERS_TO_CALL,
        }
    }
}

/// What came of a run. Rates are per second of the machine's time, after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// Operations/s of all threads.
    pub operations_s: f64,
    /// Bytes/s read and written.
    pub bytes_s: f64,
    /// Of these, read from and written to files, bytes/s.
    pub storage_read_bytes_s: f64,
    /// See `storage_read_bytes_s`.
    pub storage_written_bytes_s: f64,
    /// Share of all bytes on the thread's own node, 0 when nothing was read or written.
    pub local_share: f64,
    /// Moves of threads in the whole run.
    pub moves: u32,
    /// Most moves of one thread.
    pub max_moves_per_thread: u32,
    /// The groups of threads, as the workload has them.
    pub groups: Vec<GroupOutcome>,
    /// Each window of the run.
    pub windows: Vec<WindowOutcome>,
    /// Why nothing was decided in the whole run, from the last decision; empty if something was.
    pub nothing_because: Vec<String>,
}

/// One group of threads, after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupOutcome {
    pub name: String,
    pub threads: u64,
    /// Operations/s of all of them.
    pub operations_s: f64,
    /// Bytes/s of all of them.
    pub bytes_s: f64,
    /// Mean time from the begin of an operation to that of the next, ns; 0 without any.
    pub operation_ns: f64,
}

/// One window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WindowOutcome {
    /// When it ended, s since the run began.
    pub end_s: f64,
    pub operations_s: f64,
    /// Its nodes, in the machine's order.
    pub nodes: Vec<NodeOutcome>,
    /// Links, each way; none where the machine says nothing of them.
    pub lanes: Vec<LaneOutcome>,
    /// The groups of threads, as the workload has them.
    pub groups: Vec<GroupWindow>,
    /// Which threads were moved at its end.
    pub moves: Vec<MoveOutcome>,
    /// Other decisions at its end: memory, limits, delegation, files; one line each. A decision that stays is printed
    /// once.
    pub steps: Vec<String>,
}

/// The lanes that carry anything in these windows, the most used first: by the window in which each carries the most.
pub fn used_lanes(windows: &[&WindowOutcome]) -> Vec<usize> {
    let count = windows.first().map_or(0, |first| first.lanes.len());
    let most = |lane: usize| {
        let shares = windows.iter().map(|window| window.lanes[lane].share);
        shares.fold(0.0, f64::max)
    };
    let mut used: Vec<(usize, f64)> = (0..count)
        .map(|lane| (lane, most(lane)))
        .filter(|(_, most)| *most > 0.0)
        .collect();
    used.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    used.into_iter().map(|(lane, _)| lane).collect()
}

/// One node in one window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeOutcome {
    pub node: NodeId,
    /// Read from its memories, bytes/s.
    pub read_bytes_s: f64,
    /// Written to its memories, bytes/s.
    pub written_bytes_s: f64,
    /// The traffic of each of its memories.
    pub memories: Vec<MemoryOutcome>,
    /// Share of its cores in use by threads; 0 on a node without cores.
    pub busy_share: f64,
    /// Threads on it at the end.
    pub threads: u32,
}

/// One memory in one window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MemoryOutcome {
    pub kind: MemoryKind,
    /// Read from it, bytes/s.
    pub read_bytes_s: f64,
    pub written_bytes_s: f64,
}

/// One way of one link in one window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LaneOutcome {
    /// Where it begins.
    pub from: NodeId,
    pub to: NodeId,
    /// What went over it, bytes/s.
    pub bytes_s: f64,
    /// Share of what it carries.
    pub share: f64,
}

/// One group of threads in one window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupWindow {
    pub operations_s: f64,
    /// Its threads on each node at the end, in the machine's order.
    pub threads: Vec<u32>,
}

/// One move.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MoveOutcome {
    /// The thread's name in the workload, and which of the run's it is.
    pub thread: String,
    pub from: NodeId,
    pub to: NodeId,
    pub why: String,
}
