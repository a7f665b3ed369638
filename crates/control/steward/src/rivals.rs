//! Others that move memory and threads of processes: they are named at the start, and not fought.

use std::fs;
use std::path::Path;

use egeria_pages::balancing;

/// More processes than this are not looked at.
const MAX_PROCESSES: usize = 1 << 17;

/// A line for each of them: who wins, and what to do.
pub(crate) fn notes(proc: &Path, own: u32) -> Vec<String> {
    let mut notes: Vec<String> = numa_balancing(proc).into_iter().collect();
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    for entry in entries.take(MAX_PROCESSES) {
        let process = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
        let Some(process) = process.filter(|process| *process != own) else {
            continue;
        };
        match fs::read_to_string(entry.path().join("comm")).unwrap_or_default().trim() {
            "numad" => notes.push(format!(
                "numad (process {process}) binds threads and moves memory of processes as well: threads that it bound \
                 are left where they are, and memory that it moves back twice; to have the steward alone decide: \
                 systemctl stop numad"
            )),
            "egeria" if is_steward(&entry.path()) => notes.push(format!(
                "another steward works (process {process}): threads that it bound are left where they are, and memory \
                 that it moves back twice; let one steward look after all: egeria steward --all"
            )),
            _ => {}
        }
    }
    notes
}

fn is_steward(process: &Path) -> bool {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(b"steward")
}

/// That the kernel moves memory as well, if it does.
fn numa_balancing(proc: &Path) -> Option<String> {
    balancing::is_on(proc).then(|| {
        "the kernel moves memory and threads as well (kernel.numa_balancing): processes of which only the kernel sees which \
         threads use which memory are left to it, and memory that it moves back twice; to have the steward alone decide: \
         sysctl -w kernel.numa_balancing=0"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numad_and_other_stewards_are_named_in_a_line_each() {
        let proc = tempfile::tempdir_in("/dev/shm").unwrap();
        let processes = [
            ("7", "numad", "numad\0-i\0"),
            ("8", "egeria", "/usr/bin/egeria\0steward\0--all\0"),
            ("9", "egeria", "egeria\0steward\0--all\0"),
            ("10", "egeria", "egeria\0mount\0steward\0"),
            ("self", "numad", "numad\0"),
        ];
        for (process, name, line) in processes {
            let directory = proc.path().join(process);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("comm"), format!("{name}\n")).unwrap();
            fs::write(directory.join("cmdline"), line).unwrap();
        }
        let mut notes = notes(proc.path(), 9);
        notes.sort();
        let [steward, numad] = &notes[..] else {
            panic!("{notes:?}");
        };
        assert!(
            steward.starts_with("another steward works (process 8)"),
            "{steward}"
        );
        assert!(
            numad.starts_with("numad (process 7)") && !numad.contains('\n'),
            "{numad}"
        );
    }
}
