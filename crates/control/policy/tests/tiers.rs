//! What is used least goes to a slower node when memory is short, and what is used most comes back.

use egeria_facts::{
    Facts, MemoryTraffic, NodeAccesses, ProcessAccesses, ProcessKey, RegionAccesses, TrafficOrigin,
    Window,
};
use egeria_machine::{Machine, MemoryKind, NodeId};
use egeria_policy::asymsched::{Decision, LoadSource, MemoryAction, PlacementPlan, TierMove};
use egeria_policy::planner::{Planner, Settings};
use proptest::prelude::*;

use crate::common::SECOND_NS;

const MB: u64 = 1_000_000;
const GB: u64 = 1_000 * MB;
/// Memory of the near node and of the slower one.
const NEAR_BYTES: u64 = 10 * GB;
const FAR_BYTES: u64 = 20 * GB;

/// A node of four cores, and one without.
fn machine() -> Machine {
    let text = format!(
        "name = \"tiers\"\ndistances = [[10, 30], [30, 10]]\n[[nodes]]\nid = 0\ncpus = \"0-3\"\n\
         memory_bytes = {NEAR_BYTES}\n[[nodes]]\nid = 1\nmemory_bytes = {FAR_BYTES}\n"
    );
    Machine::from_toml(&text, "tiers.toml".as_ref()).expect("a good file")
}

fn planner(machine: &Machine) -> Planner {
    let mut settings = Settings::nothing();
    settings.stages.together = true;
    Planner::new(machine, settings)
}

/// A process with one kind of memory: accesses per second of a megabyte, and its megabytes on both nodes.
#[derive(Clone, Debug)]
struct Program {
    density: f64,
    mb: [u64; 2],
}

/// How fast memory comes that was ordered.
struct World {
    machine: Machine,
    programs: Vec<Program>,
    ordered: Vec<(usize, usize, usize, u64)>,
    window: u64,
}

impl World {
    fn new(programs: &[Program]) -> World {
        World {
            machine: machine(),
            programs: programs.to_vec(),
            ordered: Vec::new(),
            window: 0,
        }
    }

    fn free(&self) -> [u64; 2] {
        let used = |node: usize| self.programs.iter().map(|each| each.mb[node]).sum::<u64>() * MB;
        [
            NEAR_BYTES.saturating_sub(used(0)),
            FAR_BYTES.saturating_sub(used(1)),
        ]
    }

    fn facts(&self) -> Facts {
        let window = Window::empty(
            &self.machine,
            self.window,
            self.window * SECOND_NS,
            SECOND_NS,
        );
        let mut facts = Facts::of(window);
        for (number, program) in self.programs.iter().enumerate() {
            let rates = program.mb.map(|mb| mb as f64 * program.density);
            let resident = program.mb.map(|mb| mb * MB);
            let on = |node: u16| NodeAccesses {
                node: NodeId(node),
                threads: u32::from(node == 0),
                pinned: node == 0,
                accesses_s: if node == 0 {
                    rates.to_vec()
                } else {
                    Vec::new()
                },
                resident_bytes: resident[usize::from(node)],
            };
            facts.accesses.processes.push(ProcessAccesses {
                process: ProcessKey {
                    process_id: number as u32 + 1,
                    start_ticks: 1,
                },
                nodes: vec![on(0), on(1)],
                running_ns: 1_000_000 * GB,
                accessors_known: true,
                regions: vec![RegionAccesses {
                    start: 0,
                    resident_bytes: resident.to_vec(),
                    accesses_s: vec![rates.iter().sum(), 0.0],
                    is_fixed: false,
                }],
                ..ProcessAccesses::default()
            });
        }
        facts.accesses.free_bytes = self.free().to_vec();
        facts
            .accesses
            .validate(&self.machine)
            .expect("a valid window");
        facts
    }

    /// One window: what is ordered, after which up to so much of each order has arrived.
    fn step(&mut self, planner: &mut Planner, arrives_mb: u64) -> PlacementPlan {
        let plan = planner.decide(&self.machine, &self.facts()).placement;
        self.window += 1;
        for (program, from, to, bytes) in copies(&plan) {
            self.ordered.push((program, from, to, bytes / MB));
        }
        for (program, from, to, left) in &mut self.ordered {
            let comes = (*left)
                .min(arrives_mb)
                .min(self.programs[*program].mb[*from]);
            self.programs[*program].mb[*from] -= comes;
            self.programs[*program].mb[*to] += comes;
            *left -= comes;
        }
        plan
    }
}

