//! What worker processes do here: one is stopped, the others look on.

use super::calls::{Call, CallRunner, Observation, ObservationRunner, furnish};
use super::status_page::{StatusPage, copies_of, look_of, threads_of};
use crate::kill::files::Files;
use crate::kill::processes::AccessPath;
use egeria_stats::rng::Rng;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two looks of a thread, so that all together leave the CPUs idle most of the time.
const PAUSE: Duration = Duration::from_millis(10);
/// Make what everybody uses, and go.
pub fn set_up<F: Files>(files: &F) -> Result<(), String> {
    furnish(files).map_err(|errno| format!("cannot make the files: {errno}"))
}

/// Makes calls now and then; when it is to be stopped, one kind of call after the other without a pause, so that any
/// instant is in the middle of one.
pub fn work<F: Files>(
    files: &F,
    page: &StatusPage,
    access_path: AccessPath,
    index: usize,
) -> Result<(), String> {
    let own = page.worker(index);
    let calls = CallRunner::new(files, index);
    let mut calls = calls.map_err(|errno| format!("cannot open the files: {errno}"))?;
    let mut rng = Rng::of(&[index as u64, own.calls.load(Ordering::Relaxed)]);
    while !page.is_ended() {
        let drawn = Call::drawn(access_path, &mut rng);
        loop {
            let call = calls.possible(drawn);
            own.begin(call);
            let outcome = calls.take(call, &mut rng);
            own.end();
            if let Err(errno) = outcome {
                eprintln!("{}: {errno}", call.name());
                own.faults.fetch_add(1, Ordering::Relaxed);
            }
            if !own.is_ordered() {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(rng.below(1000)));
    }
    Ok(())
}

/// Threads that look on, each on one access path.
pub fn look_on<F: Files + Sync>(
    files: impl Fn() -> F + Sync,
    page: &StatusPage,
    access_path: AccessPath,
    first: usize,
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let start = |index| {
            let files = &files;
            scope.spawn(move || {
                look(
                    &files(),
                    page,
                    look_of(copies_of(access_path), index),
                    first + index,
                )
            })
        };
        let threads: Vec<_> = (0..threads_of(access_path)).map(start).collect();
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    })
}

fn look<F: Files>(
    files: &F,
    page: &StatusPage,
    look: Observation,
    number: usize,
) -> Result<(), String> {
    let observations = ObservationRunner::new(files, number);
    let mut observations =
        observations.map_err(|errno| format!("cannot open the files: {errno}"))?;
    let own = page.observer(number);
    while !page.is_ended() {
        own.time.begin();
        let outcome = observations.take(look);
        own.time.end();
        own.calls.fetch_add(1, Ordering::Relaxed);
        if let Err(errno) = outcome {
            eprintln!("{}: {errno}", look.name());
            own.faults.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
