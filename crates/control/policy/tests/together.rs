//! Threads and the memory that they use come together, on machines without declared links.

use crate::clusters::{GB, linked};
use crate::common::SECOND_NS;

use egeria_facts::{
    CpuSet, Facts, NodeAccesses, ProcessAccesses, ProcessKey, RegionAccesses, ThreadFacts,
    ThreadKey, Window,
};
use egeria_machine::{CpuId, Machine, NodeId};
use egeria_policy::asymsched::{Decision, MemoryAction, NodeMove, PlacementPlan};
use egeria_policy::planner::{Planner, Settings, System};
use egeria_policy::{Action, ActionResult, ProcessKept};

/// Only this stage, so that nothing else acts.
fn planner(machine: &Machine) -> Planner {
    let mut settings = Settings::nothing();
    settings.stages.together = true;
    Planner::new(machine, settings)
}

/// Nodes of 4 cores; nothing is known but that.
fn plain(nodes: usize) -> Machine {
    let machine = linked(nodes, &[]);
    assert!(machine.interconnect.links.is_empty());
    machine
}

/// Threads of a process on a node, and the accesses of each node's memory by all of them, per second.
struct On<'a>(u16, u32, &'a [f64]);

/// A process that has run for long, with this much memory on each node, MB.
fn process(machine: &Machine, id: u32, on: &[On<'_>], resident_mb: &[u64]) -> ProcessAccesses {
    let mut facts = ProcessAccesses {
        process: ProcessKey {
            process_id: id,
            start_ticks: 1,
        },
        running_ns: 1_000_000 * GB,
        accessors_known: true,
        ..ProcessAccesses::default()
    };
    for (index, node) in machine.nodes.iter().enumerate() {
        let own = on.iter().find(|on| on.0 == node.id.0);
        let mut accesses_s = own.map_or(Vec::new(), |on| on.2.to_vec());
        accesses_s.resize(machine.nodes.len(), 0.0);
        facts.nodes.push(NodeAccesses {
            node: node.id,
            threads: own.map_or(0, |on| on.1),
            pinned: false,
            accesses_s,
            resident_bytes: resident_mb.get(index).map_or(0, |mb| mb * 1_000_000),
        });
    }
    facts
}

fn bound(mut facts: ProcessAccesses) -> ProcessAccesses {
    facts
        .nodes
        .iter_mut()
        .for_each(|each| each.pinned = each.threads > 0);
    facts
}

/// A window of these processes: each of their threads keeps a CPU busy and may run anywhere.
fn facts(machine: &Machine, number: u64, processes: Vec<ProcessAccesses>) -> Facts {
    let mut window = Window::empty(machine, number, number * SECOND_NS, SECOND_NS);
    let all: CpuSet = (0..4 * machine.nodes.len() as u16).map(CpuId).collect();
    for process in &processes {
        let mut thread_id = process.process.process_id * 100;
        for each in &process.nodes {
            for _ in 0..each.threads {
                thread_id += 1;
                let key = ThreadKey {
                    process_id: process.process.process_id,
                    thread_id,
                    start_ticks: 1,
                };
                window.threads.push(ThreadFacts {
                    busy_ns: SECOND_NS,
                    pinned: each.pinned,
                    ..ThreadFacts::idle(key, each.node, machine.nodes.len(), all.clone())
                });
            }
        }
    }
    let mut facts = Facts::of(window);
    facts.accesses.processes = processes;
    facts.accesses.validate(machine).expect("a valid window");
    facts
}

fn placed(machine: &Machine, processes: Vec<ProcessAccesses>) -> PlacementPlan {
    let mut planner = planner(machine);
    planner
        .decide(machine, &facts(machine, 0, processes))
        .placement
}

fn ends(moves: &[NodeMove]) -> Vec<(u32, u16, u16)> {
    let end = |step: &NodeMove| (step.process.process_id, step.from.0, step.to.0);
    moves.iter().map(end).collect()
}

/// What memory was ordered to go: process, from, to, MB.
fn copies(plan: &PlacementPlan) -> Vec<(u32, u16, u16, u64)> {
    let mut all = Vec::new();
    for step in &plan.memory {
        if let MemoryAction::Gather { copies, .. } = &step.action {
            let id = step.process.process_id;
            all.extend(
                copies
                    .iter()
                    .map(|copy| (id, copy.0.0, copy.1.0, copy.2 / 1_000_000)),
            );
        }
    }
    all
}

fn because(plan: &PlacementPlan, id: u32) -> ProcessKept {
    let mut kept = plan.kept.iter();
    let kept = kept.find(|kept| kept.process.process_id == id);
    kept.expect("a reason").because.clone()
}

#[test]
fn free_threads_go_to_their_memory() {
    let machine = plain(2);
    let remote = process(&machine, 1, &[On(1, 2, &[1e8, 0.0])], &[1000, 0]);
    let plan = placed(&machine, vec![remote]);
    assert_eq!(ends(&plan.moves), [(1, 1, 0)]);
    assert_eq!(copies(&plan), []);
    assert!(
        matches!(plan.decision, Decision::Together { .. }),
        "{}",
        plan.decision
    );
}

#[test]
fn memory_comes_to_threads_that_their_owner_bound() {
    let machine = plain(2);
    let remote = bound(process(&machine, 1, &[On(1, 2, &[1e8, 0.0])], &[1000, 0]));
    let plan = placed(&machine, vec![remote]);
    assert_eq!(ends(&plan.moves), []);
    assert_eq!(copies(&plan), [(1, 0, 1, 1000)]);
}

#[test]
fn two_swapped_programs_exchange_places() {
    let machine = plain(2);
    let one = process(&machine, 1, &[On(0, 4, &[0.0, 1e8])], &[0, 1000]);
    let other = process(&machine, 2, &[On(1, 4, &[1e8, 0.0])], &[1000, 0]);
    let plan = placed(&machine, vec![one, other]);
    assert_eq!(ends(&plan.moves), [(1, 0, 1), (2, 1, 0)]);
    assert_eq!(copies(&plan), []);
}

#[test]
fn two_swapped_groups_of_a_bound_program_exchange_memory() {
    let machine = plain(2);
    let on = [On(0, 2, &[0.0, 1e8]), On(1, 2, &[1e8, 0.0])];
    let swapped = bound(process(&machine, 1, &on, &[500, 500]));
    let plan = placed(&machine, vec![swapped]);
    assert_eq!(copies(&plan), [(1, 0, 1, 500), (1, 1, 0, 500)]);
}

#[test]
fn regions_say_which_memory_goes_where() {
    let machine = plain(2);
    let on = [On(0, 2, &[1e8, 1e8]), On(1, 2, &[1e8, 1e8])];
    let mut mixed = bound(process(&machine, 1, &on, &[600, 600]));
    let region = |start: u64, resident: [u64; 2], accesses_s: [f64; 2]| RegionAccesses {
        start,
        resident_bytes: resident.map(|mb| mb * 1_000_000).to_vec(),
        accesses_s: accesses_s.to_vec(),
        is_fixed: false,
    };
    mixed.regions = vec![
        region(0, [200, 400], [1e8, 0.0]),
        region(1 << 40, [400, 200], [0.0, 1e8]),
    ];
    let plan = placed(&machine, vec![mixed]);
    assert_eq!(copies(&plan), [(1, 0, 1, 400), (1, 1, 0, 400)]);
}

#[test]
fn memory_that_its_owner_bound_or_interleaved_stays() {
    let machine = plain(2);
    let region = |start: u64, resident: [u64; 2], accesses_s: [f64; 2], is_fixed| RegionAccesses {
        start,
        resident_bytes: resident.map(|mb| mb * 1_000_000).to_vec(),
        accesses_s: accesses_s.to_vec(),
        is_fixed,
    };
    // Threads bound to node 1, all memory interleaved; then 300 MB of the owner's heap as well, on node 0.
    let on = [On(1, 2, &[5e7, 5e7])];
    let mut spread = bound(process(&machine, 1, &on, &[500, 500]));
    spread.regions = vec![region(0, [500, 500], [0.0, 1e8], true)];
    let plan = placed(&machine, vec![spread.clone()]);
    assert_eq!(copies(&plan), []);
    assert_eq!(because(&plan, 1), ProcessKept::Fixed);
    spread.nodes[0].resident_bytes += 300_000_000;
    spread
        .regions
        .push(region(1 << 40, [300, 0], [0.0, 5e7], false));
    let plan = placed(&machine, vec![spread]);
    assert_eq!(copies(&plan), [(1, 0, 1, 300)]);
    // Threads of two nodes, and nothing says which of them use what: memory without threads comes, but not what is fixed.
    let machine = plain(3);
    let on = [On(1, 2, &[1e8, 0.0, 0.0]), On(2, 2, &[1e8, 0.0, 0.0])];
    let mut unknown = bound(process(&machine, 1, &on, &[1000, 0, 0]));
    unknown.accessors_known = false;
    unknown.regions = vec![RegionAccesses {
        start: 0,
        resident_bytes: vec![600_000_000, 0, 0],
        accesses_s: vec![0.0, 6e7, 6e7],
        is_fixed: true,
    }];
    let bytes: u64 = copies(&placed(&machine, vec![unknown]))
        .iter()
        .map(|copy| copy.3)
        .sum();
    assert_eq!(bytes, 400);
}

#[test]
fn threads_of_unknown_accesses_move_only_where_that_is_certain() {
    let machine = plain(2);
    let plan = |zero_mb: u64, one_mb: u64| {
        let rate = |mb: u64| mb as f64 * 1e5;
        let mut unknown = process(&machine, 1, &[], &[zero_mb, one_mb]);
        for each in &mut unknown.nodes {
            (each.threads, each.accesses_s) = (1, vec![rate(zero_mb), rate(one_mb)]);
        }
        unknown.accessors_known = false;
        placed(&machine, vec![unknown])
    };
    assert_eq!(ends(&plan(1000, 0).moves), [(1, 1, 0)]);
    assert_eq!(ends(&plan(980, 20).moves), [(1, 1, 0)]);
    let guessed = plan(600, 400);
    assert_eq!((ends(&guessed.moves), copies(&guessed)), (vec![], vec![]));
    assert_eq!(because(&guessed, 1), ProcessKept::AccessorsUnknown);
}

/// A second program, which hardly does anything, opens placements that change several programs at once.
#[test]
fn memory_of_unknown_accesses_moves_for_no_tiny_gain() {
    let machine = plain(2);
    let on = [On(0, 1, &[2.7e6, 1.2e6]), On(1, 1, &[2.7e6, 1.2e6])];
    let mut unknown = process(&machine, 1, &on, &[620, 270]);
    let mut quiet = process(&machine, 2, &[On(1, 1, &[0.0, 3e3])], &[0, 1]);
    (unknown.accessors_known, quiet.accessors_known) = (false, false);
    let mut facts = facts(&machine, 0, vec![unknown, quiet]);
    facts.accesses.free_bytes = vec![2_000_000, 360_000_000];
    let plan = planner(&machine).decide(&machine, &facts).placement;
    assert_eq!((ends(&plan.moves), copies(&plan)), (vec![], vec![]));
    assert_eq!(because(&plan, 1), ProcessKept::AccessorsUnknown);
}

#[test]
fn what_only_the_kernel_sees_is_left_to_its_balancing() {
    let machine = plain(2);
    let on = [On(0, 2, &[1e8, 0.0]), On(1, 2, &[1e8, 0.0])];
    let mut unknown = process(&machine, 1, &on, &[1000, 0]);
    unknown.accessors_known = false;
    let apart = process(&machine, 2, &[On(1, 2, &[1e8, 0.0])], &[1000, 0]);
    let mut facts = facts(&machine, 0, vec![unknown, apart]);
    facts.accesses.kernel_balances = true;
    let plan = planner(&machine).decide(&machine, &facts).placement;
    assert_eq!(because(&plan, 1), ProcessKept::LeftToKernel);
    assert!(plan.moves.iter().all(|step| step.process.process_id == 2));
    assert!(
        !plan.moves.is_empty(),
        "the kernel brings memory slowly to threads, and no threads"
    );
}

#[test]
fn a_program_larger_than_a_node_is_left_to_balancing() {
    let machine = plain(2);
    let because_of = |free_mb: u64| {
        let mut large = process(&machine, 1, &[On(0, 2, &[6e7, 4e7])], &[600, 400]);
        large.accessors_known = false;
        let mut facts = facts(&machine, 0, vec![large]);
        facts.accesses.kernel_balances = true;
        facts.accesses.free_bytes = vec![free_mb * 1_000_000; 2];
        let plan = planner(&machine).decide(&machine, &facts).placement;
        let kept = plan.kept.first().map(|kept| kept.because.clone());
        (kept, !plan.moves.is_empty() || !plan.memory.is_empty())
    };
    assert_eq!(because_of(300), (Some(ProcessKept::LeftToKernel), false));
    assert!(because_of(2000).1, "one node holds all of it");
}

#[test]
fn a_local_program_is_left_alone_and_the_reason_said() {
    let machine = plain(2);
    let local = process(&machine, 1, &[On(0, 2, &[1e8, 0.0])], &[1000, 0]);
    let plan = placed(&machine, vec![local]);
    assert!(plan.moves.is_empty() && plan.memory.is_empty());
    assert_eq!(because(&plan, 1), ProcessKept::Local);
}

#[test]
fn memory_stays_where_its_new_node_has_no_room() {
    let machine = plain(2);
    let remote = bound(process(&machine, 1, &[On(1, 2, &[1e8, 0.0])], &[1000, 0]));
    let mut window = facts(&machine, 0, vec![remote]);
    window.accesses.free_bytes = vec![1 << 40, 1 << 20];
    let plan = planner(&machine).decide(&machine, &window).placement;
    assert_eq!(copies(&plan), []);
    let kept = because(&plan, 1);
    let wanted = ProcessKept::NoRoom {
        node: NodeId(1),
        needed_bytes: 1_000_000_000,
        free_bytes: 1 << 20,
    };
    assert_eq!(kept, wanted);
}

#[test]
fn without_known_accessors_only_forsaken_memory_moves() {
    let machine = plain(3);
    let on = [On(0, 2, &[5e7, 5e7, 0.0]), On(1, 2, &[5e7, 5e7, 0.0])];
    let mut both = bound(process(&machine, 1, &on, &[500, 500, 0]));
    both.accessors_known = false;
    let plan = placed(&machine, vec![both]);
    assert_eq!(copies(&plan), []);
    assert_eq!(because(&plan, 1), ProcessKept::AccessorsUnknown);
    let on = [On(0, 2, &[0.0, 0.0, 1e8]), On(1, 2, &[0.0, 0.0, 1e8])];
    let mut forsaken = bound(process(&machine, 1, &on, &[0, 0, 1000]));
    forsaken.accessors_known = false;
    let plan = placed(&machine, vec![forsaken]);
    assert_eq!(copies(&plan), [(1, 2, 0, 500), (1, 2, 1, 500)]);
}

#[test]
fn threads_of_a_crowded_node_are_divided() {
    let machine = plain(2);
    let crowd = process(&machine, 1, &[On(0, 8, &[1e7, 0.0])], &[100, 0]);
    let plan = placed(&machine, vec![crowd]);
    let to_other = plan
        .single
        .iter()
        .filter(|step| step.to == NodeId(1))
        .count();
    assert!((3..=5).contains(&to_other), "{:?}", plan.single);
    assert!(plan.moves.is_empty());
}

/// One order lasts until its memory has arrived, however long that takes.
#[test]
fn an_order_is_given_once() {
    let machine = plain(2);
    let mut planner = planner(&machine);
    let mut orders = 0;
    for number in 0..20 {
        let arrived = (number * 100).min(1000);
        let remote = 1e8 * (1000 - arrived) as f64 / 1000.0;
        let mut each = bound(process(
            &machine,
            1,
            &[On(1, 2, &[])],
            &[1000 - arrived, arrived],
        ));
        each.nodes[1].accesses_s = vec![remote, 1e8 - remote];
        let plan = planner
            .decide(&machine, &facts(&machine, number, vec![each]))
            .placement;
        orders += plan.memory.len();
        match number {
            0 => assert_eq!(copies(&plan), [(1, 0, 1, 1000)]),
            1..=9 => assert!(matches!(because(&plan, 1), ProcessKept::Arriving { .. })),
            _ => assert_eq!(because(&plan, 1), ProcessKept::Local),
        }
    }
    assert_eq!(orders, 1);
}

/// A scheduler that takes threads back again and again is not followed in each window.
#[test]
fn threads_that_do_not_stay_are_placed_ever_more_rarely() {
    let machine = plain(2);
    let mut planner = planner(&machine);
    let (mut placed_in, mut brought_back) = (Vec::new(), 0);
    for number in 0..60 {
        // Whatever is ordered, the threads are found on node 1.
        let remote = process(&machine, 1, &[On(1, 2, &[1e8, 0.0])], &[1000, 0]);
        let plan = planner
            .decide(&machine, &facts(&machine, number, vec![remote]))
            .placement;
        match plan.decision {
            Decision::ThreadsBack => brought_back += 1,
            _ if plan.moves.is_empty() => {}
            _ => placed_in.push(number),
        }
    }
    // Once after each placement.
    assert_eq!(brought_back, placed_in.len());
    let pauses: Vec<u64> = placed_in.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.len() >= 2 && pauses[0] <= 3, "{placed_in:?}");
    assert!(pauses[1..].is_sorted() && pauses[1] >= 10, "{placed_in:?}");
}

