//! What a trace says about itself: JSON, so that later versions can add to it.

use std::path::Path;

use egeria_machine::{CpuId, MAX_CPUS, Machine, Source};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::codec::Damage;

/// Arguments of the command that are kept, and characters of each.
const MAX_ARGUMENTS: usize = 256;
const MAX_ARGUMENT_CHARS: usize = 1024;

/// What was recorded, when, and under which policy. Whether the machine was emulated is said by
/// the machine itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceHeader {
    /// The volume watched; `None` when no volume of Egeria was.
    pub volume: Option<Uuid>,
    /// The command that was run, as text; empty when a volume was watched. Long ones are cut.
    pub command: Vec<String>,
    /// The policy that moved threads during the recording, as `off` or `full`.
    pub policy: String,
    /// When the recording began, ns since 1970 on the wall clock.
    pub started_unix_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct Document {
    started_unix_ns: u64,
    volume: Option<String>,
    command: Vec<String>,
    policy: String,
    /// Where the machine's description came from.
    source: Source,
    /// A machine file (TOML): reading it checks it.
    machine: String,
    /// The CPUs that emulated nodes stood on when there were fewer than nodes, in order: a machine file cannot say
    /// that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shared_cpus: Vec<CpuId>,
}

/// CPUs that several nodes stand on; none where each has its own.
fn shared_cpus(machine: &Machine) -> Vec<CpuId> {
    let mut cpus: Vec<CpuId> = Vec::new();
    let mut is_shared = false;
    for cpu in machine.nodes.iter().flat_map(|node| &node.cpus) {
        if cpus.contains(cpu) {
            is_shared = true
        } else {
            cpus.push(*cpu)
        }
    }
    if is_shared { cpus } else { Vec::new() }
}

/// The header as bytes.
pub(crate) fn write(header: &TraceHeader, machine: &Machine) -> Vec<u8> {
    let cut = |argument: &String| argument.chars().take(MAX_ARGUMENT_CHARS).collect();
    let document = Document {
        started_unix_ns: header.started_unix_ns,
        volume: header.volume.as_ref().map(Uuid::to_string),
        command: header.command.iter().take(MAX_ARGUMENTS).map(cut).collect(),
        policy: cut(&header.policy),
        source: machine.source.clone(),
        machine: machine.to_toml(),
        shared_cpus: shared_cpus(machine),
    };
    serde_json::to_vec(&document).expect("strings and numbers become JSON")
}

/// What [`write`] wrote.
pub(crate) fn read(bytes: &[u8], path: &Path) -> Result<(TraceHeader, Machine), Damage> {
    let document: Document = serde_json::from_slice(bytes)
        .map_err(|error| Damage(format!("its header makes no sense ({})", one_line(&error))))?;
    let volume = document.volume.as_deref().map(Uuid::parse_str).transpose();
    let volume = volume.map_err(|_| Damage::new("its volume has no UUID"))?;
    let mut machine = Machine::from_toml(&document.machine, path)
        .map_err(|error| Damage(format!("its machine makes no sense ({})", one_line(&error))))?;
    machine.source = document.source;
    let shared = document.shared_cpus;
    let is_possible = |cpu: &CpuId| usize::from(cpu.0) < MAX_CPUS;
    if shared.len() >= machine.nodes.len().max(1) || !shared.iter().all(is_possible) {
        return Err(Damage::new("its nodes stand on impossible CPUs"));
    }
    let machine = machine.stand_on_cpus(&shared);
    let header = TraceHeader {
        volume,
        command: document.command,
        policy: document.policy,
        started_unix_ns: document.started_unix_ns,
    };
    Ok((header, machine))
}

/// What it says quotes the file: nothing of that may end the line or steer a terminal.
fn one_line(error: &impl std::fmt::Display) -> String {
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    error.to_string().chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_parts_of_a_header_have_no_control_characters() {
        let documents = [
            r#"{"started_unix_ns": 1, "source": {"new\nline \u001b[31m": ""}}"#,
            r#"{"started_unix_ns": 1, "source": {"profile": "x"}, "volume": null, "command": [],
                "policy": "", "machine": "new\nline \u001b[31m"}"#,
        ];
        for document in documents {
            let Err(Damage(what)) = read(document.as_bytes(), Path::new("trace")) else {
                panic!("{document} makes no sense");
            };
            assert!(!what.contains(char::is_control), "{what:?}");
            assert!(what.contains("makes no sense"), "{what:?}");
        }
    }
}
