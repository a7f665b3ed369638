//! The crew of a run: how many work, and worker processes, which are started, looked at, stopped and killed.

use egeria_harness::process::Group;
use egeria_harness::{Error, Result};
use egeria_media::clock;
use procfs::process::Process;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// How many work: as many as are wanted, or one per CPU.
pub(crate) fn size(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        wanted => wanted,
    }
}

/// A worker process; it and its group are killed when dropped.
pub(crate) struct Member(Group);

impl Member {
    /// Starts a program, with what `prepare` adds to its command line and environment.
    pub(crate) fn start(
        program: &Path,
        stdin: Stdio,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Member> {
        let mut command = Command::new(program);
        command.env_remove("LD_PRELOAD");
        command.stdin(stdin).stdout(Stdio::null());
        prepare(&mut command);
        let started = Group::start(&mut command);
        started.map(Member).map_err(|error| failed(program, error))
    }

    pub(crate) fn id(&mut self) -> u32 {
        self.0.child().id()
    }

    /// How it ended, if it does within the limit.
    pub(crate) fn ended(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        self.0.wait(limit, None)
    }

    /// Stops it, or lets it go on.
    pub(crate) fn signal(&mut self, signal: Signal) {
        // It is a child that is not waited for yet.
        if let Some(process) = Pid::from_raw(self.id() as i32) {
            let _ = kill_process(process, signal);
        }
    }

    /// Whether all its threads are stopped.
    pub(crate) fn is_stopped(&mut self) -> bool {
        let tasks = Process::new(self.id() as i32).and_then(|process| process.tasks());
        let mut any = false;
        tasks.into_iter().flatten().all(|task| {
            any = true;
            let stat = task.and_then(|task| task.stat());
            stat.is_ok_and(|stat| stat.state == 'T')
        }) && any
    }

    /// CPU time of the process.
    pub(crate) fn cpu_ns(&mut self) -> Option<u64> {
        let mut of_process = 0;
        // SAFETY: a valid place for the answer; a process that is gone is an error.
        let got = unsafe { libc::clock_getcpuclockid(self.id() as i32, &mut of_process) };
        let time = (got == 0).then(|| clock::time(of_process).ok()).flatten()?;
        Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

/// Why a program cannot be started.
pub(crate) fn failed(program: &Path, error: std::io::Error) -> Error {
    let doing = format!("cannot start {}", program.display());
    Error::io(doing, error, "build it again")
}
