//! The figures of OdinFS on an emulated machine: fio on files that lie on one node, on several, and striped over all.

mod amplification;
mod plan;
mod report;

use std::num::NonZeroU8;

use egeria_engine::DelegationRule;
use egeria_harness::{Error, Result};

use crate::emulated::{EmulatedOptions, EmulatedRun, Moved, RunPace, VolumeSetup};

pub use plan::{Layout, Point, Selection};
pub use report::{OdinReport, OdinRow, OdinSummary};

/// Memory that the largest run needs.
const ROOM_BYTES: u64 = 2 << 30;
/// Delegates per node: what the medium's peak bandwidth for writes takes.
const DELEGATES: NonZeroU8 = NonZeroU8::new(4).unwrap();

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

fn perform(options: &EmulatedOptions<'_>, point: &Point) -> Result<Moved> {
    let setup = VolumeSetup {
        memory: None,
        pool_bytes: point.pool_bytes(),
        allocation: point.allocation(),
    };
    let run = EmulatedRun::set_up(options, &point.machine()?, &[setup])?;
    point.fill(&run)?;
    if point.layout == Layout::Delegated {
        let rule = DelegationRule {
            delegates: DELEGATES,
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
    let moved = moved.into_iter().next();
    moved.ok_or_else(|| Error::failed("nothing was measured"))
}
