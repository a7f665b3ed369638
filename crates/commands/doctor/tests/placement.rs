//! What is said of what placement rests on, and of what each policy can do.

mod common;

use common::{FILE, Machine, machine_file, root};
use egeria_doctor::policies::{self, Policy};
use egeria_doctor::{Probes, Sampling, State};

fn policy(machine: &Machine, probes: &Probes, name: &str) -> Policy {
    let mut all = policies::of(&machine.facts(), probes).into_iter();
    all.find(|policy| policy.name == name).unwrap()
}

#[track_caller]
fn can(machine: &Machine, probes: &Probes, name: &str, state: State, words: &[&str]) {
    let policy = policy(machine, probes, name);
    assert_eq!(policy.state, state, "{policy:?}");
    let said = format!("{} {}", policy.because, policy.fix.unwrap_or_default());
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said:?}");
    }
}

/// A third node, with two CPUs.
fn with_a_third_node(machine: &Machine) {
    machine.file("sys/devices/system/cpu/online", "0-5\n");
    let directory = "sys/devices/system/node/node2";
    machine.file(&format!("{directory}/cpulist"), "4-5\n");
    machine.file(
        &format!("{directory}/meminfo"),
        "Node 2 MemTotal: 16777216 kB\n",
    );
    for (node, row) in ["10 12 21", "12 10 21", "21 21 10"].iter().enumerate() {
        machine.file(&format!("sys/devices/system/node/node{node}/distance"), row);
    }
    machine.status("000001ffffffffff", "0-5", "0-2");
}

#[test]
fn two_nodes_without_a_machine_file_are_an_ordinary_case() {
    let machine = Machine::new();
    let calibrate = [
        "none",
        "egeria machine calibrate --output /etc/egeria/machine.toml",
    ];
    machine.says(&root(), "machine_file", State::Works, &calibrate);
    machine.says(
        &root(),
        "links",
        State::Works,
        &["two nodes", "distances are enough"],
    );
    machine.says(&root(), "node_groups", State::Works, &["its own"]);
    can(&machine, &root(), "off", State::Works, &["observes"]);
    can(
        &machine,
        &root(),
        "full",
        State::Works,
        &["threads to their files"],
    );
    let all = [
        "memory to its threads",
        "only two nodes",
        "no persistent memory",
    ];
    can(&machine, &root(), "all", State::Limited, &all);
    // Links would not help.
    assert_eq!(policy(&machine, &root(), "asymsched").fix, None);
    can(
        &machine,
        &root(),
        "asymsched",
        State::Absent,
        &["only two nodes"],
    );
    can(
        &machine,
        &root(),
        "pats",
        State::Absent,
        &["no persistent memory"],
    );
}

#[test]
fn links_are_asked_for_where_they_would_help() {
    let machine = Machine::new();
    with_a_third_node(&machine);
    machine.says(
        &root(),
        "links",
        State::Works,
        &["only distances", "[[links]]"],
    );
    machine.says(
        &root(),
        "node_groups",
        State::Works,
        &["nodes 0-1; 2", "distances"],
    );
    can(
        &machine,
        &root(),
        "asymsched",
        State::Absent,
        &["add [[links]] to /etc/egeria"],
    );
    let link = |from: u32, to: u32| {
        format!("[[links]]\nfrom = {from}\nto = {to}\nbytes_s = 1e9\nback_bytes_s = 1e9\n")
    };
    let links = link(0, 1) + &link(1, 2);
    machine.file(FILE, &machine_file(&[10.0, 10.0, 10.0], &links));
    machine.says(&root(), "links", State::Works, &["2 declared"]);
    can(&machine, &root(), "asymsched", State::Works, &["clusters"]);
}

#[test]
fn a_machine_file_that_cannot_be_used_is_named() {
    let machine = Machine::new();
    machine.file(FILE, "name = 3\n");
    machine.says(
        &root(),
        "machine_file",
        State::Limited,
        &["machine.toml", "calibrate"],
    );
    machine.file(FILE, &machine_file(&[10.0], ""));
    machine.says(&root(), "machine_file", State::Limited, &["other nodes"]);
    machine.file(FILE, &machine_file(&[10.0, 10.0], ""));
    machine.says(
        &root(),
        "machine_file",
        State::Works,
        &["says what memories give"],
    );
}

