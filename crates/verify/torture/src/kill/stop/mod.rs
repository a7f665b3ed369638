//! Stopped processes: workers are stopped in the middle of calls, and whoever does not change the same inode must
//! go on meanwhile. Threads look on on every access path, through the mount more than it has threads to serve them.

mod calls;
mod options;
mod pause;
mod report;
mod roles;
mod run;
mod stack;
mod status_page;

pub use report::{CallRow, ObserverRow, StackRow, StopReport};

pub(super) use options::StopOptions;
pub(super) use roles::{look_on, set_up, work};
pub(super) use status_page::StatusPage;

use super::processes::{AccessPath, Paths, Role, WorkerProcess};
use super::verify::{self, Leaked};
use egeria_engine::{InodeNumber, Volume};
use egeria_harness::process::within;
use egeria_harness::{Error, Result};
use report::Notes;
use run::StopRun;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is not done in this time waits for somebody who never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stop workers on a mount; with the engine too where the pool is known.
pub fn run(stops: &StopOptions<'_>, paths: &Paths, tell: &dyn Fn(u64)) -> Result<StopReport> {
    let started = Instant::now();
    let path = paths.ledger.with_file_name("status-page");
    let page = StatusPage::open(&path)
        .map_err(|error| Error::io("cannot make a status page", error, "name a writable tmpfs"))?;
    let ways: &[AccessPath] = match paths.pool {
        None => &[AccessPath::Preload, AccessPath::Mount],
        Some(_) => &[AccessPath::Preload, AccessPath::Mount, AccessPath::Engine],
    };
    let mut set_up = WorkerProcess::play(Role::Work(AccessPath::Mount), &["stop-set-up"], paths)?;
    match set_up.member.ended(Duration::from_secs(30))? {
        Some(status) if status.success() => {}
        _ => {
            return Err(Error::failed("cannot make files on the mount; see above"));
        }
    }
    let mut watch = StopRun::start(stops, paths, &page, &path, ways)?;
    let ended = watch.run(tell);
    page.end();
    let notes: Notes = watch.end()?;
    ended?;
    let _ = std::fs::remove_file(&path);
    let seconds = started.elapsed().as_secs_f64();
    Ok(StopReport::of(notes, stops.wanted_wait_ms(), seconds))
}

/// What is left on the volume.
pub struct Afterwards {
    pub leaked: Leaked,
    pub findings: Vec<String>,
}

/// Empty the volume, look for what is lost in it, and check it.
pub fn look_afterwards(volume: Arc<Volume>, pool: &Path) -> Result<Afterwards> {
    let pool = pool.to_owned();
    let look = move || {
        volume.reap();
        verify::empty(&volume, InodeNumber::ROOT)?;
        volume.reap();
        verify::leaked(volume, &pool)
    };
    let (leaked, report) = within(PATIENCE, "checking", look)?.map_err(Error::failed)?;
    let findings = report.findings.into_iter().map(|finding| finding.what);
    Ok(Afterwards {
        leaked,
        findings: findings.collect(),
    })
}
