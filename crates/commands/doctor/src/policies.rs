//! What each policy can do on a machine.

use egeria_policy::planner::System;
use serde::Serialize;

use crate::facts::Facts;
use crate::probes::{Probes, Sampling};
use crate::verdict::State;

/// A policy, and what it can do here.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Its name for `--policy`.
    pub name: &'static str,
    /// Whether it can do all, a part or nothing of what it does.
    pub state: State,
    pub because: String,
    /// What lets it do more.
    pub fix: Option<String>,
}

/// Something that a policy does, and why it cannot do it here.
struct Part {
    does: &'static str,
    not: Option<(&'static str, Option<String>)>,
}

/// All policies, in the order of the registry.
pub fn of(facts: &Facts, probes: &Probes) -> Vec<Policy> {
    let policy = |system: System| describe(system.name(), parts(system, facts, probes));
    System::ALL.into_iter().map(policy).collect()
}

fn describe(name: &'static str, parts: Vec<Part>) -> Policy {
    let (able, unable): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| part.not.is_none());
    let state = match (able.is_empty(), unable.is_empty()) {
        (_, true) => State::Works,
        (false, false) => State::Limited,
        (true, false) => State::Absent,
    };
    let does: Vec<&str> = able.iter().map(|part| part.does).collect();
    let mut said = Vec::new();
    if !does.is_empty() {
        said.push(format!("does: {}", does.join(", ")));
    }
    for part in &unable {
        let why = part.not.as_ref().map_or("", |(why, _)| why);
        said.push(format!("cannot: {} ({why})", part.does));
    }
    if said.is_empty() {
        said.push("observes only".to_owned());
    }
    let mut fixes = unable.into_iter().filter_map(|part| part.not?.1);
    Policy {
        name,
        state,
        because: said.join("; "),
        fix: fixes.next(),
    }
}

fn parts(system: System, facts: &Facts, probes: &Probes) -> Vec<Part> {
    let settings = system.settings();
    let stages = &settings.stages;
    let mut parts = Vec::new();
    let mut add = |is_on: bool, does, not| {
        if is_on {
            parts.push(Part { does, not });
        }
    };
    let threads = no_threads(facts, probes);
    add(
        settings.moves_threads(),
        "threads to their files",
        threads.clone(),
    );
    add(
        stages.together,
        "memory to its threads",
        no_memory(facts, probes),
    );
    add(
        stages.clusters,
        "clusters of threads and memory",
        threads.or_else(|| no_clusters(facts)),
    );
    add(
        stages.relocation,
        "hot files to their readers",
        one_node(facts),
    );
    add(
        stages.limits,
        "limits at persistent memory",
        no_persistent_memory(facts),
    );
    add(
        stages.delegation,
        "delegated accesses",
        one_node(facts).or_else(|| no_persistent_memory(facts)),
    );
    parts
}

type Obstacle = Option<(&'static str, Option<String>)>;

fn one_node(facts: &Facts) -> Obstacle {
    let is_one = facts.machine.nodes.len() < 2;
    is_one.then_some(("this machine has one node", None))
}

fn no_threads(facts: &Facts, probes: &Probes) -> Obstacle {
    if facts.cpu_nodes().len() < 2 {
        return Some(("CPUs are on one node", None));
    }
    if probes.affinity.is_err() {
        return Some(("a sandbox forbids sched_setaffinity", None));
    }
    let fix = "widen the cpuset or affinity of the steward, as the row thread placement says";
    let is_confined = facts.usable_nodes().len() < 2;
    is_confined.then(|| {
        (
            "this process may use CPUs of one node only",
            Some(fix.to_owned()),
        )
    })
}

fn no_memory(facts: &Facts, probes: &Probes) -> Obstacle {
    let with_memory = facts.machine.nodes.iter();
    if with_memory.filter(|node| node.memory_bytes > 0).count() < 2 {
        return Some(("memory is on one node", None));
    }
    if probes.page_nodes.is_err() {
        let fix = "see the row memory placement";
        return Some(("pages cannot be moved", Some(fix.to_owned())));
    }
    let is_blind = probes.pmu != Sampling::Works
        && probes.accesses.is_err()
        && probes.page_faults != Sampling::Works;
    let fix = "see the row memory accesses";
    is_blind.then(|| ("accesses cannot be seen", Some(fix.to_owned())))
}

fn no_clusters(facts: &Facts) -> Obstacle {
    let machine = facts.known();
    if machine.nodes.len() < 3 {
        return Some(("there are only two nodes, so no other place", None));
    }
    let has_none = machine.interconnect.links.is_empty();
    let fix = format!("add [[links]] to {}", egeria_machine::CALIBRATED);
    has_none.then_some(("no links are declared", Some(fix)))
}

fn no_persistent_memory(facts: &Facts) -> Obstacle {
    let machine = facts.known();
    let mut nodes = machine.nodes.iter();
    let is_there = nodes.any(|node| machine.has_bounded_medium(node));
    (!is_there).then_some(("there is no persistent memory", None))
}
