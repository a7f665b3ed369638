//! The machine: its description.
//!
//! A [`Machine`] is its nodes (CPUs, memory, persistent memory, bandwidth) and the distances
//! between them. It comes from one of three places, see [`Machine::resolve`]:
//!
//! * **sysfs** below a replaceable root ([`Machine::detect`], [`Machine::from_sysfs`]);
//! * a **TOML machine file** ([`Machine::from_file`]; the format is described in [`mod@file`]);
//! * a named **profile** that ships with Egeria ([`Machine::profile`]).
//!
//! A file or profile may declare *emulated* nodes ([`EmulatedMachine`]). The media layer then charges every access the
//! time that [`EmulatedNode`] says it takes. That arithmetic has one definition, in [`emulated`], and all code that
//! needs it calls it.
//!
//! Nodes of a machine that is only modelled may say what memories they have ([`Hardware`]).
//!
//! It may also say what lies between the nodes ([`Interconnect`]): links, and the ways over them. What
//! flows get that share them is computed in [`fair`].
//!
//! Nothing that is read is trusted: sizes are bounded, and nonsense becomes a [`MachineError`],
//! one line that names the file or key and the hint.

#![forbid(unsafe_code)]

mod check;
pub mod costs;
mod cpu_list;
pub mod curves;
mod error;
pub mod fair;
mod file_medium;
mod groups;
mod links;
mod names;
mod picture;
pub mod resctrl;
mod sources;
mod table;
mod types;
mod units;
mod weights;

pub use cpu_list::{format_cpu_list, parse_cpu_list};
pub use error::MachineError;
pub use file_medium::NEARLY_ALL;
pub use groups::{Group, GroupSource, Groups};
pub use links::{Lane, Paths};
pub use names::{NamedPath, exact_path, printable, printable_lines};
pub use sources::CALIBRATED;
pub use sources::facts::{Fact, FactValue};
pub use sources::file;
pub use sources::input::read_text;
pub use table::Table;
pub use types::access::AccessKind;
pub use types::emulated;
pub use types::emulated::{EmulatedMachine, EmulatedNode};
pub use types::ids::{CpuId, MAX_CPUS, MAX_NODES, NodeId};
pub use types::interconnect::{Interconnect, Link, Route};
pub use types::medium::{Medium, Side};
pub use types::memory::{
    Cache, Controller, Hardware, Interleave, LINE_BYTES, MAX_MEMORIES, Memory, MemoryKind,
};
pub use types::model::{
    AccessClass, LOCAL_DISTANCE, Machine, Node, PersistentRegion, PoolBandwidth, RegionKind, Source,
};
pub use units::{format_bandwidth, format_bytes};
pub use weights::{KERNEL_WEIGHTS, KernelWeights, turns, weights};
