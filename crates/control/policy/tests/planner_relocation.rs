//! Data goes where readers are or where there is room for reads, when that is repaid (relocation).

use crate::common;
use crate::data;

use common::fluid::{Fluid, Worker};
use common::machine;
use data::{World, file_on, key};
use egeria_facts::{Facts, MediumFacts};
use egeria_machine::{Machine, MemoryKind, NodeId};
use egeria_policy::planner::{
    Decision, Planner, Relocate, RelocationReason, RelocationStep, Settings, System,
};

const GB: f64 = 1e9;

/// Readers of private files that all lie on node 0, so many threads on each node.
fn crowd(nodes: usize, per_node: usize, bytes: f64) -> World {
    let machine = machine(nodes);
    let worker = |number: usize| Worker::fio(number as u32, number % nodes, nodes, 1.0);
    let count = nodes * per_node;
    let fluid = Fluid::new(machine, (0..count).map(worker).collect());
    let files = (0..count).map(|_| file_on(nodes, 0, bytes)).collect();
    World::new(fluid, files, (0..count).collect())
}

/// Threads bound to nodes 0 to 3 that all read one file on node 0.
fn bound_readers() -> World {
    let worker = |number: usize| Worker {
        pinned: true,
        is_shared: true,
        ..Worker::fio(number as u32, number % 4, 4, 1.0)
    };
    let fluid = Fluid::new(machine(4), (0..8).map(worker).collect());
    World::new(fluid, vec![file_on(4, 0, 0.2 * GB)], vec![0; 8])
}

fn run(world: &mut World, settings: Settings, windows: usize) -> Vec<Decision> {
    let machine = world.fluid.machine.clone();
    let mut planner = Planner::new(&machine, settings);
    let mut all = Vec::new();
    for _ in 0..windows {
        let facts = world.facts();
        let decision = planner.decide(&machine, &facts);
        world.act(&decision);
        all.push(decision);
    }
    all
}

fn steps(decisions: &[Decision]) -> usize {
    decisions
        .iter()
        .map(|decision| decision.relocations.len())
        .sum()
}

/// The mark is what data migration gained over NThread's moves of threads in 2021: 3.26 times.
#[test]
fn moved_data_beats_moved_threads_on_an_overloaded_node() {
    for (nodes, mark) in [(2, 1.9), (4, 3.26), (8, 6.5)] {
        let mut threads_only = crowd(nodes, 4, 0.2 * GB);
        run(&mut threads_only, System::Full.settings(), 10);
        let mut world = crowd(nodes, 4, 0.2 * GB);
        let decisions = run(&mut world, System::All.settings(), 60);
        let gain = world.bytes_s() / threads_only.bytes_s();
        assert!(gain > mark, "{nodes} nodes: {gain}");
        for file in 0..world.files.len() {
            let all = decisions.iter().flat_map(|decision| &decision.relocations);
            let times = all.filter(|step| step.file == key(file)).count();
            assert!(times <= 1, "file {file} went {times} times");
        }
        assert_eq!(steps(&decisions[45..]), 0, "{nodes} nodes are not at rest");
    }
}

/// Readers that are bound to node 1 or to where their file lies, and what a steward decides that knows the machine's
/// distances alone, or the figures of some nodes, too.
fn steps_of_bound_readers(home: usize, figures_of: &[usize]) -> Vec<RelocationStep> {
    let worker = |number: usize| Worker {
        pinned: true,
        is_shared: true,
        ..Worker::fio(number as u32, home, 2, 1.0)
    };
    let fluid = Fluid::new(machine(2), (0..2).map(worker).collect());
    let mut world = World::new(fluid, vec![file_on(2, 0, 0.2 * GB)], vec![0; 2]);
    let mut bare = world.fluid.machine.clone();
    bare.emulated = None;
    for (index, node) in bare.nodes.iter_mut().enumerate() {
        if !figures_of.contains(&index) {
            node.hardware.memories.clear();
            node.pool_bandwidth = None;
        }
    }
    let mut planner = Planner::new(&bare, System::All.settings());
    let mut all = Vec::new();
    for _ in 0..30 {
        let facts = world.facts();
        let decision = planner.decide(&bare, &facts);
        world.act(&decision);
        all.extend(decision.relocations);
    }
    all
}

