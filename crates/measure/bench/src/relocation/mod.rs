//! Many readers of files that all lie on one node, on two emulated nodes: with nobody who acts, with NThread, which moves
//! threads, and with everything, which moves files as well.

mod found;
mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use egeria_engine::AllocationPolicy;
use egeria_harness::program::find_in_path;
use egeria_harness::{Error, Progress, Result, silent};
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_scratch::check_room;
use egeria_steward::{Scope, Steward, StewardOptions, Target};

use crate::emulated_run::{EmulatedRun, RunPace, VolumeSetup};
use crate::script::Call;

use found::Found;
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
/// What is compared.
const SYSTEMS: [System; 3] = [System::Off, System::Full, System::All];

/// What to run, and on what.
pub struct RelocationOptions<'a> {
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// The tmpfs where pools are made.
    pub memory_directory: PathBuf,
    /// How often each is run; figures are medians.
    pub rounds: usize,
    /// How long each is measured, host time.
    pub measured: Duration,
    /// Before that, for decisions to take effect.
    pub warm_up: Duration,
    /// Set it (as from a signal handler) to stop and clean up.
    pub cancel: Option<&'a AtomicBool>,
    /// Called before each step.
    pub progress: &'a dyn Fn(&Progress<'_>),
}

impl RelocationOptions<'_> {
    /// Five rounds.
    pub fn new(preload_library: PathBuf) -> RelocationOptions<'static> {
        RelocationOptions {
            preload_library,
            memory_directory: PathBuf::from("/dev/shm"),
            rounds: 5,
            measured: Duration::from_secs(2),
            warm_up: Duration::from_secs(8),
            cancel: None,
            progress: &silent,
        }
    }
}

/// Runs all systems.
///
/// # Errors
/// When fio is missing, there is no room, a program fails, or it was interrupted.
pub fn run(options: &RelocationOptions<'_>) -> Result<RelocationReport> {
    if find_in_path("fio").is_none() {
        return Err(Error::MissingPrograms {
            programs: "fio".to_owned(),
            packages: "fio".to_owned(),
        });
    }
    check_room(&options.memory_directory, ROOM_BYTES, "free some")?;
    let mut found: [Vec<Found>; 3] = Default::default();
    for round in 0..options.rounds {
        for (index, system) in SYSTEMS.into_iter().enumerate() {
            let name = system.to_string();
            (options.progress)(&Progress {
                done: (round * SYSTEMS.len() + index) as u64,
                total: (SYSTEMS.len() * options.rounds) as u64,
                what: &name,
            });
            found[index].push(perform(options, system)?);
        }
    }
    let rows = SYSTEMS.iter().zip(&found);
    let rows = rows.map(|(system, found)| RelocationRow::of(&system.to_string(), found));
    Ok(RelocationReport::of(rows.collect(), options.rounds))
}

/// Without last-level caches, which would hold files of a size that the host has room for.
fn machine() -> Result<Machine> {
    let machine = Machine::profile(PROFILE).map_err(Error::failed)?;
    let mut machine = machine.first_nodes(NODES).map_err(Error::failed)?;
    for node in &mut machine.nodes {
        node.hardware.cache = None;
    }
    let emulated = machine.emulate(DILATION);
    emulated
        .and_then(Machine::standing_here)
        .map_err(Error::failed)
}

fn perform(options: &RelocationOptions<'_>, system: System) -> Result<Found> {
    let machine = machine()?;
    let setup = VolumeSetup {
        memory: None,
        pool_bytes: POOL_BYTES,
        allocation: AllocationPolicy::Pool(0),
    };
    let run = EmulatedRun::set_up(
        &machine,
        &[setup],
        &options.preload_library,
        &options.memory_directory,
        options.cancel,
    )?;
    let fio = |more: &[&str]| {
        let words = [
            "fio".to_owned(),
            "--name=f".to_owned(),
            format!("--directory={}", run.directory(0).display()),
            "--ioengine=psync".to_owned(),
            "--thread".to_owned(),
            "--fallocate=none".to_owned(),
            format!("--numjobs={READERS}"),
            format!("--size={FILE_BYTES}"),
        ];
        let more = more.iter().map(|word| (*word).to_owned());
        Call::new(words.into_iter().chain(more))
    };
    run.prepare(vec![fio(&["--rw=write", "--bs=1M"])])?;
    let steward = match system {
        System::Off => None,
        _ => Some(steward(&run, &machine, system)?),
    };
    let bytes = format!("--bs={REQUEST_BYTES}");
    let reads = fio(&[
        "--rw=randread",
        &bytes,
        "--norandommap",
        "--time_based",
        "--runtime=600",
    ]);
    let pace = RunPace {
        warm_up: options.warm_up,
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
fn elsewhere(volume: &egeria_engine::Volume) -> std::result::Result<u64, egeria_engine::Errno> {
    let mut all = 0;
    for reader in 0..READERS {
        let name = format!("f.{reader}.0");
        let ino = volume
            .lookup(egeria_engine::InodeNumber::ROOT, name.as_bytes())?
            .ino;
        let file = volume.open(ino, None)?;
        let by_pool = volume.bytes_by_pool(file, u64::MAX);
        volume.close(ino);
        all += by_pool?[1..].iter().sum::<u64>();
    }
    Ok(all)
}

fn steward(run: &EmulatedRun<'_>, machine: &Machine, system: System) -> Result<Steward> {
    let options = StewardOptions {
        policy: system.to_string(),
        settings: system.settings(),
        window_ns: WINDOW_NS,
        machine: machine.clone(),
        scope: Scope::Tree(std::process::id()),
        memory_source: None,
        measure_idle_pools: false,
        record: None,
        decision_log: None,
    };
    let volume = Arc::clone(run.shared(0));
    Steward::start(Target::Volume(volume), options).map_err(Error::failed)
}
