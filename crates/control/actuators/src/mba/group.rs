//! Our group: what was done to it, as the journal has it, and how all of it is undone.

use std::collections::{BTreeSet, HashMap};

use egeria_machine::resctrl::bandwidths;
use serde::{Deserialize, Serialize};

use super::kernel::{
    Kernel, in_group, monitored_threads, monitoring_groups, read, threads_elsewhere, threads_in,
};

/// What names of our groups begin with.
pub(crate) const PREFIX: &str = "egeria-";
/// Threads that begin while others leave the group are sent after them, but not for ever.
const MAX_ROUNDS: u32 = 16;
/// Processes between one that was put into the group and a thread that it started through others.
const MAX_GENERATIONS: usize = 64;

/// The bandwidth of each cache.
pub(crate) type Values = Vec<(u32, u64)>;

/// A line of the journal: what is about to be done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "mba", rename_all = "snake_case")]
pub(crate) enum Change {
    /// A group is made.
    Group { name: String },
    /// The group has these values, or gets them.
    Values { values: Values },
    /// Threads of a process are put into the group.
    Threads {
        process_id: u32,
        threads: Vec<u32>,
        /// The monitoring group that they come from, if it is not the default group itself.
        origin: Option<String>,
    },
    /// A thread goes to the default group, and on to this monitoring group: two steps. Those before it have arrived.
    Back { thread: u32, origin: String },
    /// So has the last.
    Arrived,
    /// All of it is undone, or belongs to another now.
    Over,
}

/// Our group.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// All values that were given to it. With others, it belongs to another.
    values: Vec<Values>,
    /// Where threads came from.
    origins: HashMap<u32, Option<String>>,
    /// Where the last threads of each process came from: threads that they start belong there.
    processes: HashMap<u32, Option<String>>,
    /// A thread on its way back, with the monitoring group that it goes to.
    on_way: Option<(u32, String)>,
}

impl Group {
    /// A group to which nothing was done yet.
    pub(crate) fn named(name: String) -> Group {
        Group {
            name,
            ..Group::default()
        }
    }

    /// What a journal left; `None` if nothing is to be undone. Its lines are not trusted.
    pub(crate) fn left(changes: impl IntoIterator<Item = Change>) -> Option<Group> {
        let mut group: Option<Group> = None;
        for change in changes {
            match change {
                Change::Group { name } if is_ours(&name) => {
                    group = Some(Group::named(name));
                }
                Change::Group { .. } | Change::Over => group = None,
                other => {
                    if let Some(group) = &mut group {
                        group.note(other);
                    }
                }
            }
        }
        group
    }

    /// Remembers a change.
    pub(crate) fn note(&mut self, change: Change) {
        match change {
            Change::Values { values } => self.values.push(values),
            Change::Threads {
                process_id,
                threads,
                origin,
            } => {
                let origin = origin.filter(|origin| is_monitoring_group(origin));
                self.processes.insert(process_id, origin.clone());
                let threads = threads.into_iter();
                self.origins
                    .extend(threads.map(|thread| (thread, origin.clone())));
            }
            Change::Back { thread, origin } if is_monitoring_group(&origin) => {
                self.on_way = Some((thread, origin));
            }
            Change::Arrived => self.on_way = None,
            Change::Group { .. } | Change::Back { .. } | Change::Over => {}
        }
    }

    /// Whether the group is there.
    pub(crate) fn exists(&self, kernel: &dyn Kernel) -> bool {
        kernel.mounted().join(&self.name).is_dir()
    }

    /// The values that the group has now.
    pub(crate) fn values(&self, kernel: &dyn Kernel) -> Option<Values> {
        bandwidths(&read(kernel, &in_group(&self.name, "schemata"))?)
    }

