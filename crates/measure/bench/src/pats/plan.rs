//! What is run.

use egeria_harness::Result;
use egeria_machine::Machine;
use egeria_policy::pats::Controller;
use egeria_policy::planner::System;
use egeria_steward::Steward;

use crate::emulated::{EmulatedRun, Moved, machine, steward, steward_options};
use crate::programs::fio::Jobs;
use crate::programs::script::Call;

/// Bytes of each file on persistent memory.
const FILE_BYTES: u64 = 16 << 20;
const DRAM_FILE_BYTES: u64 = 64 << 20;
/// Requests are counted for one limit over this time of the machine, ms.
const WINDOW_MS: u64 = 5;
/// Host time per machine time.
const DILATION: f64 = 32.0;

/// What is done about threads on persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
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
    pub profile: &'static str,
    /// Threads on persistent memory; 0: the load on DRAM alone.
    pub threads: usize,
    /// Their requests.
    pub request_bytes: u64,
    /// Share of them that reads.
    pub read_share: f64,
    pub load: DramLoad,
    pub control: Control,
    /// PATS's tolerated loss (`T_mc`).
    pub tolerated_loss: f64,
}

/// Which points are run.
pub enum Selection {
    /// Those of all figures.
    All,
    /// Those of this figure, and what they are compared with.
    Figure(String),
    /// Only what the summary needs, and four threads.
    Brief,
}

pub(super) fn points(selection: &Selection) -> Vec<Point> {
    let is_wanted = |point: &Point| match selection {
        Selection::All => true,
        Selection::Figure(figure) => point.threads == 0 || point.figure == figure,
        Selection::Brief => point.is_brief(),
    };
    all_points().into_iter().filter(is_wanted).collect()
}

/// Those of DRAM alone first.
fn all_points() -> Vec<Point> {
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
    fn is_brief(&self) -> bool {
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

    pub(super) fn machine(&self) -> Result<Machine> {
        machine(self.profile, None, DILATION)
    }

    pub(super) fn dram<'r>(&self, run: &'r EmulatedRun<'_>) -> Jobs<'r> {
        Jobs {
            directory: run.directory(0),
            count: 1,
            file_bytes: DRAM_FILE_BYTES,
            is_shared: false,
        }
    }

    pub(super) fn persistent<'r>(&self, run: &'r EmulatedRun<'_>) -> Jobs<'r> {
        Jobs {
            directory: run.directory(1),
            count: self.threads,
            file_bytes: FILE_BYTES,
            is_shared: false,
        }
    }

    pub(super) fn dram_call(&self, run: &EmulatedRun<'_>) -> Call {
        let own: &[&str] = match self.load {
            DramLoad::Copy => &["--rw=rw", "--rwmixread=50", "--bs=256k"],
            DramLoad::GetSet => &["--rw=randrw", "--rwmixread=90", "--bs=1k", "--norandommap"],
        };
        self.dram(run).endless(own.iter().copied())
    }

    /// Sequential, as in the paper.
    pub(super) fn persistent_call(&self, run: &EmulatedRun<'_>) -> Call {
        let kind = if self.read_share > 0.0 {
            "read"
        } else {
            "write"
        };
        let own = [
            format!("--rw={kind}"),
            format!("--bs={}", self.request_bytes),
        ];
        self.persistent(run).endless(own)
    }

    pub(super) fn steward(
        &self,
        run: &EmulatedRun<'_>,
        machine: &Machine,
    ) -> Result<Option<Steward>> {
        let controller = match self.control {
            _ if self.threads == 0 => return Ok(None),
            Control::None => return Ok(None),
            Control::Formula => Controller::Formula,
            Control::Learned => Controller::Learned,
        };
        let mut options = steward_options(machine, System::Pats);
        options.window_ns = WINDOW_MS * 1_000_000;
        options.settings.pats.controller = controller;
        options.settings.pats.tolerated_loss = self.tolerated_loss;
        options.settings.pats.window_ms = WINDOW_MS;
        steward(run.shared(1), options).map(Some)
    }
}
