//! The settings of PATS, with the paper's defaults, also by name: `--set name=value`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::collector::Request;
pub use crate::nthread::SettingError;

/// Who decides how many threads may access persistent memory at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Controller {
    /// Eq. 1 of the paper, from what is asked for.
    Formula,
    /// What was measured with more and with fewer (ours).
    Learned,
}

impl Controller {
    /// Both.
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
            .ok_or_else(|| refused("controller", text, CONTROLLER))
    }
}

/// Everything PATS leaves to be set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Who sets the limit.
    pub controller: Controller,
    /// `T_mc`: the share of the throughput of DRAM that may be lost (§III-C: 0.2).
    pub tolerated_loss: f64,
    /// `N`: DIMMs of persistent memory that are interleaved (§V-A: 1).
    pub dimms: u32,
    /// Requests below this size never wait, bytes (§IV: 256).
    pub bypass_bytes: u64,
    /// Those of exactly that size do not wait either (Fig. 10a; the text says "less than").
    pub paper_bypass: bool,
    /// How long requests are counted for one limit, ms (the paper gives none; ours: 100).
    pub window_ms: u64,
    /// No limit is above this, threads (the paper's array length; ours: 64).
    pub most_threads: u32,
    /// `learned` takes another limit for this much more throughput of persistent memory, a share
    /// (ours: 0.03).
    pub least_gain: f64,
    /// `learned` tries the next limit at the latest after so many windows of rest (ours: 64).
    pub probe_windows: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            controller: Controller::Formula,
            tolerated_loss: 0.2,
            dimms: 1,
            bypass_bytes: 256,
            paper_bypass: false,
            window_ms: 100,
            most_threads: 64,
            least_gain: 0.03,
            probe_windows: 64,
        }
    }
}

impl Settings {
    /// Whether a request is too small to wait (§IV).
    pub fn bypasses(&self, request: Request) -> bool {
        request.bytes < self.bypass_bytes
            || (self.paper_bypass && request.bytes == self.bypass_bytes)
    }

    /// How long requests are counted for one limit, ns.
    pub fn window_ns(&self) -> u64 {
        self.window_ms.saturating_mul(1_000_000)
    }

    /// The names that [`Settings::set`] knows, each with its range in words.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        ENTRIES.iter().map(|entry| (entry.name, entry.wanted))
    }

    /// Every name with its value, as [`Settings::set`] takes it.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        ENTRIES.iter().map(|entry| (entry.name, (entry.get)(self)))
    }

    /// Checks settings that came from outside as [`Settings::set`] would.
    ///
    /// # Errors
    /// The first value out of its range.
    pub fn validate(&self) -> Result<(), SettingError> {
        let mut copy = self.clone();
        for (name, value) in self.values() {
            copy.set(name, &value)?;
        }
        Ok(())
    }

    /// Sets one setting by name.
    ///
    /// # Errors
    /// When there is no such setting (the error lists them) or the value is out of its range
    /// (the error states it); the settings are then unchanged.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let Some(entry) = ENTRIES.iter().find(|entry| entry.name == name) else {
            let known: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
            return Err(SettingError::Unknown {
                name: shown(name),
                known: known.join(", "),
            });
        };
        (entry.put)(self, value.trim()).ok_or_else(|| refused(name, value, entry.wanted))
    }

    /// Sets one setting from `name=value`.
    ///
    /// # Errors
    /// As [`Settings::set`], and without a `=`.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), SettingError> {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| refused("--set", pair, "name=value"))?;
        self.set(name.trim(), value)
    }
}

/// One setting: its name, its range in words, how to read it and how to put a value in.
struct Entry {
    name: &'static str,
    wanted: &'static str,
    get: fn(&Settings) -> String,
    put: fn(&mut Settings, &str) -> Option<()>,
}

/// An entry whose name is its place in [`Settings`].
macro_rules! entry {
    ($field:ident, $wanted:expr, $read:expr) => {
        entry!($field, $wanted, ToString::to_string, $read)
    };
    ($field:ident, $wanted:expr, $show:expr, $read:expr) => {
        Entry {
            name: stringify!($field),
            wanted: $wanted,
            get: |settings| $show(&settings.$field),
            put: |settings, text| {
                settings.$field = $read(text)?;
                Some(())
            },
        }
    };
}

const CONTROLLER: &str = "formula or learned";

const ENTRIES: [Entry; 9] = [
    entry!(controller, CONTROLLER, parsed),
    entry!(tolerated_loss, "a number from 0 to 1", |text| real(
        text, 0.0, 1.0
    )),
    entry!(dimms, "a whole number from 1 to 64", |text| whole(
        text, 1, 64
    )),
    entry!(
        bypass_bytes,
        "bytes, a whole number from 0 to 1048576",
        |text| { whole(text, 0, 1 << 20) }
    ),
    entry!(paper_bypass, "on or off", on_or_off, switch),
    entry!(
        window_ms,
        "milliseconds, a whole number from 1 to 60000",
        |text| { whole(text, 1, 60_000) }
    ),
    entry!(most_threads, "a whole number from 1 to 4096", |text| whole(
        text, 1, 4096
    )),
    entry!(least_gain, "a number from 0.001 to 1", |text| real(
        text, 0.001, 1.0
    )),
    entry!(probe_windows, "a whole number from 1 to 100000", |text| {
        whole(text, 1, 100_000)
    }),
];

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// NaN is in no range.
fn real(text: &str, least: f64, most: f64) -> Option<f64> {
    parsed(text).filter(|number| (least..=most).contains(number))
}

fn whole<T: FromStr + PartialOrd>(text: &str, least: T, most: T) -> Option<T> {
    parsed(text).filter(|number| (least..=most).contains(number))
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

fn on_or_off(&value: &bool) -> String {
    if value { "on" } else { "off" }.to_owned()
}

fn refused(name: &str, value: &str, wanted: &str) -> SettingError {
    SettingError::Value {
        name: shown(name),
        value: shown(value),
        wanted: wanted.to_owned(),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}
