//! Counting for a part of the time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::btf::Btf;
use crate::calls;
use crate::error::{BpfError, Result};
use crate::program::{self, KEY_BYTES, Offsets, VALUE_BYTES};

/// Pairs of thread and file that are counted at once: at most about 8 MiB of the kernel's memory.
const MAX_USES: u32 = 1 << 16;
/// From one time to the next, at most; attached for one part in so many of it. Attached, a cached read of 4 KiB may take several times as long.
const PERIOD: Duration = Duration::from_millis(500);
const PARTS: u32 = 100;
/// The inode of the first pid namespace.
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;

/// What one thread did with one file while somebody counted.
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
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// What was counted since the last time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// For how long was counted; the rest of the time nobody did.
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
    counted_ns: Arc<AtomicU64>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FileCounter {
    /// Loads the program and begins to count.
    ///
    /// # Errors
    /// When this user may not, or the kernel cannot.
    pub fn begin() -> Result<FileCounter> {
        FileCounter::with(PERIOD / PARTS, PERIOD - PERIOD / PARTS)
    }

    /// For windows of so many ns: in each, it counts at least twice.
    ///
    /// # Errors
    /// As [`FileCounter::begin`].
    pub fn begin_in_windows_of(window_ns: u64) -> Result<FileCounter> {
        let period = (Duration::from_nanos(window_ns) / 2).min(PERIOD);
        FileCounter::with(period / PARTS, period - period / PARTS)
    }

    /// Attached for so long, and then not: the longer, the more the machine's calls cost.
    ///
    /// # Errors
    /// As [`FileCounter::begin`].
    pub fn with(attached: Duration, detached: Duration) -> Result<FileCounter> {
        if !cfg!(target_arch = "x86_64") {
            return Err(BpfError::Cpu);
        }
        if !is_first_namespace() {
            return Err(BpfError::Namespace);
        }
        let map = calls::create_map(KEY_BYTES, VALUE_BYTES, MAX_USES);
        let map = map.map_err(|error| BpfError::kernel("make a table", error))?;
        let offsets = Offsets::of(&Btf::of_kernel()?)?;
        let program = {
            use std::os::fd::AsRawFd;
            program::assemble(&offsets, map.as_raw_fd())
        };
        let program = calls::load(&program);
        let program = program.map_err(|error| BpfError::kernel("load the program", error))?;
        // What cannot be attached should be known at once.
        let first = attach(&program);
        let first = first.map_err(|error| BpfError::kernel("attach the program", error))?;
        let counted_ns = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = channel::<()>();
        let counted = Arc::clone(&counted_ns);
        let work = move || {
            let mut link = Some(first);
            loop {
                let begun = Instant::now();
                let waited = stopped.recv_timeout(attached);
                if link.take().is_some() {
                    let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    counted.fetch_add(ns, Ordering::Relaxed);
                }
                let is_over = |waited| waited != Err(RecvTimeoutError::Timeout);
                if is_over(waited) || is_over(stopped.recv_timeout(detached)) {
                    return;
                }
                link = attach(&program).ok();
            }
        };
        let thread = std::thread::Builder::new().name("egeria-files".to_owned());
        let thread = thread.spawn(work).map_err(BpfError::Thread)?;
        Ok(FileCounter {
            map,
            counted_ns,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// What was counted since the last time, or the beginning.
    pub fn take(&mut self) -> Counts {
        let counted_ns = self.counted_ns.swap(0, Ordering::Relaxed);
        let found = calls::take_all(self.map.as_fd(), MAX_USES as usize).unwrap_or_default();
        let own = std::process::id();
        let uses = found.iter().map(|(key, value)| read(key, value));
        Counts {
            counted: Duration::from_nanos(counted_ns),
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

fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    calls::attach(c"sys_exit", program.as_fd())
}

fn is_first_namespace() -> bool {
    use std::os::unix::fs::MetadataExt;
    let namespace = std::fs::metadata("/proc/self/ns/pid");
    namespace.is_ok_and(|namespace| namespace.ino() == FIRST_PID_NAMESPACE)
}

fn read(key: &[u8; KEY_BYTES as usize], value: &[u8; VALUE_BYTES as usize]) -> FileUse {
    let half = |at: usize| u32::from_ne_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]]);
    let whole = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    let device = half(8);
    FileUse {
        inode: whole(&key[..8]),
        device: (device >> 20, device & 0xf_ffff),
        descriptor: half(12),
        thread_id: half(16),
        process_id: half(20),
        read_bytes: whole(&value[..8]),
        written_bytes: whole(&value[8..]),
    }
}
