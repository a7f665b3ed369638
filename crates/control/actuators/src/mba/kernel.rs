//! The kernel's side: groups of threads below the mounted resctrl, and what threads there are.

use std::collections::{BTreeSet, HashMap};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use egeria_facts::{ProcessKey, ThreadKey};
use egeria_machine::read_text;
use egeria_machine::resctrl::RESCTRL;
use egeria_proc::task;

/// Lists of threads are shorter: 4 million threads with their numbers.
const MAX_BYTES: u64 = 64 << 20;
/// Directories of resctrl that are no groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// What changes groups. Paths are relative to where resctrl is mounted; a group is a directory there, and the default
/// group is the empty path.
pub(crate) trait Kernel: Send {
    /// Where resctrl is mounted.
    fn mounted(&self) -> &Path;

    fn make(&self, group: &str) -> io::Result<()>;

    /// Its threads go to the default group.
    fn remove(&self, group: &str) -> io::Result<()>;

    /// Writes one line into a file.
    fn write(&self, file: &str, line: &str) -> io::Result<()>;

    /// The threads of a process; none when it is gone.
    fn threads(&self, process: ProcessKey) -> Vec<ThreadKey>;

    /// The process of a thread; `None` when it is gone.
    fn process_of(&self, thread_id: u32) -> Option<u32>;

    /// The parent of a process; `None` when one of them is gone.
    fn parent(&self, process_id: u32) -> Option<u32>;
}

/// The kernel of this machine.
pub(crate) struct Resctrl {
    mounted: PathBuf,
}

impl Resctrl {
    /// Below the root of the file system.
    pub(crate) fn below(root: &Path) -> Resctrl {
        Resctrl {
            mounted: root.join(RESCTRL),
        }
    }
}

impl Kernel for Resctrl {
    fn mounted(&self) -> &Path {
        &self.mounted
    }

    fn make(&self, group: &str) -> io::Result<()> {
        std::fs::create_dir(self.mounted.join(group))
    }

    fn remove(&self, group: &str) -> io::Result<()> {
        std::fs::remove_dir(self.mounted.join(group))
    }

    fn write(&self, file: &str, line: &str) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .open(self.mounted.join(file))?;
        // The kernel takes a line that comes in one piece.
        file.write_all(format!("{line}\n").as_bytes())
    }

    fn threads(&self, process: ProcessKey) -> Vec<ThreadKey> {
        let process_id = process.process_id;
        if !task::lives(process) {
            return Vec::new();
        }
        let key = |thread_id: u32| {
            let start_ticks = task::start_ticks(process_id, thread_id)?;
            Some(ThreadKey {
                process_id,
                thread_id,
                start_ticks,
            })
        };
        task::threads(process_id)
            .into_iter()
            .filter_map(key)
            .collect()
    }

    fn process_of(&self, thread_id: u32) -> Option<u32> {
        task::process_of(thread_id)
    }

    fn parent(&self, process_id: u32) -> Option<u32> {
        task::parent(process_id)
    }
}

/// A file of resctrl; `None` if it is not there.
pub(crate) fn read(kernel: &dyn Kernel, file: &str) -> Option<String> {
    let path = kernel.mounted().join(file);
    read_text(&path, MAX_BYTES, "mount resctrl again").ok()
}

/// A file of a group.
pub(crate) fn in_group(group: &str, file: &str) -> String {
    if group.is_empty() {
        file.to_owned()
    } else {
        format!("{group}/{file}")
    }
}

/// The threads of a group; of the default one, those of its monitoring groups as well.
pub(crate) fn threads_in(kernel: &dyn Kernel, group: &str) -> BTreeSet<u32> {
    let text = read(kernel, &in_group(group, "tasks")).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}

/// The group of each thread that is in none of these: the default group, and the one that is left out.
pub(crate) fn threads_elsewhere(kernel: &dyn Kernel, left_out: &str) -> HashMap<u32, String> {
    let mut groups = directories(kernel, "");
    groups.retain(|name| name != left_out && !NO_GROUPS.contains(&name.as_str()));
    by_thread(kernel, groups)
}

/// The monitoring group of the default group that each thread is in, if it is in one.
pub(crate) fn monitored_threads(kernel: &dyn Kernel) -> HashMap<u32, String> {
    let names = monitoring_groups(kernel, "").into_iter();
    by_thread(kernel, names.map(|name| format!("mon_groups/{name}")))
}

/// The monitoring groups of a group.
pub(crate) fn monitoring_groups(kernel: &dyn Kernel, group: &str) -> Vec<String> {
    directories(kernel, &in_group(group, "mon_groups"))
}

fn by_thread(
    kernel: &dyn Kernel,
    groups: impl IntoIterator<Item = String>,
) -> HashMap<u32, String> {
    let mut of = HashMap::new();
    for group in groups {
        for thread in threads_in(kernel, &group) {
            of.insert(thread, group.clone());
        }
    }
    of
}

fn directories(kernel: &dyn Kernel, path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(kernel.mounted().join(path));
    let entries = entries.into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}
