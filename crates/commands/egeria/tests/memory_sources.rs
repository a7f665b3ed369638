//! How a steward sees accesses to memory and files: what it says of it, with rights and without, and what that costs.

mod common;

use common::{Sandbox, as_nobody, egeria, finish, is_root, run};
use egeria_harness::testing::skip;
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// What a steward of a program that ends soon says, under this policy.
fn steward(mut command: Command, user: u32, policy: &str, more: &[&str]) -> Value {
    let sandbox = Sandbox::new();
    let runtime = sandbox.directory("runtime");
    std::fs::set_permissions(sandbox.path(""), Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&runtime, Permissions::from_mode(0o700)).unwrap();
    if is_root() {
        std::os::unix::fs::chown(&runtime, Some(user), Some(user)).unwrap();
    }
    command.args(["run", "--no-volume", "--json", "--window", "20"]);
    command.args(["--policy", policy]).args(more);
    command.args(["--", "sleep", "0.2"]);
    command.env("EGERIA_RUNTIME_DIR", runtime);
    let ended = finish(command).ok();
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    document["steward"].clone()
}

fn lines(steward: &Value, field: &str) -> Vec<String> {
    let lines = steward[field].as_array().unwrap().iter();
    lines
        .map(|line| line.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_memory_source_says_what_it_sees_or_why_not() {
    for (way, sees) in [
        ("pmu", "samples of the PMU"),
        ("damon", "DAMON"),
        ("page-tables", "page tables"),
        ("page-faults", "page faults"),
    ] {
        let said = steward(egeria([""; 0]), 0, "asymsched", &["--memory-source", way]);
        let (sources, unseen) = (lines(&said, "sources"), lines(&said, "unseen"));
        match &sources[..] {
            [source] => {
                assert!(source.contains(sees) && source.contains("not"), "{source}");
                assert!(unseen.is_empty(), "{unseen:?}");
            }
            _ => {
                let [why] = &unseen[..] else {
                    panic!("{said}");
                };
                assert!(
                    why.contains(&format!("{way}: ")) && !why.contains('\n'),
                    "{why}"
                );
            }
        }
    }
    let unknown = [
        "run",
        "--no-volume",
        "--memory-source",
        "guess",
        "--",
        "true",
    ];
    run(unknown).refused(2, &["guess", "page-tables"]);
}

#[test]
fn without_rights_less_is_seen_and_the_reason_is_one_line() {
    if !is_root() {
        return;
    }
    let files = steward(as_nobody([""; 0]), 65_534, "rl", &[]);
    let said = lines(&files, "unseen");
    assert!(
        said.iter().any(|line| line.contains("CAP_BPF")
            || line.contains("BTF")
            || line.contains("namespace")),
        "{said:?}"
    );
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid
        .ok()
        .and_then(|level| level.trim().parse::<i64>().ok());
    if paranoid.is_none_or(|level| level <= 0) {
        skip("rights of users do not differ here");
        return;
    }
    let faults = ["--memory-source", "page-faults"];
    let memory = steward(as_nobody([""; 0]), 65_534, "asymsched", &faults);
    let said = lines(&memory, "unseen");
    let why = said.last().unwrap();
    assert!(
        why.contains("perf_event_paranoid is") && why.contains("CAP_PERFMON"),
        "{said:?}"
    );
    assert!(lines(&memory, "sources").is_empty());
}
