//! Moves of file data to other nodes, on a separate thread and at the rate of the plan.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use egeria_engine::Volume;
use egeria_facts::{Facts, FileKey};
use egeria_machine::{Machine, NodeId};
use egeria_pages::found_files::FoundFiles;
use egeria_policy::control::Actuator;
use egeria_policy::planner::{Relocate, RelocationStep};
use egeria_policy::{Action, ActionKind, ActionOutcome};

use crate::movable::{MovableFiles, refused};
use crate::page_cache::PageCache;
use crate::volume_files::VolumeFiles;

/// A file is given up when this number of parts in a row could not be moved.
const MAX_GIVEN_UP: u32 = 8;
/// Parts without anything to move that are checked in one turn.
const MAX_LOOKS: u32 = 64;
/// A file that is not found is looked for again after this time, at most this often.
const FIND_AGAIN: Duration = Duration::from_millis(50);
const MAX_FINDS: u32 = 200;
/// Most files under way.
const MAX_JOBS: usize = 1024;
/// How often to check for a stop request while waiting with a part.
const LOOK: Duration = Duration::from_millis(20);

/// Results of relocations so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Relocations {
    /// Files that were moved, wholly or as far as asked.
    pub files: u64,
    /// Files given up: written during the move, deleted, or without room for them.
    pub given_up: u64,
    /// Bytes on their new nodes.
    pub moved_bytes: u64,
}

/// What the thread that moves data shares with the actuator.
#[derive(Debug, Default)]
struct Shared {
    done: Relocations,
    /// Files ordered, and neither moved nor given up.
    under_way: BTreeSet<FileKey>,
}

/// Moves data of files between nodes. Moved data stays where it is when this ends: both places are equally valid.
pub struct FileRelocation {
    files: Arc<dyn MovableFiles>,
    machine: Machine,
    /// Host time per machine time.
    dilation: f64,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Mutex<Shared>>,
}

/// A file that is being moved.
struct Job {
    file: FileKey,
    ends: (NodeId, NodeId),
    /// Part of its data there that is to move, 0 to 1.
    share: f64,
    /// Host time of one byte, ns.
    byte_ns: f64,
}

impl FileRelocation {
    /// Moves data of a volume between its pools.
    ///
    /// # Errors
    /// When no thread can be begun.
    pub fn of_volume(volume: Arc<Volume>, machine: &Machine) -> std::io::Result<FileRelocation> {
        let dilation = volume.emulation().dilation();
        let files = VolumeFiles::new(volume, machine);
        FileRelocation::begin(Arc::new(files), machine, dilation)
    }

    /// Moves what is in the page cache of files that were found in use, on any file system but DAX.
    ///
    /// # Errors
    /// When no thread can be begun, or no descriptor is left.
    pub fn of_page_cache(found: FoundFiles, machine: &Machine) -> std::io::Result<FileRelocation> {
        FileRelocation::begin(Arc::new(PageCache::new(found)?), machine, 1.0)
    }

    /// Starts a thread that waits for work.
    fn begin(
        files: Arc<dyn MovableFiles>,
        machine: &Machine,
        dilation: f64,
    ) -> std::io::Result<FileRelocation> {
        let (jobs, inbox) = channel();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (of_thread, counts) = (Arc::clone(&files), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("egeria-relocate".to_owned())
            .spawn(move || work(of_thread.as_ref(), &inbox, &counts))?;
        Ok(FileRelocation {
            files,
            machine: machine.clone(),
            dilation,
            jobs: Some(jobs),
            thread: Some(thread),
            shared,
        })
    }

    /// Results so far.
    pub fn done(&self) -> Relocations {
        lock(&self.shared).done
    }

    fn order(&mut self, step: &RelocationStep, facts: &Facts) -> ActionOutcome {
        let Relocate::Move { from, to } = step.action else {
            return refused("no copies of files are kept");
        };
        let file = facts.files.iter().find(|file| file.file == step.file);
        let position = self.machine.index_of(from);
        let there = file.zip(position).map_or(0, |(file, node)| file.on(node));
        if there == 0 {
            return ActionOutcome::Vanished;
        }
        if let Err(outcome) = self.files.check(step.file, (from, to), step.bytes) {
            return outcome;
        }
        let job = Job {
            file: step.file,
            ends: (from, to),
            share: (step.bytes as f64 / there as f64).min(1.0),
            byte_ns: 1e9 / step.bytes_s.max(1.0) * self.dilation,
        };
        lock(&self.shared).under_way.insert(step.file);
        match self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => ActionOutcome::Done,
            _ => {
                lock(&self.shared).under_way.remove(&step.file);
                refused("the thread that moves data has ended")
            }
        }
    }
}

