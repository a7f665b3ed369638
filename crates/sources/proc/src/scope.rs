//! Which processes are watched.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use egeria_facts::ProcessKey;

use crate::task::Listed;
use crate::{living, task};

/// Where the hierarchy of control groups (version 2) is mounted: alone, or next to that of version 1.
const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Which threads are watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// All that use the volume, but for mounts; without a volume, all.
    All,
    /// This process and its descendants.
    Tree(u32),
    /// Several trees. Process ids may be reused, so each root is named with its start time.
    Trees(Vec<ProcessKey>),
    /// The processes of a control group and those below, by its path within the hierarchy, as `/system.slice`.
    ControlGroup(String),
}

impl Scope {
    /// Whether a process is among them.
    pub fn holds(&self, process_id: u32) -> bool {
        self.holds_by(process_id, task::parent)
    }

    fn holds_by(&self, process_id: u32, parent: impl FnMut(u32) -> Option<u32>) -> bool {
        match self {
            Scope::All => true,
            Scope::Tree(root) => descends(process_id, |found| found == *root, parent),
            Scope::Trees(roots) => {
                let is_root = |found| {
                    let mut named = roots.iter();
                    let root = named.find(|root| root.process_id == found);
                    root.is_some_and(|root| task::lives(*root))
                };
                descends(process_id, is_root, parent)
            }
            Scope::ControlGroup(path) => is_in_group(process_id, path),
        }
    }

    /// Whether something that it names still exists, or descendants of it may exist.
    pub fn is_there(&self) -> bool {
        match self {
            Scope::All | Scope::Tree(_) => true,
            Scope::Trees(roots) => {
                (roots.iter()).any(|root| task::lives(*root) && living::has_thread(root.process_id))
            }
            Scope::ControlGroup(path) => control_group(Path::new(path)).is_some(),
        }
    }
}

/// Parents of processes, so that not each look reads those of all processes of the machine.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    /// By process: the inode of its directory in /proc, which another process of the same number does not have, and its
    /// parent when it was first met. One whose parent ended since then is found in no tree, as the parent is not.
    known: HashMap<u32, (u64, Option<u32>)>,
}

impl Parents {
    /// Those of all processes that are in scope.
    pub(crate) fn in_scope(&mut self, scope: &Scope, processes: &[Listed]) -> Vec<u32> {
        let inodes = processes.iter().map(|listed| (listed.number, listed.inode));
        let inodes: HashMap<u32, u64> = inodes.collect();
        let known = &mut self.known;
        known.retain(|process, (inode, _)| inodes.get(process) == Some(inode));
        let mut parent = |process| {
            let inode = inodes.get(&process).copied().unwrap_or(0);
            let of = || (inode, task::parent(process));
            known.entry(process).or_insert_with(of).1
        };
        let all = processes.iter().map(|listed| listed.number);
        all.filter(|process| scope.holds_by(*process, &mut parent))
            .collect()
    }
}

/// Whether a process or one it descends from is a root.
fn descends(
    process_id: u32,
    is_root: impl Fn(u32) -> bool,
    mut parent: impl FnMut(u32) -> Option<u32>,
) -> bool {
    // Bounded, because the chain of parents may change during the loop.
    let mut process = Some(process_id);
    for _ in 0..64 {
        match process {
            Some(found) if is_root(found) => return true,
            Some(0 | 1) | None => return false,
            Some(found) => process = parent(found),
        }
    }
    false
}

/// A control group (version 2) by its path within the hierarchy, with or without the place where that is mounted: its
/// path within; `None` when there is no such group.
pub fn control_group(path: &Path) -> Option<String> {
    let hierarchy = hierarchy()?;
    let inside = path.strip_prefix(&hierarchy).unwrap_or(path);
    let inside = inside.strip_prefix("/").unwrap_or(inside);
    let name = inside.to_str()?;
    let exists = hierarchy.join(inside).join("cgroup.procs").exists();
    exists.then(|| format!("/{name}"))
}

