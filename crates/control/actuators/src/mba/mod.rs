//! Bounds of programs that use memory without asking, by bandwidth allocation of the CPU (MBA), through the kernel's
//! resctrl.
//!
//! All bounded threads are in one group of ours. Only threads of the default group are put there, and they go back to
//! where they came from. Groups of others are never touched, and a group that another removed or changed is left alone.
//!
//! ```text
//!   /sys/fs/resctrl/tasks ───────────────┐
//!   /sys/fs/resctrl/mon_groups/m/tasks ──┼──▶ /sys/fs/resctrl/egeria-…/tasks     schemata: MB:0=50;1=100
//!                                        ◀── at the end, or at the next start by the journal
//! ```

mod group;
mod kernel;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

use egeria_facts::{Facts, ProcessKey};
use egeria_machine::Machine;
use egeria_machine::resctrl::{self, bandwidths};
use egeria_policy::control::Actuator;
use egeria_policy::mba::{MbaPlan, Share};
use egeria_policy::{Action, ActionKind, ActionOutcome};
use egeria_proc::Membership;

use crate::journal::Journal;
use group::{Group, PREFIX, Values};
use kernel::{in_group, monitored_threads, read, threads_elsewhere, threads_in};

pub(crate) use group::Change;
pub(crate) use kernel::{Kernel, Resctrl};

/// Threads that a process starts while its others are put into the group are put there as well, but not for ever.
const MAX_ROUNDS: u32 = 8;

/// Undoes what a killed steward left, as its journal says, and records there how far that is. Returns how many threads went back.
pub(crate) fn restore(
    kernel: &dyn Kernel,
    changes: impl IntoIterator<Item = Change>,
    journal: &dyn Fn(&Change),
) -> usize {
    Group::left(changes).map_or(0, |group| group.undo(kernel, journal))
}

/// Puts threads of programs into a group with less bandwidth, and undoes everything at the end.
pub struct BandwidthAllocation {
    kernel: Box<dyn Kernel>,
    allocation: resctrl::BandwidthAllocation,
    members: Arc<dyn Membership>,
    journal: Journal,
    name: String,
    group: Option<Group>,
    /// Why nothing is bounded any more: another has the group.
    given_up: Option<String>,
}

impl BandwidthAllocation {
    /// Bounds threads of which `members` says that they may be acted upon, in a group with this name behind `egeria-`.
    /// Nothing is changed yet.
    ///
    /// # Errors
    /// Why the machine below this root cannot bound programs, and the remedy, in one line.
    pub fn begin(
        root: &Path,
        machine: &Machine,
        name: &str,
        members: Arc<dyn Membership>,
        journal: Journal,
    ) -> Result<BandwidthAllocation, String> {
        let allocation = resctrl::BandwidthAllocation::read(root, machine);
        let allocation = allocation.map_err(|why| match why.fix() {
            Some(fix) => format!("{why}; {fix}"),
            None => why.to_string(),
        })?;
        let kernel = Resctrl::below(root);
        let schemata = kernel.mounted().join("schemata");
        if let Err(error) = OpenOptions::new().write(true).open(schemata) {
            return Err(format!(
                "resctrl cannot be changed ({error}); run the steward as root"
            ));
        }
        Ok(BandwidthAllocation::on(
            Box::new(kernel),
            allocation,
            name,
            members,
            journal,
        ))
    }

    fn on(
        kernel: Box<dyn Kernel>,
        allocation: resctrl::BandwidthAllocation,
        name: &str,
        members: Arc<dyn Membership>,
        journal: Journal,
    ) -> BandwidthAllocation {
        BandwidthAllocation {
            kernel,
            allocation,
            members,
            journal,
            name: format!("{PREFIX}{name}"),
            group: None,
            given_up: None,
        }
    }

