//! The tutorials that need no other machine: their commands run in turn, and print what the pages show.

use crate::common;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use common::{Sandbox, can_mount, finish, preload_library};
use egeria_harness::testing::{Ended, has_two_cpus, skip, without_surroundings};
use egeria_lint::transcript::{Shown, difference, figures_before, shown};

const VOLUME: &str = include_str!("../../../../docs/tutorial/first-volume.md");
const EMULATED: &str = include_str!("../../../../docs/tutorial/emulated.md");

/// Where the page has its files, next to the directory in which it is tried.
const PLACES: [(&str, &str); 2] = [("/dev/shm/", "shm"), ("/tmp/tutorial", "")];

/// A text of the page with the places of the sandbox instead of its own, or the other way round.
fn placed(text: &str, sandbox: &Sandbox, is_back: bool) -> String {
    let mut text = text.to_owned();
    for (on_page, name) in PLACES {
        let here = sandbox.path(name).display().to_string();
        let here = match name {
            "" => here.trim_end_matches('/').to_owned(),
            _ => here + "/",
        };
        let (from, to) = if is_back {
            (here.as_str(), on_page)
        } else {
            (on_page, here.as_str())
        };
        text = text.replace(from, to);
    }
    text
}

/// Runs a command of a page by the shell, as a reader does.
fn typed(command: &str, sandbox: &Sandbox) -> Ended {
    let mut shell = Command::new("sh");
    without_surroundings(&mut shell);
    let programs = Path::new(env!("CARGO_BIN_EXE_egeria")).parent().unwrap();
    let mut path = OsString::from(programs);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    shell
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(&sandbox.root)
        .env("PATH", path)
        .env("XDG_RUNTIME_DIR", &sandbox.root)
        .env("EGERIA_PRELOAD_LIB", preload_library());
    finish(shell)
}

/// Runs all commands of a page, and gives what each printed, with the page's places.
fn follow(page: &str, sandbox: &Sandbox) -> Vec<(Shown, String)> {
    sandbox.directory("shm");
    let run = |shown: Shown| {
        let ended = typed(&placed(&shown.command, sandbox, false), sandbox);
        assert_eq!(ended.status, 0, "{}: {}", shown.command, ended.stdout);
        (shown, placed(&ended.stdout, sandbox, true))
    };
    shown(page).into_iter().map(run).collect()
}

/// What the page shows and is not printed, a command each.
fn differences(followed: &[(Shown, String)]) -> Vec<String> {
    let differs = |(shown, printed): &(Shown, String)| {
        let difference = difference(&shown.lines, printed)?;
        Some(format!("{}: {difference}\n{printed}", shown.command))
    };
    followed.iter().filter_map(differs).collect()
}

#[test]
fn the_volume_tutorial_shows_what_is_printed() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let followed = follow(VOLUME, &sandbox);
    let wrong = differences(&followed);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Another order of magnitude means that calls take another way.
    let mut compared = 0;
    for (shown, printed) in &followed {
        for what in [" calls direct", " mount requests"] {
            if let Some((page, now)) = figures_before(what, &shown.lines, printed) {
                let is_near = now <= page * 10.0 + 10.0 && page <= now * 10.0 + 10.0;
                assert!(
                    is_near,
                    "{}: {page}{what} on the page, {now} now",
                    shown.command
                );
                compared += 1;
            }
        }
    }
    assert_eq!((followed.len(), compared), (13, 4));
}

#[test]
fn the_emulated_tutorial_shows_what_is_printed() {
    if !can_mount() || !has_two_cpus() {
        return;
    }
    if Command::new("fio").arg("--version").output().is_err() {
        return skip("fio is missing; apt-get install fio");
    }
    let sandbox = Sandbox::new();
    let (_, job) = EMULATED.split_once("```ini\n").unwrap();
    let (job, _) = job.split_once("```").unwrap();
    // What it does, and not how fast.
    let job = job.replace("runtime=20", "runtime=2");
    sandbox.file("readers.fio", &job);
    let followed = follow(EMULATED, &sandbox);
    let wrong = differences(&followed);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(followed.len(), 7);
}
