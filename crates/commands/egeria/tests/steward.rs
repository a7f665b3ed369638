//! `egeria run --policy` and `egeria steward`: threads of ordinary programs go to their data.

mod common;

use egeria_harness::testing::{has_two_cpus, is_root, skip};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{
    Background, Group, Sandbox, can_mount, egeria, eventually, finish, kill, preload_library, run,
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
    // They would change nothing: a stage that is off, and a setting of the model.
    wrong(&["--set", "pats.dimms=2"], &["pats.dimms", "stages.limits"]);
    let own = [
        "--set",
        "stages.limits=on",
        "--set",
        "pats.bypass_bytes=512",
    ];
    wrong(&own, &["pats.bypass_bytes", "acts with `egeria sim`"]);
    let ended = run(["run", "--policy", "fast", "--", "true"]);
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("off"), "{ended:?}");
    let ended = run(["run", "--window", "0", "--", "true"]);
    assert!(
        ended.status == 2 && ended.stderr.contains("milliseconds"),
        "{ended:?}"
    );
}

/// DRAM is no persistent memory, so PATS has nothing to limit.
#[test]
fn a_setting_of_a_stage_that_is_off_here_is_refused() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let words = [
        "run",
        "--scratch",
        "64M",
        "--machine",
        "dram-2s",
        "--policy",
        "pats",
    ];
    let with = |more: &[&str]| {
        let mut command = egeria([&words[..], more, &["--", "true"]].concat());
        command
            .env("EGERIA_PRELOAD_LIB", preload_library())
            .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
        finish(command)
    };
    with(&["--set", "pats.tolerated_loss=0.1"])
        .refused(1, &["pats.tolerated_loss", "no node has persistent memory"]);
    with(&[]).ok();
}

#[test]
fn a_steward_needs_a_volume_in_use() {
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("pool", "32M");
    run(["steward", pool.to_str().unwrap()]).refused(1, &["mount it first"]);
    run(["steward", "/dev/shm/no-such-pool"]).refused(1, &["no-such-pool"]);
}

#[test]
fn a_single_steward_works_until_it_is_asked_to_stop() {
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
    finish(steward(&[])).refused(1, &["at work here already", &first.id().to_string()]);
    kill(first.id(), Signal::INT);
    let stdout = first.0.stdout.take().unwrap();
    let document: Value = serde_json::from_reader(stdout).unwrap();
    assert_eq!(document["policy"], "all");
    assert_eq!(document["steward"]["restored"], 0);
    let off = document["steward"]["unavailable"].as_array().unwrap();
    let begin = "placement of clusters (AsymSched) is off: it moves whole processes";
    let is_named = |line: &Value| line.as_str().is_some_and(|line| line.starts_with(begin));
    assert!(off.iter().any(is_named), "{off:?}");
    run(["umount", point]).ok();
}

#[test]
fn a_steward_says_that_a_mount_was_killed() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, point) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let point = point.to_str().unwrap();
    let document = run(["mount", "--json", pool.to_str().unwrap(), point])
        .ok()
        .json();
    let mut steward = egeria(["steward", pool.to_str().unwrap(), "--window", "20"]);
    steward.env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    let log = sandbox.path("stderr");
    steward.stderr(std::fs::File::create(&log).unwrap());
    let mut steward = Background(steward.stdout(Stdio::null()).spawn().unwrap());
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("a steward", || said().contains("looking after threads"));
    kill(document["pid"].as_u64().unwrap() as u32, Signal::KILL);
    eventually("a line", || said().contains("was killed"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    kill(steward.id(), Signal::INT);
    steward.0.wait().unwrap();
    assert_eq!(said().matches("was killed").count(), 1, "{}", said());
    assert!(
        said().contains(&format!("egeria umount {point}")),
        "{}",
        said()
    );
    run(["umount", point]).ok();
}

/// The records of a decision log.
fn log_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

#[test]
fn a_steward_works_without_a_volume() {
    let sandbox = Sandbox::new();
    let mut busy = Command::new("sh");
    let busy = Background(busy.args(["-c", "while :; do :; done"]).spawn().unwrap());
    let (log, trace) = (sandbox.path("log"), sandbox.path("trace"));
    let mut steward = egeria(["steward", "--json", "--window", "20", "--policy", "all"]);
    steward
        .args(["--pid", &busy.id().to_string()])
        .args(["--decisions".as_ref(), log.as_os_str()])
        .args(["--record".as_ref(), trace.as_os_str()])
        .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    let mut steward = Background(steward.stdout(Stdio::piped()).spawn().unwrap());
    eventually("a decision log", || !log_lines(&log).is_empty());
    std::thread::sleep(std::time::Duration::from_millis(300));
    kill(steward.id(), Signal::INT);
    let stdout = steward.0.stdout.take().unwrap();
    let document: Value = serde_json::from_reader(stdout).unwrap();
    assert_eq!(document["volume"], Value::Null);
    // It reads and writes nothing, and is seen: its CPU is in use.
    let mut windows = log_lines(&log).into_iter();
    let window = windows.find(|line| line["kind"] == "window");
    let window = window.expect("a window of a busy machine");
    assert!(window["nodes"][0]["cpu_share"].as_f64().unwrap() > 0.0);
    assert_eq!(log_lines(&log)[0]["policy"], "all");
    assert!(saw(&trace, busy.id()));
    run(["steward", "--pid", "4194303"]).refused(1, &["no process 4194303", "leave --pid out"]);
    // In a pid namespace of its own nobody sees the kernel's.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        run(["steward", "--pid", "2"]).refused(1, &["a thread of the kernel", "name a program's"]);
    }
}

