//! Threads that call, and their time.

use std::io;
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use super::calls::{Calls, Pace, directory};
use crate::names::plan::{Case, Sharing};
use crate::programs::worker;

/// Untimed batches each thread begins with.
const WARM_BATCHES: u32 = 1;

/// Time in which one call of any thread is done, ns.
pub(super) fn measure(root: &Path, case: &Case, milliseconds: u64) -> io::Result<f64> {
    let limit = Duration::from_millis(milliseconds);
    let paces = worker::in_threads(case.threads, |thread, barrier| {
        run_thread(root, case, thread, limit, barrier)
    })?;
    let calls_ns: f64 = paces
        .iter()
        .map(|pace| pace.calls as f64 / pace.time.as_nanos().max(1) as f64)
        .sum();
    Ok(1.0 / calls_ns)
}

fn run_thread(
    root: &Path,
    case: &Case,
    thread: usize,
    limit: Duration,
    barrier: &Barrier,
) -> io::Result<Pace> {
    let directory = directory(
        root,
        if case.sharing == Sharing::Own {
            thread
        } else {
            0
        },
    );
    let begun = Calls::begin(case, &directory, thread).and_then(|mut calls| {
        (0..WARM_BATCHES).try_for_each(|_| calls.batch().map(|_| ()))?;
        Ok(calls)
    });
    // Everybody comes here, also after a failure, or the others would wait for ever.
    barrier.wait();
    let mut calls = begun?;
    let mut pace = Pace::default();
    while pace.time < limit {
        let batch = calls.batch()?;
        pace.calls += batch.calls;
        pace.time += batch.time;
    }
    calls.end()?;
    Ok(pace)
}
