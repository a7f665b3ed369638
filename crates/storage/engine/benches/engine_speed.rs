//! What the engine adds to a bare copy: random reads and writes, and appends, beside `memcpy` over the same mapping.
//!
//! `cargo bench -p egeria-engine --bench engine_speed`

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{FILE, Scratch, truncate};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use egeria_engine::{FileReference, InodeNumber, Volume};
use egeria_stats::rng::Rng;

const FILE_BYTES: u64 = 256 << 20;
const POOL_BYTES: u64 = 2 << 30;
/// Where bare copies read: behind the first blocks of the volume, in the file.
const COPIED_FROM: usize = 512 << 20;
/// Where bare copies write: free space far behind the file.
const COPIED_TO: usize = 1 << 30;
/// After so many the file is cut to its first size, so that the volume does not fill.
const APPENDS: u64 = 5_000;

/// A file of a volume, and the mapping that both are in.
struct Subject<'v> {
    volume: &'v Volume,
    file: FileReference,
    base: *mut u8,
}

impl<'v> Subject<'v> {
    fn make(volume: &'v Volume) -> Subject<'v> {
        let made = volume.create_open(InodeNumber::ROOT, b"file", &FILE);
        let file = volume.open(made.expect("create").ino, None).expect("open");
        let chunk = vec![7u8; 1 << 20];
        for at in (0..FILE_BYTES).step_by(chunk.len()) {
            volume.write(file, at, &chunk).expect("fill");
        }
        let base = volume.pools()[0].base();
        touch_every_page(base, volume.pools()[0].bytes() as usize);
        Subject { volume, file, base }
    }

    fn copy_out(&self, at: u64, buffer: &mut [u8]) {
        // SAFETY: a region of the mapped pool as long as the file; nobody else uses this volume.
        unsafe {
            let from = self.base.add(COPIED_FROM + at as usize);
            std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), buffer.len());
        }
    }

    fn copy_in(&self, at: u64, buffer: &[u8]) {
        // SAFETY: free space of the mapped pool behind the data of this volume, which only we use.
        unsafe {
            let to = self.base.add(COPIED_TO + at as usize);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), to, buffer.len());
        }
    }

    fn append(&self, calls: u64, buffer: &[u8]) -> Duration {
        let mut left = calls;
        let mut taken = Duration::ZERO;
        while left > 0 {
            let now = left.min(APPENDS);
            let begin = Instant::now();
            for _ in 0..now {
                self.volume.append(self.file, buffer).expect("append");
            }
            taken += begin.elapsed();
            truncate(self.volume, self.file.ino(), FILE_BYTES);
            left -= now;
        }
        taken
    }
}

/// So that first touches are not measured; in huge pages where the kernel has them.
fn touch_every_page(base: *mut u8, bytes: usize) {
    for page in (0..bytes).step_by(4096) {
        // SAFETY: inside the mapping; storing what is there changes nothing.
        unsafe {
            let word = base.add(page);
            word.write_volatile(word.read_volatile());
        }
    }
    // SAFETY: the live mapping; collapsing changes no content.
    let collapsed = unsafe { libc::madvise(base.cast(), bytes, libc::MADV_COLLAPSE) };
    println!("huge pages: {}", if collapsed == 0 { "yes" } else { "no" });
}

/// The same random places for each contender.
fn at_random(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    bytes: usize,
    mut body: impl FnMut(u64),
) {
    let (mut rng, blocks) = (Rng::new(1), FILE_BYTES / bytes as u64);
    group.bench_function(name, |bencher| {
        bencher.iter(|| body(rng.below(blocks) * bytes as u64));
    });
}

fn beside_memcpy(criterion: &mut Criterion) {
    let scratch = Scratch::new(1, POOL_BYTES);
    let volume = scratch.attach();
    let subject = Subject::make(&volume);
    let (volume, file) = (subject.volume, subject.file);
    for bytes in [4096_usize, 65_536] {
        let mut buffer = vec![1u8; bytes];
        let mut group = criterion.benchmark_group(format!("read {bytes} B"));
        group.throughput(Throughput::Bytes(bytes as u64));
        at_random(&mut group, "memcpy", bytes, |at| {
            subject.copy_out(at, &mut buffer)
        });
        at_random(&mut group, "volume", bytes, |at| {
            volume.read(file, at, &mut buffer).expect("read");
        });
        group.finish();
        let mut group = criterion.benchmark_group(format!("write {bytes} B"));
        group.throughput(Throughput::Bytes(bytes as u64));
        at_random(&mut group, "memcpy", bytes, |at| {
            subject.copy_in(at, &buffer)
        });
        at_random(&mut group, "volume", bytes, |at| {
            volume.write(file, at, &buffer).expect("write");
        });
        truncate(volume, subject.file.ino(), FILE_BYTES);
        group.bench_function("append", |bencher| {
            bencher.iter_custom(|calls| subject.append(calls, &buffer));
        });
        group.finish();
    }
}

criterion_group!(benches, beside_memcpy);
criterion_main!(benches);
