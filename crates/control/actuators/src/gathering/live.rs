//! The memory of a running process.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use egeria_facts::{AccessWindow, ProcessKey};
use egeria_machine::{Machine, NodeId};
use egeria_pages::areas::{self, Area, MappedFile};
use egeria_pages::located::Located;
use egeria_pages::migrate::{self, Migration, Order, Progress};
use egeria_pages::sleepers;

use super::memory::Memory;

/// Processes that have mapped a file and sleep, as they were up to a minute ago, because [`sleepers::of`] looks at every
/// process. One that has begun to run since may count twice: as a sleeper, and as one that wants the memory where it runs.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(RefCell<HashMap<MappedFile, (Instant, Option<u32>)>>);

impl Sleepers {
    const LAST: Duration = Duration::from_secs(60);

    fn of(&self, file: MappedFile, known: &[u32]) -> Option<u32> {
        let now = Instant::now();
        let mut all = self.0.borrow_mut();
        all.retain(|_, (at, _)| now.duration_since(*at) < Sleepers::LAST);
        let found = all.entry(file);
        found.or_insert_with(|| (now, sleepers::of(file, known))).1
    }
}

/// Asks the kernel.
pub(crate) struct Live<'a> {
    machine: &'a Machine,
    process: ProcessKey,
    located: Located,
    accesses: &'a AccessWindow,
    others: OnceCell<Vec<Other>>,
    sleepers: &'a Sleepers,
}

/// Another process that is watched.
struct Other {
    process_id: u32,
    /// What it has mapped.
    files: HashSet<MappedFile>,
    /// Where its threads run.
    nodes: Vec<NodeId>,
}

impl<'a> Live<'a> {
    /// # Errors
    /// When the process is gone or another user's.
    pub(crate) fn open(
        machine: &'a Machine,
        process: ProcessKey,
        accesses: &'a AccessWindow,
        sleepers: &'a Sleepers,
    ) -> io::Result<Live<'a>> {
        Ok(Live {
            machine,
            process,
            located: Located::open(process)?,
            accesses,
            others: OnceCell::new(),
            sleepers,
        })
    }

    fn others(&self) -> &[Other] {
        self.others.get_or_init(|| {
            let processes = self.accesses.processes.iter();
            let others = processes.filter(|each| each.process != self.process);
            let others = others.map(|each| {
                let with_threads = each.nodes.iter().filter(|on| on.threads > 0);
                Other {
                    process_id: each.process.process_id,
                    // What is gone or another user's is no mapper that is known.
                    files: areas::files(each.process.process_id).unwrap_or_default(),
                    nodes: with_threads.map(|on| on.node).collect(),
                }
            });
            others.collect()
        })
    }
}

impl Memory for Live<'_> {
    fn areas(&self) -> io::Result<Vec<Area>> {
        areas::of(self.process.process_id)
    }

    fn pages(&self, range: Range<usize>, page_bytes: usize) -> io::Result<Vec<(usize, NodeId)>> {
        self.located.pages(range, page_bytes)
    }

    fn migrate(&self, areas: &[Area], order: &Order) -> io::Result<Migration> {
        let goals = order.target.nodes();
        let shared = areas.iter().filter(|area| area.mappers > 1);
        let sleeping = |file| {
            let others = self.others().iter().map(|other| other.process_id);
            let known: Vec<u32> = others.chain([self.process.process_id]).collect();
            self.sleepers.of(file, &known)
        };
        let wanted = |to| move |area: &&Area| all_want(area, to, self.others(), sleeping);
        let agreed = shared.filter(|area| goals.iter().all(|to| wanted(*to)(area)));
        let order = Order {
            also_shared_in: agreed.map(|area| area.range.start).collect(),
            ..order.clone()
        };
        migrate::run_in(areas, &order, self.machine, &Progress::default())
    }
}

/// Whether all processes that have mapped some memory run there only, or sleep: `sleeping` says how many do. A mapper that
/// is not known may want it where it is.
fn all_want(
    area: &Area,
    to: NodeId,
    others: &[Other],
    sleeping: impl Fn(MappedFile) -> Option<u32>,
) -> bool {
    let Some(file) = area.file else {
        return false;
    };
    let sharers = others.iter().filter(|other| other.files.contains(&file));
    let wants =
        |other: &&Other| !other.nodes.is_empty() && other.nodes.iter().all(|node| *node == to);
    let known = 1 + sharers.clone().filter(wants).count() as u32;
    let is_known = || {
        area.mappers <= known
            || sleeping(file).is_some_and(|more| area.mappers <= known.saturating_add(more))
    };
    sharers.clone().all(|other| wants(&other)) && is_known()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: MappedFile = MappedFile {
        device: (0, 1),
        inode: 7,
    };

    fn other(files: &[MappedFile], nodes: &[u16]) -> Other {
        Other {
            process_id: 1,
            files: files.iter().copied().collect(),
            nodes: nodes.iter().copied().map(NodeId).collect(),
        }
    }

    fn shared(mappers: u32) -> Area {
        Area {
            range: 0..4096,
            page_bytes: 4096,
            bound_to: None,
            is_interleaved: false,
            bytes: vec![(NodeId(0), 4096)],
            file: Some(FILE),
            mappers,
        }
    }

    #[test]
    fn shared_memory_goes_where_all_its_users_run() {
        let wants =
            |mappers, others: &[Other]| all_want(&shared(mappers), NodeId(1), others, |_| None);
        assert!(wants(2, &[other(&[FILE], &[1])]));
        assert!(wants(2, &[other(&[FILE], &[1]), other(&[], &[0])]));
        assert!(!wants(2, &[other(&[FILE], &[0])]), "it runs elsewhere");
        assert!(!wants(2, &[other(&[FILE], &[0, 1])]), "it runs on both");
        assert!(!wants(3, &[other(&[FILE], &[1])]), "a mapper is not known");
        assert!(!wants(2, &[other(&[], &[1])]), "the mapper is not known");
    }

    #[test]
    fn processes_that_sleep_want_nothing() {
        let wants = |mappers, sleep| {
            let others = [other(&[FILE], &[1])];
            all_want(&shared(mappers), NodeId(1), &others, |_| sleep)
        };
        assert!(wants(5, Some(3)) && wants(5, Some(4)));
        assert!(!wants(5, Some(2)), "another has mapped it as well");
        assert!(!wants(5, None), "one of them runs");
        let elsewhere = [other(&[FILE], &[0])];
        assert!(!all_want(&shared(2), NodeId(1), &elsewhere, |_| Some(9)));
    }

    #[test]
    fn private_pages_of_several_processes_stay() {
        let area = Area {
            file: None,
            ..shared(2)
        };
        let others = [other(&[FILE], &[1])];
        assert!(!all_want(&area, NodeId(1), &others, |_| Some(9)));
    }
}
