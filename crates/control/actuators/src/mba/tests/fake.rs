//! A directory that behaves like resctrl: it takes and refuses what the kernel does, and its files say who is where.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use egeria_facts::{ProcessKey, ThreadKey};
use egeria_machine::resctrl::bandwidths;

use crate::mba::Kernel;

/// Thrown in the place of a process that is killed.
pub(super) struct Killed;

/// Where a thread is: its group, and its monitoring group in that.
pub(super) type Place = (String, Option<String>);

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Thread {
    pub(super) process: u32,
    pub(super) place: Place,
}

#[derive(Default)]
pub(super) struct State {
    mounted: PathBuf,
    pub(super) threads: BTreeMap<u32, Thread>,
    pub(super) parents: BTreeMap<u32, u32>,
    groups: BTreeMap<String, String>,
    pub(super) monitors: BTreeSet<String>,
    max_groups: usize,
    last_id: u32,
    /// Calls that are left until the caller is killed, and whether the last is still done.
    pub(super) killed: Option<(u32, bool)>,
}

pub(super) const MOST: &str = "    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n";

#[derive(Clone)]
pub(super) struct Fake {
    state: Arc<Mutex<State>>,
    mounted: PathBuf,
}

impl Fake {
    pub(super) fn new(root: &Path, max_groups: usize) -> Fake {
        let mounted = root.join("sys/fs/resctrl");
        fs::create_dir_all(mounted.join("info/MB")).unwrap();
        let fake = Fake {
            state: Arc::default(),
            mounted: mounted.clone(),
        };
        let mut state = fake.state();
        (state.mounted, state.max_groups) = (mounted, max_groups);
        // An administrator keeps a part of the cache for another group.
        let default = MOST.replace("L3:0=7ff", "L3:0=0ff");
        state.groups.insert(String::new(), default);
        state.show();
        drop(state);
        fake
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call of a caller that may be killed before or after it.
    fn call<T>(&self, done: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        let killed = match &mut state.killed {
            Some((0, is_done)) => Some(*is_done),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        };
        let result = if killed == Some(false) {
            Err(io::ErrorKind::Interrupted.into())
        } else {
            done(&mut state)
        };
        if killed.is_some() {
            state.killed = None;
            drop(state);
            resume_unwind(Box::new(Killed));
        }
        result
    }
}

fn error<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

impl State {
    pub(super) fn make(&mut self, group: &str) -> io::Result<()> {
        if self.groups.contains_key(group) {
            return error(libc::EEXIST);
        }
        if self.groups.len() >= self.max_groups {
            return error(libc::ENOSPC);
        }
        self.groups.insert(group.to_owned(), MOST.to_owned());
        self.show();
        Ok(())
    }

    pub(super) fn remove(&mut self, group: &str) -> io::Result<()> {
        if self.groups.remove(group).is_none() {
            return error(libc::ENOENT);
        }
        for thread in self
            .threads
            .values_mut()
            .filter(|thread| thread.place.0 == group)
        {
            thread.place = Place::default();
        }
        self.show();
        Ok(())
    }

    pub(super) fn move_to(&mut self, thread: u32, place: Place) -> io::Result<()> {
        let Some(found) = self.threads.get_mut(&thread) else {
            return error(libc::ESRCH);
        };
        if !self.groups.contains_key(&place.0) {
            return error(libc::ENOENT);
        }
        if let Some(monitor) = &place.1 {
            if !self.monitors.contains(monitor) {
                return error(libc::ENOENT);
            }
            if found.place.0 != place.0 {
                return error(libc::EINVAL);
            }
        }
        found.place = place;
        self.show();
        Ok(())
    }

    /// The number of a new thread.
    pub(super) fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        1000 + self.last_id
    }

    /// All threads of the process of this one.
    pub(super) fn threads_like(&self, thread: u32) -> Vec<u32> {
        let process = self.threads[&thread].process;
        let all = self.threads.iter();
        let own = all.filter(|(_, each)| each.process == process);
        own.map(|(id, _)| *id).collect()
    }

