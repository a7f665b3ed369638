//! A steward on live threads of other processes, on the emulated machine `optane-2s`.
//!
//! Workers and stewards to be killed are this test program again (`worker_process`, `steward_process`).

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use common::{emulated, new_volume, wait_for};
use egeria_engine::*;
use egeria_facts::CpuSet;
use egeria_harness::testing::session::{mapped_session, words};
use egeria_machine::{CpuId, Machine};
use egeria_policy::planner::System;
use egeria_proc::LiveSource;
use egeria_proc::task;
use egeria_session::SessionSource;
use egeria_steward::{Record, Scope, Steward, StewardError, StewardOptions, Target};

const POOL: &str = "EGERIA_TEST_POOL";
const ORDERS: &str = "EGERIA_TEST_ORDERS";
/// Where the stewards of this process keep their files. Gone with the last fixture that uses it.
struct RuntimeDirectory;

static USERS: Mutex<usize> = Mutex::new(0);

impl RuntimeDirectory {
    fn path() -> PathBuf {
        static SET: Once = Once::new();
        let name = format!("egeria-steward-run-{}", std::process::id());
        let directory = Path::new("/dev/shm").join(name);
        SET.call_once(|| {
            // SAFETY: once, before the first steward; other threads of the test read it later.
            unsafe { std::env::set_var("EGERIA_RUNTIME_DIR", &directory) };
        });
        directory
    }

    fn begin() -> RuntimeDirectory {
        RuntimeDirectory::path();
        *USERS.lock().unwrap() += 1;
        RuntimeDirectory
    }
}

impl Drop for RuntimeDirectory {
    fn drop(&mut self) {
        let mut users = USERS
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        *users -= 1;
        if *users == 0 {
            let _ = std::fs::remove_dir_all(RuntimeDirectory::path());
        }
    }
}

/// Whether the two nodes stand on different CPUs here, as moving between them needs.
fn has_two_cpus() -> bool {
    let machine = emulated();
    machine.nodes[0].cpus != machine.nodes[1].cpus
}

struct Fixture {
    volume: Arc<Volume>,
    folder: PathBuf,
    _runtime: RuntimeDirectory,
}

impl Fixture {
    fn new() -> Fixture {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let runtime = RuntimeDirectory::begin();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!(
            "/dev/shm/egeria-steward-{}-{number}",
            std::process::id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let volume = new_volume(&folder, None);
        volume.set_timing(false);
        let fixture = Fixture {
            volume,
            folder,
            _runtime: runtime,
        };
        for name in ["a", "b", "c", "d"] {
            fixture.write_file(name);
        }
        fixture.volume.set_timing(true);
        fixture
    }

    /// All data on node 0.
    fn write_file(&self, name: &str) {
        self.volume.set_allocation(AllocationPolicy::Pool(0));
        let new = NewInode::of_root(libc::S_IFREG | 0o644);
        let made = self
            .volume
            .create_open(InodeNumber::ROOT, name.as_bytes(), &new)
            .unwrap();
        let file = self.volume.open(made.ino, None).unwrap();
        self.volume.write(file, 0, &vec![1; 4 << 20]).unwrap();
    }

    fn options(&self, policy: System) -> StewardOptions {
        common::options(policy, &self.folder)
    }

    fn target(&self) -> Target {
        Target::Volume(self.volume.clone())
    }

    fn worker(&self, orders: &str) -> Worker {
        Worker::start("worker_process", &self.folder.join("pool0"), orders)
    }

    fn records(&self) -> Vec<Record> {
        common::records(&self.folder)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// This program again, doing one ignored test below. It ends when its stdin does.
struct Worker {
    child: Child,
    said: Receiver<String>,
}

impl Worker {
    fn start(what: &str, pool: &Path, orders: &str) -> Worker {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([what, "--exact", "--ignored", "--nocapture", "--quiet"])
            .env(POOL, pool)
            .env(ORDERS, orders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, said) = std::sync::mpsc::channel();
        // A thread that reads, so that nobody waits for a line without a limit.
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .for_each(|line| _ = tell.send(line));
        });
        Worker { child, said }
    }

    /// The next line that begins with `=`, without it.
    fn line(&mut self) -> String {
        loop {
            let line = match self.said.recv_timeout(Duration::from_secs(60)) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => panic!("the worker has said nothing for 60 s"),
                Err(RecvTimeoutError::Disconnected) => panic!("the worker ended"),
            };
            if let Some(said) = line.trim().strip_prefix('=') {
                return said.to_owned();
            }
        }
    }

