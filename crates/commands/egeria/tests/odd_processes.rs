//! Stewards of processes that are stopped, traced, ended or badly named, and of those that start others all the time.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Background, Ended, Sandbox, egeria, eventually, kill, run};
use egeria_harness::testing::{is_root, skip};
use rustix::process::Signal;
use serde_json::Value;

fn perl(script: &str, arguments: &[&str]) -> Background {
    let mut command = Command::new("perl");
    command.args(["-e", script]).args(arguments);
    Background::start(&mut command)
}

/// A program that computes.
fn busy() -> Background {
    perl("for (;;) {}", &[])
}

fn field(process: u32, name: &str) -> String {
    let text = fs::read(format!("/proc/{process}/status")).unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim().to_owned()
}

fn is_in_state(process: u32, state: char) -> bool {
    field(process, "State:").starts_with(state)
}

/// What a steward says that works for some windows, and the most memory that it had, KiB.
fn looked_after(sandbox: &Sandbox, scope: &[&str]) -> (Ended, u64) {
    let mut command = egeria(["steward", "--json", "--window", "20"]);
    command
        .args(scope)
        .args(["--decisions".as_ref(), sandbox.path("log").as_os_str()])
        .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut steward = Background(command.spawn().unwrap());
    eventually("a decision log", || {
        fs::metadata(sandbox.path("log")).is_ok_and(|log| log.len() > 0)
    });
    std::thread::sleep(Duration::from_millis(400));
    let most = field(steward.id(), "VmHWM:");
    let most = most.trim_end_matches(" kB").parse().unwrap();
    kill(steward.id(), Signal::INT);
    let status = steward.0.wait().unwrap().code().unwrap_or(-1);
    let ended = Ended {
        status,
        stdout: std::io::read_to_string(steward.0.stdout.take().unwrap()).unwrap(),
        stderr: std::io::read_to_string(steward.0.stderr.take().unwrap()).unwrap(),
    };
    (ended, most)
}

/// It worked, and what it prints is JSON and lines that steer no terminal.
fn worked(sandbox: &Sandbox, scope: &[&str]) -> Value {
    let (ended, most) = looked_after(sandbox, scope);
    let steers = |letter: char| letter.is_control() && letter != '\n';
    assert!(!ended.stderr.contains(steers), "{:?}", ended.stderr);
    assert!(most < 100 << 10, "{most} KiB");
    let document = ended.ok().json();
    assert!(
        document["steward"]["windows"].as_u64() > Some(1),
        "{document}"
    );
    let log = sandbox.path("log");
    run(["explain", "--log", log.to_str().unwrap()]).ok();
    document
}

#[test]
fn stopped_and_traced_processes_stay_as_they_are() {
    let (stopped, traced) = (busy(), busy());
    kill(stopped.id(), Signal::STOP);
    // PTRACE_SEIZE, and PTRACE_INTERRUPT.
    let script =
        "syscall(101, $_, $ARGV[0] + 0, 0, 0) == 0 or exit 1 for 0x4206, 0x4207; sleep 600";
    let mut tracer = perl(script, &[&traced.id().to_string()]);
    eventually("it is stopped", || is_in_state(stopped.id(), 'T'));
    eventually("it is traced", || {
        is_in_state(traced.id(), 't') || tracer.0.try_wait().unwrap().is_some()
    });
    if tracer.0.try_wait().unwrap().is_some() {
        skip("processes may not be traced here");
        return;
    }
    let all = [&stopped, &traced];
    let masks = || all.map(|each| field(each.id(), "Cpus_allowed:"));
    let (before, ids) = (masks(), all.map(|each| each.id().to_string()));
    let sandbox = Sandbox::new();
    let document = worked(&sandbox, &["--pid", &ids[0], &ids[1]]);
    assert_eq!(document["steward"]["moves"], 0);
    assert_eq!(masks(), before);
    assert!(is_in_state(stopped.id(), 'T') && is_in_state(traced.id(), 't'));
}

#[test]
fn a_process_may_have_a_name_of_any_bytes() {
    // 15 bytes are all that the kernel keeps.
    let script = "open(F, '>/proc/self/comm'); syswrite(F, \"a\\n\\xff\\xfe\\x1b[2J\\xc3(\\\")\\x80\\n\\xff\"); close(F); for (;;) {}";
    let named = perl(script, &[]);
    let path = format!("/proc/{}/comm", named.id());
    eventually("it has its name", || {
        fs::read(&path).is_ok_and(|name| name.starts_with(b"a\n\xff"))
    });
    let id = named.id().to_string();
    let document = worked(&Sandbox::new(), &["--pid", &id]);
    assert_eq!(document["steward"]["moves"], 0);
    run(["top", "--once", "--pid", &id]).ok();
}

#[test]
fn a_zombie_is_refused_and_ends_its_steward() {
    let sandbox = Sandbox::new();
    // It does not notice the end of its child.
    let script = "my $child = fork; if (!$child) { for (;;) {} } open(F, \">$ARGV[0]\"); print F $child; close(F); sleep 600";
    let place = sandbox.path("child");
    let _parent = perl(script, &[place.to_str().unwrap()]);
    let mut child = String::new();
    eventually("it has a child", || {
        child = fs::read_to_string(&place).unwrap_or_default();
        !child.is_empty()
    });
    let mut command = egeria(["steward", "--json", "--window", "20", "--pid", &child]);
    command
        .args(["--decisions".as_ref(), sandbox.path("log").as_os_str()])
        .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    let mut steward = Background::start(&mut command);
    eventually("a decision log", || {
        Path::new(&sandbox.path("log")).exists()
    });
    let number: u32 = child.parse().unwrap();
    kill(number, Signal::KILL);
    eventually("it has ended", || is_in_state(number, 'Z'));
    eventually("the steward ends", || {
        steward.0.try_wait().unwrap().is_some()
    });
    assert!(steward.0.wait().unwrap().success());
    run(["steward", "--pid", &child]).refused(1, &[&child, "zombie", "name one that runs"]);
}

/// They have one row together, with a reason.
#[test]
fn what_starts_children_all_the_time_costs_no_memory() {
    let storm = perl(
        "for (;;) { my $child = fork; exit if !$child; waitpid($child, 0) }",
        &[],
    );
    let id = storm.id().to_string();
    let sandbox = Sandbox::new();
    worked(&sandbox, &["--pid", &id]);
    let is_row = |row: &Value| {
        let process = row["parent"]["process_id"].as_u64();
        process == Some(u64::from(storm.id())) && row["cpu_share"].as_f64() > Some(0.0)
    };
    let log = sandbox.path("log");
    let explained = run(["explain", "--json", "--log", log.to_str().unwrap()]).ok();
    let kinds = &explained.json()["summary"]["kinds"];
    assert!(is_row(&kinds[0]), "{kinds}");
    assert!(kinds[0]["because"]["kind"].is_string(), "{kinds}");
    let seen = run(["top", "--json", "--pid", &id]).ok().json();
    assert!(is_row(&seen["kinds"][0]), "{}", seen["kinds"]);
    assert_eq!(seen["kinds"][0]["because"], Value::Null);
}

#[test]
fn without_sys_the_remedy_is_one_line() {
    if !is_root() {
        return;
    }
    let script = "umount -l /sys && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_egeria")]);
    command.args(["steward", "--all"]);
    common::finish(command).refused(1, &["cannot read /sys", "in a container, mount /sys"]);
}
