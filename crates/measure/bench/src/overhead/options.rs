//! What is measured, and how.

use std::path::PathBuf;
use std::time::Duration;

use crate::experiment::Watch;

/// How it is measured.
pub struct OverheadOptions<'a> {
    /// The program that runs as what is measured: [`super::subject::run`] with these arguments and the subject's.
    pub program: (PathBuf, Vec<String>),
    /// Pairs to take medians over.
    pub rounds: usize,
    /// How long a program is measured at a time.
    pub measure: Duration,
    /// The steward's window.
    pub window: Duration,
    /// Directories for the files that are read, each with its name in the report.
    pub directories: Vec<PathBuf>,
    /// Memory of the program that is bound by it, bytes.
    pub memory_bytes: u64,
    /// Threads that a window is over.
    pub threads: u64,
    /// Progress and stopping.
    pub watch: Watch<'a>,
}
