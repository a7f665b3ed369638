//! Why facts cannot be used.

use egeria_machine::NodeId;

use crate::{AccessError, FileKey, ThreadKey};

/// What is wrong with a window: one line with cause and remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WindowError {
    /// The window has no length, or an absurd one.
    #[error("window {window}: lasts {duration_ns} ns; record windows of 1 ns to {max_ns} ns")]
    Duration {
        window: u64,
        duration_ns: u64,
        /// The longest accepted.
        max_ns: u64,
    },
    /// More threads, files or characters than accepted.
    #[error("window {window}: {count} {what}; have at most {most}")]
    TooMany {
        window: u64,
        what: &'static str,
        count: usize,
        /// The most accepted.
        most: usize,
    },
    /// The nodes are not those of the machine.
    #[error("window {window}: its nodes are not the machine's; use the machine it was recorded on")]
    OtherMachine { window: u64 },
    /// A thread refers to a node that the machine does not have.
    #[error(
        "window {window}: {thread} names node {}, which the machine does not have; use the machine it was recorded on",
        node.0
    )]
    NoSuchNode {
        window: u64,
        thread: ThreadKey,
        /// The node it names.
        node: NodeId,
    },
    /// A vector per node has another length than the machine has nodes.
    #[error(
        "window {window}: {thread} has {count} counters for {nodes} nodes; use the machine it was recorded on"
    )]
    Counters {
        window: u64,
        thread: ThreadKey,
        /// How many counters.
        count: usize,
        /// How many nodes.
        nodes: usize,
    },
    /// A counter so large that sums would overflow.
    #[error(
        "window {window}: {whose} counted {value}, beyond {most}; the record is damaged, drop this window"
    )]
    Counter {
        window: u64,
        /// The thread or node.
        whose: String,
        value: u64,
        /// The largest accepted.
        most: u64,
    },
    /// A name that a terminal would obey.
    #[error("window {window}: the name of {thread} is not printable; clean names when recording")]
    Name { window: u64, thread: ThreadKey },
    /// One thread twice.
    #[error("window {window}: {thread} is there twice; the record is damaged, drop this window")]
    Twice { window: u64, thread: ThreadKey },
}

/// What is wrong with the facts of a window: one line with cause and remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FactsError {
    /// The threads or nodes.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// The accesses to memory.
    #[error(transparent)]
    Accesses(#[from] AccessError),
    /// Persistent memory of a node that the machine does not have.
    #[error("there is persistent memory on node {}, which the machine does not have; use the machine it was recorded on", node.0)]
    MediumNowhere { node: NodeId },
    /// One node's persistent memory twice.
    #[error("the persistent memory of node {} is there twice; the record is damaged, drop this window", node.0)]
    MediumTwice { node: NodeId },
    /// Figures that cannot be.
    #[error("the persistent memory of node {} has figures that are no rates or shares; the record is damaged, drop this window", node.0)]
    Medium { node: NodeId },
    /// More files than accepted.
    #[error("{count} files are described; have at most {most}")]
    TooManyFiles {
        count: usize,
        /// The most accepted.
        most: usize,
    },
    /// More kinds of short-lived processes than accepted.
    #[error("{count} kinds of short-lived processes; have at most {most}")]
    TooManyKinds {
        count: usize,
        /// The most accepted.
        most: usize,
    },
    /// Short-lived processes that do not fit.
    #[error(
        "the short-lived processes of {parent} are there twice, have figures that cannot be, or nodes that the machine does not have; use the machine it was recorded on, or drop this window"
    )]
    Kind { parent: ThreadKey },
    /// One file twice.
    #[error("{file} is there twice; the record is damaged, drop this window")]
    FileTwice { file: FileKey },
    /// A list per node that is longer than the machine has nodes.
    #[error("{file} is described for more than {nodes} nodes; use the machine it was recorded on")]
    FileNodes {
        file: FileKey,
        /// Nodes of the machine.
        nodes: usize,
    },
    /// A counter so large that sums would overflow.
    #[error(
        "{file} has a counter of {value}, beyond {}; the record is damaged, drop this window",
        crate::MAX_COUNTER
    )]
    FileCounter {
        file: FileKey,
        value: u64,
        /// The largest accepted.
        most: u64,
    },
}