#[test]
fn who_is_looked_after_without_a_volume_is_named() {
    for (status, command, words) in [
        (2, vec![], ["POOL", "--all"]),
        (2, vec!["--all", "--pid", "1"], ["--all", "--pid"]),
        (
            2,
            vec!["--cgroup", "/a", "--pid", "1"],
            ["--cgroup", "--pid"],
        ),
        (
            1,
            vec!["--cgroup", "/no/such"],
            ["no control group /no/such", "systemd-cgls"],
        ),
        (
            1,
            vec!["--pid", "1", "4194303"],
            ["no process 4194303", "leave --pid out"],
        ),
    ] {
        finish(egeria(["steward"].iter().chain(&command))).refused(status, &words);
    }
}

/// A program of the user nobody that is busy.
fn busy_nobody() -> Background {
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    other.args(["sh", "-c", "while :; do :; done"]);
    let other = Background::start(&mut other);
    let path = format!("/proc/{}/comm", other.id());
    eventually("it runs as the other user", || {
        std::fs::read_to_string(&path).is_ok_and(|name| name == "sh\n")
    });
    other
}

/// Starts a steward with these arguments; its log and its recording are `log` and `trace` in the sandbox.
fn steward_of(sandbox: &Sandbox, scope: &[&str]) -> Command {
    let mut steward = egeria(["steward", "--json", "--window", "20", "--policy", "off"]);
    steward
        .args(scope)
        .args(["--decisions".as_ref(), sandbox.path("log").as_os_str()])
        .args(["--record".as_ref(), sandbox.path("trace").as_os_str()])
        .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    steward
}

/// Whether a thread of this process was seen at work in the recording of a steward that ended.
fn saw(trace: &Path, process: u32) -> bool {
    let shown = run([
        "trace",
        "show",
        "--json",
        "--threads",
        trace.to_str().unwrap(),
    ])
    .ok();
    let windows = shown.json()["windows"].as_array().unwrap().clone();
    let mut threads = windows
        .iter()
        .flat_map(|window| window["facts"].as_array().unwrap());
    threads.any(|thread| {
        thread["key"]["process_id"] == process && thread["busy_ns"].as_u64() > Some(0)
    })
}

/// A command in a mount namespace of its own, without the volumes that other tests have mounted.
fn alone(command: &Command) -> Command {
    const SCRIPT: &str = "\
        while read -r _ _ _ _ place _ _ _ kind _; do case \"$kind\" in fuse.egeria) umount -l \"$place\";; esac; \
        done < /proc/self/mountinfo; exec \"$@\"";
    let mut alone = Command::new("unshare");
    alone.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        SCRIPT,
        "sh",
    ]);
    alone.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        alone.env(name, value.unwrap_or_default());
    }
    alone
}

