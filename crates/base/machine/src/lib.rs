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

mod access;
mod check;
pub mod costs;
mod cpu_list;
pub mod emulated;
mod error;
mod facts;
pub mod fair;
pub mod file;
mod ids;
mod input;
mod interconnect;
mod links;
mod medium;
mod memory;
mod model;
mod names;
mod picture;
mod profile;
mod sources;
mod sysfs;
mod table;
mod units;

pub use access::AccessKind;
pub use cpu_list::{format_cpu_list, parse_cpu_list};
pub use emulated::{EmulatedMachine, EmulatedNode};
pub use error::MachineError;
pub use facts::{Fact, FactValue};
pub use ids::{CpuId, MAX_CPUS, MAX_NODES, NodeId};
pub use input::read_text;
pub use interconnect::{Interconnect, Link, Route};
pub use links::{Lane, Paths};
pub use medium::{Medium, Side};
pub use memory::{
    Cache, Controller, Hardware, Interleave, LINE_BYTES, MAX_MEMORIES, Memory, MemoryKind,
};
pub use model::{
    AccessClass, LOCAL_DISTANCE, Machine, Node, PersistentRegion, PoolBandwidth, RegionKind, Source,
};
pub use names::{NamedPath, exact_path, printable, printable_lines};
pub use table::Table;
pub use units::{format_bandwidth, format_bytes};
