//! The `--pid`, `--cgroup` and `--all` arguments, for commands that look at processes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use egeria_cli::failure::{Failure, Outcome};
use egeria_proc::processes::reaches_all_users;
use egeria_proc::{control_group, hierarchy, living, task};
use egeria_steward::Scope;

/// Control groups are not nested deeper.
const MAX_DEPTH: usize = 12;

/// Which processes.
#[derive(Args, Clone, Debug, Default)]
pub struct ScopeArguments {
    /// These processes and their descendants
    #[arg(long, value_name = "PID", num_args = 1.., value_parser = process_id, allow_negative_numbers = true)]
    pid: Vec<u32>,
    /// The processes of this control group and of those below
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pid", "pool"])]
    cgroup: Option<PathBuf>,
    /// All processes; where something is done to them, only yours, but root's steward has those of all users
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "pool"])]
    all: bool,
}

/// Reads a process id.
pub(super) fn process_id(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text:?} is no process id; write a number as `ps` shows it"))
}

impl ScopeArguments {
    /// Whether any are named.
    pub(super) fn is_any(&self) -> bool {
        self.all || self.cgroup.is_some() || !self.pid.is_empty()
    }

    /// Whether all are meant, not some of them.
    pub(super) fn are_all(&self) -> bool {
        self.all
    }

    /// The arguments that mean these processes, or those of a control group.
    pub(super) fn named(pid: Vec<u32>, cgroup: Option<PathBuf>) -> ScopeArguments {
        ScopeArguments {
            pid,
            cgroup,
            all: false,
        }
    }

    /// The arguments that mean the scope named in the configuration.
    pub(super) fn configured(cgroup: Option<&Path>, all: bool) -> ScopeArguments {
        ScopeArguments {
            pid: Vec::new(),
            cgroup: cgroup.map(Path::to_owned),
            all,
        }
    }

    /// The arguments that mean a process and its descendants.
    pub(super) fn of_process(process_id: u32) -> ScopeArguments {
        ScopeArguments {
            pid: vec![process_id],
            ..ScopeArguments::default()
        }
    }

    /// Refuses what a steward of this user would leave alone: programs of others, but for root's. `command` is the one
    /// that is typed.
    pub(super) fn check_own(&self, command: &str) -> Outcome {
        let own = egeria_files::user();
        if reaches_all_users() {
            return Ok(());
        }
        for process in &self.pid {
            let users = task::user_ids(*process, *process);
            let Some(users) = users.filter(|users| *users != [own; 4]) else {
                continue;
            };
            let other = users.into_iter().find(|user| *user != own).unwrap_or(own);
            return Err(Failure::new(format!(
                "process {process} has rights of another user (uid {other}), and is left alone; run as that user: sudo -u '#{other}' egeria {command} …, or as root with CAP_SYS_NICE"
            )));
        }
        Ok(())
    }

    /// Those named, or all.
    pub(super) fn scope(&self) -> Outcome<Scope> {
        let mut processes = self.pid.iter();
        if let Some(gone) = processes.find(|process| task::began(**process).is_none()) {
            return Err(Failure::new(format!(
                "there is no process {gone}; see `ps`, or leave --pid out"
            )));
        }
        if let Some(ended) = self
            .pid
            .iter()
            .find(|process| !living::has_thread(**process))
        {
            return Err(Failure::new(format!(
                "process {ended} has ended, and its parent has not noticed (zombie); name one that runs, see `ps`"
            )));
        }
        if let Some(process) = self
            .pid
            .iter()
            .find(|process| task::is_of_kernel(**process) == Some(true))
        {
            return Err(Failure::new(format!(
                "process {process} is a thread of the kernel, which stays where it is; name a program's"
            )));
        }
        if !self.pid.is_empty() {
            let keys = self
                .pid
                .iter()
                .filter_map(|process| task::process(*process));
            return Ok(Scope::Trees(keys.collect()));
        }
        match &self.cgroup {
            Some(path) => group(path),
            None => Ok(Scope::All),
        }
    }
}

/// A control group as `/sys/fs/cgroup/system.slice`, `/system.slice` or `system.slice`.
fn group(path: &Path) -> Outcome<Scope> {
    control_group(path).map(Scope::ControlGroup).ok_or_else(|| {
        Failure::new(format!(
            "there is no control group {} (version 2); see `systemd-cgls`, or below {}",
            path.display(),
            hierarchy().unwrap_or("/sys/fs/cgroup".into()).display()
        ))
    })
}

/// The control group that systemd made for a unit, named with or without its kind.
///
/// # Errors
/// When none has that name.
pub(super) fn group_of_unit(unit: &str) -> Outcome<PathBuf> {
    let names = [unit.to_owned(), format!("{unit}.service")];
    let found = hierarchy().and_then(|top| below(&top, &names, MAX_DEPTH));
    found.ok_or_else(|| {
        Failure::new(format!(
            "no control group is named {unit} or {unit}.service; is the unit running? see `systemctl status {unit}`, or name it with --cgroup"
        ))
    })
}

/// The first directory of one of these names: those near the top come first.
fn below(directory: &Path, names: &[String], depth: usize) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let is_directory =
        |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut inside: Vec<PathBuf> = entries
        .filter(is_directory)
        .map(|entry| entry.path())
        .collect();
    inside.sort();
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

/// Tells when nothing is left of what a steward looks after.
pub(super) struct Presence {
    scope: Scope,
    gone_since: Option<Instant>,
}

/// A service that is restarted has another control group of the same name a moment later.
const PATIENCE: Duration = Duration::from_secs(3);

impl Presence {
    pub(super) fn of(scope: &Scope) -> Presence {
        Presence {
            scope: scope.clone(),
            gone_since: None,
        }
    }

    /// What is gone for good, in words.
    pub(super) fn gone(&mut self) -> Option<String> {
        self.gone_at(Instant::now())
    }

    fn gone_at(&mut self, now: Instant) -> Option<String> {
        if self.scope.is_there() {
            self.gone_since = None;
            return None;
        }
        let since = *self.gone_since.get_or_insert(now);
        match &self.scope {
            Scope::ControlGroup(path) if now.duration_since(since) >= PATIENCE => {
                Some(format!("control group {path} is gone"))
            }
            Scope::ControlGroup(_) => None,
            // These come back no more.
            _ => Some("the processes named have ended".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_may_be_away_for_a_moment() {
        let begin = Instant::now();
        let mut group = Presence::of(&Scope::ControlGroup("/no/such/group".to_owned()));
        assert_eq!(group.gone_at(begin), None);
        assert_eq!(group.gone_at(begin + PATIENCE / 2), None);
        group.scope = Scope::All;
        assert_eq!(group.gone_at(begin + PATIENCE), None, "it is back");
        group.scope = Scope::ControlGroup("/no/such/group".to_owned());
        assert_eq!(group.gone_at(begin + PATIENCE * 2), None);
        let gone = group.gone_at(begin + PATIENCE * 3);
        assert_eq!(
            gone.as_deref(),
            Some("control group /no/such/group is gone")
        );
        let mut processes = Presence::of(&Scope::Trees(Vec::new()));
        assert!(processes.gone_at(begin).is_some());
        assert_eq!(Presence::of(&Scope::All).gone_at(begin), None);
    }

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
    #[test]
    fn a_unit_that_does_not_run_is_refused_with_a_hint() {
        let refused = group_of_unit("egeria-no-such-unit").expect_err("no such unit");
        let Failure::Cause(line) = refused else {
            panic!("another failure");
        };
        assert!(
            line.contains("egeria-no-such-unit.service") && line.contains("systemctl"),
            "{line}"
        );
    }
}
