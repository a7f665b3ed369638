//! How many threads may be at the persistent memory of each node (PATS), and its delegates (OdinFS).

use std::collections::BTreeMap;

use egeria_machine::{Machine, NodeId};

use super::decision::{DelegationPlan, Limit};
use super::facts::MediumFacts;
use super::settings;
use crate::media::modules;
use crate::pats::{Limiter, Settings};

/// The limit of each node, kept from window to window, and the windows since more threads than that were there.
#[derive(Clone, Debug, Default)]
pub(super) struct Limiters {
    by_node: BTreeMap<NodeId, (Limiter, Option<u32>)>,
}

impl Limiters {
    /// The limits for the next window. Of two entries for a node the first counts; nodes that the machine does not have
    /// get none.
    pub(super) fn next(
        &mut self,
        machine: &Machine,
        media: &[MediumFacts],
        settings: &Settings,
    ) -> Vec<Limit> {
        let mut limits: Vec<Limit> = Vec::with_capacity(media.len());
        for facts in media {
            let Some(index) = machine.index_of(facts.node) else {
                continue;
            };
            if limits.iter().any(|limit| limit.node == facts.node) {
                continue;
            }
            let new = || (Limiter::new(&on_node(machine, index, settings)), None);
            let (limiter, rests) = self.by_node.entry(facts.node).or_insert_with(new);
            let decision = limiter.next(&facts.measured);
            *rests = match facts.measured.demand > decision.limit {
                true => Some(0),
                false => rests.map(|windows| windows.saturating_add(1)),
            };
            limits.push(Limit {
                node: facts.node,
                threads: decision.limit,
                decision,
                delegates: None,
            });
        }
        limits.sort_by_key(|limit| limit.node);
        limits
    }
}

impl Limiters {
    /// Whether threads at a node must ask for their turn.
    pub(super) fn is_set(&self, node: NodeId, settings: &settings::Limits) -> bool {
        let rests = self.by_node.get(&node).and_then(|(_, rests)| *rests);
        settings.always || rests.is_some_and(|windows| windows < settings.rest_windows)
    }
}

/// `N` of Eq. 1 is a fact of the machine: where it has one and nobody set another, that is taken.
fn on_node(machine: &Machine, index: usize, settings: &Settings) -> Settings {
    let mut own = settings.clone();
    if own.dimms == Settings::default().dimms {
        own.dimms = modules(machine, index).unwrap_or(own.dimms);
    }
    own
}

/// No limit is below the delegates of its node: they are the threads at its persistent memory, and who waits for a
/// delegate must not wait for his turn as well.
pub(super) fn admit_delegates(limits: &mut [Limit], delegation: &DelegationPlan) {
    let DelegationPlan::On {
        delegates_per_node, ..
    } = *delegation
    else {
        return;
    };
    for limit in limits {
        if limit.threads < delegates_per_node {
            limit.threads = delegates_per_node;
            limit.delegates = Some(delegates_per_node);
        }
    }
}
