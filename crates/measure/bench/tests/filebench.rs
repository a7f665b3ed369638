//! `egeria-filebench` on an ordinary directory: it knows nothing of Egeria.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn filebench(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_egeria-filebench"))
        .arg("--directory")
        .arg(directory)
        .args(words)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_personality_runs_and_counts_what_it_did() {
    for personality in ["fileserver", "webserver", "webproxy", "varmail"] {
        let directory = tempfile::tempdir().unwrap();
        let words = [
            "--personality",
            personality,
            "--threads",
            "4",
            "--files",
            "60",
            "--operations",
            "2000",
        ];
        let outcome = json(&filebench(directory.path(), &words));
        assert!(outcome["operations"].as_u64().unwrap() >= 2000, "{outcome}");
        assert!(outcome["read_bytes"].as_u64().unwrap() > 0, "{outcome}");
        assert!(outcome["written_bytes"].as_u64().unwrap() > 0, "{outcome}");
        assert!(outcome["operations_s"].as_f64().unwrap() > 0.0, "{outcome}");
    }
}

#[test]
fn a_set_is_prepared_by_one_run_and_used_by_another() {
    let directory = tempfile::tempdir().unwrap();
    let words = |last| {
        [
            "--personality",
            "webserver",
            "--threads",
            "2",
            "--files",
            "50",
            "--operations",
            "200",
            last,
        ]
    };
    assert_eq!(
        json(&filebench(directory.path(), &words("--prepare-only")))["files"],
        50
    );
    let first = directory.path().join("d0/f0");
    let before = std::fs::read(&first).unwrap();
    json(&filebench(directory.path(), &words("--run-only")));
    assert_eq!(std::fs::read(&first).unwrap(), before, "only read");
    let log = std::fs::metadata(directory.path().join("log")).unwrap();
    assert!(log.len() > 0, "all threads append to it");
}

#[test]
fn without_a_set_it_says_how_to_make_one() {
    let directory = tempfile::tempdir().unwrap();
    let output = filebench(
        directory.path(),
        &["--personality", "varmail", "--run-only"],
    );
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--prepare-only"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
