//! `egeria explain`: decision logs as sentences, whoever wrote them.

use crate::common;
use crate::decisions;

use std::ffi::OsStr;
use std::path::Path;

use common::{Ended, Sandbox, egeria, finish, run};
use decisions::*;
use egeria_facts::Mix;
use egeria_facts::{ProcessKey, ThreadKey};
use egeria_machine::NodeId;
use egeria_policy::planner::{Limit, Resting};
use egeria_policy::{
    Action, ActionOutcome, ActionRecord, ActionResult, Expectation, Measure, Subject, pats,
};
use egeria_policy::{KeptProcess, KindFate, ProcessKept};
use egeria_steward::{
    ActionLine, ArrivingLine, GatherProgress, KeptLine, KindLine, Record, ResultLine, Stuck,
};

#[track_caller]
fn explain(log: &Path, more: &[&str]) -> Ended {
    let command = ["explain".as_ref(), "--log".as_ref(), log.as_os_str()];
    let more = more.iter().map(OsStr::new);
    run(command.into_iter().chain(more))
}

/// `egeria explain` with a runtime directory of its own.
#[track_caller]
fn explain_in(directory: &Path, more: &[&str]) -> Ended {
    let mut command = egeria(["explain"].iter().chain(more));
    command.env("EGERIA_RUNTIME_DIR", directory);
    finish(command)
}

#[test]
fn a_move_is_told_with_its_reason_and_what_came_of_it() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(dead_process()));
    let lines = explain(&log, &[]).ok().stdout;
    let sentence = "thread 4711 (fio) of process 4700 went from node 1 to node 0 at 12.300 s: \
        it reads 1.20 GB/s from node 0 and at most 0 B/s from any other; 200 MB/s more is enough. \
        Expected: 100 % of its bytes local instead of 0 %. In the next window: 98 % local (0 % before), 1.68 GB/s \
        (1.20 GB/s before, now 1.4 times that).\n";
    assert!(lines.contains(sentence), "{lines}");
    assert!(
        lines.contains("Figures are emulated (optane-2s)"),
        "{lines}"
    );
    assert!(
        lines.contains("1 move of 1 thread (1 remote reads)"),
        "{lines}"
    );
    assert!(!lines.contains("stayed"), "{lines}");
}

#[test]
fn a_thread_is_told_with_why_it_stayed() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(dead_process()));
    for name in ["4712", "4700/4712"] {
        let lines = explain(&log, &[name]).ok().stdout;
        let sentence = "thread 4712 (fio) of process 4700 stayed on node 1, not on node 0 with its data \
            from 12.300 s to 12.400 s (2 windows): \
            the node of its data would be contended for CPUs.\n";
        assert!(lines.contains(sentence), "{lines}");
        assert!(lines.contains("was seen in 2 windows"), "{lines}");
        assert!(lines.contains("25 % local"), "{lines}");
        assert!(!lines.contains("4711"), "{lines}");
    }
    explain(&log, &["4701/4712"]).refused(1, &["4701/4712", "leave it out"]);
    explain(&log, &["4713"]).refused(1, &["4713"]);
    explain(&log, &["fio"]).refused(2, &["fio", "PID/TID"]);
}

#[test]
fn json_is_one_document_with_raw_numbers() {
    let sandbox = Sandbox::new();
    let log = write(&sandbox.path("log"), &story(dead_process()));
    let document = explain(&log, &["--json"]).ok().json();
    let event = &document["events"][0];
    assert_eq!(event["event"], "action");
    assert_eq!(event["action"]["kind"], "migrate_thread");
    assert_eq!(event["action"]["thread"]["thread_id"], 4711);
    assert_eq!(event["at_ns"], 12_300_000_000_u64);
    assert_eq!(event["action"]["reason"]["kind"], "remote_reads");
    assert_eq!(event["result"]["thread"]["local_share_after"], 0.98);
    assert_eq!(event["expected"]["expected"], 1.0);
    assert_eq!(event["result"]["missed"], false);
    assert_eq!(document["summary"]["moves"], 1);
    assert_eq!(
        document["summary"]["displaced"][0]["thread"]["thread_id"],
        4712
    );
    assert_eq!(document["summary"]["contended"][0]["contention"], "cpu");
    assert_eq!(document["start"]["emulated"], true);
    assert_eq!(document["steward"]["state"], "killed");
}

