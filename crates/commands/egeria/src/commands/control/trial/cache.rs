//! The side `warm`: files brought into the page cache of nodes before each run, and put back after it.

use std::path::PathBuf;

use clap::Args;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::signals::Signals;
use egeria_machine::{Machine, NodeId, format_bytes};
use egeria_pages::warm::{Before, Failures, Plan};
use egeria_trial::side::{Done, Treatment};

use crate::commands::control::named_files::{self, Destination};
use crate::commands::control::warm::{bring, check_room};

/// Files, and where their pages are to be.
#[derive(Args, Debug)]
#[command(next_help_heading = "Side warm")]
pub struct CacheArguments {
    /// Side warm: bring this file, or all below this directory, into the page cache of --node or --spread before each run
    #[arg(long, value_name = "FILE|DIR")]
    pub(super) warm: Vec<PathBuf>,
    #[command(flatten)]
    to: Destination,
}

impl CacheArguments {
    /// What is brought where, if files are named.
    pub(super) fn cache<'a>(
        &'a self,
        machine: &'a Machine,
        signals: &'a Signals,
    ) -> Outcome<Option<Cache<'a>>> {
        match (self.warm.is_empty(), self.to.is_named()) {
            (true, false) => return Ok(None),
            (true, true) => {
                return Err(Failure::Usage(
                    "--node, --spread and --mapped say where files are warmed to; name files with --warm".to_owned(),
                ));
            }
            (false, false) => {
                return Err(Failure::Usage(
                    "--warm does not say which nodes get the files; add --node N, or --spread"
                        .to_owned(),
                ));
            }
            (false, true) => {}
        }
        let cache = Cache {
            nodes: self.to.nodes(machine)?,
            arguments: self,
            machine,
            signals,
        };
        // What cannot be brought costs no run.
        check_room(&cache.plan()?)?;
        Ok(Some(cache))
    }

    /// As arguments of `egeria warm`.
    pub(super) fn words(&self) -> Vec<String> {
        let files = self.warm.iter();
        let files = files.map(|path| path.to_string_lossy().into_owned());
        files.chain(self.to.words()).collect()
    }
}

/// Files that are warmed before each run.
pub(super) struct Cache<'a> {
    arguments: &'a CacheArguments,
    nodes: Vec<NodeId>,
    machine: &'a Machine,
    signals: &'a Signals,
}

impl Cache<'_> {
    /// The files as they are now: runs may make more, and change their sizes.
    fn plan(&self) -> Outcome<Plan> {
        let mut plan = Plan::for_nodes(&self.nodes, self.arguments.to.mapped);
        for path in &self.arguments.warm {
            named_files::add(&mut plan, path, "warm", self.signals)?;
        }
        Ok(plan)
    }

    /// Brings all files.
    pub(super) fn treatment(&self) -> Outcome<Box<dyn Treatment>> {
        let plan = self.plan()?;
        let failed = |error: std::io::Error| {
            Failure::new(format!(
                "cannot warm the files: {error}; try `egeria warm` with the same files"
            ))
        };
        let treatment = Warmed {
            before: Some(plan.look().map_err(failed)?),
        };
        let failures = Failures::default();
        let outcomes = bring(&plan, self.machine, self.signals, &failures, |_, _| ())?;
        if let Some((path, cause)) = failures.into_inner().into_iter().next() {
            return Err(Failure::new(format!(
                "cannot warm {}: {cause}; try `egeria warm` with the same files",
                path.display()
            )));
        }
        let elsewhere = outcomes
            .iter()
            .map(|(_, done)| done.elsewhere + done.missing);
        match elsewhere.sum::<u64>() * rustix::param::page_size() as u64 {
            0 => Ok(Box::new(treatment)),
            bytes => Err(Failure::new(format!(
                "{} are not in the page cache of their node; see `egeria warm` with the same files for the reason",
                format_bytes(bytes)
            ))),
        }
    }
}

/// A run with warmed files. Dropping it puts pages back, too.
struct Warmed {
    before: Option<Before>,
}

impl Warmed {
    /// What is not as it was, in words.
    fn put_back(&mut self) -> Option<String> {
        let left = match self.before.take()?.restore() {
            Ok(0) => return None,
            Ok(bytes) => format_bytes(bytes),
            Err(error) => format!("page cache ({error})"),
        };
        Some(format!(
            "{left} of warmed files could not be put back to where it was, so that other runs may profit as well; give a --before that reads or drops the files as at first"
        ))
    }
}

impl Treatment for Warmed {
    fn end(mut self: Box<Self>) -> Done {
        Done {
            stays: self.put_back(),
            others: vec![("warmed".to_owned(), 1)],
            ..Done::default()
        }
    }
}

impl Drop for Warmed {
    fn drop(&mut self) {
        self.put_back();
    }
}
