//! Plain facts about a short stretch of time: what policies read.
//!
//! [`Facts`] are all facts of one window. Its [`Window`] says, for every thread under the steward, how many bytes it
//! read and wrote on which node, how long it ran, where it runs and where it may run ([`ThreadFacts`]). For every node
//! it says what went through its memory and CPUs ([`NodeFacts`]). There are also accesses to memory per process
//! ([`AccessWindow`]), requests at persistent memory ([`MediumFacts`]), and where files lie and are read from
//! ([`FileFacts`]), and what processes did that are gone too soon to be looked at one by one ([`KindFacts`]). A [`FactSource`] provides them: live sessions, /proc, recordings, the simulator. Nothing here
//! decides, does I/O, or holds what a policy remembers.
//!
//! Facts read from a file or a socket are not trusted: call [`Facts::validate`] first, then every vector
//! fits the machine, every node exists and no sum can overflow.
//!
//! Units: bytes, ns of the machine's own clock (on an emulated machine: machine time), bytes/s.

#![forbid(unsafe_code)]

mod accesses;
mod cpu_set;
mod credited;
mod error;
mod facts;
mod file;
mod kind;
mod medium;
mod node;
mod source;
mod thread;
mod traffic;
mod validate;
mod window;

pub use accesses::{
    AccessError, AccessWindow, MAX_REGIONS, MigrationCost, NodeAccesses, ProcessAccesses,
    ProcessKey, RegionAccesses, UNSHARED_SHARE,
};
pub use cpu_set::CpuSet;
pub use error::{FactsError, WindowError};
pub use facts::Facts;
pub use file::{FileFacts, FileKey, FileUse};
pub use kind::{KindFacts, MAX_KINDS};
pub use medium::{Measured, MediumFacts, Mix};
pub use node::NodeFacts;
pub use source::FactSource;
pub use thread::{MAX_NAME_CHARS, ThreadFacts, ThreadKey, printable_name, printable_path};
pub use traffic::{MemoryTraffic, TrafficOrigin};
pub use validate::{MAX_COUNTER, MAX_DURATION_NS, MAX_FILE_FACTS, MAX_FILES, MAX_THREADS};
pub use window::Window;
