//! A worker process as its watcher sees it: how far it is, and whether it hangs.

use super::options::FuzzOptions;
use super::other_user::{PROGRAM, egeria_program};
use super::status_page::StatusPage;
use super::target::Target;
use super::worker::FAULT;
use crate::crew::{self, Member};
use egeria_harness::{Error, Result};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// CPU time after which a case hangs. Not time on the wall: others may have the CPU.
const HANG: Duration = Duration::from_secs(1);
/// Time on the wall after which a case waits for what never comes, however busy the machine is.
const STUCK: Duration = Duration::from_secs(60);

/// How a worker ended.
pub(super) enum End {
    /// It did what it was told to.
    Done,
    /// Something is wrong with the case on its status page.
    Wrong(String),
}

/// A worker process; killed when dropped.
pub(super) struct Worker {
    pub(super) page: StatusPage,
    process: Member,
    /// The case last seen, and since when.
    seen: Option<(u64, Instant)>,
}

impl Worker {
    pub(super) fn start(
        program: &Path,
        target: Target,
        (seed, runs): (u64, u64),
        options: &FuzzOptions<'_>,
    ) -> Result<Worker> {
        let failed = |error| crew::failed(program, error);
        let page = StatusPage::new().map_err(failed)?;
        let stdin = Stdio::from(page.descriptor().map_err(failed)?);
        let process = Member::start(program, stdin, |command| {
            command
                .args([target.name(), &seed.to_string(), &runs.to_string()])
                .env(FAULT, options.fault.as_deref().unwrap_or_default());
            if let Some(egeria) = options.egeria.clone().or_else(egeria_program) {
                command.env(PROGRAM, egeria);
            }
        })?;
        Ok(Worker {
            page,
            process,
            seen: None,
        })
    }

    /// Look at it; `None` while it works.
    pub(super) fn look(&mut self) -> Result<Option<End>> {
        if let Some(status) = self.process.ended(Duration::ZERO)? {
            return Ok(Some(self.ended(status)?));
        }
        let Some((turn, begun_ns)) = self.page.running() else {
            self.seen = None;
            return Ok(None);
        };
        let since = match self.seen {
            Some((seen, since)) if seen == turn => since,
            _ => Instant::now(),
        };
        self.seen = Some((turn, since));
        let used = self
            .process
            .cpu_ns()
            .map(|cpu_ns| cpu_ns.saturating_sub(begun_ns));
        // Looked at again: the case may have ended while its process was asked for its time.
        let same = || self.page.running() == Some((turn, begun_ns));
        let wrong = if used.is_some_and(|used| u128::from(used) > HANG.as_nanos()) && same() {
            format!("takes more than {HANG:?} of CPU time")
        } else if since.elapsed() > STUCK && same() {
            format!("waits for more than {STUCK:?}")
        } else {
            return Ok(None);
        };
        Ok(Some(End::Wrong(wrong)))
    }

    fn ended(&self, status: ExitStatus) -> Result<End> {
        let message = self.page.message();
        match (message, status.code(), status.signal()) {
            (Some(message), ..) => Ok(End::Wrong(message)),
            (None, _, Some(libc::SIGABRT)) => Ok(End::Wrong(
                "aborted: more memory than its input can need, or an abort of its own".to_owned(),
            )),
            (None, _, Some(signal)) => Ok(End::Wrong(format!("died of signal {signal}"))),
            (None, ..) if self.page.running().is_some() => {
                Ok(End::Wrong(format!("ended in the middle: {status}")))
            }
            (None, Some(0), _) => Ok(End::Done),
            (None, ..) => Err(Error::failed(format!(
                "a fuzzing worker ended with {status}; see its message above"
            ))),
        }
    }

    pub(super) fn stop(&self) {
        self.page.words().stop.store(1, Ordering::Relaxed);
    }
}
