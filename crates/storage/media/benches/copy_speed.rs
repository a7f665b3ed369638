//! What the pool's copies cost beside a bare `memcpy` over the same mapping.
//!
//! `cargo bench -p egeria-media --bench copy_speed`; the pool is made in `EGERIA_BENCH_DIRECTORY`, else in `/dev/shm`.

use std::hint::black_box;
use std::path::PathBuf;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use egeria_media::{Access, BLOCK_BYTES, CallerDestination, CallerSource, Pool, PoolOffset, guard};
use egeria_stats::rng::Rng;

const POOL_BYTES: u64 = 1 << 30;
/// Where log entries and the commit word of a write lie.
const ENTRIES_BYTES: u64 = 1 << 20;
const COMMIT: PoolOffset = PoolOffset(2 << 20);

fn pool() -> Pool {
    let directory = std::env::var_os("EGERIA_BENCH_DIRECTORY");
    let directory = directory.map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let path = directory.join(format!("egeria-copy-speed-{}", std::process::id()));
    guard::install().expect("a guard");
    Pool::create(&path, POOL_BYTES).expect("a pool");
    let pool = Pool::open(&path, Access::ReadWrite).expect("open");
    std::fs::remove_file(&path).expect("its file");
    let (flush, persistence) = (guard::flush_instruction(), pool.persistence());
    println!("flush: {flush:?}, pool: {persistence:?}");
    pool.zero(PoolOffset(0), POOL_BYTES as usize)
        .expect("zeros");
    pool
}

/// The same random places for each contender.
fn at_random(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    bytes: u64,
    mut body: impl FnMut(PoolOffset),
) {
    let mut rng = Rng::new(1);
    group.bench_function(name, |bencher| {
        bencher.iter(|| body(PoolOffset(rng.below(POOL_BYTES / bytes) * bytes)));
    });
}

fn group_of<'c>(
    criterion: &'c mut Criterion,
    what: &str,
    bytes: u64,
) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(format!("{what} {bytes} B"));
    group.throughput(Throughput::Bytes(bytes));
    group
}

fn reads(criterion: &mut Criterion, pool: &Pool, bytes: u64) {
    let mut buffer = vec![1u8; bytes as usize];
    let (address, length) = (buffer.as_mut_ptr(), buffer.len());
    let mut group = group_of(criterion, "read", bytes);
    at_random(&mut group, "memcpy", bytes, |at| {
        // SAFETY: `at` and what follows lie inside the pool, and the buffer is so long.
        unsafe {
            let from = pool.base().add(at.0 as usize);
            libc::memcpy(address.cast(), from.cast(), length);
        }
    });
    at_random(&mut group, "copy_out", bytes, |at| {
        let to = CallerDestination::from(&mut buffer[..]);
        let _ = black_box(pool.copy_out(at, to));
    });
    group.finish();
}

fn writes(criterion: &mut Criterion, pool: &Pool, bytes: u64) {
    let buffer = vec![1u8; bytes as usize];
    let (address, length) = (buffer.as_ptr(), buffer.len());
    let source = || CallerSource::from(&buffer[..]);
    let mut group = group_of(criterion, "write", bytes);
    at_random(&mut group, "memcpy", bytes, |at| {
        // SAFETY: `at` and what follows lie inside the pool, and the buffer is so long.
        unsafe {
            let to = pool.base().add(at.0 as usize);
            libc::memcpy(to.cast(), address.cast(), length);
        }
    });
    at_random(&mut group, "copy_in, fence", bytes, |at| {
        let _ = black_box(pool.copy_in(at, source()));
        pool.fence();
    });
    let mut entry_at = 0;
    at_random(&mut group, "copy_in, entry, fence, commit", bytes, |at| {
        let _ = black_box(pool.copy_in(at, source()));
        entry_at = (entry_at + 64) % ENTRIES_BYTES;
        let entry = PoolOffset(entry_at);
        let _ = pool.write_bytes(entry, &[7; 64]);
        pool.flush(entry, 64);
        pool.fence();
        let _ = pool.commit_u64(COMMIT, entry_at);
    });
    group.finish();
}

fn copies(criterion: &mut Criterion) {
    let pool = pool();
    for bytes in [64, 256, 1024, BLOCK_BYTES, 64 << 10] {
        reads(criterion, &pool, bytes);
        writes(criterion, &pool, bytes);
    }
}

criterion_group!(benches, copies);
criterion_main!(benches);
