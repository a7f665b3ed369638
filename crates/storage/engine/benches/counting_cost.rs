//! What it costs a 4 KiB read to be watched: the same cached reads with nobody watching and with a window open.
//!
//! `cargo bench -p egeria-engine --bench counting_cost`

#![forbid(unsafe_code)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;

use common::{Scratch, filled_file};
use criterion::{Criterion, criterion_group, criterion_main};

const BLOCKS: u64 = 16;

fn cached_reads(criterion: &mut Criterion) {
    let scratch = Scratch::new(1, 64 << 20);
    let volume = scratch.attach();
    let file = filled_file(&volume, BLOCKS);
    let mut buffer = vec![7u8; 4096];
    let mut group = criterion.benchmark_group("cached read of 4 KiB");
    for (name, is_watched) in [("alone", false), ("watched", true)] {
        if is_watched {
            _ = volume.begin_window()
        } else {
            volume.end_windows()
        }
        let mut block = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                block = (block + 1) % BLOCKS;
                black_box(volume.read(file, block * 4096, &mut buffer)).expect("read")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, cached_reads);
criterion_main!(benches);
