//! Faults that are not ours stay somebody else's.
//!
//! Only forked children install the handler, so that each finds its own predecessor.

use std::ptr;

use egeria_media::guard;

/// Runs `body` in a forked child and answers how it ended.
fn status_of(body: impl FnOnce()) -> i32 {
    // SAFETY: the child only runs `body` and leaves without unwinding into the parent's tests.
    unsafe {
        match libc::fork() {
            0 => {
                body();
                libc::_exit(0);
            }
            child => {
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                status
            }
        }
    }
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
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7,
        "{status:#x}"
    );
}

#[test]
fn the_default_action_still_kills() {
    for sent in [false, true] {
        let status = status_of(|| {
            before_ours(libc::SIG_DFL, 0);
            guard::install().unwrap();
            if sent {
                // SAFETY: to ourselves.
                unsafe { libc::raise(libc::SIGSEGV) };
            } else {
                stumble();
            }
        });
        assert!(
            libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV,
            "{status:#x}"
        );
    }
}

#[test]
fn an_ignored_signal_is_ignored_only_when_it_was_sent() {
    let sent = status_of(|| {
        before_ours(libc::SIG_IGN, 0);
        guard::install().unwrap();
        // SAFETY: to ourselves.
        unsafe { libc::raise(libc::SIGSEGV) };
    });
    assert_eq!(sent, 0);
    let own = status_of(|| {
        before_ours(libc::SIG_IGN, 0);
        guard::install().unwrap();
        stumble();
    });
    assert!(
        libc::WIFSIGNALED(own) && libc::WTERMSIG(own) == libc::SIGSEGV,
        "{own:#x}"
    );
}