#[test]
fn the_last_line_shows_how_the_steward_ended() {
    let sandbox = Sandbox::new();
    let mut records = story(std::process::id());
    let log = write(&sandbox.path("log"), &records);
    let lines = explain(&log, &[]).ok().stdout;
    assert!(
        lines.contains("no `stop`: the steward is at work"),
        "{lines}"
    );
    records.push(stop());
    write(&log, &records);
    let lines = explain(&log, &[]).ok().stdout;
    assert!(
        lines.contains("stopped in order; 2 threads have their CPUs back"),
        "{lines}"
    );
    write(&log, &story(dead_process()));
    let lines = explain(&log, &[]).ok().stdout;
    assert!(
        lines.contains("no `stop` and the steward's process is gone"),
        "{lines}"
    );
}

#[test]
fn a_process_that_began_after_the_log_is_not_its_steward() {
    let sandbox = Sandbox::new();
    let mut start = start(std::process::id());
    if let Record::Start { time_unix_ns, .. } = &mut start {
        *time_unix_ns -= 3_600_000_000_000;
    }
    let log = write(&sandbox.path("log"), &[start]);
    let document = explain(&log, &["--json"]).ok().json();
    assert_eq!(document["steward"]["state"], "killed");
}

#[test]
fn a_thread_sent_away_is_displaced_until_it_is_back() {
    let sandbox = Sandbox::new();
    let mut away = window(1);
    away.threads = vec![reads(7, 0, [1e9, 0.0])];
    away.actions = vec![sent_away(7)];
    let mut there = window(2);
    there.threads = vec![reads(7, 1, [1e9, 0.0])];
    let mut back = window(3);
    back.threads = vec![reads(7, 1, [1e9, 0.0])];
    back.actions = vec![moved(7, ActionOutcome::Done)];
    let records = [start(1), record(away), record(there), record(back)];
    let displaced = |records: &[Record]| {
        let log = write(&sandbox.path("log"), records);
        let document = explain(&log, &["--json"]).ok().json();
        document["summary"]["displaced"].as_array().unwrap().len()
    };
    assert_eq!((displaced(&records[..3]), displaced(&records)), (1, 0));
    let log = write(&sandbox.path("log"), &records[..3]);
    let lines = explain(&log, &[]).ok().stdout;
    let line = "thread 7 (fio) of process 4700 is on node 1 instead of 0, for its CPUs";
    assert!(lines.contains(line), "{lines}");
}

#[test]
fn processes_that_are_left_or_arrive_have_a_line_each() {
    let sandbox = Sandbox::new();
    let process = ProcessKey {
        process_id: 4700,
        start_ticks: 1,
    };
    let kept = |because| KeptProcess {
        process,
        remote_share: 0.4,
        accesses_s: 1e9,
        because,
    };
    let mut first = window(0);
    first.kept_processes = vec![KeptLine::new(kept(ProcessKept::Bound), "redis".to_owned())];
    let mut second = window(1);
    let resting = kept(ProcessKept::Resting);
    second.kept_processes = vec![KeptLine::new(resting, "redis".to_owned())];
    second.arriving = vec![ArrivingLine::new(GatherProgress {
        process,
        moved_bytes: 1 << 30,
        left_bytes: 1 << 20,
        wait_ns: 9_000_000_000,
        stuck: Stuck::default(),
    })];
    let log = write(
        &sandbox.path("log"),
        &[start(1), record(first), record(second)],
    );
    let lines = explain(&log, &[]).ok().stdout;
    assert!(lines.contains("no file was read or written"), "{lines}");
    let kept = "Process 4700 (redis) stays as it is, 40 % of its accesses cross nodes: its last move brought \
        too little; it rests.\n";
    assert!(
        lines.contains(kept) && !lines.contains("bound its threads"),
        "{lines}"
    );
    let arriving = "1.00 GiB of the memory of process 4700 went, 1.00 MiB are left: the budget allows them in 9 s.\n";
    assert!(lines.contains(arriving), "{lines}");
    let document = explain(&log, &["--json"]).ok().json();
    let summary = &document["summary"];
    assert_eq!(summary["kept_processes"][0]["because"]["kind"], "resting");
    assert_eq!(summary["arriving"][0]["left_bytes"], 1 << 20);
}

