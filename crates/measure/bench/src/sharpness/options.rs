//! What is measured, and how.

use std::path::PathBuf;
use std::time::Duration;

use crate::experiment::Watch;

/// How it is measured.
pub struct SharpnessOptions<'a> {
    /// The program that runs as what is looked at: [`super::subject::run`] with these arguments and the subject's.
    pub program: (PathBuf, Vec<String>),
    /// Time between two looks.
    pub window: Duration,
    /// Windows of each point: the second half of them counts, because some ways learn.
    pub windows: usize,
    /// Memory of the program, bytes; a quarter of it is used.
    pub memory_bytes: u64,
    /// Sizes of the pieces that are used and unused, bytes.
    pub piece_bytes: Vec<u64>,
    /// Progress and stopping.
    pub watch: Watch<'a>,
}
