//! RocksDB's own benchmark, `db_bench`: values of 4 KB, filled, read, and read while written.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::report::{DemoRow, Family, Throughput};
use super::stage::{Place, Stage, attempt};
use egeria_harness::{Error, Result};

/// Where the databases lie at each place.
pub(super) const DIRECTORY: &str = "rocksdb";
/// Bytes of each value.
const VALUE_BYTES: u32 = 4096;
/// Threads that read.
const READERS: u32 = 8;
/// No run takes nearly this long.
const LIMIT: Duration = Duration::from_secs(60);

/// The benchmarks, in the order they must run, with ours words for them.
pub(super) const BENCHMARKS: [(&str, &str); 3] = [
    ("fillseq", "fillseq, 4 KB values"),
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
        "fillseq" => command.arg("--threads=1"),
        _ => command
            .args(["--use_existing_db=1", length])
            .arg(format!("--threads={READERS}")),
    };
    let finished = stage.run(place, &mut command, LIMIT)?;
    let result = parse(&finished.stdout, benchmark)?;
    if result.sought != result.found {
        let (sought, found) = (result.sought, result.found);
        return Err(Error::failed(format!(
            "db_bench {benchmark} found {found} of {sought} keys"
        )));
    }
    Ok(result.throughput)
}

fn command(stage: &Stage<'_>, place: Place, benchmark: &str) -> Result<Command> {
    let mut command = stage.command(place, "db_bench");
    command.arg(format!("--db={}", database(stage, place)?.display()));
    command.arg(format!("--benchmarks={benchmark}"));
    command.arg(format!("--num={}", entries(stage)));
    command.arg(format!("--value_size={VALUE_BYTES}"));
    command.args([
        "--compression_type=none",
        "--progress_reports=false",
        "--seed=7",
    ]);
    // Small enough that tables are written while it runs and reads do not all end in memory.
    command.args(["--write_buffer_size=16777216", "--cache_size=1048576"]);
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
    let (read, expected) = (
        parse(&finished.stdout, "readseq")?.operations,
        entries(stage),
    );
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

/// A result line of `db_bench`.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) throughput: Throughput,
    pub(crate) operations: u64,
    pub(crate) found: u64,
    pub(crate) sought: u64,
}

/// The line of a benchmark: `name : M micros/op O ops/sec S seconds N operations; B MB/s (F of T found)`.
pub(crate) fn parse(text: &str, benchmark: &str) -> Result<Outcome> {
    let unexpected = || {
        Error::failed(format!(
            "db_bench printed no result of {benchmark} as expected; 7.8 works"
        ))
    };
    let is_ours = |line: &&str| {
        line.split(':')
            .next()
            .is_some_and(|name| name.trim() == benchmark)
            && line.contains("micros/op")
    };
    let line = text.lines().find(is_ours).ok_or_else(unexpected)?;
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || "();".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let number = |place: usize| words.get(place).and_then(|word| word.parse::<f64>().ok());
    let before = |unit: &str| {
        words
            .iter()
            .position(|word| *word == unit)
            .and_then(|at| number(at.checked_sub(1)?))
    };
    // "F of T found", where the benchmark looks for keys.
    let of = words.iter().position(|word| *word == "of");
    let keys = of.and_then(|at| Some((number(at.checked_sub(1)?)? as u64, number(at + 1)? as u64)));
    let (found, sought) = keys.unwrap_or((0, 0));
    let ops_s = before("ops/sec").ok_or_else(unexpected)?;
    Ok(Outcome {
        throughput: Throughput {
            // It counts a MB as 2^20 bytes, and prints none where it does not know the size.
            bytes_s: before("MB/s").map_or(ops_s * f64::from(VALUE_BYTES), |megabytes| {
                megabytes * f64::from(1 << 20)
            }),
            ops_s: Some(ops_s),
        },
        operations: before("operations").ok_or_else(unexpected)? as u64,
        found,
        sought,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `db_bench --benchmarks=fillseq,readrandom,readwhilewriting,readseq`, RocksDB 7.8.3.
    const CAPTURED: &str = include_str!("../../tests/captured/db_bench.txt");

    #[test]
    fn results_of_a_real_run_are_read() {
        let fill = parse(CAPTURED, "fillseq").unwrap();
        assert_eq!(fill.operations, 10_000);
        assert_eq!((fill.found, fill.sought), (0, 0));
        let read = parse(CAPTURED, "readrandom").unwrap();
        assert!(read.sought > 1000 && read.found == read.sought, "{read:?}");
        assert!(read.throughput.bytes_s > read.throughput.ops_s.unwrap() * 4000.0);
        assert!(
            parse(CAPTURED, "readwhilewriting")
                .unwrap()
                .throughput
                .bytes_s
                > 1e6
        );
        assert_eq!(parse(CAPTURED, "readseq").unwrap().operations, 10_000);
    }

    #[test]
    fn a_benchmark_that_did_not_run_is_an_error() {
        for text in ["", "readrandom : ", CAPTURED] {
            assert!(parse(text, "fillrandom").is_err());
        }
        assert!(parse("readrandom : micros/op ops/sec", "readrandom").is_err());
    }

    #[test]
    fn tables_that_sst_dump_verified_are_counted_and_corruption_is_an_error() {
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
