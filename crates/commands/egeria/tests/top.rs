//! `egeria top`: frames as text and JSON, and the terminal as it was before at the end.

use crate::common;
use crate::decisions;

use rustix::termios::{LocalModes, tcgetattr};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use common::{Background, Ended, Sandbox, can_mount, egeria, eventually, finish, kill, run, wait};
use decisions::*;
use egeria_harness::testing::has_numa_maps;
use rustix::process::Signal;

#[track_caller]
fn top(log: &Path, more: &[&str]) -> Ended {
    let command = ["top".as_ref(), "--log".as_ref(), log.as_os_str()];
    let more = more.iter().map(OsStr::new);
    run(command.into_iter().chain(more))
}

#[test]
fn help_has_examples_that_fit_a_terminal() {
    for command in ["top", "explain"] {
        let help = run([command, "--help"]).ok().stdout;
        let examples = help.split("Examples:").nth(1).unwrap_or_default();
        assert!(examples.contains(&format!("egeria {command}")), "{help}");
        assert!(examples.lines().all(|line| line.chars().count() <= 80));
        assert!(help.contains("--json") && help.contains("docs/reference/decision-log.md"));
    }
}

#[test]
fn programs_without_a_volume_are_counted_or_estimated() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("file");
    std::fs::write(&file, vec![1; 8 << 20]).unwrap();
    let script = "while :; do exec 0<\"$FILE\"; while read -r -N 65536 data; do :; done; done";
    let mut reader = std::process::Command::new("bash");
    let reader = Background::start(reader.args(["-c", script]).env("FILE", &file));
    let process = reader.id().to_string();
    let mut seen = false;
    // Where the machine is busy it may not get to read in a window.
    for _ in 0..50 {
        let frame = run(["top", "--json", "--window", "100", "--pid", &process])
            .ok()
            .json();
        let how = frame["estimate"].as_str().unwrap();
        let is_counted = how.starts_with("counted by the kernel");
        assert!(
            is_counted || how.contains("files are not counted: "),
            "{frame}"
        );
        let threads = frame["threads"].as_array().unwrap().iter();
        let mut own = threads.filter(|thread| thread["thread"]["process_id"] == reader.id());
        seen = own.any(|thread| thread["read_bytes_s"].as_f64() > Some(0.0));
        if seen {
            let files = frame["files"].as_array();
            let has_path = |row: &serde_json::Value| row["path"] == file.to_str().unwrap();
            let is_listed = files.is_some_and(|files| files.iter().any(has_path));
            assert_eq!(is_listed, is_counted, "{frame}");
            break;
        }
    }
    assert!(seen);
    run(["top", "--all", "--window", "1"]).ok();
    let volume = run(["top", "--all", "--log", "/log"]);
    volume.refused(2, &["--log", "--all"]);
    run(["top", "--pid", "4294967295"]).refused(1, &["no process 4294967295"]);
}

#[test]
fn once_prints_nodes_threads_and_moves() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(dead_process()));
    let text = top(&log, &["--once"]).ok().stdout;
    assert!(
        text.starts_with("optane-2s (emulated)  policy full  window 100 ms\n"),
        "{text}"
    );
    assert!(
        text.contains("at 12.400 s  local 90 %  threads 2  moves 1  steward was killed"),
        "{text}"
    );
    let has = |parts: &[&str]| {
        let fits = |line: &str| parts.iter().all(|part| line.contains(part));
        assert!(text.lines().any(fits), "{parts:?}: {text}");
    };
    has(&["0   1.50 GB/s   500 MB/s", "RRRRRWWWWW..........", "50 %"]);
    has(&["4711", "4700", "fio", "95 %", "1.68 GB/s", "75 %"]);
    has(&["4712", "25 %", "400 MB/s"]);
    has(&["thread 4711 (fio) of process 4700 went from node 1 to node 0"]);
}

#[test]
fn json_is_one_document_and_needs_no_once() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(std::process::id()));
    let document = top(&log, &["--json", "--sort", "local"]).ok().json();
    assert_eq!(document["steward"]["state"], "working");
    assert_eq!(document["emulated"], true);
    assert_eq!(document["window"]["number"], 123);
    assert_eq!(document["nodes"][0]["read_bytes_s"], 1.5e9);
    assert_eq!(document["nodes"][0]["maximum_bytes_s"], 2e9);
    assert_eq!(document["threads"][0]["thread"]["thread_id"], 4712);
    assert_eq!(document["threads"][0]["local_share"], 0.25);
    assert_eq!(document["threads"][1]["moves"], 1);
    assert_eq!(
        document["last_actions"][0]["action"]["reason"]["kind"],
        "remote_reads"
    );
}

