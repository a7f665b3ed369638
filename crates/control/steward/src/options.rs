//! How a steward works.

use std::path::PathBuf;

use egeria_machine::Machine;
use egeria_pages::accesses::Way;
use egeria_policy::planner::{Settings, System};
use egeria_proc::Scope;

/// How a steward works.
#[derive(Clone, Debug)]
pub struct StewardOptions {
    /// The policy's name, as `--policy` takes it.
    pub policy: String,
    /// The planner's settings.
    pub settings: Settings,
    /// The settings that were given by name. Where one of them changes nothing, the steward does not start.
    pub given: Vec<String>,
    /// ns of machine time between two looks.
    pub window_ns: u64,
    pub machine: Machine,
    /// The scope of threads.
    pub scope: Scope,
    /// How accesses to memory are seen; `None`: the way that sees most here.
    pub memory_source: Option<Way>,
    /// Whether pools of unknown speed are measured, once, while the volume is idle.
    pub measure_idle_pools: bool,
    /// Record the facts into this file.
    pub record: Option<PathBuf>,
    /// Where decisions are written; `None`: where `explain` and `top` look.
    pub decision_log: Option<PathBuf>,
}

impl StewardOptions {
    /// Whether it decides nothing and records: then all is looked at that some policy could need of processes.
    pub(crate) fn only_records(&self) -> bool {
        self.record.is_some() && self.policy == System::Off.name()
    }

    /// Whether data of files may go to other nodes.
    pub(crate) fn moves_files(&self) -> bool {
        self.settings.stages.relocation && self.machine.nodes.len() > 1
    }
}