/// A free thread that uses memory of one node and then of the other is followed each time: nothing but it moves.
#[test]
fn threads_follow_work_that_changes_again_and_again() {
    let machine = plain(2);
    let mut planner = planner(&machine);
    let (mut node, mut local) = (1, 0);
    for number in 0..120 {
        let used = (number / 8 % 2) as usize;
        let accesses: &[f64] = [&[1e8, 0.0][..], &[0.0, 1e8][..]][used];
        let mut both = process(&machine, 1, &[On(node, 1, &[])], &[500, 500]);
        both.nodes[usize::from(node)].accesses_s = accesses.to_vec();
        let plan = planner
            .decide(&machine, &facts(&machine, number, vec![both]))
            .placement;
        assert_eq!(copies(&plan), []);
        local += usize::from(usize::from(node) == used);
        if let Some(step) = plan.moves.first() {
            node = step.to.0;
        }
    }
    // Each of the 15 times one window without a look, and some until it is certain.
    assert!(local >= 120 - 15 * 4, "{local}");
}

/// Memory comes to a free thread, and the scheduler moves the thread away during that: it is brought back once, bound.
#[test]
fn threads_are_brought_back_to_memory_on_its_way() {
    let mut machine = plain(3);
    // Node 0 has memory alone, so no thread can go to it.
    machine.nodes[0].cpus.clear();
    let mut planner = planner(&machine);
    let mut plans = Vec::new();
    for (number, node) in [2, 1, 1, 1].into_iter().enumerate() {
        let resident_mb = [1000 - 100 * number as u64, 0, 100 * number as u64];
        let each = process(&machine, 1, &[On(node, 1, &[1e8, 0.0, 0.0])], &resident_mb);
        let local = process(&machine, 2, &[On(2, 1, &[0.0, 0.0, 1e8])], &[0, 0, 100]);
        let facts = facts(&machine, number as u64, vec![each, local]);
        plans.push(planner.decide(&machine, &facts).placement);
    }
    assert_eq!(copies(&plans[0]), [(1, 0, 2, 1000)]);
    assert_eq!(ends(&plans[1].moves), [(1, 1, 2)]);
    assert_eq!(plans[1].decision, Decision::ThreadsBack);
    assert_eq!(
        because(&plans[1], 2),
        ProcessKept::Local,
        "others have a reason, too"
    );
    // Its owner keeps it away: the order is void, and memory comes to where the thread is.
    assert_eq!(ends(&plans[2].moves), []);
    assert_eq!(copies(&plans[3]).last().map(|copy| copy.2), Some(1));
}

