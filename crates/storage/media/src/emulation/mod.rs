//! Emulated timing: accesses take as long as on the emulated machine.
//!
//! The costs of accesses are defined in [`egeria_machine::costs`]. Here a thread sleeps for this time, by clocks in
//! memory that all processes and volumes of the emulated machine share. Machine time is dilated: everything takes
//! `dilation` times as long on the host.
//!
//! ```text
//!  host time ──▶
//!  thread   │ computes (CPU time c) │ sleeps to an absolute deadline ………………………………………│ next
//!  its core │◀───── c · dilation ─────▶◀── queue ──▶◀── service ──▶◀── latency ──▶│
//!  medium                                           ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
//! ```
//!
//! 1. What the thread computed since its last access is stretched, on a virtual core of its
//!    node; when all cores are taken, it waits for the one that is free first.
//! 2. The access waits for the memory and the links on the way (each has one service clock), occupies them for its
//!    service time, then takes its latency. These times depend on other threads that access them now:
//!    their number (the profile's curve), reading or writing, and how many of their lines
//!    are in the queue of the memory's controller ([`crowd`]).
//!    Bytes that a read finds in the last-level cache of the thread's node, where the node
//!    declares one, come from there instead and leave the medium alone.
//! 3. The thread sleeps until then. A late wake-up is not charged: the next access begins
//!    where this one should have ended. Sleeping or waiting for others in between is charged. It is
//!    told apart from the host's scheduling by the thread's voluntary context switches.
//!
//! If a thread gets no CPU of the host for so long that it lags far behind, the machine's clock stands still for all
//! threads until it has caught up. So a busy host slows down the machine as a whole; rates by the machine's clock are
//! not affected. The machine does not lose capacity for single threads.
//!
//! No resource is ever held: every clock is a point in time that passes by itself. Accessors are counted until the
//! time at which their access ends. So a process killed anywhere disturbs others no longer than its last access.
//!
//! Known gaps: a thread that never accesses a file occupies no virtual core. Of long computing only 0.1 s are
//! stretched. A program's own sleeps are not dilated. Cold caches after a sleep count as computing (0.2 us per access
//! here). Waiting for a lock and then for a CPU of the host counts as waiting for the lock.

mod access;
mod cache;
mod charge;
mod clock;
mod crowd;
mod delegated;
mod flow;
mod id_bitmap;
mod machine;
mod place;
mod self_test;
mod sharing;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_caches;
#[cfg(test)]
mod tests_of_cores;
#[cfg(test)]
mod tests_of_hardware;
#[cfg(test)]
mod tests_of_placing;
mod touch;

pub use delegated::Handover;
pub use egeria_machine::AccessKind;
pub use flow::{Carried, Flow};
pub use machine::Emulation;
pub use self_test::{Row, SelfTest, self_test};
pub use sharing::{Readers, SharingRow, sharing_test};
pub use state::{
    EmulatedThread, EmulationError, EmulationState, MAX_EMULATED_CORES, MAX_EMULATED_MEMORIES,
    MAX_EMULATED_NODES,
};
