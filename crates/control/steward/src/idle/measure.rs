//! How a pool is measured: threads of its node write, read, and do both to files without names, for a moment with each
//! of some numbers of threads. That gives a curve in the form of a machine file ([`egeria_machine::curves`]). What the
//! engine gives is what programs can get; its own work is small compared with pieces of 256 KiB.
//!
//! Time and wear are bounded ([`Limits`]), and nothing is written but free space of the volume.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use egeria_engine::{Errno, FileReference, InodeNumber, NewInode, Volume, XattrMode};
use egeria_facts::CpuSet;
use egeria_machine::curves::{Crowd, thread_counts};
use egeria_machine::{CpuId, Machine, NodeId, PoolBandwidth};
use egeria_proc::task;

/// What a measurement may take, and how much it may wear the memory. docs/how-to/calibrate.md states both.
#[derive(Clone, Copy)]
struct Limits {
    /// Each number of threads reads, writes, and does both, for so long.
    sample: Duration,
    /// All of it, at most.
    time: Duration,
    /// Bytes written in all, at most.
    written_bytes: u64,
}

const LIMITS: Limits = Limits {
    sample: Duration::from_millis(100),
    time: Duration::from_secs(10),
    written_bytes: 8 << 30,
};
/// Bytes of one access.
const CHUNK_BYTES: usize = 256 << 10;
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
    limits: Limits,
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
        Ok(Plan {
            cpus,
            file_bytes,
            limits: LIMITS,
        })
    }

    /// What numbers of threads get.
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
            limits: self.limits,
            begun: Instant::now(),
            room_bytes: AtomicU64::new(self.limits.written_bytes),
        };
        run.with_threads(&self.cpus, Work::Fill)?;
        let left_bytes = run.room_bytes.load(Ordering::Relaxed);
        let counts = thread_counts(self.cpus.len());
        let each_bytes = left_bytes / (2 * counts.len().max(1) as u64);
        let mut crowds = Vec::with_capacity(counts.len());
        for count in counts {
            let get = |work| {
                run.room_bytes.store(each_bytes, Ordering::Relaxed);
                run.with_threads(&self.cpus[..count], work)
            };
            crowds.push(Crowd {
                threads: count as u32,
                write_bytes_s: get(Work::Write)?,
                read_bytes_s: get(Work::Read)?,
                mixed_bytes_s: get(Work::Both)?,
            });
        }
        let found = PoolBandwidth::of(&crowds);
        found.ok_or_else(|| Refusal::Failed("nothing was read or written".to_owned()))
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
    /// Read and write pieces in turn.
    Both,
}