impl Actuator for FileRelocation {
    fn kinds(&self) -> &[ActionKind] {
        &[ActionKind::Relocation]
    }

    fn apply(&mut self, action: &Action, facts: &Facts) -> ActionOutcome {
        match action {
            Action::Relocate(step) => self.order(step, facts),
            _ => ActionOutcome::NoActuator,
        }
    }

    fn is_under_way(&self, action: &Action) -> bool {
        match action {
            Action::Relocate(step) => lock(&self.shared).under_way.contains(&step.file),
            _ => false,
        }
    }
}

impl Drop for FileRelocation {
    fn drop(&mut self) {
        // Close the queue: the thread ends after its current part.
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A job and its progress.
struct Course {
    job: Job,
    /// Where the next part begins, bytes.
    at: u64,
    /// Parts with data to move seen so far; needed to leave some of them.
    parts: u64,
    given_up: u32,
    /// Consecutive times that the file was not found.
    missed: u32,
    /// The earliest time of the next part.
    due: Instant,
}

fn work(files: &dyn MovableFiles, inbox: &Receiver<Job>, shared: &Mutex<Shared>) {
    let mut courses: VecDeque<Course> = VecDeque::new();
    loop {
        let wait = match courses.front() {
            Some(first) => first
                .due
                .saturating_duration_since(Instant::now())
                .min(LOOK),
            None => Duration::from_secs(3600),
        };
        match inbox.recv_timeout(wait) {
            Ok(job) if courses.len() < MAX_JOBS => courses.push_back(Course {
                job,
                at: 0,
                parts: 0,
                given_up: 0,
                missed: 0,
                due: Instant::now(),
            }),
            Ok(job) => end(shared, job.file, |done| done.given_up += 1),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if courses
            .front()
            .is_some_and(|first| first.due <= Instant::now())
            && let Some(course) = courses.pop_front()
            && let Some(course) = go_on(files, course, shared)
        {
            // Sorted by due time, earliest first.
            let at = courses.partition_point(|other| other.due <= course.due);
            courses.insert(at, course);
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file was moved or given up.
fn end(shared: &Mutex<Shared>, file: FileKey, count: impl FnOnce(&mut Relocations)) {
    let mut shared = lock(shared);
    shared.under_way.remove(&file);
    count(&mut shared.done);
}

/// The next part of a file; `None` when it is done or given up.
fn go_on(files: &dyn MovableFiles, mut course: Course, shared: &Mutex<Shared>) -> Option<Course> {
    let file = course.job.file;
    let Some(size_bytes) = files.size_bytes(file) else {
        return find_again(course, shared);
    };
    let mut moved_bytes = 0;
    for _ in 0..MAX_LOOKS {
        course.at = files.next_part(file, course.at);
        if course.at >= size_bytes || course.given_up >= MAX_GIVEN_UP || moved_bytes > 0 {
            break;
        }
        let end = (course.at + files.part_bytes()).min(size_bytes);
        let share = course.job.share;
        let goes = |part: u64| (part as f64 * share).floor();
        let is_taken = goes(course.parts + 1) > goes(course.parts);
        course.parts += 1;
        if is_taken {
            let part = files.move_part(file, course.at..end, course.job.ends);
            if part.is_away {
                course.parts -= 1;
                return find_again(course, shared);
            }
            course.missed = 0;
            moved_bytes += part.moved_bytes;
            course.given_up = match (part.is_hopeless, part.is_given_up) {
                (true, _) => MAX_GIVEN_UP,
                (_, true) => course.given_up + 1,
                _ => 0,
            };
        }
        course.at = end;
    }
    lock(shared).done.moved_bytes += moved_bytes;
    if course.at >= size_bytes || course.given_up >= MAX_GIVEN_UP {
        end(shared, file, |done| {
            if course.given_up >= MAX_GIVEN_UP {
                done.given_up += 1
            } else {
                done.files += 1
            }
        });
        return None;
    }
    let pause = Duration::from_nanos((moved_bytes as f64 * course.job.byte_ns) as u64);
    course.due = Instant::now() + pause;
    Some(course)
}

/// A file that is not found waits, and is given up at last.
fn find_again(mut course: Course, shared: &Mutex<Shared>) -> Option<Course> {
    course.missed += 1;
    if course.missed > MAX_FINDS {
        end(shared, course.job.file, |done| done.given_up += 1);
        return None;
    }
    course.due = Instant::now() + FIND_AGAIN;
    Some(course)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::movable::Part;
    use egeria_engine::{
        AllocationPolicy, AttachMode, AttachOptions, CreateOptions, FileReference, InodeNumber,
        NewInode, PoolRequest, create_volume,
    };
    use egeria_facts::{FileFacts, FileKey, Window};
    use egeria_policy::planner::RelocationReason;

    const FILE_BYTES: u64 = 8 << 20;

    fn volume(directory: &std::path::Path) -> (Arc<Volume>, Machine) {
        let request = |node: u16| PoolRequest {
            node,
            path: directory.join(format!("pool{node}")),
            bytes: Some(48 << 20),
        };
        let options = CreateOptions {
            force: false,
            root: Some((0, 0, 0o755)),
        };
        create_volume(&[request(0), request(1)], &options).expect("mkfs");
        let mut machine = Machine::profile("optane-2s").expect("a profile");
        if let Some(emulated) = &mut machine.emulated {
            emulated.timing = false;
        }
        let options = AttachOptions {
            machine: Some(machine.clone()),
            allocation: Some(AllocationPolicy::Pool(0)),
            ..AttachOptions::default()
        };
        let pool = directory.join("pool0");
        let volume = Volume::attach(&pool, AttachMode::CreateOrJoin, &options).expect("attach");
        (volume, machine)
    }

    fn file(volume: &Volume) -> FileReference {
        let new = NewInode::of_root(libc::S_IFREG | 0o600);
        let ino = volume
            .create(InodeNumber::ROOT, b"hot", &new)
            .expect("create")
            .ino;
        let file = volume.open(ino, None).expect("open");
        for at in (0..FILE_BYTES).step_by(1 << 20) {
            volume
                .write(file, at, &vec![at as u8; 1 << 20])
                .expect("write");
        }
        file
    }

    /// An action, and the facts that it was decided on.
    fn order(machine: &Machine, file: FileKey, action: Relocate, bytes: u64) -> (Action, Facts) {
        let step = RelocationStep {
            file,
            action,
            bytes,
            bytes_s: 1e12,
            cost_ns: 0,
            loss_thread_s: 0.0,
            gain_threads: 1.0,
            horizon_ns: 1,
            why: RelocationReason::RemoteReads {
                remote_share: 1.0,
                remote_bytes_s: 1e9,
            },
        };
        let mut facts = Facts::of(Window::empty(machine, 0, 0, 1));
        facts.files.push(FileFacts {
            file,
            bytes: FILE_BYTES,
            bytes_on: vec![FILE_BYTES, 0],
            read_bytes: vec![vec![0; 2]; 2],
            written_bytes: 0,
            replicas: Vec::new(),
        });
        (Action::Relocate(step), facts)
    }

    fn key(file: FileReference) -> FileKey {
        FileKey {
            volume: 0,
            inode: file.ino().0,
        }
    }

    fn ordered(
        volume: &Arc<Volume>,
        machine: &Machine,
        file: FileReference,
        action: Relocate,
        bytes: u64,
    ) -> (ActionOutcome, FileRelocation) {
        let (action, facts) = order(machine, key(file), action, bytes);
        let mut relocation = FileRelocation::of_volume(Arc::clone(volume), machine).expect("begin");
        let outcome = relocation.apply(&action, &facts);
        (outcome, relocation)
    }

    fn wait_for(relocation: &FileRelocation) -> Relocations {
        let until = Instant::now() + Duration::from_secs(20);
        while relocation.done().files + relocation.done().given_up == 0 {
            assert!(Instant::now() < until, "never done");
            std::thread::sleep(Duration::from_millis(1));
        }
        relocation.done()
    }

    /// A file without an end, and with nothing to move.
    struct Endless;

    impl MovableFiles for Endless {
        fn part_bytes(&self) -> u64 {
            4096
        }

        fn check(&self, _: FileKey, _: (NodeId, NodeId), _: u64) -> Result<(), ActionOutcome> {
            Ok(())
        }

        fn size_bytes(&self, _: FileKey) -> Option<u64> {
            Some(u64::MAX)
        }

        fn next_part(&self, _: FileKey, at: u64) -> u64 {
            at
        }

        fn move_part(&self, _: FileKey, _: std::ops::Range<u64>, _: (NodeId, NodeId)) -> Part {
            Part::default()
        }
    }

    #[test]
    fn a_long_search_for_something_to_move_ends_with_the_actuator() {
        let machine = Machine::profile("optane-2s").expect("a profile");
        let (from, to) = (machine.nodes[0].id, machine.nodes[1].id);
        let mut relocation =
            FileRelocation::begin(Arc::new(Endless), &machine, 1.0).expect("begin");
        let action = Relocate::Move { from, to };
        let (action, facts) = order(&machine, FileKey::default(), action, FILE_BYTES);
        assert_eq!(relocation.apply(&action, &facts), ActionOutcome::Done);
        assert!(relocation.is_under_way(&action));
        let (ended, wait) = channel();
        std::thread::spawn(move || {
            drop(relocation);
            let _ = ended.send(());
        });
        wait.recv_timeout(Duration::from_secs(20)).expect("the end");
    }

    #[test]
    fn files_that_nobody_has_open_any_more_are_left() {
        let machine = Machine::profile("optane-2s").expect("a profile");
        let (from, to) = (machine.nodes[0].id, machine.nodes[1].id);
        let found = FoundFiles::default();
        let mut relocation = FileRelocation::of_page_cache(found, &machine).expect("begin");
        let (action, facts) = order(&machine, FileKey::default(), Relocate::Move { from, to }, 1);
        assert_eq!(relocation.apply(&action, &facts), ActionOutcome::Vanished);
    }

    #[test]
    fn files_move_as_far_as_asked_and_copies_are_refused() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, machine) = volume(directory.path());
        let file = file(&volume);
        let (from, to) = (machine.nodes[0].id, machine.nodes[1].id);
        let half = (Relocate::Move { from, to }, FILE_BYTES / 2);
        let (outcome, relocation) = ordered(&volume, &machine, file, half.0, half.1);
        assert_eq!(outcome, ActionOutcome::Done);
        assert_eq!(wait_for(&relocation).moved_bytes, FILE_BYTES / 2);
        let (action, _) = order(&machine, key(file), half.0, half.1);
        assert!(!relocation.is_under_way(&action), "it has ended");
        let on =
            |volume: &Volume| volume.bytes_by_pool(file, u64::MAX).expect("where")[..2].to_vec();
        assert_eq!(on(&volume), [FILE_BYTES / 2, FILE_BYTES / 2]);
        let copy = Relocate::Replicate { from, to };
        let (outcome, _relocation) = ordered(&volume, &machine, file, copy, FILE_BYTES);
        assert!(
            matches!(outcome, ActionOutcome::Refused { .. }),
            "{outcome:?}"
        );
        let (_, relocation) = ordered(&volume, &machine, file, half.0, FILE_BYTES);
        assert_eq!(wait_for(&relocation).moved_bytes, FILE_BYTES / 2);
        assert_eq!(on(&volume), [0, FILE_BYTES]);
        let mut block = [0; 4096];
        for at in (0..FILE_BYTES).step_by(1 << 20) {
            volume.read(file, at, &mut block).expect("read");
            assert!(block.iter().all(|byte| *byte == at as u8));
        }
    }
}
