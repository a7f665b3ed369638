//! The planner's rules one by one: whose a thread is, where displaced threads go, limits and delegates together.

use crate::clusters;
use crate::common;

use clusters::{GB, process};
use common::{SECOND_NS, key, ring, thread, window};
use egeria_facts::ProcessAccesses;
use egeria_facts::{Facts, FileFacts, MediumFacts};
use egeria_facts::{FileKey, FileUse, ThreadFacts};
use egeria_facts::{Measured, Mix};
use egeria_machine::{Machine, NodeId};
use egeria_policy::asymsched::{self};
use egeria_policy::nthread::{self, Configuration};
use egeria_policy::planner::{
    Decision, DelegatedBecause, DelegationPlan, DirectBecause, Planner, Settings, System,
};
use egeria_policy::{KeptBecause, Reason};

const MB: u64 = 1_000_000;

fn decide(machine: &Machine, facts: &Facts, system: System) -> Decision {
    Planner::new(machine, system.settings()).decide(machine, facts)
}

/// Thread `number` of process `number`, so that processes are told apart.
fn own_process(mut facts: ThreadFacts) -> ThreadFacts {
    facts.key.process_id = facts.key.thread_id;
    facts
}

/// A process whose memory wants a wider link, and the same process's threads with so much file I/O; nodes 0-1 are joined
/// by 1 GB/s, 2-3 by 10.
fn both(machine: &Machine, read_mb: u64) -> Facts {
    let on = |number: u32, node: usize| {
        let mut facts = thread(machine, number, node, &[0, 0, 0, read_mb * MB], 0, 0.2);
        facts.key.process_id = 1;
        facts
    };
    let mut facts = Facts::of(window(machine, vec![on(1, 0), on(2, 1)]));
    facts.accesses.end_ns = GB;
    facts.accesses.processes = vec![process(machine, 1, &[0, 1], 1e7)];
    facts
}

#[test]
fn a_process_is_moved_by_what_it_moves_more_of() {
    let machine = ring(&[1e9, 1e8, 10e9, 1e8]);
    // 4 x 1e7 accesses/s x 64 B are 2.56 GB/s.
    for (read_mb, is_memory) in [(0, true), (1000, true), (1500, false)] {
        let decision = decide(&machine, &both(&machine, read_mb), System::All);
        let (alone, together) = (decision.threads.moves, decision.placement.moves);
        assert_eq!(
            together.len(),
            if is_memory { 2 } else { 0 },
            "{read_mb} MB/s"
        );
        assert_eq!(alone.len(), if is_memory { 0 } else { 2 }, "{read_mb} MB/s");
    }
    let asymsched = decide(&machine, &both(&machine, 1500), System::Asymsched);
    assert_eq!(
        asymsched.placement.moves.len(),
        2,
        "alone it has all processes"
    );
}

#[test]
fn a_process_stays_what_it_is_until_the_other_is_twice_as_much() {
    let machine = ring(&[1e9, 1e8, 10e9, 1e8]);
    let mut planner = Planner::new(&machine, System::All.settings());
    let mut is_memory = |read_mb: u64| {
        let decision = planner.decide(&machine, &both(&machine, read_mb));
        decision.threads.moves.is_empty()
    };
    // Twice 2.56 GB/s on two threads.
    assert!(is_memory(1000));
    assert!(is_memory(2500));
    assert!(!is_memory(2600));
    assert!(!is_memory(700), "1.4 GB/s are more than half");
    assert!(is_memory(600));
}

#[test]
fn who_moves_with_a_process_counts_where_it_will_be() {
    let machine = ring(&[1e9, 1e8, 10e9, 1e8]);
    let mut facts = both(&machine, 0);
    for thread in &mut facts.window.threads {
        thread.busy_ns = SECOND_NS;
    }
    let decision = decide(&machine, &facts, System::All);
    let threads = |loads: &[egeria_policy::NodeLoad]| -> Vec<u32> {
        loads.iter().map(|load| load.threads).collect()
    };
    assert_eq!(threads(&decision.threads.measured), [1, 1, 0, 0]);
    assert_eq!(threads(&decision.threads.expected), [0, 0, 1, 1]);
}

