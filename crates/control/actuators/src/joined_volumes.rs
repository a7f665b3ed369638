//! What is done to the volumes that a steward of the machine has joined: limits, delegation and relocation, for all of
//! them together, while they come and go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egeria_engine::Volume;
use egeria_facts::Facts;
use egeria_machine::{Machine, NodeId};
use egeria_policy::control::Actuator;
use egeria_policy::planner::Limit;
use egeria_policy::{Action, ActionKind, ActionOutcome};

use crate::movable::refused;
use crate::{AccessDelegation, AdmissionLimits, FileRelocation};

/// The volumes joined, by their number in keys of files. Clones share them.
#[derive(Clone, Default)]
pub struct JoinedVolumes(Arc<Mutex<BTreeMap<u32, JoinedVolume>>>);

struct JoinedVolume {
    volume: Arc<Volume>,
    /// The most threads at the persistent memory of each node in the last window.
    demand: Vec<(NodeId, u32)>,
}

impl JoinedVolumes {
    /// A volume was joined.
    pub fn add(&self, number: u32, volume: Arc<Volume>) {
        let demand = Vec::new();
        self.all().insert(number, JoinedVolume { volume, demand });
    }

    /// A volume was left.
    pub fn remove(&self, number: u32) {
        self.all().remove(&number);
    }

    /// How many threads were at a volume's persistent memory, by node.
    pub fn set_demand(&self, number: u32, demand: Vec<(NodeId, u32)>) {
        if let Some(joined) = self.all().get_mut(&number) {
            joined.demand = demand;
        }
    }

    fn volumes(&self) -> Vec<(u32, Arc<Volume>)> {
        let all = self.all();
        let volumes = all
            .iter()
            .map(|(number, each)| (*number, Arc::clone(&each.volume)));
        volumes.collect()
    }

