//! The two directions of an access.

use serde::{Deserialize, Serialize};

/// Whether an access reads or writes the medium.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// From the medium.
    Read,
    Write,
}

impl AccessKind {
    /// What happens at the other end of a copy.
    pub fn other(self) -> AccessKind {
        match self {
            AccessKind::Read => AccessKind::Write,
            AccessKind::Write => AccessKind::Read,
        }
    }
}