    /// Lets exactly these processes have these shares. Returns what was left out, in one line.
    fn bound(
        &mut self,
        processes: &[ProcessKey],
        shares: &[Share],
    ) -> Result<Option<String>, String> {
        self.check_group()?;
        let values = self.wanted(shares)?;
        self.make_group()?;
        self.set(values)?;
        // Before where their processes come from is another place.
        let unknown = (self.group.as_ref()).map(|group| group.unknown(&*self.kernel));
        for change in unknown.into_iter().flatten() {
            self.change(change)?;
        }
        let wanted: BTreeSet<u32> = processes.iter().map(|key| key.process_id).collect();
        if let Some(group) = &self.group {
            let leaving = group.threads_of(&*self.kernel, |process| !wanted.contains(&process));
            group.send_back(&*self.kernel, &leaving, &|change| {
                let _ = self.journal.add(change);
            });
        }
        let mut left = BTreeMap::new();
        for process in processes {
            self.put(*process, &mut left)?;
        }
        let left: Vec<String> = left
            .into_iter()
            .map(|(group, threads)| format!("{threads} threads stay in the group {group}"))
            .collect();
        let left = (!left.is_empty()).then(|| left.join(", "));
        let is_empty = (self.group.as_ref())
            .is_none_or(|group| threads_in(&*self.kernel, &group.name).is_empty());
        match left {
            Some(left) if is_empty => Err(format!("{left}, where another put them")),
            None if is_empty => Err("all their threads have ended".to_owned()),
            left => Ok(left),
        }
    }

    /// Gives the group up if another has it now.
    fn check_group(&mut self) -> Result<(), String> {
        if let Some(why) = &self.given_up {
            return Err(why.clone());
        }
        let Some(group) = &self.group else {
            return Ok(());
        };
        let why = if group.exists(&*self.kernel) {
            group.taken_over(&*self.kernel)
        } else {
            Some("another removed it")
        };
        let Some(why) = why else { return Ok(()) };
        let why = format!(
            "{why}: the group {} is left alone until the steward starts again",
            group.name
        );
        self.free();
        self.given_up = Some(why.clone());
        Err(why)
    }

    /// The value of each cache for these shares; without a share, that of the default group.
    fn wanted(&self, shares: &[Share]) -> Result<Values, String> {
        let text = read(&*self.kernel, "schemata").unwrap_or_default();
        let default = bandwidths(&text).ok_or("the default group has no bandwidths")?;
        let domains = &self.allocation.domains;
        let value = |(cache, most): &(u32, u64)| {
            let domain = domains.iter().find(|domain| domain.cache == *cache);
            let nodes = domain.map_or(&[][..], |domain| &domain.nodes);
            let own: Vec<&Share> = shares
                .iter()
                .filter(|share| nodes.contains(&share.node))
                .collect();
            let share = own.iter().map(|share| share.share).reduce(f64::min)?;
            let bytes_s = own.iter().map(|share| {
                let behind = domains
                    .iter()
                    .filter(|each| each.nodes.contains(&share.node));
                share.bytes_s / behind.count().max(1) as f64
            });
            let value = self.allocation.value(share, bytes_s.sum());
            Some((*cache, value.min(*most)))
        };
        let values: Values = default
            .iter()
            .map(|each| value(each).unwrap_or(*each))
            .collect();
        if values == default {
            return Err("no share is smaller than what the default group has".to_owned());
        }
        Ok(values)
    }

    /// Makes the group, if it is not there, with what the default group has.
    fn make_group(&mut self) -> Result<(), String> {
        if self.group.is_some() {
            return Ok(());
        }
        let name = self.name.clone();
        let group = Group::named(name.clone());
        if group.exists(&*self.kernel) {
            let why = format!(
                "another has a group {name}; if it is not needed: rmdir /{}/{name}",
                resctrl::RESCTRL
            );
            self.given_up = Some(why.clone());
            return Err(why);
        }
        self.journal(Change::Group { name: name.clone() })?;
        if let Err(error) = self.kernel.make(&name) {
            let _ = self.journal(Change::Over);
            return Err(match error.raw_os_error() {
                Some(libc::ENOSPC) => format!(
                    "all {} groups of the CPU are in use; remove one below /{}",
                    self.allocation.groups,
                    resctrl::RESCTRL
                ),
                _ => format!("the group {name} cannot be made: {error}"),
            });
        }
        self.group = Some(group);
        let now = (self.group.as_ref()).and_then(|group| group.values(&*self.kernel));
        let values = now.ok_or_else(|| format!("the group {name} has no bandwidths"))?;
        self.change(Change::Values { values })?;
        self.copy_other_lines(&name)
    }

