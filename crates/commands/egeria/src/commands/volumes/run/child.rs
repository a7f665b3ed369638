//! The command: started, waited for, and its status.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::commands::volumes::run::caller;
use egeria_cli::failure::{Failure, Outcome, reason};
use egeria_cli::output::Format;
use egeria_cli::preload;
use egeria_cli::signals::Signals;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Starts it, with the mount in its environment, if there is one.
pub(super) fn spawn(
    words: &[OsString],
    mount: Option<&Path>,
    library: Option<&Path>,
    format: Format,
) -> Outcome<Child> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    if let Some(mount) = mount {
        command.env("EGERIA_MOUNT", mount);
    }
    if let Some(library) = library {
        command.env(
            "LD_PRELOAD",
            preload::with(std::env::var_os("LD_PRELOAD"), library),
        );
    }
    if format == Format::Json {
        let stderr = std::io::stderr().as_fd().try_clone_to_owned();
        command.stdout(stderr.map_or(Stdio::null(), Stdio::from));
    }
    caller::pass_on(&mut command, format == Format::Json);
    command.spawn().map_err(|error| {
        let (status, hint) = match error.kind() {
            std::io::ErrorKind::NotFound => (127, "check its name and PATH"),
            _ => (126, "check that it is a program you may execute"),
        };
        Failure::Status(
            status,
            format!(
                "cannot run {}: {}; {hint}",
                words[0].display(),
                reason(&error)
            ),
        )
    })
}

/// Waits for the child; signals are forwarded to it during that.
pub(super) fn wait(mut child: Child, signals: &Signals) -> Outcome<ExitStatus> {
    let failed = |error: std::io::Error| {
        Failure::new(format!(
            "cannot wait for the command: {error}; end it by hand"
        ))
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else {
        return child.wait().map_err(failed);
    };
    if let Err(interrupted) = signals.forward_to(pid) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(interrupted);
    }
    // Not reaped yet, so that a signal forwarded now cannot hit a new process of that number.
    while waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )
    .is_err_and(|error| error == rustix::io::Errno::INTR)
    {}
    signals.forget();
    child.wait().map_err(failed)
}

/// As a shell has it.
pub(super) fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128_u8.wrapping_add(signal as u8),
        (None, None) => 1,
    }
}
