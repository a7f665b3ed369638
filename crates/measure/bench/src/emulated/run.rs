//! Programs on volumes of one emulated machine, at the same time: what each moves in a while, by that machine's clock.
//!
//! Each program has a volume of its own, so that the volume's counters tell its bytes. Data is prepared with timing off.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use egeria_engine::{AllocationPolicy, AttachOptions, ThreadReport, Volume};
use egeria_harness::process::{Cancel, check_cancel};
use egeria_harness::program::loadable;
use egeria_harness::{Error, Result};
use egeria_machine::{Machine, MemoryKind};
use egeria_scratch::{ScratchVolume, memory_directory};
use tempfile::TempDir;

use super::EmulatedOptions;
use crate::programs::script::{self, Call};

/// A program that takes longer to begin does not work.
const BEGIN_LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(5);
/// Programs are ended long before.
const LIMIT: Duration = Duration::from_secs(600);

/// A volume: what it lies on, how large, and where new data goes.
#[derive(Clone, Copy)]
pub(crate) struct VolumeSetup {
    pub(crate) memory: Option<MemoryKind>,
    pub(crate) pool_bytes: u64,
    pub(crate) allocation: AllocationPolicy,
}

pub(crate) struct EmulatedRun<'a> {
    volumes: Vec<ScratchVolume>,
    library: PathBuf,
    backstage: TempDir,
    cancel: Cancel<'a>,
}

/// How long to run, host time.
#[derive(Clone, Copy)]
pub(crate) struct RunPace {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What one program did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moved {
    /// Bytes/s of the machine's time.
    pub(crate) read_bytes_s: f64,
    /// Bytes/s of the machine's time.
    pub(crate) written_bytes_s: f64,
    /// Of each thread that was there all the time, read and written.
    pub(crate) threads_bytes_s: Vec<f64>,
    /// Computing of a thread between two accesses in the mean, machine ns.
    pub(crate) think_ns: f64,
    /// An access of a thread in the mean, machine ns.
    pub(crate) access_ns: f64,
    /// Wall time per time of the machine; more than its dilation where the host could not keep up.
    pub(crate) dilation: f64,
    /// Bytes that persistent media of the machine wrote, per byte that the program read or wrote.
    pub(crate) medium_written: f64,
}

impl Moved {
    pub(crate) fn bytes_s(&self) -> f64 {
        self.read_bytes_s + self.written_bytes_s
    }

    /// The slowest of its threads beside the fastest; 1 of none.
    pub(crate) fn fairness(&self) -> f64 {
        let least = self
            .threads_bytes_s
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min);
        let most = self.threads_bytes_s.iter().copied().fold(0.0, f64::max);
        if most > 0.0 { least / most } else { 1.0 }
    }
}

/// A look at one volume.
struct Look {
    read_bytes: u64,
    written_bytes: u64,
    medium_written_bytes: u64,
    threads: Vec<ThreadReport>,
    machine_ns: u64,
    at: Instant,
}

