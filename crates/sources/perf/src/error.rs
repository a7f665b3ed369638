//! Why nothing can be sampled.

use std::io;

use rustix::io::Errno;

/// One line with cause and remedy.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// No hardware.
    #[error(
        "no PMU here gives the addresses of accesses (PEBS, IBS), as in most virtual machines; run on the hardware itself"
    )]
    NoPmu,
    /// No hardware.
    #[error(
        "no PMU here counts the traffic of memories (uncore_imc, amd_umc, cxl_pmu), as in most virtual machines; run on the hardware itself"
    )]
    NoMemoryPmu,
    /// No hardware.
    #[error(
        "no PMU here counts instructions, as in most virtual machines; run on the hardware itself"
    )]
    NoInstructions,
    /// No rights.
    #[error(
        "this user may neither sample nor count on all CPUs (kernel.perf_event_paranoid is {0}); run as root, with CAP_PERFMON, or sysctl -w kernel.perf_event_paranoid=0"
    )]
    NotAllowed(String),
    /// The PMU is there and does not take the event.
    #[error("the kernel does not sample {event}: {error}; use page tables or page faults instead")]
    Event {
        event: String,
        /// The kernel's answer.
        error: io::Error,
    },
    /// A ring or a descriptor is not to be had.
    #[error(
        "no room for samples of {cpus} CPUs: {error}; raise the limit of open files (ulimit -n) or kernel.perf_event_mlock_kb"
    )]
    Room {
        /// The number needed.
        cpus: usize,
        /// The kernel's answer.
        error: io::Error,
    },
    /// The kernel does not list its CPUs.
    #[error("/sys/devices/system/cpu/online cannot be read: {0}; mount sysfs")]
    Cpus(io::Error),
}

/// With why nothing can be sampled.
pub type Result<T> = std::result::Result<T, PerfError>;

impl PerfError {
    pub(crate) fn of_open(event: &str, cpus: usize, errno: Errno) -> PerfError {
        match errno {
            Errno::ACCESS | Errno::PERM => {
                let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
                let level = level.map_or("unknown".to_owned(), |level| level.trim().to_owned());
                PerfError::NotAllowed(level)
            }
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => PerfError::Room {
                cpus,
                error: errno.into(),
            },
            _ => PerfError::Event {
                event: event.to_owned(),
                error: errno.into(),
            },
        }
    }

    /// Whether more rights would help.
    pub fn is_of_rights(&self) -> bool {
        matches!(self, PerfError::NotAllowed(_))
    }
}
