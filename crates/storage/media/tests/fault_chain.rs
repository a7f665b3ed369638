//! Faults that are not ours stay somebody else's.
//!
//! Only forked children install the handler, so that each finds its own predecessor.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;

use egeria_harness::fork::Forked;
use egeria_media::guard;
use rustix::process::{Signal, getpid, kill_process};

/// Runs `body` in a forked child and answers how it ended.
fn status_of(body: impl FnOnce()) -> ExitStatus {
    let child = Forked::run(|| {
        body();
        0
    });
    child.unwrap().wait()
}

/// Sends the signal of a fault to this process.
fn send_fault() {
    kill_process(getpid(), Signal::SEGV).unwrap();
}

/// Faults in code that is not ours.
fn stumble() {
    // SAFETY: not at all; that is the point, and only a forked child does it.
    unsafe { std::arch::asm!("mov byte ptr [{}], 0", in(reg) 8usize) };
}

extern "C" fn leave_with_7(_: i32) {
    // SAFETY: leaving is always possible.
    unsafe { libc::_exit(7) };
}

fn before_ours(handler: usize, flags: i32) {
    // SAFETY: the action is complete.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
    }
}

#[test]
fn other_faults_go_to_the_handler_that_was_there_before() {
    let status = status_of(|| {
        before_ours(leave_with_7 as *const () as usize, 0);
        guard::install().unwrap();
        stumble();
    });
    assert_eq!(status.code(), Some(7), "{status}");
}

#[test]
fn the_default_action_still_kills() {
    for sent in [false, true] {
        let status = status_of(|| {
            before_ours(libc::SIG_DFL, 0);
            guard::install().unwrap();
            if sent {
                send_fault();
            } else {
                stumble();
            }
        });
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{status}");
    }
}

#[test]
fn an_ignored_signal_is_ignored_only_when_it_was_sent() {
    let sent = status_of(|| {
        before_ours(libc::SIG_IGN, 0);
        guard::install().unwrap();
        send_fault();
    });
    assert!(sent.success(), "{sent}");
    let own = status_of(|| {
        before_ours(libc::SIG_IGN, 0);
        guard::install().unwrap();
        stumble();
    });
    assert_eq!(own.signal(), Some(libc::SIGSEGV), "{own}");
}
