//! RocksDB's `db_bench` as in NThread §V-E: values of 4 KB, as many threads as a node has cores.

use std::path::Path;

use super::plan::Pace;
use super::prepare::text;
use super::program::{Benchmark, Yield};
use crate::demo::rocksdb as demo_rocksdb;
use crate::programs::script::Call;
use egeria_harness::{Error, Result};

/// Bytes of each value.
const VALUE_BYTES: u32 = 4096;
/// Keys of the database that is read: 80 MB, well beyond what is cached.
const KEYS: u32 = 20_000;
/// Keys that each thread writes in W.
const FILLED_KEYS: u32 = 2_500;

/// The database that R and RW use.
pub(super) fn fill(directory: &Path, _threads: u32) -> Call {
    let mut call = common(directory, Benchmark::Fill, KEYS);
    call.words.push("--threads=1".to_owned());
    call
}

/// The measured run.
pub(super) fn call(directory: &Path, benchmark: Benchmark, threads: u32, pace: &Pace) -> Call {
    let keys = if benchmark == Benchmark::Fill {
        FILLED_KEYS
    } else {
        KEYS
    };
    let mut call = common(directory, benchmark, keys);
    call.words.push(format!("--threads={threads}"));
    if benchmark != Benchmark::Fill {
        let seconds = pace.measured.as_secs_f64().round() as u64;
        call.words.push("--use_existing_db=1".to_owned());
        call.words.push(format!("--duration={}", seconds.max(1)));
    }
    call
}

fn common(directory: &Path, benchmark: Benchmark, keys: u32) -> Call {
    Call::new([
        "db_bench".to_owned(),
        format!("--db={}", text(directory)),
        format!("--benchmarks={}", benchmark.word()),
        format!("--num={keys}"),
        format!("--value_size={VALUE_BYTES}"),
        "--compression_type=none".to_owned(),
        "--progress_reports=false".to_owned(),
        "--seed=7".to_owned(),
        // Small enough that tables are written while it runs and reads do not end in memory.
        "--write_buffer_size=16777216".to_owned(),
        "--cache_size=1048576".to_owned(),
    ])
}

/// Operations (of readers in RW) and their values' bytes, wall time.
pub(super) fn given(said: &str, benchmark: Benchmark) -> Result<Yield> {
    let result = demo_rocksdb::parse(said, benchmark.word())?;
    let (found, sought) = (result.found, result.sought);
    if found != sought {
        let name = benchmark.word();
        return Err(Error::failed(format!(
            "db_bench {name} found {found} of {sought} keys"
        )));
    }
    let (bytes_s, operations_s) = (result.throughput.bytes_s, result.throughput.ops_s);
    let is_read = benchmark != Benchmark::Fill;
    Ok(Yield {
        operations_s: operations_s.unwrap_or_default(),
        read_bytes_s: if is_read { bytes_s } else { 0.0 },
        written_bytes_s: if is_read { 0.0 } else { bytes_s },
    })
}
