//! Pages that are stored to soon are mapped by one call: where, and where not.

use std::fs::File;
use std::path::Path;

use egeria_harness::testing::{memory, pages_in_use};
use egeria_media::{Access, BLOCK_BYTES, Pool, PoolOffset};

const POOL_BYTES: u64 = 4 << 20;

/// How many pages of a pool this process can store to without a fault.
fn mapped_pages(pool: &Pool) -> usize {
    let pages = pages_in_use(pool.base(), pool.blocks() as usize);
    pages.into_iter().filter(|is_in_use| *is_in_use).count()
}

fn new_pool(directory: &Path) -> Pool {
    let path = directory.join("pool");
    Pool::create(&path, POOL_BYTES).unwrap();
    Pool::open(&path, Access::ReadWrite).unwrap()
}

#[test]
fn the_pages_of_a_range_are_mapped_and_unchanged() {
    let memory = memory();
    let pool = new_pool(memory.path());
    pool.write_bytes(PoolOffset(POOL_BYTES - 5), b"bytes")
        .unwrap();
    assert_eq!(mapped_pages(&pool), 1);
    // One byte: the piece of 256 KiB it lies in.
    pool.map_ahead(PoolOffset(300 << 10), 1);
    assert_eq!(mapped_pages(&pool), 1 + 64);
    // Over the end, and twice.
    for _ in 0..2 {
        pool.map_ahead(PoolOffset(POOL_BYTES - BLOCK_BYTES), u64::MAX);
        assert_eq!(mapped_pages(&pool), 64 + 64);
    }
    // Around pieces that are mapped already.
    pool.map_ahead(PoolOffset(0), POOL_BYTES);
    assert_eq!(mapped_pages(&pool) as u64, pool.blocks());
    let mut bytes = vec![1; POOL_BYTES as usize];
    pool.read_bytes(PoolOffset(0), &mut bytes).unwrap();
    let (zeros, end) = bytes.split_at(bytes.len() - 5);
    assert!(zeros.iter().all(|byte| *byte == 0));
    assert_eq!(end, b"bytes");
}

#[test]
fn nothing_is_mapped_outside_of_the_pool() {
    let memory = memory();
    let pool = new_pool(memory.path());
    for at in [POOL_BYTES, POOL_BYTES + 1, u64::MAX] {
        pool.map_ahead(PoolOffset(at), 1 << 20);
    }
    pool.map_ahead(PoolOffset(0), 0);
    assert_eq!(mapped_pages(&pool), 0);
}

#[test]
fn pages_of_a_disk_are_left_clean() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = new_pool(directory.path());
    if pool.persistence() != egeria_media::Persistence::PageCache {
        egeria_harness::testing::skip("the build directory is not on a disk");
        return;
    }
    pool.map_ahead(PoolOffset(0), POOL_BYTES);
    assert_eq!(mapped_pages(&pool), 0);
}

#[test]
fn a_private_pool_is_not_copied() {
    let memory = memory();
    drop(new_pool(memory.path()));
    let path = memory.path().join("pool");
    let pool = Pool::open_private_with_file(File::open(&path).unwrap(), &path).unwrap();
    pool.map_ahead(PoolOffset(0), POOL_BYTES);
    assert_eq!(mapped_pages(&pool), 0);
}

#[test]
fn a_pool_that_is_only_read_stays_so() {
    let memory = memory();
    drop(new_pool(memory.path()));
    let pool = Pool::open(&memory.path().join("pool"), Access::ReadOnly).unwrap();
    pool.map_ahead(PoolOffset(0), POOL_BYTES);
    assert_eq!(mapped_pages(&pool), 0);
}
