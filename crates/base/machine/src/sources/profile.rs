//! The profiles that ship with Egeria: machine files, compiled in.

use std::path::Path;

use crate::sources::file;
use crate::{Machine, MachineError, Source};

/// Names of the profiles and their files.
macro_rules! profiles {
    ($($name:literal),* $(,)?) => {
        /// Names of the profiles.
        pub(crate) const NAMES: &[&str] = &[$($name),*];

        fn text(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../../profiles/", $name, ".toml"))),)*
                _ => None,
            }
        }

        /// The measurements that a profile cites.
        pub(crate) fn facts_text(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../../facts/", $name, ".toml"))),)*
                _ => None,
            }
        }
    };
}

profiles! {
    "optane-1s",
    "optane-1s-2i",
    "optane-1s-3i",
    "optane-1s-dimc",
    "optane-2s",
    "optane-4s-emulated",
    "odin-8s",
    "dram-2s",
    "bulldozer-8n",
    "bulldozer-b",
    "bulldozer-c",
    "bulldozer-d",
    "epyc-2s-cxl",
    "epyc-2s-nps4",
    "xeon-2s-dram",
    "xeon-2s-snc4",
}

/// The profile as its file says it, on no CPUs yet.
pub(crate) fn load(name: &str) -> Result<Machine, MachineError> {
    let text = text(name).ok_or_else(|| unknown(name))?;
    let origin = format!("profile {name}");
    let mut machine = file::parse(text, Path::new(&origin))?;
    machine.source = Source::Profile(name.to_owned());
    Ok(machine)
}

/// The error for a name that is no profile.
pub(crate) fn unknown(name: &str) -> MachineError {
    MachineError::UnknownProfile {
        name: name.chars().take(80).collect(),
        known: NAMES.join(", "),
    }
}
