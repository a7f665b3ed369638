//! AsymSched: threads and their memory go where the links between their nodes carry most
//! (Lepers, Quéma, Fedorova: *Thread and Memory Placement on NUMA Systems: Asymmetry Matters*).
//!
//! One plan, in this order:
//!
//! ```text
//!   1. memory that follows an earlier move: has it, or must all of it at once?    memory.rs
//!   2. clusters: threads of a process that share data, by nodes    §4.2 Step 1    clusters.rs
//!   3. placements: which nodes each group of nodes could have      Step 2         groups.rs
//!      what clusters would get of the links there, and at most                    traffic.rs, bound.rs
//!   4. those with 90 % of the best weighted bandwidth; of them
//!      the one that moves the least memory                         Step 3         search.rs
//!   5. no move takes a process over its budget                     Step 4         budget.rs
//! ```
//!
//! What is decided here and the paper leaves open:
//!
//! * *Traffic.* A cluster sends data between every two of its nodes, both ways, each as much as it gets: threads of a
//!   cluster are taken to access all of its memory (§4.2 a, b). A read moves data from the memory's node to the CPU's
//!   and a write the other way, so each ordered pair is one flow over its own way. `C_bw(P)` is the sum of its
//!   flows' max-min fair shares with the flows of all clusters at once.
//! * *Threads of two processes on one node* move together: placements are permutations of nodes (Step 2).
//! * *Nodes of unlike cores* are not exchanged, nor is a node left whose threads must stay.
//! * *While memory follows a move* its process is not moved again, and a full migration that its budget does
//!   not have waits: so what is spent never exceeds the budget, as far as the cost is right.
//!
//! Known gaps, as in the paper: memory on nodes without threads of its process does not count as a place of the
//! cluster, and neither what controllers can give nor how large memories are bounds a placement.

mod bound;
mod budget;
mod clusters;
mod cost;
mod display;
mod following;
mod groups;
mod memory;
mod plan;
mod search;
mod settings;
mod tier_move;
mod traffic;

use egeria_facts::{AccessWindow, ProcessKey};
use egeria_machine::{Machine, NodeId};

pub use cost::{MAX_DYNAMIC_BYTES, MemoryCost};
pub use following::Following;
pub use plan::{Cluster, Decision, MemoryAction, MemoryStep, NodeMove, PlacementPlan, Search};
pub use settings::Settings;
pub use tier_move::{LoadSource, TierMove};

use budget::Account;
use clusters::{Scene, positions};
use search::{Chosen, Found};

/// AsymSched's plan for one window.
///
/// Pure: the same input gives the same plan, and the order of processes and nodes does not matter. A window from
/// outside should be [validated](AccessWindow::validate) first. An invalid one still gives a plan, which ignores the
/// invalid parts.
pub fn plan(machine: &Machine, window: &AccessWindow, settings: &Settings) -> PlacementPlan {
    beside(machine, window, settings, &[], &[])
}

/// The plan for a window after an earlier one: it continues with memory that follows a move ordered in `previous`.
pub fn plan_after(
    machine: &Machine,
    window: &AccessWindow,
    settings: &Settings,
    previous: &PlacementPlan,
) -> PlacementPlan {
    beside(machine, window, settings, &previous.following, &[])
}

/// The plan as a part of a larger decision: no thread goes to or leaves the nodes in `taken`.
pub(crate) fn beside(
    machine: &Machine,
    window: &AccessWindow,
    settings: &Settings,
    following: &[(ProcessKey, Following)],
    taken: &[NodeId],
) -> PlacementPlan {
    let mut scene = Scene::new(machine, window, settings, following);
    scene.fix(taken);
    let (memory, following) = memory::follow(&scene, window.end_ns, settings);
    let mut plan = PlacementPlan {
        window: window.number,
        clusters: clusters(&scene),
        decision: Decision::NothingSpans,
        moves: Vec::new(),
        single: Vec::new(),
        memory,
        search: Search::default(),
        following,
        kept: Vec::new(),
        gains: Vec::new(),
    };
    if !settings.threads {
        plan.decision = Decision::ThreadsOff;
        dynamic_alone(&scene, settings, &mut plan);
    } else if machine.nodes.len() < 2 {
        plan.decision = Decision::OneNode;
    } else if machine.interconnect.links.is_empty() {
        plan.decision = Decision::NoLinks;
    } else if scene
        .clusters
        .iter()
        .all(|cluster| cluster.nodes.count_ones() < 2)
    {
        plan.decision = Decision::NothingSpans;
    } else {
        plan.decision = place(&scene, window.end_ns, settings, &mut plan);
    }
    plan.memory.sort_by_key(|step| step.process);
    plan.following.sort_by_key(|(process, _)| *process);
    plan
}

/// The clusters as found, without their shares.
fn clusters(scene: &Scene<'_>) -> Vec<Cluster> {
    let ids = |set| {
        positions(set)
            .map(|node| scene.machine.nodes[node].id)
            .collect()
    };
    let cluster = |members: &clusters::Members| Cluster {
        process: scene.key(members.process),
        nodes: ids(members.nodes),
        remote_accesses_s: members.remote_accesses_s,
        weight: members.weight,
        bandwidth_bytes_s: 0.0,
        expected_bytes_s: 0.0,
    };
    scene.clusters.iter().map(cluster).collect()
}