/// Where control groups of version 2 are, if they are mounted where systemd does.
pub fn hierarchy() -> Option<PathBuf> {
    let mut places = HIERARCHIES.iter().map(Path::new);
    let found = places.find(|place| place.join("cgroup.controllers").exists());
    found.map(Path::to_owned)
}

/// Whether a process is in a control group (version 2) or one below it.
fn is_in_group(process_id: u32, path: &str) -> bool {
    let text = std::fs::read_to_string(living::path(process_id, "cgroup")).unwrap_or_default();
    is_group_in(&text, path)
}

fn is_group_in(text: &str, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let mut own = text.lines().filter_map(|line| line.strip_prefix("0::"));
    own.any(|own| {
        let below = own.strip_prefix(path);
        below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_harness::testing::skip;

    #[test]
    fn groups_hold_those_below_them_and_no_namesakes() {
        let text = "1:name=systemd:/a/bc\n0::/a/b/c\n";
        for (path, holds) in [
            ("/a/b/c", true),
            ("/a/b", true),
            ("/a/b/", true),
            ("/", true),
            ("/a/bc", false),
            ("/a/b/c/d", false),
            ("a/b", false),
        ] {
            assert_eq!(is_group_in(text, path), holds, "{path}");
        }
        assert!(!is_group_in("", "/"));
    }

    fn trees(processes: &[(u32, u64)]) -> Scope {
        let keys = processes
            .iter()
            .map(|(process_id, start_ticks)| ProcessKey {
                process_id: *process_id,
                start_ticks: *start_ticks,
            });
        Scope::Trees(keys.collect())
    }

    #[test]
    fn several_trees_hold_what_each_does() {
        let own = std::process::id();
        let parent = task::parent(own).unwrap();
        let began = task::began(parent).unwrap();
        let both = trees(&[(u32::MAX, 1), (parent, began)]);
        assert!(both.holds(own) && both.is_there());
        let listed = [own, parent, 1, u32::MAX].map(|number| Listed { number, inode: 1 });
        let processes = Parents::default().in_scope(&both, &listed);
        assert_eq!(processes[..2], [own, parent]);
        assert!(!processes[2..].contains(&u32::MAX));
        assert!(!trees(&[(u32::MAX, 1)]).holds(own));
        assert!(!trees(&[]).holds(own));
    }

    #[test]
    fn parents_are_known_until_the_number_is_reused() {
        let own = std::process::id();
        let parent = task::parent(own).unwrap();
        let tree = trees(&[(parent, task::began(parent).unwrap())]);
        let mut parents = Parents::default();
        let mut is_in = |inode| {
            let listed = [Listed { number: own, inode }];
            !parents.in_scope(&tree, &listed).is_empty()
        };
        assert!(is_in(7));
        // What is known is taken for the same process alone.
        parents.known.insert(own, (7, Some(1)));
        let mut is_in = |inode| {
            let listed = [Listed { number: own, inode }];
            !parents.in_scope(&tree, &listed).is_empty()
        };
        assert!(!is_in(7));
        assert!(is_in(8));
    }

    #[test]
    fn a_number_that_came_again_names_nobody() {
        let own = std::process::id();
        let began = task::began(own).unwrap();
        let before = trees(&[(own, began - 1)]);
        assert!(!before.holds(own) && !before.is_there());
        assert!(trees(&[(own, began)]).holds(own));
    }

    #[test]
    fn a_control_group_is_there_until_it_is_removed() {
        let Some(hierarchy) = hierarchy() else {
            skip("control groups of version 2 are not mounted here");
            return;
        };
        let name = format!("egeria-scope-{}", std::process::id());
        let directory = hierarchy.join(&name);
        if let Err(error) = std::fs::create_dir(&directory) {
            skip(format_args!("no control group can be made here: {error}"));
            return;
        }
        let within = format!("/{name}");
        let ways = [&name, &within, directory.to_str().unwrap()];
        let found = ways.map(|way| control_group(Path::new(way)));
        let scope = Scope::ControlGroup(within.clone());
        let before = scope.is_there();
        std::fs::remove_dir(&directory).unwrap();
        assert_eq!(found, [(); 3].map(|()| Some(within.clone())));
        assert!(before && !scope.is_there());
    }
}
