//! What to run, and on what.

use std::path::PathBuf;

use egeria_machine::Machine;

use super::figure::Figure;
use super::plan::Extent;

use crate::experiment::Watch;

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
    /// Progress and stopping.
    pub watch: Watch<'a>,
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
            watch: Watch::default(),
        }
    }
}
