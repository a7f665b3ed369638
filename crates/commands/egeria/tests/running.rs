//! `egeria run`: exit statuses, the summary, signals, and that nothing stays behind.

use crate::common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{
    Background, Ended, Sandbox, can_mount, egeria, eventually, finish, kill, mounts, run, text,
    wait,
};
use rustix::process::Signal;
use serde_json::Value;

/// A scratch volume for `egeria run`.
const SCRATCH: [&str; 2] = ["--scratch", "64M"];

/// `egeria run` of a shell script.
fn shell(options: &[&str], script: &str) -> Command {
    let command = ["--", "sh", "-c", script];
    egeria(["run"].iter().chain(options).chain(&command))
}

/// Runs a shell script with calls served by this library (empty: none); a report is written beside.
#[track_caller]
fn reported(sandbox: &Sandbox, options: &[&str], script: &str, library: &Path) -> (Ended, Value) {
    let report = sandbox.path("report.json");
    let mut command = shell(&[options, &["--report", text(&report)]].concat(), script);
    command.env("EGERIA_PRELOAD_LIB", library);
    let ended = finish(command);
    let report = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap_or(Value::Null);
    (ended, report)
}

/// The same on a scratch volume, through the mount.
#[track_caller]
fn script(sandbox: &Sandbox, options: &[&str], script: &str) -> (Ended, Value) {
    let options = [&SCRATCH, options].concat();
    reported(sandbox, &options, script, Path::new(""))
}

/// Asserts that the run with this report left no mount and no scratch file.
#[track_caller]
fn assert_clean(mount: &str) {
    assert!(!mount.is_empty());
    assert!(
        mounts().iter().all(|other| other != Path::new(mount)),
        "{mount} is still mounted"
    );
    assert!(!Path::new(mount).exists(), "{mount} is still there");
    for path in common::scratch_files() {
        let noted = fs::read_to_string(path.join("mount")).unwrap_or_default();
        assert_ne!(noted, mount, "{} is still there", path.display());
    }
}

#[test]
fn the_exit_status_is_the_commands() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    for (body, status) in [
        ("true", 0),
        ("exit 7", 7),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let (ended, report) = script(&sandbox, &[], body);
        assert_eq!(ended.status, status, "{body}: {ended:?}");
        assert_eq!(report["exit_status"], status, "{body}");
        assert_clean(report["mount"].as_str().unwrap());
    }
}

#[test]
fn a_command_that_cannot_run_is_127_or_126() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let plain = sandbox.file("plain", "no program");
    run(["run", "--", "no-such-command"]).refused(127, &["no-such-command", "PATH"]);
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    run(["run", "--", text(&plain)]).refused(126, &["plain"]);
}

#[test]
fn the_command_finds_the_mount_and_its_files_work() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let body =
        "cd $EGERIA_MOUNT && head -c 3000000 /dev/urandom > a && cp a b && cmp a b && wc -c < b";
    let (ended, report) = script(&sandbox, &[], body);
    assert_eq!(
        (ended.status, ended.stdout.trim()),
        (0, "3000000"),
        "{ended:?}"
    );
    let sum = |field: &str| -> u64 {
        report["pools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pool| pool[field].as_u64().unwrap())
            .sum()
    };
    assert!(sum("written_bytes") >= 6_000_000, "{report}");
    assert!(report["mount_requests"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(
        report["local_bytes"].as_u64().unwrap() + report["remote_bytes"].as_u64().unwrap(),
        sum("written_bytes") + sum("read_bytes")
    );
}

#[test]
fn the_summary_goes_to_stderr_and_says_when_it_is_emulated() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (ended, report) = script(
        &sandbox,
        &["--machine", "optane-2s"],
        "echo out; echo x > $EGERIA_MOUNT/x",
    );
    assert_eq!(ended.stdout, "out\n");
    assert!(
        ended.stderr.contains("emulated (optane-2s)") && ended.stderr.contains("node 1"),
        "{ended:?}"
    );
    assert_eq!(report["machine"]["emulated"], true);
    assert_eq!(report["machine"]["profile"], "optane-2s");
    assert_eq!(report["pools"].as_array().unwrap().len(), 2);
}

#[test]
fn odin_stripes_what_is_written_unless_told_otherwise() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let allocation = |options: &[&str]| {
        let machine = ["--machine", "optane-2s"];
        let options = [&machine[..], options].concat();
        let (_, report) = script(&sandbox, &options, "true");
        report["allocation"].as_str().unwrap().to_owned()
    };
    assert_eq!(allocation(&["--policy", "odin"]), "striped");
    assert_eq!(
        allocation(&["--policy", "odin", "--alloc", "random"]),
        "random"
    );
    assert_eq!(allocation(&["--policy", "full"]), "local");
}

