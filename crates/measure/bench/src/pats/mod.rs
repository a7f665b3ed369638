//! The figures of the PATS paper on emulated machines: fio on persistent memory beside a copy and a get/set load on DRAM, with
//! and without limits.
//!
//! The limits are those that a steward sets while the programs run, and PATS's is its formula (Eq. 1) or what was learned.

mod gate;
mod plan;
mod report;

use egeria_engine::AllocationPolicy;
use egeria_harness::Result;
use egeria_machine::MemoryKind;

use crate::emulated::{EmulatedOptions, EmulatedRun, RunPace, VolumeSetup};

pub use gate::Gate;
use plan::Found;
pub use plan::{Control, DramLoad, FIGURES, Point, Selection};
pub use report::{ByThreads, NotReproduced, PatsReport, PatsRow, PatsSummary};

/// Memory that the largest run needs.
const ROOM_BYTES: u64 = 1 << 30;
const POOL_BYTES: u64 = 384 << 20;

/// Runs the figures.
///
/// # Errors
/// When fio is missing, there is no room, a program fails, or it was interrupted.
pub fn run(options: &EmulatedOptions<'_>, selection: &Selection) -> Result<PatsReport> {
    let points = plan::points(selection);
    let perform = |point: &Point| perform(options, point);
    let found = options.rounds(ROOM_BYTES, &points, Point::words, perform)?;
    let gate = gate::measure(&options.memory_directory)?;
    Ok(PatsReport::of(&points, &found, gate, options.rounds))
}

fn perform(options: &EmulatedOptions<'_>, point: &Point) -> Result<Found> {
    let machine = point.machine()?;
    let setup = |memory| VolumeSetup {
        memory: Some(memory),
        pool_bytes: POOL_BYTES,
        allocation: AllocationPolicy::Local,
    };
    let kinds = [MemoryKind::Dram, MemoryKind::Persistent].map(setup);
    let has_persistent = point.threads > 0;
    let volumes = &kinds[..1 + usize::from(has_persistent)];
    let run = EmulatedRun::set_up(options, &machine, volumes)?;
    let mut preparations = vec![point.dram(&run).fill()];
    let mut programs = vec![(point.dram_call(&run), 1)];
    if has_persistent {
        preparations.push(point.persistent(&run).fill());
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
    let limit = has_persistent.then(|| run.volume(1).admission(false)[0].limit);
    drop(steward);
    let mut moved = moved?.into_iter();
    Ok(Found {
        dram: moved.next().unwrap_or_default(),
        persistent: moved.next().unwrap_or_default(),
        limit: limit.flatten().map(u32::from),
    })
}
