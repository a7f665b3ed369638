//! Stopped processes: workers are stopped in the middle of calls, and whoever does not change the same inode must
//! go on meanwhile. Threads look on in every way, through the mount more than it has threads to serve them.

mod board;
mod calls;
mod part;
mod report;
mod stack;
mod watch;

pub use report::{CallRow, ObserverRow, PlaceRow, StopReport};

pub(super) use board::Board;
pub(super) use part::{look_on, set_up, work};

use super::crew::{Crew, Place, Way};
use super::verify::{self, Leaked};
use egeria_fs::{InodeNumber, Volume};
use egeria_harness::process::{Cancel, within};
use egeria_harness::{Error, Result};
use report::Notes;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use watch::Watch;

/// What is not done in this time waits for somebody who never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// How workers are stopped.
pub struct Stops<'a> {
    /// In the middle of calls.
    pub stops: u64,
    /// How long each stays so, ms.
    pub hold_ms: RangeInclusive<u64>,
    /// Ask `gdb` where a stopped one is that others wait for.
    pub stacks: bool,
    /// The process that serves the mount, where it is ours.
    pub mount: Option<u32>,
    /// Nobody is stopped after it.
    pub deadline: Option<Instant>,
    pub seed: u64,
    pub cancel: Cancel<'a>,
}

/// Stops workers on the mount of a place; with its engine too where the pool is known.
pub fn run(stops: &Stops<'_>, place: &Place, tell: &dyn Fn(u64)) -> Result<StopReport> {
    let started = Instant::now();
    let path = place.ledger.with_file_name("board");
    let board = Board::open(&path)
        .map_err(|error| Error::io("cannot make a board", error, "name a writable tmpfs"))?;
    let ways: &[Way] = match place.pool {
        None => &[Way::Preload, Way::Mount],
        Some(_) => &[Way::Preload, Way::Mount, Way::Engine],
    };
    let mut set_up = Crew::play(Way::Mount, &["stop-set-up"], place)?;
    match set_up.ended(Duration::from_secs(30))? {
        Some(status) if status.success() => {}
        _ => {
            return Err(Error::failed("cannot make files on the mount; see above"));
        }
    }
    let mut watch = Watch::start(stops, place, &board, &path, ways)?;
    let ended = watch.run(tell);
    board.end();
    let notes: Notes = watch.end()?;
    ended?;
    let _ = std::fs::remove_file(&path);
    Ok(StopReport::of(notes, started.elapsed().as_secs_f64()))
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

/// Command line of a part: its name, the board, a number, and the pool for who has it attached.
fn arguments(part: &str, way: Way, board: &Path, number: usize, place: &Place) -> Vec<PathBuf> {
    let first = [part.into(), board.to_owned(), number.to_string().into()];
    let pool = place.pool.clone().filter(|_| way == Way::Engine);
    first.into_iter().chain(pool).collect()
}
