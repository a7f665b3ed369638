//! The command line itself: help, wrong arguments, completions, manual pages.

use crate::common;

use std::process::Stdio;

use common::{egeria, run};
use egeria_harness::testing::usage::Program;

const PROGRAM: Program<'_> = Program {
    name: "egeria",
    run: |arguments| run(arguments),
    groups: &["pool", "trace"],
};

egeria_harness::tests_of_command_line!(PROGRAM);

#[test]
fn a_wrong_command_line_is_one_line_and_status_2() {
    run(["bogus"]).refused(2, &["bogus", "egeria --help"]);
    run(["mkfs"]).refused(2, &["--pool", "egeria mkfs --help"]);
    run(["mkfs", "--pool", "x"]).refused(2, &["'x'", "NODE:PATH", "egeria mkfs --help"]);
    run(["mkfs", "--pool", "0:/x:12Q"]).refused(2, &["12Q", "64M"]);
    run(["mount", "/pool"]).refused(2, &["DIRECTORY", "egeria mount --help"]);
    run(["run"]).refused(2, &["CMD"]);
    run(["run", "--scratch", "none", "--", "true"]).refused(2, &["none", "64M"]);
    run(["run", "--alloc", "there", "--", "true"]).refused(2, &["there", "node=N"]);
    run(["run", "--policy", "fast", "--", "true"]).refused(2, &["fast", "off"]);
    run(["run", "--volume", "/p", "--scratch", "1G", "--", "true"])
        .refused(2, &["--volume", "--scratch"]);
    // Not a command of that name: a command that begins so follows `--`.
    run(["run", "--bogus"]).refused(2, &["'--bogus'", "egeria run --help"]);
    run(["run", "--bogus", "--", "true"]).refused(2, &["'--bogus'", "egeria run --help"]);
    let tip = "'--bogus' found; a similar argument exists: '--bound'; see `egeria trial --help`";
    run(["trial", "--bogus", "true"]).refused(2, &[tip]);
    run(["bench", "datapath"]).refused(2, &["`egeria-lab`"]);
}

#[test]
fn without_a_command_help_goes_to_stderr() {
    let ended = run::<&str>([]);
    assert_eq!((ended.status, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("Usage: egeria"));
}

#[test]
fn a_directory_that_cannot_be_written_is_one_line() {
    run(["man", "--out", "/proc/man"]).refused(1, &["/proc/man", "choose a directory"]);
}

/// Exit status and stderr of a command that writes much to this stdout.
#[track_caller]
fn with_stdout(stdout: impl Into<Stdio>) -> (i32, String) {
    let mut child = egeria(["completions", "zsh"])
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = common::wait(&mut child);
    let stderr = std::io::read_to_string(child.stderr.take().unwrap());
    (status, stderr.unwrap())
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(with_stdout(writer), (141, String::new()));
}

#[test]
fn a_full_output_device_is_one_line() {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let (status, stderr) = with_stdout(full.unwrap());
    assert_eq!(status, 1);
    assert!(
        stderr.starts_with("egeria: cannot write to stdout: ") && stderr.contains("; "),
        "{stderr}"
    );
}