#[test]
fn with_json_the_summary_is_all_there_is_on_stdout() {
    if !can_mount() {
        return;
    }
    let ended = finish(shell(&["--json", "--scratch", "64M"], "echo said"));
    assert_eq!(ended.json()["exit_status"], 0);
    assert_eq!(ended.stderr, "said\n");
}

#[test]
fn a_volume_keeps_what_a_run_wrote() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "64M");
    let run_on = |body: &str| finish(shell(&["--volume", text(&pool)], body));
    assert_eq!(run_on("echo kept > $EGERIA_MOUNT/file").status, 0);
    assert_eq!(run_on("cat $EGERIA_MOUNT/file").stdout, "kept\n");
    run(["check", text(&pool)]).ok();
}

/// What a run on this volume says of the allocation in force, `options` given.
#[track_caller]
fn allocation_of(sandbox: &Sandbox, pool: &Path, options: &[&str]) -> Value {
    let options = [&["--volume", text(pool)], options].concat();
    let (ended, report) = reported(sandbox, &options, "true", Path::new(""));
    assert_eq!(ended.status, 0, "{ended:?}");
    report["allocation"].clone()
}

#[test]
fn a_run_gives_the_allocation_back_also_after_a_signal() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "64M");
    let directory = sandbox.directory("mnt");
    run(["mount", text(&pool), text(&directory), "--alloc", "random"]).ok();
    assert_eq!(allocation_of(&sandbox, &pool, &[]), "random");
    let elsewhere = ["--alloc", "node=1"];
    assert_eq!(allocation_of(&sandbox, &pool, &elsewhere), "node=1");
    assert_eq!(allocation_of(&sandbox, &pool, &[]), "random");
    let options = [&["--volume", text(&pool)], &elsewhere[..]].concat();
    let (mut running, _) = start(&sandbox, &options, "exec sleep 60");
    assert_eq!(allocation_of(&sandbox, &pool, &[]), "node=1");
    kill(running.id(), Signal::INT);
    assert_eq!(wait(&mut running.0), 130);
    assert_eq!(allocation_of(&sandbox, &pool, &[]), "random");
    run(["umount", text(&directory)]).ok();
}

#[test]
fn a_run_on_an_emulated_mount_says_so() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "64M");
    let directory = sandbox.directory("mnt");
    let machine = ["--machine", "optane-2s"];
    run(["mount", text(&pool), text(&directory)]
        .iter()
        .chain(&machine))
    .ok();
    let options = ["--volume", text(&pool)];
    let body = "echo x > $EGERIA_MOUNT/x; sleep 0.1";
    let (ended, report) = reported(&sandbox, &options, body, Path::new(""));
    assert!(ended.stderr.contains("emulated"), "{ended:?}");
    assert_eq!(report["machine"]["emulated"], true);
    let seconds = |field: &str| report[field].as_f64().unwrap();
    assert!(
        seconds("machine_elapsed_s") * 2.0 < seconds("elapsed_s"),
        "{report}"
    );
    let refused = ["already", "leave --machine out"];
    let again = sandbox.directory("again");
    run(["mount", text(&pool), text(&again)].iter().chain(&machine)).refused(1, &refused);
    finish(shell(&[&options, &machine[..]].concat(), "true")).refused(1, &refused);
    let mounted = run(["mount", "--json", text(&pool), text(&again)])
        .ok()
        .json();
    assert_eq!(mounted["machine"]["emulated"], true);
    for directory in [&directory, &again] {
        run(["umount", text(directory)]).ok();
    }
    let (_, report) = reported(&sandbox, &options, body, Path::new(""));
    assert_eq!(report["machine"]["emulated"], false, "the next session");
}

/// Starts a script in the background; the mount it works on.
#[track_caller]
fn start(sandbox: &Sandbox, options: &[&str], body: &str) -> (Background, String) {
    let told = sandbox.path("mount");
    let body = format!(
        "echo $EGERIA_MOUNT > {0}.new; mv {0}.new {0}; {body}",
        told.display()
    );
    let running = Background::start(&mut shell(options, &body));
    eventually("the command runs", || told.exists());
    (running, fs::read_to_string(told).unwrap().trim().to_owned())
}

#[test]
fn signals_reach_the_command_and_nothing_stays() {
    if !can_mount() {
        return;
    }
    for (name, signal) in [
        ("INT", Signal::INT),
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
    ] {
        let sandbox = Sandbox::new();
        let body =
            format!("trap 'exit 40' {name}; : > $EGERIA_MOUNT/set; while :; do sleep 0.05; done");
        let (mut running, mount) = start(&sandbox, &SCRATCH, &body);
        eventually("the trap is set", || Path::new(&mount).join("set").exists());
        kill(running.id(), signal);
        assert_eq!(wait(&mut running.0), 40, "{name} did not reach the command");
        assert_clean(&mount);
    }
}

