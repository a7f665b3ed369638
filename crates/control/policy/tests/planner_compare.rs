//! Work that begins after threads moved is compared with how it goes where they were.

use crate::common;

use common::*;
use egeria_facts::Facts;
use egeria_machine::Machine;
use egeria_policy::Reason;
use egeria_policy::planner::{Planner, System};

const MB: u64 = 1_000_000;
/// The second kind of work begins with this window.
const CHANGES: usize = 6;

/// One thread on this node and one on node 0, both with their data on node 0.
fn readers(machine: &Machine, node: usize, speed: f64) -> Facts {
    let bytes = (500.0 * speed) as u64 * MB;
    let mover = thread(machine, 1, node, &[bytes, 0], 0, 0.2);
    let beside = thread(machine, 2, 0, &[bytes, 0], 0, 0.2);
    Facts::of(window(machine, vec![mover, beside]))
}

/// Where the first thread is after each window, and the reason of its step if it was compared; both threads get
/// `speed(window, node)`.
fn history(
    windows: usize,
    speed: impl Fn(usize, usize) -> f64,
) -> Vec<(usize, Option<Option<f64>>)> {
    let machine = machine(2);
    let mut planner = Planner::new(&machine, System::All.settings());
    let mut node = 1;
    let mut all = Vec::new();
    for number in 0..windows {
        let facts = readers(&machine, node, speed(number, node));
        let decision = planner.decide(&machine, &facts);
        let step = decision.threads.move_of(key(1));
        node = step.map_or(node, |step| usize::from(step.to.0));
        let compared = step.and_then(|step| match step.reason {
            Reason::Compared { speed } => Some(speed),
            _ => None,
        });
        all.push((node, compared));
    }
    all
}

/// Work that goes well on node 0 first; then such that gets `old` on node 1 and `new` on node 0.
fn changing(number: usize, node: usize, old: f64, new: f64) -> f64 {
    match (number < CHANGES, node) {
        (true, 0) => 1.0,
        (true, _) => 0.9,
        (false, 0) => new,
        (false, _) => old,
    }
}

#[test]
fn threads_stay_at_the_old_places_while_work_goes_better_there() {
    let all = history(16, |number, node| changing(number, node, 2.0, 0.5));
    assert_eq!(all[0], (0, None), "{all:?}");
    // One look: they go for a window, and stay.
    assert_eq!(all[CHANGES + 1], (1, Some(None)), "{all:?}");
    let stays = all[CHANGES + 2..].iter().all(|each| *each == (1, None));
    assert!(stays, "{all:?}");
}

#[test]
fn threads_go_on_where_work_goes_no_better_at_the_old_places() {
    let all = history(30, |number, node| changing(number, node, 1.0, 2.0));
    assert_eq!(all[CHANGES + 1], (1, Some(None)), "{all:?}");
    assert_eq!(all[CHANGES + 2], (0, Some(Some(2.0))), "{all:?}");
    // What was compared is not compared again.
    let stays = all[CHANGES + 3..].iter().all(|each| *each == (0, None));
    assert!(stays, "{all:?}");
}

#[test]
fn looks_lose_no_more_than_a_part_of_the_time() {
    // New work every other window, which gets a hundredth at the old place.
    let speed = |number: usize, node: usize| {
        let kind = match number.checked_sub(CHANGES) {
            Some(after) => {
                [0.5, 2.0, 0.25, 1.4, 0.7, 1.0][after / 2 % 6] * (1.0 + after as f64 / 100.0)
            }
            None => 1.0,
        };
        if number >= CHANGES && node == 1 {
            kind / 100.0
        } else {
            kind
        }
    };
    let all = history(200, speed);
    let away = all.iter().filter(|each| each.0 == 1).count();
    assert!((1..=6).contains(&away), "{away}: {all:?}");
}

#[test]
fn work_that_does_not_change_is_not_compared() {
    let all = history(40, |_, node| if node == 0 { 1.0 } else { 0.9 });
    assert!(all.iter().all(|each| *each == (0, None)), "{all:?}");
}

#[test]
fn work_whose_speed_swings_by_itself_is_not_compared() {
    let swing = [1.0, 0.7, 1.1, 0.6, 0.9, 1.4, 0.8, 0.55, 1.2];
    let all = history(60, |number, _| swing[number * 7 % swing.len()]);
    let moves = all.iter().filter(|each| each.1.is_some()).count();
    assert_eq!(moves, 0, "{all:?}");
    assert!(all.iter().skip(1).all(|each| each.0 == 0), "{all:?}");
}
