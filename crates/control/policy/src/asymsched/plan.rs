//! The plan of a placement of clusters.

use egeria_facts::{AccessWindow, NodeAccesses, ProcessAccesses, ProcessKey};
use egeria_machine::{Machine, NodeId};
use serde::{Deserialize, Serialize};

use super::cost::MemoryCost;
use super::following::Following;
use super::tier_move::TierMove;

use crate::{KeptProcess, Move};

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
    /// Single threads that go to another node, by thread: where CPUs of a node are not enough for all.
    #[serde(default)]
    pub single: Vec<Move>,
    /// The steps for memory, by process.
    pub memory: Vec<MemoryStep>,
    /// Statistics of the search.
    pub search: Search,
    /// Processes whose memory is still following after this plan; [`super::plan_after`] continues with it.
    pub following: Vec<(ProcessKey, Following)>,
    /// Processes that use memory heavily and are left as they are.
    #[serde(default)]
    pub kept: Vec<KeptProcess>,
    /// By what part processes that change are expected to become faster, where that was estimated (stage `together`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gains: Vec<(ProcessKey, f64)>,
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
    /// There is no other node.
    OneNode,
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
        /// What moving memory takes.
        #[serde(default)]
        cost: MemoryCost,
    },
    /// Threads and the memory that they use come together (stage `together`).
    Together {
        /// Part of the accesses of the processes that change that cross nodes now.
        remote_now: f64,
        /// The same afterwards, memory included.
        remote_then: f64,
        /// What these processes should gain, as a part of their speed.
        gain: f64,
    },
    /// Memory goes to slower nodes of its group, or comes back from there (stage `together`).
    Tiers,
    /// Programs got less done since the last placement, so it is taken back (stage `together`).
    TakenBack,
    /// Threads that left the node where they were placed go back there (stage `together`).
    ThreadsBack,
    /// A better placement would take one process over its budget (Step 4), so no thread moves.
    OverBudget {
        /// The process whose budget it is.
        process: ProcessKey,
        /// What it has spent (`A_tm`), ns.
        spent_ns: u64,
        /// What this would take, ns.
        cost_ns: u64,
        /// What that rests on.
        #[serde(default)]
        cost: MemoryCost,
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
    /// Memory follows as it is accessed: in each window the most used pages go from the nodes that threads left to where
    /// these went, as far as the actuator sees accesses and has budget.
    Dynamic,
    /// All memory follows at once. The process runs on, unlike in §4.3.
    Full {
        /// Part of its accesses that still go to nodes it left (`A_oldA`).
        old_share: f64,
        /// From which node to which, and how much, bytes.
        copies: Vec<(NodeId, NodeId, u64)>,
        /// What that should take, ns.
        cost_ns: u64,
        /// What that rests on.
        #[serde(default)]
        cost: MemoryCost,
        /// Pages that a worker takes at once.
        chunk_pages: u64,
    },
    /// Memory goes to the node that accesses it, window by window within the budget, until all of it is there. Pages
    /// that one node's threads access go to that node first; of the others, as much as is said here.
    Gather {
        /// Part of its accesses that cross nodes now.
        remote_share: f64,
        /// The same when all of it is there.
        remote_then: f64,
        /// If it goes from tier to tier, why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<TierMove>,
        /// From which node to which, and how much, bytes.
        copies: Vec<(NodeId, NodeId, u64)>,
        /// What that should take in all, ns.
        cost_ns: u64,
        /// What that rests on.
        cost: MemoryCost,
        /// What was spent on other moves of the process, ns: the budget has that no more.
        others_ns: u64,
        /// Running time of which the budget may be spent in advance, ns: the time in which the move should be repaid.
        advance_ns: u64,
        /// When the budget will have been enough for all of it, ns from now; 0: at once.
        wait_ns: u64,
    },
    /// All memory should follow, but that would go over the budget now.
    Short {
        /// Part of its accesses that still go to nodes it left.
        old_share: f64,
        /// What it has spent, ns.
        spent_ns: u64,
        /// What it would take, ns.
        cost_ns: u64,
        /// What that rests on.
        #[serde(default)]
        cost: MemoryCost,
        /// What it may spend, ns.
        allowed_ns: u64,
    },
    /// Enough of it is where it is needed. What is still used at nodes left follows, and threads may move again.
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
            single: Vec::new(),
            memory: Vec::new(),
            search: Search::default(),
            following: Vec::new(),
            kept: Vec::new(),
            gains: Vec::new(),
        }
    }

    /// Whether it is of the stage `together`: threads and memory move as they are ordered, each by itself.
    pub(crate) fn is_of_together(&self) -> bool {
        matches!(
            self.decision,
            Decision::Together { .. }
                | Decision::Tiers
                | Decision::TakenBack
                | Decision::ThreadsBack
        )
    }

    /// Whether anything moves by it.
    pub(crate) fn changes(&self) -> bool {
        !self.moves.is_empty() || !self.single.is_empty() || !self.memory.is_empty()
    }

    /// Whether anything of a process moves by it.
    pub(crate) fn changes_process(&self, process: ProcessKey) -> bool {
        self.moves.iter().any(|step| step.process == process)
            || self.memory.iter().any(|step| step.process == process)
            || (self.single.iter()).any(|step| step.thread.process_id == process.process_id)
    }

    /// The window as it would be if threads and all their memory were where the plan says, and accesses followed both.
    /// Its number and its time stay.
    pub fn obeyed(&self, machine: &Machine, window: &AccessWindow) -> AccessWindow {
        let mut obeyed = window.clone();
        if self.is_of_together() {
            for process in &mut obeyed.processes {
                self.gather(machine, process);
            }
            return obeyed;
        }
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

impl PlacementPlan {
    /// Threads of a process go where the plan says, and of its memory what was ordered.
    fn gather(&self, machine: &Machine, facts: &mut ProcessAccesses) {
        let process = facts.process;
        let mut nodes: Vec<NodeAccesses> = Vec::new();
        for each in &facts.nodes {
            let mut moves = self.moves.iter();
            let step = moves.find(|step| step.process == process && step.from == each.node);
            let Some(to) = step.map(|step| step.to).filter(|_| each.threads > 0) else {
                add(&mut nodes, each.clone());
                continue;
            };
            // Its memory stays.
            let stays = NodeAccesses {
                threads: 0,
                pinned: false,
                accesses_s: vec![0.0; each.accesses_s.len()],
                ..each.clone()
            };
            let goes = NodeAccesses {
                node: to,
                resident_bytes: 0,
                ..each.clone()
            };
            add(&mut nodes, stays);
            add(&mut nodes, goes);
        }
        facts.nodes = nodes;
        let single = self.single.iter();
        for step in single.filter(|step| step.thread.process_id == process.process_id) {
            send_one(facts, step.from, step.to);
        }
        let copies = self.memory.iter().filter(|step| step.process == process);
        for step in copies {
            if let MemoryAction::Gather { copies, .. } = &step.action {
                copies.iter().for_each(|copy| carry(machine, facts, copy));
            }
        }
    }
}

/// One thread of a node goes to another, with its part of the accesses.
fn send_one(facts: &mut ProcessAccesses, from: NodeId, to: NodeId) {
    let Some(source) = (facts.nodes.iter_mut()).find(|each| each.node == from && each.threads > 0)
    else {
        return;
    };
    let part = 1.0 / f64::from(source.threads);
    source.threads -= 1;
    let goes = source.accesses_s.iter().map(|rate| rate * part);
    let goes = NodeAccesses {
        node: to,
        threads: 1,
        pinned: source.pinned,
        accesses_s: goes.collect(),
        resident_bytes: 0,
    };
    source
        .accesses_s
        .iter_mut()
        .for_each(|rate| *rate *= 1.0 - part);
    add(&mut facts.nodes, goes);
}

/// Adds what is on a node to what was there.
fn add(nodes: &mut Vec<NodeAccesses>, each: NodeAccesses) {
    let Some(there) = nodes.iter_mut().find(|there| there.node == each.node) else {
        nodes.push(each);
        return;
    };
    there.threads = there.threads.saturating_add(each.threads);
    there.pinned |= each.pinned;
    there.resident_bytes = there.resident_bytes.saturating_add(each.resident_bytes);
    let length = there.accesses_s.len().max(each.accesses_s.len());
    there.accesses_s.resize(length, 0.0);
    let both = there.accesses_s.iter_mut().zip(&each.accesses_s);
    both.for_each(|(there, rate)| *there += rate);
}

/// Memory goes from one node to another, and accesses go after it in proportion.
fn carry(machine: &Machine, facts: &mut ProcessAccesses, copy: &(NodeId, NodeId, u64)) {
    let (from, to, bytes) = *copy;
    let ends = machine.index_of(from).zip(machine.index_of(to));
    let (Some(source), Some((here, there))) =
        (facts.nodes.iter_mut().find(|each| each.node == from), ends)
    else {
        return;
    };
    let bytes = bytes.min(source.resident_bytes);
    let part = bytes as f64 / source.resident_bytes.max(1) as f64;
    source.resident_bytes -= bytes;
    for each in &mut facts.nodes {
        each.accesses_s.resize(machine.nodes.len(), 0.0);
        let goes = each.accesses_s[here] * part;
        each.accesses_s[here] -= goes;
        each.accesses_s[there] += goes;
    }
    add(
        &mut facts.nodes,
        NodeAccesses {
            node: to,
            threads: 0,
            pinned: false,
            accesses_s: Vec::new(),
            resident_bytes: bytes,
        },
    );
}
