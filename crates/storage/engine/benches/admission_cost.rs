//! What admission costs a thread that is alone: the same cached reads and writes of 4 KiB without a limit, and with one.
//!
//! `cargo bench -p egeria-engine --bench admission_cost`

#![forbid(unsafe_code)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::num::NonZeroU32;

use common::{Scratch, filled_file};
use criterion::{Criterion, criterion_group, criterion_main};
use egeria_engine::LimitedBy;
use egeria_media::PoolIndex;

const BLOCKS: u64 = 16;

fn alone(criterion: &mut Criterion) {
    let scratch = Scratch::new(1, 64 << 20);
    let volume = scratch.attach();
    let file = filled_file(&volume, BLOCKS);
    let mut buffer = vec![7u8; 4096];
    let mut group = criterion.benchmark_group("4 KiB of one thread");
    for (name, limit) in [("without a limit", None), ("limited", NonZeroU32::new(4))] {
        volume
            .limit_admission(PoolIndex(0), limit, LimitedBy::Hand)
            .expect("limit");
        let mut block = 0;
        group.bench_function(format!("read, {name}"), |bencher| {
            bencher.iter(|| {
                block = (block + 1) % BLOCKS;
                black_box(volume.read(file, block * 4096, &mut buffer)).expect("read")
            });
        });
        group.bench_function(format!("write, {name}"), |bencher| {
            bencher.iter(|| {
                block = (block + 1) % BLOCKS;
                black_box(volume.write(file, block * 4096, &buffer)).expect("write")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, alone);
criterion_main!(benches);
