//! The settings of PATS, with the paper's defaults, also by name: `--set name=value`.

use std::fmt;
use std::str::FromStr;

use egeria_admission::Bypass;
use egeria_machine::Machine;
use serde::{Deserialize, Serialize};

use crate::SettingError;
use crate::media::modules;
use crate::setting::{Entry, SWITCH, by_name, entry, number, on_or_off, switch};

/// What decides how many threads may access persistent memory at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Controller {
    /// Eq. 1 of the paper, from what is asked for.
    Formula,
    /// What was measured with more and with fewer (ours).
    Learned,
}

impl Controller {
    pub const ALL: [Controller; 2] = [Controller::Formula, Controller::Learned];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Controller::Formula => "formula",
            Controller::Learned => "learned",
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Controller {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Controller, SettingError> {
        let mut all = Controller::ALL.into_iter();
        all.find(|each| each.name() == text)
            .ok_or_else(|| SettingError::value("controller", text, CONTROLLER))
    }
}

/// Everything PATS leaves to be set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// What sets the limit.
    pub controller: Controller,
    /// `T_mc`: the share of the throughput of DRAM that may be lost (§III-C: 0.2).
    pub tolerated_loss: f64,
    /// `N`: DIMMs of persistent memory that are interleaved (§V-A: 1).
    pub dimms: u32,
    /// Requests below this size never wait, bytes (§IV: 256).
    pub bypass_bytes: u64,
    /// Those of exactly that size do not wait either (Fig. 10a; the text says "less than").
    pub paper_bypass: bool,
    /// No limit is above this, threads (the paper's array length; ours: 64).
    pub max_threads: u32,
    /// `learned` takes another limit for this much more throughput of persistent memory, a share
    /// (ours: 0.03).
    pub min_gain: f64,
    /// `learned` tries the next limit after at most this number of windows of rest (ours: 64).
    pub probe_windows: u32,
}

impl Settings {
    /// `N` of Eq. 1 is a fact of the machine. If the machine has it, and the setting is the default, it is used.
    pub(crate) fn on_node(&self, machine: &Machine, index: usize) -> Settings {
        let mut own = self.clone();
        if own.dimms == Settings::default().dimms {
            own.dimms = modules(machine, index).unwrap_or(own.dimms);
        }
        own
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            controller: Controller::Formula,
            tolerated_loss: 0.2,
            dimms: 1,
            bypass_bytes: 256,
            paper_bypass: false,
            max_threads: 64,
            min_gain: 0.03,
            probe_windows: 64,
        }
    }
}

impl Settings {
    /// Which requests are too small to wait (§IV).
    pub fn bypass(&self) -> Bypass {
        Bypass {
            below_bytes: self.bypass_bytes,
            includes_equal: self.paper_bypass,
        }
    }
}

const CONTROLLER: &str = "formula or learned";

const ENTRIES: [Entry<Settings>; 8] = [
    entry!(
        [controller],
        CONTROLLER,
        ToString::to_string,
        |text: &str| text.parse().ok()
    ),
    entry!(
        [tolerated_loss],
        "a number from 0 to 1",
        ToString::to_string,
        |text| number(text, 0.0, 1.0)
    ),
    entry!(
        [dimms],
        "a whole number from 1 to 64",
        ToString::to_string,
        |text| number(text, 1, 64)
    ),
    entry!(
        [bypass_bytes],
        "bytes, a whole number from 0 to 1048576",
        ToString::to_string,
        |text| { number(text, 0, 1 << 20) }
    ),
    entry!([paper_bypass], SWITCH, on_or_off, switch),
    entry!(
        [max_threads],
        "a whole number from 1 to 4096",
        ToString::to_string,
        |text| number(text, 1, 4096)
    ),
    entry!(
        [min_gain],
        "a number from 0.001 to 1",
        ToString::to_string,
        |text| number(text, 0.001, 1.0)
    ),
    entry!(
        [probe_windows],
        "a whole number from 1 to 100000",
        ToString::to_string,
        |text| { number(text, 1, 100_000) }
    ),
];

by_name!(Settings, ENTRIES);