#[test]
fn short_lived_processes_have_a_line_each() {
    let sandbox = Sandbox::new();
    let mut first = window(0);
    first.local_share = Some(0.25);
    first.kinds = vec![KindLine {
        parent: ThreadKey {
            process_id: 4700,
            thread_id: 4700,
            start_ticks: 1,
        },
        name: "make".to_owned(),
        command: "cc1\u{1b}".to_owned(),
        seen: 12,
        node: Some(NodeId(1)),
        cpu_share: 1.5,
        read_bytes_s: 2e8,
        written_bytes_s: 0.0,
        local_share: Some(0.25),
        because: Some(KindFate::Bound { node: NodeId(1) }),
        sentence: String::new(),
    }];
    let records = [start(1), record(first), record(window(1))];
    let log = write(&sandbox.path("log"), &records);
    let lines = explain(&log, &[]).ok().stdout;
    assert!(
        lines.contains("short-lived processes read and wrote: 25 % local"),
        "{lines}"
    );
    assert!(
        lines.contains("of process 4700 (make) took 150 % of a CPU, read 200 MB/s")
            && lines.contains("may run on node 1 only"),
        "{lines}"
    );
    let document = explain(&log, &["--json"]).ok().json();
    assert_eq!(document["summary"]["kinds"][0]["seen"], 12);
}

#[test]
fn a_move_refused_again_and_again_is_one_event() {
    let sandbox = Sandbox::new();
    let why = "it belongs to another user".to_owned();
    let windows = (0..3).map(|number| {
        let mut window = window(number);
        window.threads = vec![reads(7, 1, [1e9, 0.0])];
        window.actions = vec![moved(
            7,
            ActionOutcome::Refused {
                reason: why.clone(),
            },
        )];
        record(window)
    });
    let records: Vec<Record> = [start(1)].into_iter().chain(windows).collect();
    let log = write(&sandbox.path("log"), &records);
    let lines = explain(&log, &[]).ok().stdout;
    assert_eq!(lines.matches("should have gone").count(), 1, "{lines}");
    assert!(
        lines.contains("from 0.100 s to 0.300 s (3 windows)"),
        "{lines}"
    );
    assert!(
        lines.contains("It could not: it belongs to another user"),
        "{lines}"
    );
    assert!(lines.contains("3 could not be done"), "{lines}");
}

/// A limit of 4 threads for node 0 that should raise what goes through its persistent memory from 2 to 3 GB/s.
fn limited() -> ActionRecord {
    let mix = Mix {
        requests: 100,
        mean_bytes: 4096.0,
        write_share: 1.0,
    };
    let decision = pats::Decision {
        limit: 4,
        because: pats::Because::Formula { mix },
        tried: None,
    };
    ActionRecord {
        action: Action::SetLimit(Limit {
            node: NodeId(0),
            threads: 4,
            decision,
            bears: None,
            delegates: None,
        }),
        expected: Some(Expectation {
            measure: Measure::PmBytesPerSecond,
            before: 2e9,
            expected: 3e9,
            windows: 2,
        }),
        outcome: ActionOutcome::Done,
    }
}

#[test]
fn an_action_about_no_thread_is_explained_with_its_result() {
    let sandbox = Sandbox::new();
    let record_of = limited();
    let (mut first, second, mut third) = (window(1), window(2), window(3));
    first.actions = vec![ActionLine {
        sentence: record_of.action.to_string(),
        name: String::new(),
        record: record_of.clone(),
    }];
    third.results = vec![ResultLine {
        result: ActionResult {
            action: record_of.action.clone(),
            expected: record_of.expected,
            measured: Some(2.1e9),
            missed: true,
        },
        thread: None,
    }];
    third.resting = vec![Resting {
        subject: Subject::Limit { node: NodeId(0) },
        expected: record_of.expected.unwrap(),
        measured: 2.1e9,
        windows: 10,
    }];
    let records = [start(1), record(first), record(second), record(third)];
    let log = write(&sandbox.path("log"), &records[..3]);
    let lines = explain(&log, &[]).ok().stdout;
    let expected = "Expected: 3.00 GB/s through the node's persistent memory instead of 2.00 GB/s.";
    let waiting = format!("{expected} That is judged 2 windows later.");
    assert!(lines.contains(&waiting), "{lines}");
    let log = write(&sandbox.path("log"), &records);
    let lines = explain(&log, &[]).ok().stdout;
    let judged =
        format!("{expected} Measured: 2.10 GB/s. That is less than half of what was expected.");
    assert!(lines.contains(&judged), "{lines}");
    let resting = "Limit of the memory of node 0: the last one brought less than half of \
        3.00 GB/s through the node's persistent memory instead of 2.00 GB/s; not again for 10 windows.";
    assert!(lines.contains(resting), "{lines}");
    let document = explain(&log, &["--json"]).ok().json();
    assert_eq!(document["events"][0]["result"]["missed"], true);
    assert_eq!(document["summary"]["missed"], 1);
    let subject = &document["summary"]["resting"][0]["subject"];
    assert_eq!(
        (&subject["kind"], &subject["node"]),
        (&"limit".into(), &0.into())
    );
}

