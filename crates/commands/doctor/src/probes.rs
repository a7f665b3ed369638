//! What only the running kernel can tell, by being asked for it.

use std::fs::File;
use std::io;
use std::path::Path;

use egeria_machine::Machine;
use egeria_pages::accesses::Referenced;
use egeria_pages::accesses::damon::{self, Unusable};
use egeria_pages::probe;
use egeria_perf::{Event, EventSampler, Instructions, MemoryCounters, MemoryEvents, PerfError};

/// Answers; an error is its number.
#[derive(Clone, Debug)]
pub struct Probes {
    pub is_root: bool,
    /// `/dev/fuse` can be opened.
    pub fuse: Result<(), i32>,
    /// `fusermount3` is in the search path.
    pub has_fusermount: bool,
    /// Counting cached pages (`cachestat`).
    pub cachestat: Result<(), i32>,
    /// Asking for the node of a page (`move_pages`).
    pub page_nodes: Result<(), i32>,
    /// Choosing the node of new pages (`set_mempolicy`).
    pub memory_policy: Result<(), i32>,
    /// Finding which memory is used (`/proc/PID/clear_refs`).
    pub accesses: Result<(), i32>,
    /// Having DAMON find which memory is used; nothing is set up for the answer.
    pub damon: Result<(), Unusable>,
    /// Sampling accesses by the processor's PMU.
    pub pmu: Sampling,
    pub page_faults: Sampling,
    /// Counting the instructions of threads.
    pub instructions: Sampling,
    /// Counting the traffic of memories: what is counted.
    pub traffic: Traffic,
    /// Choosing CPUs (`sched_setaffinity`).
    pub affinity: Result<(), i32>,
    /// Loading programs into the kernel (`bpf`).
    pub bpf: Result<(), i32>,
    /// What `/dev/shm` has; `None` when it is not tmpfs or may not be written.
    pub shared_memory: Option<SharedMemory>,
}

/// Whether events can be sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sampling {
    Works,
    /// With more rights.
    NotAllowed,
    Absent,
}

impl Sampling {
    fn of(asked: Result<(), PerfError>) -> Sampling {
        match asked {
            Ok(()) => Sampling::Works,
            Err(error) if error.is_of_rights() => Sampling::NotAllowed,
            Err(_) => Sampling::Absent,
        }
    }
}

/// Whether hardware counts the traffic of memories of all programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Traffic {
    /// What is counted.
    Works(String),
    /// With more rights.
    NotAllowed,
    /// Why it is not.
    Absent(String),
}

impl Traffic {
    fn take(machine: Option<&Machine>) -> Traffic {
        let none = || Traffic::Absent(PerfError::NoMemoryPmu.to_string());
        let Some(machine) = machine else {
            return none();
        };
        let found = MemoryEvents::find(Path::new("/"), machine);
        match MemoryCounters::begin(&found) {
            Ok(_) => Traffic::Works(found.description()),
            Err(error) if error.is_of_rights() => Traffic::NotAllowed,
            Err(PerfError::NoMemoryPmu) => match found.left_out.first() {
                Some(line) => Traffic::Absent(line.clone()),
                None => none(),
            },
            Err(error) => Traffic::Absent(error.to_string()),
        }
    }
}

/// The file system that sessions are in.
#[derive(Clone, Copy, Debug)]
pub struct SharedMemory {
    pub bytes: u64,
    pub free_bytes: u64,
}

impl Probes {
    /// Asks. Policies and affinity are asked for on a thread that ends, and to be what they are.
    pub fn take() -> Probes {
        let number = |error: io::Error| error.raw_os_error().unwrap_or(0);
        let fuse = File::options().read(true).write(true).open("/dev/fuse");
        Probes {
            is_root: rustix::process::geteuid().is_root(),
            fuse: fuse.map(drop).map_err(number),
            has_fusermount: has_program("fusermount3"),
            cachestat: probe::cachestat().map_err(number),
            page_nodes: probe::page_nodes().map_err(number),
            memory_policy: probe::memory_policy().map_err(number),
            accesses: Referenced::check().map_err(number),
            damon: damon::check(Path::new("/")),
            pmu: Sampling::of(EventSampler::check(&Event::of_pmu(Path::new("/")))),
            page_faults: Sampling::of(EventSampler::check(&[Event::page_faults()])),
            instructions: Sampling::of(Instructions::check()),
            traffic: Traffic::take(Machine::detect().ok().as_ref()),
            affinity: probe::affinity().map_err(number),
            bpf: egeria_bpf::check().map_err(number),
            shared_memory: shared_memory(Path::new("/dev/shm")),
        }
    }
}

fn has_program(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<_> = std::env::split_paths(&paths).collect();
    places.iter().any(|place| {
        let access = rustix::fs::access(place.join(name), rustix::fs::Access::EXEC_OK);
        access.is_ok()
    })
}

fn shared_memory(place: &Path) -> Option<SharedMemory> {
    let kind = rustix::fs::statfs(place).ok()?.f_type as i64;
    let writable = rustix::fs::access(place, rustix::fs::Access::WRITE_OK);
    if kind != libc::TMPFS_MAGIC || writable.is_err() {
        return None;
    }
    let space = rustix::fs::statvfs(place).ok()?;
    Some(SharedMemory {
        bytes: space.f_blocks.saturating_mul(space.f_frsize),
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
    })
}
