//! AsymSched compared with the best static placement: a program with its data on one node, and three programs at once.

use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_sim::{Options, Workload};

use super::asymsched::{Data, both, program, sets, settled, spread, stays};
use super::stage::{Extent, Stage, profile};
use crate::error::Result;
use crate::results::Results;

const NODES: usize = 8;

/// Fig. 4: streamcluster on three nodes. Static placements differ in the nodes and in which is the master's;
/// AsymSched begins at the worst.
pub(super) fn streamcluster(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = profile("bulldozer-8n")?;
    let (mut worst, mut best) = ((f64::INFINITY, Vec::new()), 0.0f64);
    for set in sets(NODES, 3) {
        for master in 0..set.len() {
            let mut nodes = set.clone();
            nodes.swap(0, master);
            let bytes_s = stays(stage, &machine, &nodes, Data::Master)?;
            best = best.max(bytes_s);
            if bytes_s < worst.0 {
                worst = (bytes_s, nodes);
            }
        }
    }
    let workload = settled(program(stage, &worst.1, Data::Master, false)?);
    let managed = stage.outcome(&machine, &workload, &Options::published(System::Asymsched))?;
    let bars = [
        ("worst", worst.0),
        ("best", best),
        ("asymsched", managed.bytes_s),
    ];
    for (bar, bytes_s) in bars {
        results.set("A4", "streamcluster", bar, bytes_s);
    }
    Ok(())
}

/// Each way of this number is a start of AsymSched and of memory alone.
const EVERY: usize = 28;

/// Fig. 6: three programs on three, three and two nodes, all 560 ways; AsymSched begins at the worst, and to see how
/// its speed varies, at some of them. Each program is as facerec is assumed to be.
pub(super) fn three_programs(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = profile("bulldozer-8n")?;
    let every = match stage.extent {
        Extent::Full => 1,
        Extent::Brief => 16,
    };
    let (mut worst, mut best) = ((f64::INFINITY, Vec::new()), 0.0f64);
    // The two programs on three nodes are alike: either may be the first.
    let unlike = || ways().into_iter().filter(|ways| ways[0] < ways[1]);
    for ways in unlike().step_by(every) {
        let workload = together(stage, &ways, true)?;
        let bytes_s = run(stage, &machine, &workload, &Options::published(System::Off))?;
        best = best.max(bytes_s);
        if bytes_s < worst.0 {
            worst = (bytes_s, ways);
        }
    }
    let managed = |ways: &[Vec<usize>], options: &Options| {
        let workload = settled(together(stage, ways, false)?);
        run(stage, &machine, &workload, options)
    };
    for (system, options) in both() {
        let starts = unlike().step_by(EVERY);
        let speeds = starts.map(|ways| managed(&ways, &options));
        let (_, deviation) = spread(&speeds.collect::<Result<Vec<f64>>>()?);
        let bar = format!("deviation of {system}");
        results.set("A6", "3 + 3 + 2 nodes", &bar, deviation);
    }
    let managed = managed(&worst.1, &Options::published(System::Asymsched))?;
    for (bar, bytes_s) in [("worst", worst.0), ("best", best), ("asymsched", managed)] {
        results.set("A6", "3 + 3 + 2 nodes", bar, bytes_s);
    }
    Ok(())
}

/// All ways to give three programs three, three and two of the nodes.
pub(crate) fn ways() -> Vec<Vec<Vec<usize>>> {
    let without =
        |used: &[usize]| -> Vec<usize> { (0..NODES).filter(|node| !used.contains(node)).collect() };
    let mut ways = Vec::new();
    for first in sets(NODES, 3) {
        let left = without(&first);
        for second in sets(left.len(), 3) {
            let second: Vec<usize> = second.into_iter().map(|at| left[at]).collect();
            let third = left.iter().copied().filter(|node| !second.contains(node));
            ways.push(vec![first.clone(), second.clone(), third.collect()]);
        }
    }
    ways
}

/// A program on each of these sets, each with data of its own.
fn together(stage: &Stage, ways: &[Vec<usize>], pinned: bool) -> Result<Workload> {
    let mut all = program(stage, &ways[0], Data::Spread, pinned)?;
    for (index, nodes) in ways.iter().enumerate().skip(1) {
        let mut one = program(stage, nodes, Data::Spread, pinned)?;
        one.files[0].name = format!("data {index}");
        one.threads[0].name = format!("program {index}");
        one.threads[0].files.clone_from(&one.files[0].name);
        all.threads.append(&mut one.threads);
    }
    Ok(all)
}

/// The mean of the programs' speeds, bytes/s of a thread.
fn run(stage: &Stage, machine: &Machine, workload: &Workload, options: &Options) -> Result<f64> {
    let outcome = stage.outcome(machine, workload, options)?;
    let speeds = outcome
        .groups
        .iter()
        .map(|group| group.bytes_s / group.threads as f64);
    Ok(speeds.sum::<f64>() / outcome.groups.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::ways;

    #[test]
    fn there_are_560_ways_and_each_uses_every_node_once() {
        let all = ways();
        assert_eq!(all.len(), 560);
        for way in &all {
            let mut nodes: Vec<usize> = way.concat();
            nodes.sort_unstable();
            assert_eq!(nodes, (0..8).collect::<Vec<_>>());
        }
    }
}
