//! `egeria umount`: take a mount away, and wait until its process has closed the volume.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use egeria_machine::NamedPath;
use egeria_mount::MountError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;

use crate::configuration::{Configuration, SettingsArgument};
use crate::control;
use crate::{paths, served};
use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};
use egeria_cli::progress;

/// How long the mount process may do nothing before it has closed the volume.
const IDLE: Duration = Duration::from_secs(60);

/// Arguments of `egeria umount`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  egeria umount /mnt

Also takes away a mount whose process was killed: no acknowledged operation is
lost, the next `egeria mount` recovers the volume.")]
pub struct Arguments {
    /// Directory it is mounted on
    #[arg(required_unless_present = "configured")]
    directory: Option<PathBuf>,
    /// The volume of this name in /etc/egeria/egeria.toml; not mounted, it is left as it is
    #[arg(long, value_name = "NAME", conflicts_with = "directory")]
    configured: Option<String>,
    #[command(flatten)]
    settings: SettingsArgument,
}

#[derive(Serialize)]
struct Document {
    directory: NamedPath,
    /// The mount process has closed the volume (false: it was dead, or still works).
    closed: bool,
}

/// Unmounts.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let directory = match &arguments.configured {
        Some(name) => Configuration::volume(&arguments.settings.settings, name)?.directory,
        None => arguments.directory.clone().unwrap_or_default(),
    };
    let server = is_believed(&directory)
        .then(|| control::identify(&directory).ok())
        .flatten()
        .and_then(|identity| mount_process(identity.mount_pid));
    let watched = server.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    match egeria_mount::unmount(&directory) {
        Err(MountError::NotMounted(_)) if arguments.configured.is_some() => {}
        unmounted => unmounted?,
    }
    let mut worked = server.and_then(cpu_ticks);
    let closed = watched.as_ref().is_some_and(|process| {
        progress::spinning("waiting for the mount process to close the volume", || {
            while !ended(process, IDLE) {
                let (before, now) = (worked, server.and_then(cpu_ticks));
                worked = now;
                if before == now {
                    return false;
                }
            }
            true
        })
    });
    if watched.is_some() && !closed {
        output::complain(
            "unmounted, but its process goes on: it is stopped, or another mount namespace (a container, a service) has the mount as well; the volume stays attached until it ends",
        );
    }
    format.print(
        &Document {
            directory: directory.into(),
            closed,
        },
        |_| String::new(),
    )
}

/// Whether the mount on this directory can be trusted and answers soon; others are not asked which process serves
/// them.
fn is_believed(directory: &Path) -> bool {
    let absolute = paths::absolute(directory);
    absolute.is_ok_and(|path| {
        let mount = served::at(&path).ok().flatten();
        mount.is_some_and(|mount| mount.is_believed()) && egeria_mount::answers(&path)
    })
}

/// The process, if it is an `egeria mount`: those end with their mount.
fn mount_process(pid: u32) -> Option<Pid> {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let is_mount = words.split(|&byte| byte == 0).nth(1) == Some(b"mount");
    Pid::from_raw(i32::try_from(pid).ok()?).filter(|_| is_mount)
}

/// The time that a process has worked; `None`: it is gone.
fn cpu_ticks(pid: Pid) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // Behind the name, which may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Waits for the process behind a pidfd to end.
fn ended(process: &impl std::os::fd::AsFd, limit: Duration) -> bool {
    let limit = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: 0,
    };
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    loop {
        match poll(&mut watched, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.is_ok_and(|ready| ready == 1),
        }
    }
}