#[test]
fn a_log_without_windows_is_a_frame_too() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &[start(std::process::id())]);
    let text = top(&log, &["--once"]).ok().stdout;
    assert!(text.contains("No file was read or written yet."), "{text}");
    let document = top(&log, &["--json"]).ok().json();
    assert!(document["window"].is_null() && document["nodes"].as_array().unwrap().is_empty());
}

#[test]
fn programs_are_shown_with_heap_and_page_cache() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("cached", &"x".repeat(1 << 20));
    let script = "open(my $file, '<', $ARGV[0]); my $heap = 'x' x (32 << 20); \
        open(my $ready, '>', \"$ARGV[0].ready\"); close($ready); \
        for (;;) { sysseek($file, 0, 0); sysread($file, my $data, 65536); }";
    let mut program = Command::new("perl");
    let program = Background::start(program.args(["-e", script]).arg(&file));
    eventually("its heap", || sandbox.path("cached.ready").exists());
    let process = program.id().to_string();
    let command = ["top", "--window", "300", "--pid", &process];
    // Reads are counted for a part of the window, in which a busy machine may not let the program run.
    let mut found = serde_json::Value::Null;
    eventually("its reads are counted", || {
        let document = run(command.into_iter().chain(["--json"])).ok().json();
        found = document["programs"][0].clone();
        found["read_bytes_s"].as_f64() > Some(0.0)
    });
    assert_eq!(found["process_id"], program.id(), "{found}");
    assert!(found["cpu_share"].as_f64() > Some(0.0), "{found}");
    let text = run(command.into_iter().chain(["--once"])).ok().stdout;
    assert!(
        text.contains("page cache") && text.contains("heap"),
        "{text}"
    );
    if has_numa_maps() {
        assert!(found["heap"]["bytes"].as_u64() >= Some(32 << 20), "{found}");
        assert!(
            found["page_cache"]["bytes"].as_u64() >= Some(1 << 20),
            "{found}"
        );
    }
}

#[test]
fn a_cut_last_line_is_left_for_later() {
    let sandbox = Sandbox::new();
    let text = lines(&story(dead_process()));
    let log = sandbox.file("log", &text[..text.len() - 1]);
    let document = top(&log, &["--json"]).ok().json();
    assert_eq!(document["window"]["number"], 122);
}

#[test]
fn what_is_no_log_is_one_line() {
    let sandbox = Sandbox::new();
    let log = |text: &str| top(&sandbox.file("log", text), &["--once"]);
    log("").refused(1, &["no whole line"]);
    log("nonsense\n").refused(1, &["no decision log", "line 1"]);
    log(&(lines(&story(1)) + "{\"kind\":\"window\"}\n")).refused(1, &["line 4"]);
    top(&sandbox.root, &["--once"]).refused(1, &["is no file"]);
    top(&sandbox.path("none"), &["--json"]).refused(1, &["none"]);
    top(&sandbox.path("none"), &["--once", "--sort", "size"]).refused(2, &["size", "bytes"]);
    top(&sandbox.path("none"), &["--once", "--window", "0"]).refused(2, &["milliseconds"]);
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(1));
    top(&log, &[]).refused(1, &["terminal", "--once", "--json"]);
}

#[test]
fn a_volume_without_steward_is_watched_for_a_window() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, mount) = (sandbox.volume("pool", "64M"), sandbox.directory("mount"));
    let runtime = sandbox.directory("run");
    // What the page cache serves is not read from the volume.
    run([
        "mount".as_ref(),
        "--page-cache=0".as_ref(),
        pool.as_os_str(),
        mount.as_os_str(),
    ])
    .ok();
    std::fs::write(mount.join("file"), vec![7; 1 << 20]).unwrap();
    let script = format!("while :; do cat {}; done", mount.join("file").display());
    let _reader = Background::start(std::process::Command::new("sh").args(["-c", &script]));
    for place in [&pool, &mount] {
        let mut command = egeria(["top", "--json", "--window", "300"]);
        command.arg(place).env("EGERIA_RUNTIME_DIR", &runtime);
        let document = finish(command).ok().json();
        assert!(document["steward"].is_null() && document["log"].is_null());
        assert_eq!(document["window_ns"], 300_000_000);
        let nodes = document["nodes"].as_array().unwrap().iter();
        let read: f64 = nodes
            .map(|node| node["read_bytes_s"].as_f64().unwrap())
            .sum();
        assert!(read > 0.0, "{document}");
    }
    run(["umount".as_ref(), mount.as_os_str()]);
}

