//! What switching between more threads than cores takes from them: one to many threads that take turns on one CPU.
//!
//! Each walks its own memory, line by line. Alone it finds that in the caches of its core; beside others it pays for the switch
//! itself and for fetching again what they replaced. Both together are what the kernel's time slices cost:
//!
//! ```text
//!   a switch takes = (time of a step beside others - time of a step alone) x steps between two switches
//! ```

mod report;
mod turns;

use std::time::Duration;

use egeria_harness::Result;

use crate::experiment::{Watch, over};

pub use report::{SwitchRow, SwitchesReport};
use turns::{Turns, take_turns};

/// Threads that share the CPU.
const THREADS: [usize; 4] = [2, 4, 8, 16];
/// What each of them walks, bytes: next to nothing, part of a core's own cache, more than that holds.
const WORKING_SETS: [usize; 3] = [64, 256 << 10, 4 << 20];

/// Measures all of them, each beside one thread alone in the same round, for so long.
///
/// # Errors
/// When threads cannot be bound to a CPU, the kernel does not say how often they were switched, or it was interrupted.
pub fn run(rounds: usize, measured: Duration, watch: &Watch<'_>) -> Result<SwitchesReport> {
    let sets = WORKING_SETS.iter();
    let points: Vec<(usize, usize)> = sets
        .flat_map(|set| THREADS.map(|threads| (*set, threads)))
        .collect();
    let words = |(_, threads): &(usize, usize)| format!("{threads} threads");
    let measure = |(bytes, threads): &(usize, usize)| {
        let alone = take_turns(1, *bytes, measured)?;
        Ok((alone, take_turns(*threads, *bytes, measured)?))
    };
    let found = watch.rounds(rounds, &points, words, measure)?;
    let rows = points.iter().zip(&found);
    let rows = rows.map(|((bytes, threads), rounds)| row(*bytes, *threads, rounds));
    Ok(SwitchesReport {
        rounds,
        rows: rows.collect(),
    })
}

fn row(bytes: usize, threads: usize, rounds: &[(Turns, Turns)]) -> SwitchRow {
    SwitchRow {
        threads,
        working_set_bytes: bytes,
        of_alone: over(rounds, |(alone, together)| {
            together.steps_s() / alone.steps_s()
        }),
        slice_ns: over(rounds, |(_, together)| together.slice_ns()),
        switch_ns: over(rounds, |(alone, together)| together.switch_ns(alone)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_share_a_cpu_are_switched_and_lose_little() {
        let measured = Duration::from_millis(120);
        let alone = take_turns(1, 64, measured).unwrap();
        let together = take_turns(4, 64, measured).unwrap();
        // By CPU time; on four CPUs nobody would be switched.
        let speed = together.steps_s() / alone.steps_s();
        assert!((0.2..2.0).contains(&speed), "{alone:?} {together:?}");
        assert!(together.switches > 3.0, "{together:?}");
        assert!(together.slice_ns() < measured.as_nanos() as f64 / 2.0);
    }

    #[test]
    fn a_switch_takes_what_steps_between_two_of_them_lose() {
        let alone = Turns {
            seconds: 1.0,
            steps: 1000.0,
            switches: 0.0,
        };
        let together = Turns {
            seconds: 1.0,
            steps: 900.0,
            switches: 10.0,
        };
        assert!((together.slice_ns() - 1e8).abs() < 1e-3);
        assert!((together.switch_ns(&alone) - 1e7).abs() < 1e-3);
    }
}