    /// Ids of this many threads at work.
    fn threads(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.line().parse().unwrap()).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cpus_of_node(position: usize) -> CpuSet {
    emulated().nodes[position].cpus.iter().copied().collect()
}

fn own_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn own_cpus() -> CpuSet {
    task::affinity(own_id()).unwrap()
}

// --- what the other processes do ---

/// The volume that the process which started this one has attached.
fn joined() -> Option<Arc<Volume>> {
    let pool = PathBuf::from(std::env::var_os(POOL)?);
    Some(Volume::attach(&pool, AttachMode::Join, &AttachOptions::default()).unwrap())
}

/// Reads one file per word of the orders in a thread each: `a`, or `a!1` bound to node 1 by itself, or
/// `a+` that starts another thread (reading `b`) once it is bound to one CPU, or `a-` that then ends.
#[test]
#[ignore = "a process of other tests"]
fn worker_process() {
    let Some(volume) = joined() else { return };
    let orders = std::env::var(ORDERS).unwrap();
    let threads: Vec<_> = orders
        .split_whitespace()
        .map(|order| {
            let (volume, order) = (volume.clone(), order.to_owned());
            std::thread::spawn(move || read_on(&volume, &order))
        })
        .collect();
    for thread in threads {
        let _ = thread.join();
    }
}

fn read_on(volume: &Arc<Volume>, order: &str) {
    let own = own_id();
    if let Some((_, node)) = order.split_once('!') {
        task::set_affinity(own, &cpus_of_node(node.parse().unwrap())).unwrap();
    }
    let found = volume
        .lookup(InodeNumber::ROOT, &order.as_bytes()[..1])
        .unwrap();
    let file = volume.open(found.ino, None).unwrap();
    let mut buffer = vec![0; 4096];
    let mut offset = 0;
    let mut calls = 0;
    let mut heir = None;
    loop {
        volume.read(file, offset, &mut buffer).unwrap();
        offset = (offset + 4096) % (4 << 20);
        calls += 1;
        if calls == 1 {
            // Placed by now: the next thread goes elsewhere.
            println!("={own}");
            std::io::stdout().flush().unwrap();
        }
        if order.ends_with(['+', '-']) && heir.is_none() && own_cpus().len() == 1 {
            let volume = volume.clone();
            heir = Some(std::thread::spawn(move || read_on(&volume, "b")));
            if order.ends_with('-') {
                return;
            }
        }
    }
}

/// A steward that works until it is killed.
#[test]
#[ignore = "a process of other tests"]
fn steward_process() {
    let Some(volume) = joined() else { return };
    let options = StewardOptions {
        machine: volume.declared_machine().unwrap(),
        decision_log: None,
        ..common::options(System::Rl, Path::new(""))
    };
    let steward = Steward::start(Target::Volume(volume), options).unwrap();
    println!("=started");
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        std::hint::black_box(&steward);
    }
}

// --- the tests ---

