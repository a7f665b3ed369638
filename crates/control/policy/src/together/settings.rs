//! The settings of this stage.

use serde::{Deserialize, Serialize};

use crate::setting::{Entry, SWITCH, by_name, entry, number, on_or_off, switch};

/// When threads and memory that are apart are brought together (ours).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Expected gain of a process below which it is left as it is, as a part of its speed.
    pub min_gain: f64,
    /// A move of memory must repay what it takes within this time, ms.
    pub repaid_ms: u64,
    /// A process that was placed is not placed again for this number of windows.
    pub rest_windows: u32,
    /// Whether the least used memory goes to slower nodes, and the most used comes back.
    pub tiers: bool,
    /// A node is short of memory if less than this part of it is free.
    pub tier_low: f64,
    /// After the least used has gone, this part of it is free.
    pub tier_high: f64,
    /// Memory that went from tier to tier does not come back for this number of windows.
    pub tier_rest_windows: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            min_gain: 0.01,
            repaid_ms: 60_000,
            rest_windows: 5,
            tiers: true,
            tier_low: 0.02,
            tier_high: 0.05,
            tier_rest_windows: 20,
        }
    }
}

const PART: &str = "a number from 0 to 1";
const TIME: &str = "milliseconds, 1 to 86400000";
const WINDOWS: &str = "a whole number from 0 to 1000000";
const TIER_WINDOWS: &str = "a whole number from 10 to 1000000";

const ENTRIES: [Entry<Settings>; 7] = [
    entry!([min_gain], PART, f64::to_string, |text| number(
        text, 0.0, 1.0
    )),
    entry!([repaid_ms], TIME, u64::to_string, |text| number(
        text, 1, 86_400_000
    )),
    entry!([rest_windows], WINDOWS, u32::to_string, |text| number(
        text, 0, 1_000_000
    )),
    entry!([tiers], SWITCH, on_or_off, switch),
    entry!([tier_low], PART, f64::to_string, |text| number(
        text, 0.0, 1.0
    )),
    entry!([tier_high], PART, f64::to_string, |text| number(
        text, 0.0, 1.0
    )),
    entry!([tier_rest_windows], TIER_WINDOWS, u32::to_string, |text| {
        number(text, 10, 1_000_000)
    }),
];

by_name!(Settings, ENTRIES);