    pub(super) fn schemata(&self, group: &str) -> Option<&str> {
        self.groups.get(group).map(String::as_str)
    }

    pub(super) fn set(&mut self, group: &str, line: &str) -> io::Result<()> {
        let Some(text) = self.groups.get_mut(group) else {
            return error(libc::ENOENT);
        };
        let Some((resource, _)) = line.split_once(':') else {
            return error(libc::EINVAL);
        };
        if resource == "MB" {
            let values = bandwidths(line).unwrap_or_default();
            if values.is_empty()
                || values
                    .iter()
                    .any(|(cache, value)| *cache > 1 || !(10..=100).contains(value))
            {
                return error(libc::EINVAL);
            }
        }
        let lines = text.lines().map(|old| {
            let is_it = old.trim().starts_with(&format!("{resource}:"));
            format!("    {}\n", if is_it { line } else { old.trim() })
        });
        *text = lines.collect();
        self.show();
        Ok(())
    }

    /// Writes what the files say now.
    pub(super) fn show(&self) {
        for entry in fs::read_dir(&self.mounted).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_dir() && name != "info" && !self.groups.contains_key(&name) {
                fs::remove_dir_all(entry.path()).unwrap();
            }
        }
        for (group, schemata) in &self.groups {
            let directory = self.mounted.join(group);
            fs::create_dir_all(directory.join("mon_groups")).unwrap();
            fs::write(directory.join("schemata"), schemata).unwrap();
            fs::write(directory.join("cpus"), "0000,00000000\n").unwrap();
            self.show_tasks(&directory, |place| place.0 == *group);
        }
        let monitors = self.mounted.join("mon_groups");
        fs::remove_dir_all(&monitors).unwrap();
        fs::create_dir(&monitors).unwrap();
        for monitor in &self.monitors {
            fs::create_dir(monitors.join(monitor)).unwrap();
            let there: Place = (String::new(), Some(monitor.clone()));
            self.show_tasks(&monitors.join(monitor), |place| *place == there);
        }
    }

    fn show_tasks(&self, directory: &Path, is_there: impl Fn(&Place) -> bool) {
        let own = self
            .threads
            .iter()
            .filter(|(_, thread)| is_there(&thread.place));
        let lines: String = own.map(|(id, _)| format!("{id}\n")).collect();
        fs::write(directory.join("tasks"), lines).unwrap();
    }
}

impl Kernel for Fake {
    fn mounted(&self) -> &Path {
        &self.mounted
    }

    fn make(&self, group: &str) -> io::Result<()> {
        self.call(|state| state.make(group))
    }

    fn remove(&self, group: &str) -> io::Result<()> {
        self.call(|state| state.remove(group))
    }

    fn write(&self, file: &str, line: &str) -> io::Result<()> {
        self.call(|state| {
            if let Some(group) = file.strip_suffix("schemata") {
                return state.set(group.trim_end_matches('/'), line);
            }
            let group = file.strip_suffix("tasks").unwrap().trim_end_matches('/');
            let place = match group.strip_prefix("mon_groups/") {
                Some(monitor) => (String::new(), Some(monitor.to_owned())),
                None => (group.to_owned(), None),
            };
            state.move_to(line.parse().unwrap(), place)
        })
    }

    fn threads(&self, process: ProcessKey) -> Vec<ThreadKey> {
        let state = self.state();
        let own = state.threads.iter();
        let own = own.filter(|(_, thread)| thread.process == process.process_id);
        let key = |(id, _): (&u32, &Thread)| ThreadKey {
            process_id: process.process_id,
            thread_id: *id,
            start_ticks: 0,
        };
        own.map(key).collect()
    }

    fn process_of(&self, thread_id: u32) -> Option<u32> {
        Some(self.state().threads.get(&thread_id)?.process)
    }

    fn parent(&self, process_id: u32) -> Option<u32> {
        self.state().parents.get(&process_id).copied()
    }
}
