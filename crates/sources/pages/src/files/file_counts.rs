//! Facts of processes, with what they read and write of files as the kernel counted it: by thread and file, and by kind
//! where processes are gone before the window ends. It counts for a part of each window, which stands for the whole.
//!
//! The nodes of the bytes follow from where the file's pages are, with equal weight; for direct I/O it is the node of
//! the device.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use egeria_bpf::{Counts, FileCounter, FileUse};
use egeria_facts::{FactSource, Facts, FileKey, MAX_COUNTER, Measured, MediumFacts};
use egeria_machine::Machine;
use egeria_proc::file_systems::FileSystems;
use egeria_proc::masks::SharedMasks;
use egeria_proc::{LiveSource, Membership};

use crate::NodeBytes;
use crate::cpu_time;
use crate::files::credit::{self, Lies, Used, Users, moved};
use crate::files::file::{self, Locator};
use crate::files::found_files::{FoundFile, FoundFiles, identity_of, link_of};
use crate::files::relatives;
use crate::files::users;
use crate::kernel::borrowed;
use crate::kernel::mount;
use crate::room;

/// Files of a window, those used most.
const MAX_FILES_OF_ALL: usize = 64;
/// Pages located in one window, of all files: some milliseconds.
const MAX_PAGES: u64 = 1 << 13;

/// Share of a CPU for finding out where files lie that are known already.
const AGAIN_SHARE: f64 = 0.0005;
/// Windows after which they are looked at again at the latest. Files that this process moves are looked at in each.
const AGAIN_WINDOWS: u32 = 2;

/// Counts what threads read and write of files.
pub trait FileCounts: Send {
    /// What was counted since the last time, or the beginning.
    fn take(&mut self) -> Counts;
}

impl FileCounts for FileCounter {
    fn take(&mut self) -> Counts {
        FileCounter::take(self)
    }
}

/// A counter with recorded counts: gives one after the other, and then none.
#[derive(Clone, Debug, Default)]
pub struct Recorded(pub VecDeque<Counts>);

impl FileCounts for Recorded {
    fn take(&mut self) -> Counts {
        self.0.pop_front().unwrap_or_default()
    }
}

/// Another source, with what was counted.
pub struct CountedFiles<I, C> {
    inner: I,
    counter: C,
    file_systems: FileSystems,
    places: HashMap<FileKey, Place>,
    found: FoundFiles,
    last: Counts,
    /// Processes of the window before, if there were kinds.
    before: Option<HashSet<u32>>,
    /// The last counts are incomplete.
    is_full: bool,
}

/// Where a file was found.
#[derive(Clone, Debug)]
struct Place {
    found: FoundFile,
    bytes: u64,
    by_node: NodeBytes,
    /// CPU time of the look, and windows since then.
    took: Duration,
    since_windows: u32,
}

impl<I: LiveSource, C: FileCounts> CountedFiles<I, C> {
    /// Adds to the facts of a source.
    pub fn new(inner: I, counter: C) -> CountedFiles<I, C> {
        CountedFiles {
            inner,
            counter,
            file_systems: FileSystems::default(),
            places: HashMap::new(),
            found: FoundFiles::default(),
            last: Counts::default(),
            before: None,
            is_full: false,
        }
    }

    /// Numbers file systems together with other sources, and leaves those to them that a session counts.
    #[must_use]
    pub fn sharing(mut self, file_systems: FileSystems) -> CountedFiles<I, C> {
        self.file_systems = file_systems;
        self
    }

    /// The files of the last windows.
    pub fn files(&self) -> FoundFiles {
        self.found.clone()
    }

