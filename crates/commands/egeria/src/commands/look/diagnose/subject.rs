//! What else is known of a program: its unit, and its command line.

use std::fs;

use egeria_facts::CpuSet;
use egeria_machine::{CpuId, Machine, NodeId, format_cpu_list};
use egeria_pages::areas::{self, Area};
use egeria_proc::{hierarchy, living};

/// Longer command lines are cut to the program's name.
const MAX_COMMAND_BYTES: usize = 200;
/// Shared memory counts from one part in this number on, and from this size on: every process shares its libraries.
const SHARED_PARTS: u64 = 10;
const MIN_SHARED_BYTES: u64 = 16 << 20;

/// What repairs refer to.
#[derive(Debug, Default)]
pub(in super::super) struct Subject {
    pub(super) process_id: u32,
    /// The unit of systemd that it belongs to.
    pub(in super::super) unit: Option<String>,
    /// Its command line, as a shell takes it.
    pub(in super::super) command: String,
    /// CPUs that its control group allows; `None` where that is not known.
    pub(super) group_cpus: Option<CpuSet>,
}

impl Subject {
    /// A program of a recording, of which nothing else is known.
    pub(super) fn recorded(process_id: u32) -> Subject {
        Subject {
            process_id,
            command: command(&[]),
            ..Subject::default()
        }
    }

    pub(in super::super) fn of(process_id: u32) -> Subject {
        let group = group_of(process_id);
        let text = fs::read(living::path(process_id, "cmdline")).unwrap_or_default();
        Subject {
            process_id,
            unit: group.as_deref().and_then(unit_in).map(str::to_owned),
            command: command(&text),
            group_cpus: group.as_deref().and_then(cpus_of_group),
        }
    }
}

/// CPUs of a node, as the kernel lists them; `None` where it has none.
pub(super) fn cpus_of(machine: &Machine, node: NodeId) -> Option<String> {
    let node = machine.node(node).filter(|node| !node.cpus.is_empty())?;
    Some(format_cpu_list(&node.cpus))
}

/// CPUs of a node as a set.
pub(super) fn cpu_set(machine: &Machine, node: NodeId) -> CpuSet {
    let node = machine.node(node);
    let cpus = node.into_iter().flat_map(|node| node.cpus.iter());
    cpus.copied().collect::<Vec<CpuId>>().into_iter().collect()
}

/// The control group (version 2) of a process, by its path within the hierarchy.
fn group_of(process_id: u32) -> Option<String> {
    let text = fs::read_to_string(living::path(process_id, "cgroup")).ok()?;
    let group = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(group.to_owned())
}

/// The service that a control group belongs to.
fn unit_in(group: &str) -> Option<&str> {
    let mut parts = group.rsplit('/');
    parts.find(|part| part.ends_with(".service") && !part.starts_with("user@"))
}

fn cpus_of_group(group: &str) -> Option<CpuSet> {
    let directory = hierarchy()?.join(group.trim_start_matches('/'));
    let text = fs::read_to_string(directory.join("cpuset.cpus.effective")).ok()?;
    text.trim().parse().ok()
}

/// A command line that a shell takes; of a long one, its program.
fn command(arguments: &[u8]) -> String {
    let text = String::from_utf8_lossy(arguments);
    let words: Vec<&str> = text.trim_end_matches('\0').split('\0').collect();
    let whole = words.iter().map(|word| quote(word));
    let whole = whole.collect::<Vec<String>>().join(" ");
    let is_plain = !whole.chars().any(char::is_control);
    // PostgreSQL and others replace their arguments by one line of words on their state.
    let is_title = words.len() == 1 && words[0].contains(": ") && !words[0].starts_with('/');
    match words.first() {
        Some(&"") => "COMMAND".to_owned(),
        Some(_) if is_title => "COMMAND".to_owned(),
        Some(_) if whole.len() <= MAX_COMMAND_BYTES && is_plain => whole,
        Some(program) => format!("{} ARGUMENTS", quote(program)),
        None => "COMMAND".to_owned(),
    }
}

/// Whether other processes have mapped, too, a tenth or more of what a process has on other nodes than this and may move.
/// `egeria move` leaves such memory unless `--mapped` is given.
pub(super) fn is_shared_outside(process_id: u32, node: NodeId) -> bool {
    areas::of(process_id).is_ok_and(|areas| is_much_shared(&areas, node))
}

fn is_much_shared(areas: &[Area], node: NodeId) -> bool {
    let movable = areas.iter().filter(|area| area.allows(node));
    let elsewhere = movable.flat_map(|area| {
        let bytes = area.bytes.iter().filter(|on| on.0 != node);
        bytes.map(|on| (area.mappers > 1, on.1))
    });
    let (mut shared, mut all) = (0_u64, 0_u64);
    for (is_shared, bytes) in elsewhere {
        all = all.saturating_add(bytes);
        shared = shared.saturating_add(if is_shared { bytes } else { 0 });
    }
    shared >= MIN_SHARED_BYTES && shared >= all / SHARED_PARTS
}

/// A word that a shell takes as it is.
pub(super) fn quote(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_quoted_and_a_long_one_cut() {
        assert_eq!(
            command(b"postgres\0-D\0/var/lib/a b\0"),
            "postgres -D '/var/lib/a b'"
        );
        assert_eq!(command(b"a\0it's\0"), r"a 'it'\''s'");
        assert_eq!(command(b"a\0$(reboot)\0"), "a '$(reboot)'");
        assert_eq!(command(b"a\0\x1b[2J\0"), "a ARGUMENTS");
        assert_eq!(
            command(&[b'x'; 300]),
            format!("{} ARGUMENTS", "x".repeat(300))
        );
        assert_eq!(command(b""), "COMMAND");
        assert_eq!(command(b"postgres: app [local] idle\0\0\0"), "COMMAND");
    }

    #[test]
    fn memory_is_shared_if_others_map_a_tenth_of_what_is_elsewhere() {
        let area = |mappers, on: &[(u16, u64)]| Area {
            range: 0..4096,
            page_bytes: 4096,
            bound_to: None,
            is_interleaved: false,
            bytes: (on.iter())
                .map(|(node, mib)| (NodeId(*node), mib << 20))
                .collect(),
            file: None,
            mappers,
        };
        let own = area(1, &[(0, 900), (1, 50)]);
        let is_shared = |areas: &[Area]| is_much_shared(areas, NodeId(1));
        assert!(is_shared(&[own.clone(), area(2, &[(0, 101)])]));
        assert!(
            !is_shared(&[own.clone(), area(2, &[(0, 90)])]),
            "too little"
        );
        assert!(
            !is_shared(&[own.clone(), area(9, &[(1, 500)])]),
            "it is there"
        );
        assert!(!is_shared(&[area(9, &[(0, 8)])]), "libraries");
        let bound = Area {
            bound_to: Some(vec![NodeId(0)]),
            ..area(3, &[(0, 500)])
        };
        assert!(!is_shared(&[own, bound]), "it may not move");
    }

    #[test]
    fn a_service_is_found_in_a_control_group() {
        let unit = |group| unit_in(group);
        assert_eq!(
            unit("/system.slice/postgresql.service"),
            Some("postgresql.service")
        );
        assert_eq!(unit("/system.slice/a.service/inner"), Some("a.service"));
        assert_eq!(unit("/user.slice/user@0.service/app.slice"), None);
        assert_eq!(unit("/"), None);
    }
}
