//! How many threads may be at the memory of each node's files (PATS), and its delegates (OdinFS). Memory that is not
//! persistent is limited where its curve falls (ours).

use std::collections::BTreeMap;

use egeria_machine::{Machine, NodeId};

use super::decision::{DelegationPlan, Limit};
use super::settings;
use crate::media::{bears, dram_in_use};
use crate::pats::{Because, Controller, Decision, Limiter};
use egeria_facts::MediumFacts;

/// This factor times the threads of Eq. 1 is a crowd (ours): with fewer threads, trials cost more than they find.
const CROWD: u32 = 2;

/// The state of each node's limit, kept from window to window.
#[derive(Clone, Debug, Default)]
pub(super) struct Limiters {
    by_node: BTreeMap<NodeId, Gate>,
}

#[derive(Clone, Debug)]
struct Gate {
    limiter: Limiter,
    /// Windows since more threads were there than the limit; `None` before that.
    unreached: Option<u32>,
    /// Windows since DRAM was in use; `None` before that.
    idle: Option<u32>,
}

impl Limiters {
    /// The limits for the next window. If a node has two entries, the first counts. Nodes that the machine does not
    /// have, or without persistent memory, get none.
    pub(super) fn next(
        &mut self,
        machine: &Machine,
        media: &[MediumFacts],
        settings: &settings::Settings,
    ) -> Vec<Limit> {
        let mut limits: Vec<Limit> = Vec::with_capacity(media.len());
        for facts in media {
            let Some(index) = machine.index_of(facts.node) else {
                continue;
            };
            if limits.iter().any(|limit| limit.node == facts.node) {
                continue;
            }
            // Eqs. 1 to 4 are of persistent memory and of no other; elsewhere the curve decides, if it falls.
            let is_persistent = machine.has_persistent_memory(&machine.nodes[index]);
            let knee = knee(machine, index, facts, settings).filter(|_| !is_persistent);
            if !is_persistent && knee.is_none() {
                continue;
            }
            let new = || Gate {
                limiter: Limiter::new(&settings.pats.on_node(machine, index)),
                unreached: None,
                idle: None,
            };
            let gate = self.by_node.entry(facts.node).or_insert_with(new);
            limits.push(match knee {
                Some(threads) => gate.by_curve(facts, threads),
                None => gate.next(machine, index, facts, settings),
            });
        }
        limits.sort_by_key(|limit| limit.node);
        limits
    }

    /// Whether threads at a node need admission.
    pub(super) fn is_set(&self, node: NodeId, settings: &settings::Limits) -> bool {
        let unreached = self.by_node.get(&node).and_then(|gate| gate.unreached);
        settings.always || unreached.is_some_and(|windows| windows < settings.rest_windows)
    }
}

/// How many threads a memory bears that is not persistent, if its curve falls. The paper limits no such memory.
fn knee(
    machine: &Machine,
    index: usize,
    facts: &MediumFacts,
    settings: &settings::Settings,
) -> Option<u32> {
    let medium = machine.bounded_medium(index);
    let medium = medium.filter(|_| !settings.limits.always)?;
    medium.knee(facts.measured.mix.write_share)
}

impl Gate {
    /// As many threads as a medium bears by its curve.
    fn by_curve(&mut self, facts: &MediumFacts, threads: u32) -> Limit {
        let measured = &facts.measured;
        self.unreached = since(self.unreached, measured.demand > threads);
        Limit {
            node: facts.node,
            threads,
            decision: Decision {
                limit: threads,
                because: Because::Curve { mix: measured.mix },
                tried: None,
            },
            bears: None,
            delegates: None,
        }
    }

    fn next(
        &mut self,
        machine: &Machine,
        index: usize,
        facts: &MediumFacts,
        settings: &settings::Settings,
    ) -> Limit {
        let (measured, rest) = (&facts.measured, settings.limits.rest_windows);
        let decision = self.limiter.next(measured);
        // If DRAM traffic is not measured, DRAM is protected.
        let uses_dram = measured.dram_bytes_s.is_none() || dram_in_use(measured).is_some();
        self.idle = since(self.idle, uses_dram);
        // The learner must see its own limit in force, so its limit is never raised.
        let may_raise = !settings.limits.always && settings.pats.controller == Controller::Formula;
        let is_idle = self.idle.is_none_or(|windows| windows >= rest);
        let bears = bears(machine, index, measured.mix.write_share);
        let bears = bears.filter(|bears| may_raise && is_idle && *bears > decision.limit);
        let threads = bears.unwrap_or(decision.limit);
        // A crowd that the medium bears may still be much faster under Eq. 1, so that is tried.
        let is_tried = may_raise && settings.stages.feedback;
        let is_crowd = is_tried && measured.demand >= decision.limit.saturating_mul(CROWD);
        let is_reached = measured.demand > threads || is_crowd;
        self.unreached = since(self.unreached, is_reached);
        Limit {
            node: facts.node,
            threads,
            decision,
            bears,
            delegates: None,
        }
    }
}

/// Windows since a condition was true, if it ever was.
fn since(windows: Option<u32>, is_so: bool) -> Option<u32> {
    if is_so {
        Some(0)
    } else {
        windows.map(|windows| windows.saturating_add(1))
    }
}

/// No limit is below the number of delegates of its node. They are the threads at its persistent memory, and a thread
/// that waits for a delegate must not wait for its own admission as well. If the media's curves gave the number, the limits
/// bound it; if the settings gave it, the limits are raised.
pub(super) fn admit_delegates(
    limits: &mut [Limit],
    delegation: &mut DelegationPlan,
    settings: &settings::Delegation,
) {
    let DelegationPlan::On {
        delegates_per_node, ..
    } = delegation
    else {
        return;
    };
    if settings.delegates_per_node == 0 {
        let lowest = limits.iter().map(|limit| limit.threads).min();
        *delegates_per_node = lowest.map_or(*delegates_per_node, |lowest| {
            lowest.clamp(1, *delegates_per_node)
        });
    }
    let delegates_per_node = *delegates_per_node;
    for limit in limits {
        if limit.threads < delegates_per_node {
            limit.threads = delegates_per_node;
            (limit.bears, limit.delegates) = (None, Some(delegates_per_node));
        }
    }
}
