//! The profiles that ship with Egeria: machine files, compiled in.

use std::path::Path;

use crate::{Machine, MachineError, Source, file};

/// Names of the profiles.
pub(crate) const NAMES: &[&str] = &["optane-2s", "dram-2s"];

/// The profile as its file says it, on no CPUs yet.
pub(crate) fn load(name: &str) -> Result<Machine, MachineError> {
    let text = match name {
        "optane-2s" => include_str!("../profiles/optane-2s.toml"),
        "dram-2s" => include_str!("../profiles/dram-2s.toml"),
        _ => return Err(unknown(name)),
    };
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
