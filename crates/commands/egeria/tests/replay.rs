//! `egeria replay`: what a policy would have done about a recorded load.

use crate::common;
use crate::recordings;

use std::path::Path;

use common::{Ended, Sandbox, run};
use egeria_facts::{Facts, NodeAccesses, ProcessAccesses, ProcessKey, ThreadFacts, Window};
use egeria_machine::NodeId;
use egeria_policy::nthread;
use egeria_policy::planner::System;
use egeria_trace::Writer;
use recordings::{
    cut, header, machine, record, remote_readers, steady, thread, unreadable, window,
};
use serde_json::{Value, json};

const SECOND_NS: u64 = 1_000_000_000;

fn replay(path: &Path, more: &[&str]) -> Ended {
    let fixed = ["replay", path.to_str().unwrap()];
    run(fixed.iter().chain(more))
}

fn replayed(path: &Path, more: &[&str]) -> Value {
    let more: Vec<&str> = more.iter().copied().chain(["--json"]).collect();
    replay(path, &more).ok().json()
}

/// Actions in each window.
fn moves(document: &Value) -> Vec<usize> {
    let windows = document["windows"].as_array().unwrap();
    let count = |window: &Value| window["actions"].as_array().unwrap().len();
    windows.iter().map(count).collect()
}

/// The summary's row of a policy.
fn row<'a>(document: &'a Value, policy: &str) -> &'a Value {
    let rows = document["summary"]["policies"].as_array().unwrap();
    let mut named = rows.iter().filter(|row| row["policy"] == policy);
    named.next().unwrap()
}

/// Four writers on node 0 that come near what its memory can take.
fn crowd() -> Vec<ThreadFacts> {
    let writer = |number| thread(number, 0, [50, 0], 480);
    (1..=4).map(writer).collect()
}

/// Four busy threads on node 1 whose memory is on node 0.
fn apart(number: u64) -> Facts {
    let busy = |thread: ThreadFacts| ThreadFacts {
        busy_ns: SECOND_NS,
        ..thread
    };
    let threads = (1..=4).map(|number| busy(thread(number, 1, [0, 0], 0)));
    let mut facts = Facts::from(window(number, threads.collect()));
    facts.window.nodes[1].busy_ns = 4 * SECOND_NS;
    let node = |node, threads, accesses_s: [f64; 2], resident_bytes| NodeAccesses {
        node: NodeId(node),
        threads,
        accesses_s: accesses_s.to_vec(),
        resident_bytes,
        pinned: false,
    };
    facts.accesses.processes.push(ProcessAccesses {
        process: ProcessKey {
            process_id: 77,
            start_ticks: 5,
        },
        running_ns: 1_000_000 * SECOND_NS,
        accessors_known: true,
        nodes: vec![node(0, 0, [0.0; 2], 1 << 30), node(1, 4, [2e7, 0.0], 0)],
        ..ProcessAccesses::default()
    });
    facts
}

#[test]
fn a_replay_says_what_is_to_be_gained() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("trace");
    let mut writer = Writer::create(&path, &machine(), &header("off")).unwrap();
    for number in 0..3 {
        writer.append(&apart(number)).unwrap();
    }
    writer.finish().unwrap();
    let trace = path.to_str().unwrap();
    let diagnosed = run(["diagnose", "--json", "--trace", trace]).json();
    let gain = diagnosed["programs"][0]["gain"].as_f64().unwrap();
    assert!(gain > 0.01, "{diagnosed}");
    for policy in ["off", "full", "all"] {
        let document = replayed(&path, &["--policy", policy]);
        assert_eq!(document["summary"]["placement"], diagnosed, "{policy}");
    }
    let text = replay(&path, &[]).ok().stdout;
    let line = format!("  77 (worker-1): probably {:.0} % faster", gain * 100.0);
    assert!(text.contains(&line), "{text}");
    let quiet = record(&sandbox, "off", &steady(3, &[]));
    let text = replay(&quiet, &[]).ok().stdout;
    assert!(
        text.contains("none: in most windows nothing is misplaced"),
        "{text}"
    );
}

/// A thread whose data is on another node in every window.
fn restless(count: u64) -> Vec<Window> {
    let made = |number: u64| {
        let read_mb = if number.is_multiple_of(2) {
            [0, 900]
        } else {
            [900, 0]
        };
        window(
            number,
            vec![thread(1, 0, read_mb, 0), thread(2, 0, [400, 0], 0)],
        )
    };
    (0..count).map(made).collect()
}

