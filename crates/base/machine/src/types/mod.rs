//! What a machine is: its nodes, their memory, what lies between them, and emulated nodes.

pub(crate) mod access;
pub mod emulated;
pub(crate) mod ids;
pub(crate) mod interconnect;
pub(crate) mod medium;
pub(crate) mod memory;
pub(crate) mod model;