    /// What another did to the group, so that it is left there; `None` if nothing.
    pub(crate) fn taken_over(&self, kernel: &dyn Kernel) -> Option<&'static str> {
        let now = self.values(kernel);
        let has_own_values = match &now {
            // Killed before it was known what a new group has: that is no less than the default group has.
            Some(now) if self.values.is_empty() => {
                let default = bandwidths(&read(kernel, "schemata").unwrap_or_default());
                let mut both = now.iter().zip(default.iter().flatten());
                both.all(|(own, default)| own.1 >= default.1)
            }
            Some(now) => self.values.contains(now),
            None => self.values.is_empty(),
        };
        let cpus = read(kernel, &in_group(&self.name, "cpus")).unwrap_or_default();
        if !has_own_values {
            Some("another changed its schemata")
        } else if !monitoring_groups(kernel, &self.name).is_empty() {
            Some("another monitors a part of it")
        } else if cpus
            .chars()
            .any(|digit| matches!(digit, '1'..='9' | 'a'..='f'))
        {
            Some("another put CPUs into it")
        } else {
            None
        }
    }

    /// Sends threads back to where they came from, and removes the group, unless another has taken it over. Threads
    /// that left the group are not touched. Returns how many threads went back. `journal` records what is about to be
    /// done.
    pub(crate) fn undo(&self, kernel: &dyn Kernel, journal: &dyn Fn(&Change)) -> usize {
        if !self.exists(kernel) {
            return 0;
        }
        self.go_on(kernel);
        let is_taken = self.taken_over(kernel).is_some();
        let mut back = 0;
        for _ in 0..MAX_ROUNDS {
            let mut threads = threads_in(kernel, &self.name);
            if is_taken {
                threads.retain(|thread| self.put(kernel, *thread));
            }
            let went = self.send_back(kernel, &threads, journal);
            if went == 0 {
                break;
            }
            back += went;
        }
        if !is_taken {
            // The kernel sends threads that are still there to the default group.
            let _ = kernel.remove(&self.name);
        }
        back
    }

    /// A thread that a kill left half-way goes on to its monitoring group, if it is still where it was left.
    fn go_on(&self, kernel: &dyn Kernel) {
        let Some((thread, origin)) = &self.on_way else {
            return;
        };
        let is_elsewhere = threads_elsewhere(kernel, "").contains_key(thread)
            || monitored_threads(kernel).contains_key(thread);
        if !is_elsewhere {
            let _ = kernel.write(&in_group(origin, "tasks"), &thread.to_string());
        }
    }

    /// Threads in the group of these processes, and of processes that they started.
    pub(crate) fn threads_of(
        &self,
        kernel: &dyn Kernel,
        is_meant: impl Fn(u32) -> bool,
    ) -> BTreeSet<u32> {
        let mut threads = threads_in(kernel, &self.name);
        threads.retain(|thread| self.process_of(kernel, *thread).is_some_and(&is_meant));
        threads
    }

    /// Threads in the group that the journal does not know: threads of the group started them. With where they belong.
    pub(crate) fn unknown(&self, kernel: &dyn Kernel) -> Vec<Change> {
        let inside = threads_in(kernel, &self.name).into_iter();
        let unknown = inside.filter(|thread| !self.origins.contains_key(thread));
        let change = |thread: u32| {
            Some(Change::Threads {
                process_id: kernel.process_of(thread)?,
                threads: vec![thread],
                origin: self.origin(kernel, thread),
            })
        };
        unknown.filter_map(change).collect()
    }

    /// Sends these threads of the group back. Returns how many went.
    pub(crate) fn send_back(
        &self,
        kernel: &dyn Kernel,
        threads: &BTreeSet<u32>,
        journal: &dyn Fn(&Change),
    ) -> usize {
        let (mut went, mut is_monitored) = (0, false);
        for thread in threads {
            let line = thread.to_string();
            let origin = self.origin(kernel, *thread);
            if let Some(origin) = origin.clone() {
                is_monitored = true;
                journal(&Change::Back {
                    thread: *thread,
                    origin,
                });
            }
            if kernel.write("tasks", &line).is_err() {
                continue;
            }
            went += 1;
            if let Some(origin) = origin {
                // If that monitoring group is gone, the thread stays in the default group, as its others did.
                let _ = kernel.write(&in_group(&origin, "tasks"), &line);
            }
        }
        if is_monitored {
            journal(&Change::Arrived);
        }
        went
    }

    /// The monitoring group that a thread belongs to.
    fn origin(&self, kernel: &dyn Kernel, thread: u32) -> Option<String> {
        if let Some(origin) = self.origins.get(&thread) {
            return origin.clone();
        }
        let process = self.process_of(kernel, thread)?;
        self.processes.get(&process)?.clone()
    }

    /// Whether a thread is in the group because of us.
    fn put(&self, kernel: &dyn Kernel, thread: u32) -> bool {
        self.origins.contains_key(&thread) || self.process_of(kernel, thread).is_some()
    }

    /// The process that was put into the group of a thread: its own, or one that started that.
    fn process_of(&self, kernel: &dyn Kernel, thread: u32) -> Option<u32> {
        let first = kernel.process_of(thread);
        let mut line = std::iter::successors(first, |process| kernel.parent(*process));
        line.by_ref()
            .take(MAX_GENERATIONS)
            .find(|process| self.processes.contains_key(process))
    }
}

/// Whether a name can be that of a group of ours.
fn is_ours(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX);
    rest.is_some_and(|rest| !rest.is_empty()) && !name.contains('/')
}

fn is_monitoring_group(path: &str) -> bool {
    let name = path.strip_prefix("mon_groups/");
    name.is_some_and(|name| !name.is_empty() && !name.contains('/') && name != ".." && name != ".")
}