#[test]
fn clusters_do_not_take_nodes_that_file_users_keep_busy() {
    let machine = ring(&[1e9, 1e8, 10e9, 1e8]);
    let with_busy = |busy: f64| {
        let mut facts = both(&machine, 0);
        // Three of the four cores of node 2 read their own node's files.
        let local = |number| own_process(thread(&machine, number, 2, &[0, 0, 300 * MB], 0, busy));
        facts.window.threads.extend((11..=13).map(local));
        decide(&machine, &facts, System::All).placement
    };
    assert_eq!(with_busy(0.5).moves.len(), 2);
    let placement = with_busy(1.0);
    assert!(placement.moves.is_empty(), "{}", placement.decision);
}

#[test]
fn bound_threads_hold_their_process_where_it_is() {
    let machine = ring(&[1e9, 1e8, 10e9, 1e8]);
    let mut facts = both(&machine, 0);
    facts.window.threads[0].pinned = true;
    assert!(
        decide(&machine, &facts, System::All)
            .placement
            .moves
            .is_empty()
    );
    let mut facts = both(&machine, 0);
    facts.window.threads[1].allowed_cpus = "0-11".parse().expect("a list");
    assert!(
        decide(&machine, &facts, System::All)
            .placement
            .moves
            .is_empty()
    );
}

/// Four writers on node 0 that read there as well; one must go.
fn crowded(machine: &Machine) -> Facts {
    let writer = |number| thread(machine, number, 0, &[400 * MB], 450 * MB, 0.2);
    let mut threads: Vec<_> = (1..=4).map(writer).collect();
    // Node 1 is the least loaded; node 3 has a little.
    threads.push(thread(machine, 9, 3, &[0, 0, 0, 300 * MB], 10 * MB, 0.2));
    Facts::of(window(machine, threads))
}

#[test]
fn displaced_threads_go_along_the_widest_links() {
    let machine = ring(&[1e9, 1e9, 1e9, 8e9]);
    let facts = crowded(&machine);
    let first = |system: System| decide(&machine, &facts, system).threads.moves[0].clone();
    let (paper, ours) = (first(System::Full), first(System::All));
    assert_eq!(paper.to, NodeId(1));
    assert_eq!(ours.to, NodeId(3));
    let Reason::PmContention {
        path_bandwidth_bytes_s,
        ..
    } = ours.reason
    else {
        panic!("{ours}")
    };
    assert_eq!(path_bandwidth_bytes_s, Some(8e9));
    assert!(
        ours.to_string()
            .ends_with("the path from its data carries 8.00 GB/s"),
        "{ours}"
    );
    let mut settings = System::All.settings();
    settings.stages.bandwidth = false;
    let off = Planner::new(&machine, settings).decide(&machine, &facts);
    assert_eq!(off.threads.moves[0].to, NodeId(1));
}

#[test]
fn of_equal_links_the_least_loaded_target_wins() {
    let to = |to_1: f64, to_3: f64| {
        let machine = ring(&[to_1, 1e9, 1e9, to_3]);
        let decision = decide(&machine, &crowded(&machine), System::All);
        decision.threads.moves[0].to
    };
    assert_eq!(to(7.9e9, 8e9), NodeId(1));
    assert_eq!(to(6e9, 8e9), NodeId(3));
}

#[test]
fn a_wide_way_that_others_use_is_narrow() {
    let machine = ring(&[4e9, 1e9, 1e9, 8e9]);
    let mut facts = crowded(&machine);
    // Somebody's memory: from node 0 to node 3, 7 GB/s of the 8.
    let mut other: ProcessAccesses = process(&machine, 7, &[3], 0.0);
    other.nodes[0].accesses_s[0] = 7e9 / 64.0;
    facts.accesses.processes = vec![other];
    let decision = decide(&machine, &facts, System::All);
    let to = decision.threads.moves[0].to;
    assert_eq!(
        to,
        NodeId(1),
        "4 GB/s, where an even part of 8 is 4 and node 1 is less loaded"
    );
}

