//! What to run, and on what.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use egeria_harness::{Progress, silent};
use egeria_machine::Machine;

use super::figure::Figure;
use super::plan::Extent;

/// What to run, and on what.
pub struct NthreadOptions<'a> {
    /// The emulated machine; each figure has its own dilation of it.
    pub machine: Machine,
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// `egeria-filebench`.
    pub filebench_program: PathBuf,
    /// Where `nthread.html` goes; made when missing. `None`: no page.
    pub output_directory: Option<PathBuf>,
    /// The tmpfs where pools are made.
    pub memory_directory: PathBuf,
    /// Everything, or what there is time for.
    pub extent: Extent,
    /// Only these figures, whole; all when empty.
    pub figures: Vec<Figure>,
    /// How often everything is run; figures are medians. With three or more, charts whose ratios differ are run up to four
    /// times more.
    pub repetitions: usize,
    /// Set it (as from a signal handler) to stop and clean up.
    pub cancel: Option<&'a AtomicBool>,
    /// Called before each step.
    pub progress: &'a dyn Fn(&Progress<'_>),
}

impl NthreadOptions<'_> {
    /// The subset, three times.
    pub fn new(
        machine: Machine,
        preload_library: PathBuf,
        filebench_program: PathBuf,
    ) -> NthreadOptions<'static> {
        NthreadOptions {
            machine,
            preload_library,
            filebench_program,
            output_directory: None,
            memory_directory: PathBuf::from("/dev/shm"),
            extent: Extent::Subset,
            figures: Vec::new(),
            repetitions: 3,
            cancel: None,
            progress: &silent,
        }
    }
}
