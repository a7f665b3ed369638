//! Sampling on all CPUs.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use egeria_machine::parse_cpu_list;
use perf_event_open_sys::bindings::{self, perf_event_attr};
use rustix::io::Errno;

use crate::error::{PerfError, Result};
use crate::event::{Event, Kind, Selection};
use crate::period::Period;
use crate::record::{self, Access, PERIOD, PHYSICAL, SAMPLE_TYPE, Tally};
use crate::ring::Ring;
use crate::taken::{AccessEvents, Taken};

/// Memory of all rings together, at most; a CPU has at least a page.
const MAX_RING_BYTES: usize = 16 << 20;
/// Pages of a CPU's ring, at most.
const MAX_RING_PAGES: usize = 16;
/// Samples of all CPUs in a window, enough for shares of a percent.
const WANTED_SAMPLES: u64 = 20_000;
/// Samples of one CPU per second: each takes a microsecond or two.
const MAX_SAMPLES_S: u64 = 1000;
/// Bytes of a sample with all that is asked for.
const SAMPLE_BYTES: usize = 64;
/// AMD counts in steps of this size.
const PERIOD_STEP: u64 = 16;

/// Samples the accesses of all processes, on all CPUs. Between two looks the kernel writes into rings of fixed size;
/// samples that find no room are counted. The weight of a sample follows from the number of events.
pub struct EventSampler {
    kind: Kind,
    rings: Vec<CpuRing>,
    period: Period,
    /// Of one CPU in a window.
    wanted: u64,
    began: Instant,
    buffer: Vec<u8>,
}

/// The ring of one CPU, and what makes the PMU fill it.
struct CpuRing {
    ring: Ring,
    _leader: Option<OwnedFd>,
}

impl EventSampler {
    /// Begins to sample events of one kind, for windows of this length.
    ///
    /// # Errors
    /// Without rights, when the kernel does not know the event, or without room.
    pub fn begin(events: &[Event], window: Duration) -> Result<EventSampler> {
        let kind = events.first().ok_or(PerfError::NoPmu)?.kind();
        let online = online(Path::new("/"))?;
        let pages = ring_pages(online.len());
        let period = first_period(kind);
        let mut rings = Vec::with_capacity(online.len());
        for event in events {
            let has = |cpu: &&u32| event.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
            for cpu in online.iter().filter(has) {
                match open(event, *cpu, period, pages) {
                    Ok(ring) => rings.push(ring),
                    // It went offline in the meantime.
                    Err(Errno::NODEV) if !rings.is_empty() => {}
                    Err(errno) => {
                        return Err(PerfError::of_open(event.name(), online.len(), errno));
                    }
                }
            }
        }
        Ok(EventSampler {
            kind,
            wanted: wanted(online.len(), pages, window),
            rings,
            period,
            began: Instant::now(),
            buffer: Vec::new(),
        })
    }

    /// Whether this user may sample, and the kernel supports it.
    ///
    /// # Errors
    /// Those of [`EventSampler::begin`].
    pub fn check(events: &[Event]) -> Result<()> {
        let event = events.first().ok_or(PerfError::NoPmu)?;
        let online = online(Path::new("/"))?;
        let has = |cpu: &&u32| event.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
        let cpu = online.iter().find(has).ok_or(PerfError::NoPmu)?;
        let opened = open(event, *cpu, first_period(event.kind()), 1);
        opened
            .map(drop)
            .map_err(|errno| PerfError::of_open(event.name(), 1, errno))
    }

    /// How many events a sample stands for now.
    pub fn period(&self) -> u64 {
        self.period.now()
    }

    /// What was in the ring of each CPU since the last time, as [`crate::RecordedRings`] reads it again.
    pub fn take_raw(&mut self) -> Vec<Vec<u8>> {
        let rings = self.rings.iter_mut();
        let raw = rings.map(|cpu| {
            let mut bytes = Vec::new();
            cpu.ring.drain(&mut bytes);
            bytes
        });
        raw.collect()
    }

    fn adapt(&mut self, busiest: u64) {
        if self.period.adapt(busiest, self.wanted) {
            let period = self.period.now();
            for cpu in &self.rings {
                // A CPU that is offline keeps the old one; each sample says what it stands for.
                let _ = set_period(cpu.ring.event(), period);
            }
        }
    }
}

impl AccessEvents for EventSampler {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn take(&mut self) -> Taken {
        let took = self.began.elapsed();
        self.began = Instant::now();
        // Samples of software do not say what they stand for: all of a window stand for the same.
        let unsaid = match self.kind {
            Kind::Loads | Kind::Operations => 1,
            Kind::PageFaults => self.period.now(),
        };
        let (mut accesses, mut sum, mut busiest) = (Vec::new(), Tally::default(), 0);
        for cpu in &mut self.rings {
            self.buffer.clear();
            let makes_sense = cpu.ring.drain(&mut self.buffer);
            let before = accesses.len();
            let mut tally = record::decode(&self.buffer, |access| {
                accesses.push(Access {
                    weight: access.weight.saturating_mul(unsaid),
                    ..access
                });
            });
            tally.damaged += u64::from(!makes_sense);
            let samples = (accesses.len() - before) as u64;
            let is_full = self.buffer.len() + SAMPLE_BYTES >= cpu.ring.data_bytes();
            // The kernel tells what was lost only with the next sample that it has room for.
            let samples = if is_full { samples * 4 } else { samples };
            busiest = busiest.max(samples.saturating_add(tally.lost));
            sum.add(tally);
        }
        self.adapt(busiest);
        Taken {
            took,
            accesses,
            tally: sum,
        }
    }
}

