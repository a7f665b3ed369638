//! What is shown of a replay, whichever way.

use std::path::Path;

use egeria_facts::Facts;
use egeria_machine::Machine;
use egeria_policy::planner::{Settings, System};
use egeria_trace::Reader;

use super::tally::Tally;
use crate::commands::control::recording::{self, Label};
use crate::commands::look::diagnose::Document as Placement;
use egeria_cli::failure::Outcome;

/// What a replay is not.
pub(super) const CAVEAT: &str = "the windows are as recorded: a thread that the replay moves is taken to be \
                      on its new node from the next window on, and writes there, but it is \
                      neither faster nor slower, and reads what it read";

pub(super) struct View<'a> {
    pub(super) trace: &'a Path,
    pub(super) policy: System,
    /// Settings as they were given, `NAME=VALUE`.
    pub(super) changed: &'a [String],
    pub(super) settings: Settings,
    pub(super) windows: u64,
    pub(super) machine: Machine,
    pub(super) label: Label,
    /// One per policy.
    pub(super) tallies: Vec<Tally>,
    /// What is misplaced, and what that costs.
    pub(super) placement: Placement,
}

impl View<'_> {
    /// The recording from its beginning.
    pub(super) fn again(&self) -> Outcome<Reader> {
        recording::again(self.trace, &self.machine)
    }

    /// The windows that were counted, once more: a recording may have grown since.
    pub(super) fn windows<'a>(
        &self,
        reader: &'a mut Reader,
    ) -> impl Iterator<Item = Outcome<Facts>> + use<'a> {
        let count = usize::try_from(self.windows).unwrap_or(usize::MAX);
        recording::facts(reader).take(count)
    }

    /// The tally of the policy asked for.
    pub(super) fn tally(&self) -> &Tally {
        let chosen = |tally: &&Tally| tally.policy == self.policy;
        self.tallies
            .iter()
            .find(chosen)
            .expect("every policy was replayed")
    }
}
