//! The settings of AsymSched, with the paper's defaults, and by name.

use serde::{Deserialize, Serialize};

use crate::setting::{Entry, SWITCH, by_name, entry, number, on_or_off, switch};

/// Everything AsymSched leaves to be set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether threads are placed; off is the paper's dynamic memory placement alone (§5).
    pub threads: bool,
    /// Whether memory follows page by page, as it is accessed (§4.2, Migration).
    pub dynamic_memory: bool,
    /// Whether all memory follows at once where that did not suffice.
    pub full_memory: bool,
    /// Accesses per second from which threads on a node count as sharing what a controller holds (§4.2 says
    /// "high volume"; ours: 1e6, 64 MB/s in cache lines).
    pub sharing_accesses_s: f64,
    /// Part of the best weighted bandwidth that a placement must have (Step 3: 0.9).
    pub filter: f64,
    /// What moving memory takes, s/GB (Step 4: 0.3; calibrate).
    pub cost_s_per_gb: f64,
    /// Part of its running time that a process may spend on it (Step 4: 0.05).
    pub budget: f64,
    /// How long memory may follow dynamically, ms (Migration, Step 2: 2000).
    pub full_after_ms: u64,
    /// Part of the accesses to nodes left behind above which all memory follows at once (0.9).
    pub old_share: f64,
    /// Pages that a worker of the full migration takes at once (§4.3: 30,000).
    pub chunk_pages: u64,
    /// Placements looked at before a search is cut (ours). Cut searches give good placements, perhaps not the best.
    pub max_placements: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            threads: true,
            dynamic_memory: true,
            full_memory: true,
            sharing_accesses_s: 1e6,
            filter: 0.9,
            cost_s_per_gb: 0.3,
            budget: 0.05,
            full_after_ms: 2000,
            old_share: 0.9,
            chunk_pages: 30_000,
            max_placements: 50_000,
        }
    }
}

const RATE: &str = "accesses per second, 0 to 1e15";
const PART: &str = "a number from 0 to 1";
const COST: &str = "seconds per GB, 0 to 1000";
const WAIT: &str = "milliseconds, 0 to 3600000";
const PAGES: &str = "a whole number from 1 to 1000000000";
const PLACEMENTS: &str = "a whole number from 1 to 10000000";

const ENTRIES: [Entry<Settings>; 11] = [
    entry!([threads], SWITCH, on_or_off, switch),
    entry!([dynamic_memory], SWITCH, on_or_off, switch),
    entry!([full_memory], SWITCH, on_or_off, switch),
    entry!([sharing_accesses_s], RATE, f64::to_string, |text| number(
        text, 0.0, 1e15
    )),
    entry!([filter], PART, f64::to_string, |text| number(
        text, 0.0, 1.0
    )),
    entry!([cost_s_per_gb], COST, f64::to_string, |text| number(
        text, 0.0, 1000.0
    )),
    entry!([budget], PART, f64::to_string, |text| number(
        text, 0.0, 1.0
    )),
    entry!([full_after_ms], WAIT, u64::to_string, |text| number(
        text, 0, 3_600_000
    )),
    entry!([old_share], PART, f64::to_string, |text| number(
        text, 0.0, 1.0
    )),
    entry!([chunk_pages], PAGES, u64::to_string, |text| number(
        text,
        1,
        1_000_000_000
    )),
    entry!([max_placements], PLACEMENTS, u64::to_string, |text| number(
        text, 1, 10_000_000
    )),
];

by_name!(Settings, ENTRIES);
