//! What limits, delegation and migrations bring is measured, and what costs is taken back.

use crate::common;

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
            striped_files: None,
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
    history_of(settings, 20, speed)
}

fn history_of(
    settings: &Settings,
    windows: usize,
    speed: impl Fn(bool, bool) -> f64,
) -> Vec<(bool, bool)> {
    let machine = machine(2);
    let mut planner = Planner::new(&machine, settings.clone());
    let mut now = (false, false);
    let mut all = Vec::new();
    for _ in 0..windows {
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
        // Each was tried; both together where neither alone costs much.
        for wanted in [(true, false), (false, true)] {
            assert!(all.contains(&wanted), "{all:?}");
        }
        let is_slow = speeds[1].min(speeds[2]) < 0.9 * speeds[0].max(speeds[1]).max(speeds[2]);
        assert_eq!(all.contains(&(true, true)), !is_slow, "{all:?}");
        let last = all[all.len() - 1];
        assert!(all[12..].iter().all(|each| *each == last), "{all:?}");
        last
    };
    assert_eq!(of([1.0, 0.8, 0.5, 0.4]), (false, false));
    assert_eq!(of([1.0, 2.0, 1.5, 1.6]), (true, false));
    assert_eq!(of([1.0, 1.2, 1.5, 1.4]), (false, true));
    assert_eq!(of([1.0, 1.4, 1.5, 1.8]), (true, true));
    assert_eq!(of([1.0, 1.0, 1.0, 1.0]), (false, false));
}

#[test]
fn what_is_much_slower_is_tried_for_one_window() {
    let all = history(&staying(), |limits, _| if limits { 0.5 } else { 1.0 });
    let with_limits = all.iter().filter(|acts| acts.0).count();
    assert_eq!(with_limits, 1, "{all:?}");
}

/// Threads whose shares of writes waver a little, around whatever value, do the same all the time.
#[test]
fn work_that_wavers_is_tried_once() {
    let machine = machine(2);
    for share in [0.125, 0.25, 0.375, 0.5, 0.625, 0.875] {
        let mut planner = Planner::new(&machine, staying());
        let mut limited = Vec::new();
        let mut now = (false, false);
        for number in 0..60_u32 {
            let speed = if now.0 { 0.7 } else { 1.0 };
            let mut facts = writers(&machine, speed);
            for (index, thread) in facts.window.threads.iter_mut().enumerate() {
                let waver = f64::from((number / 6 * 7 + index as u32 * 5) % 11) / 11.0 - 0.5;
                let all = thread.moved_total() as f64;
                let written = all * (share + 0.1 * waver);
                thread.written_bytes[0] = written as u64;
                thread.read_bytes[0] = (all - written) as u64;
            }
            now = acts(&planner.decide(&machine, &facts));
            limited.push(now.0);
        }
        let late = limited[20..].iter().filter(|is_limited| **is_limited);
        assert_eq!(late.count(), 0, "{share}: {limited:?}");
    }
}

#[test]
fn trials_lose_a_part_of_the_time_and_no_more() {
    // All that is tried stops everything; what is found never holds for long.
    let mut settings = staying();
    settings.feedback.retry_windows = 1;
    let acts = history_of(&settings, 400, |limits, delegation| {
        if limits || delegation { 0.01 } else { 1.0 }
    });
    let lost = acts.iter().filter(|acts| **acts != (false, false)).count();
    assert!((3..=12).contains(&lost), "{lost} of {}", acts.len());
}

/// Has threads read so much of what they wrote.
fn reads(facts: &mut Facts, share: f64) {
    for thread in &mut facts.window.threads {
        let read = (thread.moved_total() as f64 * share) as u64;
        thread.read_bytes[0] = read;
        thread.written_bytes[0] -= read;
    }
}

/// All that is tried stops nearly everything, and work is another each time just then: that such a window is like none before is
/// no reason to try again and again.
#[test]
fn trials_in_which_work_changes_are_paid_for() {
    let machine = machine(2);
    let mut planner = Planner::new(&machine, staying());
    let mut is_tried = false;
    let mut tried = 0_u32;
    for _ in 0..100 {
        let mut facts = writers(&machine, if is_tried { 0.1 } else { 1.0 });
        let threads = facts.window.threads.iter_mut().enumerate();
        for (_, thread) in threads.filter(|(index, _)| is_tried && tried >> index & 1 == 1) {
            thread.read_bytes[0] = std::mem::take(&mut thread.written_bytes[0]);
        }
        is_tried = acts(&planner.decide(&machine, &facts)) != (false, false);
        tried += u32::from(is_tried);
    }
    assert!((1..=6).contains(&tried), "{tried}");
}

/// Work becomes four times as slow for good while something is tried, three times: that is not what was tried.
#[test]
fn slower_work_is_not_held_against_a_trial() {
    let machine = machine(2);
    let mut planner = Planner::new(&machine, staying());
    let mut now = (false, false);
    let mut changes = 0;
    for _ in 0..60 {
        let is_tried = now != (false, false);
        changes += i32::from(is_tried && changes < 3);
        let gain = if changes == 3 && now.0 { 2.0 } else { 1.0 };
        let mut facts = writers(&machine, 0.25_f64.powi(changes) * gain);
        reads(&mut facts, 0.25 * f64::from(changes));
        now = acts(&planner.decide(&machine, &facts));
    }
    assert!(changes == 3 && now.0, "{changes} {now:?}");
}

