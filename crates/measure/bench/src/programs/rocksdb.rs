//! RocksDB's own benchmark, `db_bench`: how it is called, and what it says.

use std::path::Path;

use egeria_harness::{Error, Result};

use super::Yield;

const VALUE_BYTES: u32 = 4096;
/// The benchmark that writes.
pub(crate) const FILL: &str = "fillseq";

/// What `db_bench` takes to run a benchmark on a database with so many keys.
pub(crate) fn options(database: &Path, benchmark: &str, keys: u64) -> Vec<String> {
    let mut options = vec![
        format!("--db={}", database.display()),
        format!("--benchmarks={benchmark}"),
        format!("--num={keys}"),
        format!("--value_size={VALUE_BYTES}"),
    ];
    let same = [
        "--compression_type=none",
        "--progress_reports=false",
        "--seed=7",
        // Small enough that tables are written while it runs and reads do not all end in memory.
        "--write_buffer_size=16777216",
        "--cache_size=1048576",
    ];
    options.extend(same.map(str::to_owned));
    options
}

/// The result of a benchmark, wall time; of one that reads and writes, of its readers.
///
/// # Errors
/// When there is none, or it did not find all keys that it looked for.
pub(crate) fn outcome(said: &str, benchmark: &str) -> Result<Outcome> {
    let outcome = parse(said, benchmark)?;
    let (found, sought) = (outcome.found, outcome.sought);
    if found != sought {
        return Err(Error::failed(format!(
            "db_bench {benchmark} found {found} of {sought} keys"
        )));
    }
    Ok(outcome)
}

/// A result line of `db_bench`.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) given: Yield,
    pub(crate) operations: u64,
    found: u64,
    sought: u64,
}

/// The line of a benchmark: `name : M micros/op O ops/sec S seconds N operations; B MB/s (F of T found)`.
fn parse(text: &str, benchmark: &str) -> Result<Outcome> {
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
    // It counts a MB as 2^20 bytes, and prints none where it does not know the size.
    let bytes_s = before("MB/s").map_or(ops_s * f64::from(VALUE_BYTES), |megabytes| {
        megabytes * f64::from(1 << 20)
    });
    let is_read = benchmark != FILL;
    Ok(Outcome {
        given: Yield {
            operations_s: ops_s,
            read_bytes_s: if is_read { bytes_s } else { 0.0 },
            written_bytes_s: if is_read { 0.0 } else { bytes_s },
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
        assert!(read.given.read_bytes_s > read.given.operations_s * 4000.0);
        let mixed = parse(CAPTURED, "readwhilewriting").unwrap().given;
        assert!(mixed.read_bytes_s > 1e6 && mixed.written_bytes_s == 0.0);
        assert_eq!(parse(CAPTURED, "readseq").unwrap().operations, 10_000);
    }

    #[test]
    fn a_benchmark_that_did_not_run_is_an_error() {
        for text in ["", "readrandom : ", CAPTURED] {
            assert!(parse(text, "fillrandom").is_err());
        }
        assert!(parse("readrandom : micros/op ops/sec", "readrandom").is_err());
    }
}