#[test]
fn moves_beyond_the_budget_are_not_made_and_say_so() {
    let machine = common::machine(2);
    let reader = |number| thread(&machine, number, 1, &[500 * MB], 0, 0.2);
    let facts = Facts::of(window(&machine, (1..=4).map(reader).collect()));
    let with = |thread_move_ns: u64| {
        let mut settings = System::All.settings();
        settings.budget.thread_move_ns = thread_move_ns;
        let mut planner = Planner::new(&machine, settings);
        let threads = planner.decide(&machine, &facts).threads;
        let balance = planner.budget().expect("all has a budget");
        assert_eq!(balance.allowed_ns, 50_000_000);
        (threads, balance.spent_ns)
    };
    // All four of four threads for 50 ms are 5 % of the second they have run.
    let (moved, spent_ns) = with(50_000_000);
    assert_eq!((moved.moves.len(), spent_ns), (4, 50_000_000));
    let (refused, spent_ns) = with(50_000_001);
    assert_eq!(spent_ns, 0);
    assert!(refused.moves.is_empty());
    assert_eq!(refused.kept.len(), 4);
    let kept = refused.kept(key(1)).expect("a thread of the window");
    assert!(matches!(kept.because, KeptBecause::OverBudget { .. }));
    assert!(kept.to_string().contains("50.0 ms are allowed"), "{kept}");
}

/// A process whose memory (2 GB: 0.6 s) wants a wider link, and whose threads read files on a contended node.
fn mover_and_reader(machine: &Machine, running_ns: u64) -> Facts {
    let reader = |number: u32| {
        let mut facts = thread(machine, number, number as usize % 2, &[800 * MB], 0, 1.0);
        let file = FileKey {
            volume: 0,
            inode: u64::from(number),
        };
        facts.files = vec![FileUse {
            file,
            read_bytes: 800 * MB,
            written_bytes: 0,
        }];
        facts
    };
    let mut facts = Facts::of(window(machine, (1..=8).map(reader).collect()));
    let file = |thread: &ThreadFacts| {
        let mut read_bytes = vec![vec![0; 4]; 4];
        read_bytes[thread.node.0 as usize][0] = 800 * MB;
        FileFacts {
            file: thread.files[0].file,
            bytes: 100 * MB,
            bytes_on: vec![100 * MB, 0, 0, 0],
            read_bytes,
            written_bytes: 0,
            replicas: Vec::new(),
        }
    };
    facts.files = facts.window.threads.iter().map(file).collect();
    let mut mover = process(machine, 1, &[0, 1], 1e9);
    mover.running_ns = running_ns;
    facts.accesses.processes = vec![mover];
    facts
}

#[test]
fn what_memory_on_its_way_will_take_is_not_spent_on_files() {
    let machine = ring(&[1e9, 1e8, 10e9, 1e8]);
    let decide = |running_ns: u64, clusters: bool| {
        let mut settings = System::All.settings();
        settings.stages.clusters = clusters;
        let mut planner = Planner::new(&machine, settings);
        let mut facts = mover_and_reader(&machine, running_ns);
        let first = planner.decide(&machine, &facts);
        // Half of it has come, the rest is owed.
        facts.accesses.processes[0].migrating_ns = 300_000_000;
        let second = planner.decide(&machine, &facts);
        let files = [first.relocations.len(), second.relocations.len()];
        (first.placement.moves.len(), files)
    };
    let (moves, files) = decide(100 * GB, true);
    assert!(
        moves == 2 && files[0] > 0,
        "both are affordable: {moves}, {files:?}"
    );
    // 5 % of 12.01 s: 0.6005 s.
    assert_eq!(decide(12_010_000_000, true), (2, [0, 0]));
    let (moves, files) = decide(12_010_000_000, false);
    assert!(moves == 0 && files[0] > 0, "{moves}, {files:?}");
}