    /// Whether more threads and files were used than can be counted.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    fn add(&mut self, facts: &mut Facts) {
        let counts = self.counter.take();
        // A window that ended before anything was counted was like the one before.
        if !counts.counted.is_zero() {
            self.last = counts;
        }
        self.is_full = self.last.is_full;
        facts.media.extend(rooms(self.inner.machine()));
        for (node, of_machine) in facts
            .window
            .nodes
            .iter_mut()
            .zip(&self.inner.machine().nodes)
        {
            // New data is written to the memory of the node of the writing thread.
            node.has_pool = of_machine.memory_bytes > 0;
        }
        let nodes = self.inner.machine().nodes.len();
        for kind in &mut facts.kinds {
            (kind.read_bytes, kind.written_bytes) = (vec![0; nodes], vec![0; nodes]);
        }
        let mut users = Users::new(&facts.window, &facts.kinds, self.before.as_ref());
        let duration_ns = facts.window.duration_ns;
        let counted_ns = self.last.counted.as_nanos().max(1);
        let whole = |bytes: u64| {
            let bytes = u128::from(bytes) * u128::from(duration_ns) / counted_ns;
            u64::try_from(bytes).map_or(MAX_COUNTER, |bytes| bytes.min(MAX_COUNTER))
        };
        let uses = std::mem::take(&mut self.last.uses);
        let mut by_file: BTreeMap<FileKey, Vec<Used>> = BTreeMap::new();
        for each in &uses {
            if self.file_systems.is_of_session(each.device) {
                continue;
            }
            if let Some(mut used) = users.of(each) {
                let file = FileKey {
                    volume: self.file_systems.number(each.device),
                    inode: each.inode,
                };
                used.counted = FileUse {
                    read_bytes: whole(each.read_bytes),
                    written_bytes: whole(each.written_bytes),
                    ..*each
                };
                by_file.entry(file).or_default().push(used);
            }
        }
        users.describe(&mut facts.kinds);
        self.before = credit::processes(&facts.window, &facts.kinds);
        self.last.uses = uses;
        let mut by_file: Vec<_> = by_file.into_iter().collect();
        by_file.sort_by_key(|(file, uses)| {
            let moved = uses.iter().map(|each| moved(&each.counted));
            (std::cmp::Reverse(moved.fold(0, u64::saturating_add)), *file)
        });
        self.find(&by_file, duration_ns);
        let machine = self.inner.machine();
        for (file, uses) in &by_file {
            if let Some(place) = self.places.get(file) {
                let lies = Lies {
                    file: *file,
                    bytes: place.bytes,
                    by_node: &place.by_node,
                };
                let of_file = credit::credit(machine, facts, &lies, uses);
                facts
                    .files
                    .extend(of_file.filter(|_| facts.files.len() < MAX_FILES_OF_ALL));
            }
        }
        credit::find_nodes(
            machine,
            &mut facts.kinds,
            by_file.iter().flat_map(|each| &each.1),
        );
        let of_threads = facts.window.threads.iter_mut();
        let of_threads = of_threads.map(|thread| &mut thread.files);
        let of_kinds = facts.kinds.iter_mut().map(|kind| &mut kind.files);
        of_threads.chain(of_kinds).for_each(credit::keep_busiest);
        credit::sum_nodes(&mut facts.window, &facts.kinds);
    }

    /// Looks where the files used most are; others are where they were last, if they were looked at.
    fn find(&mut self, by_file: &[(FileKey, Vec<Used>)], duration_ns: u64) {
        let mut before = std::mem::take(&mut self.places);
        let all_ns = before.values().map(|place| place.took.as_nanos() as f64);
        let again_windows = all_ns.sum::<f64>() / (AGAIN_SHARE * duration_ns.max(1) as f64);
        let again_windows = (again_windows.ceil() as u32).clamp(1, AGAIN_WINDOWS);
        let mut locator = Locator::for_many(MAX_PAGES).ok();
        for (index, (file, uses)) in by_file.iter().enumerate() {
            let known = before.remove(file).map(|mut place| {
                place.since_windows += 1;
                place
            });
            let is_due = known
                .as_ref()
                .is_none_or(|place| place.since_windows >= again_windows)
                || self.found.was_opened(*file);
            let locator = locator
                .as_mut()
                .filter(|_| is_due && index < MAX_FILES_OF_ALL);
            let found = locator.and_then(|locator| {
                let begin = cpu_time::of_thread();
                let mut tried = uses.iter().filter(|each| each.is_there).take(4);
                let of_one = tried.find_map(|each| look(&each.counted, locator));
                let mut place = of_one.or_else(|| look_for(&uses.first()?.counted, locator))?;
                place.took = cpu_time::of_thread().saturating_sub(begin);
                Some(place)
            });
            if let Some(place) = found.or(known) {
                self.places.insert(*file, place);
            }
        }
        let found = |(file, place): (&FileKey, &Place)| (*file, place.found.clone());
        self.found.keep(self.places.iter().map(found).collect());
    }
}

