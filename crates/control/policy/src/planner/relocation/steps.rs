//! A step is taken if there is room for it, its cost can be paid, and copies under way leave enough bandwidth.

use super::Relocations;
use super::candidates::{Candidate, MAX_FILES};
use super::history::UnderWay;
use super::options::{Choice, Kind};
use super::round::{Round, drop_step};
use super::traffic::{Copying, Traffic, Usage};
use super::{Relocate, RelocationReason, RelocationStep};
use crate::planner::ledger::Ledger;

impl Relocations {
    /// Takes a step that is worth it, if it can be taken now.
    pub(super) fn take(
        &mut self,
        round: &mut Round<'_>,
        candidate: &Candidate<'_>,
        choice: &Choice,
        traffic: &Traffic<'_>,
        ledger: &mut Ledger,
    ) -> bool {
        let (from, to) = (round.id(choice.from), round.id(choice.to));
        let action = match choice.kind {
            Kind::Move { .. } => Relocate::Move { from, to },
            Kind::Replicate => Relocate::Replicate { from, to },
        };
        let why = if round.is_contended(choice.from) {
            RelocationReason::ReadContention {
                node: from,
                used_share: round.used_shares[choice.from],
                stretch: traffic.stretch(choice.from),
                stretch_after: choice.stretch_after,
            }
        } else {
            RelocationReason::RemoteReads {
                remote_share: candidate.remote_share(),
                remote_bytes_s: candidate.remote_share() * candidate.read_bytes_s,
            }
        };
        let step = new_step(candidate, action, choice, choice.copying, why);
        let step = RelocationStep {
            bytes: choice.bytes,
            gain_threads: choice.gain_threads,
            ..step
        };
        let ends = (choice.from, choice.to);
        let is_taken = self.order(round, candidate, &candidate.payers, ends, step, ledger);
        if is_taken && choice.kind.threads_follow() {
            let share = round.cpu_of(candidate, choice.to);
            round.cpu_shares[choice.to] += share;
        }
        is_taken
    }

    /// Moves files that are hardly used from a node that lacks room to a node without CPUs, if that makes enough of it.
    /// Returns whether any moves.
    pub(super) fn make_room(
        &mut self,
        round: &mut Round<'_>,
        wanted: &Candidate<'_>,
        choice: &Choice,
        usage: &Usage<'_>,
        ledger: &mut Ledger,
    ) -> bool {
        let Some(capacity_node) = round.capacity_node(choice.to) else {
            return false;
        };
        let missing = round.missing(choice.to, choice.bytes);
        let mut ordered = false;
        for cold in self.enough_cold(round, (choice.to, capacity_node), missing) {
            let bytes = cold.facts.on(choice.to);
            let Some(copying) = usage.copying(choice.to, capacity_node, bytes) else {
                return ordered;
            };
            let action = Relocate::Move {
                from: round.id(choice.to),
                to: round.id(capacity_node),
            };
            let why = RelocationReason::MakesRoom {
                wanted: wanted.facts.file,
                used_bytes_s: used_bytes_s(round, cold),
            };
            let step = RelocationStep {
                bytes,
                ..new_step(cold, action, choice, copying, why)
            };
            let ends = (choice.to, capacity_node);
            ordered |= self.order(round, cold, &wanted.payers, ends, step, ledger);
        }
        ordered
    }