fn medium(node: u16, demand: u32, write_share: f64) -> MediumFacts {
    let mix = Mix {
        requests: 1000,
        mean_bytes: 4096.0,
        write_share,
    };
    MediumFacts {
        node: NodeId(node),
        measured: Measured {
            mix,
            demand,
            pm_bytes_s: 1e9,
            dram_bytes_s: Some(1e9),
        },
        free_bytes: None,
        striped_files: None,
    }
}

/// Everything but trials: what the stages want.
fn untried() -> Settings {
    let mut settings = System::All.settings();
    settings.stages.feedback = false;
    settings
}

/// Eq. 1 gives 2 for writes.
#[test]
fn delegation_begins_with_crowds_or_remote_accesses() {
    let machine = common::machine(2);
    let mut planner = Planner::new(&machine, untried());
    let idle = || Facts::of(window(&machine, Vec::new()));
    let mut plan = |facts: Facts| planner.decide(&machine, &facts).delegation;
    let off = |plan: &DelegationPlan| matches!(plan, DelegationPlan::Off { .. });
    let none = plan(idle());
    assert_eq!(
        none,
        DelegationPlan::Off {
            because: DirectBecause::NoMedium
        }
    );
    let with = |demand: u32| Facts {
        media: vec![medium(0, 1, 1.0), medium(1, demand, 1.0)],
        ..idle()
    };
    assert!(off(&plan(with(2))));
    let crowded = plan(with(3));
    let DelegationPlan::On { because, .. } = crowded else {
        panic!("{crowded}")
    };
    let wanted = DelegatedBecause::Crowded {
        node: NodeId(1),
        demand: 3,
        bears: 2,
    };
    assert_eq!(because, wanted);
    for windows in 1..10 {
        let resting = plan(with(2));
        assert!(
            resting
                .to_string()
                .ends_with(&format!("wanted {windows} windows ago")),
            "{resting}"
        );
    }
    assert!(off(&plan(with(2))));
    let mut remote = with(1);
    let mut bound = thread(&machine, 1, 1, &[300 * MB], 700 * MB, 0.5);
    bound.pinned = true;
    remote.window = window(&machine, vec![bound]);
    assert!(plan(remote).to_string().contains("30 % go to other nodes"));
}

/// Writes to stripes go to all nodes, wherever the thread runs.
#[test]
fn remote_writes_count_where_files_are_striped() {
    let machine = common::machine(2);
    let of = |striped: bool| {
        let mut bound = thread(&machine, 1, 1, &[], 0, 0.5);
        bound.pinned = true;
        bound.written_bytes = vec![500 * MB, 500 * MB];
        let mut medium = medium(1, 1, 1.0);
        medium.striped_files = striped.then_some(true);
        let facts = Facts {
            media: vec![medium],
            ..Facts::of(window(&machine, vec![bound]))
        };
        let mut planner = Planner::new(&machine, untried());
        planner.decide(&machine, &facts).delegation
    };
    assert!(matches!(of(false), DelegationPlan::Off { .. }));
    assert!(of(true).to_string().contains("50 % go to other nodes"));
}

#[test]
fn nothing_is_delegated_where_no_file_is_striped() {
    let machine = common::machine(2);
    let of = |striped_files: [Option<bool>; 2], always: bool| {
        let mut settings = untried();
        settings.delegation.always = always;
        let mut crowd = [medium(0, 9, 1.0), medium(1, 9, 1.0)];
        for (medium, striped) in crowd.iter_mut().zip(striped_files) {
            medium.striped_files = striped;
        }
        let facts = Facts {
            media: crowd.to_vec(),
            ..Facts::of(window(&machine, Vec::new()))
        };
        let mut planner = Planner::new(&machine, settings);
        planner.decide(&machine, &facts).delegation
    };
    let none = DelegationPlan::Off {
        because: DirectBecause::NothingStriped,
    };
    assert_eq!(of([Some(false); 2], false), none);
    for (striped_files, always) in [
        ([Some(false), Some(true)], false),
        ([None; 2], false),
        ([Some(false), None], false),
        ([Some(false); 2], true),
    ] {
        let plan = of(striped_files, always);
        let is_on = matches!(plan, DelegationPlan::On { .. });
        assert!(is_on, "{striped_files:?} {plan}");
    }
}

