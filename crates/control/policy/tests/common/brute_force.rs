//! The best placement by trying all, with nothing left out of any.

use egeria_facts::AccessWindow;
use egeria_machine::fair::{Flow, max_min_shares};
use egeria_machine::{Machine, NodeId, Paths};
use egeria_policy::asymsched::{PlacementPlan, Settings};

/// `P_wbw` of the one there is, the highest, and of the one to take with its `P_mm`.
#[derive(Debug)]
pub struct Best {
    pub now: f64,
    pub best: f64,
    pub chosen: f64,
    pub bytes: u64,
}

/// One cluster of the reference: its nodes and weight.
struct Members {
    nodes: Vec<usize>,
    weight: f64,
}

/// `P_wbw` where node `n` is at `at[n]`: all flows of all clusters, all lanes, nothing left out.
fn weighted_bandwidth(paths: &Paths, clusters: &[Members], at: &[usize]) -> f64 {
    let (mut flows, mut worth) = (Vec::new(), Vec::new());
    for cluster in clusters {
        for from in &cluster.nodes {
            for to in cluster.nodes.iter().filter(|to| *to != from) {
                let lanes = paths.way(at[*from], at[*to]).iter();
                let uses = lanes.map(|lane| (*lane, 1.0)).collect();
                flows.push(Flow {
                    uses,
                    most: f64::INFINITY,
                    weight: 1.0,
                });
                worth.push(cluster.weight);
            }
        }
    }
    let capacities: Vec<f64> = paths.lanes.iter().map(|lane| lane.bytes_s).collect();
    let rates = max_min_shares(&capacities, &flows);
    rates
        .iter()
        .zip(worth)
        .map(|(rate, worth)| rate * worth)
        .sum()
}

/// Tries every permutation of the nodes.
pub fn brute_force(
    machine: &Machine,
    window: &AccessWindow,
    plan: &PlacementPlan,
    settings: &Settings,
) -> Best {
    let paths = machine.paths().expect("good links").expect("links");
    let position = |node: &NodeId| machine.index_of(*node).expect("a node of the machine");
    let members = |cluster: &egeria_policy::asymsched::Cluster| Members {
        nodes: cluster.nodes.iter().map(position).collect(),
        weight: cluster.remote_accesses_s.ln_1p(),
    };
    let clusters: Vec<Members> = plan.clusters.iter().map(members).collect();
    let along = |node: usize| -> u64 {
        let entries = window.processes.iter().flat_map(|facts| &facts.nodes);
        let there = entries.filter(|each| position(&each.node) == node && each.threads > 0);
        there.map(|each| each.resident_bytes).sum()
    };
    let along: Vec<u64> = (0..machine.nodes.len()).map(along).collect();
    let mut tried: Vec<(f64, u64)> = Vec::new();
    permutations(machine.nodes.len(), &mut |at| {
        let moved = (0..at.len()).filter(|node| at[*node] != *node);
        let bytes = moved.map(|node| along[node]).sum();
        tried.push((weighted_bandwidth(&paths, &clusters, at), bytes));
    });
    let now = tried[0].0;
    let best = tried.iter().map(|(wbw, _)| *wbw).fold(0.0, f64::max);
    let least = settings.filter * best * (1.0 - 1e-9);
    let passing = || tried.iter().filter(|(wbw, _)| *wbw >= least);
    let bytes = passing()
        .map(|(_, bytes)| *bytes)
        .min()
        .expect("the best passes");
    let cheapest = passing().filter(|(_, each)| *each == bytes);
    let chosen = if now >= least {
        now
    } else {
        cheapest.map(|(wbw, _)| *wbw).fold(0.0, f64::max)
    };
    Best {
        now,
        best,
        chosen,
        bytes,
    }
}

/// Every permutation, the identity first.
fn permutations(count: usize, see: &mut dyn FnMut(&[usize])) {
    fn place(at: &mut Vec<usize>, count: usize, see: &mut dyn FnMut(&[usize])) {
        if at.len() == count {
            return see(at);
        }
        for node in 0..count {
            if !at.contains(&node) {
                at.push(node);
                place(at, count, see);
                at.pop();
            }
        }
    }
    place(&mut Vec::with_capacity(count), count, see);
}
