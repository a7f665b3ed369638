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
    let barrier = Barrier::new(case.threads);
    let limit = Duration::from_millis(milliseconds);
    let run = |thread| run_thread(root, case, thread, limit, &barrier);
    let paces: Vec<io::Result<Pace>> = std::thread::scope(|scope| {
        let run = &run;
        let handles: Vec<_> = (0..case.threads)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a measuring thread panicked")))
        };
        handles.into_iter().map(join).collect()
    });
    let mut calls_ns = 0.0;
    for pace in paces {
        let pace = pace?;
        calls_ns += pace.calls as f64 / pace.time.as_nanos().max(1) as f64;
    }
    Ok(1.0 / calls_ns)
}

fn run_thread(
    root: &Path,
    case: &Case,
    thread: usize,
    limit: Duration,
    barrier: &Barrier,
) -> io::Result<Pace> {
    worker::pin(thread);
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
