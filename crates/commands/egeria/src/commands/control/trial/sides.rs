//! The sides of a trial: no steward, or one with a policy during each run.

use egeria_files::{Error, Result};
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_steward::{Scope, Steward, Summary, Target};
use egeria_trial::side::{Begin, Done, Treatment};

use crate::policy_choice::StewardArguments;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output;

const CACHE_STAYS: &str = "page cache of files was moved and stays there, so that runs without a steward profit as well; give a --before that reads the files as they are read at first";
const MEMORY_STAYS: &str = "memory that was moved stays there as long as its process lives, so that blocks without a steward profit as well; try a command that starts the program, with `-- CMD`";

/// How the stewards of a trial are started.
pub(super) struct Stewards<'a> {
    pub(super) arguments: &'a StewardArguments,
    pub(super) machine: &'a Machine,
    pub(super) scope: Scope,
    /// A command of the user prepares each run, as by reading files again as before.
    pub(super) is_prepared: bool,
}

impl Stewards<'_> {
    /// Starts every policy once, so that what it cannot do costs no run. The first undoes what a killed steward left.
    pub(super) fn check(&self, policies: &[System]) -> Outcome {
        for policy in policies.iter().filter(|policy| **policy != System::Off) {
            let begun = self.start(*policy)?.stop();
            if begun.restored_at_start > 0 {
                output::complain(&format!(
                    "a steward was killed here; {} threads have their CPUs back",
                    begun.restored_at_start
                ));
            }
        }
        Ok(())
    }

    /// What begins a steward with this policy; `None` for none.
    pub(super) fn begin(&self, policy: System) -> Option<Begin<'_>> {
        if policy == System::Off {
            return None;
        }
        Some(Box::new(move || -> Result<Box<dyn Treatment>> {
            let steward = self.start(policy).map_err(cause)?;
            let lives_on = !matches!(self.scope, Scope::Tree(_));
            let is_prepared = self.is_prepared;
            Ok(Box::new(WithSteward {
                steward,
                lives_on,
                is_prepared,
            }))
        }))
    }

    fn start(&self, policy: System) -> Outcome<Steward> {
        let scope = self.scope.clone();
        (self.arguments).start(Target::Processes, self.machine, policy, scope)
    }
}

fn cause(failure: Failure) -> Error {
    match failure {
        Failure::Cause(line) | Failure::Usage(line) | Failure::Status(_, line) => {
            Error::Failed(line)
        }
        Failure::Interrupted(_) | Failure::BrokenPipe => Error::Interrupted,
    }
}

/// A steward during one run. Dropping it restores everything, too.
struct WithSteward {
    steward: Steward,
    /// Its processes do not end with the run.
    lives_on: bool,
    /// A command of the user prepares each run.
    is_prepared: bool,
}

impl Treatment for WithSteward {
    fn end(self: Box<Self>) -> Done {
        let Summary {
            moves,
            process_moves,
            memory_moved_bytes,
            no_moves_because,
            unavailable,
            unseen,
            actions,
            ..
        } = self.steward.stop();
        let is_other = |action: &str| {
            let counted = ["migrate_thread", "migrate_process", "migrate_memory"];
            !counted.contains(&action)
        };
        let done = actions.into_iter().filter(|each| each.outcome == "done");
        let others = done.filter(|each| is_other(&each.action));
        let others: Vec<(String, u64)> = others.map(|each| (each.action, each.count)).collect();
        let moved_files = others.iter().any(|(action, _)| action == "relocate");
        let stays = match (memory_moved_bytes > 0 && self.lives_on, moved_files) {
            (true, _) => Some(MEMORY_STAYS),
            (false, true) if !self.is_prepared => Some(CACHE_STAYS),
            _ => None,
        };
        Done {
            threads_moved: moves,
            processes_moved: process_moves,
            memory_moved_bytes,
            others,
            nothing_because: no_moves_because,
            stays: stays.map(str::to_owned),
            limits: unavailable.into_iter().chain(unseen).collect(),
        }
    }
}