fn online(root: &Path) -> Result<Vec<u32>> {
    let text = std::fs::read_to_string(root.join("sys/devices/system/cpu/online"));
    let text = text.map_err(PerfError::Cpus)?;
    let cpus = parse_cpu_list(text.trim())
        .map_err(|error| PerfError::Cpus(std::io::Error::other(error.to_string())))?;
    Ok(cpus.iter().map(|cpu| u32::from(cpu.0)).collect())
}

/// A power of two.
fn ring_pages(cpus: usize) -> usize {
    let page_bytes = rustix::param::page_size();
    let pages = MAX_RING_BYTES / page_bytes / cpus.max(1);
    match pages.clamp(1, MAX_RING_PAGES) {
        pages if pages.is_power_of_two() => pages,
        pages => pages.next_power_of_two() / 2,
    }
}

/// Samples of a CPU in a window: as many as are useful, half as many as have room, and no more than cost little.
fn wanted(cpus: usize, pages: usize, window: Duration) -> u64 {
    let room = (pages * rustix::param::page_size() / SAMPLE_BYTES / 2) as u64;
    let cheap = MAX_SAMPLES_S as f64 * window.as_secs_f64();
    let useful = WANTED_SAMPLES / cpus.max(1) as u64;
    useful.min(room).min(cheap as u64).max(16)
}

/// What memory-bound programs give a thousand samples a second with; faults are rare enough to begin with each.
fn first_period(kind: Kind) -> Period {
    match kind {
        Kind::Loads => Period::new(20_000, PERIOD_STEP),
        Kind::Operations => Period::new(1 << 20, PERIOD_STEP),
        Kind::PageFaults => Period::new(1, 1),
    }
}

fn open(
    event: &Event,
    cpu: u32,
    period: Period,
    pages: usize,
) -> std::result::Result<CpuRing, Errno> {
    let leader = match event.leader {
        Some(selection) => Some(open_event(&mut attributes(selection), Of::Cpu(cpu), None)?),
        None => None,
    };
    let mut attributes = attributes(event.selection);
    attributes.__bindgen_anon_1.sample_period = period.now();
    let wished = match event.kind {
        Kind::Loads | Kind::Operations => SAMPLE_TYPE | PERIOD,
        Kind::PageFaults => SAMPLE_TYPE,
    };
    // A page that faults has no place in memory yet.
    attributes.sample_type = match event.kind {
        Kind::Loads | Kind::Operations => wished | PHYSICAL,
        Kind::PageFaults => wished,
    };
    attributes.set_precise_ip(event.precise);
    // What guests access is at addresses of theirs; IBS cannot leave it out.
    attributes.set_exclude_guest(u64::from(event.precise > 0));
    // The clock that can be read in any interrupt.
    attributes.set_use_clockid(1);
    attributes.clockid = CLOCK_MONOTONIC;
    let opened = open_event(&mut attributes, Of::Cpu(cpu), leader.as_ref());
    let opened = opened.or_else(|_| {
        // Without CAP_PERFMON some kernels keep physical addresses to themselves.
        attributes.sample_type = wished;
        open_event(&mut attributes, Of::Cpu(cpu), leader.as_ref())
    });
    Ok(CpuRing {
        ring: Ring::map(opened?, pages)?,
        _leader: leader,
    })
}

const CLOCK_MONOTONIC: i32 = 1;

pub(crate) fn attributes(selection: Selection) -> perf_event_attr {
    let mut attributes = perf_event_attr::default();
    attributes.type_ = selection.pmu;
    attributes.size = size_of::<perf_event_attr>() as u32;
    attributes.config = selection.words.config;
    attributes.__bindgen_anon_3.config1 = selection.words.config1;
    attributes.__bindgen_anon_4.config2 = selection.words.config2;
    attributes
}

/// Whose events are seen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// All processes, on one CPU.
    Cpu(u32),
    /// One thread, on all CPUs.
    Thread(u32),
}

/// Opens an event, in the group of a leader if there is one.
pub(crate) fn open_event(
    attributes: &mut perf_event_attr,
    of: Of,
    leader: Option<&OwnedFd>,
) -> std::result::Result<OwnedFd, Errno> {
    let number = |number: u32| i32::try_from(number).map_err(|_| Errno::INVAL);
    let (process, cpu) = match of {
        Of::Cpu(cpu) => (-1, number(cpu)?),
        Of::Thread(thread) => (number(thread)?, -1),
    };
    let leader = leader.map_or(-1, AsRawFd::as_raw_fd);
    let flags = u64::from(bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the structure lives until the call is over and says how long it is; the kernel opened the descriptor for
    // us.
    unsafe {
        let opened = perf_event_open_sys::perf_event_open(attributes, process, cpu, leader, flags);
        match opened {
            0.. => Ok(OwnedFd::from_raw_fd(opened)),
            _ => Err(last_errno()),
        }
    }
}

fn set_period(event: &OwnedFd, period: u64) -> std::result::Result<(), Errno> {
    // The library's declaration has the number itself here; the kernel reads it at an address.
    let address = &raw const period as u64;
    // SAFETY: the number is there until the call is over.
    let answer = unsafe { perf_event_open_sys::ioctls::PERIOD(event.as_raw_fd(), address) };
    match answer {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
