//! Settings of the planner by name: its own as `relocation.horizon_ms`, those of the policies as
//! `pats.tolerated_loss`; a name without a dot is NThread's, as the steward takes it.

use super::settings::{Budget, Delegation, Feedback, Limits, Relocation, Settings, Stages};
use crate::SettingError;
use crate::setting::{Entry, SWITCH, by_name, entry, number, on_or_off, switch};

const BYTES: &str = "bytes, a whole number from 0 to 1099511627776";
const STRIPE: &str = "bytes, a whole number from 4096 to 1073741824";
const SHARE: &str = "a number from 0 to 1";
const PART: &str = "a number from 0.001 to 1";
const RATE: &str = "bytes per second, 0 to 1e15";
const WINDOWS: &str = "windows, a whole number from 1 to 100000";

const STAGES: [Entry<Stages>; 9] = [
    entry!([together], SWITCH, on_or_off, switch),
    entry!([clusters], SWITCH, on_or_off, switch),
    entry!([bandwidth], SWITCH, on_or_off, switch),
    entry!([relocation], SWITCH, on_or_off, switch),
    entry!([limits], SWITCH, on_or_off, switch),
    entry!([delegation], SWITCH, on_or_off, switch),
    entry!([mba], SWITCH, on_or_off, switch),
    entry!([budget], SWITCH, on_or_off, switch),
    entry!([feedback], SWITCH, on_or_off, switch),
];

const LIMITS: [Entry<Limits>; 2] = [
    entry!([always], SWITCH, on_or_off, switch),
    entry!([rest_windows], WINDOWS, u32::to_string, windows),
];

const DELEGATION: [Entry<Delegation>; 7] = [
    entry!([always], SWITCH, on_or_off, switch),
    entry!([stripe_bytes], STRIPE, u64::to_string, |text| number(
        text,
        4096,
        1 << 30
    )),
    entry!([min_read_bytes], BYTES, u64::to_string, bytes),
    entry!([min_write_bytes], BYTES, u64::to_string, bytes),
    entry!(
        [delegates_per_node],
        "a whole number from 0 to 4096",
        u32::to_string,
        |text| number(text, 0, 4096)
    ),
    entry!([remote_limit], SHARE, f64::to_string, share),
    entry!([rest_windows], WINDOWS, u32::to_string, windows),
];

const RELOCATION: [Entry<Relocation>; 8] = [
    entry!(
        [horizon_ms],
        "milliseconds, a whole number from 1 to 86400000",
        u64::to_string,
        |text| number(text, 1, 86_400_000)
    ),
    entry!([max_written_share], SHARE, f64::to_string, share),
    entry!([min_read_bytes_s], RATE, f64::to_string, rate),
    entry!([copy_share], PART, f64::to_string, |text| number(
        text, 0.001, 1.0
    )),
    entry!(
        [max_steps],
        "a whole number from 1 to 1000",
        u32::to_string,
        |text| number(text, 1, 1000)
    ),
    entry!([cold_bytes_s], RATE, f64::to_string, rate),
    entry!([replicas], SWITCH, on_or_off, switch),
    entry!([rest_windows], WINDOWS, u32::to_string, windows),
];

const BUDGET: [Entry<Budget>; 2] = [
    entry!([share], SHARE, f64::to_string, share),
    entry!(
        [thread_move_ns],
        "nanoseconds, a whole number from 0 to 1000000000",
        u64::to_string,
        |text| number(text, 0, 1_000_000_000)
    ),
];

const FEEDBACK: [Entry<Feedback>; 3] = [
    entry!([rest_windows], WINDOWS, u32::to_string, windows),
    entry!([trial_windows], WINDOWS, u32::to_string, windows),
    entry!([retry_windows], WINDOWS, u32::to_string, windows),
];

by_name!(Feedback, FEEDBACK);
by_name!(Stages, STAGES);
by_name!(Limits, LIMITS);
by_name!(Delegation, DELEGATION);
by_name!(Relocation, RELOCATION);
by_name!(Budget, BUDGET);

