//! The rules around the equations: who may move, where to, and what is known of a node.

use crate::common;

use common::{all_cpus, key, machine, thread, window};
use egeria_facts::{Facts, MemoryTraffic, ThreadFacts, TrafficOrigin, Window};
use egeria_machine::curves::Crowd;
use egeria_machine::{
    AccessClass, Machine, MemoryKind, NodeId, PersistentRegion, PoolBandwidth, RegionKind,
};
use egeria_policy::nthread::{Configuration, Settings, plan};
use egeria_policy::planner::{Planner, System};
use egeria_policy::{KeptBecause, Note, Plan};

const MB: u64 = 1_000_000;

fn full(machine: &Machine, window: &Window) -> Plan {
    plan(machine, window, &Settings::default())
}

/// A thread on node 1 that reads 500 MB/s from node 0.
fn remote_reader(machine: &Machine) -> ThreadFacts {
    thread(machine, 1, 1, &[500 * MB], 0, 0.2)
}

fn kept(plan: &Plan, number: u32) -> &KeptBecause {
    assert!(plan.moves.is_empty(), "{:?}", plan.moves);
    &plan.kept(key(number)).expect("it says why").because
}

/// Real nodes with so much bandwidth each, as firmware says.
fn real(nodes: usize, bandwidth: Option<(f64, f64)>) -> Machine {
    let mut machine = machine(nodes);
    machine.emulated = None;
    for node in &mut machine.nodes {
        node.hardware = Default::default();
        node.bandwidth = bandwidth.map(|(read_bytes_s, write_bytes_s)| AccessClass {
            read_bytes_s,
            write_bytes_s,
            read_latency_ns: 100.0,
            write_latency_ns: 100.0,
            initiators: Vec::new(),
        });
    }
    machine
}

fn nvdimm() -> PersistentRegion {
    PersistentRegion {
        name: "region0".to_owned(),
        kind: RegionKind::Nvdimm,
        bytes: 1 << 37,
        persistence_domain: None,
        align_bytes: None,
    }
}

#[test]
fn a_pinned_thread_stays() {
    let machine = machine(2);
    let mut facts = remote_reader(&machine);
    facts.pinned = true;
    let plan = full(&machine, &window(&machine, vec![facts]));
    assert_eq!(kept(&plan, 1), &KeptBecause::Pinned);
    assert_eq!(plan.kept[0].wanted, Some(NodeId(0)));
}

#[test]
fn a_thread_whose_cpus_exclude_the_target_stays() {
    let machine = machine(2);
    let mut facts = remote_reader(&machine);
    facts.allowed_cpus = "4-7".parse().expect("a list");
    let plan = full(&machine, &window(&machine, vec![facts.clone()]));
    assert_eq!(kept(&plan, 1), &KeptBecause::CpusExclude);
    facts.allowed_cpus = "3-7".parse().expect("a list");
    let plan = full(&machine, &window(&machine, vec![facts]));
    assert_eq!(plan.moves.len(), 1, "one CPU there is enough");
}

#[test]
fn a_memory_only_node_is_no_target() {
    let mut machine = real(2, None);
    machine.nodes[0].cpus.clear();
    let plan = full(&machine, &window(&machine, vec![remote_reader(&machine)]));
    assert_eq!(kept(&plan, 1), &KeptBecause::NoCpus);
}

#[test]
fn contention_avoids_nodes_without_cpus_or_pool() {
    let mut machine = real(4, Some((6.8e9, 1.85e9)));
    machine.nodes[1].cpus.clear();
    let facts = |number| thread(&machine, number, 0, &[], 500 * MB, 0.2);
    let mut window = window(&machine, (1..=4).map(facts).collect());
    window.nodes[2].has_pool = false;
    let plan = full(&machine, &window);
    assert!(!plan.moves.is_empty());
    for step in &plan.moves {
        assert_eq!(step.to, NodeId(3), "{step}");
    }
}

