//! `egeria run --policy` and `egeria steward`: threads of ordinary programs go to their data.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{
    Background, Sandbox, can_mount, egeria, eventually, finish, kill, preload_library, run,
};
use rustix::process::Signal;
use serde_json::Value;

/// Two readers of files that lie on node 0; the emulated scheduler puts them on two nodes.
const TWO_READERS: &str = "\
    for name in a b; do dd if=/dev/zero of=$EGERIA_MOUNT/$name bs=1M count=8 status=none; done; \
    for name in a b; do dd if=$EGERIA_MOUNT/$name of=/dev/null bs=4k status=none & done; wait";

/// `egeria run` on the emulated machine, with short windows.
fn emulated(sandbox: &Sandbox, options: &[&str], script: &str) -> Command {
    let fixed = [
        "--scratch",
        "160M",
        "--machine",
        "optane-2s",
        "--alloc",
        "node=0",
        "--window",
        "4",
    ];
    let command = ["--json", "--", "sh", "-c", script];
    let words = [&["run"][..], &fixed, options, &command].concat();
    let mut command = egeria(words);
    command
        .env("EGERIA_PRELOAD_LIB", preload_library())
        .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    command
}

fn has_two_cpus() -> bool {
    std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2)
}

#[test]
fn a_program_s_threads_go_to_their_data_and_the_report_says_so() {
    if !can_mount() || !has_two_cpus() {
        return;
    }
    let sandbox = Sandbox::new();
    let ended = finish(emulated(&sandbox, &["--policy", "rl"], TWO_READERS)).ok();
    let report = ended.json();
    assert_eq!(report["policy"], "rl");
    let steward = &report["steward"];
    assert!(steward["moves"].as_u64().unwrap() >= 1, "{report:#}");
    assert_eq!(steward["reasons"][0][0], "remote_reads");
    let series = steward["series"].as_array().unwrap();
    assert!(
        series
            .iter()
            .any(|window| window["nodes"][0]["read_bytes_s"].as_f64() > Some(1e8))
    );
}

#[test]
fn without_a_policy_nothing_moves_and_nobody_is_watched() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let report = finish(emulated(&sandbox, &[], "true")).ok().json();
    assert_eq!(
        (&report["policy"], &report["steward"]),
        (&"off".into(), &Value::Null)
    );
}

#[test]
fn a_wrong_setting_is_refused_before_anything_runs() {
    let wrong = |options: &[&str], words: &[&str]| {
        let script = ["--", "sh", "-c", "touch /dev/shm/egeria-should-not-run"];
        run([&["run", "--policy", "full"][..], options, &script].concat()).refused(2, words);
        assert!(!Path::new("/dev/shm/egeria-should-not-run").exists());
    };
    wrong(
        &["--set", "nonsense=1"],
        &["nonsense", "read_margin_bytes_s"],
    );
    wrong(&["--set", "cpu_limit=-3"], &["cpu_limit", "-3"]);
    wrong(&["--set", "cpu_limit"], &["cpu_limit", "name=value"]);
    let ended = run(["run", "--policy", "fast", "--", "true"]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("off"), "{ended:?}");
    let ended = run(["run", "--window", "0", "--", "true"]);
    assert!(
        ended.status == 2 && ended.stderr.contains("milliseconds"),
        "{ended:?}"
    );
}

#[test]
fn a_steward_needs_a_volume_in_use() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("pool", "32M");
    run(["steward", pool.to_str().unwrap()]).refused(1, &["mount it first"]);
    run(["steward", "/dev/shm/no-such-pool"]).refused(1, &["no-such-pool"]);
}

#[test]
fn a_steward_works_until_it_is_asked_to_stop_and_there_is_only_one() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, point) = (sandbox.volume("pool", "32M"), sandbox.directory("mnt"));
    let (pool, point) = (pool.to_str().unwrap(), point.to_str().unwrap());
    run(["mount", pool, point]).ok();
    let steward = |words: &[&str]| {
        let mut command = egeria([&["steward", pool, "--window", "20"][..], words].concat());
        command.env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
        command
    };
    let mut first = steward(&["--json"]);
    let mut first = Background(first.stdout(Stdio::piped()).spawn().unwrap());
    let running = || {
        let files = std::fs::read_dir(sandbox.path("runtime"))
            .into_iter()
            .flatten()
            .flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        names
            .collect::<Vec<_>>()
            .iter()
            .any(|name| name.ends_with("decisions.jsonl"))
    };
    eventually("a decision log", running);
    finish(steward(&[])).refused(
        1,
        &["works on this volume already", &first.id().to_string()],
    );
    kill(first.id(), Signal::INT);
    let stdout = first.0.stdout.take().unwrap();
    let document: Value = serde_json::from_reader(stdout).unwrap();
    assert_eq!(document["policy"], "full");
    assert_eq!(document["steward"]["restored"], 0);
    run(["umount", point]).ok();
}