/// What was ordered: position of the program, from, to, bytes.
fn copies(plan: &PlacementPlan) -> Vec<(usize, usize, usize, u64)> {
    let mut all = Vec::new();
    for step in &plan.memory {
        if let MemoryAction::Gather { copies, .. } = &step.action {
            let program = step.process.process_id as usize - 1;
            let copies = copies.iter();
            all.extend(copies.map(|copy| (program, copy.0.0.into(), copy.1.0.into(), copy.2)));
        }
    }
    all
}

fn reasons(plan: &PlacementPlan) -> Vec<TierMove> {
    let reason = |action: &MemoryAction| match action {
        MemoryAction::Gather { tier, .. } => *tier,
        _ => None,
    };
    plan.memory
        .iter()
        .filter_map(|step| reason(&step.action))
        .collect()
}

fn program(density: f64, near_mb: u64, far_mb: u64) -> Program {
    Program {
        density,
        mb: [near_mb, far_mb],
    }
}

#[test]
fn the_least_used_makes_room_on_a_full_node() {
    let mut world = World::new(&[program(1000.0, 5000, 0), program(0.5, 4900, 0)]);
    let plan = world.step(&mut planner(&machine()), 10_000);
    // 100 MB of 10 GB are free, and 500 should be.
    assert_eq!(copies(&plan), [(1, 0, 1, 400 * MB)]);
    assert_eq!(plan.decision, Decision::Tiers);
    let wanted = TierMove::Demoted {
        free_bytes: 100 * MB,
        wanted_bytes: 400 * MB,
    };
    assert_eq!(reasons(&plan), [wanted]);
}

#[test]
fn nothing_goes_as_long_as_enough_is_free() {
    let mut world = World::new(&[program(1000.0, 5000, 0), program(0.5, 4700, 0)]);
    let mut planner = planner(&machine());
    for _ in 0..5 {
        let plan = world.step(&mut planner, 10_000);
        assert_eq!(copies(&plan), []);
    }
}

#[test]
fn what_is_used_most_comes_back_first() {
    let mut world = World::new(&[
        program(2000.0, 1000, 1000),
        program(9000.0, 1000, 1000),
        // Too much for changing places.
        program(1000.0, 6500, 0),
    ]);
    // 350 of 10,000 MB stay free.
    let plan = world.step(&mut planner(&machine()), 10_000);
    assert_eq!(copies(&plan), [(0, 1, 0, 150 * MB), (1, 1, 0, 1000 * MB)]);
}

#[test]
fn the_most_used_changes_places_with_the_least_used() {
    let mut world = World::new(&[program(5000.0, 0, 2000), program(0.5, 9600, 0)]);
    let mut planner = planner(&machine());
    for _ in 0..40 {
        world.step(&mut planner, 10_000);
    }
    assert_eq!(world.programs[0].mb, [2000, 0]);
    // No more than what comes: of 400 MB, 350 stay free.
    assert_eq!(world.programs[1].mb, [7650, 1950]);
}

#[test]
fn a_machine_without_slower_nodes_has_no_tiers() {
    let mut world = World::new(&[program(1000.0, 5000, 0), program(0.5, 4990, 0)]);
    world.machine.nodes[1].cpus = vec![egeria_machine::CpuId(4)];
    let plan = world.step(&mut planner(&world.machine.clone()), 10_000);
    assert_eq!(copies(&plan), []);
}

#[test]
fn a_switch_turns_tiers_off() {
    let mut world = World::new(&[program(1000.0, 5000, 0), program(0.5, 4990, 0)]);
    let mut settings = Settings::nothing();
    settings.stages.together = true;
    settings.together.tiers = false;
    let plan = world.step(&mut Planner::new(&machine(), settings), 10_000);
    assert_eq!(copies(&plan), []);
}

