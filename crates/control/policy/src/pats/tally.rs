//! What threads ask of persistent memory in a window of time: what PATS's Collector sums (§IV, Algorithm 1, lines 6 to 10).
//!
//! The paper looks through the Req-Info array again and again. Counting each request once, when it is made, is as good and
//! does not weigh slow requests more. Requests that bypass the Selector count as well: Eq. 4 is about them.

use egeria_admission::Request;
use egeria_facts::Mix;
use egeria_machine::AccessKind;
use serde::{Deserialize, Serialize};

/// Sums of requests. Whole numbers, so that their order does not matter and those of several
/// processes can be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Requests counted.
    pub requests: u64,
    /// Those that write.
    pub writes: u64,
    /// What all of them are long, bytes.
    pub bytes: u128,
}

impl Tally {
    /// Counts a request. One without length touches no memory and does not count.
    pub fn add(&mut self, request: Request) {
        if request.bytes == 0 {
            return;
        }
        self.requests = self.requests.saturating_add(1);
        let writes = u64::from(request.kind == AccessKind::Write);
        self.writes = self.writes.saturating_add(writes);
        self.bytes = self.bytes.saturating_add(u128::from(request.bytes));
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Tally) {
        self.requests = self.requests.saturating_add(other.requests);
        self.writes = self.writes.saturating_add(other.writes);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// The means. Sums that cannot be (more writes than requests) give means in range.
    pub fn mix(&self) -> Mix {
        if self.requests == 0 {
            return Mix::default();
        }
        let requests = self.requests as f64;
        Mix {
            requests: self.requests,
            mean_bytes: (self.bytes as f64 / requests).max(1.0),
            write_share: (self.writes as f64 / requests).min(1.0),
        }
    }
}
