//! What placement rests on: the machine file, links, groups of nodes, weights, and others that move memory.

use egeria_machine::resctrl::BandwidthUnit;
use egeria_machine::{CALIBRATED, Group, GroupSource, NodeId, format_cpu_list};

use crate::facts::Facts;
use crate::verdict::{State, Verdict, limited, works};

fn has_one_node(facts: &Facts) -> bool {
    facts.machine.nodes.len() < 2
}

fn one_node() -> Verdict {
    let because = "this machine has one node: nothing is near or far";
    (State::Absent, because.to_owned(), None)
}

fn calibrate() -> String {
    format!("egeria machine calibrate --output {CALIBRATED}")
}

/// Whether bandwidths and latencies are known.
pub(crate) fn machine_file(facts: &Facts) -> Verdict {
    let firmware = facts
        .machine
        .nodes
        .iter()
        .all(|node| node.bandwidth.is_some());
    match &facts.described {
        _ if has_one_node(facts) => one_node(),
        Some(Err(why)) => limited(why.clone(), calibrate()),
        Some(Ok(machine)) if facts.known() != machine => limited(
            format!("{CALIBRATED} describes other nodes, and is not used"),
            calibrate(),
        ),
        Some(Ok(_)) => works(format!("{CALIBRATED} says what memories give")),
        None if firmware => {
            works("firmware says what memories give (HMAT); a measured file is better")
        }
        None => (
            State::Works,
            "none: distances say which memory is near, and what memories give is not known"
                .to_owned(),
            Some(calibrate()),
        ),
    }
}

/// What is known of the ways between nodes.
pub(crate) fn links(facts: &Facts) -> Verdict {
    let links = facts.known().interconnect.links.len();
    match facts.machine.nodes.len() {
        0 | 1 => one_node(),
        _ if links > 0 => works(format!("{links} declared in {CALIBRATED}")),
        2 => works("two nodes: distances are enough, as there is one way"),
        _ => (
            State::Works,
            "only distances are known: enough to bring threads and memory together, not to choose between far places".to_owned(),
            Some(format!("add [[links]] to {CALIBRATED} (docs/reference/machine-file.md), for `asymsched`")),
        ),
    }
}

/// Which nodes are near each other.
pub(crate) fn groups(facts: &Facts) -> Verdict {
    if has_one_node(facts) {
        return one_node();
    }
    let machine = facts.known();
    let groups = machine.list_groups();
    let from = match machine.groups().source {
        GroupSource::Sockets => "sockets",
        GroupSource::Distances => "distances",
    };
    if groups.len() == machine.nodes.len() {
        return works(format!("each node is a group of its own, by {from}"));
    }
    let nodes = |group: &Group| {
        // Node numbers borrow the CPU list's format.
        let ids: Vec<_> = group
            .nodes
            .iter()
            .map(|id| egeria_machine::CpuId(id.0))
            .collect();
        format_cpu_list(&ids)
    };
    let nodes: Vec<String> = groups.iter().map(nodes).collect();
    works(format!(
        "near each other are nodes {}, by {from}",
        nodes.join("; ")
    ))
}

fn list(weights: &[(NodeId, u8)]) -> String {
    let each = weights
        .iter()
        .map(|(node, weight)| format!("{}: {weight}", node.0));
    each.collect::<Vec<_>>().join(", ")
}

/// The kernel's weights, and those of bandwidths.
pub(crate) fn weights(facts: &Facts) -> Verdict {
    if has_one_node(facts) {
        return one_node();
    }
    let known = facts.known().weights();
    let wanted = known.as_deref().map(list);
    match (&facts.weights, &wanted) {
        (None, None) => (
            State::Absent,
            "the kernel has no weights (Linux 6.9), and what memories give is not known: --spread takes nodes in turn".to_owned(),
            Some(calibrate()),
        ),
        (None, Some(wanted)) => works(format!(
            "--spread takes nodes by bandwidth ({wanted}); the kernel has no weights (Linux 6.9)"
        )),
        (Some(kernel), None) => (
            State::Works,
            format!("the kernel's are {}; what memories give is not known", list(&kernel.nodes)),
            Some(calibrate()),
        ),
        (Some(kernel), Some(wanted)) if list(&kernel.nodes) == *wanted => {
            works(format!("the kernel's are as bandwidths: {wanted}"))
        }
        (Some(kernel), Some(wanted)) => (
            State::Works,
            format!("the kernel's are {}, bandwidths say {wanted}", list(&kernel.nodes)),
            Some("egeria weights set".to_owned()),
        ),
    }
}

/// Whether programs that do not ask for admission can be bounded (MBA).
pub(crate) fn allocation(facts: &Facts) -> Verdict {
    let allocation = match &facts.allocation {
        Ok(allocation) => allocation,
        Err(why) => {
            let fix = why.fix().map(str::to_owned);
            return (State::Absent, why.to_string(), fix);
        }
    };
    let unit = match allocation.unit {
        BandwidthUnit::Percent => "%",
        BandwidthUnit::MebibytesPerSecond => "MiB/s",
        BandwidthUnit::EighthsOfGigabytes => "eighths of GB/s",
    };
    let scope = if allocation.is_per_thread {
        ""
    } else {
        "; threads that share a core have the smaller bound"
    };
    works(format!(
        "{} caches, {} groups, steps of {} {unit}{scope}; a steward uses it only if asked to, and it was never run on hardware with MBA",
        allocation.domains.len(),
        allocation.groups,
        allocation.step
    ))
}

/// Whether the kernel moves memory and threads as well.
pub(crate) fn balancing(facts: &Facts) -> Verdict {
    match facts.numa_balancing {
        _ if has_one_node(facts) => one_node(),
        None => works("the kernel has none"),
        Some(0) => works("off: only Egeria moves memory"),
        Some(mode) => works(format!(
            "kernel.numa_balancing is {mode}: what only the kernel sees, which threads use which memory, is left to it"
        )),
    }
}

/// Whether numad binds processes as well.
pub(crate) fn numad(facts: &Facts) -> Verdict {
    match facts.numad {
        _ if has_one_node(facts) => one_node(),
        None => works("numad does not run"),
        Some(process) => limited(
            format!(
                "numad runs (process {process}): it binds processes to nodes, which a steward then leaves where they are bound"
            ),
            "systemctl stop numad",
        ),
    }
}