impl<'a> EmulatedRun<'a> {
    /// Makes the volumes of one machine, with timing off.
    pub(crate) fn set_up(
        options: &EmulatedOptions<'a>,
        machine: &Machine,
        setups: &[VolumeSetup],
    ) -> Result<EmulatedRun<'a>> {
        let name = format!("bench {}", std::process::id());
        EmulatedRun::make(options, machine, setups, Some(name))
    }

    /// The same, each volume with a machine of its own.
    pub(crate) fn set_up_apart(
        options: &EmulatedOptions<'a>,
        machine: &Machine,
        setups: &[VolumeSetup],
    ) -> Result<EmulatedRun<'a>> {
        EmulatedRun::make(options, machine, setups, None)
    }

    fn make(
        options: &EmulatedOptions<'a>,
        machine: &Machine,
        setups: &[VolumeSetup],
        share_machine: Option<String>,
    ) -> Result<EmulatedRun<'a>> {
        let memory = &options.memory_directory;
        let backstage = memory_directory(memory)?;
        let library = loadable(&options.preload_library, backstage.path())?;
        let nodes: Vec<u16> = machine.nodes.iter().map(|node| node.id.0).collect();
        let make = |setup: &VolumeSetup| {
            let attach = AttachOptions {
                machine: Some(machine.clone()),
                memory: setup.memory,
                share_machine: share_machine.clone(),
                allocation: Some(setup.allocation),
                ..AttachOptions::default()
            };
            ScratchVolume::make_with(memory, &nodes, setup.pool_bytes, &attach)
        };
        let volumes = setups
            .iter()
            .map(make)
            .collect::<egeria_scratch::Result<Vec<_>>>()?;
        let run = EmulatedRun {
            volumes,
            library,
            backstage,
            cancel: options.watch.cancel,
        };
        run.set_timing(false);
        Ok(run)
    }

    pub(crate) fn volume(&self, index: usize) -> &Volume {
        self.volumes[index].volume()
    }

    pub(crate) fn shared(&self, index: usize) -> &Arc<Volume> {
        self.volumes[index].shared()
    }

    pub(crate) fn directory(&self, index: usize) -> &Path {
        self.volumes[index].mount_directory()
    }

    pub(crate) fn volumes(&self) -> impl Iterator<Item = &ScratchVolume> {
        self.volumes.iter()
    }

    /// For what belongs to none of the volumes.
    pub(crate) fn backstage(&self) -> &Path {
        self.backstage.path()
    }

    /// Runs programs at once to their end; what each said.
    pub(crate) fn call(&self, calls: &[Call], limit: Duration) -> Result<Vec<String>> {
        script::run(calls, &self.library, self.backstage(), limit, self.cancel)
    }

    pub(crate) fn set_timing(&self, on: bool) {
        for volume in &self.volumes {
            volume.volume().set_timing(on);
        }
    }

    /// Runs programs to their end with timing off, one after the other.
    pub(crate) fn prepare(&self, calls: Vec<Call>) -> Result<()> {
        for call in calls {
            self.call(&[call], LIMIT)?;
        }
        Ok(())
    }

    /// Runs one program on each volume, as many threads of each, and looks at them once all are at work. They are ended
    /// afterwards.
    pub(crate) fn measure(&self, programs: &[(Call, usize)], pace: RunPace) -> Result<Vec<Moved>> {
        self.wait_for_the_dead()?;
        self.set_timing(true);
        let enough = AtomicBool::new(false);
        let calls: Vec<Call> = programs.iter().map(|(call, _)| call.clone()).collect();
        let measured = std::thread::scope(|scope| {
            let run = || {
                script::run(
                    &calls,
                    &self.library,
                    self.backstage.path(),
                    LIMIT,
                    Some(&enough),
                )
            };
            let running = scope.spawn(run);
            let looked = self.look_at(programs, pace, || running.is_finished());
            enough.store(true, Ordering::Relaxed);
            let ended = running.join();
            match (looked, ended) {
                (Ok(looks), _) => Ok(looks),
                // Why it could not be looked at: it ended before.
                (Err(_), Ok(Err(error))) if !matches!(error, Error::Interrupted) => Err(error),
                (Err(error), _) => Err(error),
            }
        });
        self.set_timing(false);
        measured
    }

    /// Until nothing is left in the volumes of programs that prepared data: emulated threads begin on the node with the fewest.
    fn wait_for_the_dead(&self) -> Result<()> {
        let own = std::process::id();
        let until = Instant::now() + BEGIN_LIMIT;
        let is_left = |volume: &ScratchVolume| {
            let threads = volume.volume().threads(0);
            threads.iter().any(|thread| thread.process_id != own)
        };
        while self.volumes.iter().any(is_left) && Instant::now() < until {
            self.pause(LOOK)?;
        }
        Ok(())
    }

    fn look_at(
        &self,
        programs: &[(Call, usize)],
        pace: RunPace,
        has_ended: impl Fn() -> bool,
    ) -> Result<Vec<Moved>> {
        let begin = Instant::now();
        let before: Vec<Look> = self.looks(programs.len());
        let at_work = || {
            let looks = self.looks(programs.len());
            looks
                .iter()
                .zip(&before)
                .zip(programs)
                .all(|((look, before), (_, threads))| {
                    let active = look.threads.iter().filter(|thread| bytes_of(thread) > 0);
                    look.moved() > before.moved() && active.count() >= *threads
                })
        };
        while !at_work() {
            self.pause(LOOK)?;
            if has_ended() || begin.elapsed() > BEGIN_LIMIT {
                return Err(Error::failed("a program did not begin; see its messages"));
            }
        }
        self.pause(pace.warm_up)?;
        let first = self.looks(programs.len());
        self.pause(pace.measured)?;
        let last = self.looks(programs.len());
        if has_ended() {
            return Err(Error::failed("a program ended before it was measured"));
        }
        Ok(first
            .iter()
            .zip(&last)
            .map(|(first, last)| last.since(first))
            .collect())
    }

    fn looks(&self, count: usize) -> Vec<Look> {
        let volumes = self.volumes[..count].iter().map(ScratchVolume::volume);
        volumes.map(Look::at).collect()
    }

    fn pause(&self, time: Duration) -> Result<()> {
        std::thread::sleep(time);
        check_cancel(self.cancel)
    }
}

