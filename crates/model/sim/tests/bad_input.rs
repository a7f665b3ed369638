//! Workloads that make no sense get one line with key and hint.

use crate::common;
use common::*;
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_sim::Workload;

const GOOD: &str = r#"name = "good"
seconds = 10.0
[[files]]
name = "data"
bytes = 4096
[[threads]]
name = "reader"
files = "data"
[[threads.phases]]
read_share = 0.5
request_bytes = 4096
"#;

#[test]
fn nonsense_gets_one_line_with_key_and_hint() {
    let cases = [
        ("seconds = 10.0", "seconds = nan", "seconds: NaN"),
        ("seconds = 10.0", "seconds = 0.0", "seconds: 0"),
        (
            "seconds = 10.0",
            "seconds = 1.0\nwarm_up_seconds = 1.0",
            "warm_up_seconds: 1",
        ),
        ("bytes = 4096\n[[t", "bytes = 0\n[[t", "files[0].bytes: 0"),
        (
            "bytes = 4096\n[[t",
            "bytes = 1\ncount = 70000\n[[t",
            "files[0].count: 70000",
        ),
        (
            "files = \"data\"",
            "files = \"other\"",
            "there are no files \"other\"",
        ),
        (
            "files = \"data\"",
            "files = \"data\"\ncount = 0",
            "threads[0].count: 0",
        ),
        (
            "read_share = 0.5",
            "read_share = 1.5",
            "threads[0].phases[0].read_share: 1.5",
        ),
        ("read_share = 0.5", "read_share = nan", "read_share: NaN"),
        (
            "request_bytes = 4096",
            "request_bytes = 0",
            "request_bytes: 0",
        ),
        (
            "request_bytes = 4096",
            "request_bytes = 4096\nthink_ns = -1.0",
            "think_ns: -1",
        ),
        (
            "request_bytes = 4096",
            "request_bytes = 4096\nthink_ns = 5.0\nserial_ns = 6.0",
            "serial_ns: 6",
        ),
        (
            "request_bytes = 4096",
            "request_bytes = 4096\nwrite_overhead = -1.0",
            "write_overhead: -1",
        ),
        (
            "request_bytes = 4096",
            "request_bytes = 4096\nseconds = 1e-9",
            "phases[0].seconds",
        ),
        ("name = \"good\"", "name = \"\"", ""),
        (
            "[[threads.phases]]",
            "[[threads.phases]]\nsize = 4",
            "line 10: unknown field `size`",
        ),
        (
            "name = \"reader\"",
            "name = \"a\\nb\"",
            "threads[0].name: not a name",
        ),
    ];
    for (from, to, expected) in cases {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let Err(error) = Workload::from_toml(&text, "bad.toml") else {
            assert_eq!(expected, "", "{to} is taken");
            continue;
        };
        let error = error.to_string();
        assert!(
            error.starts_with("bad.toml: ") && error.contains(expected),
            "{error}"
        );
        assert!(!error.contains('\n') && error.contains("; "), "{error}");
    }
    assert!(Workload::from_toml(GOOD, "good.toml").is_ok());
}

#[test]
fn phases_after_an_endless_one_are_refused() {
    let text = format!("{GOOD}[[threads.phases]]\nread_share = 1.0\nrequest_bytes = 1\n");
    let error = Workload::from_toml(&text, "bad.toml")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("threads[0].phases[0].seconds: missing"),
        "{error}"
    );
}

#[test]
fn workloads_without_anything_are_refused() {
    for text in [
        "name = \"a\"\nseconds = 1.0",
        "name = \"a\"\nseconds = 1.0\nthreads = []",
    ] {
        let error = Workload::from_toml(text, "bad.toml")
            .unwrap_err()
            .to_string();
        assert!(error.contains("files: 0 of them; have 1 to"), "{error}");
    }
}

#[test]
fn what_does_not_fit_the_machine_is_refused() {
    let options = options(System::Off);
    let refused = |machine: &Machine, text: &str| {
        let workload = Workload::from_toml(text, "bad.toml").unwrap();
        egeria_sim::run(machine, &workload, &options)
            .unwrap_err()
            .to_string()
    };
    let nowhere = GOOD.replace("files = \"data\"", "files = \"data\"\nstart_node = 7");
    assert!(refused(&optane(), &nowhere).contains("has no node 7"));
    let huge = GOOD.replace("bytes = 4096\n[[t", "bytes = 200_000_000_000\n[[t");
    assert!(refused(&optane(), &huge).contains("make them smaller"));
    let mut silent = optane();
    silent.emulated = None;
    for node in &mut silent.nodes {
        node.hardware = egeria_machine::Hardware::default();
    }
    assert!(refused(&silent, GOOD).contains("does not say how fast the memory of node 0 is"));
}
