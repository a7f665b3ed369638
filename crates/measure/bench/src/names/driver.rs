//! The measurement: sets up the places and takes turns.

use egeria_harness::{Error, Result};
use egeria_scratch::check_room;

use super::fresh;
use super::options::Selection;
use super::plan::{self, Case, MAX_THREADS};
use super::report::{NamesReport, NamesRow};
use super::start::start;
use super::worker::{Reply, Request};
use crate::programs::worker::Worker;
use crate::subjects::{Places, PlacesOptions, SUBJECTS};

/// Room in the pool for whatever a case makes.
const SPARE_BYTES: u64 = 256 << 20;
/// Room a file without content takes at most, on any of the places.
const NAME_BYTES: u64 = 8 << 10;

pub(super) fn run(options: &PlacesOptions<'_>, selection: &Selection) -> Result<NamesReport> {
    let most = selection.entries.iter().copied().max().unwrap_or(0);
    let fresh = selection.fresh.iter().copied().max().unwrap_or(0);
    let sensible = selection.entries.is_sorted()
        && selection.entries.first() > Some(&0)
        && !selection.fresh.contains(&0);
    if options.rounds == 0 || !sensible || !(1..=MAX_THREADS).contains(&selection.threads) {
        return Err(Error::failed(
            "nothing to measure; ask for at least 1 round, 1 name and 1 or 2 threads",
        ));
    }
    // Both the library's and the mount's directories are in the pool.
    let pool_bytes = SPARE_BYTES + 2 * (MAX_THREADS * most) as u64 * NAME_BYTES;
    let fresh_bytes = SPARE_BYTES + fresh as u64 * NAME_BYTES;
    let most_bytes = pool_bytes.max(fresh_bytes);
    check_room(&options.memory_directory, most_bytes, "free some")?;
    let mut rows = Vec::new();
    if !selection.operations.is_empty() {
        let places = Places::set_up(options, pool_bytes)?;
        let program = options.find_worker()?;
        let mut workers = Vec::new();
        for subject in SUBJECTS {
            workers.push(start(&program, &places, subject)?);
        }
        let cases = plan::cases(&selection.operations, &selection.entries, selection.threads);
        rows = measure_all(options, selection, &mut workers, &cases)?;
    }
    for entries in &selection.fresh {
        rows.extend(fresh::measure(options, *entries, fresh_bytes)?);
    }
    Ok(NamesReport {
        rows,
        rounds: options.rounds,
    })
}

fn measure_all(
    options: &PlacesOptions<'_>,
    selection: &Selection,
    workers: &mut [Worker],
    cases: &[Case],
) -> Result<Vec<NamesRow>> {
    let tell = |done: usize, what: &str| options.watch.step(done, cases.len(), what);
    let (mut rows, mut filled) = (Vec::new(), 0);
    for (done, case) in cases.iter().enumerate() {
        if filled != case.entries {
            filled = case.entries;
            for worker in &mut *workers {
                tell(done, &format!("{filled} names on {}", worker.name))?;
                let directories = selection.threads;
                let entries = case.entries;
                let request = Request::Fill {
                    directories,
                    entries,
                };
                worker.ask::<Reply>(&request, options.watch.cancel)?;
            }
        }
        let (name, threads) = (case.operation.name(), case.threads);
        tell(done, &format!("{name}, {threads} threads, {filled} names"))?;
        let request = Request::Measure {
            case: *case,
            milliseconds: selection.measurement_ms,
        };
        let measure = |worker: &mut Worker| match worker.ask(&request, options.watch.cancel)? {
            Reply::Measured { ns } => Ok(ns),
            _ => Err(Error::failed("a worker gave no figure; build it again")),
        };
        let mut in_turn = |round| {
            let watch = &options.watch;
            watch.in_turn(round, workers.len(), |place| measure(&mut workers[place]))
        };
        let rounds: Result<Vec<Vec<f64>>> = (0..options.rounds).map(&mut in_turn).collect();
        rows.push(NamesRow::of_rounds(case, &rounds?));
    }
    tell(cases.len(), "done")?;
    Ok(rows)
}
