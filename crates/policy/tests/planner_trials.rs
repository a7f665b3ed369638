//! What limits, delegation and migrations bring is measured, and what costs is taken back.

mod common;

use common::{key, machine, thread, window};
use egeria_facts::{Facts, Measured, MediumFacts, Mix};
use egeria_machine::{Machine, NodeId};
use egeria_policy::Reason;
use egeria_policy::planner::{Decision, DelegationPlan, Planner, Settings, System};

const MB: u64 = 1_000_000;
const WRITERS: u32 = 9;

/// Writers on node 0, more than Eq. 1 allows.
fn writers(machine: &Machine, speed: f64) -> Facts {
    let written = (100.0 * speed) as u64 * MB;
    let threads = (1..=WRITERS).map(|id| thread(machine, id, 0, &[], written, 0.1));
    let mix = Mix {
        requests: 1000,
        mean_bytes: 4096.0,
        write_share: 1.0,
    };
    Facts {
        media: vec![MediumFacts {
            node: NodeId(0),
            measured: Measured {
                mix,
                demand: WRITERS,
                pm_bytes_s: 1e9,
                dram_bytes_s: Some(1e9),
            },
            free_bytes: None,
        }],
        ..Facts::of(window(machine, threads.collect()))
    }
}

/// Whether there are limits, and whether accesses are delegated.
fn acts(decision: &Decision) -> (bool, bool) {
    let is_delegated = matches!(decision.delegation, DelegationPlan::On { .. });
    (!decision.limits.is_empty(), is_delegated)
}

/// What acts in each window when threads get `speed(limits, delegation)`.
fn history(settings: &Settings, speed: impl Fn(bool, bool) -> f64) -> Vec<(bool, bool)> {
    let machine = machine(2);
    let mut planner = Planner::new(&machine, settings.clone());
    let mut now = (false, false);
    let mut all = Vec::new();
    for _ in 0..20 {
        let decision = planner.decide(&machine, &writers(&machine, speed(now.0, now.1)));
        now = acts(&decision);
        all.push(now);
    }
    all
}

fn staying() -> Settings {
    let mut settings = System::All.settings();
    settings.nthread.stages =
        egeria_policy::nthread::Settings::of(egeria_policy::nthread::Configuration::Off).stages;
    settings
}

#[test]
fn what_brings_most_is_kept_of_limits_and_delegation() {
    let of = |speeds: [f64; 4]| {
        let all = history(&staying(), |limits, delegation| {
            speeds[usize::from(limits) + 2 * usize::from(delegation)]
        });
        // Each was tried.
        for wanted in [(true, false), (false, true), (true, true)] {
            assert!(all.contains(&wanted), "{all:?}");
        }
        let last = all[all.len() - 1];
        assert!(all[12..].iter().all(|each| *each == last), "{all:?}");
        last
    };
    assert_eq!(of([1.0, 0.8, 0.5, 0.4]), (false, false));
    assert_eq!(of([1.0, 2.0, 1.5, 1.6]), (true, false));
    assert_eq!(of([1.0, 1.2, 1.5, 1.4]), (false, true));
    assert_eq!(of([1.0, 1.2, 1.5, 1.8]), (true, true));
    assert_eq!(of([1.0, 1.0, 1.0, 1.0]), (false, false));
}

#[test]
fn what_is_set_to_always_is_not_tried() {
    let mut settings = staying();
    settings.limits.always = true;
    settings.delegation.always = true;
    let all = history(&settings, |limits, _| if limits { 0.1 } else { 1.0 });
    assert!(all.iter().all(|acts| *acts == (true, true)), "{all:?}");
}

#[test]
fn what_was_found_is_tried_again_after_a_while() {
    let mut settings = staying();
    settings.feedback.retry_windows = 5;
    let all = history(&settings, |_, _| 1.0);
    let tried = all.iter().filter(|acts| **acts == (true, true)).count();
    assert!(tried > 2, "{all:?}");
}

/// One thread on this node and one on node 0; both read from node 0.
fn readers(machine: &Machine, node: usize, speed: f64) -> Facts {
    let bytes = (500.0 * speed) as u64 * MB;
    let mover = thread(machine, 1, node, &[bytes, 0], 0, 0.2);
    let beside = thread(machine, 2, 0, &[bytes, 0], 0, 0.2);
    Facts::of(window(machine, vec![mover, beside]))
}

/// Where the first thread is after each window, and whether it was sent back; it and its neighbour get `speed(node)`.
fn moves(speed: impl Fn(usize, usize) -> f64) -> Vec<(usize, bool)> {
    moves_of(&System::All.settings(), speed)
}

fn moves_of(settings: &Settings, speed: impl Fn(usize, usize) -> f64) -> Vec<(usize, bool)> {
    let machine = machine(2);
    let mut planner = Planner::new(&machine, settings.clone());
    let mut node = 1;
    let mut all = Vec::new();
    for number in 0..12 {
        let facts = readers(&machine, node, speed(number, node));
        let decision = planner.decide(&machine, &facts);
        let step = decision.threads.move_of(key(1));
        node = step.map_or(node, |step| usize::from(step.to.0));
        let back = step.is_some_and(|step| matches!(step.reason, Reason::BroughtLess { .. }));
        all.push((node, back));
    }
    all
}

#[test]
fn migrations_that_cost_all_threads_are_undone_and_not_repeated() {
    let all = moves(|_, node| if node == 0 { 0.5 } else { 1.0 });
    assert_eq!(all[0], (0, false), "{all:?}");
    assert_eq!(all[2], (1, true), "{all:?}");
    assert!(all[3..].iter().all(|each| *each == (1, false)), "{all:?}");
}

#[test]
fn the_way_back_is_paid_from_the_budget() {
    let mut settings = System::All.settings();
    // Of two threads one takes 0.2 s: 4 windows of its process, and the way back 4 more.
    settings.budget.thread_move_ns = 400_000_000;
    let all = moves_of(&settings, |_, node| if node == 0 { 0.5 } else { 1.0 });
    assert!(all[..3].iter().all(|each| *each == (1, false)), "{all:?}");
    assert!(all[3..].iter().all(|each| *each == (0, false)), "{all:?}");
    settings.stages.budget = false;
    let all = moves_of(&settings, |_, node| if node == 0 { 0.5 } else { 1.0 });
    assert_eq!(all[2], (1, true), "{all:?}");
}

#[test]
fn migrations_that_pay_stay() {
    let all = moves(|_, node| if node == 0 { 1.0 } else { 0.8 });
    assert!(all.iter().all(|each| *each == (0, false)), "{all:?}");
}

#[test]
fn work_that_became_slower_by_itself_is_not_held_against_a_migration() {
    // From the second window on all is slower, wherever the thread is.
    let all = moves(|number, _| if number == 0 { 1.0 } else { 0.5 });
    assert_eq!(all[2], (1, true), "{all:?}");
    assert_eq!(all[11].0, 0, "{all:?}");
}
