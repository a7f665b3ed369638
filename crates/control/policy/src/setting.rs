//! Settings by name, as `--set name=value` gives them: what those of all policies have in common.

use std::str::FromStr;

/// Why a setting was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error("no setting {name:?}; use one of {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// It would change nothing in the way it was given.
    #[error("{name} changes nothing here; it acts with {needs}")]
    Idle {
        /// Which setting.
        name: String,
        /// What it acts with.
        needs: String,
    },
    /// The value is not one it can have.
    #[error("{name} cannot be {value:?}; use {wanted}")]
    Value {
        /// Which setting.
        name: String,
        /// What was asked for.
        value: String,
        /// What it can be.
        wanted: String,
    },
}

impl SettingError {
    pub(crate) fn unknown(name: &str, known: &[&str]) -> SettingError {
        SettingError::Unknown {
            name: shown(name),
            known: known.join(", "),
        }
    }

    pub(crate) fn value(name: &str, value: &str, wanted: &str) -> SettingError {
        SettingError::Value {
            name: shown(name),
            value: shown(value),
            wanted: wanted.to_owned(),
        }
    }
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// One setting of `S`: its name, its range in words, how to read it and how to put a value in.
pub(crate) struct Entry<S> {
    pub(crate) name: &'static str,
    pub(crate) wanted: &'static str,
    pub(crate) get: fn(&S) -> String,
    /// `None`, and nothing changed, when the text is not in the range.
    pub(crate) put: fn(&mut S, &str) -> Option<()>,
}

/// An [`Entry`] named after a field of the settings, or of a part of them.
macro_rules! entry {
    ($($part:ident .)? [$field:ident], $wanted:expr, $show:expr, $read:expr) => {
        $crate::setting::Entry {
            name: stringify!($field),
            wanted: $wanted,
            get: |settings| $show(&settings.$($part.)?$field),
            put: |settings, text| {
                settings.$($part.)?$field = $read(text)?;
                Some(())
            },
        }
    };
}

/// Gives settings their names: `ENTRIES` is a list of [`Entry`].
macro_rules! by_name {
    ($settings:ident, $entries:ident) => {
        impl $settings {
            /// The names that [`Self::set`] knows, each with its range in words.
            pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
                $entries.iter().map(|entry| (entry.name, entry.wanted))
            }

            /// Every name with its value, as [`Self::set`] takes it.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
                $entries.iter().map(|entry| (entry.name, (entry.get)(self)))
            }

            /// Checks settings that came from outside as [`Self::set`] would.
            ///
            /// # Errors
            /// The first value out of its range.
            pub fn validate(&self) -> Result<(), $crate::SettingError> {
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
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), $crate::SettingError> {
                let Some(entry) = $entries.iter().find(|entry| entry.name == name) else {
                    let known: Vec<&str> = $entries.iter().map(|entry| entry.name).collect();
                    return Err($crate::SettingError::unknown(name, &known));
                };
                (entry.put)(self, value.trim())
                    .ok_or_else(|| $crate::SettingError::value(name, value, entry.wanted))
            }

            /// Sets one setting from `name=value`.
            ///
            /// # Errors
            /// Those of [`Self::set`], and a missing `=`.
            pub fn set_pair(&mut self, pair: &str) -> Result<(), $crate::SettingError> {
                let (name, value) = pair
                    .split_once('=')
                    .ok_or_else(|| $crate::SettingError::value("--set", pair, "name=value"))?;
                self.set(name.trim(), value)
            }
        }
    };
}

pub(crate) use {by_name, entry};

/// A number in a range; NaN is in none.
pub(crate) fn number<T: FromStr + PartialOrd>(text: &str, least: T, most: T) -> Option<T> {
    let number = text.parse().ok()?;
    (least..=most).contains(&number).then_some(number)
}

pub(crate) const SWITCH: &str = "on or off";

pub(crate) fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

pub(crate) fn on_or_off(&value: &bool) -> String {
    if value { "on" } else { "off" }.to_owned()
}
