//! What actuators can do.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an actuator can do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// [`crate::Action::MigrateThread`].
    ThreadMigration,
    /// [`crate::Action::MigrateProcess`].
    ProcessMigration,
    /// [`crate::Action::MigrateMemory`].
    MemoryMigration,
    /// [`crate::Action::SetLimit`] and [`crate::Action::LiftLimit`].
    AdmissionLimit,
    /// [`crate::Action::SetDelegation`].
    Delegation,
    /// [`crate::Action::SetMba`].
    Mba,
    /// [`crate::Action::Relocate`].
    Relocation,
}

impl ActionKind {
    pub const ALL: [ActionKind; 7] = [
        ActionKind::ThreadMigration,
        ActionKind::ProcessMigration,
        ActionKind::MemoryMigration,
        ActionKind::AdmissionLimit,
        ActionKind::Delegation,
        ActionKind::Mba,
        ActionKind::Relocation,
    ];
}

impl fmt::Display for ActionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ActionKind::ThreadMigration => "migration of threads",
            ActionKind::ProcessMigration => "migration of processes",
            ActionKind::MemoryMigration => "migration of memory",
            ActionKind::AdmissionLimit => "admission limits",
            ActionKind::Delegation => "delegation",
            ActionKind::Mba => "bandwidth allocation of the CPU",
            ActionKind::Relocation => "relocation of files",
        })
    }
}
