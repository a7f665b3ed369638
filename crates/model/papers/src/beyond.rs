//! Beyond the papers: what none of them has, in the model.

use serde::Serialize;

use crate::experiment::beyond::{LIMITED, MACHINES, MIXES, NODES};
use crate::results::Results;

/// One question, answered for each of the compared systems.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Beyond {
    /// What is compared, with its unit.
    pub what: &'static str,
    pub group: String,
    /// Each system and its figure.
    pub figures: Vec<(&'static str, f64)>,
}

const COPY: &str = "a copy in DRAM with 14 threads at persistent memory, bytes/s";
const PERSISTENT: &str = "those 14 threads, bytes/s";
const HOT: &str = "32 readers, all data on one node, operations/s";

/// All of them, as far as their experiments were run.
pub(crate) fn beyond(results: &Results) -> Vec<Beyond> {
    let groups = || {
        let of = |(_, words): (&str, &str)| MIXES.map(|(_, mix)| format!("{words}, {mix}"));
        MACHINES.into_iter().flat_map(of)
    };
    let row = |what, figure: &str, group: String, systems: &[&'static str]| {
        let bar = |system: &&'static str| Some((*system, results.bar(figure, &group, system)?));
        let figures: Option<Vec<_>> = systems.iter().map(bar).collect();
        figures.map(|figures| Beyond {
            what,
            group: group.clone(),
            figures,
        })
    };
    let copies = groups().map(|group| row(COPY, "beyond: copy", group, &LIMITED));
    let moved = groups().map(|group| row(PERSISTENT, "beyond: persistent memory", group, &LIMITED));
    let hot = NODES.map(|(_, words)| {
        let systems = ["off", "full", "all"];
        row(HOT, "beyond: hot data", words.to_owned(), &systems)
    });
    copies.chain(moved).chain(hot).flatten().collect()
}