/// Where a program runs after each window that begins on node 1, with its memory on node 0. It gets `work(window, node)`
/// done per second: the work, and accesses per work.
fn runs(windows: u64, work: impl Fn(u64, u16) -> (f64, f64)) -> Vec<u16> {
    runs_from(0, windows, work)
}

/// The same, where its memory lies on node 1 before a window.
fn runs_from(fault: u64, windows: u64, work: impl Fn(u64, u16) -> (f64, f64)) -> Vec<u16> {
    let machine = plain(2);
    let mut planner = planner(&machine);
    let mut node = 1;
    let mut window = |number: u64| {
        let (work_s, accesses) = work(number, node);
        let (memory, resident_mb) = if number < fault {
            (1, [0, 1000])
        } else {
            (0, [1000, 0])
        };
        let rates = [0, 1].map(|other| {
            if other == memory {
                work_s * accesses
            } else {
                0.0
            }
        });
        let mut each = process(&machine, 1, &[On(node, 2, &rates)], &resident_mb);
        each.work_s = Some(work_s);
        let facts = facts(&machine, number, vec![each]);
        let plan = planner.decide(&machine, &facts).placement;
        if let Some(step) = plan.moves.first() {
            node = step.to.0;
        }
        if let Some(step) = plan.single.first() {
            assert_eq!((plan.decision, plan.single.len()), (Decision::TakenBack, 2));
            node = step.to.0;
        }
        node
    };
    (0..windows).map(&mut window).collect()
}

