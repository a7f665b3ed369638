//! Memory that is ordered to where it is used, and what policies hear of it.

use std::cell::RefCell;

use egeria_facts::{AccessWindow, Facts};
use egeria_machine::{Machine, NodeId};
use egeria_policy::ActionKind;
use egeria_policy::asymsched::{MemoryAction, MemoryCost, MemoryStep};
use egeria_policy::planner::{Decision, Policy, Settings, System};
use egeria_sim::{Options, Workload};

thread_local! {
    /// From which node to which, and how much: ordered once, after the first window.
    static ORDER: RefCell<Vec<(NodeId, NodeId, u64)>> = const { RefCell::new(Vec::new()) };
    /// What the policy heard.
    static HEARD: RefCell<Vec<AccessWindow>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
struct Once;

impl Policy for Once {
    fn decide(&mut self, _machine: &Machine, facts: &Facts) -> Decision {
        let mut decision = Decision::none(facts.window.number);
        HEARD.with_borrow_mut(|heard| heard.push(facts.accesses.clone()));
        let copies = ORDER.take();
        if !copies.is_empty() {
            decision.placement.memory.push(MemoryStep {
                process: facts.accesses.processes[0].process,
                action: MemoryAction::Gather {
                    remote_share: 1.0,
                    remote_then: 0.0,
                    tier: None,
                    copies,
                    cost_ns: 0,
                    cost: MemoryCost::default(),
                    others_ns: 0,
                    advance_ns: 0,
                    wait_ns: 0,
                },
            });
        }
        decision
    }
}

fn make(_machine: &Machine, _settings: &Settings, _kinds: &[ActionKind]) -> Box<dyn Policy> {
    Box::new(Once)
}

/// What the policy heard in each window, when it ordered these copies after the first.
fn heard(machine: &Machine, text: &str, copies: &[(u16, u16, u64)]) -> Vec<AccessWindow> {
    let copies = copies.iter();
    let copies = copies.map(|(from, to, bytes)| (NodeId(*from), NodeId(*to), *bytes));
    ORDER.set(copies.collect());
    HEARD.take();
    let options = Options {
        policy: make,
        migration_s_per_gb: 0.1,
        ..Options::of(System::All)
    };
    let workload = Workload::from_toml(text, "gather").unwrap();
    egeria_sim::run(machine, &workload, &options).unwrap();
    HEARD.take()
}

fn resident(window: &AccessWindow) -> Vec<u64> {
    let mut nodes = [0, 0];
    for region in window.processes.iter().flat_map(|process| &process.regions) {
        for (sum, bytes) in nodes.iter_mut().zip(&region.resident_bytes) {
            *sum += bytes;
        }
    }
    nodes.to_vec()
}

fn near(found: &[u64], wanted: &[u64]) {
    let mut both = found.iter().zip(wanted);
    assert!(
        both.all(|(one, other)| one.abs_diff(*other) < 1000),
        "{found:?}, not {wanted:?}"
    );
}

/// Two nodes with this much memory each.
fn machine(bytes: u64) -> Machine {
    let mut machine = Machine::profile("xeon-2s-dram").unwrap();
    for node in &mut machine.nodes {
        node.memory_bytes = bytes;
        node.hardware.memories[0].bytes = bytes;
    }
    machine
}

/// Two threads on each node; each has 300 MB on the other.
const SWAPPED: &str = "
    name = 'swapped'
    seconds = 60.0
    [[files]]
    name = 'heap'
    count = 4
    bytes = 300_000_000
    nodes = [1, 0]
    in_turn = true
    medium = 'memory'
    [[threads]]
    name = 'program'
    count = 4
    files = 'heap'
    start_nodes = [0, 1]
    [[threads.phases]]
    read_share = 1.0
    request_bytes = 64
    at_once = true
";

#[test]
fn regions_say_which_node_uses_what_and_where_it_is() {
    let heard = heard(&machine(2_000_000_000), SWAPPED, &[]);
    let [first, second] = &heard[0].processes[0].regions[..] else {
        panic!("{heard:?}");
    };
    assert_eq!(first.resident_bytes, [0, 600_000_000]);
    assert_eq!(second.resident_bytes, [600_000_000, 0]);
    assert!(first.accesses_s[0] > 1e6 && first.accesses_s[1] == 0.0);
    assert!(second.accesses_s[1] > 1e6 && second.accesses_s[0] == 0.0);
    assert_eq!(heard[0].free_bytes, [1_400_000_000; 2]);
    heard[0].validate(&machine(2_000_000_000)).unwrap();
}

#[test]
fn room_is_not_known_where_sizes_are_not() {
    let dram = Machine::profile("dram-2s").unwrap();
    assert_eq!(heard(&dram, SWAPPED, &[])[0].free_bytes, [0; 0]);
}

#[test]
fn nodes_exchange_memory_though_little_is_free() {
    let order = [(0, 1, 600_000_000), (1, 0, 600_000_000)];
    let heard = heard(&machine(650_000_000), SWAPPED, &order);
    let last = heard.last().unwrap();
    near(&resident(last), &[600_000_000; 2]);
    for region in &last.processes[0].regions {
        let here = region.accesses_s.iter().position(|rate| *rate > 0.0);
        assert!(region.resident_bytes[here.unwrap()] > 599_000_000);
    }
}

#[test]
fn no_more_memory_goes_than_was_ordered() {
    let heard = heard(&machine(2_000_000_000), SWAPPED, &[(0, 1, 100_000_000)]);
    near(
        &resident(heard.last().unwrap()),
        &[500_000_000, 700_000_000],
    );
}

#[test]
fn no_memory_goes_where_there_is_no_room() {
    let heard = heard(&machine(700_000_000), SWAPPED, &[(0, 1, 600_000_000)]);
    near(
        &resident(heard.last().unwrap()),
        &[500_000_000, 700_000_000],
    );
    assert_eq!(heard.last().unwrap().free_bytes[1], 0);
}

/// The budget is 5 % of the time, and a gigabyte takes 0.1 s: half a gigabyte per second.
#[test]
fn ordered_memory_goes_as_fast_as_the_budget_allows() {
    let budget = Options::of(System::All).planner.migration_share();
    let heard = heard(&machine(2_000_000_000), SWAPPED, &[(0, 1, 600_000_000)]);
    let spent = |window: &AccessWindow| window.processes[0].migrating_ns as f64;
    for window in &heard {
        assert!(spent(window) <= window.end_ns as f64 * budget * 1.001);
    }
    let last = heard.last().unwrap();
    assert!((spent(last) - 6e7).abs() < 1e5, "{}", spent(last));
}

/// What threads of the target node use comes first, and what others use stays where it is.
#[test]
fn memory_that_the_target_uses_goes_first() {
    let text = SWAPPED
        .replace("nodes = [1, 0]", "node = 0")
        .replace("in_turn = true", "");
    let heard = heard(&machine(2_000_000_000), &text, &[(0, 1, 600_000_000)]);
    for region in &heard.last().unwrap().processes[0].regions {
        let here = region.accesses_s.iter().position(|rate| *rate > 0.0);
        assert_eq!(region.resident_bytes[1 - here.unwrap()], 0, "{region:?}");
    }
}
