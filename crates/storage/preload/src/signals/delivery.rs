//! Doing with a signal what the program asked for.

use super::sets::{SET_BYTES, bit, default_action};
use super::{actions, stops};
use crate::system::{raw, real};
use crate::thread::Thread;
use libc::{c_int, c_void, siginfo_t};
use std::sync::atomic::Ordering;

/// Do what the program asked for.
pub fn deliver(
    thread: &Thread,
    signal: c_int,
    information: *mut siginfo_t,
    context: *mut c_void,
    raised: bool,
) {
    let handler = actions::handler(signal);
    if handler == libc::SIG_IGN && !raised {
        return;
    }
    if stops::is_stop(signal) {
        return stops::stop(signal);
    }
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        return die(signal, raised);
    }
    if raised && thread.believed_mask.load(Ordering::Relaxed) & bit(signal) != 0 {
        // The program blocked it: the kernel would have killed the process.
        return die(signal, raised);
    }
    if actions::is_used_up(signal) {
        actions::reset(signal);
    }
    thread.handler_depth.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the program's handler, with the arguments that the kernel gave for it; one that takes one argument ignores
    // the others.
    unsafe {
        let handler = std::mem::transmute::<usize, actions::Trampoline>(handler);
        handler(signal, information, context);
    }
    thread.handler_depth.fetch_sub(1, Ordering::Relaxed);
}

/// The default action. A raised fault comes again when the handler returns; a sent signal is sent
/// again, and delivered when it does.
fn die(signal: c_int, raised: bool) {
    let default = default_action();
    real::sigaction(signal, &raw const default, std::ptr::null_mut());
    if !raised {
        raw::tgkill(raw::getpid(), raw::gettid(), signal);
        let set = bit(signal);
        raw::signal_mask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut(), SET_BYTES);
    }
}