/// The medium bears 4 writers by its curve, and more readers; its node has 4 cores.
#[test]
fn delegates_are_as_many_as_the_medium_bears() {
    let machine = common::machine(2);
    let of = |write_share: f64, limits: bool| {
        let mut settings = untried();
        settings.delegation.always = true;
        settings.stages.limits = limits;
        let mut facts = medium(0, 9, write_share);
        facts.measured.mix.write_share = write_share;
        let facts = Facts {
            media: vec![facts],
            ..Facts::of(window(&machine, Vec::new()))
        };
        let decision = Planner::new(&machine, settings).decide(&machine, &facts);
        match decision.delegation {
            DelegationPlan::On {
                delegates_per_node, ..
            } => delegates_per_node,
            DelegationPlan::Off { .. } => 0,
        }
    };
    assert_eq!(of(1.0, false), 4);
    assert_eq!(of(1.0, true), 2, "no more than Eq. 1 admits");
    assert_eq!(of(0.0, false), 4, "no more than its node has cores");
}

#[test]
fn a_limit_is_raised_to_the_delegates() {
    let machine = common::machine(2);
    let mut settings = untried();
    settings.delegation.always = true;
    settings.delegation.delegates_per_node = 3;
    let facts = Facts {
        media: vec![medium(0, 9, 1.0), medium(1, 9, 0.0)],
        ..Facts::of(window(&machine, Vec::new()))
    };
    let limits = Planner::new(&machine, settings)
        .decide(&machine, &facts)
        .limits;
    let told: Vec<_> = limits
        .iter()
        .map(|limit| (limit.threads, limit.delegates))
        .collect();
    // Eq. 1 gives 2 for writes and 4 for reads.
    assert_eq!(told, [(3, Some(3)), (4, None)]);
    assert!(
        limits[0].to_string().ends_with("raised to its 3 delegates"),
        "{}",
        limits[0]
    );
}

/// Asking for a turn that everybody gets at once costs, and gives nothing.
#[test]
fn a_limit_stays_for_some_time_after_it_was_reached() {
    let machine = common::machine(2);
    let with = |demand: u32| Facts {
        media: vec![medium(0, demand, 1.0)],
        ..Facts::of(window(&machine, Vec::new()))
    };
    let mut planner = Planner::new(&machine, untried());
    let mut limits = |demand: u32| planner.decide(&machine, &with(demand)).limits.len();
    assert_eq!(limits(2), 0, "Eq. 1 gives 2 for writes");
    assert_eq!(limits(3), 1);
    for _ in 1..10 {
        assert_eq!(limits(2), 1);
    }
    assert_eq!(limits(2), 0);
    let pats = Planner::new(&machine, System::Pats.settings()).decide(&machine, &with(2));
    assert_eq!(pats.limits.len(), 1, "the paper's own system always asks");
}

/// DRAM that is idle needs no protection; one that was in use a moment ago does. The medium bears 4 writers.
#[test]
fn beside_idle_dram_the_limit_is_what_the_medium_bears() {
    let machine = common::machine(2);
    let mut planner = Planner::new(&machine, untried());
    let mut limit = |dram_bytes_s: f64| {
        let mut medium = medium(0, 9, 1.0);
        medium.measured.dram_bytes_s = Some(dram_bytes_s);
        let facts = Facts {
            media: vec![medium],
            ..Facts::of(window(&machine, Vec::new()))
        };
        planner.decide(&machine, &facts).limits[0]
    };
    // Persistent memory moves 1 GB/s.
    let idle = limit(1e6);
    assert_eq!((idle.threads, idle.bears), (4, Some(4)));
    assert!(
        idle.to_string().ends_with("DRAM beside it is idle"),
        "{idle}"
    );
    let used = limit(1.1e6);
    assert_eq!((used.threads, used.bears), (2, None));
    for _ in 1..10 {
        assert_eq!(limit(0.0).threads, 2);
    }
    assert_eq!(limit(0.0).threads, 4);
}