#[test]
fn a_placement_that_brought_a_loss_is_taken_back() {
    for (after, is_kept) in [(1.1e6, true), (0.5e6, false)] {
        let nodes = runs(8, |_, node| (if node == 1 { 1e6 } else { after }, 100.0));
        assert_eq!(nodes.last() == Some(&0), is_kept, "{after}: {nodes:?}");
    }
}

#[test]
fn a_loss_within_chance_is_kept_and_one_beyond_is_not() {
    let is_kept = |swing: f64, after: f64| {
        let nodes = runs_from(8, 20, |number, node| {
            let by_chance = 1.0 + swing * (number % 2) as f64;
            (if node == 1 { by_chance } else { after } * 1e6, 100.0)
        });
        assert_eq!(nodes[..8], [1; 8], "local before the fault");
        assert!(nodes.contains(&0), "placed after it: {nodes:?}");
        nodes.last() == Some(&0)
    };
    assert!(is_kept(0.2, 0.85), "a loss by chance");
    assert!(!is_kept(0.2, 0.5), "more than chance");
    assert!(!is_kept(0.0, 0.85), "steady before");
}

/// With twice as many accesses per work, as of a program that lost its share of a cache.
#[test]
fn a_steady_loss_counts_though_the_work_looks_different() {
    let nodes = |windows: u64, loss: f64, swing: f64| {
        runs(windows, |number, node| {
            let swing = 1.0 + swing * (number % 2) as f64;
            let on_node_0 = (1e6 * (1.0 - loss) * swing, 200.0);
            if node == 1 { (1e6, 100.0) } else { on_node_0 }
        })
    };
    assert_eq!(nodes(14, 0.2, 0.0).last(), Some(&1), "steady");
    assert_eq!(nodes(14, 0.2, 0.2).last(), Some(&0), "perhaps other work");
    assert_eq!(
        nodes(6, 0.6, 0.2).last(),
        Some(&1),
        "so large that it is no other work"
    );
}

