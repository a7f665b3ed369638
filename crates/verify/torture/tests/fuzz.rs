//! The fuzzer: what it tries in seconds, what it saves and shows again, and that it sees.

use egeria_harness::testing::skip;
use egeria_torture::fuzz::{self, FuzzOptions, FuzzReport, Target};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

fn worker() -> PathBuf {
    env!("CARGO_BIN_EXE_egeria-fuzz-worker").into()
}

fn fuzz(target: Target, runs: u64) -> FuzzReport {
    let directory = tempfile::tempdir().expect("a directory").keep();
    let options = FuzzOptions {
        targets: vec![target],
        runs: Some(runs),
        worker: Some(worker()),
        // Left behind when something is wrong.
        output_directory: Some(directory.clone()),
        ..FuzzOptions::default()
    };
    let report = fuzz::run(&options).expect("fuzz");
    assert_eq!(report.findings, 0, "{}", report.text());
    assert_eq!(report.runs, runs);
    assert!(!report.details.stopped);
    std::fs::remove_dir_all(directory).expect("remove");
    report
}

#[test]
fn forged_volumes_give_answers_or_errors() {
    let report = fuzz(Target::Image, 5000);
    let row = &report.details.by_target[0];
    // Changes that the first check refuses would show a handful of kinds.
    assert!(row.corpus > 200, "{}", report.text());
}

#[test]
fn forged_requests_are_answered_and_leave_the_volume_whole() {
    let report = fuzz(Target::Request, 600);
    assert!(report.details.by_target[0].corpus > 50, "{}", report.text());
}

#[test]
fn forged_text_and_recordings_give_answers_or_errors() {
    for (target, runs) in [
        (Target::Trace, 4000),
        (Target::Machine, 4000),
        (Target::Settings, 4000),
        (Target::Workload, 1000),
    ] {
        let report = fuzz(target, runs);
        assert!(report.details.by_target[0].corpus > 50, "{}", report.text());
    }
}

#[test]
fn hostile_paths_mean_what_they_mean_in_the_kernel() {
    if let Some(why) = Target::Path.missing() {
        skip(format_args!("paths cannot be tried: {why}"));
        return;
    }
    let report = fuzz(Target::Path, 1500);
    assert!(report.details.by_target[0].corpus > 20, "{}", report.text());
}

/// The program of this build, whose commands meet what another user left.
fn egeria() -> PathBuf {
    egeria_harness::testing::built("egeria", "egeria")
}

#[test]
fn what_another_user_leaves_harms_nobody_and_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory").keep();
    let options = FuzzOptions {
        targets: vec![Target::OtherUser],
        runs: Some(60),
        worker: Some(worker()),
        egeria: Some(egeria()),
        output_directory: Some(directory.clone()),
        ..FuzzOptions::default()
    };
    let report = fuzz::run(&options).expect("fuzz");
    assert_eq!(report.findings, 0, "{}", report.text());
    match Target::OtherUser.missing() {
        Some(why) => {
            assert!(report.text().contains(why), "{}", report.text());
            skip(format_args!(
                "what another user leaves cannot be tried: {why}"
            ));
        }
        None => assert_eq!(report.runs, 60),
    }
    std::fs::remove_dir_all(directory).expect("remove");
}

/// What a subject that is wrong by order shows.
fn broken(fault: &str, directory: &Path) -> FuzzReport {
    let options = FuzzOptions {
        targets: vec![Target::Image],
        runs: Some(60),
        worker: Some(worker()),
        workers: 1,
        output_directory: Some(directory.to_owned()),
        fault: Some(fault.to_owned()),
        ..FuzzOptions::default()
    };
    fuzz::run(&options).expect("fuzz")
}

#[test]
fn every_way_to_go_wrong_is_a_finding_that_can_be_shown_again() {
    let ways = [
        ("panic", "panicked at"),
        ("segfault", "signal 11"),
        ("abort", "aborted"),
        ("memory", "aborted: more memory"),
        ("hang", "of CPU time"),
        ("exit", "ended"),
    ];
    for (fault, words) in ways {
        let directory = tempfile::tempdir().expect("a directory");
        let report = broken(fault, directory.path());
        assert!(report.findings > 0, "{fault}: {}", report.text());
        let case = &report.details.cases[0];
        assert!(case.reason.contains(words), "{fault}: {}", case.reason);
        // The others went on to the end.
        assert_eq!(report.runs, 60, "{fault}");
        let replayed = fuzz::replay(case.file.as_deref().expect("a file"), Some(&worker()));
        // The fault was made by order; without it, nothing is wrong.
        let replayed = replayed.expect("replay");
        assert!(!replayed.reproduces, "{}", replayed.text);
        assert!(replayed.text.contains(&case.reason), "{}", replayed.text);
    }
}

#[test]
fn the_same_seed_tries_the_same_inputs() {
    let corpus = |seed| {
        let options = FuzzOptions {
            targets: vec![Target::Image],
            runs: Some(150),
            worker: Some(worker()),
            workers: 1,
            seed,
            ..FuzzOptions::default()
        };
        fuzz::run(&options)
            .expect("fuzz")
            .details
            .by_target
            .remove(0)
            .corpus
    };
    let first = corpus(1);
    assert_eq!(first, corpus(1));
    // Two seeds may by chance find as many inputs.
    assert!((2..6).any(|seed| corpus(seed) != first), "{first}");
}

#[test]
fn a_run_that_is_cancelled_tells_what_it_did() {
    let cancel = AtomicBool::new(true);
    let options = FuzzOptions {
        worker: Some(worker()),
        cancel: Some(&cancel),
        ..FuzzOptions::default()
    };
    let report = fuzz::run(&options).expect("fuzz");
    assert!(report.details.stopped);
    assert_eq!(report.runs, 0);
}

#[test]
fn files_that_are_no_cases_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("case");
    let long = format!("{{\"steps\": [{}1]}}", "1,".repeat(60_000));
    for text in ["", "{}", "no case", long.as_str()] {
        std::fs::write(&file, text).expect("write");
        let refused = fuzz::replay(&file, Some(&worker())).expect_err("no case");
        assert!(refused.to_string().contains("is no fuzz case"), "{refused}");
    }
}
