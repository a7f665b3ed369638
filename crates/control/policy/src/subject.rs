//! What an action is about.

use std::fmt;

use egeria_facts::{FileKey, ProcessKey, ThreadKey};
use egeria_machine::NodeId;
use serde::{Deserialize, Serialize};

/// What an action is about, as far as feedback tells actions apart: what is learned of one holds for all with the same
/// subject.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// A thread on a node.
    Thread {
        thread: ThreadKey,
        to: NodeId,
    },
    /// The threads of a process, moved together.
    Process {
        process: ProcessKey,
    },
    /// The memory of a process.
    Memory {
        process: ProcessKey,
    },
    /// The limit of a node's persistent memory.
    Limit {
        node: NodeId,
    },
    Delegation,
    /// Bounds of programs that do not ask.
    Mba,
    /// A file's data on a node.
    File {
        file: FileKey,
        /// Where its data goes, or where a copy is given up.
        to: NodeId,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Thread { thread, to } => write!(formatter, "{thread} on node {}", to.0),
            Subject::Process { process } => write!(formatter, "placement of {process}"),
            Subject::Memory { process } => {
                write!(formatter, "migration of the memory of {process}")
            }
            Subject::Limit { node } => {
                write!(formatter, "limit of the memory of node {}", node.0)
            }
            Subject::Delegation => formatter.write_str("delegation"),
            Subject::Mba => formatter.write_str("bounds of programs' bandwidth"),
            Subject::File { file, to } => {
                write!(formatter, "relocation of {file} to node {}", to.0)
            }
        }
    }
}
