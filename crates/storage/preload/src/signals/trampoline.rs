//! The one handler that the kernel knows, and what it does with a signal that meets its thread in the engine.
//!
//! From the first attach on, the kernel knows [`trampoline()`] alone; the program sees its own handlers
//! in `sigaction`. A signal that meets a thread inside the engine is queued to the thread again, with
//! all of its facts, and blocked in the interrupted context; on the way out the mask is restored and
//! the kernel delivers it as if it had come just then. So nothing is paid where no signal arrives.

use super::sets::{DEFERRED, OF_INSTRUCTIONS, SET_BYTES};
use super::{actions, delivery, masks, stops};
use crate::system::{guarded_copy, raw};
use crate::thread::{self, Thread};
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::sync::atomic::{Ordering, compiler_fence};

/// Bit of `pending`: the mask is to be restored. The others are bits of signals to raise again, or to stop by.
const MASKED: u32 = 1;

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
        // SAFETY: in a handler, with the arguments that the kernel gave.
        let ours = unsafe {
            egeria_media::guard::handle(signal, information, context)
                || guarded_copy::handle(context.cast())
        };
        if ours {
            return;
        }
    } else if stops::is_continue(signal) {
        return;
    } else if thread.has(thread::INSIDE) {
        let context: *mut ucontext_t = context.cast();
        // SAFETY: the kernel's arguments; its set begins libc's larger one.
        let mask = unsafe { &mut *(&raw mut (*context).uc_sigmask).cast::<u64>() };
        defer(thread, signal, information, mask);
        return;
    }
    delivery::deliver(thread, signal, information, context, raised);
}

/// In a handler, with its arguments; `mask` is what holds when it returns.
fn defer(thread: &Thread, signal: c_int, information: *const siginfo_t, mask: &mut u64) {
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

/// Put the trampoline between the kernel and every handler that is there. Once; false on refusal.
pub fn take_over() -> bool {
    thread::set_delivery(deliver_pending);
    actions::take_over(trampoline)
}

/// The library leaves: the kernel knows the program's handlers again, and the caller's mask is what the
/// program made it.
pub fn give_back(thread: &Thread) {
    if actions::give_back(stops::forget) {
        masks::close_faults(thread);
    }
}

/// The calling thread opens the pools for a store: true when they stay open until it leaves the engine.
pub fn close_pools_later() -> bool {
    let thread = thread::current();
    let is_inside = thread.has(thread::INSIDE);
    if is_inside {
        thread.pools_open.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }
    is_inside
}

/// The thread left the engine: what waited is delivered now.
fn deliver_pending(thread: &Thread) {
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
