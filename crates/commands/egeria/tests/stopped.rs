//! Programs that are stopped, and what an operator reads about those that wait for them.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Sandbox, can_mount, eventually, kill, preload_library, run, text};
use rustix::process::Signal;

/// A program under the preload library that overwrites blocks of a file: once, or until it is killed.
fn overwriting(file: &Path, is_endless: bool) -> Child {
    let again = if is_endless { "1" } else { "0" };
    let script = format!(
        "open(F, '+<', $ARGV[0]) or die; do {{ sysseek(F, 0, 0); syswrite(F, 'x' x 262144) == 262144 or die }} while {again};"
    );
    Command::new("perl")
        .args(["-e", &script, text(file)])
        .env("LD_PRELOAD", preload_library())
        .spawn()
        .unwrap()
}

/// The library logs nothing itself, so the mount does it for both.
#[test]
fn mount_logs_for_which_stopped_program_another_one_waits() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    let log = sandbox.path("log");
    run(["mount", "--log", text(&log), text(&pool), text(&directory)]).ok();
    let file = directory.join("file");
    fs::write(&file, vec![0; 1 << 18]).unwrap();
    let mut stopped = overwriting(&file, true);
    let pid = stopped.id();
    eventually("it writes", || fs::read(&file).unwrap()[0] == b'x');
    let line = |wanted: &str| {
        let logged = fs::read_to_string(&log).unwrap();
        let lines = logged.lines().filter(|line| line.contains(wanted));
        lines.map(str::to_owned).collect::<Vec<String>>()
    };
    let wanted = format!("is waited for: thread {pid} of process {pid} ");
    let mut found = Vec::new();
    // A stop between two writes holds nobody up.
    for turn in 0..200 {
        sleep(Duration::from_micros(20_000 + turn * 1571 % 3000));
        kill(pid, Signal::STOP);
        let mut waiting = overwriting(&file, false);
        let begun = Instant::now();
        let mut is_over = false;
        // What waits does so until the first program goes on: longer than that it is not looked for.
        while !is_over && found.is_empty() && begun.elapsed() < Duration::from_secs(60) {
            sleep(Duration::from_millis(20));
            is_over = waiting.try_wait().unwrap().is_some();
            found = line(&wanted);
        }
        kill(pid, Signal::CONT);
        assert!(waiting.wait().unwrap().success());
        if !found.is_empty() {
            break;
        }
        let logged = || fs::read_to_string(&log).unwrap();
        assert!(is_over, "it waits, and nothing is logged: {}", logged());
    }
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    assert_eq!(found.len(), 1, "once: {found:?}");
    assert!(found[0].contains("WARN"), "{found:?}");
    assert!(
        found[0].contains("if it is stopped, continue or end it"),
        "{found:?}"
    );
    sleep(Duration::from_secs(2));
    assert_eq!(line(&wanted).len(), 1, "and not again");
    run(["umount", text(&directory)]).ok();
}