#[test]
fn people_see_moves_with_reasons_and_what_is_expected() {
    let sandbox = Sandbox::new();
    let path = record(&sandbox, "off", &steady(5, &remote_readers()));
    let ended = replay(&path, &["--policy", "rl"]).ok();
    for words in [
        "replay   rl",
        "What if: the windows are as recorded",
        "window 0 at 0.000 s: 4 actions, local share 0 %",
        "  thread 1 of process 77 (worker-1) goes from node 1 to node 0: it reads 500 MB/s from \
         node 0 and at most 0 B/s from any other",
        "    node 0: 4 threads, 2.00 GB/s read, 0 B/s written (29 % of its bandwidth), CPUs 20 % busy",
        "windows 1 to 4: nothing to do",
    ] {
        assert!(ended.stdout.contains(words), "{words:?}: {}", ended.stdout);
    }
    assert_eq!(ended.stderr, "");
    let summary: Vec<Vec<&str>> = ended
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        summary.contains(&"off 0 0 0 0 0 0 0 %".split(' ').collect()),
        "{}",
        ended.stdout
    );
    assert!(
        summary.contains(&"rl * 4 4 1 0 0 0 80 %".split(' ').collect()),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_moved_thread_stays_moved_in_the_next_windows() {
    let sandbox = Sandbox::new();
    let path = record(&sandbox, "off", &steady(4, &remote_readers()));
    let document = replayed(&path, &["--policy", "rl"]);
    assert_eq!(moves(&document), [4, 0, 0, 0]);
    let shares: Vec<&Value> = (0..4)
        .map(|at| &document["windows"][at]["local_share"])
        .collect();
    assert_eq!(shares, [&json!(0.0), &json!(1.0), &json!(1.0), &json!(1.0)]);
    assert_eq!(document["windows"][2]["measured"][0]["threads"], 4);
    assert_eq!(moves(&replayed(&path, &["--policy", "off"])), [0, 0, 0, 0]);
}

#[test]
fn it_is_the_same_policy_with_the_same_numbers() {
    let sandbox = Sandbox::new();
    let windows = [window(0, crowd())];
    let document = replayed(
        &record(&sandbox, "off", &windows),
        &["--set", "pm_limit=0.7"],
    );
    let mut settings = System::Full.settings();
    settings.set("pm_limit", "0.7").unwrap();
    let plan = nthread::plan(&machine(), &windows[0], &settings.nthread);
    let shown = &document["windows"][0];
    assert!(plan.pm_contended == Some(NodeId(0)) && !plan.moves.is_empty());
    assert_eq!(moves(&document), [plan.moves.len()]);
    for (line, planned) in shown["actions"].as_array().unwrap().iter().zip(&plan.moves) {
        // As text: numbers are read back from it.
        let text = serde_json::to_string(planned).unwrap();
        let mut action: Value = serde_json::from_str(&text).unwrap();
        action["kind"] = "migrate_thread".into();
        assert_eq!(line["action"], action);
        assert_eq!(line["sentence"], planned.to_string());
    }
    for (name, value) in [
        ("expected", serde_json::to_value(&plan.expected).unwrap()),
        ("displaced", serde_json::to_value(&plan.displaced).unwrap()),
        ("pm_contended", json!(0)),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    assert_eq!(document["settings"]["nthread"]["pm_limit"], 0.7);
    assert_eq!(document["policy"], "full");
}

/// Once the crowd is gone, the node looks as if it could take back who left; without the marks of
/// who was displaced, they would go back.
#[test]
fn who_was_displaced_stays_away() {
    let sandbox = Sandbox::new();
    let writers = |written_mb| {
        let writer = |number| thread(number, 0, [300, 0], written_mb);
        (1..=4).map(writer).collect::<Vec<ThreadFacts>>()
    };
    let mut windows = steady(8, &writers(250));
    windows[0] = window(0, writers(480));
    let document = replayed(&record(&sandbox, "off", &windows), &["--policy", "full"]);
    let moves = moves(&document);
    assert!(
        moves[0] > 0 && moves[1..].iter().all(|&moves| moves == 0),
        "{moves:?}"
    );
    let displaced = &document["windows"][7]["displaced"];
    assert_eq!(displaced.as_array().unwrap().len(), moves[0], "{displaced}");
}

#[test]
fn every_policy_is_summed_up() {
    let sandbox = Sandbox::new();
    let document = replayed(&record(&sandbox, "off", &steady(3, &crowd())), &[]);
    assert_eq!(
        (
            &row(&document, "off")["moves"],
            &row(&document, "rl")["moves"]
        ),
        (&json!(0), &json!(0))
    );
    let moved = row(&document, "nm")["moves"].as_u64().unwrap();
    assert!(moved > 0, "{document}");
    assert_eq!(row(&document, "full")["moved_threads"], moved);
    let shared: Vec<ThreadFacts> = crowd()
        .into_iter()
        .map(|mut facts| {
            facts.is_shared = true;
            facts
        })
        .collect();
    let document = replayed(&record(&sandbox, "off", &steady(3, &shared)), &[]);
    assert_eq!(row(&document, "full")["moves"], 0);
    assert_eq!(row(&document, "nm")["moves"], moved);
}

#[test]
fn threads_that_never_settle_are_named() {
    let sandbox = Sandbox::new();
    let path = record(&sandbox, "off", &restless(6));
    let document = replayed(&path, &["--policy", "rl"]);
    let unsettled = json!([
        {"process_id": 77, "thread_id": 1, "start_ticks": 5, "name": "worker-1", "moves": 6}
    ]);
    assert_eq!(document["summary"]["unsettled"], unsettled);
    let row = row(&document, "rl");
    assert_eq!(
        (&row["unsettled_threads"], &row["max_moves"]),
        (&json!(1), &json!(6))
    );
    let text = replay(&path, &["--policy", "rl"]).ok().stdout;
    let line = "thread 1 of process 77 (worker-1) never settled: 6 moves";
    assert!(text.contains(line), "{text}");
}

#[test]
fn who_stays_is_told_once_with_the_reason() {
    let sandbox = Sandbox::new();
    let mut threads = remote_readers();
    threads[0].pinned = true;
    threads[1].allowed_cpus = "4-7".parse().unwrap();
    let mut windows = steady(4, &threads);
    windows[1].threads[0].read_bytes = vec![0, 0];
    let path = record(&sandbox, "off", &windows);
    let text = replay(&path, &["--policy", "rl"]).ok().stdout;
    for line in [
        "thread 1 of process 77 (worker-1) stays on node 1: its owner bound it to CPUs",
        "thread 2 of process 77 (worker-2) stays on node 1: none of the CPUs it was given",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{text}");
    }
    let document = replayed(&path, &["--policy", "rl"]);
    let kept = &document["windows"][3]["kept"][0];
    assert_eq!(
        (&kept["wanted"], &kept["because"]["kind"]),
        (&json!(0), &json!("pinned"))
    );
}

#[test]
fn settings_change_what_would_have_been() {
    let sandbox = Sandbox::new();
    let path = record(&sandbox, "off", &steady(2, &remote_readers()));
    let margin = ["--policy", "rl", "--set", "read_margin_bytes_s=600e6"];
    assert_eq!(moves(&replayed(&path, &margin)), [0, 0]);
    let last_wins = [&margin[..], &["--set", "read_margin_bytes_s = 1e6"]].concat();
    assert_eq!(moves(&replayed(&path, &last_wins)), [4, 0]);
    let text = replay(&path, &margin).ok().stdout;
    assert!(
        text.contains("replay   rl, read_margin_bytes_s=600e6"),
        "{text}"
    );
}

#[test]
fn a_wrong_command_line_is_one_line_with_names_and_ranges() {
    let sandbox = Sandbox::new();
    let path = record(&sandbox, "off", &[]);
    let set = |pair: &str, words: &[&str]| replay(&path, &["--set", pair]).refused(2, words);
    set(
        "cpu_limt=1",
        &["cpu_limt", "cpu_limit", "read_margin_bytes_s", "dimms"],
    );
    set(
        "cpu_limit=0",
        &["cpu_limit", "\"0\"", "above 0, up to 1000"],
    );
    set("read_weight=nan", &["nan", "from 0 to 1"]);
    set("dimms=many", &["many", "1 to 64, or auto"]);
    set("cpu_limit", &["name=value"]);
    replay(&path, &["--policy", "fastest"]).refused(
        2,
        &[
            "fastest",
            "off, rl, cpu, nm, full, pats, odin, asymsched or all",
        ],
    );
    run(["replay"]).refused(2, &["TRACE", "egeria replay --help"]);
}

#[test]
fn what_cannot_be_read_is_one_line() {
    let sandbox = Sandbox::new();
    for (path, words) in unreadable(&sandbox) {
        replay(&path, &[]).refused(1, &words);
        replay(&path, &["--json"]).refused(1, &words);
    }
}

#[test]
fn a_cut_recording_is_replayed_with_a_warning() {
    let sandbox = Sandbox::new();
    let path = cut(&sandbox, &steady(3, &remote_readers()));
    let ended = replay(&path, &["--json"]).ok();
    assert!(
        ended.stderr.contains("warning") && ended.stderr.contains("is cut"),
        "{}",
        ended.stderr
    );
    assert_eq!(moves(&ended.json()), [4, 0]);
}

#[test]
fn a_recording_under_a_policy_is_said_to_be_one() {
    let sandbox = Sandbox::new();
    let said = "Threads were moved while this was recorded";
    let text = |policy| {
        let path = record(&sandbox, policy, &steady(1, &remote_readers()));
        replay(&path, &[]).ok().stdout
    };
    assert!(text("full").contains(said) && !text("off").contains(said));
}

#[test]
fn it_is_in_help_completions_and_manual() {
    let help = run(["replay", "--help"]).ok().stdout;
    assert!(
        help.contains("Usage: egeria replay") && help.contains("--json"),
        "{help}"
    );
    let examples = help.split("Examples:").nth(1).unwrap();
    assert!(examples.contains("egeria replay") && examples.contains("What if"));
    assert!(
        examples.lines().all(|line| line.chars().count() <= 80),
        "{examples}"
    );
    for (name, _) in nthread::Settings::names() {
        assert!(examples.contains(name), "{name}");
    }
    assert!(run(["--help"]).ok().stdout.contains("  replay "));
    let completions = run(["completions", "bash"]).ok().stdout;
    assert!(completions.contains("egeria__replay") || completions.contains("replay"));
    let sandbox = Sandbox::new();
    run(["man", "--out", sandbox.root.to_str().unwrap()]).ok();
    let page = std::fs::read_to_string(sandbox.path("egeria-replay.1")).unwrap();
    assert!(page.contains("\\-\\-policy"), "{page}");
}
