//! Death of processes: worker processes of several threads work on the same files through the preload library, the mount
//! and the engine at once, they and the mount are killed at random moments, and nothing that returned
//! may be missing.
//!
//! What a worker does follows from its number alone (`plan`), and it notes in shared memory what it
//! begins and what returned (`ledger`). So whoever started it knows what must be there (`oracle`,
//! `verify`): all that returned, and the one step under way wholly or not at all. In rounds of
//! [`ROUND_KILLS`] deaths (`round`) everything is compared, removed, and the volume checked.
//!
//! Then workers are stopped in the middle of calls, and nobody else may wait for them (`stop`).

mod call_time;
pub mod engine;
mod files;
pub mod ledger;
mod oracle;
mod plan;
mod posix;
mod processes;
mod report;
mod roles;
mod round;
mod snapshots;
mod stop;
pub mod verify;
pub mod worker;

pub use report::KillReport;
pub use roles::main;
pub use stop::{CallRow, ObserverRow, StackRow, StopReport};

use egeria_engine::{
    AttachMode, AttachOptions, CreateOptions, DelegationRule, LimitedBy, PoolRequest, Volume,
};
use egeria_harness::program;
use egeria_harness::program::loadable;
use egeria_harness::{self as harness, Progress};
use egeria_harness::{Error, Result};
use egeria_media::PoolIndex;
use egeria_scratch::{MountPoint, check_room, memory_directory};
use egeria_stats::rng::Rng;
use ledger::Ledger;
use processes::{Mount, Paths};
use round::Round;
use std::num::{NonZeroU8, NonZeroU32};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Name of the program the killed processes run.
const WORKER: &str = "egeria-kill-worker";
/// Deaths between two whole comparisons.
pub const ROUND_KILLS: u64 = 100;
/// Size of each of the two pools; what a round's workers leave fits many times.
const POOL_BYTES: u64 = 512 << 20;

pub struct KillOptions<'a> {
    pub kills: u64,
    /// Workers stopped in the middle of a call, after the deaths.
    pub stops: u64,
    /// How long each stays stopped, ms.
    pub hold_ms: RangeInclusive<u64>,
    /// Ask `gdb` where a stopped one is that others wait for.
    pub stacks: bool,
    /// Threads that each pool admits at once while workers are stopped; any number without it.
    pub admitted: Option<NonZeroU32>,
    /// Stop workers on this mount, kill nobody: to look at another version's, whose library is then the one given.
    pub mounted: Option<PathBuf>,
    /// No new death after so long, and no new stop after as long again.
    pub limit: Option<Duration>,
    /// Who dies when follows from this, as far as the scheduler lets it.
    pub seed: u64,
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
            stops: 500,
            hold_ms: 150..=300,
            stacks: false,
            admitted: None,
            mounted: None,
            limit: None,
            seed: 1,
            preload_library,
            worker: None,
            memory_directory: "/dev/shm".into(),
            cancel: None,
            progress: &harness::silent,
        }
    }
}

/// Runs it.
///
/// # Errors
/// When it cannot be run; what the killed lost is in the report.
pub fn run(options: &KillOptions<'_>) -> Result<KillReport> {
    let started = Instant::now();
    let memory = memory_directory(&options.memory_directory)?;
    let mount_point = MountPoint::create(false)?;
    let mounted = options.mounted.clone();
    let paths = Paths {
        worker: program::find_beside(options.worker.as_deref(), WORKER, "EGERIA_KILL_WORKER")?,
        preload_library: loadable(&options.preload_library, memory.path())?,
        ledger: memory.path().join("ledger"),
        pool: match mounted {
            Some(_) => None,
            None => Some(make_volume(options, memory.path())?),
        },
        mount_point: mounted.unwrap_or_else(|| mount_point.path().to_owned()),
    };
    let ledger = Ledger::open(&paths.ledger)
        .map_err(|error| Error::io("cannot make a ledger", error, "name a writable tmpfs"))?;
    let mut report = KillReport::default();
    if let Some(pool) = &paths.pool {
        kill(options, &paths, pool, &ledger, &mut report)?;
    }
    if options.stops > 0 {
        report.stopped = Some(stop(options, &paths, &ledger, &mut report)?);
    }
    report.sum(&ledger, started.elapsed());
    Ok(report)
}

