//! Trials of a service: which one, and how long its blocks are.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use egeria_cli::durations;
use egeria_cli::failure::Outcome;
use egeria_steward::Scope;

use crate::commands::scope::{ScopeArguments, group_of_unit};

/// A service instead of a command.
#[derive(Args, Debug)]
#[group(skip)]
pub struct ServiceArguments {
    /// Try a service that runs on: these processes and their descendants
    #[arg(long, value_name = "PID", num_args = 1.., conflicts_with_all = ["cgroup", "unit"])]
    pid: Vec<u32>,
    /// Try a service: the processes of this control group
    #[arg(long, value_name = "PATH", conflicts_with = "unit")]
    cgroup: Option<PathBuf>,
    /// Try a service: the processes of this unit of systemd
    #[arg(long, value_name = "NAME")]
    unit: Option<String>,
    /// How long each block of a service is measured
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = durations::parse)]
    pub(super) block: Duration,
    /// How long a side is in force before its block is measured
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = durations::parse)]
    pub(super) rest: Duration,
}

/// A service that was named.
pub(super) struct Named {
    /// In words.
    pub(super) words: String,
    pub(super) scope: Scope,
    /// As arguments of `egeria steward`.
    pub(super) arguments: Vec<String>,
}

impl ServiceArguments {
    /// The service, if one is named.
    pub(super) fn named(&self) -> Outcome<Option<Named>> {
        let group = match &self.unit {
            Some(unit) => Some(group_of_unit(unit)?),
            None => self.cgroup.clone(),
        };
        let chosen = ScopeArguments::named(self.pid.clone(), group.clone());
        let words = match (&self.unit, &group, &self.pid[..]) {
            (Some(unit), ..) => format!("unit {unit}"),
            (None, Some(group), _) => format!("control group {}", group.display()),
            (None, None, []) => return Ok(None),
            (None, None, [one]) => format!("process {one}"),
            (None, None, several) => format!("{} processes", several.len()),
        };
        let scope = chosen.scope()?;
        chosen.check_own("trial")?;
        let arguments = match &scope {
            Scope::ControlGroup(path) => vec!["--cgroup".to_owned(), path.clone()],
            _ => {
                let pids = self.pid.iter().map(u32::to_string);
                ["--pid".to_owned()].into_iter().chain(pids).collect()
            }
        };
        Ok(Some(Named {
            words,
            scope,
            arguments,
        }))
    }
}
