//! The figures of the PATS paper on emulated machines: fio on persistent memory beside a copy and a get/set load on DRAM, with
//! and without limits.
//!
//! The limits are those that a steward sets while the programs run, and PATS's is its formula (Eq. 1) or what was learned.

mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use egeria_fs::AllocationPolicy;
use egeria_harness::program::find_in_path;
use egeria_harness::scratch::check_room;
use egeria_harness::statistics::median;
use egeria_harness::{Error, Progress, Result, silent};
use egeria_machine::{Machine, MemoryKind};
use egeria_policy::pats::Controller;
use egeria_policy::planner::System;
use egeria_steward::{Scope, Steward, StewardOptions, Target};

use crate::emulated_run::{EmulatedRun, Moved, RunPace, VolumeSetup};
use crate::script::Call;

pub use report::{PatsReport, PatsRow, PatsSummary};

/// Memory that the largest run needs.
const ROOM_BYTES: u64 = 1 << 30;
/// Bytes of each file on persistent memory.
const FILE_BYTES: u64 = 16 << 20;
/// Bytes of each file on DRAM.
const DRAM_FILE_BYTES: u64 = 64 << 20;
const POOL_BYTES: u64 = 384 << 20;
/// Requests are counted for one limit over this time of the machine, ms.
const WINDOW_MS: u64 = 5;
/// Host time per machine time.
const DILATION: f64 = 32.0;

/// What is done about threads on persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Nothing.
    None,
    /// PATS Eq. 1.
    Formula,
    /// The knee that was found while running.
    Learned,
}

/// A load on DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DramLoad {
    /// Reads and writes of 256 KiB in turn, as a memory copy makes them.
    Copy,
    /// Random reads and writes of 1 KiB, nine to one.
    GetSet,
}

/// One point of a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Number of the paper's figure.
    pub figure: &'static str,
    /// The machine.
    pub profile: &'static str,
    /// Threads on persistent memory; 0: the load on DRAM alone.
    pub threads: usize,
    /// Their requests.
    pub request_bytes: u64,
    /// Share of them that reads.
    pub read_share: f64,
    /// What is on DRAM.
    pub load: DramLoad,
    /// What is done.
    pub control: Control,
    /// PATS's tolerated loss (`T_mc`).
    pub tolerated_loss: f64,
}

/// What to run, and on what.
pub struct PatsOptions<'a> {
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// The tmpfs where pools are made.
    pub memory_directory: PathBuf,
    /// Only this figure; all when empty.
    pub figure: Option<String>,
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
            rounds: 5,
            measured: Duration::from_millis(1500),
            cancel: None,
            progress: &silent,
        }
    }
}

/// All points, those of DRAM alone first.
fn points() -> Vec<Point> {
    let point = |figure, profile, threads, control| Point {
        figure,
        profile,
        threads,
        request_bytes: 4096,
        read_share: 0.0,
        load: DramLoad::Copy,
        control,
        tolerated_loss: 0.2,
    };
    let mut all = vec![
        point("1", "optane-1s", 0, Control::None),
        point("5", "optane-1s-dimc", 0, Control::None),
        point("4", "optane-1s-3i", 0, Control::None),
    ];
    let get_set = |point: Point| Point {
        load: DramLoad::GetSet,
        ..point
    };
    all.push(get_set(point("1", "optane-1s", 0, Control::None)));
    for control in [Control::None, Control::Formula, Control::Learned] {
        // Figs. 1 and 12: by threads that write, with and without PATS.
        for threads in [1, 2, 4, 8, 14] {
            all.push(point("12", "optane-1s", threads, control));
        }
        all.push(get_set(point("13", "optane-1s", 14, control)));
    }
    for threads in [4, 14] {
        // Fig. 3: threads that read; Fig. 5: on another controller; Fig. 4: three DIMMs.
        let reads = point("3", "optane-1s", threads, Control::None);
        all.push(Point {
            read_share: 1.0,
            ..reads
        });
        all.push(point("5", "optane-1s-dimc", threads, Control::None));
    }
    for control in [Control::None, Control::Formula] {
        all.push(point("4", "optane-1s-3i", 14, control));
        // Fig. 10: by size of requests.
        for request_bytes in [512, 1024, 8192] {
            all.push(Point {
                request_bytes,
                ..point("10", "optane-1s", 14, control)
            });
        }
    }
    // Fig. 14: by the loss that is tolerated.
    for tolerated_loss in [0.1, 0.3, 0.5] {
        all.push(Point {
            tolerated_loss,
            ..point("14", "optane-1s", 14, Control::Formula)
        });
    }
    all
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
        point.threads == 0 || figure.is_none_or(|figure| point.figure == figure)
    };
    let points: Vec<Point> = points().into_iter().filter(wanted).collect();
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

