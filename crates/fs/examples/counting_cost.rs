//! What it costs a 4 KiB read to be watched: the same cached reads with nobody watching and with a window
//! open, interleaved, medians. Reports; asserts nothing.
//!
//! `cargo run --release -p egeria-fs --example counting_cost`

use egeria_fs::*;
use std::time::Instant;

const ROUNDS: usize = 41;
const CALLS: u32 = 200_000;

fn main() {
    let path = std::path::PathBuf::from(format!(
        "/dev/shm/egeria-counting-cost-{}",
        std::process::id()
    ));
    let pool = PoolRequest {
        node: 0,
        path: path.clone(),
        bytes: Some(64 << 20),
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
    let mut buffer = vec![7u8; 4096];
    for block in 0..16 {
        volume.write(file, block * 4096, &buffer).expect("fill");
    }
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..2 * ROUNDS {
        match round % 2 {
            0 => volume.end_windows(),
            _ => _ = volume.begin_window(),
        }
        let start = Instant::now();
        for call in 0..CALLS {
            let at = u64::from(call % 16) * 4096;
            volume.read(file, at, &mut buffer).expect("read");
        }
        times[round % 2].push(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    let [alone, watched] = times.each_mut().map(|times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    println!(
        "a cached 4 KiB read: {alone:.1} ns, watched {watched:.1} ns: {:.1} ns for being watched",
        watched - alone
    );
    drop(volume);
    let _ = std::fs::remove_file(&path);
}