#[test]
fn without_figures_files_follow_bound_readers_by_distance() {
    let steps = steps_of_bound_readers(1, &[]);
    let [step] = &steps[..] else {
        panic!("{steps:?}");
    };
    let there = Relocate::Move {
        from: NodeId(0),
        to: NodeId(1),
    };
    assert_eq!(step.action, there);
    assert!(
        matches!(step.why, RelocationReason::RemoteReads { .. }),
        "{step:?}"
    );
    // What is read near stays; figures of some memories cannot be compared with guesses about others.
    assert_eq!(steps_of_bound_readers(0, &[]), []);
    assert_eq!(steps_of_bound_readers(1, &[0]), []);
}

/// A reader that is slow when its file is sent to it, and fast while the file is on its way.
#[test]
fn threads_do_not_go_where_their_file_comes_from() {
    let reader = Worker {
        idle_ns: 26_000.0,
        is_shared: true,
        ..Worker::fio(1, 1, 2, 1.0)
    };
    let fluid = Fluid::new(machine(2), vec![reader]);
    let mut world = World::new(fluid, vec![file_on(2, 0, 10.0 * GB)], vec![0]);
    let settings = System::All.settings();
    let machine = world.fluid.machine.clone();
    let mut planner = Planner::new(&machine, settings);
    let mut is_ordered = false;
    for _ in 0..40 {
        let facts = world.facts();
        let decision = planner.decide(&machine, &facts);
        assert_eq!(decision.threads.moves, [], "{:?}", world.files);
        world.act(&decision);
        if !is_ordered && !decision.relocations.is_empty() {
            is_ordered = true;
            world.fluid.workers[0].idle_ns = 0.0;
        }
    }
    assert!(is_ordered && world.files[0].on[0] < GB, "{:?}", world.files);
}

/// Bound readers of two nodes share a file that is too much for its node: the part that goes to the other fits what both
/// memories give.
#[test]
fn what_is_spread_follows_the_weights_of_memories() {
    for (gives, part) in [(1.0, 1.0 / 2.0), (0.5, 1.0 / 3.0)] {
        let worker = |number: usize| Worker {
            pinned: true,
            is_shared: true,
            ..Worker::fio(number as u32, number % 2, 2, 1.0)
        };
        let fluid = Fluid::new(machine(2), (0..16).map(worker).collect());
        let mut world = World::new(fluid, vec![file_on(2, 0, 0.2 * GB)], vec![0; 16]);
        let emulated = world.fluid.machine.emulated.as_mut().expect("a model");
        emulated.nodes[1].read_bytes_s *= gives;
        let decisions = run(&mut world, System::All.settings(), 20);
        let all = decisions.iter().flat_map(|decision| &decision.relocations);
        let moved: Vec<&RelocationStep> = all
            .filter(|step| matches!(step.action, Relocate::Move { .. }))
            .collect();
        let first = moved.first().expect("a step");
        let goes = first.bytes as f64 / (0.2 * GB);
        assert!((goes - part).abs() < 0.01, "{gives}: {goes} {moved:?}");
    }
}

/// What a memory gives decides, not its kind.
#[test]
fn data_moves_from_an_overloaded_node_of_dram_too() {
    let mut world = crowd(2, 4, 0.2 * GB);
    let emulated = world.fluid.machine.emulated.as_mut().expect("a model");
    for node in &mut emulated.nodes {
        node.kind = MemoryKind::Dram;
    }
    let begin = world.bytes_s();
    let decisions = run(&mut world, System::All.settings(), 60);
    assert!(steps(&decisions) > 0);
    let gain = world.bytes_s() / begin;
    assert!(gain > 1.5, "{gain}");
}

