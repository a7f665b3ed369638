//! Placements on AsymSched's machines: every set of nodes, static and as AsymSched leaves them.

use egeria_machine::{Machine, NodeId};
use egeria_policy::planner::System;
use egeria_sim::{Options, Workload};

use super::stage::{Stage, profile};
use crate::error::Result;
use crate::results::Results;

const PROGRAM: &str = include_str!("../../workloads/asymsched.toml");
/// Threads of a program on each of its nodes (§5.1: as many as a node has cores).
const THREADS_PER_NODE: u64 = 8;
/// Cache lines that a thread keeps on their way, as the profile assumes.
const LINES_IN_FLIGHT: f64 = 8.0;
const LINE_BYTES: f64 = 64.0;
/// An Opteron 6272 (AMD's data), cycles/s.
const CYCLES_S: f64 = 2.1e9;
/// How long AsymSched is given until what it reached counts, and how long that is counted, s.
const SETTLES_S: f64 = 20.0;
const COUNTED_S: f64 = 4.0;
/// Of the sets, each seventh is a start of AsymSched and of memory alone.
const EVERY: usize = 7;
const MEMORY_ALONE: &str = "memory alone";

/// Where a program's data lies, and so which of the two programs it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// Spread over its nodes: facerec's.
    Spread,
    /// On the first of them, its master's: streamcluster's.
    Master,
}

/// A program on these nodes, bound to them or not.
pub(super) fn program(
    stage: &Stage,
    nodes: &[usize],
    data: Data,
    pinned: bool,
) -> Result<Workload> {
    let mut workload = stage.steady(PROGRAM, "asymsched.toml")?;
    let ids: Vec<NodeId> = nodes.iter().map(|node| NodeId(*node as u16)).collect();
    workload.files[0].nodes = match data {
        Data::Spread => ids.clone(),
        Data::Master => ids[..1].to_vec(),
    };
    let group = &mut workload.threads[0];
    group.count = THREADS_PER_NODE * nodes.len() as u64;
    group.start_nodes = ids;
    group.lockstep = data == Data::Master;
    group.pinned = pinned;
    Ok(workload)
}

/// Bytes/s of a program that stays on these nodes.
pub(super) fn stays(stage: &Stage, machine: &Machine, nodes: &[usize], data: Data) -> Result<f64> {
    let workload = program(stage, nodes, data, true)?;
    let outcome = stage.outcome(machine, &workload, &Options::published(System::Off))?;
    Ok(outcome.bytes_s)
}

/// All sets of `size` of the first `nodes` nodes, ascending.
pub(crate) fn sets(nodes: usize, size: usize) -> Vec<Vec<usize>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    let with_last = |last: usize| {
        let smaller = sets(last, size - 1).into_iter();
        smaller.map(move |mut set| {
            set.push(last);
            set
        })
    };
    (size - 1..nodes).flat_map(with_last).collect()
}

