//! What checksums of data cost: the same calls on a file without and on one with them. The share of calls that is left is
//! the one time through the other.
//!
//! `cargo bench -p egeria-engine --bench checksum_cost`

#![forbid(unsafe_code)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{DIRECTORY, FILE, Scratch, set_checksums, truncate};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use egeria_engine::{FileReference, InodeNumber, Volume};
use egeria_stats::rng::Rng;

const FILE_BYTES: u64 = 128 << 20;
/// After so many the file is cut to its first size, so that the volume does not fill.
const APPENDS: u64 = 10_000;

/// A file in a directory of its own.
struct Subject<'v> {
    name: &'static str,
    volume: &'v Volume,
    file: FileReference,
    buffer: Vec<u8>,
}

impl<'v> Subject<'v> {
    /// Filled.
    fn make(volume: &'v Volume, name: &'static str, checksums: bool) -> Subject<'v> {
        let made = volume.create(InodeNumber::ROOT, name.as_bytes(), &DIRECTORY);
        let directory = made.expect("mkdir").ino;
        if checksums {
            set_checksums(volume, directory, b"crc32c").expect("setxattr");
        }
        let made = volume.create_open(directory, b"file", &FILE);
        let file = volume.open(made.expect("create").ino, None).expect("open");
        let buffer = vec![7u8; 1 << 20];
        for at in (0..FILE_BYTES).step_by(buffer.len()) {
            volume.write(file, at, &buffer).expect("fill");
        }
        Subject {
            name,
            volume,
            file,
            buffer,
        }
    }

    fn read(&mut self, group: &mut BenchmarkGroup<'_, WallTime>, bytes: usize) {
        let (mut rng, places) = (Rng::new(1), FILE_BYTES / bytes as u64);
        group.bench_function(self.name, |bencher| {
            bencher.iter(|| {
                let at = rng.below(places) * bytes as u64;
                let read = self.volume.read(self.file, at, &mut self.buffer[..bytes]);
                read.expect("read")
            });
        });
    }

    fn overwrite(&mut self, group: &mut BenchmarkGroup<'_, WallTime>, bytes: usize) {
        let (mut rng, places) = (Rng::new(1), FILE_BYTES / bytes as u64);
        group.bench_function(self.name, |bencher| {
            bencher.iter(|| {
                let at = rng.below(places) * bytes as u64;
                let written = self.volume.write(self.file, at, &self.buffer[..bytes]);
                written.expect("write")
            });
        });
    }

    fn append(&mut self, group: &mut BenchmarkGroup<'_, WallTime>, bytes: usize) {
        group.bench_function(self.name, |bencher| {
            bencher.iter_custom(|calls| {
                let mut left = calls;
                let mut taken = Duration::ZERO;
                while left > 0 {
                    let now = left.min(APPENDS);
                    let begin = Instant::now();
                    for _ in 0..now {
                        let appended = self.volume.append(self.file, &self.buffer[..bytes]);
                        appended.expect("append");
                    }
                    taken += begin.elapsed();
                    truncate(self.volume, self.file.ino(), FILE_BYTES);
                    left -= now;
                }
                taken
            });
        });
    }
}

type Measure = fn(&mut Subject<'_>, &mut BenchmarkGroup<'_, WallTime>, usize);

const MEASURES: [(&str, Measure, &[usize]); 3] = [
    (
        "read",
        |of, group, bytes| of.read(group, bytes),
        &[256, 4096, 65_536],
    ),
    (
        "overwrite",
        |of, group, bytes| of.overwrite(group, bytes),
        &[256, 4096, 65_536],
    ),
    (
        "append",
        |of, group, bytes| of.append(group, bytes),
        &[256, 4096],
    ),
];

fn with_and_without(criterion: &mut Criterion) {
    let scratch = Scratch::new(1, 1 << 30);
    let volume = scratch.attach();
    let mut subjects = [
        Subject::make(&volume, "plain", false),
        Subject::make(&volume, "with checksums", true),
    ];
    for (what, measure, sizes) in MEASURES {
        for bytes in sizes {
            let mut group = criterion.benchmark_group(format!("{what} {bytes} B"));
            for subject in &mut subjects {
                measure(subject, &mut group, *bytes);
            }
            group.finish();
        }
    }
}

criterion_group!(benches, with_and_without);
criterion_main!(benches);
