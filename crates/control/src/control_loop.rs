//! One turn of the loop.

use egeria_facts::Facts;
use egeria_machine::Machine;
use egeria_policy::planner::{Balance, Decision, Planner, Settings, Unavailable};
use egeria_policy::{ActionKind, ActionOutcome, ActionRecord, ActionResult, Expectation};

use crate::Actuator;

/// Decides window after window, and passes the actions to actuators.
#[derive(Clone, Debug)]
pub struct ControlLoop {
    machine: Machine,
    settings: Settings,
    kinds: Vec<ActionKind>,
    planner: Planner,
    decision: Decision,
    /// What was done at the end of the window before.
    actions: Vec<ActionRecord>,
}

/// What one turn found, decided and did.
#[derive(Clone, PartialEq, Debug)]
pub struct Turn {
    /// What came of the actions of the turn before.
    pub results: Vec<ActionResult>,
    /// What was decided.
    pub decision: Decision,
    /// What was tried of it, in order.
    pub actions: Vec<ActionRecord>,
}

impl ControlLoop {
    /// A loop that plans what actuators of these kinds can do. Settings from outside should be
    /// [validated](Settings::validate) first.
    pub fn new(machine: &Machine, settings: Settings, kinds: &[ActionKind]) -> ControlLoop {
        ControlLoop {
            planner: Planner::new(machine, settings.clone()).with_actuators(kinds),
            decision: Decision::none(0),
            actions: Vec::new(),
            machine: machine.clone(),
            settings,
            kinds: kinds.to_vec(),
        }
    }

    /// The machine that is planned for.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Stages that the settings ask for, and that are off because no actuator takes their actions.
    pub fn unavailable(&self) -> &[Unavailable] {
        self.planner.unavailable()
    }

    /// What all processes have spent on moves, and may; `None` without a budget.
    pub fn budget(&self) -> Option<Balance> {
        self.planner.budget()
    }

    /// Forgets all windows so far; what was done stays done.
    pub fn start_over(&mut self) {
        *self = ControlLoop::new(&self.machine, self.settings.clone(), &self.kinds);
    }

    /// Takes the facts of a window: looks at what came of the last actions, decides, and acts.
    pub fn turn(&mut self, facts: &Facts, actuators: &mut [&mut dyn Actuator]) -> Turn {
        let results: Vec<ActionResult> = (self.actions.iter())
            .filter(|record| record.outcome == ActionOutcome::Done)
            .map(|record| ActionResult::of(record, &self.machine, facts))
            .collect();
        self.planner.learn(&results);
        let decision = self.planner.decide(&self.machine, facts);
        let actions = decision.actions(&self.decision);
        let records = actions.into_iter().map(|action| {
            let kind = action.kind();
            let mut able = actuators.iter_mut();
            let actuator = able.find(|actuator| actuator.kinds().contains(&kind));
            ActionRecord {
                expected: Expectation::of(&action, &self.machine, facts, &decision.threads),
                outcome: match actuator {
                    Some(actuator) => actuator.apply(&action, facts),
                    None => ActionOutcome::NoActuator,
                },
                action,
            }
        });
        let records: Vec<ActionRecord> = records.collect();
        self.actions.clone_from(&records);
        self.decision.clone_from(&decision);
        Turn {
            results,
            decision,
            actions: records,
        }
    }
}
