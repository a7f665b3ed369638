//! The `--pid`, `--cgroup` and `--all` arguments, for commands that look at processes.

use std::path::{Path, PathBuf};

use clap::Args;
use egeria_cli::failure::{Failure, Outcome};
use egeria_steward::Scope;
use egeria_watch::{own, task};

/// Which processes.
#[derive(Args, Clone, Debug, Default)]
pub struct ScopeArguments {
    /// These processes and their descendants
    #[arg(long, value_name = "PID", num_args = 1..)]
    pid: Vec<u32>,
    /// The processes of this control group and of those below
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pid", "pool"])]
    cgroup: Option<PathBuf>,
    /// All processes; of yours only where something is done to them
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "pool"])]
    all: bool,
}

impl ScopeArguments {
    /// Whether any are named.
    pub(super) fn is_any(&self) -> bool {
        self.all || self.cgroup.is_some() || !self.pid.is_empty()
    }

    /// Refuses what a steward of this user would leave alone: programs of others.
    pub(super) fn check_own(&self) -> Outcome {
        let own = own::user();
        for process in &self.pid {
            let users = task::user_ids(*process, *process);
            let Some(users) = users.filter(|users| *users != [own; 4]) else {
                continue;
            };
            let other = users.into_iter().find(|user| *user != own).unwrap_or(own);
            return Err(Failure::new(format!(
                "process {process} has rights of another user (uid {other}), and is left alone; run as that user: sudo -u '#{other}' egeria steward …"
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
        if !self.pid.is_empty() {
            return Ok(Scope::Trees(self.pid.clone()));
        }
        match &self.cgroup {
            Some(path) => group(path),
            None => Ok(Scope::All),
        }
    }
}

/// A control group as `/sys/fs/cgroup/system.slice`, `/system.slice` or `system.slice`.
fn group(path: &Path) -> Outcome<Scope> {
    const ROOT: &str = "/sys/fs/cgroup";
    let inside = path.strip_prefix(ROOT).unwrap_or(path);
    let inside = inside.strip_prefix("/").unwrap_or(inside);
    let name = inside
        .to_str()
        .filter(|_| Path::new(ROOT).join(inside).join("cgroup.procs").exists());
    match name {
        Some(name) => Ok(Scope::ControlGroup(format!("/{name}"))),
        None => Err(Failure::new(format!(
            "there is no control group {} (version 2); see `systemd-cgls`, or below {ROOT}",
            path.display()
        ))),
    }
}
