//! How to run it.

use std::path::PathBuf;

use crate::experiment::Watch;

/// How to run the demonstration.
pub struct DemoOptions<'a> {
    /// The machine the volume spans; its nodes may be emulated.
    pub machine: egeria_machine::Machine,
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// `egeria-names-worker`; `None`: as [`crate::PlacesOptions`] says.
    pub worker: Option<PathBuf>,
    /// `egeria-loopback`; likewise.
    pub loopback: Option<PathBuf>,
    /// Where `report.html` and `report.json` go; made when missing.
    pub output_directory: PathBuf,
    /// The tmpfs where pools and the peers' files are made.
    pub memory_directory: PathBuf,
    /// A few short runs only: shows that everything works, the figures are rough.
    pub quick: bool,
    /// Progress and stopping.
    pub watch: Watch<'a>,
}

impl DemoOptions<'_> {
    /// The whole demonstration, under seven minutes.
    pub fn new(
        machine: egeria_machine::Machine,
        preload_library: PathBuf,
        output_directory: PathBuf,
    ) -> DemoOptions<'static> {
        DemoOptions {
            machine,
            preload_library,
            worker: None,
            loopback: None,
            output_directory,
            memory_directory: PathBuf::from("/dev/shm"),
            quick: false,
            watch: Watch::default(),
        }
    }
}