fn bytes_of(thread: &ThreadReport) -> u64 {
    thread.read_bytes.iter().chain(&thread.written_bytes).sum()
}

impl Look {
    fn at(volume: &Volume) -> Look {
        let counters = volume.counters();
        Look {
            read_bytes: counters.read_bytes.iter().sum(),
            written_bytes: counters.written_bytes.iter().sum(),
            medium_written_bytes: volume
                .emulation()
                .medium_written_bytes(MemoryKind::Persistent),
            threads: volume.threads(0),
            machine_ns: volume.emulation().machine_now_ns(),
            at: Instant::now(),
        }
    }

    fn moved(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }

    fn since(&self, first: &Look) -> Moved {
        let machine_ns = self.machine_ns.saturating_sub(first.machine_ns).max(1) as f64;
        let rate = |bytes: u64| bytes as f64 / machine_ns * 1e9;
        let known = |thread: &&ThreadReport, other: &ThreadReport| {
            (thread.slot, thread.incarnation) == (other.slot, other.incarnation)
        };
        let pairs = first.threads.iter().filter_map(|before| {
            let after = self.threads.iter().find(|after| known(after, before))?;
            Some((before, after))
        });
        let pairs: Vec<_> = pairs.filter(|(_, after)| bytes_of(after) > 0).collect();
        let sum = |of: fn(&ThreadReport) -> u64| -> f64 {
            let since = |(before, after): &(&ThreadReport, &ThreadReport)| {
                of(after).saturating_sub(of(before)) as f64
            };
            pairs.iter().map(since).sum()
        };
        let accesses = sum(|thread| thread.emulated_accesses);
        let medium_written = self.medium_written_bytes - first.medium_written_bytes;
        let moved = |(before, after): &(&ThreadReport, &ThreadReport)| {
            rate(bytes_of(after).saturating_sub(bytes_of(before)))
        };
        let of_threads: Vec<f64> = pairs.iter().map(moved).filter(|rate| *rate > 0.0).collect();
        Moved {
            read_bytes_s: rate(self.read_bytes - first.read_bytes),
            written_bytes_s: rate(self.written_bytes - first.written_bytes),
            threads_bytes_s: of_threads,
            think_ns: sum(|thread| thread.emulated_computed_ns) / accesses.max(1.0),
            access_ns: (sum(|thread| thread.emulated_busy_ns)
                - sum(|thread| thread.emulated_computed_ns))
                / accesses.max(1.0),
            dilation: (self.at - first.at).as_nanos() as f64 / machine_ns,
            medium_written: medium_written as f64 / (self.moved() - first.moved()).max(1) as f64,
        }
    }
}
