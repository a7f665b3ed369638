//! Trials of a service: which one, and how long its blocks are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use egeria_cli::durations;
use egeria_cli::failure::{Failure, Outcome};
use egeria_proc::hierarchy;
use egeria_steward::Scope;

use crate::commands::scope::ScopeArguments;

/// Control groups are not nested deeper.
const MAX_DEPTH: usize = 12;

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
            Some(unit) => Some(group_of(unit)?),
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

/// The control group that systemd made for a unit.
fn group_of(unit: &str) -> Outcome<PathBuf> {
    let names = [unit.to_owned(), format!("{unit}.service")];
    let found = hierarchy().and_then(|top| below(&top, &names, MAX_DEPTH));
    found.ok_or_else(|| {
        Failure::new(format!(
            "no control group is named {unit} or {unit}.service; is the unit running? see `systemctl status {unit}`, or name it with --cgroup"
        ))
    })
}

fn below(directory: &Path, names: &[String], depth: usize) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let is_directory =
        |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let inside: Vec<PathBuf> = entries
        .filter(is_directory)
        .map(|entry| entry.path())
        .collect();
    let is_named = |path: &&PathBuf| {
        let own = path.file_name().and_then(|name| name.to_str());
        own.is_some_and(|own| names.iter().any(|name| name == own))
    };
    if let Some(found) = inside.iter().find(is_named) {
        return Some(found.clone());
    }
    let depth = depth.checked_sub(1)?;
    inside.iter().find_map(|path| below(path, names, depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_found_by_its_name_with_and_without_its_kind() {
        let top = tempfile::tempdir().expect("a directory");
        let group = top.path().join("system.slice/db.service");
        std::fs::create_dir_all(&group).expect("a group");
        for name in ["db", "db.service"] {
            let names = [name.to_owned(), format!("{name}.service")];
            assert_eq!(below(top.path(), &names, MAX_DEPTH), Some(group.clone()));
        }
        let other = ["d".to_owned(), "d.service".to_owned()];
        assert_eq!(below(top.path(), &other, MAX_DEPTH), None);
    }
}
