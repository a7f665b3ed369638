//! A snapshot of the engine that is under way while a workload runs: it shows the instant at which it began.

use super::judge::LegalState;
use super::snapshot::Snapshot;
use egeria_engine::Volume;
use std::sync::Arc;

/// A snapshot that has begun, and what it has to show.
pub(super) struct UnderWay {
    snapshot: egeria_engine::Snapshot,
    expected: Arc<Snapshot>,
    may_end: bool,
}

/// Begin a snapshot of a volume in this state. `may_end`: no block is free, so that it may end early.
pub(super) fn begin_snapshot(
    volume: &Arc<Volume>,
    state: &LegalState,
    may_end: bool,
) -> Result<UnderWay, String> {
    Ok(UnderWay {
        snapshot: volume.snapshot().map_err(|error| error.to_string())?,
        expected: state.snapshot.clone(),
        may_end,
    })
}

/// Read the snapshot and end it.
///
/// # Panics
/// When it shows something else. What panics while it runs is a violation.
pub(super) fn end_snapshot(under_way: Option<UnderWay>) {
    let Some(under_way) = under_way else { return };
    match under_way
        .expected
        .difference_to_instant(&under_way.snapshot)
    {
        Ok(None) => {}
        Err(errno) if under_way.may_end && errno.0 == libc::ESTALE => {}
        Ok(Some(difference)) => panic!("the snapshot shows another instant:\n{difference}"),
        Err(errno) => panic!("the snapshot cannot be read: {errno}"),
    }
}
