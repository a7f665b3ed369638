//! The explorer of crashes: what it explores in seconds, what it saves and shows again, and that it sees.

use egeria_torture::crash::{self, CrashOptions, InjectedFault, Operation};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn quick() -> CrashOptions<'static> {
    CrashOptions {
        quick: true,
        ..CrashOptions::default()
    }
}

#[test]
fn twenty_thousand_crash_states_hold_what_they_must() {
    let report = crash::run(&quick()).expect("explore");
    assert_eq!(report.violations, 0, "{}", report.text());
    assert!(report.states >= 20_000, "{}", report.text());
    assert!(report.unique_images <= report.states && report.unique_images > 10_000);
    assert!(report.details.states_in_recovery > 500, "{}", report.text());
    assert!(!report.details.stopped);
}

/// Flushes and fences whose absence cannot be seen, each with the reason.
const UNSEEN: [(&str, &str); 0] = [];

#[test]
fn every_flush_and_fence_is_missed_when_it_is_left_out() {
    let proofs = crash::prove(24).expect("explore");
    assert!(proofs.len() >= 20, "{proofs:?}");
    let is_excused = |place: &str| UNSEEN.iter().any(|(unseen, _)| place.contains(unseen));
    let unnoticed: Vec<&str> = proofs
        .iter()
        .filter(|proof| proof.noticed.is_none() && !is_excused(&proof.place))
        .map(|proof| proof.place.as_str())
        .collect();
    assert!(unnoticed.is_empty(), "nobody misses {unnoticed:#?}");
    for (unseen, _) in UNSEEN {
        let is_there = proofs
            .iter()
            .any(|proof| proof.place.contains(unseen) && proof.noticed.is_none());
        assert!(
            is_there,
            "{unseen} is noticed, or gone: no excuse is needed"
        );
    }
}

/// A violation, made by leaving out what makes commits durable.
fn a_case(directory: &Path) -> std::path::PathBuf {
    let options = CrashOptions {
        omitted: Some("crates/storage/engine/src/log/".to_owned()),
        output_directory: Some(directory.to_owned()),
        workers: 1,
        ..quick()
    };
    let report = crash::run(&options).expect("explore");
    assert!(report.violations > 0 && report.details.stopped);
    let case = &report.details.cases[0];
    assert!(report.text().contains("egeria-torture crash --replay"));
    case.file.as_ref().expect("a file").to_path_buf()
}

#[test]
fn a_saved_case_shows_what_reproduces_until_it_is_fixed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = a_case(directory.path());
    let replayed = crash::replay(&file).expect("replay");
    assert!(replayed.reproduces, "{}", replayed.text);
    assert!(
        replayed.text.contains("crash: after event"),
        "{}",
        replayed.text
    );
    assert!(
        !replayed.text.contains("another one than was saved"),
        "{}",
        replayed.text
    );
    // Fixed: the engine has its flushes and fences, and the same stores arrive.
    let text = std::fs::read_to_string(&file).expect("read");
    let mut case: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let fields = case.as_object_mut().expect("an object");
    assert!(fields.remove("omitted").is_some());
    fields.insert(
        "crash".into(),
        serde_json::json!({"point": 0, "persisted_words": []}),
    );
    fields.remove("crash_in_recovery");
    std::fs::write(&file, case.to_string()).expect("write");
    match crash::replay(&file) {
        Ok(replayed) => assert!(!replayed.reproduces, "{}", replayed.text),
        Err(error) => assert!(error.to_string().contains("explore anew"), "{error}"),
    }
}

/// What is found when something goes wrong that is none of the engine: one thing, saved, and not there when
/// it is looked at again.
fn tripped(fault: InjectedFault, recovery_timeout: Duration) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let options = CrashOptions {
        injected_fault: Some(fault),
        recovery_timeout,
        output_directory: Some(directory.path().to_owned()),
        states: Some(500),
        workers: 1,
        ..quick()
    };
    let report = crash::run(&options).expect("explore");
    assert_eq!(report.violations, 1, "{}", report.text());
    let [case] = &report.details.cases[..] else {
        panic!("{}", report.text());
    };
    let replayed = crash::replay(case.file.as_ref().expect("a file")).expect("replay");
    assert!(!replayed.reproduces, "{}", replayed.text);
    case.reason.clone()
}

#[test]
fn a_recovery_that_does_not_end_is_wrong_and_is_replayed() {
    let why = tripped(InjectedFault::Hang(40), Duration::from_millis(1500));
    assert!(why.contains("did not end in 1.5 s of CPU time"), "{why}");
}

#[test]
fn a_panic_of_a_workload_is_wrong_and_is_replayed() {
    let why = tripped(InjectedFault::Panic(3), crash::RECOVERY_TIMEOUT);
    assert!(why.contains("panicked while it ran: tripped"), "{why}");
}

#[test]
fn what_is_no_case_is_refused_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("case.json");
    let whole = std::fs::read_to_string(a_case(directory.path())).expect("read");
    let texts = [
        "",
        "nonsense",
        "{}",
        "[1, 2]",
        &whole[..whole.len() / 2],
        &whole.replace("\"egeria_crash_case\": 2", "\"egeria_crash_case\": 1"),
        &whole.replace("\"pools\": 1", "\"pools\": 4000"),
        &whole.replace("\"point\":", "\"points\":"),
        &whole.replace(
            "\"persisted_words\": [",
            "\"persisted_words\": [9, 9, 9, 4000000000,",
        ),
    ];
    for text in texts {
        std::fs::write(&file, text).expect("write");
        let error = crash::replay(&file)
            .err()
            .unwrap_or_else(|| panic!("{text} was taken"));
        let line = error.to_string();
        assert!(!line.contains('\n') && line.contains("case.json"), "{line}");
    }
    let missing = crash::replay(&directory.path().join("none")).expect_err("no file");
    assert!(missing.to_string().contains("cannot read"), "{missing}");
}

#[test]
fn who_stops_it_gets_a_report_of_what_was_done() {
    let stop = AtomicBool::new(true);
    let options = CrashOptions {
        cancel: Some(&stop),
        ..quick()
    };
    let report = crash::run(&options).expect("explore");
    assert!(report.details.stopped && report.states > 0 && report.states < 20_000);
    let few = CrashOptions {
        states: Some(100),
        workers: 1,
        ..quick()
    };
    let report = crash::run(&few).expect("explore");
    assert!(
        report.details.stopped && (100..5000).contains(&report.states),
        "{}",
        report.states
    );
}

#[test]
fn the_same_seed_explores_the_same_states() {
    let explored = |seed| {
        let options = CrashOptions {
            states: Some(2000),
            workers: 1,
            seed,
            ..quick()
        };
        let report = crash::run(&options).expect("explore");
        (report.states, report.unique_images, report.workloads)
    };
    assert_eq!(explored(7), explored(7));
}

#[test]
fn operations_are_read_as_they_are_shown() {
    for text in [
        "create d/new",
        "rename-new a b",
        "write big 4000 10000",
        "chmod d 4711",
        "setxattr d user.d 20",
        "checksums d crc32c",
        "write-open 1 2",
        "close-open",
    ] {
        let operation: Operation = text.parse().expect(text);
        assert_eq!(operation.to_string(), text);
    }
    for text in [
        "",
        "fly high",
        "create",
        "create a b",
        "write a b c",
        "chmod d 9",
    ] {
        assert!(text.parse::<Operation>().is_err(), "{text}");
    }
}
