//! Counting for a part of the time, or all of it where that costs little.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::btf::Btf;
use crate::calls;
use crate::error::{BpfError, Result};
use crate::pace::Pace;
use crate::program::{
    self, ANCESTORS, ANCESTORS_AT, KEY_BYTES, NAME_AT, NAME_BYTES, NODE_AT, Offsets, VALUE_BYTES,
};
use crate::runs::Runs;

/// Pairs of thread and file that are counted at once: at most about 12 MiB of the kernel's memory.
const MAX_USES: u32 = 1 << 16;
/// The inode of the first pid namespace.
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;

/// What one thread did with one file while calls were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileUse {
    /// The kernel's process id.
    pub process_id: u32,
    /// The kernel's thread id.
    pub thread_id: u32,
    /// By which descriptor of the process.
    pub descriptor: u32,
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    /// The file's number there.
    pub inode: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// The node that the thread ran on at the first of these calls, as the kernel numbers it.
    pub node: u32,
    /// What the thread was called then; 0 behind it.
    pub name: [u8; NAME_BYTES],
    /// Process ids: what began this process, what began that one, and so on; 0 where there is none.
    pub ancestors: [u32; ANCESTORS],
}

/// What was counted since the last time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// How long calls were counted; in the rest of the time they were not.
    pub counted: Duration,
    /// Each thread and file; their order does not matter.
    pub uses: Vec<FileUse>,
    /// There were more than can be counted.
    pub is_full: bool,
}

/// Counts what threads read and write of regular files by system calls, all of the machine.
///
/// Not seen are mappings, `io_uring`, `sendfile` and what programs of 32 bits do.
pub struct FileCounter {
    map: OwnedFd,
    time: Arc<Mutex<Time>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// For how long was counted.
#[derive(Default)]
struct Time {
    counted: Duration,
    /// Of what is not in `counted`, since when the program is attached.
    since: Option<Instant>,
}

impl Time {
    fn attached(&mut self) {
        self.since = Some(Instant::now());
    }

    fn detached(&mut self) {
        let since = self.since.take();
        self.counted += since.map_or(Duration::ZERO, |since| since.elapsed());
    }

    fn take(&mut self) -> Duration {
        if self.since.is_some() {
            self.detached();
            self.attached();
        }
        std::mem::take(&mut self.counted)
    }
}

impl FileCounter {
    /// Loads the program and begins to count.
    ///
    /// # Errors
    /// When this user may not, or the kernel cannot.
    pub fn begin() -> Result<FileCounter> {
        FileCounter::with(Pace::default())
    }

    /// For windows of `window_ns`: in each, it counts at least twice.
    ///
    /// # Errors
    /// Those of [`FileCounter::begin`].
    pub fn begin_in_windows_of(window_ns: u64) -> Result<FileCounter> {
        FileCounter::with(Pace::in_windows_of(Duration::from_nanos(window_ns)))
    }

