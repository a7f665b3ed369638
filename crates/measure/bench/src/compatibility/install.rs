//! Installs what jobs need, from Debian, PyPI, npm and crates.io.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use egeria_harness::process::{self, Cancel};
use egeria_harness::program::find_in_path;
use egeria_harness::{Error, Result};

use super::find::Tools;
use super::job::Job;
use super::user::is_root;
use crate::experiment::Watch;

/// Downloads and compilers take their time.
const LIMIT: Duration = Duration::from_secs(1800);
/// Debian's packages ask this program whether they may start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs the packages of jobs that lack something.
///
/// # Errors
/// When a package manager fails, with its last words.
pub(super) fn missing(jobs: &[Job], tools: &Tools, watch: Watch<'_>) -> Result<()> {
    let lacking = || jobs.iter().filter(|job| !tools.missing(job).is_empty());
    let packages = |of: fn(&Job) -> &[String]| -> Vec<String> {
        let all: BTreeSet<&String> = lacking().flat_map(of).collect();
        all.into_iter().cloned().collect()
    };
    let lacks_program = |job: &&Job| {
        let missing = tools.missing(job);
        missing.iter().any(|need| !need.contains(':'))
    };
    let of_programs: BTreeSet<&String> = (lacking().filter(lacks_program))
        .flat_map(|job| &job.debian)
        .collect();
    let mut debian: Vec<String> = of_programs.into_iter().cloned().collect();
    let needs_python = lacking().any(|job| !job.pypi.is_empty());
    if needs_python && !tools.python().join("bin/python3").exists() {
        debian.push("python3-venv".to_owned());
    }
    if !debian.is_empty() {
        watch.step(0, 4, "apt-get install")?;
        from_debian(&debian, watch.cancel)?;
    }
    let (pypi, npm) = (packages(|job| &job.pypi), packages(|job| &job.npm));
    let crates = packages(|job| &job.crates);
    if pypi.len() + npm.len() + crates.len() == 0 {
        return Ok(());
    }
    tools.make()?;
    if !pypi.is_empty() {
        watch.step(1, 4, "pip install")?;
        from_pypi(&pypi, &tools.python(), watch.cancel)?;
    }
    if !npm.is_empty() {
        watch.step(2, 4, "npm install")?;
        let mut command = Command::new("npm");
        command.args(["install", "--no-audit", "--no-fund", "--prefix"]);
        command.arg(tools.node()).args(&npm);
        process::run_well(&mut command, LIMIT, watch.cancel)?;
    }
    if !crates.is_empty() {
        watch.step(3, 4, "cargo install")?;
        let mut command = Command::new("cargo");
        command.args(["install", "--locked", "--root"]);
        command.arg(tools.crates()).args(&crates);
        process::run_well(&mut command, LIMIT, watch.cancel)?;
    }
    Ok(())
}

/// Services of the packages are not started: some listen on all addresses.
fn from_debian(packages: &[String], cancel: Cancel<'_>) -> Result<()> {
    if find_in_path("apt-get").is_none() {
        return Err(Error::failed(format!(
            "there is no apt-get here; install what these Debian packages have: {}",
            packages.join(" ")
        )));
    }
    if !is_root() {
        return Err(Error::failed(format!(
            "only root installs packages; run: sudo apt-get install {}",
            packages.join(" ")
        )));
    }
    let _policy = NoServices::begin()?;
    process::run_well(&mut apt("apt-get", &["update", "-q"]), LIMIT, cancel)?;
    // Not every release has all of them.
    let is_known = |package: &&String| {
        let shown = process::run(&mut apt("apt-cache", &["show", package]), LIMIT, cancel);
        shown.is_ok_and(|finished| finished.status.success())
    };
    let known: Vec<&String> = packages.iter().filter(is_known).collect();
    let install = ["install", "-y", "-q", "--no-install-recommends"];
    process::run_well(apt("apt-get", &install).args(known), LIMIT, cancel)?;
    Ok(())
}

fn apt(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// While it is there, packages start no services.
struct NoServices(Option<PathBuf>);

impl NoServices {
    fn begin() -> Result<NoServices> {
        let policy = Path::new(POLICY);
        // An administrator's own stays.
        if policy.exists() {
            return Ok(NoServices(None));
        }
        let failed = |error| Error::io(format!("cannot write {POLICY}"), error, "run as root");
        let guard = NoServices(Some(policy.to_owned()));
        fs::write(policy, "#!/bin/sh\nexit 101\n").map_err(failed)?;
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(policy, executable).map_err(failed)?;
        Ok(guard)
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        let _ = self.0.as_ref().map(fs::remove_file);
    }
}

fn from_pypi(packages: &[String], environment: &Path, cancel: Cancel<'_>) -> Result<()> {
    if !environment.join("bin/python3").exists() {
        // Debian's, which all users may run.
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-m", "venv"]).arg(environment);
        process::run_well(&mut command, LIMIT, cancel)?;
    }
    let mut command = Command::new(environment.join("bin/python3"));
    command.args(["-m", "pip", "install", "--only-binary", ":all:"]);
    process::run_well(command.args(packages), LIMIT, cancel)?;
    Ok(())
}
