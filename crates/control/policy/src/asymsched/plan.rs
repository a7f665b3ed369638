//! The plan of a placement of clusters.

use std::fmt;

use egeria_facts::{AccessWindow, ProcessKey};
use egeria_machine::{Machine, NodeId, format_bandwidth, format_bytes};
use serde::{Deserialize, Serialize};

use super::following::Following;

/// Where clusters should be, what their memory should do, and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlacementPlan {
    /// The window's number.
    pub window: u64,
    /// The clusters found, by process and first node.
    pub clusters: Vec<Cluster>,
    /// The decision about threads, and why.
    pub decision: Decision,
    /// Which threads go where: all of a process on a node, or none; by process, then by node.
    pub moves: Vec<NodeMove>,
    /// The steps for memory, by process.
    pub memory: Vec<MemoryStep>,
    /// Statistics of the search.
    pub search: Search,
    /// Processes whose memory is still following after this plan; [`super::plan_after`] continues with it.
    pub following: Vec<(ProcessKey, Following)>,
}

/// Threads of a process that share data (§4.2, Step 1).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cluster {
    /// The process of these threads.
    pub process: ProcessKey,
    /// The nodes they are on.
    pub nodes: Vec<NodeId>,
    /// Accesses to memory of other nodes, per second (`C_rbw`).
    pub remote_accesses_s: f64,
    /// `C_weight`.
    pub weight: f64,
    /// `C_bw` where it is, bytes/s; 0 for a cluster on one node, which needs no link.
    pub bandwidth_bytes_s: f64,
    /// `C_bw` after the plan, bytes/s.
    pub expected_bytes_s: f64,
}

/// The decision about threads.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Decision {
    /// Clusters are not looked for: the planner's stage is off.
    Off,
    /// The setting `threads` is off.
    ThreadsOff,
    /// Nothing is known of the machine's links.
    NoLinks,
    /// The machine's links or routes make no sense.
    LinksUnusable {
        /// What is wrong, in one line.
        problem: String,
    },
    /// No cluster spans two nodes, so none needs a link.
    NothingSpans,
    /// The present placement passes the filter (Step 3): nothing is moved, which is the least possible.
    Stay {
        /// `P_wbw` of the present placement.
        now_wbw: f64,
        /// The highest `P_wbw` found.
        best_wbw: f64,
    },
    Move {
        /// `P_wbw` of the present placement.
        now_wbw: f64,
        /// `P_wbw` of the placement chosen.
        chosen_wbw: f64,
        /// The highest `P_wbw` found.
        best_wbw: f64,
        /// Memory to follow (`P_mm`), bytes.
        bytes: u64,
    },
    /// A better placement would take one process over its budget (Step 4), so no thread moves.
    OverBudget {
        /// The process whose budget it is.
        process: ProcessKey,
        /// What it has spent (`A_tm`), ns.
        spent_ns: u64,
        /// What this would take, ns.
        cost_ns: u64,
        /// What it may spend: `budget` of its running time, ns.
        allowed_ns: u64,
        /// `P_wbw` of the present placement.
        now_wbw: f64,
        /// `P_wbw` of the placement refused.
        chosen_wbw: f64,
    },
    /// A better placement would move a process with memory that still follows its last move, so no thread moves.
    StillFollowing {
        /// The process whose memory it is.
        process: ProcessKey,
    },
}

/// All threads of a process on a node go to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeMove {
    /// The process of these threads.
    pub process: ProcessKey,
    pub threads: u32,
    /// Where they are.
    pub from: NodeId,
    /// Where they should run.
    pub to: NodeId,
    /// Memory of the process on the node they leave, bytes.
    pub resident_bytes: u64,
}

/// A step for a process's memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemoryStep {
    /// The process whose memory it is.
    pub process: ProcessKey,
    pub action: MemoryAction,
}

/// An action on memory, and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MemoryAction {
    /// Each page goes to the node that accesses it; pages that many nodes access are spread.
    Dynamic,
    /// All memory follows at once, and the process is stopped during that (§4.3).
    Full {
        /// Part of its accesses that still go to nodes it left (`A_oldA`).
        old_share: f64,
        /// From which node to which, and how much, bytes.
        copies: Vec<(NodeId, NodeId, u64)>,
        /// What that should take, ns.
        cost_ns: u64,
        /// Pages that a worker takes at once.
        chunk_pages: u64,
    },
    /// All memory should follow, but that would go over the budget now.
    Short {
        /// Part of its accesses that still go to nodes it left.
        old_share: f64,
        /// What it has spent, ns.
        spent_ns: u64,
        /// What it would take, ns.
        cost_ns: u64,
        /// What it may spend, ns.
        allowed_ns: u64,
    },
    /// It is where it is needed; nothing follows any more.
    Settled {
        /// Part of its accesses that still go to nodes it left.
        old_share: f64,
    },
}

/// Statistics of the search for a placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Search {
    /// Placements looked at, one by one; those ruled out in groups by a bound are not among them.
    pub considered: u64,
    /// Placements whose shares were computed: neither ruled out nor equivalent to one computed before.
    pub evaluated: u64,
    /// Whether the search was complete, so that the best found is the best of all.
    pub is_complete: bool,
}

