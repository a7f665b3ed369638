//! Settings by name: `--set name=value`.

use super::settings::{SettingError, Settings};

/// One setting: its name, its range in words, how to read it and how to put a value in.
struct Entry {
    name: &'static str,
    wanted: &'static str,
    get: fn(&Settings) -> String,
    put: fn(&mut Settings, &str) -> Option<()>,
}

/// An entry whose name is its place in [`Settings`], or below a part of it.
macro_rules! entry {
    ($($part:ident .)? [$field:ident], $wanted:expr, $show:expr, $read:expr) => {
        Entry {
            name: stringify!($field),
            wanted: $wanted,
            get: |settings| $show(&settings.$($part.)?$field),
            put: |settings, text| put(&mut settings.$($part.)?$field, $read(text)),
        }
    };
}

const SHARE: &str = "a number above 0, up to 1000 (1 is all)";
const RATE: &str = "bytes per second, 0 to 1e15";
const FACTOR: &str = "a number from 1 to 1000";
const SWITCH: &str = "on or off";
const MAXIMUM: &str = "bytes per second, 1 to 1e15, or auto";
const WEIGHT: &str = "a number from 0 to 1";
const DIMMS: &str = "a whole number from 1 to 64, or auto";

const ENTRIES: [Entry; 16] = [
    entry!(stages.[remote], SWITCH, on_or_off, switch),
    entry!(stages.[cpu], SWITCH, on_or_off, switch),
    entry!(stages.[pm], SWITCH, on_or_off, switch),
    entry!(stages.[sharing], SWITCH, on_or_off, switch),
    entry!([read_margin_bytes_s], RATE, f64::to_string, rate),
    entry!([read_weight], WEIGHT, f64::to_string, weight),
    entry!([pm_limit], SHARE, f64::to_string, share),
    entry!([pm_ratio], FACTOR, f64::to_string, factor),
    entry!([pm_return], SHARE, f64::to_string, share),
    entry!([cpu_limit], SHARE, f64::to_string, share),
    entry!([cpu_ratio], FACTOR, f64::to_string, factor),
    entry!([cpu_return], SHARE, f64::to_string, share),
    entry!([least_io_bytes_s], RATE, f64::to_string, rate),
    entry!([dimm_read_bytes_s], MAXIMUM, value_or_auto, maximum),
    entry!([dimm_write_bytes_s], MAXIMUM, value_or_auto, maximum),
    entry!([dimms], DIMMS, value_or_auto, dimms),
];

impl Settings {
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

    /// Sets one setting by name: what `--set name=value` means.
    ///
    /// # Errors
    /// When there is no such setting (the error lists them) or the value is out of its range
    /// (the error states it); the settings are then unchanged.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let entry = ENTRIES.iter().find(|entry| entry.name == name);
        let Some(entry) = entry else {
            let known: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
            return Err(SettingError::Unknown {
                name: name.chars().take(40).collect(),
                known: known.join(", "),
            });
        };
        (entry.put)(self, value.trim())
            .ok_or_else(|| SettingError::value(name, value, entry.wanted))
    }

    /// Sets one setting from `name=value`.
    ///
    /// # Errors
    /// As [`Settings::set`], and without a `=`.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), SettingError> {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| SettingError::value("--set", pair, "name=value"))?;
        self.set(name.trim(), value)
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

/// NaN is in no range.
fn number(text: &str, least: f64, most: f64) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (least..=most).contains(&number).then_some(number)
}

fn rate(text: &str) -> Option<f64> {
    number(text, 0.0, 1e15)
}

fn weight(text: &str) -> Option<f64> {
    number(text, 0.0, 1.0)
}

fn factor(text: &str) -> Option<f64> {
    number(text, 1.0, 1000.0)
}

fn share(text: &str) -> Option<f64> {
    number(text, f64::MIN_POSITIVE, 1000.0)
}

fn maximum(text: &str) -> Option<Option<f64>> {
    or_auto(text, || number(text, 1.0, 1e15))
}

fn dimms(text: &str) -> Option<Option<u32>> {
    or_auto(text, || {
        text.parse().ok().filter(|count| (1..=64).contains(count))
    })
}

/// `auto` is the machine's own value, kept as `None`.
fn or_auto<T>(text: &str, read: impl Fn() -> Option<T>) -> Option<Option<T>> {
    match text {
        "auto" => Some(None),
        _ => read().map(Some),
    }
}

fn value_or_auto<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map_or("auto".to_owned(), T::to_string)
}

fn on_or_off(&value: &bool) -> String {
    if value { "on" } else { "off" }.to_owned()
}
