//! `egeria trace show`: what a recording holds, also one that is cut, damaged or hostile.

use crate::common;
use crate::recordings;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Sandbox, egeria, finish, is_root, run, wait};
use egeria_trace::Writer;
use recordings::{
    cut, header, machine, record, remote_readers, steady, thread, unreadable, window,
};

fn show(path: &Path, more: &[&str]) -> common::Ended {
    let fixed = ["trace", "show", path.to_str().unwrap()];
    run(fixed.iter().chain(more))
}

#[test]
fn people_see_header_windows_and_summary() {
    let sandbox = Sandbox::new();
    let mut threads = remote_readers();
    threads.push(thread(9, 0, [0, 0], 100));
    let ended = show(&record(&sandbox, "rl", &steady(3, &threads)), &[]).ok();
    assert_eq!(ended.stderr, "");
    for words in [
        "command  fio job.fio",
        "volume   6f2b7f3e-6d1c-4f8e-9a55-0c3f1d2e4b5a",
        "machine  optane-2s, 2 nodes, emulated (optane-2s)",
        "policy   rl",
        "began    2000-02-29 00:00:00 UTC",
        "3 windows, 3.000 s; 5 threads, at most 5 at a time; 5.59 GiB read and 286 MiB written, \
         5 % of it on the thread's node",
    ] {
        assert!(ended.stdout.contains(words), "{words:?}: {}", ended.stdout);
    }
    let row = ended.stdout.lines().find(|line| line.contains("2.000 s"));
    let cells: Vec<&str> = row.unwrap().split("  ").map(str::trim).collect();
    let cells: Vec<&str> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
    // Window, from, length, threads, local; read, written and CPUs of each node.
    let expected = [
        "2",
        "2.000 s",
        "1.000 s",
        "5",
        "5 %",
        "2.00 GB/s",
        "100 MB/s",
        "5 %",
        "0 B/s",
        "0 B/s",
        "20 %",
    ];
    assert_eq!(cells, expected);
}

#[test]
fn threads_are_told_busiest_first() {
    let sandbox = Sandbox::new();
    let mut windows = steady(2, &[thread(1, 0, [10, 0], 0), thread(2, 1, [0, 20], 20)]);
    windows[1].threads[1].node = egeria_machine::NodeId(0);
    windows[1].threads[1].pinned = true;
    let ended = show(&record(&sandbox, "off", &windows), &["--threads"]).ok();
    let of = |name: &str| {
        ended
            .stdout
            .lines()
            .position(|line| line.contains(name))
            .unwrap()
    };
    assert!(of("worker-2") < of("worker-1"), "{}", ended.stdout);
    let busiest = ended.stdout.lines().nth(of("worker-2")).unwrap();
    let cells: Vec<&str> = busiest.split_whitespace().collect();
    let expected = "2 77 worker-2 2 38.1 MiB 38.1 MiB 20 % 50 % 0 1 0-7 pinned";
    assert_eq!(cells, expected.split(' ').collect::<Vec<_>>());
}

#[test]
fn scripts_get_one_document_with_raw_numbers() {
    let sandbox = Sandbox::new();
    let path = record(&sandbox, "off", &steady(2, &remote_readers()));
    let document = show(&path, &["--json"]).ok().json();
    assert_eq!(document["command"][1], "job.fio");
    assert_eq!(document["recorded_policy"], "off");
    assert_eq!(document["started_unix_ns"], 951_782_400_000_000_000_u64);
    assert_eq!(document["machine"]["emulated"], true);
    assert_eq!(document["nodes"], serde_json::json!([0, 1]));
    assert_eq!(
        (&document["ending"], document["warning"].is_null()),
        (&"finished".into(), true)
    );
    assert_eq!(document["summary"]["read_bytes"], 4_000_000_000_u64);
    assert_eq!(document["summary"]["local_share"], 0.0);
    let window = &document["windows"][1];
    assert_eq!(
        (&window["number"], &window["threads"]),
        (&1.into(), &4.into())
    );
    assert_eq!(window["nodes"][0]["read_bytes_s"], 2e9);
    assert_eq!(window["nodes"][1]["threads"], 4);
    assert!(document.get("threads").is_none() && window.get("facts").is_none());
    let document = show(&path, &["--json", "--threads"]).ok().json();
    assert_eq!(document["threads"][0]["windows"], 2);
    assert_eq!(document["threads"][3]["thread_id"], 4);
    let facts = &document["windows"][1]["facts"][2];
    assert_eq!(facts["key"]["thread_id"], 3);
    assert_eq!(facts["read_bytes"], serde_json::json!([500_000_000, 0]));
    assert_eq!(facts["allowed_cpus"], "0-7");
}

