//! Pools that nobody described are measured while nobody uses the volume. Stewards are this test program again
//! (`steward_process`), so that each has state of its own and can be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use egeria_engine::*;
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_steward::{LogReader, Record, Scope, Steward, StewardOptions, Target};

const FOLDER: &str = "EGERIA_TEST_FOLDER";
const MODE: &str = "EGERIA_TEST_MODE";
const PATIENCE: Duration = Duration::from_secs(60);
const ENOUGH_BYTES: u64 = 1280 << 20;

const PLAIN: NewInode = NewInode::of_root(libc::S_IFREG | 0o644);

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(pool_bytes: u64) -> Folder {
        let folder = Folder(tempfile::tempdir_in("/dev/shm").unwrap());
        let pool = PoolRequest {
            node: Machine::detect().unwrap().nodes[0].id.0,
            path: folder.pool(),
            bytes: Some(pool_bytes),
        };
        create_volume(&[pool], &CreateOptions::default()).unwrap();
        folder
    }

    fn pool(&self) -> PathBuf {
        self.0.path().join("pool")
    }

    fn store(&self) -> Option<String> {
        std::fs::read_to_string(self.0.path().join("state/measured-pools.json")).ok()
    }

    fn attach(&self) -> Arc<Volume> {
        let options = AttachOptions::default();
        Volume::attach(&self.pool(), AttachMode::CreateOrJoin, &options).unwrap()
    }

    fn free_blocks(&self) -> u64 {
        self.attach().space(None).free_blocks
    }

    fn steward(&self, mode: &str) -> StewardProcess {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "steward_process",
                "--exact",
                "--ignored",
                "--nocapture",
                "--quiet",
            ])
            .env(FOLDER, self.0.path())
            .env(MODE, mode)
            .env("EGERIA_RUNTIME_DIR", self.0.path().join("run"))
            .env("EGERIA_STATE_DIR", self.0.path().join("state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, said) = channel();
        std::thread::spawn(move || {
            let lines = lines.map_while(Result::ok);
            let said = lines.filter_map(|line| line.trim().strip_prefix('=').map(str::to_owned));
            said.for_each(|line| _ = tell.send(line));
        });
        StewardProcess { child, said }
    }

    /// The maximum that the last window of the log names for the node.
    fn maximum_bytes_s(&self) -> Option<f64> {
        let mut log = LogReader::open(&self.0.path().join("decisions.jsonl")).unwrap();
        let mut last = None;
        while let Some(record) = log.next_record().unwrap() {
            if let Record::Window(window) = record {
                last = window.nodes[0].pm_maximum_bytes_s;
            }
        }
        last
    }
}

struct StewardProcess {
    child: Child,
    said: Receiver<String>,
}

impl StewardProcess {
    /// All that it says to its end.
    fn notes(mut self) -> Vec<String> {
        let begun = Instant::now();
        let mut notes = Vec::new();
        while let Ok(line) = self.said.recv_timeout(PATIENCE) {
            notes.push(line);
            assert!(begun.elapsed() < 2 * PATIENCE, "{notes:?}");
        }
        assert!(self.child.wait().unwrap().success(), "{notes:?}");
        notes
    }
}

