//! `egeria-lab programs` tells programs that keep their promises from those that do not.

use crate::common;

use std::fs;
use std::path::Path;

use common::{finish, lab, run};
use egeria_harness::testing::{Ended, built, memory, preload_library, turn};

/// Counts in a file, also by a process that leaves its session and its parent.
const HONEST: &str = r#"
# program: Honest
work() {
    seq 100 >numbers
}
check() {
    seq 100 | cmp - numbers
}
load() {
    setsid sh -c 'while :; do echo more >>grown; done' &
    add() {
        echo "$1" >>numbers
    }
    count_up add
}
survived() {
    at_least "$(wc -l <numbers)" "$(acknowledged)"
    before=$(wc -c <grown)
    sleep 0.2
    [ "$(wc -c <grown)" = "$before" ] || fail "a process was not killed"
}
"#;

/// Acknowledges what it never wrote.
const FORGETFUL: &str = r#"
# program: Forgetful
work() {
    :
}
load() {
    : >numbers
    count_up true
}
survived() {
    at_least "$(wc -l <numbers)" "$(acknowledged)"
}
"#;

/// Writes something else under the library.
const DAMAGING: &str = r#"
# program: Damaging
work() {
    seq 100 >numbers
    [ "$PLACE" != library ] || echo more >>numbers
}
check() {
    seq 100 | cmp - numbers
}
"#;

/// Copies from one volume to another.
const TWOFOLD: &str = r#"
# program: Twofold
# volumes: 2
work() {
    seq 100 | tee numbers >"$SECOND/numbers"
}
check() {
    cmp numbers "$SECOND/numbers"
    [ "$PLACE" = tmpfs ] || [ "$(stat -c %d .)" != "$(stat -c %d "$SECOND")" ] || fail "it is one volume"
}
"#;

/// Runs these jobs on all places.
fn tried(jobs: &[(&str, &str)]) -> Ended {
    let (files, memory) = (tempfile::tempdir().unwrap(), memory());
    let mut command = lab(["programs", "--json", "--seconds", "0.2", "--memory"]);
    command.arg(memory.path());
    for (name, text) in jobs {
        let file = files.path().join(name).with_extension("sh");
        fs::write(&file, job(text)).unwrap();
        command.arg("--job").arg(file);
    }
    command.env("EGERIA_PRELOAD_LIB", preload_library());
    command.env("EGERIA", built("egeria", "egeria"));
    let ended = finish(command);
    let left: Vec<_> = entries(memory.path()).collect();
    assert!(left.is_empty(), "{left:?} {ended:?}");
    ended
}

/// Root runs it as root: only root may mount in some containers.
fn job(text: &str) -> String {
    let user = if rustix::process::geteuid().is_root() {
        "# user: root\n"
    } else {
        ""
    };
    format!("{user}{}", text.trim_start())
}

fn entries(directory: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| entry.path())
}

#[test]
fn a_program_that_keeps_its_promises_works_on_all_places() {
    let Some(_turn) = turn() else { return };
    let ended = tried(&[("honest", HONEST)]).ok();
    let row = &ended.json()["rows"][0];
    for place in ["tmpfs", "mount"] {
        assert_eq!(row[place], "works", "{ended:?}");
    }
    // Which way a shell's calls take is not the point here.
    let library = row["library"].as_str().unwrap();
    assert!(library.starts_with("works"), "{ended:?}");
    assert_eq!(row["killed"], "survives", "{ended:?}");
    assert!(row["speed_of_tmpfs"]["library"].is_f64(), "{ended:?}");
}

#[test]
fn a_job_works_on_two_volumes_at_once() {
    let Some(_turn) = turn() else { return };
    let ended = tried(&[("twofold", TWOFOLD)]).ok();
    let row = &ended.json()["rows"][0];
    assert_eq!(row["mount"], "works", "{ended:?}");
    let library = row["library"].as_str().unwrap();
    assert!(library.starts_with("works"), "{ended:?}");
}

#[test]
fn what_a_program_loses_or_damages_is_said() {
    let Some(_turn) = turn() else { return };
    let ended = tried(&[("forgetful", FORGETFUL), ("damaging", DAMAGING)]);
    assert_eq!(ended.status, 1, "{ended:?}");
    let rows = &ended.json()["rows"];
    assert_eq!(rows[0]["killed"], "loses", "{ended:?}");
    assert!(ended.stderr.contains("acknowledged, 0 found"), "{ended:?}");
    assert_eq!(rows[1]["mount"], "works", "{ended:?}");
    assert_eq!(rows[1]["library"], "does_not", "{ended:?}");
    assert!(
        ended.stderr.contains("damaging: library: check failed"),
        "{ended:?}"
    );
}

#[test]
fn an_unknown_program_is_refused_with_the_names_there_are() {
    run(["programs", "--only", "bogus"]).refused(2, &["bogus", "postgresql"]);
    run(["programs", "--on", "moon"]).refused(2, &["--on", "library"]);
}
