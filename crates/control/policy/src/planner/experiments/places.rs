//! Where threads were, and their moves back.

use std::collections::BTreeMap;

use egeria_facts::{Facts, ThreadKey};
use egeria_machine::NodeId;

use crate::{Move, Reason};

/// The nodes of some threads.
pub(super) type Places = BTreeMap<ThreadKey, NodeId>;

/// The moves to these places, of threads that are elsewhere.
pub(super) fn moves<'a>(
    facts: &Facts,
    places: impl Iterator<Item = (&'a ThreadKey, &'a NodeId)>,
    reason: &Reason,
) -> Vec<Move> {
    let step = |(key, to): (&ThreadKey, &NodeId)| {
        let from = facts.window.thread(*key)?.node;
        (from != *to).then(|| Move {
            thread: *key,
            from,
            to: *to,
            reason: reason.clone(),
        })
    };
    places.filter_map(step).collect()
}
