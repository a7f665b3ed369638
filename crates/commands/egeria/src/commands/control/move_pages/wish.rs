//! What is to be done.

use egeria_cli::signals::Signals;
use egeria_machine::{Machine, NodeId};

/// What is to be done.
pub(super) struct Wish<'a> {
    pub(super) machine: &'a Machine,
    pub(super) nodes: &'a [NodeId],
    pub(super) also_mapped: bool,
    /// Of each process.
    pub(super) max_bytes: u64,
    pub(super) signals: &'a Signals,
}