/// Mounts, starts a program and stewards; says what came of it in files of the sandbox.
const ONE_FOR_ALL: &str = r#"
    wait_for() { n=0; until grep -q "$1" "$2"; do sleep 0.05; n=$((n + 1)); [ $n -lt 400 ] || exit 9; done; }
    trap 'kill $reader $first $own $second $narrow 2> /dev/null; umount -l "$BOX/mnt" 2> /dev/null' EXIT
    "$EGERIA" mount "$POOL" "$BOX/mnt" || exit 7
    dd if=/dev/zero of="$BOX/mnt/file" bs=1M count=16 status=none
    (trap 'kill $dd; wait $dd; exit' TERM; while :; do
        LD_PRELOAD="$LIBRARY" dd if="$BOX/mnt/file" of=/dev/null bs=1 status=none & dd=$!; wait $dd
    done) &
    reader=$!
    all() { "$EGERIA" steward --all --window 20 --policy off --decisions "$BOX/$1" 2> "$BOX/$1.said" & }
    all log; first=$!
    wait_for "is looked after as well" "$BOX/log.said"
    wait_for '"name":"dd"' "$BOX/log"
    # A look may fall between two programs of the loop.
    n=0; until "$EGERIA" top "$BOX/mnt" --once > "$BOX/top" && grep -q dd "$BOX/top"; do
        n=$((n + 1)); [ $n -lt 100 ] || exit 9
    done
    ! "$EGERIA" steward "$POOL" 2> "$BOX/refused" || exit 8
    "$EGERIA" explain --volume "$BOX/mnt" > "$BOX/explained"
    kill -TERM $first; wait $first
    "$EGERIA" steward "$POOL" --window 20 --policy off 2> "$BOX/own.said" & own=$!
    wait_for "looking after threads" "$BOX/own.said"
    "$EGERIA" steward --pid $reader --window 20 --policy off --decisions "$BOX/narrow" 2> "$BOX/narrow.said" &
    narrow=$!
    wait_for "is seen, and not changed" "$BOX/narrow.said"
    sleep 1
    kill -TERM $narrow; wait $narrow
    all second; second=$!
    wait_for "is left to its own steward (process $own)" "$BOX/second.said"
    kill -TERM $own; wait $own
    wait_for "is looked after as well" "$BOX/second.said"
    kill $reader; wait $reader
    "$EGERIA" umount "$BOX/mnt"
    wait_for "is released" "$BOX/second.said"
    "$EGERIA" check "$POOL"
    kill -TERM $second; wait $second
"#;

#[test]
fn one_steward_has_processes_and_volumes() {
    if !can_mount() || !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("pool", "64M");
    sandbox.directory("mnt");
    let mut script = Command::new("sh");
    script
        .args(["-c", ONE_FOR_ALL])
        .env("EGERIA", env!("CARGO_BIN_EXE_egeria"))
        .env("LIBRARY", preload_library())
        .env("BOX", sandbox.path(""))
        .env("POOL", pool)
        .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    finish(alone(&script)).ok();
    let text = |name: &str| std::fs::read_to_string(sandbox.path(name)).unwrap();
    let reads = |thread: &Value| {
        let bytes_s = thread["read_bytes_s"][0].as_f64();
        thread["name"] == "dd" && bytes_s > Some(1e4) && thread["cpu_share"].as_f64() > Some(0.0)
    };
    for log in ["log", "narrow"] {
        let windows = log_lines(&sandbox.path(log));
        let mut windows = windows.iter().filter_map(|line| line["threads"].as_array());
        assert!(
            windows.any(|threads| threads.iter().any(reads)),
            "{log}: one row has what it reads of the volume and how long it ran"
        );
    }
    assert!(text("top").contains("dd"), "{}", text("top"));
    assert!(text("refused").contains("at work here already"));
    assert!(text("explained").contains("read"), "{}", text("explained"));
}

