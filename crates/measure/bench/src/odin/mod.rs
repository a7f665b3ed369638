//! The figures of OdinFS on an emulated machine: fio on files that lie on one node, on several, and striped over all.

mod amplification;
mod plan;
mod report;

use std::num::NonZeroU8;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use egeria_engine::DelegationRule;
use egeria_harness::program::find_in_path;
use egeria_harness::{Error, Progress, Result, silent};
use egeria_scratch::check_room;

use crate::emulated_run::{EmulatedRun, Moved, RunPace, VolumeSetup};

pub use plan::{Layout, Point};
pub use report::{OdinReport, OdinRow, OdinSummary};

/// Memory that the largest run needs.
const ROOM_BYTES: u64 = 2 << 30;
/// What the medium's peak bandwidth for writes takes.
const DELEGATES: NonZeroU8 = NonZeroU8::new(4).unwrap();

/// What to run, and on what.
pub struct OdinOptions<'a> {
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// The tmpfs where pools are made.
    pub memory_directory: PathBuf,
    /// Only so many nodes; 1, 2, 4 and 8 when empty.
    pub nodes: Vec<usize>,
    /// Delegates per node, where there are any.
    pub delegates: NonZeroU8,
    /// Only what the summary of eight nodes needs.
    pub brief: bool,
    /// How often each is run; figures are medians.
    pub rounds: usize,
    /// How long each is measured, host time.
    pub measured: Duration,
    /// Set it (as from a signal handler) to stop and clean up.
    pub cancel: Option<&'a AtomicBool>,
    /// Called before each step.
    pub progress: &'a dyn Fn(&Progress<'_>),
}

impl OdinOptions<'_> {
    /// All of it, five times.
    pub fn new(preload_library: PathBuf) -> OdinOptions<'static> {
        OdinOptions {
            preload_library,
            memory_directory: PathBuf::from("/dev/shm"),
            nodes: Vec::new(),
            delegates: DELEGATES,
            brief: false,
            rounds: 5,
            measured: Duration::from_millis(1500),
            cancel: None,
            progress: &silent,
        }
    }
}

/// Runs all points.
///
/// # Errors
/// When fio is missing, there is no room, a program fails, or it was interrupted.
pub fn run(options: &OdinOptions<'_>) -> Result<OdinReport> {
    if find_in_path("fio").is_none() {
        return Err(Error::MissingPrograms {
            programs: "fio".to_owned(),
            packages: "fio".to_owned(),
        });
    }
    check_room(&options.memory_directory, ROOM_BYTES, "free some")?;
    let mut points = plan::points(&options.nodes);
    if options.brief {
        points.retain(|point| point.nodes == 8 && point.layout != Layout::Spread);
    }
    let total = (points.len() * options.rounds) as u64;
    let mut found: Vec<Vec<Moved>> = vec![Vec::new(); points.len()];
    for round in 0..options.rounds {
        for (index, point) in points.iter().enumerate() {
            (options.progress)(&Progress {
                done: (round * points.len() + index) as u64,
                total,
                what: &point.words(),
            });
            found[index].push(perform(options, point)?);
        }
    }
    let amplification = amplification::measure(&options.memory_directory)?;
    Ok(OdinReport::of(
        &points,
        &found,
        amplification,
        options.rounds,
    ))
}

fn perform(options: &OdinOptions<'_>, point: &Point) -> Result<Moved> {
    let machine = point.machine()?;
    let setup = VolumeSetup {
        memory: None,
        pool_bytes: point.pool_bytes(),
        allocation: point.allocation(),
    };
    let run = EmulatedRun::set_up(
        &machine,
        &[setup],
        &options.preload_library,
        &options.memory_directory,
        options.cancel,
    )?;
    point.fill(&run)?;
    if point.layout == Layout::Delegated {
        let rule = DelegationRule {
            delegates: options.delegates,
            min_read_bytes: 1,
            min_write_bytes: 1,
            always: true,
        };
        let set = run.volume(0).set_delegation(Some(rule), true);
        set.map_err(|errno| Error::failed(format!("delegation cannot be set: {errno}")))?;
    }
    let pace = RunPace {
        warm_up: options.measured / 3,
        measured: options.measured,
    };
    let moved = run.measure(&[(point.call(&run), point.threads)], pace)?;
    moved
        .into_iter()
        .next()
        .ok_or_else(|| Error::failed("nothing was measured"))
}
