//! Threads that go round the personality's loop until time or operations are up.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::file_set::{FileSet, failed};
use crate::options::Options;
use crate::personality::Step;
use egeria_stats::rng::Rng;

/// How often a file that somebody deletes just then is looked for again.
const TRIES: usize = 1000;
/// How often the end is looked for when operations are counted.
const LOOK: Duration = Duration::from_millis(2);

/// What was done while it counted.
#[derive(Serialize)]
pub struct Outcome {
    pub personality: &'static str,
    pub threads: usize,
    pub files: usize,
    pub operations: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub seconds: f64,
    pub operations_s: f64,
}

/// Counts of one thread, on lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Counts {
    operations: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

struct Shared<'a> {
    options: &'a Options,
    set: FileSet,
    counts: Vec<Counts>,
    start: Barrier,
    stop: AtomicBool,
}

/// Runs to the end and sums up.
pub fn run(options: &Options) -> Result<Outcome, String> {
    let shared = Shared {
        options,
        set: FileSet::find(options)?,
        counts: (0..options.threads).map(|_| Counts::default()).collect(),
        start: Barrier::new(options.threads + 1),
        stop: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let shared = &shared;
        let work = |thread| move || Worker::new(shared, thread).and_then(|mut each| each.work());
        let threads: Vec<_> = (0..options.threads)
            .map(|thread| scope.spawn(work(thread)))
            .collect();
        shared.start.wait();
        let outcome = shared.measure();
        shared.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| "a thread died".to_owned())??;
        }
        Ok(outcome)
    })
}

impl Shared<'_> {
    fn measure(&self) -> Outcome {
        std::thread::sleep(Duration::from_secs_f64(self.options.warmup_s));
        let (before, begin) = (self.sum(), Instant::now());
        match self.options.operations {
            None => std::thread::sleep(Duration::from_secs_f64(self.options.seconds)),
            Some(wanted) => {
                while self.sum()[0] - before[0] < wanted && !self.stop.load(Ordering::Relaxed) {
                    std::thread::sleep(LOOK);
                }
            }
        }
        let (after, seconds) = (self.sum(), begin.elapsed().as_secs_f64());
        let [operations, read_bytes, written_bytes] =
            std::array::from_fn(|place| after[place] - before[place]);
        Outcome {
            personality: self.options.personality.name,
            threads: self.options.threads,
            files: self.options.files,
            operations,
            read_bytes,
            written_bytes,
            seconds,
            operations_s: operations as f64 / seconds.max(f64::MIN_POSITIVE),
        }
    }

    fn sum(&self) -> [u64; 3] {
        let mut sum = [0; 3];
        for each in &self.counts {
            let values = [&each.operations, &each.read_bytes, &each.written_bytes];
            for (place, value) in sum.iter_mut().zip(values) {
                *place += value.load(Ordering::Relaxed);
            }
        }
        sum
    }
}

/// A thread: its open file, its log, its buffer.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    counts: &'a Counts,
    rng: Rng,
    buffer: Vec<u8>,
    log: Option<File>,
    open: Option<Open>,
}

