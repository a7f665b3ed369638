//! What was sampled since the last time.

use std::time::Duration;

use crate::event::Kind;
use crate::record::{Access, Tally};

/// Samples accesses.
pub trait AccessEvents: Send {
    /// What a sample is of.
    fn kind(&self) -> Kind;

    /// What was sampled since the last time, or the beginning.
    fn take(&mut self) -> Taken;
}

/// What was sampled since the last time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Taken {
    pub took: Duration,
    /// The samples; those of a CPU in the order they were made.
    pub accesses: Vec<Access>,
    /// What else was in the rings.
    pub tally: Tally,
}

impl Taken {
    /// By how much more there was than what was sampled, 1 or more: samples that were lost are taken to be as the
    /// others.
    pub fn lost_factor(&self) -> f64 {
        let seen = self.accesses.len() as f64;
        if self.accesses.is_empty() {
            1.0
        } else {
            (seen + self.tally.lost as f64) / seen
        }
    }
}
