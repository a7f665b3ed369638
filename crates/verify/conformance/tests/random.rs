//! Random programs on tmpfs, on a mount, and on a mount under the preload library; and that they find mistakes.
//!
//! tmpfs beside another directory of tmpfs shows that the programs have one right answer. Each test runs the same
//! programs every time; `egeria-conformance random` runs others, for as long as one likes.

#[path = "../../../storage/preload/tests/common/mod.rs"]
mod common;

use common::{Mounted, finish, library};
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

#[derive(Debug, Deserialize)]
struct Report {
    programs: u64,
    steps: u64,
    idle_steps: u64,
    differences: Vec<Difference>,
    left: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Difference {
    seed: u64,
    actors: String,
    steps_at_first: usize,
    steps: Vec<String>,
    difference: String,
}

/// Two directories on tmpfs, the first of which may be tested.
struct Places {
    tested: tempfile::TempDir,
    right: tempfile::TempDir,
}

impl Places {
    fn new() -> Places {
        let make = || {
            tempfile::Builder::new()
                .prefix("egeria-random-")
                .tempdir_in("/dev/shm")
                .unwrap()
        };
        Places {
            tested: make(),
            right: make(),
        }
    }

    fn search(&self, words: &[&str]) -> Report {
        self.search_in(self.tested.path(), words, |_| {})
    }

    fn search_in(
        &self,
        directory: &Path,
        words: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Report {
        let mut command = Command::new(env!("CARGO_BIN_EXE_egeria-conformance"));
        command.arg("random").arg(directory);
        command.arg("--against").arg(self.right.path());
        command.arg("--json").args(words);
        prepare(&mut command);
        let output = finish(&mut command);
        let [text, complaints] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let report: Report = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{error}: {}\n{text}{complaints}", output.status));
        let expected = i32::from(!report.differences.is_empty());
        assert_eq!(output.status.code(), Some(expected));
        report
    }
}

#[track_caller]
fn assert_same(report: &Report) {
    let shown = |found: &Difference| {
        let (seed, actors, steps) = (found.seed, &found.actors, found.steps.join("\n    "));
        format!("seed {seed}, {actors}\n    {steps}\n  {}", found.difference)
    };
    let differences: Vec<String> = report.differences.iter().map(shown).collect();
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
    assert_eq!(report.left, None);
    eprintln!("{} programs, {} steps", report.programs, report.steps);
}

/// In the tests: enough to find what there is, and an end also where all of them hang.
const ENOUGH: [&str; 6] = ["--programs", "2000", "--seed", "1", "--minutes", "0.15"];

#[test]
fn programs_have_one_right_answer() {
    let report = Places::new().search(&ENOUGH);
    assert_same(&report);
    // They do something.
    assert!(report.idle_steps * 3 < report.steps, "{report:?}");
}

#[test]
fn a_mount_answers_as_tmpfs_does() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    assert_same(&Places::new().search_in(mounted.point(), &ENOUGH, |_| {}));
}

#[test]
fn the_preload_library_answers_as_tmpfs_does() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let under = |command: &mut Command| _ = command.env("LD_PRELOAD", library());
    let report = Places::new().search_in(mounted.point(), &ENOUGH, under);
    assert_same(&report);
    // It was really used.
    mounted.assert_served(&before, report.programs, "random programs");
}

#[test]
fn a_lost_write_is_found_and_shown_in_few_steps() {
    let places = Places::new();
    let words = ["--seed", "1", "--programs", "100", "--mistake"];
    let report = places.search(&[&words[..], &["lost-writes"]].concat());
    let found = report.differences.first().expect("a difference");
    assert!(found.steps.len() <= 6, "{found:?}");
    assert!(found.steps.len() < found.steps_at_first, "{found:?}");
    let is_lost = |step: &String| step.contains("WriteAt");
    assert!(found.steps.iter().any(is_lost), "{found:?}");
    // Its number alone makes the same again.
    let seed = found.seed.to_string();
    let words = ["--seed", &seed, "--programs", "1", "--mistake"];
    let again = places.search(&[&words[..], &["lost-writes"]].concat());
    assert_eq!(again.differences[0].steps, found.steps);
    assert_eq!(again.differences[0].difference, found.difference);
}

#[test]
fn a_hang_is_a_difference_in_words_and_the_search_goes_on() {
    let words = ["--seed", "1", "--programs", "100", "--limit", "0.5"];
    let report = Places::new().search(&[&words[..], &["--mistake", "hang"]].concat());
    assert!(report.differences.len() > 1, "{report:?}");
    for found in &report.differences {
        assert!(found.difference.contains("SyncMap"), "{found:?}");
        assert!(found.difference.contains("did not end"), "{found:?}");
    }
}

#[test]
fn a_lost_write_is_found_where_two_compete() {
    let words = ["--seed", "1", "--programs", "20", "--kind", "contests"];
    let places = Places::new();
    assert_same(&places.search(&words));
    let report = places.search(&[&words[..], &["--mistake", "lost-writes"]].concat());
    let found = report.differences.first().expect("a difference");
    assert!(found.difference.contains("cell"), "{found:?}");
}
