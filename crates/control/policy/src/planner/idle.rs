//! Why a decision orders nothing.

use egeria_machine::{Machine, format_bandwidth};

use super::decision::{Decision, DelegationPlan};
use super::settings::Settings;
use crate::mba::MbaPlan;
use crate::{Kept, nthread};

impl Decision {
    /// Why this decision orders nothing: lines of the stages that are on, and of what the policy itself says.
    pub fn why_nothing(&self, settings: &Settings, machine: &Machine) -> Vec<String> {
        let stages = &settings.stages;
        let mut lines = self.why_threads_stay();
        if settings.moves_threads() && lines.is_empty() {
            lines.push(self.why_no_thread_is_kept(&settings.nthread));
        }
        lines.extend(self.threads.notes.iter().map(ToString::to_string));
        if stages.clusters {
            lines.push(self.placement.decision.to_string());
        }
        let mut nodes = machine.nodes.iter();
        let no_persistent = !nodes.any(|node| machine.has_bounded_medium(node));
        if stages.limits && self.limits.is_empty() {
            let why = if no_persistent {
                "no node has a limit: no node has persistent memory, or memory that gives less to many threads"
            } else {
                "no node has a limit: no more threads are at the memory of its files than that bears"
            };
            lines.push(why.to_owned());
        }
        if stages.delegation && matches!(self.delegation, DelegationPlan::Off { .. }) {
            lines.push(self.delegation.to_string());
        }
        if stages.mba && matches!(self.mba, MbaPlan::Off { .. }) {
            lines.push(self.mba.to_string());
        }
        if stages.relocation && self.relocations.is_empty() {
            lines.push("no file moves: none is read so much that a copy is repaid".to_owned());
        }
        lines.extend(self.unavailable.iter().map(ToString::to_string));
        lines.extend(self.resting.iter().map(ToString::to_string));
        if lines.is_empty() {
            lines.push(
                "no stage of the planner is on, and the policy gives no reason of its own"
                    .to_owned(),
            );
        }
        lines
    }

    /// One line for each kind of reason for which threads stay.
    fn why_threads_stay(&self) -> Vec<String> {
        let kind = |kept: &Kept| std::mem::discriminant(&kept.because);
        let mut kinds: Vec<(&Kept, usize)> = Vec::new();
        for kept in &self.threads.kept {
            match kinds
                .iter_mut()
                .find(|(first, _)| kind(first) == kind(kept))
            {
                Some((_, count)) => *count += 1,
                None => kinds.push((kept, 1)),
            }
        }
        let line = |(first, count): &(&Kept, usize)| match count {
            1 => format!("a thread stays: {}", first.because),
            _ => format!("{count} threads stay, the first because {}", first.because),
        };
        kinds.iter().map(line).collect()
    }

    fn why_no_thread_is_kept(&self, settings: &nthread::Settings) -> String {
        let plan = &self.threads;
        let threads: u32 = plan.measured.iter().map(|load| load.threads).sum();
        let quiet = plan.quiet_threads;
        if quiet as u64 >= u64::from(threads) {
            let least = format_bandwidth(settings.min_io_bytes_s);
            format!("no thread moves: none of {quiet} reads and writes {least} of files")
        } else if plan.targets.is_empty() {
            let margin = format_bandwidth(settings.read_margin_bytes_s);
            format!("no thread moves: none reads {margin} more from one node than from every other")
        } else {
            "no thread moves: each is where it reads most, and no node is contended".to_owned()
        }
    }
}
