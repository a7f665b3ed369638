//! Programs that are stopped (Ctrl-Z) hold nobody up, and notice nothing.

use crate::common::{Mounted, keeps, program};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const STOPS: usize = 60;
/// Far more than a write takes anywhere, and far less than a stopped program stays.
const BOUND: Duration = Duration::from_millis(500);

/// Somebody else who writes to the same file and looks at it, when asked to.
struct Other {
    ask: Sender<()>,
    done: Receiver<()>,
}

impl Other {
    fn start(file: File) -> Other {
        let (ask, asked) = channel::<()>();
        let (tell, done) = channel();
        std::thread::spawn(move || {
            for () in asked {
                file.write_all_at(b"other", 8192).unwrap();
                assert!(file.metadata().unwrap().len() > 0);
                if tell.send(()).is_err() {
                    return;
                }
            }
        });
        Other { ask, done }
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn wait_until_stopped(child: &Child) {
    let told = waitpid(Some(Pid::from_child(child)), WaitOptions::UNTRACED).unwrap();
    let (_, status) = told.unwrap();
    assert_eq!(status.stopping_signal(), Some(libc::SIGTSTP), "{status:?}");
}

#[test]
fn a_stopped_writer_holds_no_other_writer_up() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(mounted.path("f"))
        .unwrap();
    let mut command = mounted.command(program("stops"));
    // A group of its own, which is no orphan's: the kernel stops no orphans.
    let mut child = command
        .arg("overwrites_for_ever")
        .process_group(0)
        .spawn()
        .unwrap();
    let other = Other::start(file);
    std::thread::sleep(Duration::from_millis(300));
    let mut held_up = 0;
    for turn in 0..STOPS as u64 {
        std::thread::sleep(Duration::from_micros(3000 + turn * 7919 % 2000));
        signal(&child, Signal::TSTP);
        wait_until_stopped(&child);
        other.ask.send(()).unwrap();
        let waited = other.done.recv_timeout(BOUND).is_err();
        signal(&child, Signal::CONT);
        if waited {
            held_up += 1;
            other.done.recv_timeout(Duration::from_secs(60)).unwrap();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(held_up, 0, "of {STOPS} stops so many held a writer up");
}

#[test]
fn each_stop_signal_stops_a_writer() {
    keeps("stops", "each_stop_signal_stops_a_writer", 1000);
}

#[test]
fn continued_at_once() {
    keeps("stops", "continued_at_once", 1000);
}

#[test]
fn sleeps_go_on_after_a_stop() {
    keeps("stops", "sleeps_go_on_after_a_stop", 9000);
}

#[test]
fn programs_have_their_own_way() {
    keeps("stops", "programs_have_their_own_way", 3000);
}
