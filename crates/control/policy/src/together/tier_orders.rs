//! Orders for memory that goes from tier to tier.

use egeria_machine::NodeId;

use super::basis::Basis;
use super::estimate::Estimate;
use super::memory::{SMALL_BYTES, bytes_of, gather};
use super::orders::Orders;
use super::tiers::{self, Copies};
use crate::asymsched::{Decision, PlacementPlan, TierMove};

impl Orders {
    /// What goes from tier to tier in this window; nothing while a placement is judged.
    pub(super) fn change_tiers(
        &mut self,
        basis: &Basis<'_>,
        estimate: &Estimate,
        plan: &mut PlacementPlan,
    ) {
        if self.trial.is_some() {
            return;
        }
        let moves = tiers::moves(basis, estimate, &self.tiers, |process| {
            self.left_bytes(process).is_none() && !(basis.is_following)(process)
        });
        for (copies, why) in moves {
            self.order_tier(basis, (copies, why), plan);
        }
    }

    fn order_tier(
        &mut self,
        basis: &Basis<'_>,
        (copies, why): (Copies, TierMove),
        plan: &mut PlacementPlan,
    ) {
        let id = |node: usize| basis.machine.nodes[node].id;
        for (process, copies) in copies {
            let copies: Vec<(NodeId, NodeId, u64)> = copies
                .into_iter()
                .map(|(from, to, bytes)| (id(from), id(to), bytes as u64))
                .collect();
            let mut processes = basis.window.processes.iter();
            let facts = processes.find(|facts| facts.process == process);
            let is_worth = bytes_of(&copies) >= SMALL_BYTES && !plan.changes_process(process);
            let Some(facts) = facts.filter(|_| is_worth) else {
                continue;
            };
            let advance_ns = basis.advance_ns(0.0);
            self.add_copies(basis, process, &copies, advance_ns);
            let is_down = matches!(why, TierMove::Demoted { .. });
            self.tiers.note(process, is_down);
            let step = gather(
                basis,
                facts,
                copies,
                Some(why),
                (0.0, 0.0),
                (false, advance_ns),
            );
            plan.memory.push(step);
            plan.decision = Decision::Tiers;
        }
    }
}
