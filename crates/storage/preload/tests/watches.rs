//! What watchers hear under the library: what they hear on tmpfs.

use crate::common::{Mounted, assert_ended_well, finish, is_root, program, temporary};
use std::process::{Command, Stdio};

/// What a rule prints on tmpfs, and on a mount under the library.
fn tells_the_same(rule: &str) {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let tmpfs = temporary("/dev/shm");
    let mut command = Command::new(program("watches"));
    command.current_dir(tmpfs.path()).stdin(Stdio::null());
    let expected = finish(command.arg(rule));
    let found = finish(mounted.command(program("watches")).arg(rule));
    for output in [&expected, &found] {
        assert_ended_well(output, rule);
    }
    let [expected, found] =
        [expected, found].map(|output| String::from_utf8(output.stdout).unwrap());
    assert!(
        !expected.is_empty() && expected == found,
        "{expected}\nbut\n{found}"
    );
}

#[test]
fn watches_of_directories_and_files_tell_all() {
    tells_the_same("directories_and_files");
}

#[test]
fn watches_of_open_files_tell_all() {
    tells_the_same("open_files");
}

#[test]
fn marks_of_fanotify_tell_all() {
    if is_root() {
        tells_the_same("marks");
    }
}

#[test]
fn readers_are_asked_for_permission() {
    if is_root() {
        tells_the_same("permissions");
    }
}

#[test]
fn notices_of_directories_tell_all() {
    tells_the_same("notices");
}
