//! What the library costs: ns per call over the engine's own, and at the start of a short process. No benchmark of criterion's,
//! for its own calls would go through the library that is measured.
//!
//! `cargo build --release -p egeria-preload && cargo run --release -p egeria-preload --example overhead`

use egeria_engine::{
    AttachMode, AttachOptions, CallerDestination, CallerSource, CreateOptions, InodeNumber,
    PoolRequest, Volume, create_volume,
};
use egeria_stats::statistics::median;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A call of libc, which the library may have replaced.
macro_rules! plain {
    ($call:expr) => {{
        // SAFETY: the buffer is longer than what is passed as its length.
        unsafe { $call }
    }};
}

const CALLS: u32 = 500_000;
const ROUNDS: usize = 9;
const SIZES_BYTES: [usize; 2] = [64, 4096];

fn main() {
    match std::env::args_os().nth(1) {
        Some(file) => measure_calls(Path::new(&file)),
        None => measure_all(),
    }
}

/// On a busy machine the middle says little of calls: for those the best round is taken.
fn best(rounds: impl Iterator<Item = f64>) -> f64 {
    rounds.fold(f64::INFINITY, f64::min)
}

/// ns of one call.
fn per_call_ns(mut call: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    best((0..ROUNDS).map(round))
}

/// In a process of its own, under the library or not.
fn measure_calls(path: &Path) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let fd = file.as_raw_fd();
    let mut buffer = vec![7_u8; 4096];
    let pointer = buffer.as_mut_ptr();
    let done = |answer: isize, bytes: usize| assert_eq!(answer, bytes as isize);
    for bytes in SIZES_BYTES {
        let pread = || done(plain!(libc::pread(fd, pointer.cast(), bytes, 0)), bytes);
        println!("  pread      {bytes:5}: {:8.1} ns", per_call_ns(pread));
        let pwrite = || done(plain!(libc::pwrite(fd, pointer.cast(), bytes, 0)), bytes);
        println!("  pwrite     {bytes:5}: {:8.1} ns", per_call_ns(pwrite));
        let seek = || done(plain!(libc::lseek(fd, 0, libc::SEEK_SET)) as isize, 0);
        println!("  lseek           : {:8.1} ns", per_call_ns(seek));
        let read = || {
            seek();
            done(plain!(libc::read(fd, pointer.cast(), bytes)), bytes);
        };
        println!("  lseek+read {bytes:5}: {:8.1} ns", per_call_ns(read));
    }
}

fn measure_engine(volume: &Volume, path: &Path) {
    let ino = InodeNumber(path.metadata().unwrap().ino());
    let file = volume.open(ino, None).unwrap();
    let mut buffer = vec![7_u8; 4096];
    for bytes in SIZES_BYTES {
        let read = || {
            let to = CallerDestination::from(&mut buffer[..bytes]);
            let done = volume.read_direct(file, 0, to);
            assert_eq!(done, Ok(bytes));
        };
        println!("  read_direct  {bytes:5}: {:8.1} ns", per_call_ns(read));
        let write = || {
            let from = CallerSource::from(&buffer[..bytes]);
            let done = volume.write_direct(file, 0, from);
            assert_eq!(done, Ok(bytes));
        };
        println!("  write_direct {bytes:5}: {:8.1} ns", per_call_ns(write));
    }
    println!(
        "  count_direct     : {:8.1} ns",
        per_call_ns(|| volume.count_direct())
    );
    volume.close(ino);
}

fn measure_all() {
    let pools = tempfile::tempdir_in("/dev/shm").unwrap();
    let point = tempfile::tempdir().unwrap();
    let request = PoolRequest {
        node: 0,
        path: pools.path().join("pool"),
        bytes: Some(256 << 20),
    };
    create_volume(std::slice::from_ref(&request), &CreateOptions::default()).unwrap();
    let options = AttachOptions::default();
    let volume = Volume::attach(&request.path, AttachMode::CreateOrJoin, &options).unwrap();
    let handle = egeria_mount::spawn(volume.clone(), point.path(), &Default::default()).unwrap();
    let path = point.path().join("file");
    std::fs::write(&path, vec![1_u8; 4096]).unwrap();
    let tmpfs = pools.path().join("file");
    std::fs::write(&tmpfs, vec![1_u8; 4096]).unwrap();
    println!("the engine itself:");
    measure_engine(&volume, &path);
    for (title, path, preload) in [
        ("under the library:", &path, true),
        ("tmpfs, under the library:", &tmpfs, true),
        ("tmpfs, without:", &tmpfs, false),
    ] {
        println!("{title}");
        let mut command = Command::new(std::env::current_exe().unwrap());
        if preload {
            command.env("LD_PRELOAD", library());
        }
        assert!(command.arg(path).status().unwrap().success());
    }
    measure_starts(&path);
    handle.unmount().unwrap();
}

fn library() -> PathBuf {
    std::env::current_exe()
        .unwrap()
        .ancestors()
        .nth(2)
        .unwrap()
        .join("libegeria_preload.so")
}

/// Starts of short programs, with and without the library in turn.
fn measure_starts(file: &Path) {
    for (title, arguments, input) in [
        ("/bin/true", &["/bin/true"][..], None),
        ("/bin/cat FILE (attaches)", &["/bin/cat"][..], Some(file)),
    ] {
        let mut taken = [Vec::new(), Vec::new()];
        for _ in 0..200 {
            for (with, taken) in taken.iter_mut().enumerate() {
                taken.push(start(arguments, input, with == 1).as_secs_f64() * 1e6);
            }
        }
        let [without, with] = taken.map(|times| median(&times).unwrap_or(f64::NAN));
        println!("{title}: {without:.0} us without, {with:.0} us with the library");
    }
}

fn start(arguments: &[&str], input: Option<&Path>, with: bool) -> Duration {
    let mut command = Command::new(arguments[0]);
    command.stdout(Stdio::null());
    if with {
        command.env("LD_PRELOAD", library());
    }
    if let Some(file) = input {
        command.stdin(File::open(file).unwrap()).arg(file);
    }
    let begin = Instant::now();
    assert!(command.status().unwrap().success());
    begin.elapsed()
}