    /// At this pace: the longer it is attached, the more the machine's calls cost.
    ///
    /// # Errors
    /// Those of [`FileCounter::begin`].
    pub fn with(pace: Pace) -> Result<FileCounter> {
        if !cfg!(target_arch = "x86_64") {
            return Err(BpfError::Cpu);
        }
        if !is_first_namespace() {
            return Err(BpfError::Namespace);
        }
        let map = calls::create_map(KEY_BYTES, VALUE_BYTES, MAX_USES);
        let map = map.map_err(|error| BpfError::kernel("make a table", error))?;
        let runs = Runs::new().map_err(|error| BpfError::kernel("make a table", error))?;
        let offsets = Offsets::of(&Btf::of_kernel()?)?;
        let program = program::assemble(&offsets, map.as_raw_fd(), runs.as_raw_fd());
        let program = calls::load(&program);
        let program = program.map_err(|error| BpfError::kernel("load the program", error))?;
        // What cannot be attached should be known at once.
        let first = attach(&program);
        let first = first.map_err(|error| BpfError::kernel("attach the program", error))?;
        let time = Arc::new(Mutex::new(Time::default()));
        lock(&time).attached();
        let (stop, stopped) = channel::<()>();
        let turns = Turns {
            program,
            runs,
            pace,
            time: Arc::clone(&time),
            stopped,
        };
        let thread = std::thread::Builder::new().name("egeria-files".to_owned());
        let thread = thread.spawn(move || drop(turns.run(first)));
        let thread = thread.map_err(BpfError::Thread)?;
        Ok(FileCounter {
            map,
            time,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// What was counted since the last time, or the beginning.
    pub fn take(&mut self) -> Counts {
        let counted = lock(&self.time).take();
        let found = calls::take_all(self.map.as_fd(), MAX_USES as usize).unwrap_or_default();
        let own = std::process::id();
        let uses = found.iter().map(|(key, value)| read(key, value));
        Counts {
            counted,
            is_full: found.len() >= MAX_USES as usize,
            uses: uses.filter(|each| each.process_id != own).collect(),
        }
    }
}

impl Drop for FileCounter {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(time: &Mutex<Time>) -> MutexGuard<'_, Time> {
    time.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What attaches the program, and takes it away again.
struct Turns {
    program: OwnedFd,
    runs: Runs,
    pace: Pace,
    time: Arc<Mutex<Time>>,
    stopped: Receiver<()>,
}

/// The counts are not wanted any more.
struct Stopped;

impl Turns {
    fn run(&self, first: OwnedFd) -> std::result::Result<(), Stopped> {
        let mut link = Some(first);
        loop {
            let begun = Instant::now();
            self.stay(begun)?;
            let rest = self.pace.period.saturating_sub(begun.elapsed());
            // Attaching has its price as well.
            if rest.is_zero() && link.is_some() {
                continue;
            }
            drop(link.take());
            lock(&self.time).detached();
            self.wait(rest)?;
            link = attach(&self.program).ok();
            if link.is_some() {
                lock(&self.time).attached();
            }
        }
    }

    /// As long as calls are few, up to the end of the period.
    fn stay(&self, begun: Instant) -> std::result::Result<(), Stopped> {
        let before = self.runs.so_far();
        let mut step = self.pace.shortest;
        loop {
            self.wait(step)?;
            let Some((before, now)) = before.zip(self.runs.so_far()) else {
                return Ok(());
            };
            match self.pace.further(begun.elapsed(), now.wrapping_sub(before)) {
                Some(further) => step = further,
                None => return Ok(()),
            }
        }
    }

    fn wait(&self, length: Duration) -> std::result::Result<(), Stopped> {
        match self.stopped.recv_timeout(length) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Stopped),
        }
    }
}

fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    calls::attach(c"sys_exit", program.as_fd())
}

fn is_first_namespace() -> bool {
    use std::os::unix::fs::MetadataExt;
    let namespace = std::fs::metadata("/proc/self/ns/pid");
    namespace.is_ok_and(|namespace| namespace.ino() == FIRST_PID_NAMESPACE)
}

fn read(key: &[u8; KEY_BYTES as usize], value: &[u8; VALUE_BYTES as usize]) -> FileUse {
    let half_of = |bytes: &[u8], at: usize| {
        u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    let half = |at: usize| half_of(key, at);
    let whole = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    let device = half(8);
    FileUse {
        inode: whole(&key[..8]),
        device: (device >> 20, device & 0xf_ffff),
        descriptor: half(12),
        thread_id: half(16),
        process_id: half(20),
        read_bytes: whole(&value[..8]),
        written_bytes: whole(&value[8..NODE_AT as usize]),
        node: half_of(value, NODE_AT as usize),
        name: std::array::from_fn(|at| value[NAME_AT as usize + at]),
        ancestors: std::array::from_fn(|at| half_of(value, ANCESTORS_AT as usize + 8 * at + 4)),
    }
}