#[test]
fn weights_of_the_kernel_are_compared_with_bandwidths() {
    let machine = Machine::new();
    let name = "interleave_weights";
    machine.says(&root(), name, State::Absent, &["Linux 6.9", "calibrate"]);
    machine.file(FILE, &machine_file(&[60.0, 20.0], ""));
    machine.says(&root(), name, State::Works, &["0: 3, 1: 1", "Linux 6.9"]);
    for node in 0..2 {
        let path = format!("sys/kernel/mm/mempolicy/weighted_interleave/node{node}");
        machine.file(&path, "1\n");
    }
    let words = ["0: 1, 1: 1", "0: 3, 1: 1", "egeria weights set"];
    machine.says(&root(), name, State::Works, &words);
    machine.file("sys/kernel/mm/mempolicy/weighted_interleave/node0", "3\n");
    machine.says(&root(), name, State::Works, &["as bandwidths"]);
}

#[test]
fn others_that_move_memory_are_named() {
    let machine = Machine::new();
    machine.says(&root(), "numa_balancing", State::Works, &["off"]);
    machine.says(&root(), "numad", State::Works, &["does not run"]);
    machine.file("proc/sys/kernel/numa_balancing", "1\n");
    let words = ["is 1", "left to it"];
    machine.says(&root(), "numa_balancing", State::Works, &words);
    machine.file("proc/77/comm", "numad\n");
    machine.file("proc/78/comm", "numadx\n");
    machine.says(
        &root(),
        "numad",
        State::Limited,
        &["77", "systemctl stop numad"],
    );
}

#[test]
fn policies_say_what_is_missing() {
    let machine = Machine::new();
    let sandboxed = Probes {
        affinity: Err(libc::EPERM),
        page_nodes: Err(libc::EPERM),
        ..root()
    };
    can(
        &machine,
        &sandboxed,
        "full",
        State::Absent,
        &["sched_setaffinity"],
    );
    can(
        &machine,
        &sandboxed,
        "all",
        State::Limited,
        &["pages cannot be moved", "memory placement"],
    );
    let blind = Probes {
        pmu: Sampling::Absent,
        page_faults: Sampling::NotAllowed,
        accesses: Err(libc::EPERM),
        ..root()
    };
    can(
        &machine,
        &blind,
        "all",
        State::Limited,
        &["accesses cannot be seen", "memory accesses"],
    );
    machine.status("000001ffffffffff", "0-1", "0-1");
    can(
        &machine,
        &root(),
        "rl",
        State::Absent,
        &["one node only", "cpuset"],
    );
}

#[test]
fn one_node_needs_nothing() {
    let machine = Machine::new();
    std::fs::remove_dir_all(machine.0.path().join("sys/devices/system/node/node1")).unwrap();
    machine.file("sys/devices/system/node/node0/distance", "10\n");
    for name in [
        "machine_file",
        "links",
        "node_groups",
        "interleave_weights",
        "numad",
    ] {
        machine.says(&root(), name, State::Absent, &["one node"]);
    }
    for policy in policies::of(&machine.facts(), &root()) {
        let wanted = if policy.name == "off" {
            State::Works
        } else {
            State::Absent
        };
        assert_eq!((policy.state, &policy.fix), (wanted, &None), "{policy:?}");
    }
}

#[test]
fn bandwidth_allocation_says_what_it_can_or_what_lacks() {
    let machine = Machine::new();
    std::fs::remove_dir_all(machine.0.path().join("sys/fs/resctrl")).unwrap();
    let says = |state, words: &[&str]| machine.says(&root(), "bandwidth_allocation", state, words);
    says(State::Absent, &["no resctrl"]);
    machine.file("sys/fs/resctrl/.keep", "");
    says(State::Absent, &["not mounted", "mount -t resctrl"]);
    machine.file("sys/fs/resctrl/schemata", "    L3:0=7ff\n");
    says(State::Absent, &["no bandwidth allocation"]);
    let machine = Machine::new();
    machine.says(
        &root(),
        "bandwidth_allocation",
        State::Works,
        &["2 caches, 8 groups, steps of 10 %", "share a core"],
    );
}