#[test]
fn a_placement_that_lost_much_is_not_soon_tried_again() {
    let times = |after: f64| {
        let nodes = runs(80, |_, node| (if node == 1 { 1e6 } else { after }, 100.0));
        let comes = nodes.windows(2).filter(|pair| pair[0] == 1 && pair[1] == 0);
        comes.count() + usize::from(nodes[0] == 0)
    };
    assert_eq!((times(0.1e6), times(0.95e6)), (1, 2));
}

/// Two groups of threads exchange their memory: what lies on each node stays the same.
#[test]
fn memory_that_was_exchanged_has_arrived_when_it_is_judged() {
    let machine = plain(2);
    let groups = |near: f64, far: f64| {
        let mut each = bound(process(&machine, 1, &[], &[1000, 1000]));
        for (node, rates) in each.nodes.iter_mut().zip([[near, far], [far, near]]) {
            (node.threads, node.pinned, node.accesses_s) = (2, true, rates.to_vec());
        }
        each
    };
    let mut planner = planner(&machine);
    let decide = |planner: &mut Planner, number: u64, each: ProcessAccesses| {
        let facts = facts(&machine, number, vec![each]);
        planner.decide(&machine, &facts).placement
    };
    let plan = decide(&mut planner, 0, groups(0.0, 1e8));
    assert_eq!(copies(&plan), [(1, 0, 1, 1000), (1, 1, 0, 1000)]);
    let later = decide(&mut planner, 1, groups(1e8, 0.0));
    assert!(matches!(because(&later, 1), ProcessKept::Arriving { .. }));
    let action = Action::MigrateMemory(plan.memory[0].clone());
    planner.learn(&[ActionResult {
        action,
        expected: None,
        measured: None,
        missed: false,
    }]);
    let later = decide(&mut planner, 2, groups(1e8, 0.0));
    assert_eq!(because(&later, 1), ProcessKept::Local);
}