#[test]
fn every_step_is_repaid_within_the_horizon_or_not_taken() {
    let with = |horizon_ms: u64, bytes: f64| {
        let mut settings = System::All.settings();
        settings.relocation.horizon_ms = horizon_ms;
        settings.budget.share = 1.0;
        run(&mut crowd(2, 4, bytes), settings, 10)
    };
    assert_eq!(steps(&with(1000, 40.0 * GB)), 0);
    let (soon, late) = (with(1000, 0.2 * GB), with(100_000, 40.0 * GB));
    for decisions in [&soon, &late] {
        let all = decisions.iter().flat_map(|decision| &decision.relocations);
        assert!(all.clone().count() > 0);
        for step in all {
            let horizon_s = step.horizon_ns as f64 / 1e9;
            assert!(step.gain_threads * horizon_s > step.loss_thread_s, "{step}");
            assert!(step.cost_ns > 0 && step.bytes_s > 0.0, "{step}");
        }
    }
}

#[test]
fn what_is_written_much_or_read_little_stays() {
    let decide = |spoil: &dyn Fn(&mut Facts)| {
        let mut world = crowd(2, 4, 0.2 * GB);
        let mut facts = world.facts();
        spoil(&mut facts);
        let machine = &world.fluid.machine;
        let mut planner = Planner::new(machine, System::All.settings());
        (0..3)
            .map(|_| planner.decide(machine, &facts).relocations.len())
            .sum::<usize>()
    };
    assert!(decide(&|_| ()) > 0);
    let written = |part: f64| {
        move |facts: &mut Facts| {
            for file in &mut facts.files {
                let read: u64 = file.read_bytes.iter().flatten().sum();
                file.written_bytes = (read as f64 * part) as u64;
            }
        }
    };
    assert!(decide(&written(0.05)) > 0);
    assert_eq!(decide(&written(0.06)), 0);
    assert_eq!(
        decide(&|facts| facts
            .files
            .iter_mut()
            .for_each(|file| file.bytes_on.fill(0))),
        0
    );
    assert_eq!(decide(&|facts| facts.files.clear()), 0);
    let idle = |facts: &mut Facts| {
        let all = facts.window.threads.iter_mut();
        all.for_each(|thread| thread.read_bytes.fill(1000));
    };
    assert_eq!(decide(&idle), 0, "nobody waits");
}

#[test]
fn readers_that_cannot_come_get_copies_until_somebody_writes() {
    let mut world = bound_readers();
    let before = world.bytes_s();
    let decisions = run(&mut world, System::All.settings(), 120);
    let copies = |decisions: &[Decision]| -> Vec<NodeId> {
        let all = decisions.iter().flat_map(|decision| &decision.relocations);
        let to = all.filter_map(|step| match step.action {
            Relocate::Replicate { to, .. } => Some(to),
            _ => None,
        });
        to.collect()
    };
    assert!(!copies(&decisions).is_empty());
    assert!(
        world.bytes_s() > 1.5 * before,
        "{} {before}",
        world.bytes_s()
    );
    let machine = world.fluid.machine.clone();
    let mut planner = Planner::new(&machine, System::All.settings());
    let mut facts = world.facts();
    let holders = facts.files[0].replicas.iter().filter(|held| **held).count();
    let is_drop = |step: &RelocationStep| matches!(step.action, Relocate::Drop { .. });
    let kept = planner.decide(&machine, &facts).relocations;
    assert!(holders > 0 && !kept.iter().any(is_drop));
    facts.files[0].written_bytes = 1;
    let dropped = planner.decide(&machine, &facts).relocations;
    assert_eq!(dropped.len(), holders);
    for step in &dropped {
        assert!(is_drop(step), "{step}");
        assert!(
            matches!(step.why, RelocationReason::Written { written_bytes: 1 }),
            "{step}"
        );
    }
}

/// A file that was written a moment ago will be again: a copy of it would not last.
#[test]
fn what_was_written_lately_is_not_copied() {
    let mut world = bound_readers();
    let machine = world.fluid.machine.clone();
    let mut planner = Planner::new(&machine, System::All.settings());
    let mut copied = 0;
    for window in 0..40 {
        let mut facts = world.facts();
        facts.files[0].written_bytes = u64::from(window % 2 == 0);
        let decision = planner.decide(&machine, &facts);
        let copies = decision.relocations.iter();
        copied += copies
            .filter(|step| matches!(step.action, Relocate::Replicate { .. }))
            .map(|step| u32::from(step.horizon_ns > 1_000_000_000))
            .sum::<u32>();
    }
    assert_eq!(copied, 0);
}