/// Fig. 2 and 3: facerec's like on three of eight nodes. All 336 ordered sets are 56 here, for it does not matter
/// which thread is which.
pub(super) fn three_nodes(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = profile("bulldozer-8n")?;
    let mut all = Vec::new();
    for nodes in sets(8, 3) {
        all.push((stays(stage, &machine, &nodes, Data::Spread)?, nodes));
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let count = all.len() as f64;
    let mean = all.iter().map(|(bytes_s, _)| bytes_s).sum::<f64>() / count;
    let (worst, best) = (&all[0], &all[all.len() - 1]);
    for (bar, bytes_s) in [("worst", worst.0), ("mean", mean), ("best", best.0)] {
        results.set("A2", "facerec", bar, bytes_s);
    }
    // Little's law: what a line takes with this number on their way.
    let threads = 3.0 * THREADS_PER_NODE as f64;
    let cycles = |bytes_s: f64| LINES_IN_FLIGHT * LINE_BYTES * threads / bytes_s * CYCLES_S;
    let all_cycles = all.iter().map(|(bytes_s, _)| cycles(*bytes_s));
    let mean_cycles = all_cycles.sum::<f64>() / count;
    for (bar, value) in [
        ("worst", cycles(worst.0)),
        ("mean", mean_cycles),
        ("best", cycles(best.0)),
    ] {
        results.set("A3", "facerec", bar, value);
    }
    let ranked = all.iter().enumerate();
    let points = ranked.map(|(rank, (bytes_s, _))| (rank as f64 + 1.0, bytes_s / mean));
    results.set_curve("A2", "facerec", points.collect());
    let worst = worst.1.clone();
    let ranked: Vec<Vec<usize>> = all.into_iter().map(|(_, nodes)| nodes).collect();
    managed(stage, &machine, &worst, &ranked, results)
}

/// Fig. 4: what AsymSched makes of the worst set, and memory alone of all.
fn managed(
    stage: &Stage,
    machine: &Machine,
    worst: &[usize],
    ranked: &[Vec<usize>],
    results: &mut Results,
) -> Result<()> {
    let run = |nodes: &[usize], options: &Options| {
        let workload = settled(program(stage, nodes, Data::Spread, false)?);
        Ok(stage.outcome(machine, &workload, options)?.bytes_s)
    };
    let asymsched = run(worst, &Options::published(System::Asymsched))?;
    results.set("A2", "facerec", "asymsched", asymsched);
    // From the middle of each seventh of the sets by speed.
    let starts = || ranked.iter().skip(EVERY / 2).step_by(EVERY);
    for (bar, options) in both() {
        let speeds = starts().map(|nodes| run(nodes, &options));
        let (mean, deviation) = spread(&speeds.collect::<Result<Vec<f64>>>()?);
        if bar == MEMORY_ALONE {
            results.set("A2", "facerec", bar, mean);
        }
        results.set("A2", "facerec", &format!("deviation of {bar}"), deviation);
    }
    Ok(())
}

/// AsymSched, and its dynamic memory migration without that of threads.
pub(super) fn both() -> [(&'static str, Options); 2] {
    let asymsched = Options::published(System::Asymsched);
    let mut memory_alone = asymsched.clone();
    memory_alone.planner.asymsched.threads = false;
    [("asymsched", asymsched), (MEMORY_ALONE, memory_alone)]
}

/// The mean of speeds, and their standard deviation as a share of it.
pub(super) fn spread(speeds: &[f64]) -> (f64, f64) {
    let count = speeds.len() as f64;
    let mean = speeds.iter().sum::<f64>() / count;
    let squares = speeds.iter().map(|speed| (speed - mean).powi(2));
    (mean, (squares.sum::<f64>() / count).sqrt() / mean)
}

/// The workload, long enough that AsymSched has settled.
pub(super) fn settled(mut workload: Workload) -> Workload {
    workload.warm_up_seconds = SETTLES_S;
    workload.seconds = SETTLES_S + COUNTED_S;
    workload
}

/// Tables 1 and 3: streamcluster on two nodes of machines A to D.
pub(super) fn two_nodes(stage: &Stage, results: &mut Results) -> Result<()> {
    for (group, name) in [
        ("A", "bulldozer-8n"),
        ("B", "bulldozer-b"),
        ("C", "bulldozer-c"),
        ("D", "bulldozer-d"),
    ] {
        let machine = profile(name)?;
        let mut pairs = Vec::new();
        for pair in sets(machine.nodes.len(), 2) {
            for nodes in [[pair[0], pair[1]], [pair[1], pair[0]]] {
                pairs.push((stays(stage, &machine, &nodes, Data::Master)?, nodes));
            }
        }
        let speeds = || pairs.iter().map(|(bytes_s, _)| *bytes_s);
        results.set("A t3", group, "best", speeds().fold(0.0, f64::max));
        results.set(
            "A t3",
            group,
            "worst",
            speeds().fold(f64::INFINITY, f64::min),
        );
        if group == "A" {
            hops(&machine, &pairs, results);
        }
    }
    five_nodes(stage, results)
}

/// The fastest pair that is two links apart in some direction, and the slowest that is one apart both ways.
fn hops(machine: &Machine, pairs: &[(f64, [usize; 2])], results: &mut Results) {
    let Ok(Some(paths)) = machine.paths() else {
        return;
    };
    let most = |[one, other]: [usize; 2]| {
        let (there, back) = (paths.way(one, other).len(), paths.way(other, one).len());
        there.max(back)
    };
    let near = pairs.iter().filter(|(_, pair)| most(*pair) == 1);
    let far = pairs.iter().filter(|(_, pair)| most(*pair) > 1);
    let slowest = near.map(|pair| pair.0).fold(f64::INFINITY, f64::min);
    let fastest = far.map(|pair| pair.0).fold(0.0, f64::max);
    results.set("A t1", "pairs", "slowest of one hop", slowest);
    results.set("A t1", "pairs", "fastest of two hops", fastest);
}

/// Table 2: streamcluster on two sets of five nodes, its master on the best of each.
fn five_nodes(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = profile("bulldozer-8n")?;
    for (bar, set) in [
        ("streamcluster's", [2, 3, 4, 5, 6]),
        ("SPECjbb's", [0, 1, 3, 4, 7]),
    ] {
        let mut best: f64 = 0.0;
        for master in 0..set.len() {
            let mut nodes = set;
            nodes.swap(0, master);
            best = best.max(stays(stage, &machine, &nodes, Data::Master)?);
        }
        results.set("A t2", "streamcluster", bar, best);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::sets;

    #[test]
    fn sets_are_all_there_once_and_ascending() {
        let all = sets(8, 3);
        assert_eq!(all.len(), 56);
        assert!(all.iter().all(|set| set.is_sorted() && set.len() == 3));
        let mut unique = all.clone();
        unique.dedup();
        assert_eq!(unique.len(), 56);
        assert_eq!(sets(4, 4), [[0, 1, 2, 3]]);
    }
}
