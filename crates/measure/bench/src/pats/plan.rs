//! What is run.

use std::sync::Arc;

use egeria_harness::{Error, Result};
use egeria_machine::Machine;
use egeria_policy::pats::Controller;
use egeria_policy::planner::System;
use egeria_stats::statistics::median;
use egeria_steward::{Scope, Steward, StewardOptions, Target};

use crate::emulated_run::{EmulatedRun, Moved};
use crate::script::Call;

/// Bytes of each file on persistent memory.
const FILE_BYTES: u64 = 16 << 20;
/// Bytes of each file on DRAM.
const DRAM_FILE_BYTES: u64 = 64 << 20;
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

/// All points, those of DRAM alone first.
pub(super) fn points() -> Vec<Point> {
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

/// What one run of a point gave.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) dram: Moved,
    pub(crate) persistent: Moved,
    pub(crate) limit: Option<u32>,
}

impl Point {
    /// Whether it is of the summary, or the same with fewer threads.
    pub(super) fn is_brief(&self) -> bool {
        let usual = self.profile == "optane-1s" && self.load == DramLoad::Copy;
        let few = self.figure == "12" && matches!(self.threads, 4 | 14);
        usual && (few || self.threads == 0) && self.control != Control::Learned
    }

    pub(super) fn words(&self) -> String {
        let control = match self.control {
            Control::None => "",
            Control::Formula => ", PATS",
            Control::Learned => ", learned limit",
        };
        format!("{}: {} threads{control}", self.profile, self.threads)
    }

    /// Without a last-level cache, which would hold files of a size that the host has room for.
    pub(super) fn machine(&self) -> Result<Machine> {
        let mut machine = Machine::profile(self.profile).map_err(Error::failed)?;
        for node in &mut machine.nodes {
            node.hardware.cache = None;
        }
        let emulated = machine.emulate(DILATION);
        emulated
            .and_then(Machine::standing_here)
            .map_err(Error::failed)
    }

    pub(super) fn fio(directory: &std::path::Path, threads: usize, bytes: u64) -> Vec<String> {
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

    pub(super) fn dram_words(&self, run: &EmulatedRun<'_>) -> Vec<String> {
        Point::fio(run.directory(0), 1, DRAM_FILE_BYTES)
    }

    pub(super) fn persistent_words(&self, run: &EmulatedRun<'_>) -> Vec<String> {
        Point::fio(run.directory(1), self.threads, FILE_BYTES)
    }

    pub(super) fn dram_call(&self, run: &EmulatedRun<'_>) -> Call {
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
    pub(super) fn persistent_call(&self, run: &EmulatedRun<'_>) -> Call {
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

    pub(super) fn steward(
        &self,
        run: &EmulatedRun<'_>,
        machine: &Machine,
    ) -> Result<Option<Steward>> {
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
            memory_source: None,
            measure_idle_pools: false,
            record: None,
            decision_log: None,
        };
        let volume = Arc::clone(run.shared(1));
        let steward = Steward::start(Target::Volume(volume), options).map_err(Error::failed)?;
        Ok(Some(steward))
    }
}

/// Median over the rounds.
pub(super) fn over(rounds: &[Found], what: impl Fn(&Found) -> f64) -> f64 {
    let values: Vec<f64> = rounds.iter().map(what).collect();
    median(&values).unwrap_or(0.0)
}