/// The medium bears 4 writers, so nobody says that 4 are too many; Eq. 1 gives 2.
#[test]
fn a_crowd_that_the_medium_bears_is_tried_under_the_formula() {
    let machine = common::machine(2);
    let tries = |demand: u32| {
        let mut settings = System::All.settings();
        settings.stages.delegation = false;
        let mut planner = Planner::new(&machine, settings);
        let mut medium = medium(0, demand, 1.0);
        medium.measured.dram_bytes_s = Some(0.0);
        let writers = (0..demand).map(|number| thread(&machine, number, 0, &[], 300 * MB, 0.1));
        let facts = Facts {
            media: vec![medium],
            ..Facts::of(window(&machine, writers.collect()))
        };
        let mut limits = (0..20).map(|_| planner.decide(&machine, &facts).limits);
        limits.any(|limits| limits.iter().any(|limit| limit.threads == 2))
    };
    assert!(tries(4) && !tries(3));
}

/// `N` of PATS Eq. 3 is what the machine says, unless somebody says otherwise.
#[test]
fn limits_heed_the_machines_dimms() {
    let mut machine = common::machine(2);
    machine.emulated.as_mut().expect("emulated").nodes[1].dimms = 3;
    let facts = Facts {
        media: vec![medium(0, 9, 1.0), medium(1, 9, 1.0)],
        ..Facts::of(window(&machine, Vec::new()))
    };
    let limits = |settings: Settings| -> Vec<u32> {
        let decision = Planner::new(&machine, settings).decide(&machine, &facts);
        decision.limits.iter().map(|limit| limit.threads).collect()
    };
    let pats = System::Pats.settings();
    assert_eq!(limits(pats.clone()), [2, 5]);
    let mut told = pats;
    told.set("pats.dimms", "2").expect("in range");
    assert_eq!(limits(told), [4, 4]);
}

/// Writers cannot go to a node without CPUs, so it takes no part in the mean of Eq. 3.
#[test]
fn a_node_without_cpus_does_not_lower_what_others_may_take() {
    let maxima = |cpuless: bool| {
        let mut machine = common::machine(3);
        common::make_real(&mut machine);
        if cpuless {
            machine.nodes[2].cpus.clear();
        }
        let writer = |number| thread(&machine, number, 0, &[], 600 * MB, 0.2);
        let window = window(&machine, (1..=4).map(writer).collect());
        let settings = nthread::Settings::of(Configuration::Full);
        nthread::plan(&machine, &window, &settings)
    };
    let average = |plan: &egeria_policy::Plan| match plan.moves[0].reason {
        Reason::PmContention {
            average_bytes_s, ..
        } => average_bytes_s,
        _ => panic!("{}", plan.moves[0]),
    };
    assert_eq!(average(&maxima(false)), 0.8e9);
    let plan = maxima(true);
    assert_eq!(average(&plan), 1.2e9);
    assert_eq!(plan.expected[2].pm_maximum_bytes_s, None);
    assert!(plan.notes.is_empty(), "nobody lacks its bandwidth");
}

/// The default is everything, and asks for nothing that the facts do not have.
#[test]
fn without_facts_nothing_is_decided() {
    let machine = ring(&[1e9, 1e9, 1e9]);
    let facts = Facts::of(window(&machine, Vec::new()));
    let decision = Planner::new(&machine, Settings::default()).decide(&machine, &facts);
    assert!(decision.threads.moves.is_empty() && decision.limits.is_empty());
    assert_eq!(
        decision.placement.decision,
        asymsched::Decision::NothingSpans
    );
    assert!(decision.relocations.is_empty());
}