#[test]
fn an_emulated_node_without_cpus_of_its_own_takes_any_thread() {
    let mut machine = machine(2);
    let facts = ThreadFacts {
        allowed_cpus: all_cpus(&machine),
        ..remote_reader(&machine)
    };
    for node in &mut machine.nodes {
        node.cpus.clear();
    }
    let plan = full(&machine, &window(&machine, vec![facts]));
    assert_eq!(plan.moves.len(), 1);
}

#[test]
fn a_thread_with_little_io_is_left_alone_but_counts() {
    let machine = machine(2);
    let mut threads: Vec<_> = (1..=4)
        .map(|number| thread(&machine, number, 0, &[], 2 * MB, 1.0))
        .collect();
    threads.push(thread(&machine, 5, 0, &[], MB - 1, 1.0));
    let plan = full(&machine, &window(&machine, threads));
    assert_eq!(plan.quiet_threads, 1);
    assert_eq!(
        plan.cpu_contended,
        Some(NodeId(0)),
        "five threads on four cores"
    );
    assert!(plan.moves.iter().all(|step| step.thread != key(5)));
}

#[test]
fn threads_with_a_core_each_do_not_contend() {
    let machine = machine(2);
    let facts = |number, busy| thread(&machine, number, 0, &[], 2 * MB, busy);
    let mut threads: Vec<_> = (1..=4).map(|number| facts(number, 1.0)).collect();
    threads.push(facts(5, 0.001));
    let mut window = window(&machine, threads);
    assert_eq!(
        full(&machine, &window).cpu_contended,
        None,
        "the fifth hardly runs"
    );
    // The kernel accounts a little late, and a shell runs beside.
    window.nodes[0].busy_ns = 4_300_000_000;
    assert_eq!(full(&machine, &window).cpu_contended, None, "nobody waits");
    window.nodes[0].busy_ns = 5_000_000_000;
    assert_eq!(full(&machine, &window).measured[0].cpu_share, 1.25);
    assert_eq!(
        full(&machine, &window).cpu_contended,
        Some(NodeId(0)),
        "others run there too"
    );
}

#[test]
fn what_others_do_on_a_node_stays_there() {
    let machine = machine(2);
    let mut window = window(
        &machine,
        vec![thread(&machine, 1, 0, &[300 * MB], 500 * MB, 0.5)],
    );
    window.nodes[0].read_bytes = 900 * MB;
    window.nodes[0].written_bytes = 1900 * MB;
    let plan = full(&machine, &window);
    assert_eq!(plan.measured[0].pm_bytes_s, 2200e6);
    assert_eq!(plan.moves.len(), 1, "the thread makes room for the others");
    assert_eq!(plan.expected[0].written_bytes_s, 1400e6);
    window.nodes[0].written_bytes = 1;
    let measured = full(&machine, &window).measured[0];
    assert_eq!(
        measured.written_bytes_s, 500e6,
        "a device that counts less is not believed"
    );
}

#[test]
fn of_equal_nodes_the_nearest_takes_a_thread_then_the_first() {
    let mut machine = machine(4);
    let facts = |number| thread(&machine, number, 0, &[], 475 * MB, 0.2);
    let window = window(&machine, (1..=4).map(facts).collect());
    assert_eq!(full(&machine, &window).moves[0].to, NodeId(1));
    machine.distances[0] = vec![10, 31, 31, 21];
    assert_eq!(full(&machine, &window).moves[0].to, NodeId(3));
}

#[test]
fn the_least_loaded_node_takes_a_thread() {
    let machine = machine(3);
    let mut threads: Vec<_> = (1..=4)
        .map(|number| thread(&machine, number, 0, &[], 475 * MB, 0.2))
        .collect();
    threads.push(thread(&machine, 5, 1, &[], 10 * MB, 0.2));
    let plan = full(&machine, &window(&machine, threads));
    assert_eq!(plan.moves[0].to, NodeId(2));
}