    fn demand(&self, number: u32, node: NodeId) -> u32 {
        let all = self.all();
        let demand = all
            .get(&number)
            .and_then(|joined| joined.demand.iter().find(|(on, _)| *on == node));
        demand.map_or(0, |(_, threads)| *threads)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, JoinedVolume>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out on each volume what is decided for the machine.
pub struct VolumeActuators {
    joined: JoinedVolumes,
    machine: Machine,
    kinds: Vec<ActionKind>,
    /// What moves files outside of volumes.
    other_files: Option<FileRelocation>,
    limits: BTreeMap<NodeId, Limit>,
    delegation: Option<Action>,
    each: BTreeMap<u32, OfVolume>,
}

/// What acts on one volume; dropped, it takes back what it did.
#[derive(Default)]
struct OfVolume {
    limits: Option<AdmissionLimits>,
    delegation: Option<AccessDelegation>,
    relocation: Option<FileRelocation>,
    /// Its share of each node's limit, as it was set.
    shares: BTreeMap<NodeId, u32>,
}

impl VolumeActuators {
    /// Takes actions of these kinds for the volumes joined, and moves of other files.
    pub fn new(
        joined: JoinedVolumes,
        machine: &Machine,
        kinds: Vec<ActionKind>,
        other_files: Option<FileRelocation>,
    ) -> VolumeActuators {
        VolumeActuators {
            joined,
            machine: machine.clone(),
            kinds,
            other_files,
            limits: BTreeMap::new(),
            delegation: None,
            each: BTreeMap::new(),
        }
    }

    /// Begins with volumes that were joined, and leaves those that were left.
    fn follow(&mut self, facts: &Facts) {
        let volumes = self.joined.volumes();
        let is_joined = |number: &u32| volumes.iter().any(|(joined, _)| joined == number);
        self.each.retain(|number, _| is_joined(number));
        for (number, volume) in volumes {
            if self.each.contains_key(&number) {
                continue;
            }
            let mut new = self.begin(volume);
            if let (Some(rule), Some(delegation)) = (&self.delegation, &mut new.delegation) {
                delegation.apply(rule, facts);
            }
            self.each.insert(number, new);
        }
    }

    fn begin(&self, volume: Arc<Volume>) -> OfVolume {
        let takes = |kind| self.kinds.contains(&kind);
        let again = || Arc::clone(&volume);
        let mut nodes = volume.pool_nodes();
        nodes.sort_unstable();
        nodes.dedup();
        let is_on_several = nodes.len() > 1;
        OfVolume {
            limits: takes(ActionKind::AdmissionLimit)
                .then(|| AdmissionLimits::begin(again(), &self.machine).ok())
                .flatten(),
            delegation: (takes(ActionKind::Delegation) && is_on_several)
                .then(|| AccessDelegation::begin(again())),
            relocation: (takes(ActionKind::Relocation) && is_on_several)
                .then(|| FileRelocation::of_volume(again(), &self.machine).ok())
                .flatten(),
            shares: BTreeMap::new(),
        }
    }

    /// Gives each volume its share of a node's limit.
    fn share_out(&mut self, limit: &Limit, facts: &Facts) -> ActionOutcome {
        let node = limit.node;
        let limited = self
            .each
            .iter_mut()
            .filter(|(_, each)| each.limits.is_some());
        let mut limited: Vec<(&u32, &mut OfVolume)> = limited.collect();
        let demand = |number: &u32| self.joined.demand(*number, node);
        let demands: Vec<u32> = limited.iter().map(|(number, _)| demand(number)).collect();
        let shares = shares(limit.threads, &demands);
        let mut outcome = refused("no volume in use counts its requests");
        for ((_, each), share) in limited.iter_mut().zip(shares) {
            if each.shares.get(&node) == Some(&share) {
                outcome = ActionOutcome::Done;
                continue;
            }
            let threads = share;
            let of_volume = Action::SetLimit(Limit { threads, ..*limit });
            let actuator = each.limits.as_mut();
            let set = actuator.map(|limits| limits.apply(&of_volume, facts));
            outcome = set.unwrap_or(ActionOutcome::Vanished);
            if outcome != ActionOutcome::Done {
                return outcome;
            }
            each.shares.insert(node, share);
        }
        outcome
    }

    fn lift(&mut self, node: NodeId, facts: &Facts) -> ActionOutcome {
        self.limits.remove(&node);
        let mut outcome = ActionOutcome::Done;
        for each in self.each.values_mut() {
            each.shares.remove(&node);
            let lifted = each.limits.as_mut();
            let lifted = lifted.map(|limits| limits.apply(&Action::LiftLimit { node }, facts));
            outcome = lifted.unwrap_or(outcome);
        }
        outcome
    }

    fn delegate(&mut self, rule: &Action, facts: &Facts) -> ActionOutcome {
        self.delegation = Some(rule.clone());
        let volumes = self.each.values_mut();
        let outcomes =
            volumes.filter_map(|each| Some(each.delegation.as_mut()?.apply(rule, facts)));
        let outcomes: Vec<ActionOutcome> = outcomes.collect();
        let failed = outcomes
            .iter()
            .find(|outcome| **outcome != ActionOutcome::Done);
        failed
            .or(outcomes.first())
            .cloned()
            .unwrap_or_else(|| refused("no volume in use has pools on several nodes"))
    }
}

/// Shares of a limit in proportion to how many threads were there; each volume may admit at least one.
fn shares(threads: u32, demands: &[u32]) -> Vec<u32> {
    let all: u64 = demands.iter().map(|demand| u64::from(*demand)).sum();
    let share = |demand: &u32| match (u64::from(threads) * u64::from(*demand)).checked_div(all) {
        Some(share) => u32::try_from(share).unwrap_or(threads).max(1),
        None => threads.max(1),
    };
    demands.iter().map(share).collect()
}

impl Actuator for VolumeActuators {
    fn kinds(&self) -> &[ActionKind] {
        &self.kinds
    }

    fn apply(&mut self, action: &Action, facts: &Facts) -> ActionOutcome {
        self.follow(facts);
        match action {
            Action::SetLimit(limit) => {
                self.limits.insert(limit.node, *limit);
                self.share_out(limit, facts)
            }
            Action::LiftLimit { node } => self.lift(*node, facts),
            Action::SetDelegation { .. } => self.delegate(action, facts),
            Action::Relocate(step) => {
                let of_volume = self.each.get_mut(&step.file.volume);
                let mover = match of_volume {
                    Some(each) => each.relocation.as_mut(),
                    None => self.other_files.as_mut(),
                };
                mover.map_or(ActionOutcome::Vanished, |mover| mover.apply(action, facts))
            }
            _ => ActionOutcome::NoActuator,
        }
    }

    fn is_under_way(&self, action: &Action) -> bool {
        let Action::Relocate(step) = action else {
            return false;
        };
        let mover = match self.each.get(&step.file.volume) {
            Some(each) => each.relocation.as_ref(),
            None => self.other_files.as_ref(),
        };
        mover.is_some_and(|mover| mover.is_under_way(action))
    }

    /// Volumes that were joined get the limits and the rule in force, and shares follow demand.
    fn end_window(&mut self, facts: &Facts) {
        self.follow(facts);
        let limits: Vec<Limit> = self.limits.values().copied().collect();
        for limit in limits {
            self.share_out(&limit, facts);
        }
    }

    fn undo(&mut self) -> usize {
        let undone = |each: &mut OfVolume| {
            let limits = each.limits.as_mut().map_or(0, Actuator::undo);
            limits + each.delegation.as_mut().map_or(0, Actuator::undo)
        };
        self.each.values_mut().map(undone).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_shared_out_by_demand() {
        assert_eq!(shares(8, &[3, 1]), [6, 2]);
        assert_eq!(shares(8, &[100, 0]), [8, 1]);
        assert_eq!(shares(1, &[5, 5]), [1, 1]);
        assert_eq!(shares(4, &[0, 0]), [4, 4]);
        assert_eq!(shares(4, &[]), Vec::<u32>::new());
        assert_eq!(shares(u32::MAX, &[u32::MAX, u32::MAX])[0], u32::MAX / 2);
    }
}
