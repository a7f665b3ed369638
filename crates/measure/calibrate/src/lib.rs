//! The `calibrate` room: what the memory of this machine gives its CPUs, measured; or that of an emulated machine.
//!
//! [`measure`] takes, for every node with CPUs and every memory (the DRAM of each node, and what is behind each
//! [`PoolRequest`]):
//!
//! ```text
//!   latency     a chain of loads, each of which says where the next one goes, over a random cycle of lines;
//!               a non-temporal store of a line, and a fence
//!   bandwidth   1, 2, 4 … all CPUs of the node at once, each through a part of its own: loads, stores,
//!               non-temporal stores, and half loads half such stores
//!   small       accesses at random places of which none waits for another
//!   waiting     a load while others are at another memory of the node
//!   ways        up to half of the cores of two nodes read memory of other nodes at once, for all pairs of such flows:
//!               what shares a wire gets less than alone ([`Flows`])
//! ```
//!
//! Each figure is the median of some rounds; a round takes every figure once, so that what disturbs the machine for a
//! while disturbs all alike. On this machine threads stand on one CPU each, memory is bound to its node, and the buffers
//! are several times as large as the last-level cache. [`Calibration::machine`] turns the figures into a machine
//! description, and [`differences`] compares that with the file of an emulated machine.
//!
//! The machine may be busy with other things: the figures are what it gave us, not what it could give.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("non-temporal stores are written for x86-64");

mod description;
mod differences;
mod emulated;
mod error;
mod figures;
mod hardware;
mod host;
mod measure;
mod meter;
mod options;
mod page;
mod schedule;

pub use description::ways::{Both, Flows, Found, Way};
pub use differences::{Difference, differences};
pub use error::CalibrateError;
pub use figures::{
    CacheFigures, Calibration, Latency, MeasuredMemory, NodeFlow, Pair, SmallAccesses, Stream, Wait,
};
pub use hardware::target::PoolRequest;
pub use measure::measure;
pub use options::Options;

/// A cache line, bytes.
const LINE_BYTES: usize = 64;
/// Bytes of an access of a stream on an emulated machine.
const STREAM_BYTES: u64 = 16 << 10;
/// Bytes of an access there whose latency counts: a word.
const WORD_BYTES: u64 = 8;