#[test]
fn an_action_that_brought_too_little_is_marked() {
    let sandbox = Sandbox::new();
    let mut records = story(dead_process());
    let Record::Window(second) = &mut records[2] else {
        panic!("a window");
    };
    second.results[0].result.measured = Some(0.4);
    second.results[0].result.missed = true;
    let log = write(&sandbox.path("log"), &records);
    let text = explain(&log, &[]).ok().stdout;
    assert!(
        text.contains("That is less than half of what was expected."),
        "{text}"
    );
    assert!(
        text.contains("1 brought less than half of what was expected"),
        "{text}"
    );
}

#[test]
fn actions_about_no_thread_are_events_too() {
    let sandbox = Sandbox::new();
    let mut records = story(dead_process());
    let Record::Window(first) = &mut records[1] else {
        panic!("a window");
    };
    let action = Action::LiftLimit { node: NodeId(0) };
    first.actions = vec![ActionLine {
        sentence: action.to_string(),
        name: String::new(),
        record: ActionRecord {
            action,
            expected: None,
            outcome: ActionOutcome::NoActuator,
        },
    }];
    let log = write(&sandbox.path("log"), &records);
    let text = explain(&log, &[]).ok().stdout;
    let line = "At 12.300 s: memory of node 0: no limit any more. Nothing here can do that.";
    assert!(text.contains(line), "{text}");
}

#[test]
fn last_leaves_out_what_was_earlier() {
    let sandbox = Sandbox::new();
    let mut first = window(0);
    first.actions = (1..=5)
        .map(|thread| moved(thread, ActionOutcome::Done))
        .collect();
    let log = write(&sandbox.path("log"), &[start(1), record(first)]);
    let lines = explain(&log, &["--last", "2"]).ok().stdout;
    assert_eq!(lines.matches(" went from ").count(), 2, "{lines}");
    assert!(
        lines.contains("… 3 earlier") && lines.contains("thread 5 "),
        "{lines}"
    );
    assert!(lines.contains("5 moves of 5 threads"), "{lines}");
    explain(&log, &["--last", "0"]).refused(2, &["--last"]);
}

#[test]
fn a_cut_last_line_is_left_for_later() {
    let sandbox = Sandbox::new();
    let text = lines(&story(dead_process()));
    let whole = text.trim_end().rfind('\n').unwrap() + 1;
    for end in [whole + 1, whole + 200, text.len() - 1] {
        let log = sandbox.file("log", &text[..end]);
        let lines = explain(&log, &[]).ok().stdout;
        assert!(lines.contains("No window followed yet."), "{lines}");
        assert!(lines.contains("In 1 window "), "{lines}");
    }
}

#[test]
fn what_is_no_log_is_one_line() {
    let sandbox = Sandbox::new();
    let log = |text: &str| explain(&sandbox.file("log", text), &[]);
    log("").refused(1, &["log", "no whole line"]);
    log("{\"kind\":\"start\"").refused(1, &["no whole line"]);
    log("nonsense\n").refused(1, &["no decision log", "line 1"]);
    log("{\"kind\":\"\\u001b[31m\"}\n").refused(1, &["no decision log"]);
    log(&(lines(&story(1)) + "{}\n")).refused(1, &["line 4", "kind"]);
    log(&format!("{}\n", "[".repeat(100_000))).refused(1, &["line 1"]);
    explain(&sandbox.root, &[]).refused(1, &["is no file"]);
    explain(&sandbox.path("none"), &[]).refused(1, &["none", "check the path"]);
    explain(Path::new("/dev/zero"), &[]).refused(1, &["/dev/zero", "is no file"]);
    let bytes = sandbox.path("bytes");
    std::fs::write(&bytes, b"\xff\xfe\x00\n").unwrap();
    explain(&bytes, &[]).refused(1, &["line 1"]);
}

