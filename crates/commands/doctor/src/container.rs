//! Whether this is a container, and which.

use std::fs;
use std::path::Path;

/// The kind of container, as its runtime says; `None` outside of containers.
pub(crate) fn kind(root: &Path) -> Option<String> {
    let said = fs::read_to_string(root.join("run/systemd/container")).ok();
    let said = said.or_else(|| of_first_process(root));
    let said = said.filter(|kind| is_plain(kind.trim()));
    if let Some(kind) = said {
        return Some(kind.trim().to_owned());
    }
    let marks = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    let mark = marks.iter().find(|(mark, _)| root.join(mark).exists());
    if let Some((_, kind)) = mark {
        return Some((*kind).to_owned());
    }
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let named = [
        ("kubepods", "kubernetes"),
        ("/docker", "docker"),
        ("/lxc", "lxc"),
    ];
    let named = named.iter().find(|(part, _)| groups.contains(part));
    named.map(|(_, kind)| (*kind).to_owned())
}

/// The variable `container` of the first process.
fn of_first_process(root: &Path) -> Option<String> {
    let variables = fs::read(root.join("proc/1/environ")).ok()?;
    let mut variables = variables.split(|byte| *byte == 0);
    let kind = variables.find_map(|variable| variable.strip_prefix(b"container="))?;
    String::from_utf8(kind.to_vec()).ok()
}

fn is_plain(kind: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    (1..=32).contains(&kind.len()) && kind.chars().all(is_letter)
}
