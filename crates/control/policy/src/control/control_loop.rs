//! One turn of the loop.

use crate::planner::{Balance, Decision, Make, Policy, Settings, Unavailable};
use crate::{ActionKind, ActionOutcome, ActionRecord, ActionResult, Basis, Expectation};
use egeria_facts::Facts;
use egeria_machine::{Machine, NodeId, PoolBandwidth};

use super::actuator::Actuator;

/// Decides one window after the other, and passes the actions to actuators.
#[derive(Debug)]
pub struct ControlLoop {
    machine: Machine,
    make: Make,
    settings: Settings,
    kinds: Vec<ActionKind>,
    policy: Box<dyn Policy>,
    decision: Decision,
    /// Actions that were done and are not judged yet.
    pending: Vec<Pending>,
    /// Kinds of actions that show an effect in the facts.
    shown: Vec<ActionKind>,
}

/// An action, and the windows until it is judged.
#[derive(Clone, Debug)]
struct Pending {
    record: ActionRecord,
    windows_left: u32,
}

/// The facts, decision and actions of one turn.
#[derive(Clone, PartialEq, Debug)]
pub struct Turn {
    /// Results of earlier actions that are judged in this window.
    pub results: Vec<ActionResult>,
    pub decision: Decision,
    /// The actions that were tried, in order.
    pub actions: Vec<ActionRecord>,
}

impl ControlLoop {
    /// A loop of a policy that plans what actuators of these kinds can do. Settings from outside should be
    /// [validated](Settings::validate) first.
    pub fn new(
        machine: &Machine,
        make: Make,
        settings: Settings,
        kinds: &[ActionKind],
    ) -> ControlLoop {
        ControlLoop {
            policy: make(machine, &settings, kinds),
            make,
            decision: Decision::none(0),
            pending: Vec::new(),
            shown: ActionKind::ALL.to_vec(),
            machine: machine.clone(),
            settings,
            kinds: kinds.to_vec(),
        }
    }

    /// A loop for facts that show the effect of only some kinds of actions, such as recordings. Other kinds are not
    /// measured.
    pub fn showing(mut self, kinds: &[ActionKind]) -> ControlLoop {
        self.shown = kinds.to_vec();
        self
    }

    /// Records the measured speed of a node's pool.
    pub fn set_pool_bandwidth(&mut self, node: NodeId, bandwidth: PoolBandwidth) {
        self.machine.set_pool_bandwidth(node, bandwidth);
    }

    /// The machine of the plans.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Stages that the settings ask for, and that are off because no actuator takes their actions.
    pub fn unavailable(&self) -> &[Unavailable] {
        self.policy.unavailable()
    }

    /// What all processes have spent on moves, and may spend; `None` without a budget.
    pub fn budget(&self) -> Option<Balance> {
        self.policy.budget()
    }

    /// Drops all earlier windows; actions that were done stay done.
    pub fn start_over(&mut self) {
        *self = ControlLoop::new(&self.machine, self.make, self.settings.clone(), &self.kinds)
            .showing(&self.shown);
    }

    /// Takes the facts of a window: looks at what came of the last actions, decides, and acts.
    /// Short-lived processes are decided about with their parents.
    pub fn turn(&mut self, facts: &Facts, actuators: &mut [&mut dyn Actuator]) -> Turn {
        let facts: &Facts = &facts.credited();
        let mut results = self.judge(facts);
        self.policy.learn(&results);
        let decision = self.policy.decide(&self.machine, facts);
        let actions = decision.actions(&self.decision);
        let basis = Basis {
            machine: &self.machine,
            facts,
            decision: &decision,
            previous: &self.decision,
            settings: &self.settings,
        };
        let records = actions.into_iter().map(|action| {
            let kind = action.kind();
            let mut able = actuators.iter_mut();
            let actuator = able.find(|actuator| actuator.kinds().contains(&kind));
            ActionRecord {
                expected: Expectation::of(&action, &basis),
                outcome: match actuator {
                    Some(actuator) => actuator.apply(&action, facts),
                    None => ActionOutcome::NoActuator,
                },
                action,
            }
        });
        let records: Vec<ActionRecord> = records.collect();
        for actuator in actuators.iter_mut() {
            actuator.end_window(facts);
        }
        results.extend(self.expect(&records));
        self.wait_for(actuators);
        self.decision.clone_from(&decision);
        Turn {
            results,
            decision,
            actions: records,
        }
    }

    /// The results of actions that are to be judged in this window.
    fn judge(&mut self, facts: &Facts) -> Vec<ActionResult> {
        let mut due = Vec::new();
        self.pending.retain_mut(|pending| {
            pending.windows_left -= 1;
            if pending.windows_left == 0 {
                due.push(pending.record.clone());
            }
            pending.windows_left > 0
        });
        let result = |record: &ActionRecord| {
            if self.shown.contains(&record.action.kind()) {
                ActionResult::of(record, &self.machine, facts)
            } else {
                ActionResult::unmeasured(record)
            }
        };
        due.iter().map(result).collect()
    }

    /// What takes further windows is judged one window after it has ended.
    fn wait_for(&mut self, actuators: &[&mut dyn Actuator]) {
        const WINDOWS: u32 = 2;
        for pending in &mut self.pending {
            let action = &pending.record.action;
            if actuators.iter().any(|each| each.is_under_way(action)) {
                pending.windows_left = pending.windows_left.max(WINDOWS);
            }
        }
    }

    /// Schedules the judgement of actions that were done. If an action replaces one that is not judged yet, the old
    /// one's result is that nothing can be measured. An action that is only repeated is judged from its first begin.
    fn expect(&mut self, records: &[ActionRecord]) -> Vec<ActionResult> {
        let is_done = |record: &&ActionRecord| record.outcome.took_effect();
        let earlier = std::mem::take(&mut self.pending);
        let mut replaced = Vec::new();
        let is_repeated = |record: &ActionRecord| {
            let mut earlier = earlier.iter();
            earlier.any(|pending| pending.record.action == record.action)
        };
        let new: Vec<&ActionRecord> = (records.iter())
            .filter(is_done)
            .filter(|record| !is_repeated(record))
            .collect();
        for pending in &earlier {
            let action = &pending.record.action;
            let replaces = |new: &&&ActionRecord| {
                new.action.kind() == action.kind() && new.action.subject() == action.subject()
            };
            if new.iter().any(|new| replaces(&new)) {
                replaced.push(ActionResult::unmeasured(&pending.record))
            } else {
                self.pending.push(pending.clone())
            }
        }
        self.pending.extend(new.into_iter().map(|record| {
            Pending {
                windows_left: record
                    .expected
                    .map_or(1, |expected| expected.windows.max(1)),
                record: record.clone(),
            }
        }));
        replaced
    }
}
