//! What is to be measured.

use crate::hardware::target::PoolRequest;

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time for all figures together, s. When it is too short for that many, the shortest measurable times count.
    pub seconds: f64,
    /// How often each figure is taken, at least once.
    pub rounds: u32,
    /// Bytes of each memory that streams go through; several times the largest cache when none.
    pub buffer_bytes: Option<u64>,
    /// Persistent memory.
    pub pools: Vec<PoolRequest>,
    /// Whether pools that are devices may be overwritten.
    pub may_overwrite_devices: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seconds: 30.0,
            rounds: 5,
            buffer_bytes: None,
            pools: Vec::new(),
            may_overwrite_devices: false,
        }
    }
}