#[test]
fn a_volume_in_nobodys_use_cannot_be_watched() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("pool", "32M");
    let mut command = egeria(["top".as_ref(), "--once".as_ref(), pool.as_os_str()]);
    command.env("EGERIA_RUNTIME_DIR", sandbox.directory("run"));
    finish(command).refused(1, &[]);
}

/// A terminal of 80x24, what was written to it, and our side of it.
struct Pty {
    ours: File,
    theirs: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Pty {
    fn open() -> Pty {
        let (mut ours, mut theirs) = (-1, -1);
        let size = libc::winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let (name, modes) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the numbers and the size outlive the call; name and modes may be null; nobody else has the
        // descriptors that we are given.
        let (ours, theirs) = unsafe {
            let status = libc::openpty(&mut ours, &mut theirs, name, modes, &size);
            assert_eq!(status, 0, "no pseudo terminal");
            (File::from_raw_fd(ours), File::from_raw_fd(theirs))
        };
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, sink) = (ours.try_clone().unwrap(), written.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                sink.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Pty {
            ours,
            theirs,
            written,
        }
    }

    fn start(&self, log: &Path) -> std::process::Child {
        let end = || Stdio::from(self.theirs.try_clone().unwrap());
        let mut command = egeria(["top".as_ref(), "--log".as_ref(), log.as_os_str()]);
        command.env("TERM", "xterm").stdin(end()).stdout(end());
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// Whether keys are echoed and lines edited, as shells want it.
    fn local_modes(&self) -> LocalModes {
        tcgetattr(&self.theirs).unwrap().local_modes
    }
}

/// Starts it on a terminal, does something once a frame is there, and asserts that it ends with this
/// status and leaves the terminal as it was.
#[track_caller]
fn on_a_terminal(status: i32, act: impl FnOnce(&mut Pty, &std::process::Child, &Path)) {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(std::process::id()));
    let mut pty = Pty::open();
    let before = pty.local_modes();
    let mut child = pty.start(&log);
    eventually("a frame", || pty.text().contains("4711"));
    assert_ne!(pty.local_modes(), before);
    act(&mut pty, &child, &log);
    assert_eq!(wait(&mut child), status);
    assert_eq!(pty.local_modes(), before);
    let left = |pty: &Pty| pty.text().contains("\u{1b}[?1049l");
    eventually("the other screen is left", || left(&pty));
}

#[test]
fn q_ends_it_and_the_terminal_is_as_before() {
    on_a_terminal(0, |pty, _, _| {
        pty.ours.write_all(b"spj\x1b[B\x1b[Aq").unwrap()
    });
}

#[test]
fn control_c_ends_it_and_the_terminal_is_as_before() {
    on_a_terminal(0, |pty, _, _| pty.ours.write_all(b"\x03").unwrap());
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_before() {
    on_a_terminal(143, |_, child, _| kill(child.id(), Signal::TERM));
}

#[test]
fn it_follows_a_log_that_grows_and_one_that_begins_anew() {
    on_a_terminal(0, |pty, _, log| {
        let mut third = window(124);
        third.threads = vec![reads(5555, 0, [1e9, 0.0])];
        let mut file = File::options().append(true).open(log).unwrap();
        let line = lines(&[record(third)]);
        let (cut, rest) = line.split_at(100);
        file.write_all(cut.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        file.write_all(rest.as_bytes()).unwrap();
        eventually("the new window", || pty.text().contains("5555"));
        let mut anew = window(0);
        anew.threads = vec![reads(6666, 0, [1e9, 0.0])];
        write(log, &[start(std::process::id()), record(anew)]);
        eventually("the new log", || pty.text().contains("6666"));
        pty.ours.write_all(b"q").unwrap();
    });
}
