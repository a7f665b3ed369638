//! Actuators: what decisions do to running threads and their memory.
//!
//! * [`ThreadAffinity`] migrates threads by narrowing the CPUs they may use.
//! * [`MemoryMigration`] has the memory of processes follow their threads.
//! * [`AdmissionLimits`] limits how many threads access the memory of a node at once.
//! * [`AccessDelegation`] says which accesses of striped files are delegated.
//! * [`FileRelocation`] moves data of files to other nodes: of a volume, or what the page cache has of any.
//! * [`VolumeActuators`] does the last three on all volumes that a steward of the machine has joined.
//! * [`BandwidthAllocation`] bounds programs that use memory without asking (MBA).
//! * [`Journal`] is written before a mask is applied: after a kill, the next start undoes what it lists.

#![forbid(unsafe_code)]

mod access_delegation;
mod admission_limits;
mod departures;
mod gathering;
mod joined_volumes;
mod journal;
mod mba;
mod memory_migration;
mod movable;
mod opening;
mod page_cache;
mod relocations;
mod restore;
mod thread_affinity;
mod volume_files;

pub use access_delegation::AccessDelegation;
pub use admission_limits::AdmissionLimits;
pub use departures::Departures;
pub use gathering::{GatherProgress, Stuck};
pub use joined_volumes::{JoinedVolumes, VolumeActuators};
pub use journal::{Journal, JournalError};
pub use mba::BandwidthAllocation;
pub use memory_migration::MemoryMigration;
pub use relocations::{FileRelocation, Relocations};
pub use thread_affinity::ThreadAffinity;
