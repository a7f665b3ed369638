//! What moving memory takes: as measured on this machine, or as the settings say (§4.2, Step 4).

use std::fmt;

use egeria_facts::AccessWindow;
use serde::{Deserialize, Serialize};

use super::settings::Settings;

/// Memory of a process that follows as it is accessed in one window, at most, bytes.
pub const MAX_DYNAMIC_BYTES: u64 = 64 << 20;

/// The time that a gigabyte takes, and where the figure comes from.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemoryCost {
    pub s_per_gb: f64,
    /// Migrations on this machine in which it was measured; 0: there was none yet, and it is the setting.
    pub migrations: u32,
}

impl Default for MemoryCost {
    /// The default of the setting.
    fn default() -> MemoryCost {
        MemoryCost::set(&Settings::default())
    }
}

impl MemoryCost {
    fn set(settings: &Settings) -> MemoryCost {
        MemoryCost {
            s_per_gb: settings.cost_s_per_gb,
            migrations: 0,
        }
    }

    /// The measured cost, from the first migration on.
    pub(crate) fn of(window: &AccessWindow, settings: &Settings) -> MemoryCost {
        match window.migration_cost.filter(|cost| cost.is_valid()) {
            Some(measured) => MemoryCost {
                s_per_gb: measured.s_per_gb,
                migrations: measured.migrations,
            },
            None => MemoryCost::set(settings),
        }
    }

    /// The cost of moving this number of bytes, ns, rounded up: 1 s/GB is 1 ns/byte.
    pub(crate) fn ns(self, bytes: u64) -> u64 {
        (bytes as f64 * self.s_per_gb).ceil() as u64
    }
}

impl fmt::Display for MemoryCost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.2} s/GB, ", self.s_per_gb)?;
        match self.migrations {
            0 => formatter.write_str("the setting, as nothing was migrated yet"),
            1 => formatter.write_str("measured in 1 migration"),
            count => write!(formatter, "measured in {count} migrations"),
        }
    }
}
