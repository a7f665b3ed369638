//! The figures of OdinFS on an emulated machine: fio on files that lie on one node, on several, and striped over all.

mod amplification;
mod plan;
mod report;

use std::time::Duration;

use egeria_harness::{Error, Result};
use egeria_policy::planner::System;
use egeria_steward::{Steward, StewardOptions};

use crate::emulated::{
    EmulatedOptions, EmulatedRun, RunPace, VolumeSetup, steward, steward_options,
};

use plan::Found;
pub use plan::{Layout, Point, Selection, Sharing};
pub use report::{OdinDelegated, OdinReport, OdinRow, OdinSummary};

/// Memory that the largest run needs.
const ROOM_BYTES: u64 = 2 << 30;
/// Time between two decisions of the planner, of the machine.
const WINDOW_NS: u64 = 4_000_000;
/// Windows before it is measured: the planner tries delegation, and keeps it where it pays.
const WINDOWS: u32 = 32;

/// Runs the points.
///
/// # Errors
/// When fio is missing, there is no room, a program fails, or it was interrupted.
pub fn run(options: &EmulatedOptions<'_>, selection: &Selection) -> Result<OdinReport> {
    let points = plan::points(selection);
    let perform = |point: &Point| perform(options, point);
    let found = options.rounds(ROOM_BYTES, &points, Point::words, perform)?;
    let amplification = amplification::measure(&options.memory_directory)?;
    let rounds = options.rounds;
    Ok(OdinReport::of(&points, &found, amplification, rounds))
}

fn perform(options: &EmulatedOptions<'_>, point: &Point) -> Result<Found> {
    let setup = VolumeSetup {
        memory: None,
        pool_bytes: point.pool_bytes(),
        allocation: point.allocation(),
    };
    let run = EmulatedRun::set_up(options, &point.machine()?, &[setup])?;
    point.fill(&run)?;
    let planner = planner(&run, point)?;
    let warm_up = match planner {
        Some(_) => Duration::from_nanos(WINDOW_NS).mul_f64(point.dilation()) * WINDOWS,
        None => options.measured / 3,
    };
    let pace = RunPace {
        warm_up,
        measured: options.measured,
    };
    let moved = run.measure(&[(point.call(&run), point.threads)], pace);
    let (rule, _) = run.volume(0).delegation();
    drop(planner);
    let moved = moved?.into_iter().next();
    Ok(Found {
        moved: moved.ok_or_else(|| Error::failed("nothing was measured"))?,
        delegates: rule.map_or(0, |rule| rule.delegates.get()),
    })
}

/// The planner with its usual settings, where it decides.
fn planner(run: &EmulatedRun<'_>, point: &Point) -> Result<Option<Steward>> {
    if point.layout != Layout::Delegated {
        return Ok(None);
    }
    let options = StewardOptions {
        window_ns: WINDOW_NS,
        ..steward_options(&point.machine()?, System::All)
    };
    steward(run.shared(0), options).map(Some)
}