/// Dynamic memory placement without that of threads (the paper's comparison, §5).
fn dynamic_alone(scene: &Scene<'_>, settings: &Settings, plan: &mut PlacementPlan) {
    let mut last = None;
    let remote = scene
        .clusters
        .iter()
        .filter(|cluster| cluster.remote_accesses_s > 0.0);
    for process in remote.map(|cluster| scene.key(cluster.process)) {
        if settings.dynamic_memory && last.replace(process) != Some(process) {
            plan.memory.push(MemoryStep {
                process,
                action: MemoryAction::Dynamic,
            });
        }
    }
}

/// Steps 2 to 4.
fn place(
    scene: &Scene<'_>,
    end_ns: u64,
    settings: &Settings,
    plan: &mut PlacementPlan,
) -> Decision {
    let paths = match scene.machine.paths() {
        Ok(Some(paths)) => paths,
        Ok(None) => return Decision::NoLinks,
        Err(error) => {
            return Decision::LinksUnusable {
                problem: error.to_string(),
            };
        }
    };
    let found = search::find(&paths, scene, settings);
    plan.search = found.search;
    for (cluster, bytes_s) in plan.clusters.iter_mut().zip(&found.now_bytes_s) {
        (cluster.bandwidth_bytes_s, cluster.expected_bytes_s) = (*bytes_s, *bytes_s);
    }
    let Found {
        now_wbw, best_wbw, ..
    } = found;
    let Some(chosen) = found.chosen else {
        return Decision::Stay { now_wbw, best_wbw };
    };
    let moves = moves(scene, &chosen);
    if let Some(refusal) = refusal(scene, &moves, settings, (now_wbw, chosen.wbw), plan) {
        return refusal;
    }
    for (cluster, bytes_s) in plan.clusters.iter_mut().zip(&chosen.bytes_s) {
        cluster.expected_bytes_s = *bytes_s;
    }
    set_off(&moves, end_ns, settings, plan);
    plan.moves = moves;
    let (chosen_wbw, bytes, cost) = (chosen.wbw, chosen.bytes, scene.cost);
    Decision::Move {
        now_wbw,
        chosen_wbw,
        best_wbw,
        bytes,
        cost,
    }
}

/// The threads of each process on each node that moves.
fn moves(scene: &Scene<'_>, chosen: &Chosen) -> Vec<NodeMove> {
    let id = |node: usize| scene.machine.nodes[node].id;
    let mut moves = Vec::new();
    for process in &scene.processes {
        for (node, each) in process.with_threads() {
            let to = chosen.node_moves.iter().find(|(from, _)| *from == node);
            moves.extend(to.map(|(from, to)| NodeMove {
                process: process.facts.process,
                threads: each.threads,
                from: id(*from),
                to: id(*to),
                resident_bytes: each.resident_bytes,
            }));
        }
    }
    moves
}

/// Step 4: the reason why no thread moves, if some process may not pay.
fn refusal(
    scene: &Scene<'_>,
    moves: &[NodeMove],
    settings: &Settings,
    (now_wbw, chosen_wbw): (f64, f64),
    plan: &PlacementPlan,
) -> Option<Decision> {
    for facts in scene.processes.iter().map(|process| process.facts) {
        let process = facts.process;
        let own = moves.iter().filter(|step| step.process == process);
        let bytes = own
            .clone()
            .fold(0u64, |sum, step| sum.saturating_add(step.resident_bytes));
        if own.count() == 0 {
            continue;
        }
        let is_on_its_way = plan.following.iter().any(|(other, _)| *other == process)
            || plan.memory.iter().any(|step| {
                step.process == process && matches!(step.action, MemoryAction::Full { .. })
            });
        if is_on_its_way {
            return Some(Decision::StillFollowing { process });
        }
        let account = Account::of(facts, bytes, (settings.budget, scene.cost));
        if !account.is_affordable() {
            let Account {
                spent_ns,
                cost_ns,
                allowed_ns,
                cost,
            } = account;
            return Some(Decision::OverBudget {
                process,
                spent_ns,
                cost_ns,
                cost,
                allowed_ns,
                now_wbw,
                chosen_wbw,
            });
        }
    }
    None
}

/// Memory begins to follow threads that move.
fn set_off(moves: &[NodeMove], end_ns: u64, settings: &Settings, plan: &mut PlacementPlan) {
    for of_process in moves.chunk_by(|one, other| one.process == other.process) {
        let process = of_process[0].process;
        let pairs: Vec<(NodeId, NodeId)> =
            of_process.iter().map(|step| (step.from, step.to)).collect();
        let following = Following {
            since_ns: end_ns,
            pairs,
        };
        plan.following.push((process, following));
        if settings.dynamic_memory {
            plan.memory.push(MemoryStep {
                process,
                action: MemoryAction::Dynamic,
            });
        }
    }
}