#[test]
fn a_thread_far_from_its_data_is_moved_and_given_back() {
    if !has_two_cpus() {
        return;
    }
    let fixture = Fixture::new();
    let mut worker = fixture.worker("a b");
    let threads = worker.threads(2);
    let given = own_cpus();
    let steward = Steward::start(fixture.target(), fixture.options(System::Rl)).unwrap();
    let home = cpus_of_node(0);
    let moved = || {
        let at_home = threads
            .iter()
            .filter(|thread| task::affinity(**thread).unwrap() == home);
        at_home.count() == 1
    };
    wait_for("a move", moved);
    let windows = steward.summary().windows;
    wait_for("three more windows", || {
        steward.summary().windows >= windows + 3
    });
    let summary = steward.stop();
    assert_eq!((summary.moves, summary.max_moves_per_thread), (1, 1));
    assert_eq!(summary.restored, 1);
    assert_eq!(summary.reasons, [("remote_reads".to_owned(), 1)]);
    let [action] = &summary.actions[..] else {
        panic!("{:?}", summary.actions);
    };
    let names = [&action.action, &action.reason, &action.outcome].map(String::as_str);
    assert_eq!(names, ["migrate_thread", "remote_reads", "done"]);
    assert_eq!((action.count, summary.budget), (1, None));
    for thread in threads {
        assert_eq!(task::affinity(thread).unwrap(), given);
    }
    let last = summary.series.last().unwrap();
    assert_eq!(last.local_share, Some(1.0));
}

#[test]
fn the_log_says_what_was_expected_and_what_came() {
    if !has_two_cpus() {
        return;
    }
    let fixture = Fixture::new();
    let mut worker = fixture.worker("a b");
    let _threads = worker.threads(2);
    let steward = Steward::start(fixture.target(), fixture.options(System::Full)).unwrap();
    wait_for("a move", || steward.summary().moves > 0);
    let windows = steward.summary().windows;
    wait_for("its result", || steward.summary().windows >= windows + 2);
    steward.stop();
    let records = fixture.records();
    assert!(matches!(&records[0], Record::Start { emulated: true, .. }));
    assert!(matches!(
        records.last(),
        Some(Record::Stop { restored: 1, .. })
    ));
    let decisions = records.iter().filter_map(|record| match record {
        Record::Window(decision) => Some(decision),
        _ => None,
    });
    let decisions: Vec<_> = decisions.collect();
    let at = decisions
        .iter()
        .position(|decision| !decision.actions.is_empty())
        .unwrap();
    let (decision, next) = (&decisions[at], &decisions[at + 1]);
    let line = &decision.actions[0];
    let expected = line.record.expected.unwrap();
    assert_eq!((expected.before, expected.expected), (0.0, 1.0));
    assert!(line.sentence.contains("reads"), "{}", line.sentence);
    let result = &next.results[0];
    assert_eq!(result.result.action, line.record.action);
    assert_eq!(
        (result.result.measured, result.result.missed),
        (Some(1.0), false)
    );
    let thread = result.thread.as_ref().unwrap();
    assert_eq!(thread.local_share_before, Some(0.0));
}

#[test]
fn a_thread_bound_by_its_owner_stays_and_the_log_says_why() {
    if !has_two_cpus() {
        return;
    }
    let fixture = Fixture::new();
    let mut worker = fixture.worker("a!1");
    let thread = worker.threads(1)[0];
    let steward = Steward::start(fixture.target(), fixture.options(System::Full)).unwrap();
    wait_for("three windows", || steward.summary().windows >= 3);
    let summary = steward.stop();
    assert_eq!(summary.moves, 0);
    assert_eq!(task::affinity(thread).unwrap(), cpus_of_node(1));
    let kept = fixture.records().iter().any(|record| match record {
        Record::Window(decision) => {
            (decision.kept.iter()).any(|kept| kept.thread.thread_id == thread)
        }
        _ => false,
    });
    assert!(kept);
}

#[test]
fn a_second_steward_is_refused_and_told_who_the_first_is() {
    let fixture = Fixture::new();
    let start = || Steward::start(fixture.target(), fixture.options(System::Full));
    let first = start().unwrap();
    let refused = start().err().unwrap();
    assert!(
        matches!(&refused, StewardError::Running { process_id, log }
            if *process_id == std::process::id() && *log == fixture.folder.join("decisions.jsonl")),
        "{refused}"
    );
    first.stop();
    start().unwrap();
}

