//! Memory between a node and the slower ones of its group, and why it goes.

use std::fmt;

use egeria_machine::format_bytes;
use serde::{Deserialize, Serialize};

/// Why memory goes from a node to a slower one of its group, or back.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TierMove {
    /// The least used goes: the node is short of memory, or what is used more should come back.
    Demoted {
        /// Memory of the node that is free, bytes.
        free_bytes: u64,
        /// What should go in all, bytes.
        wanted_bytes: u64,
    },
    /// The most used comes back: the node has room.
    Promoted {
        /// Memory of the node that is free, bytes.
        free_bytes: u64,
    },
    /// The node's own memory takes longer than the slower node's under the present load: pages are balanced by weight.
    Balanced {
        /// What an access to its own memory takes, ns.
        near_ns: f64,
        /// What an access to the slower node takes, ns.
        far_ns: f64,
        /// What the load rests on.
        load: LoadSource,
    },
}

/// Where bytes/s of a memory come from, from which its latency under load is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadSource {
    /// Counters of memory controllers or CXL devices.
    Counters,
    /// Accesses of processes that were seen.
    Accesses,
}

impl fmt::Display for TierMove {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TierMove::Demoted {
                free_bytes,
                wanted_bytes,
            } => write!(
                formatter,
                "the least used memory makes room ({} are free on the node, {} should go)",
                format_bytes(*free_bytes),
                format_bytes(*wanted_bytes)
            ),
            TierMove::Promoted { free_bytes } => write!(
                formatter,
                "the most used memory comes back ({} are free on the node)",
                format_bytes(*free_bytes)
            ),
            TierMove::Balanced {
                near_ns,
                far_ns,
                load,
            } => {
                let load = match load {
                    LoadSource::Counters => "counted by hardware",
                    LoadSource::Accesses => "seen of processes",
                };
                write!(
                    formatter,
                    "memory is balanced (under the load {load}, the near one takes {near_ns:.0} ns, the slower one {far_ns:.0})"
                )
            }
        }
    }
}
