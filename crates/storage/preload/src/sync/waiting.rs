//! Waiting, waking, and barriers between threads.

use crate::system::{libc_threads, raw};
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

const MEMBARRIER_PRIVATE_EXPEDITED: i32 = 1 << 3;

/// Turns a waiter makes before it sleeps.
pub const SPINS: u32 = 100;

/// Sleep while the word has this value, or for no reason.
pub fn wait(word: &AtomicU32, value: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    raw::futex(word.as_ptr(), operation, value, std::ptr::null());
}

/// Wake one that sleeps on the word.
pub fn wake_one(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    raw::futex(word.as_ptr(), operation, 1, std::ptr::null());
}

/// A full barrier against whoever calls [`heavy_barrier`], for nothing.
#[inline(always)]
pub fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// Every running thread of this process passes a full barrier; false when the kernel refused.
pub fn heavy_barrier() -> bool {
    libc_threads::alone() || raw::membarrier(MEMBARRIER_PRIVATE_EXPEDITED, 0) >= 0
}

/// Wait a little, and longer with each round.
pub fn pause(round: &mut u32) {
    *round += 1;
    match *round {
        0..100 => std::hint::spin_loop(),
        100..200 => {
            raw::sched_yield();
        }
        _ => {
            let time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 100_000,
            };
            raw::nanosleep(&raw const time, std::ptr::null_mut());
        }
    }
}