struct Run<'a> {
    volume: &'a Volume,
    stop: &'a AtomicBool,
    files: &'a [File<'a>],
    file_bytes: u64,
    limits: Limits,
    begun: Instant,
    /// What may still be written in this sample.
    room_bytes: AtomicU64,
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
        } else if self.is_over_time() {
            let seconds = self.limits.time.as_secs_f64();
            Err(Refusal::Failed(format!("it took longer than {seconds} s")))
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
        let begun_ns = self.now_ns();
        let mut bytes = 0;
        loop {
            for file in self.files.iter().skip(first).step_by(step) {
                let reference = self.volume.open(file.ino, None)?;
                let done = self.go_through(reference, &mut buffer, work, begun_ns);
                self.volume.close(file.ino);
                let (moved, is_over) = done?;
                bytes += moved;
                if is_over {
                    let took_ns = self.now_ns().saturating_sub(begun_ns);
                    return Ok(bytes as f64 * 1e9 / took_ns.max(1) as f64);
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
        begun_ns: u64,
    ) -> Result<(u64, bool), Refusal> {
        let sample_ns = self.limits.sample.as_nanos() as u64;
        let mut bytes = 0;
        for (index, offset_bytes) in (0..self.file_bytes).step_by(CHUNK_BYTES).enumerate() {
            let is_written = match work {
                Work::Read => false,
                Work::Both => index % 2 == 1,
                Work::Fill | Work::Write => true,
            };
            if is_written && !self.takes_room() {
                return Ok((bytes, true));
            }
            let moved = if is_written {
                self.volume.write(file, offset_bytes, buffer)?
            } else {
                self.volume.read(file, offset_bytes, buffer)?
            };
            bytes += moved as u64;
            let is_late = work != Work::Fill && self.now_ns() - begun_ns >= sample_ns;
            if is_late || self.is_over_time() || self.stop.load(Ordering::Relaxed) {
                return Ok((bytes, true));
            }
        }
        Ok((bytes, false))
    }

    /// Whether one more piece may be written.
    fn takes_room(&self) -> bool {
        let less = |room: u64| room.checked_sub(CHUNK_BYTES as u64);
        let order = Ordering::Relaxed;
        self.room_bytes.fetch_update(order, order, less).is_ok()
    }

    fn is_over_time(&self) -> bool {
        self.begun.elapsed() >= self.limits.time
    }

    /// The clock of the memory: an emulated one has its own.
    fn now_ns(&self) -> u64 {
        let emulation = self.volume.emulation();
        if emulation.is_configured() {
            emulation.machine_now_ns()
        } else {
            self.begun.elapsed().as_nanos() as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_engine::{AttachMode, AttachOptions, CreateOptions, PoolRequest, create_volume};
    use egeria_machine::{AccessKind, Medium};
    use std::sync::Arc;

    /// Node 0's medium gives half of its reads and a third of its writes to eight threads.
    fn machine() -> Machine {
        let mut machine = Machine::profile("optane-2s").unwrap();
        let emulated = machine.emulated.as_mut().unwrap();
        emulated.dilation = 8.0;
        for node in &mut emulated.nodes {
            node.cores = 8;
            node.read_curve = vec![(1, 1.0), (4, 1.0), (8, 0.5)];
            node.write_curve = vec![(1, 1.0), (4, 1.0), (8, 0.33)];
        }
        machine
    }

    fn volume(folder: &std::path::Path, machine: &Machine) -> Arc<Volume> {
        let pool = |node: u16| PoolRequest {
            node,
            path: folder.join(format!("pool{node}")),
            bytes: Some(128 << 20),
        };
        create_volume(&[pool(0), pool(1)], &CreateOptions::default()).unwrap();
        let options = AttachOptions {
            machine: Some(machine.clone()),
            ..AttachOptions::default()
        };
        Volume::attach(&folder.join("pool0"), AttachMode::CreateOrJoin, &options).unwrap()
    }

    fn plan(volume: &Volume) -> Plan {
        let machine = volume.declared_machine().unwrap();
        let cpus = machine.nodes[0].cpus.iter().copied().cycle().take(8);
        Plan {
            cpus: cpus.collect(),
            file_bytes: 4 << 20,
            limits: Limits {
                sample: Duration::from_millis(60),
                time: Duration::from_secs(120),
                ..LIMITS
            },
        }
    }

    /// By the emulated machine's own clock, so the host's speed does not matter. Within 15 %: the engine's own work, and
    /// threads that end their samples before others.
    #[test]
    fn the_curve_found_is_that_of_the_emulated_medium() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let machine = machine();
        let volume = volume(folder.path(), &machine);
        let found = plan(&volume).carry_out(&volume, &AtomicBool::new(false));
        let found = found.unwrap();
        assert!(found.is_valid(), "{found:?}");
        let declared = machine.emulated_node(NodeId(0)).unwrap().medium();
        let medium = found.medium();
        let near = |found: f64, declared: f64| (found / declared - 1.0).abs() < 0.15;
        for kind in [AccessKind::Read, AccessKind::Write] {
            let alone = |medium: &Medium<'_>| medium.side(kind).stream_bytes_s;
            assert!(
                near(alone(&medium), alone(&declared)),
                "{kind:?}: {found:?}"
            );
            for threads in [4, 8] {
                let gives = |medium: &Medium<'_>| medium.capacity_bytes_s(kind, false, threads);
                let what = || format!("{threads} threads {kind:?}: {found:?}");
                assert!(near(gives(&medium), gives(&declared)), "{}", what());
            }
        }
        let mixed = |medium: &Medium<'_>| medium.mixed(false, 0.5, 8.0);
        assert!(near(mixed(&medium), mixed(&declared)), "{found:?}");
    }

    #[test]
    fn samples_end_when_enough_is_written_or_time_is_over() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let volume = volume(folder.path(), &machine());
        volume.emulation().set_timing(false);
        let (cpus, go) = (&plan(&volume).cpus[..2], AtomicBool::new(false));
        let files = Files::make(&volume, 2).unwrap();
        let mut run = Run {
            volume: &volume,
            stop: &go,
            files: &files.0,
            file_bytes: 4 << 20,
            limits: Limits {
                sample: Duration::from_secs(3600),
                time: Duration::from_secs(3600),
                ..LIMITS
            },
            begun: Instant::now(),
            room_bytes: AtomicU64::new(64 << 20),
        };
        for work in [Work::Write, Work::Both] {
            run.room_bytes = AtomicU64::new(64 << 20);
            assert!(run.with_threads(cpus, work).unwrap() > 0.0);
            assert_eq!(run.room_bytes.load(Ordering::Relaxed), 0);
        }
        run.limits.time = Duration::from_millis(200);
        let Err(Refusal::Failed(why)) = run.with_threads(cpus, Work::Read) else {
            panic!("it read for an hour")
        };
        assert_eq!(why, "it took longer than 0.2 s");
    }
}