#[test]
fn a_thread_already_elsewhere_stays_there() {
    let machine = machine(2);
    let facts = |number, node, written_mb| {
        thread(&machine, number, node, &[900 * MB], written_mb * MB, 0.2)
    };
    // The threads on node 0 have the higher write ratio, but the one on node 1 need not move.
    let threads = vec![facts(1, 0, 300), facts(2, 0, 300), facts(3, 1, 250)];
    let plan = full(&machine, &window(&machine, threads));
    assert_eq!(plan.pm_contended, None, "900 + 850 MB/s is not too much");
    let threads = vec![facts(1, 0, 400), facts(2, 0, 400), facts(3, 1, 250)];
    let plan = full(&machine, &window(&machine, threads));
    assert_eq!(plan.pm_contended, Some(NodeId(0)));
    assert!(matches!(kept(&plan, 3), KeptBecause::HomeContended { .. }));
    assert_eq!(plan.displaced.len(), 1);
}

#[test]
fn firmware_states_the_speed_of_dram_but_not_of_nvdimms() {
    let maximum = |machine: &Machine, settings: &Settings| {
        let plan = plan(machine, &Window::empty(machine, 0, 0, 1), settings);
        (plan.measured[0].pm_maximum_bytes_s, plan.notes.len())
    };
    let mut settings = Settings::default();
    let mut machine = real(2, Some((90e9, 60e9)));
    assert_eq!(maximum(&machine, &settings), (Some(60e9), 0));
    machine.nodes[0].persistent_regions = vec![nvdimm(), nvdimm()];
    assert_eq!(maximum(&machine, &settings), (None, 1));
    let crowd = Crowd {
        threads: 1,
        read_bytes_s: 30e9,
        write_bytes_s: 9e9,
        mixed_bytes_s: 15e9,
    };
    machine.nodes[0].pool_bandwidth = PoolBandwidth::of(&[crowd]);
    assert_eq!(maximum(&machine, &settings), (Some(10e9), 0), "measured");
    machine.nodes[0].pool_bandwidth = None;
    settings
        .set_pair("dimm_read_bytes_s=6.8e9")
        .expect("in range");
    settings
        .set_pair("dimm_write_bytes_s=1.85e9")
        .expect("in range");
    let (maximum_bytes_s, notes) = maximum(&machine, &settings);
    assert!((maximum_bytes_s.expect("set") - 2.0 * 6.8e9 / 3.0).abs() < 1.0);
    assert_eq!(notes, 0);
    settings.set_pair("dimms=6").expect("in range");
    let (maximum_bytes_s, _) = maximum(&machine, &settings);
    assert!((maximum_bytes_s.expect("set") - 6.0 * 6.8e9 / 3.0).abs() < 1.0);
}

#[test]
fn without_a_maximum_the_stage_is_off_and_the_plan_says_so() {
    let machine = real(2, None);
    let facts = |number| thread(&machine, number, 0, &[], 1900 * MB, 0.2);
    let window = window(&machine, vec![facts(1), facts(2)]);
    let plan = full(&machine, &window);
    assert!(plan.moves.is_empty() && plan.pm_contended.is_none());
    let notes: Vec<_> = machine.nodes.iter().map(|node| node.id).collect();
    let expected = notes
        .into_iter()
        .map(|node| Note::PmMaximumUnknown { node });
    assert_eq!(plan.notes, expected.collect::<Vec<_>>());
    assert!(
        plan.notes[0]
            .to_string()
            .contains("run `egeria machine calibrate --pool")
    );
    let rl = egeria_policy::nthread::plan(&machine, &window, &Settings::of(Configuration::Rl));
    assert!(rl.notes.is_empty(), "nobody asked");
}