#[test]
fn a_copy_that_nobody_reads_is_given_up() {
    let mut world = crowd(2, 1, 0.2 * GB);
    world.files[0].replicas[1] = true;
    world
        .fluid
        .workers
        .iter_mut()
        .for_each(|worker| (worker.node, worker.pinned) = (0, true));
    let decisions = run(&mut world, System::All.settings(), 20);
    let drops = decisions.iter().flat_map(|decision| &decision.relocations);
    let drops: Vec<String> = drops
        .filter(|step| step.action == Relocate::Drop { on: NodeId(1) })
        .map(ToString::to_string)
        .collect();
    assert_eq!(drops.len(), 1);
    assert!(drops[0].contains("nobody has read it"), "{}", drops[0]);
    assert!(!world.files[0].replicas[1]);
}

/// Copies under way together leave the rest of every memory to those who use it.
#[test]
fn copies_take_no_more_than_their_share() {
    let mut settings = System::All.settings();
    settings.budget.share = 1.0;
    let mut world = crowd(8, 4, 2.0 * GB);
    let medium = world
        .fluid
        .machine
        .emulated
        .as_ref()
        .expect("emulated")
        .nodes[0]
        .clone();
    let decisions = run(&mut world, settings.clone(), 6);
    let share = settings.relocation.copy_share * (1.0 + 1e-9);
    let mut under_way: Vec<(Relocate, f64, f64)> = Vec::new();
    for decision in &decisions {
        under_way.iter_mut().for_each(|copy| copy.1 -= copy.2);
        under_way.retain(|copy| copy.1 > 0.0);
        let new = decision.relocations.iter();
        under_way.extend(new.map(|step| (step.action, step.bytes as f64, step.bytes_s)));
        for node in (0..8).map(NodeId) {
            let sum = |is: &dyn Fn(NodeId, NodeId) -> bool| -> f64 {
                let ends = |action| match action {
                    Relocate::Move { from, to } | Relocate::Replicate { from, to } => (from, to),
                    Relocate::Drop { on } => (on, on),
                };
                let all = under_way
                    .iter()
                    .filter(|copy| is(ends(copy.0).0, ends(copy.0).1));
                all.map(|copy| copy.2).sum()
            };
            let (read, written) = (sum(&|from, _| from == node), sum(&|_, to| to == node));
            assert!(read <= share * medium.read_bytes_s, "{read}");
            assert!(written <= share * medium.write_bytes_s, "{written}");
        }
    }
    assert!(under_way.len() >= 3);
}

/// Three nodes of persistent memory; the last has no CPUs.
fn with_capacity_tier() -> Machine {
    let node = |id: usize, cpus: &str| {
        format!(
            "[[nodes]]\nid = {id}\n{cpus}\n[[nodes.memories]]\nkind = \"persistent\"\nread_bytes_s = 6.8e9\n\
             write_bytes_s = 1.85e9\nread_stream_bytes_s = 3.4e9\nwrite_stream_bytes_s = 0.9e9\n\
             read_latency_ns = 300.0\nwrite_latency_ns = 80.0\nremote_latency_factor = 1.66\n"
        )
    };
    let text = format!(
        "name = \"capacity-tier\"\n{}{}{}",
        node(0, "cpus = \"0-3\""),
        node(1, "cpus = \"4-7\""),
        node(2, "cpus = \"\"")
    );
    Machine::from_toml(&text, "capacity-tier.toml".as_ref()).expect("a good file")
}