    /// Threads keep the caches that the default group has.
    fn copy_other_lines(&self, name: &str) -> Result<(), String> {
        let file = in_group(name, "schemata");
        let text = |file: &str| read(&*self.kernel, file).unwrap_or_default();
        let (default, own) = (text("schemata"), text(&file));
        for line in default.lines().map(str::trim) {
            let is_there = own.lines().any(|other| other.trim() == line);
            if line.is_empty() || line.starts_with("MB:") || is_there {
                continue;
            }
            let written = self.kernel.write(&file, line);
            written.map_err(|error| {
                format!("the group {name} cannot have the default group's {line}: {error}")
            })?;
        }
        Ok(())
    }

    fn set(&mut self, values: Values) -> Result<(), String> {
        let Some(group) = &self.group else {
            return Ok(());
        };
        if group.values(&*self.kernel).as_ref() == Some(&values) {
            return Ok(());
        }
        let file = in_group(&group.name, "schemata");
        let each = values
            .iter()
            .map(|(cache, value)| format!("{cache}={value}"));
        let line = format!("MB:{}", each.collect::<Vec<_>>().join(";"));
        self.change(Change::Values { values })?;
        let written = self.kernel.write(&file, &line);
        written.map_err(|error| format!("the kernel does not take {line}: {error}"))?;
        // The kernel may round.
        let now = (self.group.as_ref()).and_then(|group| group.values(&*self.kernel));
        match now {
            Some(values) => self.change(Change::Values { values }),
            None => Err("the group is gone".to_owned()),
        }
    }

    /// Puts the threads of a process that are in the default group into ours. Adds to `left` how many are in which
    /// other group.
    fn put(
        &mut self,
        process: ProcessKey,
        left: &mut BTreeMap<String, usize>,
    ) -> Result<(), String> {
        let mut tried = BTreeSet::new();
        for _ in 0..MAX_ROUNDS {
            let elsewhere = threads_elsewhere(&*self.kernel, &self.name);
            let monitored = monitored_threads(&*self.kernel);
            let inside = threads_in(&*self.kernel, &self.name);
            let mut coming: BTreeMap<Option<String>, Vec<u32>> = BTreeMap::new();
            for thread in self.kernel.threads(process) {
                let id = thread.thread_id;
                if inside.contains(&id) || !tried.insert(id) || !self.members.holds(thread) {
                    continue;
                }
                match elsewhere.get(&id) {
                    Some(group) => *left.entry(group.clone()).or_default() += 1,
                    None => coming
                        .entry(monitored.get(&id).cloned())
                        .or_default()
                        .push(id),
                }
            }
            if coming.is_empty() {
                break;
            }
            let tasks = in_group(&self.name, "tasks");
            for (origin, threads) in coming {
                self.change(Change::Threads {
                    process_id: process.process_id,
                    threads: threads.clone(),
                    origin,
                })?;
                for thread in threads {
                    match self.kernel.write(&tasks, &thread.to_string()) {
                        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                            return Err(format!("thread {thread} cannot be bounded: {error}"));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Journals a change of the group that is about to be made.
    fn change(&mut self, change: Change) -> Result<(), String> {
        self.journal(change.clone())?;
        if let Some(group) = &mut self.group {
            group.note(change);
        }
        Ok(())
    }

    fn journal(&self, change: Change) -> Result<(), String> {
        let added: io::Result<()> = self.journal.add(&change);
        added.map_err(|error| format!("the journal cannot be written: {error}"))
    }

    /// Undoes everything. Returns how many threads went back.
    fn free(&mut self) -> usize {
        let Some(group) = self.group.take() else {
            return 0;
        };
        let back = group.undo(&*self.kernel, &|change| {
            let _ = self.journal.add(change);
        });
        let _ = self.journal(Change::Over);
        back
    }
}

impl Actuator for BandwidthAllocation {
    fn kinds(&self) -> &[ActionKind] {
        &[ActionKind::Mba]
    }

    fn apply(&mut self, action: &Action, _: &Facts) -> ActionOutcome {
        let Action::SetMba { plan } = action else {
            return ActionOutcome::NoActuator;
        };
        let MbaPlan::On {
            processes, shares, ..
        } = plan
        else {
            self.free();
            return ActionOutcome::Done;
        };
        match self.bound(processes, shares) {
            Ok(None) => ActionOutcome::Done,
            Ok(Some(reason)) => ActionOutcome::GoesOn { reason },
            Err(reason) => {
                self.free();
                ActionOutcome::Refused { reason }
            }
        }
    }

    fn undo(&mut self) -> usize {
        self.free()
    }
}

impl Drop for BandwidthAllocation {
    fn drop(&mut self) {
        self.free();
    }
}
