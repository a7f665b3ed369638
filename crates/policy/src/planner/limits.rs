//! How many threads may be at the persistent memory of each node (PATS), and its delegates (OdinFS).

use std::collections::BTreeMap;

use egeria_machine::{Machine, NodeId};

use super::decision::{DelegationPlan, Limit};
use super::facts::MediumFacts;
use crate::media::modules;
use crate::pats::{Limiter, Settings};

/// The limit of each node, kept from window to window.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    by_node: BTreeMap<NodeId, Limiter>,
}

impl Limits {
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
            let new = || Limiter::new(&on_node(machine, index, settings));
            let limiter = self.by_node.entry(facts.node).or_insert_with(new);
            let decision = limiter.next(&facts.measured);
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