/// Four busy readers of node 0's files, and two files on node 1 that nobody uses.
fn crowd_above_capacity_tier(free_bytes: Option<u64>) -> (Machine, Facts) {
    let mut world = crowd(3, 3, 0.2 * GB);
    for worker in &mut world.fluid.workers {
        worker.node = 0;
    }
    world
        .files
        .extend([file_on(3, 1, 0.15 * GB), file_on(3, 1, 0.15 * GB)]);
    let mut facts = world.facts();
    facts.media = vec![MediumFacts {
        node: NodeId(1),
        measured: Default::default(),
        free_bytes,
        striped_files: None,
    }];
    let machine = with_capacity_tier();
    let all = common::all_cpus(&machine);
    let threads = facts.window.threads.iter_mut();
    threads.for_each(|thread| thread.allowed_cpus = all.clone());
    facts.window.validate(&machine).expect("made to be valid");
    (machine, facts)
}

fn ways(machine: &Machine, facts: &Facts) -> Vec<(u64, Relocate)> {
    let mut planner = Planner::new(machine, System::All.settings());
    let all = planner.decide(machine, facts).relocations;
    all.iter()
        .map(|step| (step.file.inode, step.action))
        .collect()
}

#[test]
fn only_cold_data_goes_to_a_node_without_cpus() {
    let from_to = |from: u16, to: u16| Relocate::Move {
        from: NodeId(from),
        to: NodeId(to),
    };
    let (machine, facts) = crowd_above_capacity_tier(None);
    let open = ways(&machine, &facts);
    assert!(
        !open.is_empty() && open.iter().all(|(_, action)| *action == from_to(0, 1)),
        "{open:?}"
    );
    let (machine, facts) = crowd_above_capacity_tier(Some(0));
    let full = ways(&machine, &facts);
    let cold: Vec<_> = [(10, from_to(1, 2)), (9, from_to(1, 2))].into();
    assert!(
        !full.is_empty() && full.iter().all(|step| cold.contains(step)),
        "{full:?}"
    );
    let (mut machine, facts) = crowd_above_capacity_tier(Some(0));
    machine.nodes[2].cpus = vec![egeria_machine::CpuId(9)];
    machine.nodes[1].cpus.clear();
    machine.nodes[1]
        .cpus
        .extend((4..8).map(egeria_machine::CpuId));
    let elsewhere = ways(&machine, &facts);
    assert!(
        elsewhere.iter().all(|(_, action)| *action == from_to(0, 2)),
        "{elsewhere:?}"
    );
}

/// How many files are demoted in a window in which node 1 is full and has this number of unused files, of 15 MB each.
fn demoted(cold: usize) -> usize {
    let (machine, mut facts) = crowd_above_capacity_tier(Some(0));
    let files = facts.files.len();
    let mut one = facts.files[files - 1].clone();
    one.bytes /= 10;
    one.bytes_on.iter_mut().for_each(|bytes| *bytes /= 10);
    facts.files.truncate(files - 2);
    for number in 0..cold as u64 {
        one.file.inode = 100 + number;
        facts.files.push(one.clone());
    }
    let mut planner = Planner::new(&machine, System::All.settings());
    let steps = planner.decide(&machine, &facts).relocations;
    let makes_room =
        |step: &&RelocationStep| matches!(step.why, RelocationReason::MakesRoom { .. });
    steps.iter().filter(makes_room).count()
}

#[test]
fn nothing_is_demoted_where_that_makes_too_little_room() {
    let enough = (0..20).find(|cold| demoted(*cold) > 0);
    // A part of a file of 0.2 GB is to come.
    assert!(enough.is_some_and(|cold| cold >= 4), "{enough:?}");
    assert!(demoted(20) > 0);
}

/// Two nodes of six DIMMs each; remote reads make a memory write this share of their lines.
fn with_directory(directory_write_share: f64) -> Machine {
    let node = |id: usize, cpus: &str| {
        format!(
            "[[nodes]]\nid = {id}\ncpus = \"{cpus}\"\n[[nodes.memories]]\nkind = \"persistent\"\nread_bytes_s = 37.6e9\n\
             write_bytes_s = 12.5e9\nread_stream_bytes_s = 6e9\nwrite_stream_bytes_s = 4e9\nread_latency_ns = 300.0\n\
             write_latency_ns = 80.0\nremote_latency_factor = 1.66\ndirectory_write_share = {directory_write_share:?}\n"
        )
    };
    let text = format!(
        "name = \"directory\"\n{}{}",
        node(0, "0-27"),
        node(1, "28-55")
    );
    Machine::from_toml(&text, "directory.toml".as_ref()).expect("a good file")
}

