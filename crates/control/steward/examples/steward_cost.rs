//! What a steward costs: CPU time of its thread while 1,000 threads of another process read and write,
//! as a share of one core, and the time of one look. Reports; asserts nothing. Not a benchmark of
//! criterion's: what counts is a share of CPU time over many windows.
//!
//! `cargo run --release -p egeria-steward --example steward_cost [THREADS] [SECONDS]`

#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use egeria_engine::*;
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_proc::task;
use egeria_steward::{Scope, Steward, StewardOptions, Target};

const POOL: &str = "EGERIA_STEWARD_COST_POOL";

fn main() {
    let number = |at: usize, default: u64| {
        let word = std::env::args().nth(at).and_then(|word| word.parse().ok());
        word.unwrap_or(default)
    };
    let (threads, seconds) = (number(1, 1000), number(2, 20));
    match std::env::var_os(POOL) {
        Some(pool) => work(Path::new(&pool), threads),
        None => measure(threads, seconds),
    }
}

/// Each thread reads and writes its own file a few hundred times a second.
fn work(pool: &Path, threads: u64) {
    let volume = Volume::attach(pool, AttachMode::Join, &AttachOptions::default()).expect("join");
    let started = Arc::new(std::sync::Barrier::new(threads as usize + 1));
    for thread in 0..threads {
        let (volume, started) = (volume.clone(), started.clone());
        std::thread::spawn(move || {
            let name = format!("file{thread}");
            let found = volume
                .lookup(InodeNumber::ROOT, name.as_bytes())
                .expect("lookup");
            let file = volume.open(found.ino, None).expect("open");
            let mut buffer = vec![1; 4096];
            volume.read(file, 0, &mut buffer).expect("read");
            started.wait();
            loop {
                volume.write(file, 0, &buffer).expect("write");
                volume.read(file, 0, &mut buffer).expect("read");
                std::thread::sleep(Duration::from_millis(100));
            }
        });
    }
    started.wait();
    println!("ready");
    std::thread::sleep(Duration::from_secs(3600));
}

fn measure(threads: u64, seconds: u64) {
    let folder = PathBuf::from(format!(
        "/dev/shm/egeria-steward-cost-{}",
        std::process::id()
    ));
    std::fs::create_dir_all(&folder).expect("folder");
    let path = folder.join("pool");
    let pool = PoolRequest {
        node: 0,
        path: path.clone(),
        bytes: Some(256 << 20),
    };
    create_volume(&[pool], &CreateOptions::default()).expect("mkfs");
    let volume =
        Volume::attach(&path, AttachMode::CreateOrJoin, &AttachOptions::default()).expect("attach");
    for thread in 0..threads {
        let new = NewInode::of_root(libc::S_IFREG | 0o644);
        let name = format!("file{thread}");
        let made = volume
            .create_open(InodeNumber::ROOT, name.as_bytes(), &new)
            .expect("create");
        let file = volume.open(made.ino, None).expect("open");
        volume.write(file, 0, &[1; 4096]).expect("fill");
    }
    let mut child = Command::new(std::env::current_exe().expect("own path"))
        .arg(threads.to_string())
        .env(POOL, &path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawn");
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("stdout"));
    said.read_line(&mut line).expect("ready");
    let mut settings = System::Full.settings();
    // All threads are looked at, however little they do.
    settings.set("min_io_bytes_s", "1").expect("setting");
    let options = StewardOptions {
        policy: "full".to_owned(),
        settings,
        given: Vec::new(),
        window_ns: 1_000_000_000,
        machine: Machine::detect().expect("machine"),
        scope: Scope::All,
        memory_source: None,
        measure_idle_pools: false,
        record: None,
        decision_log: Some(folder.join("decisions.jsonl")),
    };
    let steward = Steward::start(Target::Volume(volume.clone()), options).expect("steward");
    std::thread::sleep(Duration::from_secs(2));
    let (before_ns, begun) = (steward_cpu_ns(), Instant::now());
    std::thread::sleep(Duration::from_secs(seconds));
    let spent_ns = steward_cpu_ns() - before_ns;
    let elapsed_ns = begun.elapsed().as_nanos() as f64;
    let summary = steward.stop();
    println!(
        "{threads} threads, a window of 1 s: {:.3} % of one core ({:.2} ms a window, {} windows)",
        100.0 * spent_ns as f64 / elapsed_ns,
        spent_ns as f64 / 1e6 / seconds as f64,
        summary.windows
    );
    let _ = child.kill();
    let _ = child.wait();
    drop(volume);
    let _ = std::fs::remove_dir_all(&folder);
}

/// CPU time of the steward's own thread.
fn steward_cpu_ns() -> u64 {
    let own = std::process::id();
    let steward = |thread: &u32| task::name(own, *thread) == "egeria-steward";
    let thread = task::threads(own).into_iter().find(steward);
    let clock = thread.and_then(|thread| task::CpuClock::open(own, thread).ok());
    clock.and_then(|clock| clock.read_ns()).unwrap_or(0)
}