/// The same writers; from window 10 on all requests are 128 times as long, and delegation costs there.
#[test]
fn longer_requests_are_other_work() {
    let machine = machine(2);
    let mut planner = Planner::new(&machine, staying());
    let mut now = (false, false);
    let mut all = Vec::new();
    for window in 0..40 {
        let is_long = window >= 20;
        let speed = match (is_long, now.1) {
            (false, true) => 2.0,
            (true, true) => 0.5,
            _ => 1.0,
        };
        let mut facts = writers(&machine, speed);
        facts.media[0].measured.mix.mean_bytes = if is_long { 524_288.0 } else { 4096.0 };
        now = acts(&planner.decide(&machine, &facts));
        all.push(now);
    }
    assert!(all[12..19].iter().all(|acts| acts.1), "{all:?}");
    assert!(all[26..].iter().all(|acts| !acts.1), "{all:?}");
}

/// One writer that nothing holds up: only that its accesses are long speaks for delegation.
#[test]
fn delegation_of_long_accesses_is_tried_and_kept_where_it_pays() {
    let machine = machine(2);
    let of = |mean_bytes: f64, gain: f64| {
        let mut planner = Planner::new(&machine, staying());
        let mut now = false;
        for _ in 0..12 {
            let mut facts = writers(&machine, if now { gain } else { 1.0 });
            facts.window.threads.truncate(1);
            let measured = &mut facts.media[0].measured;
            (measured.demand, measured.mix.mean_bytes) = (1, mean_bytes);
            now = acts(&planner.decide(&machine, &facts)).1;
        }
        now
    };
    assert!(of(1e6, 1.5));
    assert!(!of(1e6, 0.9));
    assert!(!of(4096.0, 1.5), "short ones are not tried");
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

/// The window after which a migration of the first window is undone: one to settle, one to compare, and three in which
/// it is learned how much windows differ by chance.
const UNDONE: usize = 5;

#[test]
fn migrations_that_cost_are_undone_and_not_repeated() {
    let all = moves(|_, node| if node == 0 { 0.5 } else { 1.0 });
    let (before, after) = all.split_at(UNDONE);
    assert!(before.iter().all(|each| *each == (0, false)), "{all:?}");
    assert_eq!(after[0], (1, true), "{all:?}");
    assert!(after[1..].iter().all(|each| *each == (1, false)), "{all:?}");
}

/// Where windows differ by a factor, a window after a migration may be slow by chance.
#[test]
fn windows_that_differ_widely_undo_no_migration() {
    let speeds = [1.0, 0.9, 0.35, 1.2, 0.5, 1.1];
    let all = moves(|number, _| speeds[number % speeds.len()]);
    assert!(all.iter().all(|(_, is_back)| !is_back), "{all:?}");
}

/// Three readers on node 1, all of whose data is on node 0, beside a fourth there; what all get hangs on how many have gone.
fn readers_of_phases(machine: &Machine, nodes: &[usize; 3], speed: f64, writes: bool) -> Facts {
    let bytes = (500.0 * speed) as u64 * MB;
    let mut all: Vec<_> = (nodes.iter().zip(1..))
        .map(|(node, id)| thread(machine, id, *node, &[bytes, 0], 0, 0.1))
        .collect();
    // What it does changes with time; it is one of many, so that the others' work is the same.
    let written = if writes { bytes } else { 0 };
    for id in 4..6 {
        all.push(thread(machine, id, 0, &[bytes - written, 0], written, 0.1));
    }
    Facts::of(window(machine, all))
}

#[test]
fn migrations_are_judged_by_a_window_of_the_same_kind() {
    let machine = machine(2);
    let mut planner = Planner::new(&machine, System::All.settings());
    let mut nodes = [1usize; 3];
    let mut all = Vec::new();
    for number in 0..24 {
        // Both kinds of windows in turn, two each; to be on node 0 costs half in both.
        let writes = number / 2 % 2 == 1;
        let speed = if nodes.contains(&0) { 0.5 } else { 1.0 };
        let facts = readers_of_phases(&machine, &nodes, speed, writes);
        let decision = planner.decide(&machine, &facts);
        for step in &decision.threads.moves {
            let index = step.thread.thread_id as usize - 1;
            if let Some(node) = nodes.get_mut(index) {
                *node = usize::from(step.to.0);
            }
        }
        all.push(nodes);
    }
    assert!(all.iter().any(|nodes| nodes.contains(&0)), "{all:?}");
    assert_eq!(all[23], [1, 1, 1], "{all:?}");
}

#[test]
fn the_way_back_is_paid_from_the_budget() {
    let mut settings = System::All.settings();
    // Of two threads one takes 0.2 s: 4 windows of its process, and the way back 4 more.
    settings.budget.thread_move_ns = 400_000_000;
    let all = moves_of(&settings, |_, node| if node == 0 { 0.5 } else { 1.0 });
    assert!(all[..3].iter().all(|each| *each == (1, false)), "{all:?}");
    assert!(all[3..11].iter().all(|each| *each == (0, false)), "{all:?}");
    settings.stages.budget = false;
    let all = moves_of(&settings, |_, node| if node == 0 { 0.5 } else { 1.0 });
    assert_eq!(all[UNDONE], (1, true), "{all:?}");
}

#[test]
fn migrations_that_pay_stay() {
    let all = moves(|_, node| if node == 0 { 1.0 } else { 0.8 });
    assert!(all.iter().all(|each| *each == (0, false)), "{all:?}");
}

#[test]
fn slower_work_is_not_held_against_a_migration() {
    // From the second window on all is slower, wherever the thread is.
    let all = moves(|number, _| if number == 0 { 1.0 } else { 0.5 });
    assert_eq!(all[UNDONE], (1, true), "{all:?}");
    assert_eq!(all[11].0, 0, "{all:?}");
}
