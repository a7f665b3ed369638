//! `egeria trial`: sides other than policies, their data, and that nothing of them is left.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Background, Ended, Sandbox, egeria, eventually, finish, kill, run, wait};
use egeria_harness::testing::skip;
use rustix::process::Signal;

/// Pairs of the shortest trial.
const PAIRS: usize = 8;

/// A directory with a file and a link.
fn data(sandbox: &Sandbox) -> PathBuf {
    let directory = sandbox.path("data");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("file"), vec![7; 100_000]).unwrap();
    std::os::unix::fs::symlink("file", directory.join("link")).unwrap();
    directory
}

fn trial(sandbox: &Sandbox, options: &[&str], script: &str) -> Command {
    let fixed = ["trial", "--volume"];
    let directory = sandbox.path("data");
    let command = ["--", "sh", "-c", script];
    let words = fixed.into_iter().chain([directory.to_str().unwrap()]);
    let words = words.chain(options.iter().copied()).chain(command);
    let mut command = egeria(words);
    command.env("EGERIA_RUNTIME_DIR", sandbox.path("run"));
    let _ = fs::create_dir(sandbox.path("run"));
    command
}

#[track_caller]
fn tried(sandbox: &Sandbox, options: &[&str], script: &str) -> Ended {
    finish(trial(sandbox, options, script))
}

/// The directories that runs used, in the order of the runs.
fn places(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_copy_is_used_compared_and_removed() {
    let sandbox = Sandbox::new();
    let directory = data(&sandbox);
    let seen = sandbox.path("places");
    let script = format!(
        "cmp {{}}/file {{}}/link && test {{}} = $EGERIA_TRIAL_DIR && echo run >> {{}}/log && echo {{}} >> {}",
        seen.display()
    );
    fs::write(directory.join("log"), "").unwrap();
    let before = ["--before", "test -f {}/file"];
    let options = [&before[..], &["--json", "--all-pairs", "--pairs", "8"]].concat();
    let ended = tried(&sandbox, &options, &script);
    assert!([0, 3, 4, 5].contains(&ended.status), "{ended:?}");
    let report = ended.json();
    let copy = &report["copy"];
    assert_eq!(copy["files"], 2, "{report}");
    assert_eq!(copy["unchanged_files"], 1, "{report}");
    assert_eq!(copy["changed_files"], 1, "{report}");
    assert_eq!(report["sides"][1]["name"], "volume");
    assert_eq!(report["warm_ups"], 2);
    let places = places(&seen);
    let own = directory.to_str().unwrap();
    let (original, copies): (Vec<&String>, Vec<&String>) =
        places.iter().partition(|place| *place == own);
    assert_eq!([original.len(), copies.len()], [PAIRS + 1; 2]);
    assert!(!Path::new(copies[0]).exists(), "{}", copies[0]);
    assert!(!Path::new(copies[0]).parent().unwrap().exists());
    // Only the command wrote into the directory, and only in runs without the copy.
    let log = fs::read_to_string(directory.join("log")).unwrap();
    assert_eq!(log.lines().count(), PAIRS + 1);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
    assert_eq!(fs::read(directory.join("file")).unwrap(), [7; 100_000]);
}

#[test]
fn a_copy_that_is_not_used_ends_the_trial() {
    let sandbox = Sandbox::new();
    data(&sandbox);
    let ended = tried(&sandbox, &[], "true");
    ended.refused(1, &["did not use the copy", "{}", "EGERIA_TRIAL_DIR"]);
    let absent = ["trial", "--volume", "/no/such/data", "--", "true"];
    run(absent).refused(1, &["/no/such/data"]);
}

#[test]
fn a_steward_and_an_emulated_machine_are_those_of_the_copy() {
    let sandbox = Sandbox::new();
    data(&sandbox);
    let machine = ["--machine", "optane-2s", "--dilation", "8", "--pairs", "20"];
    let sides = ["--compare", "volume,volume+rl", "--json"];
    let options = [&machine[..], &sides[..]].concat();
    let report = tried(&sandbox, &options, "cat {}/file > /dev/null").json();
    assert_eq!(report["measure"], "time of the emulated machine");
    assert_eq!(report["copy"]["machine"], "emulated (optane-2s)");
    let has_steward = "cat {}/file > /dev/null; if grep -qs egeria-steward /proc/$PPID/task/*/comm; then echo 2; else echo 1; fi";
    let number = ["--measure", "[0-9]", "--higher-is-better"];
    let options = [&options[..], &number].concat();
    let report = tried(&sandbox, &options, has_steward).json();
    let medians = [0, 1].map(|side| report["sides"][side]["median"].as_f64());
    assert_eq!(medians, [Some(1.0), Some(2.0)], "{report}");
    let done = &report["sides"][0]["done"];
    let bytes = [&done["local_bytes"], &done["remote_bytes"]].map(|bytes| bytes.as_u64());
    assert!(
        bytes[0].unwrap() + bytes[1].unwrap() >= 100_000 * 8,
        "{report}"
    );
}

#[test]
fn sides_without_what_they_need_are_one_line() {
    let refused = |options: &[&str], words: &[&str]| {
        let rest = ["--", "true"];
        run(["trial"].iter().chain(options).chain(&rest)).refused(2, words);
    };
    refused(
        &["--compare", "off,volume"],
        &["side volume", "--volume DIR"],
    );
    refused(&["--compare", "off,warm"], &["side warm", "--warm FILE"]);
    refused(&["--compare", "off,rl+full"], &["second policy"]);
    refused(&["--warm", "/etc/passwd"], &["--node N, or --spread"]);
    refused(&["--node", "0"], &["--warm"]);
    refused(&["--alloc", "random"], &["--volume"]);
    let unused = ["--volume", "/etc", "--compare", "off,all", "--even-so"];
    refused(&unused, &["no side of --compare is volume"]);
    let service = ["trial", "--volume", "/etc", "--pid", "1"];
    run(service).refused(2, &["--pid"]);
}

/// Starts a trial that hangs in the first run with the copy, and where that was.
fn hanging(sandbox: &Sandbox, argument: &str) -> (Background, PathBuf) {
    data(sandbox);
    let seen = sandbox.path("places");
    let script = format!(
        "if test -n \"$EGERIA_MOUNT\"; then echo {{}} > {}; exec sleep {argument}; fi",
        seen.display()
    );
    let running = Background::start(&mut trial(sandbox, &[], &script));
    eventually("a run with the copy", || !places(&seen).is_empty());
    (running, PathBuf::from(&places(&seen)[0]))
}

#[test]
fn an_interrupted_trial_leaves_no_copy() {
    let sandbox = Sandbox::new();
    let (mut running, place) = hanging(&sandbox, "87654.1");
    assert!(place.join("file").exists());
    kill(running.id(), Signal::INT);
    assert_eq!(wait(&mut running.0), 130);
    assert!(!place.parent().unwrap().exists(), "{}", place.display());
}

#[test]
fn the_next_trial_removes_the_copy_of_a_killed_one() {
    let sandbox = Sandbox::new();
    let (mut running, place) = hanging(&sandbox, "87654.2");
    kill(running.id(), Signal::KILL);
    wait(&mut running.0);
    let mount = place.parent().unwrap();
    assert!(fs::symlink_metadata(mount).is_ok() || fs::read_dir(mount).is_err());
    run(["trial", "--compare", "off,off", "--", "false"]).refused(1, &["status 1"]);
    let gone = fs::symlink_metadata(mount).unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::NotFound);
}

