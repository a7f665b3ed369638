//! The sides of a trial: nothing, or what accompanies each run: a copy on a volume, warmed files, a steward.

use std::str::FromStr;
use std::sync::Arc;

use egeria_files::{Error, Result};
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_steward::{Scope, Steward, Summary, Target};
use egeria_trial::side::{Begin, Done, Treatment};

use super::cache::Cache;
use super::copy::Copy;
use crate::policy_choice::{self, StewardArguments};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output;

const CACHE_STAYS: &str = "page cache of files was moved and stays there, so that runs without a steward profit as well; give a --before that reads the files as they are read at first";
const MEMORY_STAYS: &str = "memory that was moved stays there as long as its process lives, so that blocks without a steward profit as well; try a command that starts the program, with `-- CMD`";

/// What a side has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wish {
    pub(super) volume: bool,
    pub(super) warm: bool,
    pub(super) policy: System,
}

impl Wish {
    /// Nothing.
    pub(super) const NOTHING: Wish = Wish {
        volume: false,
        warm: false,
        policy: System::Off,
    };

    /// Whether a steward works in it.
    pub(super) fn has_steward(self) -> bool {
        self.policy != System::Off
    }

    /// As typed.
    pub(super) fn name(self) -> String {
        let policy = self.policy.to_string();
        let part = |has: bool, name: &str| has.then(|| name.to_owned());
        let others = [part(self.volume, "volume"), part(self.warm, "warm")];
        let others: Vec<String> = others.into_iter().flatten().collect();
        let policy = (self.has_steward() || others.is_empty()).then_some(policy);
        let parts: Vec<String> = others.into_iter().chain(policy).collect();
        parts.join("+")
    }
}

impl FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Wish, String> {
        let mut wish = Wish::NOTHING;
        for part in text.split('+') {
            match part {
                "volume" => wish.volume = true,
                "warm" => wish.warm = true,
                policy if wish.has_steward() => {
                    return Err(format!(
                        "{policy:?} is a second policy of {text:?}; a side has one"
                    ));
                }
                policy => {
                    let named = policy_choice::policy(policy);
                    wish.policy = named.map_err(|error| format!("{error}; or warm or volume"))?;
                }
            }
        }
        Ok(wish)
    }
}

/// What the sides of a trial are made of.
pub(super) struct Sides<'a> {
    pub(super) arguments: &'a StewardArguments,
    pub(super) machine: &'a Machine,
    pub(super) scope: Scope,
    /// A command of the user prepares each run, as by reading files again as before.
    pub(super) is_prepared: bool,
    pub(super) cache: Option<Cache<'a>>,
    pub(super) copy: Option<Copy>,
}

impl Sides<'_> {
    /// Starts every steward once, so that what it cannot do costs no run. The first undoes what a killed steward left.
    pub(super) fn check(&self, wishes: &[Wish]) -> Outcome {
        for wish in wishes.iter().filter(|wish| wish.has_steward()) {
            let begun = self.start(*wish)?.stop();
            if begun.restored_at_start > 0 {
                output::complain(&format!(
                    "a steward was killed here; {} threads have their CPUs back",
                    begun.restored_at_start
                ));
            }
        }
        Ok(())
    }

    /// What begins all that a side has; `None` for nothing.
    pub(super) fn begin(&self, wish: Wish) -> Option<Begin<'_>> {
        if wish == Wish::NOTHING {
            return None;
        }
        Some(Box::new(move || -> Result<Box<dyn Treatment>> {
            let mut all = All(Vec::new());
            if wish.warm
                && let Some(cache) = &self.cache
            {
                all.0.push(cache.treatment().map_err(cause)?);
            }
            if wish.volume
                && let Some(copy) = &self.copy
            {
                all.0.push(copy.treatment());
            }
            if wish.has_steward() {
                all.0.push(Box::new(WithSteward {
                    steward: self.start(wish).map_err(cause)?,
                    lives_on: !matches!(self.scope, Scope::Tree(_)),
                    is_prepared: self.is_prepared,
                }));
            }
            Ok(Box::new(all))
        }))
    }

    fn start(&self, wish: Wish) -> Outcome<Steward> {
        let volume = self.copy.as_ref().filter(|_| wish.volume);
        let volume = volume.map(Copy::volume);
        let declared = volume.and_then(|volume| volume.declared_machine());
        let machine = declared.as_ref().unwrap_or(self.machine);
        let target = match volume {
            Some(volume) => Target::Volume(Arc::clone(volume)),
            None => Target::Processes,
        };
        let scope = self.scope.clone();
        (self.arguments).start(target, machine, wish.policy, scope)
    }
}

/// Several at once. The last that began ends first, also when they are dropped.
struct All(Vec<Box<dyn Treatment>>);

impl Treatment for All {
    fn machine_s(&self) -> Option<f64> {
        self.0.iter().find_map(|each| each.machine_s())
    }

    fn end(mut self: Box<Self>) -> Done {
        let mut done = Done::default();
        while let Some(last) = self.0.pop() {
            done.add(last.end());
        }
        done
    }
}

impl Drop for All {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// For code that gives back errors of lower layers.
pub(super) fn cause(failure: Failure) -> Error {
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
            ..Done::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_have_the_names_by_which_they_are_typed() {
        for name in [
            "off",
            "all",
            "warm",
            "volume",
            "volume+warm+full",
            "warm+rl",
        ] {
            let wish: Wish = name.parse().expect(name);
            assert_eq!(wish.name(), name);
        }
        let wish: Wish = "full+volume".parse().expect("in any order");
        assert_eq!(wish.name(), "volume+full");
        for wrong in ["", "fast", "rl+full", "volume+"] {
            let line = wrong.parse::<Wish>().expect_err(wrong);
            assert!(line.contains("volume") || line.contains("second"), "{line}");
        }
    }
}
