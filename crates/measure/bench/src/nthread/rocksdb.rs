//! RocksDB's `db_bench` as in NThread §V-E: values of 4 KB, as many threads as a node has cores.

use std::path::Path;

use super::plan::Pace;
use super::program::Benchmark;
use crate::programs::rocksdb;
use crate::programs::script::Call;

/// Keys of the database that is read: 80 MB, well beyond what is cached.
const KEYS: u64 = 20_000;
/// Keys that each thread writes in W.
const FILLED_KEYS: u64 = 2_500;

/// The database that R and RW use.
pub(super) fn fill(directory: &Path) -> Call {
    call_with(directory, Benchmark::Fill, KEYS, 1)
}

/// The measured run.
pub(super) fn call(directory: &Path, benchmark: Benchmark, threads: u32, pace: &Pace) -> Call {
    if benchmark == Benchmark::Fill {
        return call_with(directory, benchmark, FILLED_KEYS, threads);
    }
    let mut call = call_with(directory, benchmark, KEYS, threads);
    let seconds = pace.measured.as_secs_f64().round() as u64;
    call.words.push("--use_existing_db=1".to_owned());
    call.words.push(format!("--duration={}", seconds.max(1)));
    call
}

fn call_with(directory: &Path, benchmark: Benchmark, keys: u64, threads: u32) -> Call {
    let mut call = Call::new(["db_bench"]);
    call.words
        .extend(rocksdb::options(directory, benchmark.word(), keys));
    call.words.push(format!("--threads={threads}"));
    call
}