#[test]
fn the_default_policy_acts_without_links() {
    let machine = plain(2);
    let remote = process(&machine, 1, &[On(1, 2, &[1e8, 0.0])], &[1000, 0]);
    let mut planner = Planner::new(&machine, System::All.settings());
    let decision = planner.decide(&machine, &facts(&machine, 0, vec![remote]));
    assert_eq!(ends(&decision.placement.moves), [(1, 1, 0)]);
}

/// A free thread on node 0 that reads a file there with calls; its heap is on node 1.
#[test]
fn threads_stay_with_the_files_that_they_read() {
    let machine = plain(2);
    let of_file = |bytes: u64, pinned: bool| {
        let mut own = process(&machine, 1, &[On(0, 1, &[0.0, 2e6])], &[0, 100]);
        own.nodes[0].pinned = pinned;
        let mut facts = facts(&machine, 0, vec![own]);
        facts.window.threads[0].read_bytes = vec![bytes, 0];
        planner(&machine).decide(&machine, &facts).placement
    };
    // Without the file, the thread goes to its heap.
    let plan = of_file(0, false);
    assert_eq!(ends(&plan.moves), [(1, 0, 1)]);
    assert_eq!(copies(&plan), []);
    // A thread that reads the file stays, and the heap comes.
    for pinned in [false, true] {
        let plan = of_file(2_000_000_000, pinned);
        assert_eq!(
            (ends(&plan.moves), copies(&plan)),
            (vec![], vec![(1, 1, 0, 100)])
        );
    }
}
