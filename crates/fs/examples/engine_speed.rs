//! What the engine adds to a bare copy: 4 KiB and 64 KiB random reads and writes over one file, beside
//! memcpy over the same mapping, interleaved, medians. Reports; asserts nothing.

use egeria_fs::*;
use std::time::Instant;

const FILE_BYTES: u64 = 256 << 20;
const ROUNDS: usize = 7;

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn ns_per(operations: u64, mut body: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..operations {
        body();
    }
    start.elapsed().as_nanos() as f64 / operations as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let path = std::path::PathBuf::from(format!(
        "/dev/shm/egeria-engine-speed-{}",
        std::process::id()
    ));
    let pool = PoolRequest {
        node: 0,
        path: path.clone(),
        bytes: Some(2 << 30),
    };
    create_volume(&[pool], &CreateOptions::default()).expect("mkfs");
    let volume =
        Volume::attach(&path, AttachMode::CreateOrJoin, &AttachOptions::default()).expect("attach");
    let new = NewInode {
        mode: libc::S_IFREG | 0o644,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    let made = volume
        .create_open(InodeNumber::ROOT, b"file", &new)
        .expect("create");
    let file = volume.open(made.ino, None).expect("open");
    let chunk = vec![7u8; 1 << 20];
    for at in (0..FILE_BYTES).step_by(chunk.len()) {
        volume.write(file, at, &chunk).expect("fill");
    }
    let base = volume.pools()[0].base();
    // Every page once, so that first touches are not measured.
    for block in (0..volume.pools()[0].bytes()).step_by(4096) {
        // SAFETY: inside the mapping; storing what is there changes nothing.
        unsafe {
            base.add(block as usize)
                .write_volatile(base.add(block as usize).read_volatile())
        };
    }
    // SAFETY: the live mapping; collapsing changes no content.
    let collapsed = unsafe {
        libc::madvise(
            base.cast(),
            volume.pools()[0].bytes() as usize,
            libc::MADV_COLLAPSE,
        )
    };
    println!("huge pages: {}", if collapsed == 0 { "yes" } else { "no" });
    let region = 1usize << 30;
    let sizes: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|size| size.parse().ok())
        .collect();
    for block_bytes in if sizes.is_empty() {
        vec![4096usize, 65536]
    } else {
        sizes
    } {
        let operations = (400 << 20) / block_bytes as u64 / 2;
        let mut buffer = vec![1u8; block_bytes];
        let mut results: [Vec<f64>; 5] = Default::default();
        for round in 0..ROUNDS {
            let seed = 88172645463325252 + round as u64;
            let blocks = FILE_BYTES / block_bytes as u64;
            let mut state = seed;
            results[0].push(ns_per(operations, || {
                let at = next(&mut state) % blocks * block_bytes as u64;
                // SAFETY: a region of the mapped pool; nobody else uses this volume.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        base.add(region / 2 + at as usize),
                        buffer.as_mut_ptr(),
                        block_bytes,
                    )
                };
            }));
            let mut state = seed;
            results[1].push(ns_per(operations, || {
                let at = next(&mut state) % blocks * block_bytes as u64;
                volume.read(file, at, &mut buffer).expect("read");
            }));
            let mut state = seed;
            results[2].push(ns_per(operations, || {
                let at = next(&mut state) % blocks * block_bytes as u64;
                // SAFETY: free space far behind the data of this volume, which only we use.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        buffer.as_ptr(),
                        base.add(region + at as usize),
                        block_bytes,
                    )
                };
            }));
            let mut state = seed;
            results[3].push(ns_per(operations, || {
                let at = next(&mut state) % blocks * block_bytes as u64;
                volume.write(file, at, &buffer).expect("write");
            }));
            volume
                .set_attributes(
                    made.ino,
                    &AttributeChange {
                        size_bytes: Some(FILE_BYTES),
                        ..Default::default()
                    },
                    false,
                )
                .expect("truncate");
            results[4].push(ns_per(operations.min(50_000), || {
                volume.append(file, &buffer).expect("append");
            }));
            volume
                .set_attributes(
                    made.ino,
                    &AttributeChange {
                        size_bytes: Some(FILE_BYTES),
                        ..Default::default()
                    },
                    false,
                )
                .expect("truncate");
        }
        let [copy_out, read, copy_in, write, append] =
            results.each_mut().map(|values| median(values));
        println!(
            "{block_bytes:6} B  read {read:7.0} ns (memcpy {copy_out:7.0}, {:.2})  write {write:7.0} ns (memcpy {copy_in:7.0}, {:.2})  append {append:7.0} ns",
            copy_out / read,
            copy_in / write
        );
    }
    drop(volume);
    let _ = std::fs::remove_file(&path);
}