#[test]
fn a_signal_that_kills_the_command_is_its_status() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (mut running, mount) = start(&sandbox, &SCRATCH, "exec sleep 60");
    kill(running.id(), Signal::TERM);
    assert_eq!(wait(&mut running.0), 143);
    assert_clean(&mount);
}

#[test]
fn a_signal_at_any_moment_leaves_nothing() {
    if !can_mount() {
        return;
    }
    for delay_ms in 0..20 {
        let mut running = Background::start(&mut shell(&SCRATCH, "exec sleep 60"));
        std::thread::sleep(Duration::from_millis(delay_ms));
        kill(running.id(), Signal::TERM);
        assert_eq!(wait(&mut running.0), 143, "after {delay_ms} ms");
        let prefix = format!("egeria-run-{}-", running.id());
        let mut left = common::scratch_files();
        left.retain(|path| path.to_string_lossy().contains(&prefix));
        assert!(left.is_empty(), "{left:?} after {delay_ms} ms");
    }
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (mut running, mount) = start(&sandbox, &SCRATCH, "exec sleep 60");
    let child = child_of(running.id());
    // Looked up before the end: a run of another test may be the next one.
    let scratch = scratch_of(&mount).expect("a run has a volume");
    running.end();
    kill(child, Signal::KILL);
    assert_eq!(run(["run", "--scratch", "64M", "--", "true"]).status, 0);
    eventually("it is swept", || !scratch.exists());
    assert_clean(&mount);
}

fn child_of(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    // Processes that notify the kernel are forks of the run, and have no name of their own at first.
    let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = program(&pid.to_string());
    let mut others = children
        .split_whitespace()
        .filter(|pid| program(pid) != own);
    others.next().unwrap().parse().unwrap()
}

fn scratch_of(mount: &str) -> Option<PathBuf> {
    let noted =
        |path: &PathBuf| fs::read_to_string(path.join("mount")).is_ok_and(|noted| noted == mount);
    common::scratch_files().into_iter().find(noted)
}

#[test]
fn a_process_left_behind_does_not_keep_the_mount() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let body = format!(
        "cd $EGERIA_MOUNT && {{ sleep 60 >/dev/null 2>&1 & }} && echo $! > {}",
        sandbox.path("pid").display()
    );
    let (ended, report) = script(&sandbox, &[], &body);
    let pid = fs::read_to_string(sandbox.path("pid")).unwrap();
    kill(pid.trim().parse().unwrap(), Signal::KILL);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(
        ended.stderr.contains("sleep") && ended.stderr.contains(pid.trim()),
        "{ended:?}"
    );
    assert_clean(report["mount"].as_str().unwrap());
}

#[test]
fn an_existing_preload_is_kept_and_ours_added() {
    if !can_mount() {
        return;
    }
    let library = common::preload_library();
    let mut command = shell(&SCRATCH, "echo $LD_PRELOAD");
    command
        .env("EGERIA_PRELOAD_LIB", library)
        .env("LD_PRELOAD", "libc.so.6");
    let ended = finish(command);
    let expected = format!("libc.so.6:{}\n", library.canonicalize().unwrap().display());
    assert_eq!(ended.stdout, expected, "{ended:?}");
}

#[test]
fn with_the_library_calls_are_served_directly() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let body = "dd if=/dev/zero of=$EGERIA_MOUNT/f bs=4k count=500 status=none && cat $EGERIA_MOUNT/f | wc -c";
    let (ended, report) = reported(&sandbox, &SCRATCH, body, common::preload_library());
    assert_eq!(
        (ended.status, ended.stdout.trim()),
        (0, "2048000"),
        "{ended:?}"
    );
    assert!(
        report["calls"]["direct"].as_u64().unwrap() >= 500,
        "{report}"
    );
}

#[test]
fn what_cannot_be_set_up_is_one_line_and_leaves_nothing() {
    run(["run", "--scratch", "900T", "--", "true"]).refused(1, &["/dev/shm", "free"]);
    run([
        "run",
        "--scratch",
        "4K",
        "--machine",
        "/no/such.toml",
        "--",
        "true",
    ])
    .refused(1, &["/no/such.toml"]);
    run(["run", "--report", "/no/such/report", "--", "true"]).refused(1, &["/no/such/report"]);
    run(["run", "--scratch", "64M", "--alloc", "node=9", "--", "true"]).refused(1, &["node 9"]);
    let mut command = egeria(["run", "--", "true"]);
    command.env("EGERIA_PRELOAD_LIB", "/no/such.so");
    finish(command).refused(1, &["EGERIA_PRELOAD_LIB", "/no/such.so"]);
}
