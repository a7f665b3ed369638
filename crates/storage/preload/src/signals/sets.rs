//! Sets of signals, as the kernel takes them.

use crate::system::raw;
use libc::{c_int, sigaction};

/// Bytes of the kernel's signal set.
pub const SET_BYTES: usize = 8;
/// libc's own signals (thread cancellation, `setuid` in all threads): never touched.
pub const OF_LIBC: [c_int; 2] = [32, 33];
/// Signals that instructions raise: they cannot wait, and blocked ones kill.
pub const OF_INSTRUCTIONS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];
/// A signal's bit in a set.
pub const fn bit(signal: c_int) -> u64 {
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
pub const DEFERRED: u64 = deferred_set();

/// Whether a signal to continue came after a signal to stop. All is blocked since, and what came before
/// the stop signal went when that was sent.
pub fn is_over() -> bool {
    let mut pending = 0;
    raw::pending(&raw mut pending, SET_BYTES) >= 0 && pending & bit(libc::SIGCONT) != 0
}

/// The default action, with no flags and nothing masked.
pub const fn default_action() -> sigaction {
    // SAFETY: all-zero is a sigaction: SIG_DFL, an empty set.
    unsafe { std::mem::zeroed() }
}
