//! When the loop judges an action: in its time, once, and not at all if another one took its place.

use egeria_facts::{Facts, Measured, MediumFacts, Mix, Window};
use egeria_machine::{Machine, NodeId};
use egeria_policy::control::{Actuator, ControlLoop, Turn};
use egeria_policy::pats::Controller;
use egeria_policy::planner::{Settings, System};
use egeria_policy::{Action, ActionKind, ActionOutcome};

/// Does nothing, and says that it did.
struct Idle;

impl Actuator for Idle {
    fn kinds(&self) -> &[ActionKind] {
        &ActionKind::ALL
    }

    fn apply(&mut self, _: &Action, _: &Facts) -> ActionOutcome {
        ActionOutcome::Done
    }
}

/// The same, and is at it for as many windows.
struct Slow(u32);

impl Actuator for Slow {
    fn kinds(&self) -> &[ActionKind] {
        &ActionKind::ALL
    }

    fn apply(&mut self, _: &Action, _: &Facts) -> ActionOutcome {
        ActionOutcome::Done
    }

    fn end_window(&mut self, _: &Facts) {
        self.0 = self.0.saturating_sub(1);
    }

    fn is_under_way(&self, _: &Action) -> bool {
        self.0 > 0
    }
}

fn machine() -> Machine {
    Machine::profile("optane-2s").expect("a profile")
}

/// So many threads at the persistent memory of node 0, which move so much there.
fn crowd(machine: &Machine, number: u64, demand: u32, pm_bytes_s: f64) -> Facts {
    let window = Window::empty(machine, number, number * 1_000_000_000, 1_000_000_000);
    let measured = Measured {
        mix: Mix {
            requests: 1000,
            mean_bytes: 4096.0,
            write_share: 1.0,
        },
        demand,
        pm_bytes_s,
        dram_bytes_s: None,
    };
    Facts {
        media: vec![MediumFacts {
            node: NodeId(0),
            measured,
            free_bytes: None,
            striped_files: None,
        }],
        ..Facts::of(window)
    }
}

fn settings() -> Settings {
    let mut settings = System::All.settings();
    settings.stages.delegation = false;
    // Trials decide about limits of the formula.
    settings.pats.controller = Controller::Learned;
    settings
}

fn turn(control: &mut ControlLoop, facts: &Facts) -> Turn {
    control.turn(facts, &mut [&mut Idle])
}

#[test]
fn what_takes_further_windows_is_judged_after_them() {
    let machine = machine();
    let mut control = ControlLoop::new(&machine, System::All.make(), settings(), &ActionKind::ALL);
    let mut slow = Slow(4);
    let judged = (0..8).map(|number| {
        let facts = crowd(&machine, number, 24, 1e9);
        let turn = control.turn(&facts, &mut [&mut slow]);
        turn.results
            .iter()
            .filter(|result| result.measured.is_some())
            .count()
    });
    let judged: Vec<usize> = judged.collect();
    // It ended in window 3, so window 4 is the first that shows nothing of it, and is the one that is looked at.
    assert_eq!(judged[..5], [0, 0, 0, 0, 1], "{judged:?}");
}

#[test]
fn a_limit_is_judged_once_in_the_next_window() {
    let machine = machine();
    let mut control = ControlLoop::new(&machine, System::All.make(), settings(), &ActionKind::ALL);
    let first = turn(&mut control, &crowd(&machine, 0, 24, 1e9));
    assert_eq!(first.actions.len(), 1);
    let expected = first.actions[0].expected.expect("an expectation");
    assert!(expected.expected > expected.before, "{expected}");
    let second = turn(&mut control, &crowd(&machine, 1, 24, 1e9));
    assert_eq!(second.results.len(), 1);
    assert_eq!(second.results[0].measured, Some(1e9));
    assert!(second.results[0].missed);
    // It is lifted for that, and what ends something has no expectation to miss.
    assert!(matches!(second.actions[0].action, Action::LiftLimit { .. }));
    assert_eq!(second.actions[0].expected, None);
    let third = turn(&mut control, &crowd(&machine, 2, 24, 1e9));
    assert!(third.results.iter().all(|result| !result.missed));
    assert!(third.actions.is_empty(), "not again for a while");
    assert_eq!(third.decision.resting.len(), 1);
}

#[test]
fn what_the_facts_cannot_show_is_not_judged() {
    let machine = machine();
    let control = ControlLoop::new(&machine, System::All.make(), settings(), &ActionKind::ALL);
    let mut control = control.showing(&[ActionKind::ThreadMigration]);
    let first = turn(&mut control, &crowd(&machine, 0, 24, 1e9));
    assert!(first.actions[0].expected.is_some(), "it is still expected");
    let second = turn(&mut control, &crowd(&machine, 1, 24, 1e9));
    assert_eq!(second.results[0].measured, None);
    assert!(!second.results[0].missed && second.actions.is_empty());
}
