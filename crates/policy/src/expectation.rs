//! What an action should bring.

use std::fmt;

use egeria_machine::format_bandwidth;
use serde::{Deserialize, Serialize};

/// What is measured to tell whether an action brought what was expected. More is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Share of the thread's bytes that are on its own node, 0 to 1.
    LocalShare,
    /// Bytes/s that the thread reads and writes.
    ThreadBytesPerSecond,
    /// Bytes/s that all threads read and write.
    TotalBytesPerSecond,
}

/// What an action should bring.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Expectation {
    /// What is measured.
    pub measure: Measure,
    /// Its value before the action.
    pub before: f64,
    /// Its value expected afterwards.
    pub expected: f64,
}

impl Expectation {
    /// Gains below this part of what there was are not judged: measurements differ by as much.
    const MIN_JUDGED_GAIN: f64 = 0.05;

    /// Whether so little came of it that it should not be done again: less than half of what was expected.
    pub fn is_missed(&self, after: f64) -> bool {
        let gain = self.expected - self.before;
        let is_judged = gain > Self::MIN_JUDGED_GAIN * self.before.abs().max(f64::MIN_POSITIVE);
        is_judged && after - self.before < gain / 2.0
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, expected) = (self.before, self.expected);
        match self.measure {
            Measure::LocalShare => write!(
                formatter,
                "{:.0} % of its bytes local instead of {:.0} %",
                expected * 100.0,
                before * 100.0
            ),
            Measure::ThreadBytesPerSecond => write!(
                formatter,
                "{} for the thread instead of {}",
                format_bandwidth(expected),
                format_bandwidth(before)
            ),
            Measure::TotalBytesPerSecond => write!(
                formatter,
                "{} for all threads instead of {}",
                format_bandwidth(expected),
                format_bandwidth(before)
            ),
        }
    }
}
