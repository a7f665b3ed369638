//! `egeria trial`: its answers and exit statuses, what it refuses, and that nothing stays changed.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Background, Ended, Sandbox, egeria, eventually, finish, kill, run, wait};
use egeria_harness::testing::skip;
use rustix::process::Signal;

/// Prints 2 while a steward is at work in the process that started it, else 1. A thread names itself a moment after it has
/// begun, so on a busy machine a run may print 1: trials need more pairs than the fewest that decide.
pub const HAS_STEWARD: &str =
    "if grep -qs egeria-steward /proc/$PPID/task/*/comm; then echo 2; else echo 1; fi";

/// `egeria trial` of a shell script, with stewards of its own.
fn trial(sandbox: &Sandbox, options: &[&str], script: &str) -> Command {
    let command = ["--", "sh", "-c", script];
    let mut command = egeria(["trial", "--even-so"].iter().chain(options).chain(&command));
    command.env("EGERIA_RUNTIME_DIR", runtime(sandbox));
    command
}

pub fn runtime(sandbox: &Sandbox) -> std::path::PathBuf {
    let directory = sandbox.path("run");
    let _ = fs::create_dir(&directory);
    directory
}

/// How many journals of stewards there are.
pub fn journals(sandbox: &Sandbox) -> usize {
    let files = fs::read_dir(runtime(sandbox)).unwrap();
    files.filter(is_journal).count()
}

#[track_caller]
fn tried(sandbox: &Sandbox, options: &[&str], script: &str) -> Ended {
    finish(trial(sandbox, options, script))
}

#[test]
fn one_node_is_one_line_and_can_be_overruled() {
    let nodes = run(["machine", "--json"]).ok().json();
    if nodes["nodes"].as_array().map_or(0, Vec::len) > 1 {
        skip("this machine has several nodes");
        return;
    }
    run(["trial", "--", "true"]).refused(1, &["one node", "nothing to place", "--even-so"]);
    // Nothing is placed here, so this is not asked.
    let ended = run(["trial", "--compare", "off,off", "--", "false"]);
    ended.refused(1, &["false ended with status 1"]);
}

