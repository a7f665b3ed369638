//! Benches on emulated machines: what they are given, the machines, and a steward for a volume.

mod run;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use egeria_engine::Volume;
use egeria_harness::{Error, Result};
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_scratch::check_room;
use egeria_steward::{Scope, Steward, StewardOptions, Target};

use crate::experiment::Watch;
use crate::programs::host;
pub(crate) use run::{EmulatedRun, Moved, RunPace, VolumeSetup};

/// What a bench on an emulated machine is given.
#[derive(Clone)]
pub struct EmulatedOptions<'a> {
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// The tmpfs where pools are made.
    pub memory_directory: PathBuf,
    /// How often each point is run; figures are medians.
    pub rounds: usize,
    /// How long each is measured, host time.
    pub measured: Duration,
    /// Progress and stopping.
    pub watch: Watch<'a>,
}

impl EmulatedOptions<'_> {
    pub fn new(preload_library: PathBuf) -> EmulatedOptions<'static> {
        EmulatedOptions {
            preload_library,
            memory_directory: PathBuf::from("/dev/shm"),
            rounds: 5,
            measured: Duration::from_millis(1500),
            watch: Watch::default(),
        }
    }

    /// Runs all points in every round; what each gave. `room_bytes` of memory is what the largest needs.
    ///
    /// # Errors
    /// When fio is missing, there is no room, a program fails, or it was interrupted.
    pub(crate) fn rounds<P, F>(
        &self,
        room_bytes: u64,
        points: &[P],
        words: impl Fn(&P) -> String,
        measure: impl FnMut(&P) -> Result<F>,
    ) -> Result<Vec<Vec<F>>> {
        host::require(&[("fio", "fio")])?;
        check_room(&self.memory_directory, room_bytes, "free some")?;
        self.watch.rounds(self.rounds, points, words, measure)
    }
}

/// The first nodes of a profile (`None`: all), without last-level caches, which would hold files of a size that the host
/// has room for.
pub(crate) fn described(profile: &str, nodes: Option<usize>) -> Result<Machine> {
    let mut machine = Machine::profile(profile).map_err(Error::failed)?;
    if let Some(nodes) = nodes {
        machine = machine.first_nodes(nodes).map_err(Error::failed)?;
    }
    for node in &mut machine.nodes {
        node.hardware.cache = None;
    }
    Ok(machine)
}

/// The same, emulated with so much host time per machine time.
pub(crate) fn machine(profile: &str, nodes: Option<usize>, dilation: f64) -> Result<Machine> {
    let emulated = described(profile, nodes)?.emulate(dilation);
    emulated
        .and_then(Machine::standing_here)
        .map_err(Error::failed)
}

/// A steward of what this process started, which only decides as its policy says.
pub(crate) fn steward_options(machine: &Machine, policy: System) -> StewardOptions {
    StewardOptions {
        policy: policy.to_string(),
        settings: policy.settings(),
        given: Vec::new(),
        window_ns: 0,
        machine: machine.clone(),
        scope: Scope::Tree(std::process::id()),
        memory_source: None,
        measure_idle_pools: false,
        record: None,
        decision_log: None,
    }
}

/// Starts a steward of a volume.
pub(crate) fn steward(volume: &Arc<Volume>, options: StewardOptions) -> Result<Steward> {
    Steward::start(Target::Volume(Arc::clone(volume)), options).map_err(Error::failed)
}
