//! What to fuzz, and for how long.

use super::target::Target;
use egeria_harness::{Progress, silent};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What to fuzz, and for how long.
pub struct FuzzOptions<'a> {
    /// One after the other.
    pub targets: Vec<Target>,
    /// Inputs of each target; `None`: as many as its whole run has.
    pub runs: Option<u64>,
    /// End of each target after this time.
    pub limit: Option<Duration>,
    /// Decides everything random.
    pub seed: u64,
    /// Where cases are saved; `None`: nowhere.
    pub output_directory: Option<PathBuf>,
    /// Processes at a time; 0: one per CPU.
    pub workers: usize,
    /// The workers' program; else from the environment, or beside this one.
    pub worker: Option<PathBuf>,
    /// The `egeria` program, for what other users leave for its commands; else from the environment, or beside this one.
    pub egeria: Option<PathBuf>,
    /// For tests of the fuzzer: how every worker goes wrong in its twentieth case.
    pub fault: Option<String>,
    /// Set when somebody asks to stop: the report is then of what was done.
    pub cancel: Option<&'a AtomicBool>,
    /// Called with how far it is.
    pub progress: &'a dyn Fn(&Progress<'_>),
}

impl Default for FuzzOptions<'_> {
    fn default() -> Self {
        FuzzOptions {
            targets: Target::ALL.to_vec(),
            runs: None,
            limit: None,
            seed: 1,
            output_directory: None,
            workers: 0,
            worker: None,
            egeria: None,
            fault: None,
            cancel: None,
            progress: &silent,
        }
    }
}
