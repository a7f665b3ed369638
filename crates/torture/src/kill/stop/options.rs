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
    /// The process that serves the mount, where it is ours.
    pub mount: Option<u32>,
    /// Nobody is stopped after it.
    pub deadline: Option<Instant>,
    pub seed: u64,
    pub cancel: Cancel<'a>,
}