#[test]
fn only_root_s_steward_moves_programs_of_all_users() {
    if !is_root() {
        return;
    }
    let other = busy_nobody();
    let process = other.id().to_string();
    for scope in [vec!["--pid", &process], vec!["--all"]] {
        let sandbox = Sandbox::new();
        let mut steward = Background::start(&mut alone(&steward_of(&sandbox, &scope)));
        eventually("a decision log", || {
            !log_lines(&sandbox.path("log")).is_empty()
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        kill(steward.id(), Signal::INT);
        assert!(steward.0.wait().unwrap().success());
        assert!(saw(&sandbox.path("trace"), other.id()), "{scope:?}");
    }
    let own = std::process::id().to_string();
    let refused = finish(common::as_nobody(["steward", "--pid", &own]));
    refused.refused(1, &[&own, "sudo -u '#0'", "as root with CAP_SYS_NICE"]);
    // Root without the right to set where others run is one user like any.
    let mut bare = Command::new("setpriv");
    bare.args(["--bounding-set=-sys_nice", "--inh-caps=-sys_nice"])
        .arg(env!("CARGO_BIN_EXE_egeria"))
        .args(["steward", "--pid", &process]);
    finish(bare).refused(1, &[&process, "sudo -u '#65534'", "CAP_SYS_NICE"]);
}

#[test]
fn a_steward_ends_when_the_processes_named_have_ended() {
    let sandbox = Sandbox::new();
    let mut named = Background::start(Command::new("sleep").arg("600"));
    let scope = ["--pid", &named.id().to_string()];
    let mut steward = started(steward_of(&sandbox, &scope), &sandbox.path("log"));
    assert!(steward.0.try_wait().unwrap().is_none());
    named.end();
    ends_in_order(&mut steward, "the processes named have ended");
}

/// Starts a steward, and waits until it has written to its decision log.
fn started(mut steward: Command, log: &Path) -> Background {
    steward.stderr(Stdio::piped()).stdout(Stdio::piped());
    let steward = Background(steward.spawn().unwrap());
    eventually("a decision log", || !log_lines(log).is_empty());
    steward
}

/// A steward ends by itself, with status 0, a line that says why, and its document.
fn ends_in_order(steward: &mut Background, why: &str) {
    eventually("the steward ends", || {
        steward.0.try_wait().unwrap().is_some()
    });
    assert!(steward.0.wait().unwrap().success());
    let stderr = std::io::read_to_string(steward.0.stderr.take().unwrap()).unwrap();
    let lines: Vec<&str> = stderr.lines().filter(|line| line.contains(why)).collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    let stdout = steward.0.stdout.take().unwrap();
    let document: Value = serde_json::from_reader(stdout).unwrap();
    assert_eq!(document["volume"], Value::Null);
}

/// A control group with a busy program.
fn busy_group() -> Option<Group> {
    Group::make("", || {
        Background::start(Command::new("sh").args(["-c", "while :; do :; done"]))
    })
}

#[test]
fn a_control_group_is_looked_after_until_it_vanishes() {
    let Some(mut group) = busy_group() else {
        return;
    };
    let sandbox = Sandbox::new();
    let outside = Background::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    let scope = ["--cgroup", &group.name];
    let mut steward = started(steward_of(&sandbox, &scope), &sandbox.path("log"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    group.remove();
    ends_in_order(
        &mut steward,
        &format!("control group /{} is gone", group.name),
    );
    assert!(saw(&sandbox.path("trace"), group.program.id()));
    assert!(!saw(&sandbox.path("trace"), outside.id()));
}

#[test]
fn a_steward_without_a_volume_is_configured_by_the_settings() {
    let Some(mut group) = busy_group() else {
        return;
    };
    let sandbox = Sandbox::new();
    let settings = sandbox.file("egeria.toml", "[volumes]\n");
    let configured = [
        "steward",
        "--json",
        "--configured",
        "--settings",
        settings.to_str().unwrap(),
    ];
    run(configured).refused(1, &["has no [steward]", "all = true"]);
    let text = format!("[steward]\ncgroup = {:?}\npolicy = \"off\"\n", group.name);
    let settings = sandbox.file("egeria.toml", &text);
    let mut steward = egeria(configured);
    steward.env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    let log = sandbox.path("runtime").join("processes.decisions.jsonl");
    let mut steward = started(steward, &log);
    assert_eq!(log_lines(&log)[0]["policy"], "off");
    group.remove();
    ends_in_order(&mut steward, "is gone");
    drop(settings);
}

#[test]
fn clusters_of_a_program_without_a_volume_are_looked_at() {
    let sandbox = Sandbox::new();
    let mut command = egeria(["run", "--no-volume", "--json", "--policy", "asymsched"]);
    command.args(["--window", "20", "--", "sh", "-c"]);
    command.arg("end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done; exit 3");
    command.env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    let ended = finish(command);
    assert_eq!(ended.status, 3, "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let steward = &document["steward"];
    assert!(steward["windows"].as_u64() > Some(1), "{document}");
    assert_eq!(steward["process_moves"], 0, "{document}");
    let sees_accesses = std::path::Path::new("/proc/self/clear_refs").exists();
    if !sees_accesses || !std::path::Path::new("/proc/self/numa_maps").exists() {
        skip("this kernel does not count accesses by page tables");
        return;
    }
    assert_eq!(steward["unavailable"], serde_json::json!([]), "{document}");
    // Without links nothing is placed, and on one node no process spans two.
    let why = steward["no_moves_because"].as_str().unwrap();
    assert!(why.contains("nothing is placed"), "{why}");
}

#[test]
fn a_run_without_moves_says_why() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let ended = |policy: &str, window: &str, script: &str| {
        let mut command = egeria(["run", "--scratch", "64M", "--machine", "optane-2s"]);
        command
            .args([
                "--window", window, "--policy", policy, "--", "sh", "-c", script,
            ])
            .env("EGERIA_PRELOAD_LIB", preload_library())
            .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
        finish(command).ok().stderr
    };
    let text = ended("full", "60000", "true");
    assert!(text.contains("choose a shorter --window"), "{text}");
    let text = ended("full", "2", "sleep 0.5");
    assert!(
        text.contains("no thread of the volume read or wrote"),
        "{text}"
    );
    let text = ended("asymsched", "2", "sleep 0.1");
    assert!(
        text.contains("placement of clusters (AsymSched) is off: it moves whole processes"),
        "{text}"
    );
}

/// A program that reads each file it is given again and again, linked statically: no library can be put before it.
const STATIC_READER: &str = r#"
#include <fcntl.h>
#include <unistd.h>
int main(int count, char **paths) {
    static char block[4096];
    for (int round = 0; round < 3; round++) {
        int file = open(paths[1], O_RDONLY);
        if (file < 0) return 1;
        while (read(file, block, sizeof block) > 0) {}
        close(file);
    }
    return 0;
}
"#;

/// Two readers of files on node 0, at once, with this command before the names of the files.
fn readers(command: &str) -> String {
    format!(
        "for name in a b; do dd if=/dev/zero of=$EGERIA_MOUNT/$name bs=1M count=8 status=none; done; \
         for name in a b; do {command} $EGERIA_MOUNT/$name & done; wait"
    )
}

/// The policy `rl` migrates such readers to their data.
#[track_caller]
fn are_migrated(sandbox: &Sandbox, command: &str) {
    let script = readers(command);
    // Which CPU the kernel runs them on is chance, more so on a busy host: with two of them and many tries one is far from its data.
    let are_moved = |_| {
        let ended = finish(emulated(sandbox, &["--policy", "rl"], &script)).ok();
        ended.json()["steward"]["moves"].as_u64() > Some(0)
    };
    assert!((0..30).any(are_moved), "{command} was never migrated");
}

#[test]
fn a_static_program_on_the_mount_is_migrated() {
    if !can_mount() || !has_two_cpus() {
        return;
    }
    let sandbox = Sandbox::new();
    let (source, program) = (
        sandbox.file("reader.c", STATIC_READER),
        sandbox.path("reader"),
    );
    let mut compiler = Command::new("cc");
    let compiled = compiler
        .args(["-O2", "-static", "-o"])
        .arg(&program)
        .arg(source);
    assert!(compiled.status().unwrap().success());
    are_migrated(&sandbox, program.to_str().unwrap());
}

#[test]
fn a_go_program_on_the_mount_is_migrated() {
    if !can_mount() || !has_two_cpus() {
        return;
    }
    let sandbox = Sandbox::new();
    let key = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    let command = format!("age -r {key} -o /dev/null");
    let repeated = format!("sh -c 'for i in 1 2 3 4 5 6 7 8; do {command} $0; done'");
    are_migrated(&sandbox, &repeated);
}

#[test]
fn a_program_in_namespaces_of_its_own_is_migrated() {
    if !can_mount() || !has_two_cpus() {
        return;
    }
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let inside = "unshare --pid --mount --fork --mount-proc";
    let read = "sh -c 'for i in 1 2 3 4; do dd if=$0 of=/dev/null bs=4k status=none; done'";
    are_migrated(&sandbox, &format!("{inside} env -u LD_PRELOAD {read}"));
    are_migrated(&sandbox, &format!("{inside} {read}"));
}