#[test]
fn what_a_killed_steward_narrowed_is_put_back_by_the_next() {
    if !has_two_cpus() {
        return;
    }
    let fixture = Fixture::new();
    let mut worker = fixture.worker("a b");
    let threads = worker.threads(2);
    let given = own_cpus();
    let mut killed = Worker::start("steward_process", &fixture.folder.join("pool0"), "");
    assert_eq!(killed.line(), "started");
    let narrowed = || {
        threads
            .iter()
            .any(|thread| task::affinity(*thread).unwrap() != given)
    };
    wait_for("a move", narrowed);
    drop(killed);
    assert!(narrowed(), "nobody put it back yet");
    let next = Steward::start(fixture.target(), fixture.options(System::Off)).unwrap();
    assert_eq!(next.summary().restored_at_start, 1);
    for thread in &threads {
        assert_eq!(task::affinity(*thread).unwrap(), given);
    }
    assert_eq!(next.stop().moves, 0);
}

#[test]
fn heirs_of_a_killed_stewards_threads_are_restored() {
    if !has_two_cpus() {
        return;
    }
    let fixture = Fixture::new();
    let mut worker = fixture.worker("a+ c+");
    let mut threads = worker.threads(2);
    let original = own_cpus();
    let mut killed = Worker::start("steward_process", &fixture.folder.join("pool0"), "");
    assert_eq!(killed.line(), "started");
    threads.extend(worker.threads(1));
    drop(killed);
    let masks = || {
        threads
            .iter()
            .map(|thread| task::affinity(*thread).unwrap())
    };
    assert!(masks().filter(|mask| *mask != original).count() >= 2);
    let next = Steward::start(fixture.target(), fixture.options(System::Off)).unwrap();
    assert!(masks().all(|mask| mask == original));
    next.stop();
}

#[test]
fn threads_that_a_moved_thread_starts_get_all_cpus_back_too() {
    if !has_two_cpus() {
        return;
    }
    let fixture = Fixture::new();
    // Both may start another: one of them is moved, and its heir inherits one node's CPUs.
    let mut worker = fixture.worker("a+ c+");
    let mut threads = worker.threads(2);
    let given = own_cpus();
    let steward = Steward::start(fixture.target(), fixture.options(System::Rl)).unwrap();
    threads.extend(worker.threads(1));
    steward.stop();
    for thread in threads {
        assert_eq!(task::affinity(thread).unwrap(), given, "thread {thread}");
    }
}

#[test]
fn threads_of_a_moved_starter_get_their_cpus_back() {
    if !has_two_cpus() {
        return;
    }
    let fixture = Fixture::new();
    let mut worker = fixture.worker("a- c-");
    let threads = worker.threads(2);
    let given = own_cpus();
    let steward = Steward::start(fixture.target(), fixture.options(System::Rl)).unwrap();
    let heir = worker.threads(1)[0];
    let ended = |thread: &u32| task::affinity(*thread).is_err();
    wait_for("the end of the moved one", || threads.iter().any(ended));
    let windows = steward.summary().windows;
    wait_for("two more windows", || {
        steward.summary().windows >= windows + 2
    });
    assert_ne!(task::affinity(heir).unwrap(), given);
    steward.stop();
    assert_eq!(task::affinity(heir).unwrap(), given);
}

#[test]
fn a_thread_started_by_a_narrowed_one_was_given_what_that_was() {
    if !has_two_cpus() {
        return;
    }
    let fixture = Fixture::new();
    let mut worker = fixture.worker("a+");
    let mut watch = SessionSource::begin(fixture.volume.clone(), emulated(), Scope::All);
    let parent = worker.threads(1)[0];
    let given = own_cpus();
    let key = watch.take().threads[0].key;
    assert_eq!(key.thread_id, parent);
    let masks = watch.masks();
    masks.lock().set_applied(key, Some(cpus_of_node(0)));
    task::set_affinity(parent, &cpus_of_node(0)).unwrap();
    let heir = worker.threads(1)[0];
    let window = watch.take();
    let heir = window
        .threads
        .iter()
        .find(|each| each.key.thread_id == heir);
    assert_eq!(heir.expect("the heir is met").allowed_cpus, given);
}

