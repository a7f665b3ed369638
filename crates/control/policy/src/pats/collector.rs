//! What threads ask of persistent memory in a window of time: PATS's Collector (§IV, Algorithm
//! 1, lines 6 to 10).

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

/// Sums requests until their window is over. Time is given, in ns of any clock.
///
/// The paper looks through the Req-Info array again and again; [`egeria_admission::Selector::requests`] is
/// that array. Counting each request once, when it is published, is as good and does not weigh
/// slow requests more. Requests that bypass the Selector count as well: Eq. 4 is about them.
#[derive(Clone, Debug)]
pub struct Collector {
    window_ns: u64,
    begun_ns: Option<u64>,
    tally: Tally,
}

impl Collector {
    /// Windows of this length, ns; the first begins with the first call that gives the time.
    pub fn new(window_ns: u64) -> Collector {
        Collector {
            window_ns,
            begun_ns: None,
            tally: Tally::default(),
        }
    }

    /// Counts a request into the window that has begun.
    pub fn observe(&mut self, request: Request) {
        self.tally.add(request);
    }

    /// Adds the counts of another tally to this window.
    pub fn observe_all(&mut self, tally: &Tally) {
        self.tally.merge(tally);
    }

    /// The means of the window, if it is over; then the next one begins. A window that is closed late was longer. If
    /// the clock went back, the window begins again, with the counts so far.
    pub fn close(&mut self, now_ns: u64) -> Option<Mix> {
        let begun_ns = *self.begun_ns.get_or_insert(now_ns);
        if now_ns < begun_ns {
            self.begun_ns = Some(now_ns);
            return None;
        }
        if now_ns == begun_ns || now_ns - begun_ns < self.window_ns {
            return None;
        }
        self.begun_ns = Some(now_ns);
        Some(std::mem::take(&mut self.tally).mix())
    }
}