/// How much more of files the memory of each node can hold, where there are several.
fn rooms(machine: &Machine) -> impl Iterator<Item = MediumFacts> + '_ {
    let nodes = machine.nodes.iter().filter(|_| machine.nodes.len() > 1);
    nodes.filter_map(|node| {
        Some(MediumFacts {
            node: node.id,
            measured: Measured::default(),
            free_bytes: Some(room::of(node.id)?.min(MAX_COUNTER)),
            striped_files: Some(false),
        })
    })
}

/// Where a file lies that was used by a process that has ended, if another one like it has the file open.
fn look_for(each: &FileUse, locator: &mut Locator) -> Option<Place> {
    let (process_id, descriptor) = relatives::opener(&each.ancestors, each.inode)?;
    let now = FileUse {
        process_id,
        descriptor,
        ..*each
    };
    look(&now, locator)
}

/// Where the file lies that a process has open by this descriptor; `None` when the descriptor is another file by now.
fn look(each: &FileUse, locator: &mut Locator) -> Option<Place> {
    let (process, descriptor) = (each.process_id, each.descriptor);
    let open = users::open_as(process, descriptor)?;
    if open.inode != each.inode || !mount::answers(process, each.device) {
        return None;
    }
    let path = std::fs::read_link(link_of(process, descriptor)).ok()?;
    let opened = borrowed::file(process, descriptor).ok()?;
    let pages = file::look(&opened, locator).ok()?;
    let mut by_node = pages.by_node;
    if let ([node], true) = (&pages.device_nodes[..], open.is_direct) {
        by_node = NodeBytes::default();
        by_node.add(*node, pages.size_bytes.max(1));
    }
    let found = FoundFile {
        path,
        process_id: process,
        descriptor,
        ancestors: each.ancestors,
        device: each.device,
        inode: each.inode,
        identity: identity_of(&opened).ok()?,
        age: 0,
        was_opened: false,
    };
    (by_node.total() > 0).then_some(Place {
        found,
        bytes: pages.size_bytes,
        by_node,
        took: Duration::ZERO,
        since_windows: 0,
    })
}

impl<I: LiveSource, C: FileCounts> FactSource for CountedFiles<I, C> {
    type Error = Infallible;

    fn machine(&self) -> &Machine {
        self.inner.machine()
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
        let Some(mut facts) = self.inner.next_facts()? else {
            return Ok(None);
        };
        self.add(&mut facts);
        Ok(Some(facts))
    }
}

impl<I: LiveSource, C: FileCounts> LiveSource for CountedFiles<I, C> {
    crate::as_inner!();