#[test]
fn text_of_a_log_cannot_command_the_terminal() {
    let sandbox = Sandbox::new();
    let bad = "\u{1b}[2J\u{7}".to_owned();
    let mut window = window(0);
    let mut refused = moved(
        7,
        ActionOutcome::Refused {
            reason: bad.clone(),
        },
    );
    refused.name.clone_from(&bad);
    refused.sentence.clone_from(&bad);
    let mut reads = reads(7, 1, [1e9, 0.0]);
    reads.name.clone_from(&bad);
    (window.actions, window.threads, window.kept) = (vec![refused], vec![reads], vec![kept(7)]);
    let mut start = start(1);
    if let Record::Start {
        volume,
        machine,
        policy,
        ..
    } = &mut start
    {
        *volume = Some(bad.clone());
        for text in [machine, policy] {
            text.clone_from(&bad);
        }
    }
    let log = write(&sandbox.path("log"), &[start, record(window)]);
    for more in [&[][..], &["7"]] {
        let lines = explain(&log, more).ok().stdout;
        assert!(lines.contains("?[2J"), "{lines:?}");
        let commands = |letter: char| letter.is_control() && letter != '\n';
        assert!(!lines.contains(commands), "{lines:?}");
    }
}

#[test]
fn without_a_log_working_stewards_come_first() {
    let sandbox = Sandbox::new();
    let directory = sandbox.directory("run");
    explain_in(&directory, &[]).refused(1, &["no steward has written", "egeria steward POOL"]);
    let (dead, here) = (dead_process(), std::process::id());
    let log = |name: &str, process: u32| {
        write(
            &directory.join(format!("{name}.decisions.jsonl")),
            &[start(process)],
        )
    };
    let chosen = || explain_in(&directory, &["--json"]).ok().json()["log"].clone();
    let old = log("old", dead);
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let file = std::fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(hour_ago).unwrap();
    log("new", dead);
    assert!(chosen().as_str().unwrap().ends_with("new.decisions.jsonl"));
    write(&old, &[start(here)]);
    file.set_modified(hour_ago).unwrap();
    assert!(chosen().as_str().unwrap().ends_with("old.decisions.jsonl"));
    log("other", here);
    let ended = explain_in(&directory, &[]);
    ended.refused(
        1,
        &[
            "2 stewards",
            "old.decisions.jsonl",
            "other.decisions.jsonl",
            "--log",
        ],
    );
}

#[test]
fn a_log_elsewhere_is_found_through_its_steward() {
    let sandbox = Sandbox::new();
    let directory = sandbox.directory("run");
    let here = std::process::id();
    let log = write(&sandbox.path("elsewhere"), &[start(here)]);
    let head = serde_json::json!({ "steward": here, "log": log });
    std::fs::write(directory.join("v.journal.jsonl"), format!("{head}\n")).unwrap();
    let document = explain_in(&directory, &["--json"]).ok().json();
    assert_eq!(document["log"], log.to_str().unwrap());
}

#[test]
fn a_volume_names_its_log() {
    let sandbox = Sandbox::new();
    let directory = sandbox.directory("run");
    let pool = sandbox.volume("pool", "32M");
    let pool = pool.to_str().unwrap();
    let ended = explain_in(&directory, &["--volume", pool]);
    ended.refused(1, &["no steward has looked after", "egeria steward"]);
    let space = run(["df", "--json", pool]).ok().json();
    let volume = space["volumes"][0]["volume"].as_str().unwrap();
    let log = directory.join(format!("{volume}.decisions.jsonl"));
    write(&log, &story(dead_process()));
    let document = explain_in(&directory, &["--volume", pool, "--json"])
        .ok()
        .json();
    assert_eq!(document["log"], log.to_str().unwrap());
    let wrong = explain_in(&directory, &["--volume", "/none"]);
    wrong.refused(1, &["/none"]);
}
