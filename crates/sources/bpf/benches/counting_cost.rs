//! What counting costs a cached `pread` of 4 KiB: not attached, attached all the time, and as commands do it.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use egeria_bpf::{FileCounter, Pace};

const PAGE: u64 = 4096;
const PAGES: u64 = 1 << 10;

fn cost(criterion: &mut Criterion) {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(PAGE * PAGES).expect("room");
    let always = || FileCounter::with(Pace::always()).ok();
    type Begin<'a> = &'a dyn Fn() -> Option<FileCounter>;
    let ways: [(&str, Begin<'_>); 3] = [
        ("none", &|| None),
        ("a part of the time", &|| FileCounter::begin().ok()),
        ("always", &always),
    ];
    let mut group = criterion.benchmark_group("pread of 4 KiB, counted");
    for (name, begin) in ways {
        let _counter = begin();
        let (mut buffer, mut page) = (vec![0; PAGE as usize], 0_u64);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                page = (page + 1) % PAGES;
                black_box(file.read_at(&mut buffer, page * PAGE).expect("cached"))
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(6));
    targets = cost
}
criterion_main!(benches);
