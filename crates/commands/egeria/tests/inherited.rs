//! What a command of `egeria run` begins with: what its caller would have left to it, as `env` and `nice` pass it on.

use crate::common;

use std::process::Command;

use common::{can_mount, egeria};

/// What a command says of the signals, limits, descriptors and niceness that it begins with.
const LOOK: &str = "/proc/self/status /proc/self/limits /proc/self/stat";

fn begins_with(command: &mut Command) -> Vec<String> {
    // SAFETY: the closure makes only calls that are allowed between fork and exec.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, odd_caller) };
    let ended = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let kept = ["SigIgn:", "SigBlk:", "Umask:", "Max "];
    let lines = text
        .lines()
        .filter(|line| kept.iter().any(|kept| line.starts_with(kept)));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    let stat = text.lines().last().unwrap().rsplit_once(')').unwrap().1;
    lines.push(format!("nice {}", stat.split_whitespace().nth(16).unwrap()));
    lines
}

/// Ignores, blocks and limits what a command would not expect, and closes its standard input.
fn odd_caller() -> std::io::Result<()> {
    // SAFETY: calls that are allowed between fork and exec; sets and limits live as long as the calls.
    unsafe {
        let ignored = [
            libc::SIGPIPE,
            libc::SIGUSR1,
            libc::SIGBUS,
            libc::SIGCHLD,
            libc::SIGHUP,
        ];
        for signal in ignored {
            libc::signal(signal, libc::SIG_IGN);
        }
        // Whatever the tests themselves were started with.
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGWINCH);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
        let limit = libc::rlimit {
            rlim_cur: 200,
            rlim_max: 300,
        };
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        libc::setpriority(libc::PRIO_PROCESS, 0, 3);
        libc::umask(0o27);
        libc::close(0);
    }
    Ok(())
}

#[test]
fn a_command_begins_as_its_caller_would_have_started_it() {
    let look: Vec<&str> = LOOK.split(' ').collect();
    let by_env = begins_with(Command::new("env").arg("cat").args(&look));
    assert!(by_env.iter().any(|line| line == "nice 3"), "{by_env:?}");
    let runs: [&[&str]; 3] = [
        &["run", "--no-volume", "--", "cat"],
        &["run", "--no-volume", "--policy", "rl", "--", "cat"],
        &["run", "--scratch", "64M", "--", "cat"],
    ];
    for run in runs.iter().take(if can_mount() { 3 } else { 2 }) {
        let by_run = begins_with(egeria(*run).args(&look));
        assert_eq!(by_run, by_env, "{run:?}");
    }
}

#[test]
fn a_command_has_the_descriptors_of_its_caller_and_no_more() {
    let descriptors = |command: &mut Command| {
        // SAFETY: the closure makes only calls that are allowed between fork and exec.
        unsafe { std::os::unix::process::CommandExt::pre_exec(command, odd_caller) };
        let ended = command.args(["ls", "/proc/self/fd"]).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };
    let by_env = descriptors(&mut Command::new("env"));
    assert_eq!(
        descriptors(&mut egeria(["run", "--no-volume", "--"])),
        by_env
    );
    if can_mount() {
        assert_eq!(
            descriptors(&mut egeria(["run", "--scratch", "64M", "--"])),
            by_env
        );
    }
}

#[test]
fn the_status_is_known_when_sigchld_is_ignored() {
    let mut command = egeria(["run", "--no-volume", "--", "sh", "-c", "exit 7"]);
    // SAFETY: the closure makes only calls that are allowed between fork and exec.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, odd_caller) };
    assert_eq!(command.status().unwrap().code(), Some(7));
}
