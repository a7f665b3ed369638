//! How a pool is measured: threads of its node write and read files without names, for a moment with each of some
//! numbers of threads. What the engine gives is what programs can get; its own work is small compared with pieces of 1
//! MiB.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use egeria_engine::{Errno, FileReference, InodeNumber, NewInode, Volume, XattrMode};
use egeria_facts::CpuSet;
use egeria_machine::{CpuId, Machine, NodeId, PoolBandwidth};
use egeria_proc::task;

/// Each number of threads reads, and writes, for so long.
const SAMPLE: Duration = Duration::from_millis(100);
/// Bytes of one access.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of all files together: several times the caches. The content of a pool's free space does not matter.
const MIN_FILES_BYTES: u64 = 128 << 20;
const MAX_FILES_BYTES: u64 = 512 << 20;
/// At most this part of the free space is taken.
const FREE_PART: u64 = 8;

/// Why there is no figure.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The volume was used during the measurement.
    Disturbed,
    /// It cannot be found out.
    Failed(String),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::Failed(format!("a file for that cannot be used: {errno}"))
    }
}

/// What is to be measured.
pub(super) struct Plan {
    cpus: Vec<CpuId>,
    /// Of each file; there is one for each CPU.
    file_bytes: u64,
}

impl Plan {
    /// What a node's CPUs get of a pool; or why that is not to be tried.
    pub(super) fn make(
        volume: &Volume,
        machine: &Machine,
        node: NodeId,
        pool: usize,
    ) -> Result<Plan, String> {
        if volume.is_read_only() {
            return Err("the volume is attached read-only".to_owned());
        }
        let allowed = task::affinity(own_thread()).map_err(|error| error.to_string())?;
        let may_use = |cpu: &CpuId| allowed.contains(*cpu);
        let of_node = machine
            .index_of(node)
            .map(|index| &machine.nodes[index].cpus);
        let cpus = of_node.into_iter().flatten().copied();
        let cpus: Vec<CpuId> = cpus.filter(may_use).collect();
        if cpus.is_empty() {
            return Err("the steward may use none of the node's CPUs".to_owned());
        }
        let pool = u8::try_from(pool).map_err(|error| error.to_string())?;
        let free_bytes = volume.space(Some(pool)).available_blocks * 4096;
        if free_bytes / FREE_PART < MIN_FILES_BYTES {
            let needed_mib = (MIN_FILES_BYTES * FREE_PART) >> 20;
            let free_mib = free_bytes >> 20;
            return Err(format!(
                "the pool has {free_mib} MiB of free space, and {needed_mib} are needed"
            ));
        }
        let all_bytes = (free_bytes / FREE_PART).min(MAX_FILES_BYTES);
        let chunk_bytes = CHUNK_BYTES as u64;
        let file_bytes = (all_bytes / cpus.len() as u64 / chunk_bytes).max(1) * chunk_bytes;
        Ok(Plan { cpus, file_bytes })
    }

    /// The most that any number of threads gets.
    pub(super) fn carry_out(
        &self,
        volume: &Volume,
        stop: &AtomicBool,
    ) -> Result<PoolBandwidth, Refusal> {
        let files = Files::make(volume, self.cpus.len())?;
        let run = Run {
            volume,
            stop,
            files: &files.0,
            file_bytes: self.file_bytes,
        };
        let all = self.cpus.len();
        run.with_threads(&self.cpus, Work::Fill)?;
        let doubled = std::iter::successors(Some(1), |count| Some(count * 2));
        let counts = doubled.take_while(|count| *count < all).chain([all]);
        let mut most = PoolBandwidth {
            read_bytes_s: 0.0,
            write_bytes_s: 0.0,
        };
        for count in counts {
            let cpus = &self.cpus[..count];
            let written_bytes_s = run.with_threads(cpus, Work::Write)?;
            let read_bytes_s = run.with_threads(cpus, Work::Read)?;
            most.write_bytes_s = most.write_bytes_s.max(written_bytes_s);
            most.read_bytes_s = most.read_bytes_s.max(read_bytes_s);
        }
        if most.read_bytes_s >= 1.0 && most.write_bytes_s >= 1.0 {
            Ok(most)
        } else {
            Err(Refusal::Failed("nothing was read or written".to_owned()))
        }
    }
}

fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Files without names, gone with this.
struct Files<'a>(Vec<File<'a>>);

struct File<'a> {
    volume: &'a Volume,
    ino: InodeNumber,
}

impl Files<'_> {
    fn make(volume: &Volume, count: usize) -> Result<Files<'_>, Errno> {
        let made: Result<_, Errno> = (0..count).map(|_| File::make(volume)).collect();
        volume.thread_exit();
        Ok(Files(made?))
    }
}

impl File<'_> {
    fn make(volume: &Volume) -> Result<File<'_>, Errno> {
        let new = NewInode {
            mode: libc::S_IFREG | 0o600,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
        };
        let ino = volume.create_unnamed(InodeNumber::ROOT, &new)?.ino;
        let file = File { volume, ino };
        // On the node of the writer, whatever layout the session has for others.
        volume.set_xattr(ino, b"user.egeria.layout", b"local", XattrMode::Any)?;
        Ok(file)
    }
}

impl Drop for File<'_> {
    fn drop(&mut self) {
        self.volume.close(self.ino);
    }
}

/// What threads do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Write all files once.
    Fill,
    Write,
    Read,
}

struct Run<'a> {
    volume: &'a Volume,
    stop: &'a AtomicBool,
    files: &'a [File<'a>],
    file_bytes: u64,
}

impl Run<'_> {
    /// One thread on each of these CPUs, all files shared out among them; bytes/s of all.
    fn with_threads(&self, cpus: &[CpuId], work: Work) -> Result<f64, Refusal> {
        let barrier = Barrier::new(cpus.len());
        let rates: Result<Vec<f64>, Refusal> = std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(cpus.len());
            for (index, cpu) in cpus.iter().enumerate() {
                let (barrier, step) = (&barrier, cpus.len());
                threads.push(scope.spawn(move || {
                    let rate = self.thread(*cpu, (index, step), work, barrier);
                    self.volume.thread_exit();
                    rate
                }));
            }
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(rate) => rate,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect()
        });
        if self.stop.load(Ordering::Relaxed) {
            Err(Refusal::Disturbed)
        } else {
            Ok(rates?.into_iter().sum())
        }
    }

    fn thread(
        &self,
        cpu: CpuId,
        (first, step): (usize, usize),
        work: Work,
        barrier: &Barrier,
    ) -> Result<f64, Refusal> {
        let only: CpuSet = std::iter::once(cpu).collect();
        let stands = task::set_affinity(own_thread(), &only);
        let mut buffer = vec![0xE9; CHUNK_BYTES];
        barrier.wait();
        stands
            .map_err(|error| Refusal::Failed(format!("CPU {} cannot be used: {error}", cpu.0)))?;
        let begun = Instant::now();
        let mut bytes = 0;
        loop {
            for file in self.files.iter().skip(first).step_by(step) {
                let reference = self.volume.open(file.ino, None)?;
                let done = self.go_through(reference, &mut buffer, work, begun);
                self.volume.close(file.ino);
                let (moved, is_over) = done?;
                bytes += moved;
                if is_over {
                    return Ok(bytes as f64 / begun.elapsed().as_secs_f64().max(1e-9));
                }
            }
            if work == Work::Fill {
                return Ok(0.0);
            }
        }
    }

    /// A file from its beginning to its end; the bytes, and whether the time is over.
    fn go_through(
        &self,
        file: FileReference,
        buffer: &mut [u8],
        work: Work,
        begun: Instant,
    ) -> Result<(u64, bool), Refusal> {
        let mut bytes = 0;
        for offset_bytes in (0..self.file_bytes).step_by(CHUNK_BYTES) {
            let moved = match work {
                Work::Read => self.volume.read(file, offset_bytes, buffer)?,
                Work::Fill | Work::Write => self.volume.write(file, offset_bytes, buffer)?,
            };
            bytes += moved as u64;
            let is_late = work != Work::Fill && begun.elapsed() >= SAMPLE;
            if is_late || self.stop.load(Ordering::Relaxed) {
                return Ok((bytes, true));
            }
        }
        Ok((bytes, false))
    }
}