#[test]
fn failed_start_keeps_previous_log() {
    let fixture = Fixture::new();
    let log = fixture.folder.join("decisions.jsonl");
    std::fs::write(&log, "the last one's").unwrap();
    let no_trace = fixture.folder.join("no trace");
    std::fs::write(&no_trace, "something else").unwrap();
    let options = StewardOptions {
        memory_source: None,
        measure_idle_pools: false,
        record: Some(no_trace),
        ..fixture.options(System::Full)
    };
    let refused = Steward::start(fixture.target(), options).err();
    let refused = refused.unwrap().to_string();
    assert!(refused.contains("is no trace"), "{refused}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "the last one's");
    let journal = format!("{}.journal.jsonl", fixture.volume.uuid());
    assert!(!RuntimeDirectory::path().join(journal).exists());
}

#[test]
fn a_steward_survives_threads_that_come_and_go() {
    let fixture = Fixture::new();
    let steward = Steward::start(fixture.target(), fixture.options(System::Full)).unwrap();
    for round in 0..5 {
        let mut worker = fixture.worker("a b c d a b c d");
        worker.threads(8);
        // Killed in the middle of a window, with plans made for its threads.
        let windows = steward.summary().windows;
        wait_for("a window", || {
            steward.summary().windows > windows + round % 2
        });
    }
    let windows = steward.summary().windows;
    wait_for("two more windows", || {
        steward.summary().windows >= windows + 2
    });
    assert!(steward.stop().moves > 0 || !has_two_cpus());
}

#[test]
fn a_machine_that_is_not_the_session_s_is_refused() {
    let fixture = Fixture::new();
    let options = StewardOptions {
        machine: Machine::detect().unwrap(),
        ..fixture.options(System::Full)
    };
    let refused = Steward::start(fixture.target(), options).err().unwrap();
    assert!(
        matches!(refused, StewardError::OtherMachine { .. }),
        "{refused}"
    );
}

#[test]
fn the_session_tells_its_machine_to_who_joins() {
    let fixture = Fixture::new();
    assert_eq!(fixture.volume.declared_machine(), Some(emulated()));
    assert!(emulated().nodes[0].cpus.contains(&CpuId(0)));
}

// --- forged sessions ---

/// Writes into the session, as whoever may attach it can, that the threads of one process are another's.
fn forge(volume: &Volume, from: u32, threads: &[u32], to: u32) {
    let (_, file) = mapped_session(&volume.uuid().simple().to_string());
    let start = |process| task::began(process).unwrap();
    let (begun, to_begun) = (start(from), start(to));
    let mut forged = 0;
    for (at, word, next) in words(&file) {
        let process = word == u64::from(from) && next == begun;
        if process || threads.iter().any(|thread| word == u64::from(*thread)) {
            file.write_all_at(&u64::from(to).to_ne_bytes(), at).unwrap();
            forged += 1;
        }
        if process {
            file.write_all_at(&to_begun.to_ne_bytes(), at + 8).unwrap();
        }
    }
    assert!(forged > threads.len(), "{forged} words");
}

#[test]
fn a_process_that_a_forged_slot_names_is_not_moved() {
    if !has_two_cpus() {
        return;
    }
    let fixture = Fixture::new();
    let mut worker = fixture.worker("a b");
    let threads = worker.threads(2);
    let mut unrelated = Command::new("sleep").arg("60").spawn().unwrap();
    forge(&fixture.volume, worker.child.id(), &threads, unrelated.id());
    let before = task::affinity(unrelated.id()).unwrap();
    let options = fixture.options(System::Rl);
    let steward = Steward::start(fixture.target(), options).unwrap();
    let windows = || steward.summary().windows;
    wait_for("windows", || windows() >= 4);
    let after = task::affinity(unrelated.id()).unwrap();
    let moves = steward.stop().moves;
    unrelated.kill().unwrap();
    unrelated.wait().unwrap();
    assert_eq!((after, moves), (before, 0));
}