#[test]
fn a_thread_that_reads_here_and_there_says_that_no_node_leads() {
    let machine = machine(2);
    let facts = thread(&machine, 1, 1, &[500 * MB, 400 * MB], 0, 0.2);
    let plan = full(&machine, &window(&machine, vec![facts]));
    assert!(matches!(
        kept(&plan, 1),
        KeptBecause::NoLead {
            best: NodeId(0),
            ..
        }
    ));
    assert!(plan.targets.is_empty());
}

#[test]
fn a_thread_on_an_unknown_node_is_left_alone_and_noted() {
    let machine = machine(2);
    let mut window = window(&machine, vec![remote_reader(&machine)]);
    window.threads[0].node = NodeId(9);
    let plan = full(&machine, &window);
    assert!(plan.moves.is_empty());
    assert!(matches!(
        plan.notes[..],
        [Note::ThreadNowhere {
            node: NodeId(9),
            ..
        }]
    ));
}

#[test]
fn one_node_is_never_contended() {
    let machine = machine(1);
    let facts = |number| thread(&machine, number, 0, &[2000 * MB], 900 * MB, 0.5);
    let plan = full(&machine, &window(&machine, (1..=8).map(facts).collect()));
    assert_eq!((plan.pm_contended, plan.cpu_contended), (None, None));
    assert!(plan.moves.is_empty());
}

/// Eight writers that get what a crowded medium gives look idle by its peak.
#[test]
fn a_measured_pool_is_saturated_beyond_its_peak() {
    let crowd = |threads: u32, write_bytes_s: f64| Crowd {
        threads,
        read_bytes_s: 3.0 * write_bytes_s,
        write_bytes_s,
        mixed_bytes_s: 1.5 * write_bytes_s,
    };
    let crowds = [(1, 0.5e9), (2, 1e9), (4, 2e9), (8, 1e9)];
    let mut machine = real(2, None);
    for node in &mut machine.nodes {
        node.persistent_regions = vec![nvdimm()];
        node.pool_bandwidth =
            PoolBandwidth::of(&crowds.map(|(threads, rate)| crowd(threads, rate)));
    }
    let writer = |number| thread(&machine, number, 0, &[], 120 * MB, 0.1);
    let window = window(&machine, (1..=8).map(writer).collect());
    let contended = |rule: &str| {
        let mut settings = Settings::default();
        settings
            .set_pair(&format!("pm_rule={rule}"))
            .expect("a rule");
        plan(&machine, &window, &settings).pm_contended
    };
    assert_eq!(contended("peak"), None);
    assert_eq!(contended("curve"), Some(NodeId(0)));
}

/// A program outside the volume fills the memory: its traffic is only in the counters of the hardware.
#[test]
fn neighbours_that_hardware_counts_contend() {
    let mut machine = real(2, None);
    for node in &mut machine.nodes {
        node.persistent_regions = vec![nvdimm()];
        node.pool_bandwidth = PoolBandwidth::of(&[Crowd {
            threads: 1,
            read_bytes_s: 6e9,
            write_bytes_s: 2e9,
            mixed_bytes_s: 3e9,
        }]);
    }
    let writer = thread(&machine, 1, 0, &[], 100 * MB, 0.1);
    let contended = |kind: MemoryKind, written_bytes_s: f64| {
        let mut facts = Facts::of(window(&machine, vec![writer.clone()]));
        facts.memories = vec![MemoryTraffic {
            node: NodeId(0),
            kind,
            read_bytes_s: 0.0,
            written_bytes_s,
            origin: TrafficOrigin::MemoryController,
        }];
        facts.validate(&machine).expect("rates");
        let decision = Planner::new(&machine, System::Nm.settings()).decide(&machine, &facts);
        decision.threads.pm_contended
    };
    assert_eq!(contended(MemoryKind::Persistent, 1.9e9), Some(NodeId(0)));
    assert_eq!(
        contended(MemoryKind::Persistent, 0.05e9),
        None,
        "less than its threads"
    );
    assert_eq!(
        contended(MemoryKind::Dram, 1.9e9),
        None,
        "of another memory"
    );
}
