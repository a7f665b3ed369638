//! Rows of fresh volumes: memory of pools and session is touched for the first time, tables grow, logs grow.

use egeria_harness::{Error, Result};

use super::plan::{Case, FRESH, Sharing};
use super::report::NamesRow;
use super::start::start;
use super::worker::{Reply, Request};
use crate::subjects::{Places, PlacesOptions, SUBJECTS, Subject};

/// Time of one call of each of [`FRESH`], ns.
type Figures = [f64; FRESH.len()];

/// One row of each operation. Every measurement has places of its own, so no place finds what another has touched.
pub(super) fn measure(
    options: &PlacesOptions<'_>,
    entries: usize,
    pool_bytes: u64,
) -> Result<Vec<NamesRow>> {
    let watch = &options.watch;
    let mut rounds: Vec<Vec<Figures>> = Vec::new();
    for round in 0..options.rounds {
        let what = format!("{entries} names on fresh volumes");
        watch.step(round, options.rounds, &what)?;
        let measure = |place: usize| measure_one(options, SUBJECTS[place], entries, pool_bytes);
        rounds.push(watch.in_turn(round, SUBJECTS.len(), measure)?);
    }
    watch.step(options.rounds, options.rounds, "done")?;
    let row = |(at, operation)| {
        let case = Case {
            operation,
            threads: 1,
            sharing: Sharing::Fresh,
            entries,
        };
        let of_round = |round: &Vec<Figures>| round.iter().map(|figures| figures[at]).collect();
        let rounds: Vec<Vec<f64>> = rounds.iter().map(of_round).collect();
        NamesRow::of_rounds(&case, &rounds)
    };
    Ok(FRESH.into_iter().enumerate().map(row).collect())
}

fn measure_one(
    options: &PlacesOptions<'_>,
    subject: Subject,
    entries: usize,
    pool_bytes: u64,
) -> Result<Figures> {
    let places = Places::set_up(options, pool_bytes)?;
    let mut worker = start(&options.find_worker()?, &places, subject)?;
    match worker.ask(&Request::Fresh { entries }, options.watch.cancel)? {
        Reply::Fresh { ns } => Ok(ns),
        _ => Err(Error::failed("a worker gave no figure; build it again")),
    }
}
