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
    /// Random reads of one cache line, one after the other.
    Latency,
}

/// One point of a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Numbers of the paper's figures that it is of, as far as a figure has this point; [`OURS`] for none.
    pub figures: &'static [&'static str],
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

/// A point that no figure of the paper has.
pub(super) const OURS: &str = "ours";
/// The paper's figures that are measured.
pub const FIGURES: [&str; 13] = [
    "1", "3", "4a", "4b", "5", "6", "7", "8", "10", "11", "12", "13", "14",
];
/// What of the paper is not reproduced, and why.
pub(super) const NOT_REPRODUCED: [(&str, &str); 3] = [
    ("2, 9", "they are drawings of the machine and of PATS"),
    (
        "4a, 11: Memcached itself; 4b: MBW's MEMCPY and DUMB themselves",
        "only accesses through the file system are charged on an emulated machine, not a program's own loads and stores; fio's reads and \
         writes on a volume in DRAM stand in: 1 KiB at random for Memcached, 256 KiB in turn as MCBLOCK copies",
    ),
    (
        "6: requests of 64 and 128 bytes",
        "fio's own computing takes longer than such a request, so they crowd nothing",
    ),
];

pub(super) fn points(selection: &Selection) -> Vec<Point> {
    let is_wanted = |point: &Point| match selection {
        Selection::All => true,
        Selection::Figure(figure) => point.threads == 0 || point.figures.contains(&figure.as_str()),
        Selection::Brief => point.is_brief(),
    };
    all_points().into_iter().filter(is_wanted).collect()
}

/// Writers of 4 KiB together with the copy, on the paper's machine.
const WRITERS: Point = Point {
    figures: &["1", "4b", "6", "7", "8", "10", "12", "13"],
    profile: "optane-1s",
    threads: 14,
    request_bytes: 4096,
    read_share: 0.0,
    load: DramLoad::Copy,
    control: Control::None,
    tolerated_loss: 0.2,
};

/// The programs on DRAM alone come first.
fn all_points() -> Vec<Point> {
    let mut all = Vec::new();
    let mut add = |figures: &'static [&'static str], threads: &[usize], point: Point| {
        all.extend(threads.iter().map(|threads| Point {
            figures,
            threads: *threads,
            ..point
        }));
    };
    let on = |profile: &'static str| Point { profile, ..WRITERS };
    let with_load = |load: DramLoad| Point { load, ..WRITERS };
    let of = |request_bytes: u64| Point {
        request_bytes,
        ..WRITERS
    };
    let formula = |point: Point| Point {
        control: Control::Formula,
        ..point
    };
    let learned = |point: Point| Point {
        control: Control::Learned,
        ..point
    };
    let readers = |point: Point| Point {
        read_share: 1.0,
        ..point
    };
    for profile in [
        "optane-1s",
        "optane-1s-dimc",
        "optane-1s-2i",
        "optane-1s-3i",
    ] {
        add(&[], &[0], on(profile));
    }
    add(&[], &[0], with_load(DramLoad::GetSet));
    add(&[], &[0], with_load(DramLoad::Latency));
    add(WRITERS.figures, &[1, 2, 4, 6, 8, 14], WRITERS);
    add(&["10", "12", "13"], &[1, 2, 4, 6, 8, 14], formula(WRITERS));
    add(&[OURS], &[1, 2, 4, 8, 14], learned(WRITERS));
    add(
        &["3"],
        &[2, 4, 8, 14],
        readers(with_load(DramLoad::Latency)),
    );
    add(&["5", "7"], &[2, 4, 8, 14], readers(WRITERS));
    add(&["5"], &[2, 4, 8, 14], readers(on("optane-1s-dimc")));
    add(&["4a", "11"], &[4, 8, 14], with_load(DramLoad::GetSet));
    add(&["11"], &[4, 8, 14], formula(with_load(DramLoad::GetSet)));
    add(&[OURS], &[14], learned(with_load(DramLoad::GetSet)));
    add(&["8", "13"], &[6, 14], on("optane-1s-2i"));
    add(&["13"], &[6, 14], formula(on("optane-1s-2i")));
    add(&["8"], &[6, 14], on("optane-1s-3i"));
    add(&["6", "10"], &[4, 8, 14], of(256));
    add(&["6", "10"], &[4, 8, 14], of(1024));
    add(&["6", "10", "12", "14"], &[1, 2, 4, 8, 14], of(512));
    add(&["10"], &[14], of(8192));
    for request_bytes in [256, 1024, 8192] {
        add(&["10"], &[14], formula(of(request_bytes)));
    }
    add(&["10", "12", "14"], &[1, 2, 4, 8, 14], formula(of(512)));
    // Fig. 14: what is tolerated, a tenth more and a tenth less.
    for tolerated_loss in [0.1, 0.3] {
        let other = Point {
            tolerated_loss,
            ..of(512)
        };
        add(&["14"], &[4, 8, 14], formula(other));
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
        let few = matches!(self.threads, 0 | 4 | 14) && self.request_bytes == 4096;
        usual && few && self.read_share == 0.0 && self.control != Control::Learned
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
            DramLoad::Latency => &["--rw=randread", "--bs=64", "--norandommap"],
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
        steward(run.shared(1), options).map(Some)
    }
}
