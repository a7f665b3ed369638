//! Stages that have no actuator for their actions.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::ActionKind;
use crate::nthread::Configuration;

/// A stage of the planner that needs an actuator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Threads and the memory that they use (ours).
    Together,
    /// Clusters of memory sharers (AsymSched).
    Clusters,
    /// Threads that follow their data (NThread).
    Threads,
    /// Data that moves.
    Relocation,
    /// Limits at persistent memory (PATS).
    Limits,
    /// Delegation (OdinFS).
    Delegation,
    /// Bounds of programs that do not ask (ours).
    Mba,
}

impl Stage {
    const ALL: [Stage; 7] = [
        Stage::Together,
        Stage::Clusters,
        Stage::Threads,
        Stage::Relocation,
        Stage::Limits,
        Stage::Delegation,
        Stage::Mba,
    ];

    fn is_on(self, settings: &Settings) -> bool {
        match self {
            Stage::Together => settings.stages.together,
            Stage::Clusters => settings.stages.clusters,
            Stage::Threads => settings.moves_threads(),
            Stage::Relocation => settings.stages.relocation,
            Stage::Limits => settings.stages.limits,
            Stage::Delegation => settings.stages.delegation,
            Stage::Mba => settings.stages.mba,
        }
    }

    /// The kinds of actions that the stage needs.
    fn needs(self, settings: &Settings) -> Vec<ActionKind> {
        let memory = settings.asymsched.dynamic_memory || settings.asymsched.full_memory;
        match self {
            Stage::Together => vec![ActionKind::ProcessMigration, ActionKind::MemoryMigration],
            Stage::Clusters => [ActionKind::ProcessMigration]
                .into_iter()
                .chain(memory.then_some(ActionKind::MemoryMigration))
                .collect(),
            Stage::Threads => vec![ActionKind::ThreadMigration],
            Stage::Relocation => vec![ActionKind::Relocation],
            Stage::Limits => vec![ActionKind::AdmissionLimit],
            Stage::Delegation => vec![ActionKind::Delegation],
            Stage::Mba => vec![ActionKind::Mba],
        }
    }

    pub(super) fn switch_off(self, settings: &mut Settings) {
        match self {
            Stage::Together => settings.stages.together = false,
            Stage::Clusters => settings.stages.clusters = false,
            Stage::Threads => settings.nthread.stages = Configuration::Off.stages(),
            Stage::Relocation => settings.stages.relocation = false,
            Stage::Limits => settings.stages.limits = false,
            Stage::Delegation => settings.stages.delegation = false,
            Stage::Mba => settings.stages.mba = false,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Stage::Together => "threads and memory together",
            Stage::Clusters => "placement of clusters (AsymSched)",
            Stage::Threads => "migration of threads (NThread)",
            Stage::Relocation => "relocation of files",
            Stage::Limits => "admission limits (PATS)",
            Stage::Delegation => "delegation (OdinFS)",
            Stage::Mba => "bandwidth allocation (MBA)",
        })
    }
}

/// A stage that the settings ask for, and that is off because some of its actions have no actuator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unavailable {
    pub stage: Stage,
    /// The kinds of actions without an actuator.
    pub missing: Vec<ActionKind>,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing: Vec<String> = self.missing.iter().map(ActionKind::to_string).collect();
        let (stage, missing) = (self.stage, missing.join(" and "));
        write!(
            formatter,
            "{stage} is off: nothing here carries out {missing}"
        )
    }
}

/// The stages that are on and need a kind that is not in `kinds`.
pub(super) fn unavailable(settings: &Settings, kinds: &[ActionKind]) -> Vec<Unavailable> {
    let wanted = Stage::ALL.into_iter().filter(|stage| stage.is_on(settings));
    let lacking = wanted.map(|stage| {
        let mut missing = stage.needs(settings);
        missing.retain(|kind| !kinds.contains(kind));
        Unavailable { stage, missing }
    });
    lacking.filter(|each| !each.missing.is_empty()).collect()
}
