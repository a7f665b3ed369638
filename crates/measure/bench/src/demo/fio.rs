//! fio: 4 KiB reads, writes and both, at random and in sequence, 1 to 8 jobs, threads and processes.

use std::process::Command;
use std::time::Duration;

use super::report::{DemoRow, Family, Throughput};
use super::stage::{Place, Stage, attempt};
use crate::programs::fio;
use egeria_harness::{Error, Result};

/// Where the files lie at each place.
pub(super) const DIRECTORY: &str = "fio";
/// Most jobs of a workload.
const MAX_JOBS: u32 = 8;
/// Bytes of each job's file in a measured run: together well beyond the last-level cache.
const FILE_MIB: u32 = 16;
/// Bytes of each job's file when writes are verified.
const VERIFIED_MIB: u32 = 4;
/// No run takes nearly this long.
const LIMIT: Duration = Duration::from_secs(40);

/// What a job does: fio's word and ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pattern {
    word: &'static str,
    name: &'static str,
    writes: bool,
}

const PATTERNS: [Pattern; 6] = [
    Pattern {
        word: "randread",
        name: "random read",
        writes: false,
    },
    Pattern {
        word: "randwrite",
        name: "random write",
        writes: true,
    },
    Pattern {
        word: "randrw",
        name: "random mixed",
        writes: true,
    },
    Pattern {
        word: "read",
        name: "sequential read",
        writes: false,
    },
    Pattern {
        word: "write",
        name: "sequential write",
        writes: true,
    },
    Pattern {
        word: "rw",
        name: "sequential mixed",
        writes: true,
    },
];

/// One row: pattern, jobs, and whether they are threads of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Workload {
    pattern: Pattern,
    jobs: u32,
    threads: bool,
}

impl Workload {
    pub(super) fn name(&self) -> String {
        let kind = match (self.jobs, self.threads) {
            (1, _) => "1 job",
            (_, true) => "threads",
            (_, false) => "processes",
        };
        match self.jobs {
            1 => format!("{}, {kind}", self.pattern.name),
            jobs => format!("{}, {jobs} {kind}", self.pattern.name),
        }
    }
}

/// All rows: every pattern with 1 job, 8 threads and 8 processes; random reads and writes with 2 and
/// 4 threads too, to show how they scale.
pub(super) fn workloads(quick: bool) -> Vec<Workload> {
    if quick {
        let mixed = |threads| Workload {
            pattern: PATTERNS[2],
            jobs: 2,
            threads,
        };
        return vec![mixed(true), mixed(false)];
    }
    let mut all = Vec::new();
    for (place, pattern) in PATTERNS.into_iter().enumerate() {
        let threads = if place < 2 {
            &[1, 2, 4, 8][..]
        } else {
            &[1, 8]
        };
        all.extend(threads.iter().map(|jobs| Workload {
            pattern,
            jobs: *jobs,
            threads: true,
        }));
        all.push(Workload {
            pattern,
            jobs: 8,
            threads: false,
        });
    }
    all
}

/// Measures one workload on all places, and verifies what it writes or reads on Egeria.
pub(super) fn run(stage: &Stage<'_>, workload: &Workload) -> Result<DemoRow> {
    let row = DemoRow::new(Family::Fio, "fio", workload.name());
    attempt(row, |row| {
        for place in stage.places() {
            lay_out_once(stage, place)?;
            stage.measure(place, row, || timed(stage, place, workload))?;
        }
        row.verification = verify(stage, workload)?;
        Ok(())
    })
}

/// The files of all later runs at this place.
fn lay_out_once(stage: &Stage<'_>, place: Place) -> Result<()> {
    let most = Workload {
        pattern: PATTERNS[0],
        jobs: MAX_JOBS,
        threads: false,
    };
    let last = stage
        .directory(place, DIRECTORY)?
        .join(format!("file.{}.0", MAX_JOBS - 1));
    if last.exists() {
        Ok(())
    } else {
        lay_out(stage, place.untimed(), &most)
    }
}

/// Files full of data that carries its own checksums.
fn lay_out(stage: &Stage<'_>, place: Place, workload: &Workload) -> Result<()> {
    let mut command = command(stage, place, workload)?;
    command.args([
        "--name=file",
        "--rw=write",
        "--verify=crc32c",
        "--do_verify=0",
    ]);
    command.arg(format!("--size={FILE_MIB}m"));
    stage.run(place, &mut command, LIMIT)?;
    Ok(())
}

fn timed(stage: &Stage<'_>, place: Place, workload: &Workload) -> Result<Throughput> {
    let runtime_ms = match (stage.is_quick(), place) {
        (true, _) => 200,
        (false, Place::Emulated) => 1000,
        (false, _) => 400,
    };
    let mut command = command(stage, place, workload)?;
    command.args(["--name=file", "--time_based", "--norandommap"]);
    command.arg(format!("--rw={}", workload.pattern.word));
    command.arg(format!("--size={FILE_MIB}m"));
    command.arg(format!("--runtime={runtime_ms}ms"));
    Ok(fio::given(&stage.run(place, &mut command, LIMIT)?.stdout)?.into())
}

/// fio's own verification: writes are read back, reads check what [`lay_out`] wrote.
fn verify(stage: &Stage<'_>, workload: &Workload) -> Result<String> {
    let mut command = command(stage, Place::Egeria, workload)?;
    command.args(["--verify=crc32c", "--verify_fatal=1", "--do_verify=1"]);
    command.arg(format!("--rw={}", workload.pattern.word));
    if workload.pattern.writes {
        command
            .arg("--name=verified")
            .arg(format!("--size={VERIFIED_MIB}m"));
    } else {
        lay_out(stage, Place::Egeria, workload)?;
        command
            .arg("--name=file")
            .arg(format!("--size={FILE_MIB}m"));
    }
    let finished = stage.run(Place::Egeria, &mut command, LIMIT)?;
    let checked = fio::read_bytes(&finished.stdout)?;
    if checked == 0 {
        return Err(Error::failed(
            "fio verified nothing; its version may be too old (3.33 works)",
        ));
    }
    Ok(format!(
        "fio --verify=crc32c, {} MB read without a mismatch",
        checked / 1_000_000
    ))
}

fn command(stage: &Stage<'_>, place: Place, workload: &Workload) -> Result<Command> {
    let directory = stage.directory(place, DIRECTORY)?;
    let mut command = stage.command(place, "fio");
    command.args([
        "--ioengine=psync",
        "--bs=4k",
        "--group_reporting",
        "--output-format=json",
        "--randseed=7",
    ]);
    command.args(["--verify_state_save=0", "--eta=never"]);
    command.arg(format!("--directory={}", directory.display()));
    command.arg(format!("--numjobs={}", workload.jobs));
    if workload.threads {
        command.arg("--thread");
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_runs_with_threads_and_with_processes() {
        let all = workloads(false);
        for pattern in PATTERNS {
            for (jobs, threads) in [(1, true), (8, true), (8, false)] {
                assert!(
                    all.contains(&Workload {
                        pattern,
                        jobs,
                        threads
                    }),
                    "{} {jobs}",
                    pattern.word
                );
            }
        }
    }
}
