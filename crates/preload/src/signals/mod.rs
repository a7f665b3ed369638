//! Handlers of the program run outside of the engine (design: Front ends, Signals and bad buffers).
//!
//! From the first attach on, the kernel knows one handler, [`trampoline`]; the program sees its own
//! in `sigaction`. A signal that meets a thread inside the engine is queued to the thread again, with
//! all of its facts, and blocked in the interrupted context; on the way out the mask is restored and
//! the kernel delivers it as if it had come just then. So nothing is paid where no signal arrives.

mod actions;
mod masks;
mod stops;

pub use actions::{give_back, has_taken_over, hook_action, interrupting, take_over};
pub use masks::{hook_mask, open_faults};
pub use stops::{before_sleep, before_write};

use crate::thread::{self, Thread};
use crate::{guarded, raw};
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::sync::atomic::{Ordering, compiler_fence};

/// Bytes of the kernel's signal set.
const SET_BYTES: usize = 8;
/// libc's own signals (thread cancellation, `setuid` in all threads): never touched.
const OF_LIBC: [c_int; 2] = [32, 33];
/// Signals that instructions raise: they cannot wait, and blocked ones kill.
const OF_INSTRUCTIONS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];
/// Bit of `pending`: the mask is to be restored. The others are bits of signals to raise again, or to stop by.
const MASKED: u32 = 1;

/// A signal's bit in a set.
const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

const fn deferred_set() -> u64 {
    let mut set = u64::MAX;
    let mut at = 0;
    while at < OF_INSTRUCTIONS.len() {
        set &= !bit(OF_INSTRUCTIONS[at]);
        at += 1;
    }
    set & !bit(OF_LIBC[0]) & !bit(OF_LIBC[1])
}

/// What is blocked while a signal waits for its thread to leave the engine.
const DEFERRED: u64 = deferred_set();

/// The one handler that the kernel knows.
///
/// # Safety
/// Called by the kernel, with a handler's arguments.
unsafe extern "C-unwind" fn trampoline(
    signal: c_int,
    information: *mut siginfo_t,
    context: *mut c_void,
) {
    let thread = thread::current();
    // SAFETY: the kernel's arguments.
    let raised = OF_INSTRUCTIONS.contains(&signal) && unsafe { (*information).si_code } > 0;
    if raised {
        // SAFETY: as above.
        let ours = unsafe {
            egeria_media::guard::handle(signal, information, context)
                || guarded::handle(context.cast())
        };
        if ours {
            return;
        }
    } else if stops::is_continue(signal) {
        return;
    } else if thread.has(thread::INSIDE) {
        // SAFETY: as above.
        unsafe { defer(thread, signal, information, context.cast()) };
        return;
    }
    actions::deliver(thread, signal, information, context, raised);
}

/// # Safety
/// In a handler, with its arguments.
unsafe fn defer(
    thread: &Thread,
    signal: c_int,
    information: *const siginfo_t,
    context: *mut ucontext_t,
) {
    if OF_INSTRUCTIONS.contains(&signal) {
        // Sent by somebody, not raised: cannot be blocked here, so it is sent again at the exit.
        thread.pending.fetch_or(1 << signal, Ordering::Relaxed);
        return;
    }
    // No handler interrupts from here on. One that did before has returned with all blocked, and its
    // idea of the mask to restore is overwritten by this outer one.
    raw::signal_mask(
        libc::SIG_SETMASK,
        &DEFERRED,
        std::ptr::null_mut(),
        SET_BYTES,
    );
    // SAFETY: the kernel's set begins libc's larger one.
    let mask = unsafe { &mut *(&raw mut (*context).uc_sigmask).cast::<u64>() };
    thread.saved_mask.store(*mask, Ordering::Relaxed);
    thread.pending.fetch_or(MASKED, Ordering::Relaxed);
    *mask |= DEFERRED;
    if stops::is_stop(signal) {
        // Not queued again: that would undo a SIGCONT that came since.
        thread.pending.fetch_or(1 << signal, Ordering::Relaxed);
        return;
    }
    let (process, id) = (raw::getpid(), raw::gettid());
    if raw::queue_signal(process, id, signal, information) < 0 {
        raw::tgkill(process, id, signal);
    }
}

/// The thread left the engine: what waited is delivered now.
#[cold]
#[inline(never)]
pub fn deliver_pending(thread: &Thread) {
    let pending = thread.pending.swap(0, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    for signal in OF_INSTRUCTIONS {
        if pending & (1 << signal) != 0 {
            raw::tgkill(raw::getpid(), raw::gettid(), signal);
        }
    }
    for signal in stops::SIGNALS {
        if pending & (1 << signal) != 0 {
            stops::stop(signal);
        }
    }
    if pending & MASKED != 0 {
        let mask = thread.saved_mask.load(Ordering::Relaxed);
        raw::signal_mask(libc::SIG_SETMASK, &mask, std::ptr::null_mut(), SET_BYTES);
    }
}