struct Open {
    file: File,
    path: PathBuf,
    number: usize,
    created: bool,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>, thread: usize) -> Result<Worker<'a>, String> {
        let options = shared.options;
        let path = shared.set.log();
        let logs = options.personality.steps.contains(&Step::AppendLog);
        let log = logs.then(|| File::options().append(false).write(true).open(&path));
        let worker = log.transpose().map(|log| Worker {
            shared,
            counts: &shared.counts[thread],
            rng: Rng::of(&[options.seed, thread as u64]),
            buffer: vec![0xE6; options.io_bytes.max(options.append_bytes) as usize],
            log,
            open: None,
        });
        shared.start.wait();
        worker.map_err(|error| failed("open", &path, &error))
    }

    fn work(&mut self) -> Result<(), String> {
        let steps = self.shared.options.personality.steps.iter().cycle();
        for step in steps {
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            if let Err(error) = self.step(*step) {
                self.shared.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            self.counts.operations.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Delete => self.delete(),
            Step::Create => self.create(),
            Step::Open => self.open(),
            Step::Stat => self.stat(),
            Step::Close => self.close(),
            Step::AppendLog => self.append_log(),
            Step::WriteWhole | Step::Append | Step::ReadWhole | Step::Sync => self.on_open(step),
        }
    }

    fn delete(&mut self) -> Result<(), String> {
        // Without a file to delete the step is empty, as where all were deleted by others.
        if let Some(file) = self.shared.set.take_present(&mut self.rng) {
            let path = self.shared.set.path(file);
            fs::remove_file(&path).map_err(|error| failed("delete", &path, &error))?;
            self.shared.set.put(file, false);
        }
        Ok(())
    }

    fn create(&mut self) -> Result<(), String> {
        let set = &self.shared.set;
        let Some(number) = set.take_absent(&mut self.rng) else {
            // All exist already: rewrite one, so that the loop goes on.
            return self.open();
        };
        let path = set.path(number);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|error| failed("create", &path, &error))?;
        self.open = Some(Open {
            file,
            path,
            number,
            created: true,
        });
        Ok(())
    }

    fn open(&mut self) -> Result<(), String> {
        let file = self.find(|path| File::options().read(true).write(true).open(path))?;
        self.open = Some(file);
        Ok(())
    }

    fn stat(&mut self) -> Result<(), String> {
        for _ in 0..TRIES {
            let Some(number) = self.shared.set.present(&mut self.rng) else {
                return Ok(());
            };
            let path = self.shared.set.path(number);
            match fs::metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("stat", &path, &error)),
                Ok(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// A file that exists, opened; others may delete it meanwhile.
    fn find(&mut self, open: impl Fn(&PathBuf) -> std::io::Result<File>) -> Result<Open, String> {
        for _ in 0..TRIES {
            let Some(number) = self.shared.set.present(&mut self.rng) else {
                std::thread::yield_now();
                continue;
            };
            let path = self.shared.set.path(number);
            match open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("open", &path, &error)),
                Ok(file) => {
                    return Ok(Open {
                        file,
                        path,
                        number,
                        created: false,
                    });
                }
            }
        }
        Err("all files were deleted; use more --files or fewer --threads".to_owned())
    }

    fn on_open(&mut self, step: Step) -> Result<(), String> {
        let Some(open) = self.open.as_mut() else {
            return Ok(());
        };
        let io_bytes = self.shared.options.io_bytes;
        let done = match step {
            Step::ReadWhole => read_whole(&mut open.file, &mut self.buffer[..io_bytes as usize])
                .map(|bytes| self.counts.read_bytes.fetch_add(bytes, Ordering::Relaxed)),
            Step::WriteWhole => {
                let bytes = self.shared.set.size_bytes(open.number);
                write_whole(&mut open.file, &self.buffer[..io_bytes as usize], bytes).map(|()| {
                    self.counts
                        .written_bytes
                        .fetch_add(bytes, Ordering::Relaxed)
                })
            }
            Step::Append => {
                let bytes = 1 + self.rng.below(self.shared.options.append_bytes);
                append(&mut open.file, &self.buffer[..bytes as usize]).map(|()| {
                    self.counts
                        .written_bytes
                        .fetch_add(bytes, Ordering::Relaxed)
                })
            }
            _ => open.file.sync_all().map(|()| 0),
        };
        let path = &open.path;
        done.map(|_| ())
            .map_err(|error| failed("use", path, &error))
    }

    fn append_log(&mut self) -> Result<(), String> {
        let bytes = 1 + self.rng.below(self.shared.options.append_bytes);
        let Some(log) = self.log.as_mut() else {
            return Ok(());
        };
        append(log, &self.buffer[..bytes as usize])
            .map_err(|error| failed("append to", &self.shared.set.log(), &error))?;
        self.counts
            .written_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        if let Some(open) = self.open.take()
            && open.created
        {
            drop(open.file);
            self.shared.set.put(open.number, true);
        }
        Ok(())
    }
}

fn read_whole(file: &mut File, buffer: &mut [u8]) -> std::io::Result<u64> {
    let mut total = 0;
    loop {
        let bytes = file.read(buffer)?;
        total += bytes as u64;
        if bytes < buffer.len() {
            return Ok(total);
        }
    }
}

fn write_whole(file: &mut File, data: &[u8], bytes: u64) -> std::io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(data.len() as u64);
        file.write_all(&data[..piece as usize])?;
        left -= piece;
    }
    Ok(())
}

fn append(file: &mut File, data: &[u8]) -> std::io::Result<()> {
    file.seek(SeekFrom::End(0))?;
    file.write_all(data)
}