impl Drop for StewardProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A steward that ends once it has said what became of the pool, or after some windows.
#[test]
#[ignore = "run by the tests below"]
fn steward_process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let mode = std::env::var(MODE).unwrap();
    let attach = match mode.as_str() {
        "read-only" => AttachMode::ReadOnly,
        _ => AttachMode::CreateOrJoin,
    };
    let volume = Volume::attach(&folder.join("pool"), attach, &AttachOptions::default()).unwrap();
    let free_before = volume.space(None).free_blocks;
    let options = StewardOptions {
        policy: System::Full.to_string(),
        settings: System::Full.settings(),
        given: Vec::new(),
        window_ns: 50_000_000,
        machine: Machine::detect().unwrap(),
        scope: Scope::All,
        memory_source: None,
        measure_idle_pools: mode != "no",
        record: None,
        decision_log: Some(folder.join("decisions.jsonl")),
    };
    let steward = Steward::start(Target::Volume(Arc::clone(&volume)), options).unwrap();
    let begun = Instant::now();
    let is_over = || {
        let summary = steward.summary();
        let is_said = summary.notes.iter().any(|note| note.contains("measured"))
            && summary
                .notes
                .iter()
                .any(|note| note.starts_with("the memory of"));
        let is_late = match mode.as_str() {
            "once" => false,
            _ => summary.windows >= 15,
        };
        is_said || is_late || begun.elapsed() > PATIENCE
    };
    while !is_over() {
        if mode == "killed" && volume.space(None).free_blocks < free_before {
            println!("\n=measuring");
            std::thread::sleep(PATIENCE);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let is_all_free = volume.space(None).free_blocks == free_before;
    if matches!(mode.as_str(), "once" | "again") {
        // So that the log has a window.
        use_for_some_windows(&folder.join("pool"));
    }
    for note in steward.stop().notes {
        println!("\n={note}");
    }
    println!("\n=free {is_all_free}");
}

/// Another process writes to the volume, and removes what it wrote.
fn use_for_some_windows(pool: &Path) {
    let user = Command::new(std::env::current_exe().unwrap())
        .args(["user_process", "--exact", "--ignored", "--quiet"])
        .env(MODE, pool)
        .output()
        .unwrap();
    assert!(user.status.success(), "{user:?}");
}

#[test]
#[ignore = "run by the tests below"]
fn user_process() {
    let Some(pool) = std::env::var_os(MODE).map(PathBuf::from) else {
        return;
    };
    let options = AttachOptions::default();
    let volume = Volume::attach(&pool, AttachMode::CreateOrJoin, &options).unwrap();
    let made = volume.create_open(InodeNumber::ROOT, b"b", &PLAIN).unwrap();
    let file = volume.open(made.ino, None).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(300) {
        volume.write(file, 0, &[1; 4096]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    volume.close(made.ino);
    volume.close(made.ino);
    volume.unlink(InodeNumber::ROOT, b"b").unwrap();
}

#[test]
fn idle_pool_is_measured_once_and_all_space_comes_back() {
    let folder = Folder::new(ENOUGH_BYTES);
    let notes = folder.steward("once").notes();
    let is_measured = |note: &String| note.contains("was measured while no program used it");
    assert!(notes.iter().any(is_measured), "{notes:?}");
    assert!(notes.contains(&"free true".to_owned()), "{notes:?}");
    let store = folder.store().unwrap();
    let found: serde_json::Value = serde_json::from_str(&store).unwrap();
    let figure = |name: &str| found["pools"][0][name].as_f64().unwrap();
    let (read, write) = (figure("read_bytes_s"), figure("write_bytes_s"));
    assert!(read > 1e7 && write > 1e7, "{store}");
    let expected = (read / 3.0).max(write);
    let named = folder.maximum_bytes_s().unwrap();
    assert!(
        (named - expected).abs() < 1e-6 * expected,
        "{named} {store}"
    );
    let again = folder.steward("again").notes();
    assert_eq!(again, ["free true"], "known from the beginning");
    assert_eq!(folder.store().unwrap(), store);
    assert!(folder.maximum_bytes_s().is_some());
}

#[test]
fn volume_in_use_is_not_measured() {
    let folder = Folder::new(ENOUGH_BYTES);
    let volume = folder.attach();
    let made = volume.create_open(InodeNumber::ROOT, b"a", &PLAIN).unwrap();
    let file = volume.open(made.ino, None).unwrap();
    let steward = folder.steward("busy");
    let notes = std::thread::spawn(|| steward.notes());
    while !notes.is_finished() {
        volume.write(file, 0, &[1; 4096]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let notes = notes.join().unwrap();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("or let nobody use the volume")),
        "{notes:?}"
    );
    assert!(
        !notes.iter().any(|note| note.starts_with("the memory of")),
        "{notes:?}"
    );
    assert_eq!(folder.store(), None);
}

#[test]
fn pools_without_room_or_leave_are_not_measured() {
    for (pool_bytes, mode, why) in [
        (64 << 20, "full", "MiB of free space, and 1024 are needed"),
        (ENOUGH_BYTES, "read-only", "attached read-only"),
    ] {
        let folder = Folder::new(pool_bytes);
        let notes = folder.steward(mode).notes();
        let is_why = |note: &String| note.contains(why) && note.contains("machine calibrate");
        assert!(notes.iter().any(is_why), "{notes:?}");
        assert_eq!(folder.store(), None);
    }
    let folder = Folder::new(ENOUGH_BYTES);
    let notes = folder.steward("no").notes();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("machine calibrate") && !notes[0].contains("measured"));
    assert_eq!(folder.store(), None);
}

#[test]
fn killed_while_it_measures_it_leaves_nothing_behind() {
    let folder = Folder::new(ENOUGH_BYTES);
    let before = folder.free_blocks();
    let mut steward = folder.steward("killed");
    while steward.said.recv_timeout(PATIENCE).unwrap() != "measuring" {}
    steward.child.kill().unwrap();
    steward.child.wait().unwrap();
    assert_eq!(folder.free_blocks(), before);
    assert_eq!(folder.store(), None);
}