/// An expander of a real machine takes pages when its socket's own memory is the slower one, as hardware counts it.
#[test]
fn under_load_pages_are_balanced_by_weight() {
    let machine = Machine::profile("epyc-2s-cxl").expect("a profile");
    let all = |counted_s: f64| {
        let window = Window::empty(&machine, 0, 0, SECOND_NS);
        let mut facts = Facts::of(window);
        facts.accesses.processes.push(ProcessAccesses {
            process: ProcessKey {
                process_id: 1,
                start_ticks: 1,
            },
            nodes: vec![NodeAccesses {
                node: NodeId(0),
                threads: 90,
                pinned: true,
                accesses_s: vec![5.6e9, 0.0, 0.0, 0.0],
                resident_bytes: 90 * GB,
            }],
            running_ns: 1_000_000 * GB,
            accessors_known: true,
            ..ProcessAccesses::default()
        });
        facts.memories.push(MemoryTraffic {
            node: NodeId(0),
            kind: MemoryKind::Dram,
            read_bytes_s: counted_s,
            written_bytes_s: 0.0,
            origin: TrafficOrigin::MemoryController,
        });
        planner(&machine).decide(&machine, &facts).placement
    };
    let plan = all(372e9);
    let [
        TierMove::Balanced {
            near_ns,
            far_ns,
            load,
        },
    ] = reasons(&plan)[..]
    else {
        panic!("{plan:?}");
    };
    assert!(near_ns > far_ns && load == LoadSource::Counters);
    let far: u64 = copies(&plan)
        .iter()
        .filter(|copy| copy.2 == 2)
        .map(|copy| copy.3)
        .sum();
    assert!((5 * GB..15 * GB).contains(&far), "{far}");
}

fn any_program() -> impl Strategy<Value = Program> {
    let density = prop_oneof![Just(0.0), 0.01..5.0f64, 5.0..1e4f64];
    (density, 0u64..6000, 0u64..6000).prop_map(|(density, near, far)| program(density, near, far))
}

fn any_programs() -> impl Strategy<Value = Vec<Program>> {
    let fits = |programs: &Vec<Program>| {
        let sum = |node: usize| programs.iter().map(|each| each.mb[node]).sum::<u64>() * MB;
        sum(0) <= NEAR_BYTES && sum(1) <= FAR_BYTES
    };
    prop::collection::vec(any_program(), 1..5).prop_filter("they fit", fits)
}

proptest! {
    /// What went one way does not go the other within ten windows, and after some time all rests.
    #[test]
    fn nothing_moves_back_within_ten_windows(programs in any_programs(), arrives_mb in 50u64..5000) {
        let mut world = World::new(&programs);
        let mut planner = planner(&machine());
        let mut last: Vec<Option<(usize, u64)>> = vec![None; programs.len()];
        let mut latest = 0;
        for window in 0..400u64 {
            let plan = world.step(&mut planner, arrives_mb);
            for (program, _, to, _) in copies(&plan) {
                if let Some((before, at)) = last[program].filter(|last| last.0 != to) {
                    prop_assert!(window - at > 10, "{program}: to {before} in {at}, to {to} in {window}");
                }
                last[program] = Some((to, window));
                latest = window;
            }
        }
        prop_assert!(latest < 300, "it moves in window {latest}");
    }

    /// Nothing goes where there is no room, and what the node must keep free stays free.
    #[test]
    fn nothing_goes_to_a_tier_without_room(programs in any_programs()) {
        let mut world = World::new(&programs);
        let mut planner = planner(&machine());
        for _ in 0..50 {
            let free = world.free();
            let plan = world.step(&mut planner, 10_000);
            for node in [0, 1] {
                let comes = copies(&plan).into_iter().filter(|copy| copy.2 == node);
                let comes: u64 = comes.map(|copy| copy.3).sum();
                prop_assert!(comes <= free[node], "{comes} of {}", free[node]);
                if node == 0 && comes > 0 {
                    prop_assert!(world.free()[0] + MB >= NEAR_BYTES / 50);
                }
            }
        }
    }

    /// What comes back is used at least as much as what stays away and may come.
    #[test]
    fn the_hottest_come_back_first(programs in any_programs()) {
        let mut world = World::new(&programs);
        let plan = world.step(&mut planner(&machine()), 0);
        let back: Vec<usize> = copies(&plan).iter().filter(|copy| copy.2 == 0).map(|copy| copy.0).collect();
        let coldest = back.iter().map(|program| programs[*program].density).fold(f64::INFINITY, f64::min);
        for (number, program) in programs.iter().enumerate() {
            let stays = program.mb[1] > 1 && !back.contains(&number);
            prop_assert!(!stays || program.density <= coldest, "{number} stays");
        }
    }
}