    /// Files on a node that are hardly used, the least read first, with so many bytes that find room on another; none if
    /// there are not enough.
    fn enough_cold<'a>(
        &self,
        round: &Round<'a>,
        (from, to): (usize, usize),
        missing: u64,
    ) -> Vec<&'a Candidate<'a>> {
        let (mut found, mut sum) = (Vec::new(), 0);
        for cold in round.candidates.iter().rev().take(MAX_FILES) {
            let bytes = cold.facts.on(from);
            let is_free = self.is_cold(round, cold) && !round.is_resting(cold, to);
            if sum < missing && bytes > 0 && is_free && round.fits(to, sum + bytes) {
                sum += bytes;
                found.push(cold);
            }
        }
        if sum < missing { Vec::new() } else { found }
    }

    /// Undoes a step after which threads got less, if that can be paid. `false`: to be tried again.
    pub(super) fn go_back(
        &mut self,
        round: &mut Round<'_>,
        step: &RelocationStep,
        speed: f64,
        usage: &Usage<'_>,
        ledger: &mut Ledger,
    ) -> bool {
        let settings = &round.scene.settings.relocation;
        let mut candidates = round.candidates.iter();
        let Some(candidate) = candidates.find(|each| each.facts.file == step.file) else {
            return true;
        };
        let why = RelocationReason::BroughtLess { speed };
        let index = |node| round.scene.machine.index_of(node);
        match step.action {
            Relocate::Replicate { to: on, .. } => {
                let node = index(on).filter(|node| candidate.facts.has_replica(*node));
                if let Some(node) = node {
                    let step = drop_step(step.file, on, why, settings.horizon_ms);
                    round.steps.push(step);
                    self.histories.give_up(candidate.facts.file, settings, node);
                }
                true
            }
            Relocate::Move { from, to } => {
                let Some((source, target)) = index(to).zip(index(from)) else {
                    return true;
                };
                let bytes = step.bytes.min(candidate.facts.on(source));
                let Some(copying) = usage.copying(source, target, bytes) else {
                    return true;
                };
                let back = RelocationStep {
                    action: Relocate::Move { from: to, to: from },
                    bytes,
                    cost_ns: (copying.taken_s * 1e9).ceil() as u64,
                    loss_thread_s: copying.loss_thread_s,
                    gain_threads: 0.0,
                    why,
                    ..step.clone()
                };
                let ends = (source, target);
                bytes == 0
                    || !round.fits(target, bytes)
                    || self.order(round, candidate, &candidate.payers, ends, back, ledger)
            }
            Relocate::Drop { .. } => true,
        }
    }

    /// Whether a file is hardly used and may be moved.
    fn is_cold(&self, round: &Round<'_>, candidate: &Candidate<'_>) -> bool {
        let history = self.histories.of(candidate.facts.file);
        let limit = round.scene.settings.relocation.cold_bytes_s;
        history.is_some_and(|history| history.is_free()) && used_bytes_s(round, candidate) < limit
    }

    /// Orders a copy, if it can be paid and has a rate; cost and rate are charged.
    fn order(
        &mut self,
        round: &mut Round<'_>,
        candidate: &Candidate<'_>,
        payers: &[u32],
        (from, to): (usize, usize),
        mut step: RelocationStep,
        ledger: &mut Ledger,
    ) -> bool {
        let settings = round.scene.settings;
        let is_told = round.steps.iter().any(|other| other.file == step.file);
        let Some(bytes_s) = round.rates.offer(from, to).filter(|_| !is_told) else {
            return false;
        };
        if settings.stages.budget {
            let budget = &settings.budget;
            let affords = |payer: &u32| ledger.balance(*payer, budget).affords(step.cost_ns);
            if payers.is_empty() || !payers.iter().all(affords) {
                return false;
            }
            let charge = |payer: &u32| ledger.charge(*payer, step.cost_ns);
            payers.iter().for_each(charge);
        }
        step.bytes_s = bytes_s;
        round.rates.take(from, to, bytes_s);
        round.fill(to, step.bytes);
        let window_s = round.scene.facts.window.seconds();
        let amount = (step.bytes, bytes_s);
        let copy = UnderWay::new(candidate, step.action, (from, to), amount, window_s);
        let settings = &settings.relocation;
        self.histories.set_off(step.file, settings, copy);
        round.steps.push(step);
        true
    }
}

/// Reads and writes of a file, bytes/s.
fn used_bytes_s(round: &Round<'_>, candidate: &Candidate<'_>) -> f64 {
    let window = &round.scene.facts.window;
    candidate.read_bytes_s + window.rate_bytes_s(candidate.facts.written_bytes)
}

fn new_step(
    candidate: &Candidate<'_>,
    action: Relocate,
    choice: &Choice,
    copying: Copying,
    why: RelocationReason,
) -> RelocationStep {
    RelocationStep {
        file: candidate.facts.file,
        action,
        bytes: 0,
        bytes_s: 0.0,
        // The cast saturates.
        cost_ns: (copying.taken_s * 1e9).ceil() as u64,
        loss_thread_s: copying.loss_thread_s,
        gain_threads: 0.0,
        horizon_ns: (choice.horizon_s * 1e9) as u64,
        why,
    }
}
