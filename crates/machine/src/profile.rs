//! The profiles that ship with Egeria: machine files, compiled in.

use std::path::Path;

use crate::{Machine, MachineError, Source, file};

/// Names of the profiles.
pub(crate) const NAMES: &[&str] = &[
    "optane-2s",
    "dram-2s",
    "bulldozer-8n",
    "bulldozer-b",
    "bulldozer-c",
    "bulldozer-d",
];

/// The profile as its file says it, on no CPUs yet.
pub(crate) fn load(name: &str) -> Result<Machine, MachineError> {
    let text = match name {
        "optane-2s" => include_str!("../profiles/optane-2s.toml"),
        "dram-2s" => include_str!("../profiles/dram-2s.toml"),
        "bulldozer-8n" => include_str!("../profiles/bulldozer-8n.toml"),
        "bulldozer-b" => include_str!("../profiles/bulldozer-b.toml"),
        "bulldozer-c" => include_str!("../profiles/bulldozer-c.toml"),
        "bulldozer-d" => include_str!("../profiles/bulldozer-d.toml"),
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