#[test]
fn a_cut_recording_is_shown_with_a_warning() {
    let sandbox = Sandbox::new();
    let path = cut(&sandbox, &steady(3, &remote_readers()));
    let ended = show(&path, &[]).ok();
    let warning = ended.stderr.trim_end();
    assert!(
        warning.starts_with("egeria: warning: ") && !warning.contains('\n'),
        "{warning}"
    );
    assert!(
        warning.contains("is cut") && warning.contains("the 2 windows before"),
        "{warning}"
    );
    assert!(
        ended.stdout.contains("2 windows, 2.000 s"),
        "{}",
        ended.stdout
    );
    let document = show(&path, &["--json"]).ok().json();
    assert_eq!(document["ending"], "cut");
    assert_eq!(document["windows"].as_array().unwrap().len(), 2);
    assert!(document["warning"].as_str().unwrap().contains("is cut"));
}

#[test]
fn a_recording_under_way_can_be_shown() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("trace");
    let mut writer = Writer::create(&path, &machine(), &header("off")).unwrap();
    let empty = show(&path, &["--json"]).ok().json();
    assert_eq!(
        (&empty["summary"]["windows"], &empty["ending"]),
        (&0.into(), &"still_recording".into())
    );
    writer.append(&window(0, remote_readers()).into()).unwrap();
    let ended = show(&path, &["--json"]).ok();
    assert_eq!(ended.json()["summary"]["windows"], 1);
    assert!(
        ended.stderr.contains("still being recorded"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_cannot_be_read_is_one_line() {
    let sandbox = Sandbox::new();
    for (path, words) in unreadable(&sandbox) {
        show(&path, &[]).refused(1, &words);
        show(&path, &["--json", "--threads"]).refused(1, &words);
    }
}

#[test]
fn who_may_not_read_it_is_told_in_one_line() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let path = record(&sandbox, "off", &[]);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command
        .arg(env!("CARGO_BIN_EXE_egeria"))
        .args(["trace", "show"])
        .arg(path);
    finish(command).refused(1, &["ermission", "who may read it"]);
}

#[test]
fn what_a_terminal_would_obey_is_not_shown() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("trace");
    let mut header = header("off\x1b[2J");
    header.command = vec!["\x1b]0;title\x07".to_owned()];
    Writer::create(&path, &machine(), &header)
        .unwrap()
        .finish()
        .unwrap();
    let ended = show(&path, &["--threads"]).ok();
    assert!(
        ended.stdout.contains("command  ?]0;title?"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains(['\x1b', '\x07']));
    assert!(!ended.stdout.contains("process"), "an empty table");
}

#[test]
fn a_long_recording_is_shown_whole() {
    let sandbox = Sandbox::new();
    let path = record(&sandbox, "off", &steady(1234, &[thread(1, 0, [1, 0], 0)]));
    let ended = show(&path, &[]).ok();
    let is_row = |line: &&str| line.contains(" 1.000 s ");
    assert_eq!(ended.stdout.lines().filter(is_row).count(), 1234);
    assert_eq!(ended.stdout.matches("node 0: read").count(), 3);
    let document = show(&path, &["--json"]).ok().json();
    assert_eq!(document["windows"].as_array().unwrap().len(), 1234);
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let sandbox = Sandbox::new();
    let path = record(&sandbox, "off", &steady(2000, &remote_readers()));
    for more in [&[][..], &["--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = egeria(["trace", "show", path.to_str().unwrap()]);
        command.args(more).stdout(writer).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let status = wait(&mut child);
        let stderr = std::io::read_to_string(child.stderr.take().unwrap());
        assert_eq!((status, stderr.unwrap().as_str()), (141, ""), "{more:?}");
    }
}

#[test]
fn it_is_in_help_completions_and_manual() {
    let help = run(["trace", "show", "--help"]).ok().stdout;
    assert!(
        help.contains("Usage: egeria trace show") && help.contains("--json"),
        "{help}"
    );
    let examples = help.split("Examples:").nth(1).unwrap();
    assert!(examples.contains("egeria trace show"));
    assert!(
        examples.lines().all(|line| line.chars().count() <= 80),
        "{examples}"
    );
    assert!(run(["--help"]).ok().stdout.contains("  trace "));
    assert!(
        run(["completions", "bash"])
            .ok()
            .stdout
            .contains("trace,show")
    );
    let sandbox = Sandbox::new();
    run(["man", "--out", sandbox.root.to_str().unwrap()]).ok();
    let page = std::fs::read_to_string(sandbox.path("egeria-trace-show.1")).unwrap();
    assert!(page.contains("\\-\\-threads"), "{page}");
    run(["trace", "show"]).refused(2, &["FILE", "egeria trace show --help"]);
    run(["trace", "bogus"]).refused(2, &["bogus", "egeria trace --help"]);
}
