//! The figures of the PATS paper on emulated machines: fio on persistent memory beside a copy and a get/set load on DRAM, with
//! and without limits.
//!
//! The limits are those that a steward sets while the programs run, and PATS's is its formula (Eq. 1) or what was learned.

mod plan;
mod report;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use egeria_engine::AllocationPolicy;
use egeria_harness::program::find_in_path;
use egeria_harness::{Error, Progress, Result, silent};
use egeria_machine::MemoryKind;
use egeria_scratch::check_room;

use crate::emulated_run::{EmulatedRun, RunPace, VolumeSetup};
use crate::script::Call;

use plan::Found;
pub use plan::{Control, DramLoad, Point};
pub use report::{PatsReport, PatsRow, PatsSummary};

/// Memory that the largest run needs.
const ROOM_BYTES: u64 = 1 << 30;
const POOL_BYTES: u64 = 384 << 20;
/// What to run, and on what.
pub struct PatsOptions<'a> {
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// The tmpfs where pools are made.
    pub memory_directory: PathBuf,
    /// Only this figure; all when empty.
    pub figure: Option<String>,
    /// Only what the summary needs, and four threads.
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

impl PatsOptions<'_> {
    /// All figures, five times.
    pub fn new(preload_library: PathBuf) -> PatsOptions<'static> {
        PatsOptions {
            preload_library,
            memory_directory: PathBuf::from("/dev/shm"),
            figure: None,
            brief: false,
            rounds: 5,
            measured: Duration::from_millis(1500),
            cancel: None,
            progress: &silent,
        }
    }
}

/// Runs the figures.
///
/// # Errors
/// When fio is missing, there is no room, a program fails, or it was interrupted.
pub fn run(options: &PatsOptions<'_>) -> Result<PatsReport> {
    if find_in_path("fio").is_none() {
        return Err(Error::MissingPrograms {
            programs: "fio".to_owned(),
            packages: "fio".to_owned(),
        });
    }
    check_room(&options.memory_directory, ROOM_BYTES, "free some")?;
    let wanted = |point: &Point| {
        let figure = options.figure.as_ref();
        if options.brief {
            point.is_brief()
        } else {
            point.threads == 0 || figure.is_none_or(|figure| point.figure == figure)
        }
    };
    let points: Vec<Point> = plan::points().into_iter().filter(wanted).collect();
    let total = (points.len() * options.rounds) as u64;
    let mut found: Vec<Vec<Found>> = vec![Vec::new(); points.len()];
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
    Ok(PatsReport::of(&points, &found, options.rounds))
}

fn perform(options: &PatsOptions<'_>, point: &Point) -> Result<Found> {
    let machine = point.machine()?;
    let setup = |memory| VolumeSetup {
        memory: Some(memory),
        pool_bytes: POOL_BYTES,
        allocation: AllocationPolicy::Local,
    };
    let kinds = [MemoryKind::Dram, MemoryKind::Persistent].map(setup);
    let run = EmulatedRun::set_up(
        &machine,
        &kinds[..1 + usize::from(point.threads > 0)],
        &options.preload_library,
        &options.memory_directory,
        options.cancel,
    )?;
    let fill = |mut words: Vec<String>| {
        words.extend(["--rw=write", "--bs=1M"].map(str::to_owned));
        Call::new(words)
    };
    let mut preparations = vec![fill(point.dram_words(&run))];
    let mut programs = vec![(point.dram_call(&run), 1)];
    if point.threads > 0 {
        preparations.push(fill(point.persistent_words(&run)));
        programs.push((point.persistent_call(&run), point.threads));
    }
    run.prepare(preparations)?;
    let steward = point.steward(&run, &machine)?;
    let pace = RunPace {
        // Some windows for the limit to settle; a learned one takes more.
        warm_up: match point.control {
            Control::Learned => options.measured * 4,
            _ => options.measured,
        },
        measured: options.measured,
    };
    let moved = run.measure(&programs, pace);
    let limit = (point.threads > 0)
        .then(|| run.volume(1).admission(false)[0].limit)
        .flatten();
    drop(steward);
    let mut moved = moved?.into_iter();
    Ok(Found {
        dram: moved.next().unwrap_or_default(),
        persistent: moved.next().unwrap_or_default(),
        limit: limit.map(u32::from),
    })
}
