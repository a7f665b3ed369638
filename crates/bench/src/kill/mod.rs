//! Death of processes: crews of threads work on the same files through the preload library, the mount
//! and the engine at once, they and the mount are killed at random moments, and nothing that returned
//! may be missing.
//!
//! What a worker does follows from its number alone (`plan`), and it notes in shared memory what it
//! begins and what returned (`ledger`). So whoever started it knows what must be there (`model`,
//! `verify`): all that returned, and the one step under way wholly or not at all. In rounds of
//! [`ROUND_KILLS`] deaths (`round`) everything is compared, removed, and the volume checked.

mod crew;
mod engine;
mod files;
mod ledger;
mod model;
mod part;
mod plan;
mod posix;
mod report;
mod round;
mod verify;
mod worker;

pub use part::main;
pub use report::KillReport;

use crate::beside;
use crate::error::{BenchError, Result};
use crate::process::loadable;
use crate::progress::{self, Progress};
use crate::scratch::{check_room, memory_directory, mount_directory};
use crew::Place;
use egeria_fs::{CreateOptions, PoolRequest};
use ledger::Ledger;
use plan::Dice;
use round::Round;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Name of the program the killed processes run.
const WORKER: &str = "egeria-kill-worker";
/// Deaths between two whole comparisons.
pub const ROUND_KILLS: u64 = 100;
/// Size of each of the two pools; what a round's workers leave fits many times.
const POOL_BYTES: u64 = 512 << 20;

/// What to do.
pub struct KillOptions<'a> {
    /// Deaths in all.
    pub kills: u64,
    /// No new death after so long.
    pub limit: Option<Duration>,
    /// Who dies when follows from this, as far as the scheduler lets it.
    pub seed: u64,
    /// The preload library.
    pub preload_library: PathBuf,
    /// The workers' program; else from the environment, or beside this one.
    pub worker: Option<PathBuf>,
    /// A directory on tmpfs for pools.
    pub memory_directory: PathBuf,
    /// Set by somebody to stop.
    pub cancel: Option<&'a AtomicBool>,
    /// Told how far it is.
    pub progress: &'a dyn Fn(&Progress<'_>),
}

impl KillOptions<'_> {
    /// A whole run with this preload library.
    pub fn new(preload_library: PathBuf) -> KillOptions<'static> {
        KillOptions {
            kills: 1000,
            limit: None,
            seed: 1,
            preload_library,
            worker: None,
            memory_directory: "/dev/shm".into(),
            cancel: None,
            progress: &progress::silent,
        }
    }
}

/// Runs it.
///
/// # Errors
/// When it cannot be run; what the killed lost is in the report.
pub fn run(options: &KillOptions<'_>) -> Result<KillReport> {
    let started = Instant::now();
    let room_bytes = 2 * POOL_BYTES;
    check_room(
        &options.memory_directory,
        room_bytes,
        "free some or choose another directory",
    )?;
    let memory = memory_directory(&options.memory_directory)?;
    let mount_point = mount_directory()?;
    let place = Place {
        worker: beside::find(options.worker.as_deref(), WORKER, "EGERIA_KILL_WORKER")?,
        preload_library: loadable(&options.preload_library, memory.path())?,
        ledger: memory.path().join("ledger"),
        pool: make_volume(memory.path())?,
        mount_point: mount_point.path().to_owned(),
    };
    let ledger = Ledger::open(&place.ledger)
        .map_err(|error| BenchError::io("cannot make a ledger", error, "name a writable tmpfs"))?;
    let deadline = options.limit.map(|limit| started + limit);
    let mut dice = Dice(options.seed, 0);
    let mut report = KillReport::default();
    while report.kills < options.kills && deadline.is_none_or(|end| Instant::now() < end) {
        let done = report.kills;
        let tell = |kills| {
            (options.progress)(&Progress {
                done: done + kills,
                total: options.kills,
                what: "killing",
            })
        };
        let kills = ROUND_KILLS.min(options.kills - done);
        let mut round = Round::start(&place, &ledger, options.cancel)?;
        round.kill(kills, deadline, &mut dice, &tell)?;
        report.add(round.end()?);
    }
    report.sum(&ledger, started.elapsed());
    Ok(report)
}

/// A volume of two pools; the path of the first.
fn make_volume(directory: &Path) -> Result<PathBuf> {
    let pools: Vec<PoolRequest> = (0..2)
        .map(|node| PoolRequest {
            node,
            path: directory.join(format!("pool{node}")),
            bytes: Some(POOL_BYTES),
        })
        .collect();
    egeria_fs::create_volume(&pools, &CreateOptions::default()).map_err(BenchError::failed)?;
    Ok(directory.join("pool0"))
}