fn tell(options: &KillOptions<'_>, done: u64, total: u64, what: &str) {
    (options.progress)(&Progress { done, total, what });
}

/// Rounds of deaths.
fn kill(
    options: &KillOptions<'_>,
    paths: &Paths,
    pool: &Path,
    ledger: &Ledger,
    report: &mut KillReport,
) -> Result<()> {
    let deadline = options.limit.map(|limit| Instant::now() + limit);
    let mut rng = Rng::new(options.seed);
    for number in 0.. {
        let done = report.kills;
        if done >= options.kills || deadline.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        let kills = ROUND_KILLS.min(options.kills - done);
        let mut round = Round::start(paths, pool, ledger, options.cancel)?;
        if number % 2 == 1 {
            manage(round.volume(), NonZeroU32::new(2))?;
        }
        let tell = |kills| tell(options, done + kills, options.kills, "killing");
        round.kill(kills, deadline, &mut rng, &tell)?;
        report.add(round.end()?);
    }
    Ok(())
}

/// Stops, and what is left on the volume afterwards.
fn stop(
    options: &KillOptions<'_>,
    paths: &Paths,
    ledger: &Ledger,
    report: &mut KillReport,
) -> Result<StopReport> {
    let mut stops = stop::StopOptions {
        stops: options.stops,
        hold_ms: options.hold_ms.clone(),
        stacks: options.stacks,
        is_limited: options.admitted.is_some(),
        mount: None,
        deadline: options.limit.map(|limit| Instant::now() + limit),
        seed: options.seed,
        cancel: options.cancel,
    };
    let tell = |stopped| tell(options, stopped, options.stops, "stopping");
    let Some(pool) = &paths.pool else {
        return stop::run(&stops, paths, &tell);
    };
    // The session is this process's, as in a round.
    let attached = Volume::attach(pool, AttachMode::CreateOrJoin, &AttachOptions::default());
    let volume = attached.map_err(Error::failed)?;
    volume.set_reporter(Box::new(|_, line| eprintln!("{line}")));
    manage(&volume, options.admitted)?;
    let mut mount = Mount::start(paths, pool, ledger, options.cancel)?;
    stops.mount = mount.id();
    let stopped = stop::run(&stops, paths, &tell)?;
    mount.end()?;
    report.look(stop::look_afterwards(volume, pool)?);
    Ok(stopped)
}

/// As under planners: accesses of striped files are delegated, and each pool admits so many threads at once. Until the session ends.
fn manage(volume: &Volume, admitted: Option<NonZeroU32>) -> Result<()> {
    let rule = DelegationRule {
        delegates: NonZeroU8::MIN,
        min_read_bytes: 1,
        min_write_bytes: 1,
        always: true,
    };
    volume
        .set_delegation(Some(rule), true)
        .map_err(Error::failed)?;
    for pool in 0..volume.pools().len() as u8 {
        volume
            .limit_admission(PoolIndex(pool), admitted, LimitedBy::Hand)
            .map_err(Error::failed)?;
    }
    Ok(())
}

/// A volume of two pools; the path of the first.
fn make_volume(options: &KillOptions<'_>, directory: &Path) -> Result<PathBuf> {
    check_room(
        &options.memory_directory,
        2 * POOL_BYTES,
        "free some or choose another directory",
    )?;
    let pools: Vec<PoolRequest> = (0..2)
        .map(|node| PoolRequest {
            node,
            path: directory.join(format!("pool{node}")),
            bytes: Some(POOL_BYTES),
        })
        .collect();
    egeria_engine::create_volume(&pools, &CreateOptions::default()).map_err(Error::failed)?;
    Ok(directory.join("pool0"))
}
