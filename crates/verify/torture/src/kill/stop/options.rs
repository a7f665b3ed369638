//! What is asked of a run.

use egeria_harness::process::Cancel;
use std::ops::RangeInclusive;
use std::time::Instant;

/// How workers are stopped.
pub struct StopOptions<'a> {
    /// In the middle of calls.
    pub stops: u64,
    /// How long each stays so, ms.
    pub hold_ms: RangeInclusive<u64>,
    /// Ask `gdb` where a stopped one is that others wait for.
    pub stacks: bool,
    /// Whether pools admit few threads at once: a stopped one's place is lent, but not at once.
    pub is_limited: bool,
    /// The process that serves the mount, where it is ours.
    pub mount: Option<u32>,
    /// Nobody is stopped after it.
    pub deadline: Option<Instant>,
    pub seed: u64,
    pub cancel: Cancel<'a>,
}

impl StopOptions<'_> {
    /// Nobody who does not change what the stopped one changes should wait longer, ms.
    pub fn wanted_wait_ms(&self) -> f64 {
        if self.is_limited {
            // A place is lent after 100 ms and the time that its bytes may take, one after the other.
            250.0
        } else {
            100.0
        }
    }
}
