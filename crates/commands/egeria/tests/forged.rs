//! A user who forges his session: root's steward on his volume moves nobody's threads but his.
//!
//! The forger is this test program again, as nobody (`forger_process`).

use crate::common;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use common::{Background, Sandbox, egeria, eventually, is_root, kill};
use egeria_engine::*;
use egeria_harness::testing::session::{mapped_session, words};
use egeria_machine::Machine;
use egeria_proc::task;
use rustix::process::Signal;

const DIRECTORY: &str = "EGERIA_TEST_DIRECTORY";
const VICTIM: &str = "EGERIA_TEST_VICTIM";

#[test]
fn a_forged_session_moves_no_thread_of_root() {
    let emulated = Machine::profile("optane-2s").unwrap();
    if !is_root() || emulated.nodes[0].cpus == emulated.nodes[1].cpus {
        return;
    }
    let sandbox = Sandbox::new();
    fs::set_permissions(&sandbox.root, fs::Permissions::from_mode(0o755)).unwrap();
    let theirs = sandbox.directory("theirs");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&theirs, Some(65_534), Some(65_534)).unwrap();
    let victim = Background::start(Command::new("sleep").arg("60"));
    let before = task::affinity(victim.id()).unwrap();
    let mut forger = forger(&theirs, victim.id());
    let said = BufReader::new(forger.stdout.take().unwrap()).lines();
    let mut said = said.map_while(Result::ok);
    let session = said.find_map(|line| Some(line.split_once("=forged ")?.1.to_owned()));
    let session = session.expect("it could not");

    let trace = theirs.join("trace");
    let pool = theirs.join("pool0");
    let mut steward = egeria(["steward", pool.to_str().unwrap(), "--record"]);
    steward
        .arg(&trace)
        .args(["--policy", "rl", "--window", "5"]);
    let mut steward = Background::start(steward.env("XDG_RUNTIME_DIR", &theirs));
    // Each window makes it longer.
    let mut lengths = BTreeSet::new();
    eventually("windows", || {
        lengths.extend(fs::metadata(&trace).map(|facts| facts.len()));
        lengths.len() > 5
    });
    let after = task::affinity(victim.id()).unwrap();
    has_no_rights_left(steward.id());
    kill(steward.id(), Signal::INT);
    common::wait(&mut steward.0);
    let _ = forger.kill();
    let _ = forger.wait();
    let _ = fs::remove_file(session);
    assert_eq!(after, before, "root's process was moved");
}

/// Root's command has become nobody in all its threads for good, and is closed to nobody's other processes: root's
/// environment is in its memory, and root's terminal may be open in it.
fn has_no_rights_left(process: u32) {
    let threads = task::threads(process);
    assert!(threads.len() > 1);
    for thread in threads {
        let path = format!("/proc/{process}/task/{thread}/status");
        let status = fs::read_to_string(path).unwrap();
        let is = |name: &str, values: &[&str]| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let words: Vec<&str> = line.unwrap().split_ascii_whitespace().collect();
            assert_eq!(words, values, "{name} {status}");
        };
        is("Uid:", &["65534"; 4]);
        is("Gid:", &["65534"; 4]);
        is("Groups:", &["65534"]);
        is("CapPrm:", &["0000000000000000"]);
        is("NoNewPrivs:", &["1"]);
        is("Seccomp:", &["2"]);
    }
    for secret in ["environ", "maps", "fd"] {
        let path = format!("/proc/{process}/{secret}");
        let mut look = as_nobody_runs("sh");
        look.args(["-c", &format!("cat {path} || ls {path}/")]);
        let ended = common::finish(look);
        assert!(ended.status != 0 && ended.stdout.is_empty(), "{ended:?}");
    }
}

fn as_nobody_runs(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    let rights = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
    ];
    command.args(rights).arg(program);
    command
}

fn forger(directory: &Path, victim: u32) -> Child {
    let mut command = as_nobody_runs(std::env::current_exe().unwrap());
    command
        .args([
            "forged::forger_process",
            "--exact",
            "--ignored",
            "--nocapture",
            "--quiet",
        ])
        .env(DIRECTORY, directory)
        .env(VICTIM, victim.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Reads a file of a volume of its own from far away, and writes into the session that it is another process
/// which does. It ends when its stdin does.
#[test]
#[ignore = "a process of the other test"]
fn forger_process() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let volume = make_volume(Path::new(&directory));
    let (tell, threads) = std::sync::mpsc::channel();
    let file = make_file(&volume);
    let reader = volume.clone();
    std::thread::spawn(move || read_for_ever(&reader, file, |id| _ = tell.send(id)));
    let thread = threads
        .recv_timeout(common::PATIENCE)
        .expect("a thread that reads");
    let victim = std::env::var(VICTIM).unwrap().parse().unwrap();
    let session = forge(&volume, std::process::id(), thread, victim);
    println!("=forged {}", session.display());
    let _ = std::io::stdin().read_line(&mut String::new());
    // Nothing is tidied up: its own slots are not its own any more.
    std::process::exit(0);
}

/// Two pools on an emulated machine.
fn make_volume(directory: &Path) -> Arc<Volume> {
    let pool = |node: u16| PoolRequest {
        node,
        path: directory.join(format!("pool{node}")),
        bytes: Some(64 << 20),
    };
    create_volume(&[pool(0), pool(1)], &CreateOptions::default()).unwrap();
    let options = AttachOptions {
        machine: Machine::profile("optane-2s").ok(),
        ..AttachOptions::default()
    };
    Volume::attach(&directory.join("pool0"), AttachMode::CreateOrJoin, &options).unwrap()
}

/// All of it on node 0.
fn make_file(volume: &Volume) -> InodeNumber {
    volume.set_allocation(AllocationPolicy::Pool(0));
    let new = NewInode {
        mode: libc::S_IFREG | 0o644,
        uid: 65_534,
        gid: 65_534,
        rdev: 0,
    };
    let made = volume
        .create_open(InodeNumber::ROOT, b"file", &new)
        .unwrap();
    let file = volume.open(made.ino, None).unwrap();
    volume.set_timing(false);
    volume.write(file, 0, &vec![1; 4 << 20]).unwrap();
    volume.set_timing(true);
    made.ino
}

fn read_for_ever(volume: &Volume, ino: InodeNumber, begun: impl Fn(u32)) {
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let far = Machine::profile("optane-2s").unwrap().nodes[1].cpus.clone();
    task::set_affinity(own, &far.into_iter().collect()).unwrap();
    let file = volume.open(ino, None).unwrap();
    let mut block = vec![0; 4096];
    for round in 0_u64.. {
        volume.read(file, round % 1024 * 4096, &mut block).unwrap();
        if round == 0 {
            begun(own);
        }
    }
}

/// Writes into the session, as its owner can, that a thread of one process is another's.
fn forge(volume: &Volume, from: u32, thread: u32, to: u32) -> PathBuf {
    let (path, session) = mapped_session(&volume.uuid().simple().to_string());
    let begun = task::began(from).unwrap();
    let victim_begun = task::began(to).unwrap();
    let write = |word: u64, at| session.write_all_at(&word.to_ne_bytes(), at).unwrap();
    let (mut processes, mut places) = (0, 0);
    for (at, word, next) in words(&session) {
        if word == u64::from(from) && next == begun {
            write(victim_begun, at + 8);
            write(u64::from(to), at);
            processes += 1;
        } else if word == u64::from(thread) {
            write(u64::from(to), at);
            places += 1;
        }
    }
    assert!(processes > 0 && places > 0);
    path
}