/// Bytes of a file that are cached.
fn cached_bytes(path: &Path) -> u64 {
    let document = run(["where", path.to_str().unwrap(), "--json"]).ok().json();
    document["held_bytes"].as_u64().unwrap()
}

#[test]
fn warmed_files_are_put_back_to_where_they_were() {
    const BYTES: usize = 4 << 20;
    let sandbox = Sandbox::new();
    // Pages of tmpfs are never dropped.
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("file");
    fs::write(&path, vec![7; BYTES]).unwrap();
    let file = fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    let drop_all = || {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    };
    drop_all();
    if cached_bytes(&path) != 0 {
        skip("this file system keeps pages that are to be dropped");
        return;
    }
    let name = path.to_str().unwrap();
    let look = format!(
        "{} where {name} --json | grep -o '\"held_bytes\": *[0-9]*' | head -1 | awk '{{print 1+$NF}}'",
        common::egeria(["x"; 0]).get_program().to_str().unwrap()
    );
    let options = ["--warm", name, "--node", "0", "--measure", "[0-9]+"];
    let rest = ["--pairs", "8", "--json", "--", "sh", "-c", &look];
    let mut command = egeria(["trial"].iter().chain(&options).chain(&rest));
    command.env("EGERIA_RUNTIME_DIR", sandbox.path("run"));
    let ended = finish(command);
    let report = ended.json();
    let medians = [0, 1].map(|side| report["sides"][side]["median"].as_f64());
    assert_eq!(medians, [Some(1.0), Some(1.0 + BYTES as f64)], "{report}");
    assert_eq!(report["sides"][1]["done"]["stays"], serde_json::Value::Null);
    assert_eq!(cached_bytes(&path), 0);
    assert!(ended.status == 4, "more cached bytes are worse: {ended:?}");
    let keep = report["keep"].as_str();
    assert_eq!(keep, None);
}

#[test]
fn all_pairs_run_where_that_is_asked_for() {
    let pairs = |options: &[&str]| {
        let fixed = ["trial", "--compare", "off,off", "--measure", "[0-9]+"];
        let rest = ["--pairs", "12", "--json", "--", "echo", "7"];
        let ended = run(fixed.iter().chain(options).chain(&rest));
        ended.json()["comparisons"][0]["pairs"].as_u64()
    };
    assert_eq!(pairs(&[]), Some(11));
    assert_eq!(pairs(&["--all-pairs"]), Some(12));
}
