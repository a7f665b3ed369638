//! Turns faults in pool memory and in callers' buffers into errors, so that they do not kill the process.
//!
//! A pool's file may be truncated under its mapping, media may fail, and the buffers of an interposed `read` or
//! `write` may be invalid. Every access to either goes through a few routines (`routines.rs`). When one of them
//! faults, [`handle`] makes it return the faulting address. The caller tells from that address whether pool or buffer
//! failed. Every other fault is passed to the earlier handler, with the semantics it was installed with.
//!
//! A synchronous fault while its signal is blocked kills the process whatever the handler: a thread that masks signals
//! around accesses must leave out SIGSEGV and SIGBUS.

mod chain;
mod features;
pub(crate) mod lines;
pub(crate) mod routines;

use libc::{c_int, c_void, siginfo_t, ucontext_t};

pub use chain::install;
pub use routines::{FlushInstruction, flush_instruction};

/// The signals that faults arrive as.
pub const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Takes a fault that one of the guarded routines met: true when it was ours, and the handler must then return at
/// once. False: the fault did not come from our routines.
/// Async-signal-safe. For handlers installed by others; [`install`] uses it too.
///
/// # Safety
/// Call it only from a signal handler installed with `SA_SIGINFO`, with its arguments.
pub unsafe fn handle(signal: c_int, information: *mut siginfo_t, context: *mut c_void) -> bool {
    if !SIGNALS.contains(&signal) || information.is_null() || context.is_null() {
        return false;
    }
    // SAFETY: not null, and what the kernel passed to a handler with `SA_SIGINFO`.
    let (code, address, registers) = unsafe {
        let context = context.cast::<ucontext_t>();
        (
            (*information).si_code,
            (*information).si_addr() as usize,
            &mut (*context).uc_mcontext.gregs,
        )
    };
    // Signals sent by processes carry no address: si_code is not positive.
    if code <= 0 {
        return false;
    }
    let at = registers[libc::REG_RIP as usize] as usize;
    let Some(end) = end_of(at) else { return false };
    registers[libc::REG_RIP as usize] = end as i64;
    // 0 means success, and the kernel reports 0 for non-canonical addresses.
    registers[libc::REG_RAX as usize] = address.max(1) as i64;
    true
}

/// Where a routine that faulted at an instruction continues; `None` outside of the routines.
fn end_of(instruction: usize) -> Option<usize> {
    let at = |symbol: unsafe extern "C" fn()| symbol as usize;
    if !(at(routines::egeria_media_guard_start)..at(routines::egeria_media_guard_end))
        .contains(&instruction)
    {
        return None;
    }
    Some(if instruction >= at(routines::egeria_media_guard_avx) {
        at(routines::egeria_media_guard_end_avx)
    } else {
        at(routines::egeria_media_guard_end_sse)
    })
}

#[cfg(test)]
mod tests;
