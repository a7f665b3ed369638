//! One access to persistent memory, and which accesses are too small to wait.

use egeria_machine::AccessKind;
use serde::{Deserialize, Serialize};

/// One access to persistent memory: the Req-Info of PATS (§IV).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Whether it reads or writes.
    pub kind: AccessKind,
    /// Its length, bytes.
    pub bytes: u64,
}

/// Requests that are too small to wait (PATS §IV).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bypass {
    /// Requests below this length never wait, bytes.
    pub below_bytes: u64,
    /// Nor do requests of exactly this length.
    pub includes_equal: bool,
}

impl Default for Bypass {
    /// Below 256 bytes, the length that Optane memory reads and writes at once.
    fn default() -> Bypass {
        Bypass {
            below_bytes: 256,
            includes_equal: false,
        }
    }
}

impl Bypass {
    /// Whether a request is too small to wait.
    pub fn applies_to(&self, request: Request) -> bool {
        request.bytes < self.below_bytes
            || (self.includes_equal && request.bytes == self.below_bytes)
    }
}
