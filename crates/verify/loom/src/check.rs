//! Running a model, and the proof that it sees.

use crate::sync::{BROKEN, WITHOUT, ways_seen};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Preemptions in one order of steps: known bugs of such code need two.
const PREEMPTIONS: usize = 3;
/// Set by hand: tell every way to break a model that it misses, for `needs`.
const SEARCH: &str = "EGERIA_MODELS_SEARCH";

/// Run a model through all of its orders, then once more for each line of source it `needs`, in a process
/// of its own in which accesses on such lines are relaxed, or with "without " before the line, left out:
/// the model must fail there. Where two lines do for each other, " & " between them breaks both.
pub(crate) fn check(test: &str, needs: &[&str], model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
    if std::env::var_os(BROKEN).is_some() {
        return;
    }
    let mut ways = BTreeMap::<String, Vec<String>>::new();
    for way in ways_seen() {
        ways.entry(source_line(&way)).or_default().push(way);
    }
    if std::env::var_os(SEARCH).is_some() {
        let missed = ways
            .iter()
            .filter(|(_, ways)| !survives(test, &ways.join("|")));
        let (missed, lines): (Vec<_>, Vec<_>) = (
            missed.map(|(line, _)| line).collect(),
            ways.keys().collect(),
        );
        println!("{test} needs {missed:#?} of {lines:#?}");
    }
    for line in needs {
        let of_line = |line: &str| ways.get(line).map(|ways| ways.join("|"));
        let broken: Option<Vec<String>> = line.split(" & ").map(of_line).collect();
        let broken = broken.unwrap_or_else(|| panic!("{test} never comes by: {line}"));
        let passes = survives(test, &broken.join("|"));
        assert!(!passes, "{test} passes with this line broken: {line}");
    }
}

/// Whether the model passes with these places broken.
fn survives(test: &str, ways: &str) -> bool {
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", test, "--test-threads=1"])
        .env(BROKEN, ways)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.expect("this test once more").success()
}

/// A way to break a place, with the place's line of source for its `file:line:column`.
fn source_line(way: &str) -> String {
    let (how, place) = match way.strip_prefix(WITHOUT) {
        Some(place) => (WITHOUT, place),
        None => ("", way),
    };
    let mut parts = place.rsplitn(3, ':').skip(1);
    let (line, file) = (parts.next(), parts.next());
    let line: usize = line.and_then(|line| line.parse().ok()).expect("a line");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let path = std::path::Path::new(root).join(file.expect("a file"));
    let text = std::fs::read_to_string(&path).expect("a source file");
    format!("{how}{}", text.lines().nth(line - 1).unwrap_or("").trim())
}
