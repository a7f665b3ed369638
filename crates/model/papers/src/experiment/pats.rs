//! PATS's machine: a copy in DRAM next to threads that access persistent memory. Figs. 1 and 3 to 14.

use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_sim::{Options, Pattern, Workload};

use super::stage::{Stage, profile};
use crate::error::Result;
use crate::results::Results;

const PATS: &str = include_str!("../../workloads/pats.toml");
/// Threads at persistent memory, at most (§III-A).
pub(crate) const MAX_THREADS: u32 = 14;
/// Sizes of requests in Figs. 6, 10 and 12, bytes.
pub(crate) const SIZES: [u64; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// A load of LMBench, bytes.
const LINE_BYTES: u64 = 64;
/// Groups of the workload.
const COPY: usize = 0;
const FIO: usize = 1;

/// Which controller decides, and how.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Controller {
    /// No controller ("Baseline").
    Baseline,
    /// PATS with this `T_mc`.
    Pats(f64),
}

/// `T_mc` as the paper sets it, and 0.1 less and more (Fig. 14).
pub(crate) const DEFAULT: Controller = Controller::Pats(0.2);
pub(crate) const LESS: Controller = Controller::Pats(0.1);
pub(crate) const MORE: Controller = Controller::Pats(0.3);

/// One curve over threads: on which machine, under which controller, and what is done with persistent memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Series {
    pub(crate) machine: &'static str,
    pub(crate) controller: Controller,
    /// Share of reads at persistent memory.
    pub(crate) read_share: f64,
    pub(crate) bytes: u64,
}

impl Series {
    /// On the machine of Table I.
    pub(crate) const fn writes(controller: Controller, bytes: u64) -> Series {
        Series::on("optane-1s", controller, 0.0, bytes)
    }

    pub(crate) const fn on(
        machine: &'static str,
        controller: Controller,
        read_share: f64,
        bytes: u64,
    ) -> Series {
        Series {
            machine,
            controller,
            read_share,
            bytes,
        }
    }

    fn key(&self, what: &str) -> String {
        let Series {
            machine,
            controller,
            read_share,
            bytes,
        } = self;
        format!("{machine} {controller:?} {read_share} {bytes} {what}")
    }

    /// The copy's throughput, bytes/s, with `threads` threads at persistent memory.
    pub(crate) fn copy(&self, results: &Results, threads: u32) -> Option<f64> {
        self.at(results, "copy", threads)
    }

    /// Throughput of persistent memory, bytes/s.
    pub(crate) fn persistent(&self, results: &Results, threads: u32) -> Option<f64> {
        self.at(results, "persistent", threads)
    }

    /// A point of either.
    pub(crate) fn at(&self, results: &Results, what: &str, threads: u32) -> Option<f64> {
        results.at(FIGURE, &self.key(what), f64::from(threads))
    }

    /// The whole curve of either.
    pub(crate) fn curve<'a>(&self, results: &'a Results, what: &str) -> Option<&'a [(f64, f64)]> {
        results.curve(FIGURE, &self.key(what))
    }
}

/// Results of this module are under this name.
const FIGURE: &str = "PATS";

/// All curves that claims or figures need.
fn all() -> Vec<Series> {
    let mut all = Vec::new();
    for bytes in SIZES {
        all.push(Series::writes(Controller::Baseline, bytes));
        all.push(Series::writes(DEFAULT, bytes));
    }
    all.extend([LESS, MORE].map(|controller| Series::writes(controller, 512)));
    for machine in ["optane-1s", "optane-1s-dimc"] {
        all.push(Series::on(machine, Controller::Baseline, 1.0, 4096));
    }
    for machine in ["optane-1s-2i", "optane-1s-3i"] {
        all.push(Series::on(machine, Controller::Baseline, 0.0, 4096));
    }
    all.push(Series::on("optane-1s-2i", DEFAULT, 0.0, 4096));
    all
}

/// Runs all curves, and DRAM's latency.
pub(super) fn curves(stage: &Stage, results: &mut Results) -> Result<()> {
    for series in all() {
        let machine = profile(series.machine)?;
        let (mut copy, mut persistent) = (Vec::new(), Vec::new());
        for threads in 0..=MAX_THREADS {
            let workload = workload(stage, &series, threads)?;
            let outcome = stage.outcome(&machine, &workload, &options(&series))?;
            let at = f64::from(threads);
            // A byte copied is read and written.
            copy.push((at, outcome.groups[COPY].bytes_s / 2.0));
            let fio = outcome.groups.get(FIO).map_or(0.0, |group| group.bytes_s);
            persistent.push((at, fio));
        }
        results.set_curve(FIGURE, &series.key("copy"), copy);
        results.set_curve(FIGURE, &series.key("persistent"), persistent);
    }
    let machine = profile("optane-1s")?;
    loads(stage, &machine, results)?;
    latency(stage, &machine, results)
}

/// Loads that wait for DRAM one after the other, next to writers that PATS schedules: loads/s.
fn loads(stage: &Stage, machine: &Machine, results: &mut Results) -> Result<()> {
    let writers = Series::writes(DEFAULT, 4096);
    let mut points = Vec::new();
    for threads in [0, MAX_THREADS] {
        let workload = one_load(workload(stage, &writers, threads)?);
        let outcome = stage.outcome(machine, &workload, &options(&writers))?;
        points.push((f64::from(threads), outcome.groups[COPY].operations_s));
    }
    results.set_curve("P11", "loads", points);
    Ok(())
}

/// The copy becomes loads that wait for each other.
fn one_load(mut workload: Workload) -> Workload {
    let phase = &mut workload.threads[COPY].phases[0];
    (phase.read_share, phase.request_bytes) = (1.0, LINE_BYTES);
    phase.pattern = Pattern::Random;
    workload
}

fn options(series: &Series) -> Options {
    match series.controller {
        Controller::Baseline => Options::published(System::Off),
        Controller::Pats(tolerated_loss) => {
            let mut options = Options::published(System::Pats);
            options.planner.pats.tolerated_loss = tolerated_loss;
            // Fig. 10a leaves requests of 256 bytes alone.
            options.planner.pats.paper_bypass = true;
            options
        }
    }
}

fn workload(stage: &Stage, series: &Series, threads: u32) -> Result<Workload> {
    let mut workload = stage.steady(PATS, "pats.toml")?;
    if threads == 0 {
        workload.threads.truncate(FIO);
        return Ok(workload);
    }
    let fio = &mut workload.threads[FIO];
    fio.count = u64::from(threads);
    fio.phases[0].read_share = series.read_share;
    fio.phases[0].request_bytes = series.bytes;
    Ok(workload)
}

/// Fig. 3: what one load from DRAM takes next to readers of persistent memory, ns.
fn latency(stage: &Stage, machine: &Machine, results: &mut Results) -> Result<()> {
    let readers = Series::on("optane-1s", Controller::Baseline, 1.0, 4096);
    let mut points = Vec::new();
    for threads in 0..=MAX_THREADS {
        let workload = one_load(workload(stage, &readers, threads)?);
        let outcome = stage.outcome(machine, &workload, &options(&readers))?;
        points.push((f64::from(threads), outcome.groups[COPY].operation_ns));
    }
    results.set_curve("P3", "latency_ns", points);
    Ok(())
}
