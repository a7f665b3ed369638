//! `egeria sim`: a workload on a machine that is not there.

use crate::common;
use crate::recordings;

use common::{Sandbox, run};
use recordings::{record, remote_readers, steady, thread};
use serde_json::Value;

const FIO: &str = include_str!("../../../model/sim/workloads/fio-4-rw80.toml");

fn workload(sandbox: &Sandbox, text: &str) -> String {
    let path = sandbox.path("workload.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn on_optane(workload: &str) -> [&str; 5] {
    ["sim", "--machine", "optane-2s", "--workload", workload]
}

#[test]
fn configurations_stand_side_by_side() {
    let sandbox = Sandbox::new();
    let path = workload(&sandbox, FIO);
    let more = ["--alloc", "node=0"];
    let fixed = [&on_optane(&path)[..], &more].concat();
    let nthread = ["--compare", "off,rl,cpu,nm,full", "--json"];
    let document: Value = run(fixed.iter().chain(&nthread)).ok().json();
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<&str> = runs
        .iter()
        .map(|run| run["configuration"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["off", "rl", "cpu", "nm", "full"]);
    assert_eq!(document["predicted"], true);
    assert_eq!(
        (&runs[0]["vs_first"], &runs[0]["moves"]),
        (&1.0.into(), &0.into())
    );
    let number = |run: usize, pointer: &str| runs[run].pointer(pointer).unwrap().as_f64().unwrap();
    assert!(number(1, "/vs_first") > 1.1);
    for (run, document) in runs.iter().enumerate() {
        for end in ["low", "high"] {
            let factor = number(run, &format!("/uncertainty/{end}"));
            let value = number(run, &format!("/bytes_s_range/{end}"));
            let expected = factor * number(run, "/bytes_s");
            assert!((value / expected - 1.0).abs() < 1e-9);
        }
        assert!(number(run, "/uncertainty/low") < number(run, "/uncertainty/high"));
        assert!(number(run, "/uncertainty/measurements") >= 5.0);
        let (low, high) = (
            number(run, "/vs_first_range/low"),
            number(run, "/vs_first_range/high"),
        );
        let is_open = run > 0 && low <= 1.0 && high >= 1.0;
        assert_eq!(document["is_decided"], !is_open);
    }
    assert_eq!(runs[1]["moves"], 2);
    assert_eq!(runs[1]["windows"].as_array().unwrap().len(), 60);
    let text = run(fixed.iter().chain(&["--compare", "off,rl"]))
        .ok()
        .stdout;
    for words in [
        "predicted by a model, not measured",
        "1.26x",
        "goes from node 1 to node 0: it reads",
        "Four of five: ",
    ] {
        assert!(text.contains(words), "{text}");
    }
    assert!(!text.contains("full"), "{text}");
}

#[test]
fn every_system_has_its_column() {
    let sandbox = Sandbox::new();
    let path = workload(&sandbox, FIO);
    let fixed = ["sim", "--machine", "optane-2s", "--workload", &path];
    let document: Value = run(fixed.iter().chain(&["--json"])).ok().json();
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<&str> = runs
        .iter()
        .map(|run| run["configuration"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["off", "full", "pats", "odin", "asymsched", "all"]);
    for run in runs {
        assert!(run["operations_s"].as_f64().unwrap() > 0.0, "{run}");
        let group = &run["groups"][0];
        assert_eq!(
            (&group["name"], &group["threads"]),
            (&"fio".into(), &4.into())
        );
    }
    // No DIMM bears four writers: Eq. 1 says so, and the table tells.
    let text = run(fixed.iter().chain(&["--compare", "pats"])).ok().stdout;
    assert!(text.contains("memory of node 0: "), "{text}");
}

#[test]
fn a_setting_reaches_the_policy() {
    let sandbox = Sandbox::new();
    let path = workload(&sandbox, FIO);
    let more = ["--compare", "rl", "--json"];
    let fixed = [&on_optane(&path)[..], &more].concat();
    let margin = ["--set", "read_margin_bytes_s=9e9"];
    let document: Value = run(fixed.iter().chain(&margin)).ok().json();
    assert_eq!(document["runs"][0]["moves"], 0);
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let sandbox = Sandbox::new();
    let path = workload(&sandbox, FIO);
    let on = |machine: &str, path: &str, more: &[&str]| {
        let fixed = ["sim", "--machine", machine, "--workload", path];
        run(fixed.iter().chain(more))
    };
    on("optane-2s", &path, &["--compare", "off,best"]).refused(2, &["best", "asymsched or all"]);
    on("optane-2s", &path, &["--alloc", "node=9"]).refused(1, &["has no node 9"]);
    on("optane-2s", &path, &["--alloc", "there"]).refused(2, &["striped or node=N"]);
    on("optane-2s", &path, &["--set", "speed=1"]).refused(2, &["speed"]);
    let learned = ["--compare", "off,full,pats", "--set", "pats.min_gain=0.1"];
    on("optane-2s", &path, &learned).refused(2, &["pats.min_gain", "pats.controller=learned"]);
    on(
        "optane-2s",
        &path,
        &["--compare", "off,pats", "--set", "pats.bypass_bytes=512"],
    )
    .ok();
    on("optane-2s", &path, &["--window", "0"]).refused(2, &["is no window"]);
    on("optane-2s", &path, &["--move-pause", "-1"]).refused(2, &[]);
    let missing = sandbox.path("missing.toml");
    let missing = missing.to_str().unwrap();
    on("optane-2s", missing, &[]).refused(1, &[missing, "docs/reference/workload-file.md"]);
    on("optane-2s", "/dev/zero", &[]).refused(1, &["not a regular file"]);
    on("optane-9s", &path, &[]).refused(1, &["optane-9s", "optane-2s"]);
    let bad = workload(&sandbox, &FIO.replace("read_share = 0.8", "read_share = 8"));
    on("optane-2s", &bad, &[]).refused(1, &["threads[0].phases[0].read_share", "from 0 to 1"]);
}

#[test]
fn a_recording_is_a_workload() {
    let sandbox = Sandbox::new();
    let mut readers = remote_readers();
    for reader in &mut readers {
        reader.busy_ns = 500_000_000;
    }
    let path = record(&sandbox, "off", &steady(10, &readers));
    let trace = path.to_str().unwrap();
    let fixed = ["sim", "--machine", "optane-2s", "--trace", trace, "--json"];
    let document: Value = run(fixed.iter().chain(&["--compare", "off,full"]))
        .ok()
        .json();
    let runs = document["runs"].as_array().unwrap();
    // Four threads that read 500 MB/s each, from the other node.
    let bytes_s = runs[0]["bytes_s"].as_f64().unwrap();
    assert!((bytes_s / 2e9 - 1.0).abs() < 0.05, "{bytes_s}");
    assert_eq!(runs[0]["local_share"], 0.0);
    assert_eq!(runs[1]["moves"], 4);
    // On a machine with other nodes.
    let other = ["sim", "--machine", "optane-1s", "--trace", trace];
    run(other).ok();
    let nothing = record(&sandbox, "off", &steady(3, &[thread(1, 0, [0, 0], 0)]));
    let nothing = nothing.to_str().unwrap();
    run(["sim", "--machine", "optane-2s", "--trace", nothing])
        .refused(1, &["no thread reads or writes", "egeria run --record"]);
    run(["sim", "--machine", "optane-2s"]).refused(2, &["--workload"]);
    let both = ["sim", "--machine", "optane-2s", "--trace", trace];
    run(both.iter().chain(&["--workload", trace])).refused(2, &["--workload"]);
}

#[test]
fn a_report_is_one_page_with_every_system() {
    let sandbox = Sandbox::new();
    let path = workload(&sandbox, FIO);
    let page = sandbox.path("what-if.html");
    let page_text = page.to_str().unwrap();
    let fixed = ["sim", "--machine", "optane-2s", "--workload", &path];
    let more = ["--compare", "off,rl", "--report", page_text];
    run(fixed.iter().chain(&more)).ok();
    let written = std::fs::read_to_string(&page).unwrap();
    assert!(written.starts_with("<!DOCTYPE html>") && written.ends_with("</html>\n"));
    assert!(written.contains("<h2>off</h2>") && written.contains("<h2>rl</h2>"));
    let nowhere = ["--report", "/proc/nowhere/what-if.html"];
    run(fixed.iter().chain(&nowhere)).refused(1, &["cannot write", "can be written"]);
}

#[test]
fn a_system_that_decides_nothing_says_why() {
    let sandbox = Sandbox::new();
    let path = workload(&sandbox, FIO);
    let fixed = ["sim", "--machine", "optane-2s", "--workload", &path];
    let fixed = fixed.iter().chain(&["--compare", "off,rl,asymsched"]);
    let text = run(fixed.clone()).ok().stdout;
    assert!(text.contains("asymsched decided nothing:\n  nothing is placed: the machine"));
    assert!(
        !text.contains("off decided") && !text.contains("rl decided"),
        "{text}"
    );
    let document: Value = run(fixed.chain(&["--json"])).ok().json();
    let because = |run: usize| &document["runs"][run]["nothing_because"];
    assert_eq!(
        *because(0),
        serde_json::json!([
            "no stage of the planner is on, and the policy gives no reason of its own"
        ])
    );
    assert_eq!(*because(1), serde_json::json!([]));
    assert!(because(2)[0].as_str().unwrap().contains("[[links]]"));
}
