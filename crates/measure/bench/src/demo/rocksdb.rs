//! RocksDB's own benchmark, `db_bench`: values of 4 KB, filled, read, and read while written.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::report::{DemoRow, Family, Throughput};
use super::stage::{Place, Stage, attempt};
use crate::programs::rocksdb;
use egeria_harness::{Error, Result};

/// Where the databases lie at each place.
pub(super) const DIRECTORY: &str = "rocksdb";
/// Threads that read.
const READERS: u32 = 8;
/// No run takes nearly this long.
const LIMIT: Duration = Duration::from_secs(60);

/// The benchmarks, in the order they must run, with ours words for them.
pub(super) const BENCHMARKS: [(&str, &str); 3] = [
    (rocksdb::FILL, "fillseq, 4 KB values"),
    ("readrandom", "readrandom, 8 threads"),
    ("readwhilewriting", "readwhilewriting, 8 readers"),
];

/// Entries of the database.
fn entries(stage: &Stage<'_>) -> u64 {
    if stage.is_quick() { 2_000 } else { 15_000 }
}

/// Measures one benchmark on all places and verifies the database on Egeria after it.
pub(super) fn run(stage: &Stage<'_>, benchmark: &str, name: &str) -> Result<DemoRow> {
    let row = DemoRow::new(Family::Rocksdb, "db_bench", name);
    attempt(row, |row| {
        for place in stage.places() {
            stage.measure(place, row, || timed(stage, place, benchmark))?;
            if place != Place::Tmpfs {
                row.verification = verify(stage, place)?;
            }
        }
        Ok(())
    })
}

fn timed(stage: &Stage<'_>, place: Place, benchmark: &str) -> Result<Throughput> {
    let mut command = command(stage, place, benchmark)?;
    let length = match place {
        _ if stage.is_quick() => "--reads=500",
        Place::Emulated => "--duration=3",
        _ => "--duration=1",
    };
    match benchmark {
        rocksdb::FILL => command.arg("--threads=1"),
        _ => command
            .args(["--use_existing_db=1", length])
            .arg(format!("--threads={READERS}")),
    };
    let finished = stage.run(place, &mut command, LIMIT)?;
    Ok(rocksdb::outcome(&finished.stdout, benchmark)?.given.into())
}

fn command(stage: &Stage<'_>, place: Place, benchmark: &str) -> Result<Command> {
    let mut command = stage.command(place, "db_bench");
    command.args(rocksdb::options(
        &database(stage, place)?,
        benchmark,
        entries(stage),
    ));
    Ok(command)
}

/// Each place has its own, so that none finds what another left to compact.
fn database(stage: &Stage<'_>, place: Place) -> Result<PathBuf> {
    let name = match place {
        Place::Emulated => "emulated",
        _ => "database",
    };
    Ok(stage.directory(place, DIRECTORY)?.join(name))
}

/// RocksDB's own checks: every key is there on reading all of it, and the checksums of all tables.
fn verify(stage: &Stage<'_>, place: Place) -> Result<String> {
    // First, for opening the database moves what is still in its log into tables.
    let mut command = command(stage, place, "readseq,verifychecksum")?;
    command.args(["--use_existing_db=1", "--threads=1"]);
    let finished = stage.run(place.untimed(), &mut command, LIMIT)?;
    let read = rocksdb::outcome(&finished.stdout, "readseq")?.operations;
    let expected = entries(stage);
    if read != expected {
        return Err(Error::failed(format!(
            "RocksDB read {read} of {expected} entries back"
        )));
    }
    let mut dump = stage.command(place, "sst_dump");
    dump.arg(format!("--file={}", database(stage, place)?.display()));
    // Without the second option, 7.8 calls tables with wrong bytes ok.
    dump.args(["--command=verify", "--verify_checksum"]);
    let dumped = stage.run(place.untimed(), &mut dump, LIMIT)?;
    let tables = verified_tables(&format!("{}\n{}", dumped.stdout, dumped.stderr))?;
    Ok(format!(
        "{read} entries read back, sst_dump verified {tables} tables"
    ))
}

/// Tables `sst_dump --command=verify` found right; it ends with status 0 whatever it finds.
fn verified_tables(text: &str) -> Result<usize> {
    let tables = text
        .lines()
        .filter(|line| line.starts_with("Process "))
        .count();
    let right = text
        .lines()
        .filter(|line| line.trim() == "The file is ok")
        .count();
    let complaint = text
        .lines()
        .find(|line| line.to_lowercase().contains("corrupt"));
    match complaint {
        Some(line) => Err(Error::failed(format!("sst_dump: {}", line.trim()))),
        None if tables == 0 || right != tables => Err(Error::failed(format!(
            "sst_dump verified {right} of {tables} tables"
        ))),
        None => Ok(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verified_tables_are_counted_and_corruption_is_an_error() {
        let captured = include_str!("../../tests/captured/sst_dump.txt");
        assert_eq!(
            verified_tables(captured).unwrap(),
            captured.matches("Process ").count()
        );
        let corrupt = include_str!("../../tests/captured/sst_dump-corrupt.txt");
        let message = verified_tables(corrupt).unwrap_err().to_string();
        assert!(message.contains("block checksum mismatch"), "{message}");
        assert!(verified_tables("").is_err());
        assert!(verified_tables("Process /mnt/db/1.sst").is_err());
    }
}