/// Five busy readers on node 0 and 28 on node 1, each of a file of its own on node 0, 9 GB/s in all.
fn readers_of_two_nodes(machine: &Machine) -> Facts {
    let mut world = crowd(2, 17, 0.008 * GB);
    world.fluid.workers.truncate(33);
    world.uses.truncate(33);
    for (number, worker) in world.fluid.workers.iter_mut().enumerate() {
        worker.node = usize::from(number >= 5);
    }
    let mut facts = world.facts();
    let all = common::all_cpus(machine);
    let bytes = 270_000_000;
    for thread in &mut facts.window.threads {
        thread.allowed_cpus = all.clone();
        // Threads may not go, so data must.
        thread.pinned = true;
        thread.read_bytes = vec![bytes, 0];
        thread.busy_ns = facts.window.duration_ns;
        thread
            .files
            .iter_mut()
            .for_each(|file| file.read_bytes = bytes);
    }
    for (number, file) in facts.files.iter_mut().enumerate() {
        let reader = usize::from(number >= 5);
        file.read_bytes = vec![vec![0; 2]; 2];
        file.read_bytes[reader][0] = bytes;
    }
    facts.window.validate(machine).expect("made to be valid");
    facts
}

#[test]
fn what_remote_reads_make_a_memory_write_counts_as_its_use() {
    let used_share = |directory_write_share: f64| {
        let machine = with_directory(directory_write_share);
        let facts = readers_of_two_nodes(&machine);
        let all = Planner::new(&machine, System::All.settings()).decide(&machine, &facts);
        let contended = all.relocations.iter().find_map(|step| match step.why {
            RelocationReason::ReadContention { used_share, .. } => Some(used_share),
            _ => None,
        });
        (contended, all.relocations.len())
    };
    // 9 of 37.6 GB/s are read; each line that goes to node 1 is written as well, at 12.5 GB/s.
    assert_eq!(used_share(0.0).0, None);
    let (contended, steps) = used_share(1.0);
    assert!(contended > Some(0.8) && steps > 0, "{contended:?}, {steps}");
}

/// A cause of waiting that no prediction knows: all threads get less as soon as data is elsewhere.
#[test]
fn moves_of_data_that_cost_are_undone_and_not_repeated() {
    for (mut world, is_copy) in [(crowd(2, 4, 0.2 * GB), false), (bound_readers(), true)] {
        let machine = world.fluid.machine.clone();
        let mut settings = System::All.settings();
        // Threads stay, so that only data goes.
        settings.nthread.stages =
            egeria_policy::nthread::Settings::of(egeria_policy::nthread::Configuration::Off).stages;
        let mut planner = Planner::new(&machine, settings);
        let first: Vec<f64> = world.files.iter().map(|file| file.on[0]).collect();
        let (mut went, mut back) = (0, 0);
        for window in 0..60 {
            let mut facts = world.facts();
            let files = || world.files.iter();
            let is_elsewhere = files().zip(&first).any(|(file, first)| file.on[0] < *first);
            if is_elsewhere || files().any(|file| file.replicas.contains(&true)) {
                for thread in &mut facts.window.threads {
                    thread.read_bytes.iter_mut().for_each(|bytes| *bytes /= 3);
                }
            }
            let decision = planner.decide(&machine, &facts);
            for step in &decision.relocations {
                match step.why {
                    RelocationReason::BroughtLess { speed } => {
                        assert!(speed < 0.98, "{step}");
                        back += 1;
                    }
                    _ => went += 1,
                }
            }
            assert!(window < 30 || decision.relocations.is_empty(), "{window}");
            world.act(&decision);
        }
        assert!(went > 0 && back > 0, "{went} went, {back} came back");
        assert!(
            is_copy
                || world
                    .files
                    .iter()
                    .zip(&first)
                    .all(|(file, first)| file.on[0] >= *first)
        );
        assert!(
            world
                .files
                .iter()
                .all(|file| !file.replicas.contains(&true))
        );
    }
}
