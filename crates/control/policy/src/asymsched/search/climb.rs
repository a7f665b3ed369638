//! Finds a good placement before the search: nodes are exchanged as long as the bound of the clusters' bandwidth
//! rises. The better it is, the more placements the search can skip.

use super::{ROUNDING, Searcher};
use crate::asymsched::clusters::{NodeSet, positions};

/// With at most this number of placements, no good one is looked for first.
const FEW_PLACEMENTS: u64 = 5000;
/// Most exchanges tried in looking for it.
const MAX_EXCHANGES: u64 = 2000;

impl Searcher<'_> {
    /// Step 2: `P_wbw` of a good placement; 0 if a full search is as quick. The placement is also part of the later
    /// search, even if that is cut.
    pub(super) fn climb(&mut self, present: &[NodeSet]) -> f64 {
        if self.layout.placements() <= FEW_PLACEMENTS {
            return 0.0;
        }
        let mut at = present.to_vec();
        let mut bound = self.bound_of(&at);
        let mut steps_left = MAX_EXCHANGES;
        while let Some((better, higher)) = self.best_exchange(&at, bound, &mut steps_left) {
            (at, bound) = (better, higher);
        }
        self.note(&at, bound);
        self.search.considered -= 1;
        self.evaluate(&at).0
    }

    /// The exchange of two nodes that raises the bound most, if one does.
    fn best_exchange(
        &mut self,
        at: &[NodeSet],
        bound: f64,
        steps_left: &mut u64,
    ) -> Option<(Vec<NodeSet>, f64)> {
        let mut best: Option<(Vec<NodeSet>, f64)> = None;
        for (one, group) in self.layout.groups.iter().enumerate() {
            for other in positions(group.pool & !at[one]) {
                for node in positions(at[one] & group.pool) {
                    if *steps_left == 0 {
                        return best;
                    }
                    *steps_left -= 1;
                    let exchanged = exchange(at, node, other);
                    let higher = self.bound_of(&exchanged);
                    let least = best.as_ref().map_or(bound, |(_, least)| *least);
                    if higher > least * (1.0 + ROUNDING) {
                        best = Some((exchanged, higher));
                    }
                }
            }
        }
        best
    }
}

/// The placement with two nodes exchanged between their groups.
fn exchange(at: &[NodeSet], one: usize, other: usize) -> Vec<NodeSet> {
    let exchanged = |set: &NodeSet| {
        let (has_one, has_other) = (set >> one & 1, set >> other & 1);
        set & !(1 << one) & !(1 << other) | has_one << other | has_other << one
    };
    at.iter().map(exchanged).collect()
}