#[test]
fn a_steward_is_there_in_the_runs_with_a_policy_only() {
    let sandbox = Sandbox::new();
    let measure = ["--measure", "[0-9]", "--pairs", "20", "--json"];
    let higher = [&measure[..], &["--higher-is-better"]].concat();
    let ended = tried(&sandbox, &higher, HAS_STEWARD);
    assert_eq!(ended.status, 0, "{ended:?}");
    let report = ended.json();
    let medians = [0, 1].map(|side| report["sides"][side]["median"].as_f64());
    assert_eq!(medians, [Some(1.0), Some(2.0)], "{report}");
    assert_eq!(report["comparisons"][0]["answer"], "better");
    let sentence = report["comparisons"][0]["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("all helps: 100 % higher than off (98 % interval"),
        "{sentence}"
    );
    let keep = report["keep"].as_str().unwrap();
    assert!(
        keep.starts_with("egeria run --no-volume --policy all -- sh -c '"),
        "{keep}"
    );

    let set = [
        "--policy",
        "rl",
        "--set",
        "read_margin_bytes_s=1e5",
        "--window",
        "400",
    ];
    let ended = tried(&sandbox, &[&higher[..], &set].concat(), HAS_STEWARD);
    assert_eq!(ended.status, 0, "{ended:?}");
    let kept = "egeria run --no-volume --policy rl --set read_margin_bytes_s=1e5 --window 400 -- ";
    assert!(
        ended.json()["keep"].as_str().unwrap().starts_with(kept),
        "{ended:?}"
    );

    let ended = tried(&sandbox, &measure, HAS_STEWARD);
    assert_eq!(ended.status, 4, "more of it is worse here: {ended:?}");
    let ended = tried(
        &sandbox,
        &[&measure[..2], &["--compare", "all,off,rl"]].concat(),
        HAS_STEWARD,
    );
    assert_eq!(ended.status, 0, "off is better than all: {ended:?}");
    assert!(
        ended.stdout.contains("off helps: 50 % lower than all"),
        "{ended:?}"
    );
    assert!(!ended.stdout.contains("To keep it"), "{ended:?}");
    assert!(
        ended
            .stdout
            .contains("rl makes no difference larger than 2 %"),
        "{ended:?}"
    );
    assert_eq!(journals(&sandbox), 0);
}

fn is_journal(entry: &std::io::Result<fs::DirEntry>) -> bool {
    let name = entry.as_ref().unwrap().file_name();
    name.to_string_lossy().contains("journal")
}

#[test]
fn no_difference_and_not_known_have_statuses_of_their_own() {
    let sandbox = Sandbox::new();
    let options = [
        "--compare",
        "off,off",
        "--measure",
        "[0-9]+",
        "--pairs",
        "12",
    ];
    let ended = tried(&sandbox, &options, "echo 7");
    assert_eq!(ended.status, 3, "{ended:?}");
    let ended = tried(&sandbox, &options, "tr -dc 1-9 < /dev/urandom | head -c 3");
    assert_eq!(ended.status, 5, "{ended:?}");
    assert!(
        ended.stdout.contains("not known") && ended.stdout.contains("by themselves"),
        "{ended:?}"
    );
    assert!(!ended.stdout.contains("To keep it"), "{ended:?}");
}

#[test]
fn a_page_has_the_answer_and_a_picture() {
    let sandbox = Sandbox::new();
    let page = sandbox.path("trial.html");
    let page = page.to_str().unwrap();
    let options = [
        "--compare",
        "off,off",
        "--measure",
        "[0-9]",
        "--pairs",
        "8",
        "--report",
        page,
    ];
    tried(&sandbox, &options, "echo 7");
    let text = fs::read_to_string(page).unwrap();
    assert_eq!(
        egeria_harness::testing::html::unclosed(&text),
        Ok(Vec::new())
    );
    assert!(text.contains("no difference larger than 2 %") && text.contains("<polyline"));
    let nowhere = ["--compare", "off,off", "--report", "/no/such/page"];
    tried(&sandbox, &nowhere, "true").refused(1, &["/no/such/page"]);
}

#[test]
fn what_makes_no_sense_is_one_line() {
    let refused = |options: &[&str], words: &[&str]| {
        let rest = ["--", "true"];
        run(["trial"].iter().chain(options).chain(&rest)).refused(2, words);
    };
    refused(&["--compare", "off"], &["2 to 8", "off,all"]);
    refused(&["--compare", "off,fast"], &["fast"]);
    refused(&["--measure", "("], &["--measure", "group"]);
    refused(&["--metric", "https://a/m#b"], &["only http://"]);
    refused(&["--metric", "http://a/m"], &["#NAME"]);
    refused(&["--higher-is-better"], &["--measure"]);
    refused(&["--at-most", "5"], &["20m"]);
    refused(&["--pairs", "5"], &["8 to 500"]);
    refused(&["--bound", "0"], &["percent"]);
    refused(&["--set", "nonsense=1"], &["nonsense"]);
    run(["trial"]).refused(2, &["CMD"]);
    let slow = [
        "trial",
        "--compare",
        "off,off",
        "--at-most",
        "2s",
        "--",
        "sleep",
        "1",
    ];
    run(slow).refused(1, &["a run takes 1 s", "--at-most"]);
}

/// Process ids of commands with this argument.
fn with_argument(argument: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let holds = |entry: &fs::DirEntry| {
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        line.split('\0').any(|word| word == argument)
    };
    let found = entries.filter(holds);
    found
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Starts a trial whose first counted run with a steward goes on until it is ended.
fn hanging(sandbox: &Sandbox, argument: &str) -> Background {
    let began = sandbox.path("began");
    let script = format!(
        "if grep -qs egeria-steward /proc/$PPID/task/*/comm; then echo > {}; exec sleep {argument}; fi",
        began.display()
    );
    let running = Background::start(&mut trial(sandbox, &["--seed", "1"], &script));
    eventually("a run with a steward", || began.exists());
    running
}

#[test]
fn an_interrupted_trial_leaves_nothing() {
    for (signal, status, argument) in [
        (Signal::INT, 130, "98765.1"),
        (Signal::TERM, 143, "98765.2"),
    ] {
        let sandbox = Sandbox::new();
        let mut running = hanging(&sandbox, argument);
        eventually("its command", || !with_argument(argument).is_empty());
        kill(running.id(), signal);
        assert_eq!(wait(&mut running.0), status);
        assert_eq!(with_argument(argument), Vec::<u32>::new());
        assert_eq!(journals(&sandbox), 0);
    }
}

#[test]
fn after_a_killed_trial_the_next_one_begins() {
    let sandbox = Sandbox::new();
    let argument = "98765.3";
    let mut running = hanging(&sandbox, argument);
    eventually("its command", || !with_argument(argument).is_empty());
    kill(running.id(), Signal::KILL);
    wait(&mut running.0);
    eventually("its command ended, too", || {
        with_argument(argument).is_empty()
    });
    assert_eq!(journals(&sandbox), 1);
    let options = ["--measure", "[0-9]", "--higher-is-better", "--pairs", "20"];
    assert_eq!(tried(&sandbox, &options, HAS_STEWARD).status, 0);
    assert_eq!(journals(&sandbox), 0);
}

#[test]
fn a_steward_at_work_is_said_before_any_run() {
    let sandbox = Sandbox::new();
    let mut steward = egeria(["steward", "--pid", &std::process::id().to_string()]);
    steward.env("EGERIA_RUNTIME_DIR", runtime(&sandbox));
    let _steward = Background::start(&mut steward);
    eventually("a steward", || journals(&sandbox) == 1);
    let file = sandbox.path("ran");
    let script = format!("echo > {}", file.display());
    tried(&sandbox, &[], &script).refused(1, &["steward is at work here already"]);
    assert!(!Path::new(&file).exists());
}

/// `egeria trial` of a process, in blocks of this length.
fn service(sandbox: &Sandbox, process: u32, block: &str, options: &[&str]) -> Command {
    let process = process.to_string();
    let fixed = ["trial", "--even-so", "--pid", &process];
    let blocks = ["--rest", "10ms", "--block", block];
    let mut command = egeria(fixed.iter().chain(&blocks).chain(options));
    command.env("EGERIA_RUNTIME_DIR", runtime(sandbox));
    command
}

fn started(script: &str) -> Background {
    Background::start(Command::new("sh").args(["-c", script]))
}

#[test]
fn a_steward_of_a_service_is_there_in_its_blocks_only() {
    let sandbox = Sandbox::new();
    let busy = started("exec dd if=/dev/zero of=/dev/null bs=64k");
    let options = ["--metric", HAS_STEWARD, "--pairs", "20"];
    let options = [&options[..], &["--higher-is-better"]].concat();
    let ended = finish(service(&sandbox, busy.id(), "100ms", &options));
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(
        ended.stdout.starts_with("all helps: 100 % higher than off"),
        "{ended:?}"
    );
    let keep = format!("egeria steward --policy all --pid {}", busy.id());
    assert!(ended.stdout.contains(&keep), "{ended:?}");
}

#[test]
fn without_a_metric_the_bytes_of_a_service_are_compared() {
    let sandbox = Sandbox::new();
    let busy = started("exec dd if=/dev/zero of=/dev/null bs=64k");
    let options = ["--compare", "off,off", "--pairs", "8", "--json"];
    // On a busy host it may wait for most of a shorter block.
    let report = finish(service(&sandbox, busy.id(), "700ms", &options)).json();
    assert_eq!(report["subject"], format!("process {}", busy.id()));
    assert_eq!(report["measure"], "bytes read and written per second");
    assert_eq!(report["better"], "higher");
    let activity = &report["sides"][0]["activity"];
    let cpus = activity["cpus"].as_f64().unwrap();
    assert!((0.01..=1.1).contains(&cpus), "{activity}");
    let waiting = activity["waiting_for_cpus"].as_f64().unwrap();
    assert!((0.0..=1.1).contains(&waiting), "{activity}");
    assert!(report["overhead"].as_f64().unwrap() < 0.5, "{report}");
    assert!(
        report["sides"][1]["median"].as_f64().unwrap() > 1e6,
        "{report}"
    );
}

#[test]
fn a_service_that_is_none_or_ends_is_one_line() {
    let sandbox = Sandbox::new();
    let short = started("exec sleep 1");
    let same = ["--compare", "off,off"];
    let constant = [&same[..], &["--metric", "echo 1", "--pairs", "500"]].concat();
    let ended = finish(service(&sandbox, short.id(), "300ms", &constant));
    ended.refused(1, &["process", "again"]);
    let idle = started("exec sleep 100");
    finish(service(&sandbox, idle.id(), "100ms", &same)).refused(1, &["--metric"]);
    let slow = [&same[..], &["--at-most", "3s"]].concat();
    let ended = finish(service(&sandbox, idle.id(), "1s", &slow));
    ended.refused(1, &["a run takes 1 s", "--at-most"]);
    run(["trial", "--pid", "4000000000"]).refused(1, &["no process"]);
    run(["trial", "--unit", "no-such-unit"]).refused(1, &["no-such-unit.service", "systemctl"]);
    run(["trial", "--pid", "1", "--", "true"]).refused(2, &["--pid"]);
    let number = ["trial", "--pid", &idle.id().to_string(), "--measure", "x"];
    run(number).refused(2, &["--metric"]);
}