/// What one run of a point gave.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    dram: Moved,
    persistent: Moved,
    limit: Option<u32>,
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

impl Point {
    fn words(&self) -> String {
        let control = match self.control {
            Control::None => "",
            Control::Formula => ", PATS",
            Control::Learned => ", learned limit",
        };
        format!("{}: {} threads{control}", self.profile, self.threads)
    }

    /// Without a last-level cache, which would hold files of a size that the host has room for.
    fn machine(&self) -> Result<Machine> {
        let mut machine = Machine::profile(self.profile).map_err(Error::failed)?;
        for node in &mut machine.nodes {
            node.hardware.cache = None;
        }
        let emulated = machine.emulate(DILATION);
        emulated
            .and_then(Machine::standing_here)
            .map_err(Error::failed)
    }

    fn fio(directory: &std::path::Path, threads: usize, bytes: u64) -> Vec<String> {
        vec![
            "fio".to_owned(),
            "--name=f".to_owned(),
            format!("--directory={}", directory.display()),
            "--ioengine=psync".to_owned(),
            "--thread".to_owned(),
            "--fallocate=none".to_owned(),
            format!("--numjobs={threads}"),
            format!("--size={bytes}"),
        ]
    }

    fn dram_words(&self, run: &EmulatedRun<'_>) -> Vec<String> {
        Point::fio(run.directory(0), 1, DRAM_FILE_BYTES)
    }

    fn persistent_words(&self, run: &EmulatedRun<'_>) -> Vec<String> {
        Point::fio(run.directory(1), self.threads, FILE_BYTES)
    }

    fn dram_call(&self, run: &EmulatedRun<'_>) -> Call {
        let mut words = self.dram_words(run);
        let own: &[&str] = match self.load {
            DramLoad::Copy => &["--rw=rw", "--rwmixread=50", "--bs=256k"],
            DramLoad::GetSet => &["--rw=randrw", "--rwmixread=90", "--bs=1k", "--norandommap"],
        };
        words.extend(own.iter().map(|word| (*word).to_owned()));
        words.extend(["--time_based", "--runtime=600"].map(str::to_owned));
        Call::new(words)
    }

    /// Sequential, as in the paper.
    fn persistent_call(&self, run: &EmulatedRun<'_>) -> Call {
        let mut words = self.persistent_words(run);
        let kind = if self.read_share > 0.0 {
            "read"
        } else {
            "write"
        };
        words.push(format!("--rw={kind}"));
        words.push(format!("--bs={}", self.request_bytes));
        words.extend(["--time_based", "--runtime=600"].map(str::to_owned));
        Call::new(words)
    }

    fn steward(&self, run: &EmulatedRun<'_>, machine: &Machine) -> Result<Option<Steward>> {
        let controller = match self.control {
            Control::None => return Ok(None),
            Control::Formula => Controller::Formula,
            Control::Learned => Controller::Learned,
        };
        if self.threads == 0 {
            return Ok(None);
        }
        let mut settings = System::Pats.settings();
        settings.pats.controller = controller;
        settings.pats.tolerated_loss = self.tolerated_loss;
        settings.pats.window_ms = WINDOW_MS;
        let options = StewardOptions {
            policy: System::Pats.to_string(),
            settings,
            window_ns: WINDOW_MS * 1_000_000,
            machine: machine.clone(),
            scope: Scope::Tree(std::process::id()),
            record: None,
            decision_log: None,
        };
        let volume = Arc::clone(run.shared(1));
        let steward = Steward::start(Target::Volume(volume), options).map_err(Error::failed)?;
        Ok(Some(steward))
    }
}

/// Median over the rounds.
fn over(rounds: &[Found], what: impl Fn(&Found) -> f64) -> f64 {
    let values: Vec<f64> = rounds.iter().map(what).collect();
    median(&values).unwrap_or(0.0)
}
