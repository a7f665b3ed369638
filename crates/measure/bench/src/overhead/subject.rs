//! The programs that are measured. They know nothing of who looks.
//!
//! Each is asked to work for so many ms, and answers what it did.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::programs::worker;

const PAGE: usize = 4096;
/// Bytes of the file that is read: beyond the caches of a core, and soon cached.
pub(super) const FILE_BYTES: u64 = 64 << 20;
/// Operations between two looks at the clock.
const BATCH: u64 = 256;

/// What was done in the time asked for.
#[derive(Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) count: f64,
    pub(super) ns: f64,
    /// CPU time of the thread that answers.
    pub(super) cpu_ns: f64,
}

/// Works until standard input ends. `what` is `reads FILE`, `memory BYTES` or `threads COUNT FILE`.
///
/// # Errors
/// One line with cause and remedy.
pub fn run(what: &[String]) -> Result<(), String> {
    let number = |text: &String| {
        text.parse::<u64>()
            .map_err(|_| format!("{text} is no number"))
    };
    match what {
        [kind, file] if kind == "reads" => reads(file),
        [kind, bytes] if kind == "memory" => memory(number(bytes)?),
        [kind, count, file] if kind == "threads" => threads(number(count)?, file),
        _ => Err(format!(
            "{what:?} is no subject; `egeria-lab bench overhead` starts these itself"
        )),
    }
}

fn open(path: &str) -> Result<File, String> {
    File::open(path)
        .map_err(|error| format!("{path}: {error}; name a directory that can be written"))
}

fn reads(path: &str) -> Result<(), String> {
    let file = open(path)?;
    let (mut buffer, mut random) = (vec![0; PAGE], Random(1));
    serve(|| {
        let page = random.next() % (FILE_BYTES / PAGE as u64);
        let read = file.read_at(&mut buffer, page * PAGE as u64);
        std::hint::black_box(read.is_ok_and(|read| read == PAGE))
    })
}

fn memory(bytes: u64) -> Result<(), String> {
    let count = usize::try_from(bytes / 8).unwrap_or(0).next_power_of_two();
    let mut words = Vec::new();
    words
        .try_reserve_exact(count)
        .map_err(|_| "there is not so much memory; choose a smaller --size".to_owned())?;
    words.extend((0..count as u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let (mut random, mut sum) = (Random(1), 0_u64);
    serve(|| {
        // What was read says where to go on, so that the processor cannot know it before.
        let at = (random.next() ^ sum) as usize & (count - 1);
        sum = sum.wrapping_add(words[at]);
        words[at] = sum;
        true
    })
}

/// Threads that wake up ten times a second and read a block.
fn threads(count: u64, path: &str) -> Result<(), String> {
    let file = Arc::new(open(path)?);
    let ends = Arc::new(AtomicBool::new(false));
    let mut all = Vec::new();
    for number in 0..count {
        let (file, ends) = (Arc::clone(&file), Arc::clone(&ends));
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        let thread = thread.spawn(move || {
            let (mut buffer, mut random) = ([0; PAGE], Random(number + 1));
            while !ends.load(Ordering::Relaxed) {
                let page = random.next() % (FILE_BYTES / PAGE as u64);
                let _ = std::hint::black_box(file.read_at(&mut buffer, page * PAGE as u64));
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        all.push(thread.map_err(|error| {
            format!("no thread {number} of {count} can be started: {error}; choose fewer --threads")
        })?);
    }
    let served = serve(|| {
        std::thread::sleep(Duration::from_millis(1));
        true
    });
    ends.store(true, Ordering::Relaxed);
    for thread in all {
        let _ = thread.join();
    }
    served
}

/// Works for as long as it is asked to, again and again.
fn serve(mut work: impl FnMut() -> bool) -> Result<(), String> {
    let served = worker::serve(|length_ms: &u64| {
        let (begin, length) = (Instant::now(), Duration::from_millis(*length_ms));
        let cpu_begin_ns = cpu_ns();
        let mut done = 0_u64;
        while begin.elapsed() < length {
            for _ in 0..BATCH {
                if !work() {
                    return Err(io::Error::other("a read failed; is the file system full?"));
                }
                done += 1;
                if done.is_multiple_of(8) && begin.elapsed() >= length {
                    break;
                }
            }
        }
        Ok(Done {
            count: done as f64,
            ns: begin.elapsed().as_nanos() as f64,
            cpu_ns: (cpu_ns() - cpu_begin_ns) as f64,
        })
    });
    served.map_err(|error| format!("the answer cannot be given: {error}; do not close its pipes"))
}

/// Of this thread.
fn cpu_ns() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Cheap numbers (xorshift): a call of the operating system must not drown in them.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
