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
    /// What a path carries that an access of the process to another node takes, in the mean over them, bytes/s.
    PathBandwidth,
    /// Share of the process's accesses that go to nodes where it has threads, 0 to 1.
    NearThreadsShare,
    /// Share of the process's accesses that go to memory of the accessing thread's node, 0 to 1.
    LocalAccesses,
    /// Bytes/s that go through the node's persistent memory.
    PmBytesPerSecond,
    /// Bytes/s that go through the node's DRAM.
    DramBytesPerSecond,
    /// Bytes/s that go through the node's memory of programs.
    MemoryBytesPerSecond,
    /// Share of the bytes read of the file that are read on their own node, 0 to 1.
    FileLocalShare,
    /// Bytes/s read of the file.
    FileReadBytesPerSecond,
    /// Share of the file that lies on the node it goes to, 0 to 1.
    FileShareOnNode,
}

impl Measure {
    /// A value of it, in words.
    pub fn show(self, value: f64) -> String {
        match self {
            Measure::LocalShare
            | Measure::NearThreadsShare
            | Measure::LocalAccesses
            | Measure::FileLocalShare
            | Measure::FileShareOnNode => format!("{:.0} %", value * 100.0),
            Measure::ThreadBytesPerSecond
            | Measure::TotalBytesPerSecond
            | Measure::PathBandwidth
            | Measure::PmBytesPerSecond
            | Measure::DramBytesPerSecond
            | Measure::MemoryBytesPerSecond
            | Measure::FileReadBytesPerSecond => format_bandwidth(value),
        }
    }

    /// What a value is of, behind the value.
    fn of_what(self) -> &'static str {
        match self {
            Measure::LocalShare => "of its bytes local",
            Measure::ThreadBytesPerSecond => "for the thread",
            Measure::TotalBytesPerSecond => "for all threads",
            Measure::PathBandwidth => "on the paths of its remote accesses",
            Measure::NearThreadsShare => "of its accesses on nodes with its threads",
            Measure::LocalAccesses => "of its accesses local",
            Measure::PmBytesPerSecond => "through the node's persistent memory",
            Measure::DramBytesPerSecond => "through the node's DRAM",
            Measure::MemoryBytesPerSecond => "through the node's memory",
            Measure::FileLocalShare => "of the file's reads local",
            Measure::FileReadBytesPerSecond => "read of the file",
            Measure::FileShareOnNode => "of the file on the node",
        }
    }
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
    /// The window after the action in which it is measured, from 1: what moves data takes some.
    #[serde(default = "one")]
    pub windows: u32,
}

fn one() -> u32 {
    1
}

impl Expectation {
    /// Gains below this part of what there was are not judged: measurements differ by as much.
    const MIN_JUDGED_GAIN: f64 = 0.05;

    /// What the next window should measure.
    pub(crate) fn next(measure: Measure, before: f64, expected: f64) -> Expectation {
        Expectation {
            measure,
            before,
            expected,
            windows: one(),
        }
    }

    /// Whether so little came of it that it should not be done again: less than half of what was expected.
    pub fn is_missed(&self, after: f64) -> bool {
        let gain = self.expected - self.before;
        let is_judged = gain > Self::MIN_JUDGED_GAIN * self.before.abs().max(f64::MIN_POSITIVE);
        is_judged && after - self.before < gain / 2.0
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, expected) = (
            self.measure.show(self.before),
            self.measure.show(self.expected),
        );
        let of_what = self.measure.of_what();
        write!(formatter, "{expected} {of_what} instead of {before}")
    }
}
