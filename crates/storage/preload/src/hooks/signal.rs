//! `sigaction`, `signal` and their kin, once handlers go through the trampoline (see `signals`).

use crate::signals;
use crate::system::{errno, real};
use crate::thread::{self, process};
use libc::{c_int, c_long, sigaction, sigset_t, stack_t};

const SIG_HOLD: usize = 2;

fn sigaction_hook(signal: c_int, new: *const sigaction, old: *mut sigaction) -> c_int {
    signals::hook_action(signal, new, old).unwrap_or_else(|| real::sigaction(signal, new, old))
}

/// Set a handler with flags; the old handler. `None`: let libc do it.
fn set_handler(signal: c_int, handler: usize, flags: c_int, mask_self: bool) -> Option<usize> {
    let (mut new, mut old) = (signals::default_action(), signals::default_action());
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    if mask_self {
        // SAFETY: a set of ours.
        unsafe { libc::sigaddset(&raw mut new.sa_mask, signal) };
    }
    let answer = signals::hook_action(signal, &raw const new, &raw mut old)?;
    Some(if answer < 0 {
        libc::SIG_ERR
    } else {
        old.sa_sigaction
    })
}

fn signal(signal: c_int, handler: usize) -> usize {
    let restart = if signals::interrupting(signal, None) {
        0
    } else {
        libc::SA_RESTART
    };
    let real = || real::signal(signal, handler);
    if handler == libc::SIG_ERR {
        return real();
    }
    set_handler(signal, handler, restart, true).unwrap_or_else(real)
}

fn sysv_signal(signal: c_int, handler: usize) -> usize {
    let real = || real::sysv_signal(signal, handler);
    if handler == libc::SIG_ERR {
        return real();
    }
    set_handler(
        signal,
        handler,
        libc::SA_RESETHAND | libc::SA_NODEFER,
        false,
    )
    .unwrap_or_else(real)
}

/// `sigset` also unblocks the signal; `SIG_HOLD` only blocks it, which libc does without a handler.
fn sigset(signal: c_int, handler: usize) -> usize {
    if handler == SIG_HOLD || handler == libc::SIG_ERR {
        return real::sigset(signal, handler);
    }
    let Some(before) = set_handler(signal, handler, 0, false) else {
        return real::sigset(signal, handler);
    };
    if before == libc::SIG_ERR {
        return before;
    }
    let mut held = false;
    // SAFETY: sets of ours.
    unsafe {
        let (mut set, mut old): (sigset_t, sigset_t) = std::mem::zeroed();
        libc::sigaddset(&raw mut set, signal);
        if real::sigprocmask(libc::SIG_UNBLOCK, &raw const set, &raw mut old) == 0 {
            held = libc::sigismember(&raw const old, signal) == 1;
        }
    }
    if held { SIG_HOLD } else { before }
}

fn sigignore(signal: c_int) -> c_int {
    match set_handler(signal, libc::SIG_IGN, 0, false) {
        Some(libc::SIG_ERR) => -1,
        Some(_) => 0,
        None => real::sigignore(signal),
    }
}

fn siginterrupt(signal: c_int, flag: c_int) -> c_int {
    let mut action = signals::default_action();
    signals::interrupting(signal, Some(flag != 0));
    let Some(answer) = signals::hook_action(signal, std::ptr::null(), &raw mut action) else {
        return real::siginterrupt(signal, flag);
    };
    if answer < 0 {
        return answer;
    }
    if flag != 0 {
        action.sa_flags &= !libc::SA_RESTART;
    } else {
        action.sa_flags |= libc::SA_RESTART;
    }
    signals::hook_action(signal, &raw const action, std::ptr::null_mut()).unwrap_or_else(|| {
        errno::set(libc::EINVAL);
        -1
    })
}

fn sigprocmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    signals::hook_mask(how, new, old, real::sigprocmask)
}

fn pthread_sigmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    signals::hook_mask(how, new, old, real::pthread_sigmask)
}

fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
    let answer = real::sigaltstack(new, old);
    let thread = thread::current();
    let is_changed = answer == 0 && !new.is_null();
    if is_changed && (!thread.has(thread::VFORK) || !process::in_vfork_child(thread)) {
        thread.stacks.note_alternate();
    }
    answer
}

/// The system call, for `syscall`.
pub(super) fn sigaltstack_by_number(new: usize, old: usize) -> c_long {
    sigaltstack(new as *const stack_t, old as *mut stack_t).into()
}

export! {
    sigaltstack, __sigaltstack => sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int;
    sigaction, __sigaction => sigaction_hook(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    signal, bsd_signal, ssignal => signal(signal: c_int, handler: usize) -> usize;
    sysv_signal, __sysv_signal => sysv_signal(signal: c_int, handler: usize) -> usize;
    sigset => sigset(signal: c_int, handler: usize) -> usize;
    sigignore => sigignore(signal: c_int) -> c_int;
    siginterrupt => siginterrupt(signal: c_int, flag: c_int) -> c_int;
    sigprocmask => sigprocmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int;
    pthread_sigmask => pthread_sigmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int;
}
