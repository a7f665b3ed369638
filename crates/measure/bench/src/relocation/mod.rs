//! Many readers of files that all lie on one node, on two emulated nodes: without a policy, with NThread, which moves
//! threads, and with everything, which moves files as well.

mod report;

use std::time::Duration;

use egeria_engine::{AllocationPolicy, Errno, InodeNumber, Volume};
use egeria_harness::{Error, Result};
use egeria_policy::planner::System;
use egeria_steward::StewardOptions;

use crate::emulated::{
    EmulatedOptions, EmulatedRun, Moved, RunPace, VolumeSetup, machine, steward, steward_options,
};
use crate::experiment::over;
use crate::programs::fio::Jobs;

pub use report::{RelocationReport, RelocationRow, RelocationSummary};

/// The machine, of which two nodes are taken.
const PROFILE: &str = "odin-8s";
const NODES: usize = 2;
const READERS: usize = 32;
const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = 8 * MIB;
const REQUEST_BYTES: u64 = 64 << 10;
const POOL_BYTES: u64 = 384 * MIB;
const ROOM_BYTES: u64 = 1 << 30;
const DILATION: f64 = 24.0;
/// Time between two decisions, of the machine.
const WINDOW_NS: u64 = 10_000_000;
/// Before it is measured, for decisions to take effect.
const WARM_UP: Duration = Duration::from_secs(8);
/// How long each system is usually measured, host time.
pub const MEASURED: Duration = Duration::from_secs(2);
/// What is compared.
const SYSTEMS: [System; 3] = [System::Off, System::Full, System::All];

/// What one run gave.
struct Found {
    moved: Moved,
    /// Bytes of the files that lie on node 1 at the end.
    elsewhere_bytes: u64,
    /// Threads moved, each time counted.
    thread_moves: u64,
}

/// Runs all systems.
///
/// # Errors
/// When fio is missing, there is no room, a program fails, or it was interrupted.
pub fn run(options: &EmulatedOptions<'_>) -> Result<RelocationReport> {
    let perform = |system: &System| perform(options, *system);
    let found = options.rounds(ROOM_BYTES, &SYSTEMS, System::to_string, perform)?;
    let row = |(system, found): (&System, &Vec<Found>)| RelocationRow {
        policy: system.to_string(),
        bytes_s: over(found, |found| found.moved.bytes_s()),
        of_nthread: 1.0,
        moved_bytes: over(found, |found| found.elsewhere_bytes as f64),
        thread_moves: over(found, |found| found.thread_moves as f64),
    };
    let rows = SYSTEMS.iter().zip(&found).map(row).collect();
    Ok(RelocationReport::of(rows, options.rounds))
}

fn perform(options: &EmulatedOptions<'_>, system: System) -> Result<Found> {
    let machine = machine(PROFILE, Some(NODES), DILATION)?;
    let setup = VolumeSetup {
        memory: None,
        pool_bytes: POOL_BYTES,
        allocation: AllocationPolicy::Pool(0),
    };
    let run = EmulatedRun::set_up(options, &machine, &[setup])?;
    let jobs = Jobs {
        directory: run.directory(0),
        count: READERS,
        file_bytes: FILE_BYTES,
        is_shared: false,
    };
    run.prepare(vec![jobs.fill()])?;
    let steward = match system {
        System::Off => None,
        _ => Some(steward(
            run.shared(0),
            StewardOptions {
                window_ns: WINDOW_NS,
                ..steward_options(&machine, system)
            },
        )?),
    };
    let bytes = format!("--bs={REQUEST_BYTES}");
    let reads = jobs.endless(["--rw=randread", &bytes, "--norandommap"]);
    let pace = RunPace {
        warm_up: WARM_UP,
        measured: options.measured,
    };
    let moved = run.measure(&[(reads, READERS)], pace);
    let thread_moves = steward.map_or(0, |steward| steward.stop().moves);
    let elsewhere_bytes = elsewhere(run.volume(0)).unwrap_or(0);
    let moved = moved?.into_iter().next();
    Ok(Found {
        moved: moved.ok_or_else(|| Error::failed("nothing was measured"))?,
        elsewhere_bytes,
        thread_moves,
    })
}

/// Bytes of the readers' files on other pools than the first.
fn elsewhere(volume: &Volume) -> std::result::Result<u64, Errno> {
    let mut all = 0;
    for reader in 0..READERS {
        let name = format!("f.{reader}.0");
        let ino = volume.lookup(InodeNumber::ROOT, name.as_bytes())?.ino;
        let file = volume.open(ino, None)?;
        let by_pool = volume.bytes_by_pool(file, u64::MAX);
        volume.close(ino);
        all += by_pool?[1..].iter().sum::<u64>();
    }
    Ok(all)
}
