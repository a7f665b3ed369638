//! The sides of a trial: no steward, or one with a policy during each run.

use egeria_files::{Error, Result};
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_steward::{Scope, Steward, Summary, Target};
use egeria_trial::commands::{Begin, Done, Side, Treatment};

use super::Arguments;
use crate::policy_choice::StewardArguments;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output;

const CACHE_STAYS: &str = "page cache of files was moved and stays there, so that later runs without a steward profit as well; with --before, a command can read the files again as before";

/// Starts every policy once, so that what it cannot do costs no run. The first undoes what a killed steward left.
pub(super) fn check(
    policies: &[System],
    arguments: &StewardArguments,
    machine: &Machine,
) -> Outcome {
    for policy in policies.iter().filter(|policy| **policy != System::Off) {
        let steward = start(arguments, machine, *policy)?;
        let begun = steward.stop();
        if begun.restored_at_start > 0 {
            output::complain(&format!(
                "a steward was killed here; {} threads have their CPUs back",
                begun.restored_at_start
            ));
        }
    }
    Ok(())
}

/// The steward looks after this process and what it starts.
fn start(arguments: &StewardArguments, machine: &Machine, policy: System) -> Outcome<Steward> {
    let scope = Scope::Tree(std::process::id());
    arguments.start(Target::Processes, machine, policy, scope)
}

/// One side for each policy.
pub(super) fn sides<'a>(
    policies: &[System],
    arguments: &'a Arguments,
    machine: &'a Machine,
) -> Vec<Side<'a>> {
    let side = |policy: &System| Side {
        name: policy.to_string(),
        words: arguments.command.clone(),
        begin: begin(*policy, arguments, machine),
    };
    policies.iter().map(side).collect()
}

fn begin<'a>(policy: System, arguments: &'a Arguments, machine: &'a Machine) -> Option<Begin<'a>> {
    if policy == System::Off {
        return None;
    }
    Some(Box::new(move || -> Result<Box<dyn Treatment>> {
        let steward = start(&arguments.steward, machine, policy).map_err(cause)?;
        Ok(Box::new(WithSteward(steward)))
    }))
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
struct WithSteward(Steward);

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
        } = self.0.stop();
        let is_other = |action: &str| {
            let counted = ["migrate_thread", "migrate_process", "migrate_memory"];
            !counted.contains(&action)
        };
        let done = actions.into_iter().filter(|each| each.outcome == "done");
        let others = done.filter(|each| is_other(&each.action));
        let others: Vec<(String, u64)> = others.map(|each| (each.action, each.count)).collect();
        let moved_files = others.iter().any(|(action, _)| action == "relocate");
        let stays = moved_files.then(|| CACHE_STAYS.to_owned());
        Done {
            threads_moved: moves,
            processes_moved: process_moves,
            memory_moved_bytes,
            others,
            nothing_because: no_moves_because,
            limits: unavailable.into_iter().chain(unseen).chain(stays).collect(),
        }
    }
}
