//! Prints what the pool's copies cost beside a bare `memcpy` over the same mapping.
//!
//! `cargo run --release -p egeria-media --example copy_speed [POOL_FOLDER]`

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use egeria_media::{Access, BLOCK_BYTES, CallerDestination, CallerSource, Pool, PoolOffset, guard};

const POOL_BYTES: u64 = 1 << 30;
const ROUNDS: usize = 7;

/// Median over interleaved rounds of each contender, ns per operation.
fn compare(name: &str, bytes: u64, contenders: &mut [(&str, &mut dyn FnMut(PoolOffset))]) {
    let operations = ((64 << 20) / bytes.max(1024)) as usize;
    let mut times = vec![Vec::new(); contenders.len()];
    for round in 0..ROUNDS {
        for (times, (_, operation)) in times.iter_mut().zip(contenders.iter_mut()) {
            let mut random = 0x9E37_79B9_7F4A_7C15u64 + round as u64;
            let start = Instant::now();
            for _ in 0..operations {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                operation(PoolOffset(random % (POOL_BYTES / bytes) * bytes));
            }
            times.push(start.elapsed().as_nanos() as f64 / operations as f64);
        }
    }
    for (times, (contender, _)) in times.iter_mut().zip(contenders.iter()) {
        times.sort_by(f64::total_cmp);
        println!(
            "{name:22} {bytes:8} bytes  {contender:34} {:9.1} ns",
            times[ROUNDS / 2]
        );
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or("/dev/shm".to_owned());
    let path = PathBuf::from(folder).join(format!("egeria-copy-speed-{}", std::process::id()));
    guard::install()?;
    Pool::create(&path, POOL_BYTES)?;
    let pool = Pool::open(&path, Access::ReadWrite)?;
    std::fs::remove_file(&path)?;
    println!(
        "flush: {:?}, pool: {:?}",
        guard::flush_instruction(),
        pool.persistence()
    );
    pool.zero(PoolOffset(0), POOL_BYTES as usize)?;
    for bytes in [64u64, 256, 1024, BLOCK_BYTES, 64 << 10] {
        measure(&pool, bytes);
    }
    Ok(())
}

fn measure(pool: &Pool, bytes: u64) {
    let mut buffer = vec![1u8; bytes as usize];
    let address = buffer.as_mut_ptr();
    let length = bytes as usize;
    let mut memcpy_out = |at: PoolOffset| {
        // SAFETY: `at` and what follows lie inside the pool, and the buffer is so long.
        unsafe {
            libc::memcpy(
                address.cast(),
                pool.base().add(at.0 as usize).cast(),
                length,
            )
        };
    };
    let mut copy_out = |at: PoolOffset| {
        // SAFETY: the buffer is so long, and outlives the copy.
        let to = unsafe { CallerDestination::new(address, length) };
        let _ = black_box(pool.copy_out(at, to));
    };
    compare(
        "read",
        bytes,
        &mut [("memcpy", &mut memcpy_out), ("copy_out", &mut copy_out)],
    );
    let mut memcpy_in = |at: PoolOffset| {
        // SAFETY: `at` and what follows lie inside the pool, and the buffer is so long.
        unsafe {
            libc::memcpy(
                pool.base().add(at.0 as usize).cast(),
                address.cast(),
                length,
            )
        };
    };
    let mut copy_in = |at: PoolOffset| {
        // SAFETY: the buffer is so long, and outlives the copy.
        let from = unsafe { CallerSource::new(address, length) };
        let _ = black_box(pool.copy_in(at, from));
        pool.fence();
    };
    let mut entry_at = 0;
    let mut committed = |at: PoolOffset| {
        // SAFETY: the buffer is so long, and outlives the copy.
        let from = unsafe { CallerSource::new(address, length) };
        let _ = black_box(pool.copy_in(at, from));
        entry_at = (entry_at + 64) % (1 << 20);
        let entry = PoolOffset(entry_at);
        let _ = pool.write_bytes(entry, &[7; 64]);
        pool.flush(entry, 64);
        pool.fence();
        let _ = pool.commit_u64(PoolOffset(2 << 20), entry_at);
    };
    compare(
        "write",
        bytes,
        &mut [
            ("memcpy", &mut memcpy_in),
            ("copy_in + fence", &mut copy_in),
            ("copy_in + entry + fence + commit", &mut committed),
        ],
    );
}