    fn start_over(&mut self) {
        self.inner.start_over();
        self.counter.take();
        self.last = Counts::default();
        self.before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_proc::Scope;
    use egeria_proc::processes::ProcessSource;
    use std::os::unix::fs::MetadataExt;
    use std::time::Duration;

    /// A child that does nothing and has a file open as its descriptor 0.
    fn child_with(file: &std::fs::File) -> std::process::Child {
        let mut sleep = std::process::Command::new("sleep");
        let standard_input = file.try_clone().unwrap();
        sleep.arg("1000").stdin(standard_input).spawn().unwrap()
    }

    #[test]
    fn opened_files_are_looked_at_again_at_once() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        let grow = |to: usize| std::fs::write(file.path(), vec![1; to]).unwrap();
        grow(1 << 20);
        let metadata = file.as_file().metadata().unwrap();
        let mut child = child_with(file.as_file());
        let used = FileUse {
            process_id: child.id(),
            thread_id: child.id(),
            device: (libc::major(metadata.dev()), libc::minor(metadata.dev())),
            inode: metadata.ino(),
            read_bytes: 1000,
            ..FileUse::default()
        };
        let counts = Counts {
            counted: Duration::from_millis(50),
            uses: vec![used],
            is_full: false,
        };
        let processes = ProcessSource::begin(Machine::detect().unwrap(), Scope::Tree(child.id()));
        let recorded = Recorded(std::iter::repeat_n(counts, 9).collect());
        let mut source = CountedFiles::new(processes, recorded);
        // Each look seems to have taken so long that the next one waits.
        let mut bytes = || {
            let facts = source.next_facts().unwrap().unwrap();
            let places = source.places.values_mut();
            places.for_each(|place| place.took = Duration::from_secs(1));
            (facts.files[0].bytes, source.files(), facts.files[0].file)
        };
        let (known, files, key) = bytes();
        grow(2 << 20);
        let later: Vec<u64> = (0..AGAIN_WINDOWS).map(|_| bytes().0).collect();
        grow(3 << 20);
        let waited = bytes().0;
        files.open(key).unwrap();
        let opened = bytes().0;
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((known, later[0], later[1]), (1 << 20, 1 << 20, 2 << 20));
        assert_eq!((waited, opened), (2 << 20, 3 << 20));
    }

    #[test]
    fn what_was_counted_for_a_part_stands_for_the_whole_window() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
        let metadata = file.as_file().metadata().unwrap();
        let (inode, device) = (metadata.ino(), metadata.dev());
        let mut child = child_with(file.as_file());
        let of_child = FileUse {
            process_id: child.id(),
            thread_id: child.id(),
            descriptor: 0,
            device: (libc::major(device), libc::minor(device)),
            inode,
            read_bytes: 1000,
            written_bytes: 10,
            ..FileUse::default()
        };
        let unrelated = FileUse {
            process_id: 1,
            thread_id: 1,
            ..of_child
        };
        let replaced = FileUse {
            inode: inode + 1,
            ..of_child
        };
        let counts = Counts {
            counted: Duration::from_millis(50),
            uses: vec![unrelated, of_child, replaced],
            is_full: false,
        };
        let machine = Machine::detect().unwrap();
        let processes = ProcessSource::begin(machine.clone(), Scope::Tree(child.id()));
        let empty = Counts::default();
        let recorded = Recorded([counts, empty].into());
        let mut source = CountedFiles::new(processes, recorded);
        // The second window counted nothing, and counts as equal to the first.
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(2));
            let facts = source.next_facts().unwrap().unwrap();
            facts.validate(&machine).unwrap();
            let [thread] = &facts.window.threads[..] else {
                panic!("{facts:?}");
            };
            let whole = 1000 * facts.window.duration_ns / 50_000_000;
            assert_eq!(thread.read_total(), whole);
            assert_eq!(
                facts
                    .window
                    .nodes
                    .iter()
                    .map(|node| node.read_bytes)
                    .sum::<u64>(),
                whole
            );
            let [found] = &facts.files[..] else {
                panic!("{:?}", facts.files);
            };
            assert_eq!((found.file.inode, found.bytes), (inode, 1 << 20));
            assert_eq!(found.bytes_on.iter().sum::<u64>(), 1 << 20);
            assert_eq!(thread.files[0].file, found.file);
            let files = source.files();
            assert_eq!(files.path(found.file).as_deref(), Some(file.path()));
            let again = files.open(found.file).expect("open still");
            assert_eq!(again.metadata().unwrap().ino(), inode);
            assert!(!thread.is_shared);
        }
        source.start_over();
        let facts = source.next_facts().unwrap().unwrap();
        assert_eq!(facts.window.threads[0].moved_total(), 0);
        let files = source.files();
        let key = FileKey { volume: 0, inode };
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = files.open(key).expect_err("nobody has it open");
        assert_eq!(gone.kind(), std::io::ErrorKind::NotFound);
    }
}
