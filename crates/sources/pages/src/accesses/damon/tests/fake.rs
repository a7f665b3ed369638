//! A directory that behaves like DAMON's: it takes and refuses what the kernel does, and its files say what is set up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::accesses::damon::{Kernel, Sysfs};

/// Thrown in the place of a process that is killed.
pub(super) struct Killed;

#[derive(Default)]
pub(super) struct State {
    /// What the kernel can observe: `vaddr`, `paddr`.
    pub(super) operations: &'static str,
    pub(super) living: BTreeSet<u32>,
    /// What it saw used of each process: start, end, accesses.
    pub(super) used: BTreeMap<u32, Vec<(String, String, String)>>,
    /// The kernel uses DAMON for itself.
    pub(super) is_exclusive: bool,
    pub(super) calls: u32,
    /// Calls that are left until the caller is killed, and whether the last is still done.
    pub(super) killed: Option<(u32, bool)>,
}

#[derive(Clone)]
pub(super) struct Fake {
    state: Arc<Mutex<State>>,
    files: Sysfs,
    directory: PathBuf,
}

fn error<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

impl Fake {
    pub(super) fn new(root: &Path, operations: &'static str) -> Fake {
        let directory = root.join("sys/kernel/mm/damon/admin/kdamonds");
        fs::create_dir_all(&directory).unwrap();
        let fake = Fake {
            state: Arc::default(),
            files: Sysfs::below(root),
            directory,
        };
        fake.state().operations = operations;
        fake.put("nr_kdamonds", "0");
        fake
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As another program does it.
    pub(super) fn do_write(&self, file: &str, line: &str) -> io::Result<()> {
        let name = file.rsplit('/').next().unwrap_or(file);
        if !self.directory.join(file).is_file() {
            return error(libc::ENOENT);
        }
        match (file, name) {
            ("nr_kdamonds", _) => self.make_kdamonds(line),
            (_, "nr_contexts") => self.make_contexts(line),
            (_, "nr_targets") => self.make_all(file, line, &[("pid_target", "0")]),
            (_, "nr_schemes") => self.make_all(file, line, &SCHEME),
            (_, "nr_filters") => self.make_all(file, line, &FILTER),
            (_, "state") => self.command(line),
            (_, "operations") if !self.state().operations.contains(line) => error(libc::EINVAL),
            _ => {
                self.put(file, line);
                Ok(())
            }
        }
    }

    pub(super) fn put(&self, file: &str, line: &str) {
        let path = self.directory.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{line}\n")).unwrap();
    }

    pub(super) fn get(&self, file: &str) -> String {
        self.files.read(file).unwrap()
    }

    fn make_kdamonds(&self, line: &str) -> io::Result<()> {
        if self.files.read("0/state").is_ok_and(|state| state == "on") {
            return error(libc::EBUSY);
        }
        self.make_all(
            "nr_kdamonds",
            line,
            &[
                ("state", "off"),
                ("pid", "-1"),
                ("contexts/nr_contexts", "0"),
            ],
        )
    }

    fn make_contexts(&self, line: &str) -> io::Result<()> {
        let operations = self.state().operations;
        let mut files = vec![("avail_operations", operations)];
        files.extend(CONTEXT);
        self.make_all("0/contexts/nr_contexts", line, &files)
    }

    /// Removes all directories with numbers next to a file, and makes this number of them with these files.
    fn make_all(&self, file: &str, count: &str, files: &[(&str, &str)]) -> io::Result<()> {
        let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
        for number in self.files.numbers(directory, usize::MAX).unwrap() {
            fs::remove_dir_all(self.directory.join(directory).join(number.to_string())).unwrap();
        }
        let Ok(numbers) = count.parse::<u32>() else {
            return error(libc::EINVAL);
        };
        for number in 0..numbers {
            for (name, line) in files {
                self.put(
                    format!("{directory}/{number}/{name}").trim_start_matches('/'),
                    line,
                );
            }
        }
        self.put(file, count);
        Ok(())
    }

    fn targets(&self) -> Vec<u32> {
        let targets = "0/contexts/0/targets";
        let numbers = self.files.numbers(targets, usize::MAX).unwrap();
        numbers
            .into_iter()
            .map(|number| {
                self.get(&format!("{targets}/{number}/pid_target"))
                    .parse()
                    .unwrap()
            })
            .collect()
    }

    fn command(&self, line: &str) -> io::Result<()> {
        let is_on = self.get("0/state") == "on";
        let targets = self.targets();
        let is_living = |target: &u32| self.state().living.contains(target);
        match line {
            "on" if is_on || self.state().is_exclusive => error(libc::EBUSY),
            "on" if self.get("0/contexts/0/operations") != "vaddr" => error(libc::EINVAL),
            "on" if targets.is_empty() || !targets.iter().all(is_living) => error(libc::EINVAL),
            "on" => {
                self.put("0/state", "on");
                Ok(())
            }
            "off" if is_on => {
                self.put("0/state", "off");
                Ok(())
            }
            "commit" | "update_schemes_tried_regions" if is_on => {
                if line != "commit" {
                    self.show_used(&targets);
                }
                Ok(())
            }
            _ => error(libc::EINVAL),
        }
    }

    fn show_used(&self, targets: &[u32]) {
        for scheme in 0..targets.len() {
            let scheme = format!("0/contexts/0/schemes/{scheme}");
            let regions = format!("{scheme}/tried_regions");
            for number in self.files.numbers(&regions, usize::MAX).unwrap() {
                fs::remove_dir_all(self.directory.join(&regions).join(number.to_string())).unwrap();
            }
            let filter = |name: &str| self.get(&format!("{scheme}/filters/0/{name}"));
            assert_eq!((&*filter("type"), &*filter("matching")), ("target", "N"));
            assert_eq!(self.get(&format!("{scheme}/action")), "stat");
            let target: usize = filter("damon_target_idx").parse().unwrap();
            let used = self.state().used.get(&targets[target]).cloned();
            for (number, (start, end, accesses)) in used.into_iter().flatten().enumerate() {
                let files = [("start", start), ("end", end), ("nr_accesses", accesses)];
                for (name, line) in files {
                    self.put(&format!("{regions}/{number}/{name}"), &line);
                }
            }
        }
    }

    /// The processes that are observed now.
    pub(super) fn observed(&self) -> Option<Vec<u32>> {
        let is_on = self.files.read("0/state").is_ok_and(|state| state == "on");
        is_on.then(|| self.targets())
    }
}

const CONTEXT: [(&str, &str); 8] = [
    ("operations", "vaddr"),
    ("monitoring_attrs/intervals/sample_us", "5000"),
    ("monitoring_attrs/intervals/aggr_us", "100000"),
    ("monitoring_attrs/intervals/update_us", "60000000"),
    ("monitoring_attrs/nr_regions/min", "10"),
    ("monitoring_attrs/nr_regions/max", "1000"),
    ("targets/nr_targets", "0"),
    ("schemes/nr_schemes", "0"),
];
const SCHEME: [(&str, &str); 10] = [
    ("action", "stat"),
    ("apply_interval_us", "0"),
    ("access_pattern/sz/min", "0"),
    ("access_pattern/sz/max", "0"),
    ("access_pattern/nr_accesses/min", "0"),
    ("access_pattern/nr_accesses/max", "0"),
    ("access_pattern/age/min", "0"),
    ("access_pattern/age/max", "0"),
    ("filters/nr_filters", "0"),
    ("tried_regions/total_bytes", "0"),
];
const FILTER: [(&str, &str); 3] = [
    ("type", "anon"),
    ("matching", "N"),
    ("damon_target_idx", "0"),
];

impl Kernel for Fake {
    fn read(&self, file: &str) -> io::Result<String> {
        self.files.read(file)
    }

    fn write(&self, file: &str, line: &str) -> io::Result<()> {
        let killed = {
            let mut state = self.state();
            state.calls += 1;
            match &mut state.killed {
                Some((0, is_done)) => Some(*is_done),
                Some((left, _)) => {
                    *left -= 1;
                    None
                }
                None => None,
            }
        };
        let result = if killed == Some(false) {
            Ok(())
        } else {
            self.do_write(file, line)
        };
        if killed.is_some() {
            self.state().killed = None;
            resume_unwind(Box::new(Killed));
        }
        result
    }

    fn numbers(&self, directory: &str, max: usize) -> io::Result<Vec<u32>> {
        self.files.numbers(directory, max)
    }
}
