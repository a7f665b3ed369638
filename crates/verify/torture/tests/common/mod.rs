//! Running the command as a user does.

use std::ffi::OsStr;
use std::process::Command;

pub use egeria_harness::testing::finish;
use egeria_harness::testing::{Ended, without_surroundings};

/// The command with these arguments, without what the caller's environment would add.
pub fn torture<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_egeria-torture"));
    command.args(arguments);
    without_surroundings(&mut command);
    command
}

/// Runs it to its end.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    finish(torture(arguments))
}

/// What a run without findings reports, and the names of its fields.
pub fn reported(arguments: &[&str]) -> (serde_json::Value, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("cases");
    let mut command = torture(arguments);
    command.args(["--json", "--out"]).arg(&out);
    let report = finish(command).ok().json();
    assert!(!out.exists(), "nothing was found, so nothing is saved");
    let mut fields: Vec<String> = report.as_object().unwrap().keys().cloned().collect();
    fields.sort_unstable();
    (report, fields)
}

/// A file that is no case is refused in one line.
pub fn refuses_no_case(subcommand: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("case");
    std::fs::write(&file, "no case").unwrap();
    let ended = run([subcommand.as_ref(), "--replay".as_ref(), file.as_os_str()]);
    ended.refused(1, &[&format!("is no {subcommand} case")]);
}

/// What a subcommand reports that is terminated after two seconds, in a directory of its own.
pub fn interrupted(subcommand: &str) -> serde_json::Value {
    let directory = tempfile::tempdir().unwrap();
    let script =
        "torture=$1; cd \"$2\"; \"$torture\" \"$3\" --json & sleep 2; kill -TERM $!; wait $!";
    let mut command = Command::new("bash");
    command
        .args(["-c", script, "bash"])
        .arg(env!("CARGO_BIN_EXE_egeria-torture"))
        .arg(directory.path())
        .arg(subcommand);
    let ended = finish(command);
    assert_eq!(ended.status, 128 + libc::SIGTERM, "{ended:?}");
    let report = ended.json();
    assert_eq!(report["details"]["stopped"], true);
    report
}