impl PlacementPlan {
    /// The plan when clusters are not looked for: nothing.
    pub fn off(window: u64) -> PlacementPlan {
        PlacementPlan {
            window,
            clusters: Vec::new(),
            decision: Decision::Off,
            moves: Vec::new(),
            memory: Vec::new(),
            search: Search::default(),
            following: Vec::new(),
        }
    }

    /// The window as it would be if threads and all their memory were where the plan says, and accesses followed both.
    /// Its number and its time stay.
    pub fn obeyed(&self, machine: &Machine, window: &AccessWindow) -> AccessWindow {
        let mut obeyed = window.clone();
        for process in &mut obeyed.processes {
            let goes_to = |node: NodeId| {
                let mut steps = self.moves.iter();
                let step = steps.find(|step| step.process == process.process && step.from == node);
                step.map_or(node, |step| step.to)
            };
            let nodes = machine.nodes.iter().enumerate();
            let places: Vec<usize> = nodes
                .map(|(own, node)| machine.index_of(goes_to(node.id)).unwrap_or(own))
                .collect();
            for on in &mut process.nodes {
                let mut rates = vec![0.0; places.len()];
                for (rate, place) in on.accesses_s.iter().zip(&places) {
                    rates[*place] += rate;
                }
                on.accesses_s = rates;
                on.node = goes_to(on.node);
            }
        }
        obeyed
    }
}

impl fmt::Display for NodeMove {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (process, threads) = (self.process, self.threads);
        let plural = if threads == 1 { "" } else { "s" };
        let bytes = format_bytes(self.resident_bytes);
        write!(
            formatter,
            "{threads} thread{plural} of {process} go from node {} to node {}, {bytes} behind them",
            self.from.0, self.to.0
        )
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |wbw: &f64| format_bandwidth(*wbw);
        match self {
            Decision::Off => formatter.write_str("nothing is placed: the stage clusters is off"),
            Decision::ThreadsOff => formatter.write_str("threads are not placed: threads is off"),
            Decision::NoLinks => formatter.write_str(
                "nothing is placed: the machine says nothing of links between its nodes; add \
                 [[links]] to a machine file",
            ),
            Decision::LinksUnusable { problem } => {
                write!(formatter, "nothing is placed: {problem}")
            }
            Decision::NothingSpans => formatter.write_str(
                "nothing is placed: no process shares data over two nodes, so none needs a link",
            ),
            Decision::Stay { now_wbw, best_wbw } => write!(
                formatter,
                "all stay: weighted bandwidth {}, the best placement has {}",
                rate(now_wbw),
                rate(best_wbw)
            ),
            Decision::Move {
                now_wbw,
                chosen_wbw,
                best_wbw,
                bytes,
            } => write!(
                formatter,
                "weighted bandwidth rises from {} to {} (best {}); {} of memory follow",
                rate(now_wbw),
                rate(chosen_wbw),
                rate(best_wbw),
                format_bytes(*bytes)
            ),
            Decision::OverBudget {
                process,
                spent_ns,
                cost_ns,
                allowed_ns,
                now_wbw,
                chosen_wbw,
            } => {
                let gain = format!("{} instead of {}", rate(chosen_wbw), rate(now_wbw));
                let budget = Budget(*spent_ns, *cost_ns, *allowed_ns);
                write!(
                    formatter,
                    "all stay: {process} {budget}; weighted bandwidth would be {gain}"
                )
            }
            Decision::StillFollowing { process } => write!(
                formatter,
                "all stay: a better placement moves {process}, whose memory still follows its last move"
            ),
        }
    }
}

/// Spent, needed and allowed, ns, in words.
struct Budget(u64, u64, u64);

impl fmt::Display for Budget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (spent, cost, allowed) = (seconds(self.0), seconds(self.1), seconds(self.2));
        write!(
            formatter,
            "has spent {spent:.2} s on migration, would need {cost:.2} s and may spend {allowed:.2} s in all"
        )
    }
}

impl fmt::Display for MemoryStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.process;
        match &self.action {
            MemoryAction::Dynamic => {
                write!(formatter, "memory of {process} follows as it is accessed")
            }
            MemoryAction::Full {
                old_share,
                copies,
                cost_ns,
                ..
            } => {
                let bytes = copies
                    .iter()
                    .fold(0u64, |sum, copy| sum.saturating_add(copy.2));
                write!(
                    formatter,
                    "memory of {process} follows at once: {:.0} % of its accesses go to nodes it \
                     left; {} in {:.2} s",
                    old_share * 100.0,
                    format_bytes(bytes),
                    *cost_ns as f64 / 1e9
                )
            }
            MemoryAction::Short {
                old_share,
                spent_ns,
                cost_ns,
                allowed_ns,
            } => write!(
                formatter,
                "memory of {process} stays where it was, though {:.0} % of its accesses go there: it {}",
                old_share * 100.0,
                Budget(*spent_ns, *cost_ns, *allowed_ns)
            ),
            MemoryAction::Settled { old_share } => write!(
                formatter,
                "memory of {process} has followed: {:.0} % of its accesses go to nodes it left",
                old_share * 100.0
            ),
        }
    }
}