/// What names begin with.
const PARTS: [&str; 11] = [
    "stages.…",
    "nthread.…",
    "pats.…",
    "asymsched.…",
    "together.…",
    "limits.…",
    "delegation.…",
    "relocation.…",
    "mba.…",
    "budget.…",
    "feedback.…",
];

impl Settings {
    /// The names that [`Settings::set`] accepts, each with its range in words.
    pub fn names() -> Vec<(String, &'static str)> {
        let mut all = Vec::new();
        let mut add =
            |part: &str, names: &mut dyn Iterator<Item = (&'static str, &'static str)>| {
                all.extend(names.map(|(name, wanted)| (format!("{part}.{name}"), wanted)));
            };
        add("stages", &mut Stages::names());
        add("nthread", &mut crate::nthread::Settings::names());
        add("pats", &mut crate::pats::Settings::names());
        add("asymsched", &mut crate::asymsched::Settings::names());
        add("together", &mut crate::together::Settings::names());
        add("limits", &mut Limits::names());
        add("delegation", &mut Delegation::names());
        add("relocation", &mut Relocation::names());
        add("mba", &mut crate::mba::Settings::names());
        add("budget", &mut Budget::names());
        add("feedback", &mut Feedback::names());
        all
    }

    /// Every name with its value, as [`Settings::set`] takes it.
    pub fn values(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut add = |part: &str, values: &mut dyn Iterator<Item = (&'static str, String)>| {
            all.extend(values.map(|(name, value)| (format!("{part}.{name}"), value)));
        };
        add("stages", &mut self.stages.values());
        add("nthread", &mut self.nthread.values());
        add("pats", &mut self.pats.values());
        add("asymsched", &mut self.asymsched.values());
        add("together", &mut self.together.values());
        add("limits", &mut self.limits.values());
        add("delegation", &mut self.delegation.values());
        add("relocation", &mut self.relocation.values());
        add("mba", &mut self.mba.values());
        add("budget", &mut self.budget.values());
        add("feedback", &mut self.feedback.values());
        all
    }

    /// Sets one setting by name: what `--set name=value` means.
    ///
    /// # Errors
    /// When there is no such setting (the error lists what there is) or the value is out of its range (the error states
    /// it); the settings are then unchanged.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let (part, own) = name.split_once('.').unwrap_or(("nthread", name));
        match part {
            "stages" => self.stages.set(own, value),
            "nthread" => self.nthread.set(own, value),
            "pats" => self.pats.set(own, value),
            "asymsched" => self.asymsched.set(own, value),
            "together" => self.together.set(own, value),
            "limits" => self.limits.set(own, value),
            "delegation" => self.delegation.set(own, value),
            "relocation" => self.relocation.set(own, value),
            "mba" => self.mba.set(own, value),
            "budget" => self.budget.set(own, value),
            "feedback" => self.feedback.set(own, value),
            _ => Err(SettingError::unknown(name, &PARTS)),
        }
    }

    /// Sets one setting from `name=value`.
    ///
    /// # Errors
    /// Those of [`Settings::set`], and a missing `=`.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), SettingError> {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| SettingError::value("--set", pair, "name=value"))?;
        self.set(name.trim(), value)
    }

    /// Checks settings that came from outside as [`Settings::set`] would.
    ///
    /// # Errors
    /// The first value out of its range.
    pub fn validate(&self) -> Result<(), SettingError> {
        let mut copy = self.clone();
        for (name, value) in self.values() {
            copy.set(&name, &value)?;
        }
        Ok(())
    }
}

fn bytes(text: &str) -> Option<u64> {
    number(text, 0, 1 << 40)
}

fn share(text: &str) -> Option<f64> {
    number(text, 0.0, 1.0)
}

fn rate(text: &str) -> Option<f64> {
    number(text, 0.0, 1e15)
}

fn windows(text: &str) -> Option<u32> {
    number(text, 1, 100_000)
}
