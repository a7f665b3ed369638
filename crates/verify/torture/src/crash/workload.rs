//! Workloads: what is run and cut off, in a form that can be saved and run again.

use super::initial_state::InitialState;
use super::operation::Operation;
use super::pool_change::PoolChange;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A run to look at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// One operation after the other; looked at is the last.
    Sequence {
        operations: Vec<Operation>,
        /// The session knows all inodes before the first.
        loaded: bool,
    },
    /// Operations by one of two attachments each; looked at are all.
    Long {
        /// The operations, each with the number of its attachment.
        operations: Vec<(u8, Operation)>,
    },
    /// Two operations at once, by two attachments.
    Pair {
        operations: [Operation; 2],
        /// After so many events of the first the second begins; `None`: after its end.
        switch: Option<usize>,
    },
    /// A volume is made over what the initial state left.
    Making,
    /// The initial state is repaired.
    Repair,
    /// The pools of the initial state are changed.
    PoolChange(PoolChange),
}

impl fmt::Display for Workload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |operations: &[Operation]| {
            let texts: Vec<String> = operations.iter().map(Operation::to_string).collect();
            texts.join("; ")
        };
        match self {
            Workload::Sequence { operations, .. } => write!(out, "{}", joined(operations)),
            Workload::Long { operations } => {
                write!(out, "{} operations of two attachments", operations.len())
            }
            Workload::Pair {
                operations,
                switch: Some(switch),
            } => {
                let [first, second] = operations;
                write!(
                    out,
                    "{first}; after {switch} events of it, elsewhere: {second}"
                )
            }
            Workload::Pair {
                operations: [first, second],
                switch: None,
            } => {
                write!(out, "{first}; then, elsewhere: {second}")
            }
            Workload::Making => write!(out, "a volume is made"),
            Workload::Repair => write!(out, "a volume is repaired"),
            Workload::PoolChange(change) => write!(out, "{change}"),
        }
    }
}

/// On what a workload is run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Setup {
    pub(super) initial_state: InitialState,
    pub(super) pools: usize,
    /// All accesses of striped files are made by delegates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) delegated: bool,
    /// A snapshot is under way, and has to show the volume as it was when it began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) snapshot: bool,
}

impl Setup {
    pub(super) fn new(initial_state: InitialState, pools: usize) -> Setup {
        Setup {
            initial_state,
            pools,
            delegated: false,
            snapshot: false,
        }
    }
}
