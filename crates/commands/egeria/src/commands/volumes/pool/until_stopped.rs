//! Changes of a pool that take long.

use std::sync::atomic::Ordering;

use egeria_cli::failure::Outcome;
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;
use egeria_engine::{GoOn, VolumeError};

/// Shows how far a change of a pool is, until it is done or a signal stops it.
pub fn until_stopped<T>(
    what: &str,
    change: impl FnOnce(GoOn<'_>) -> Result<T, VolumeError>,
) -> Outcome<T> {
    let signals = Signals::install()?;
    let progress = Progress::bar(what);
    let stop = signals.stop_flag();
    Ok(change(&mut |step| {
        progress.advance(step.moved_blocks, step.all_blocks);
        !stop.load(Ordering::Relaxed)
    })?)
}
