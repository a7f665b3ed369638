//! Numbers of threads on an emulated machine: a bit each, taken and given back without a lock.

use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Take a number that is free, from 1; `None` when all are taken.
pub(crate) fn take(used: &[AtomicU64]) -> Option<u32> {
    for (index, word) in used.iter().enumerate() {
        let mut bits = word.load(Relaxed);
        while bits != u64::MAX {
            let bit = bits.trailing_ones();
            match word.compare_exchange(bits, bits | 1 << bit, Acquire, Relaxed) {
                Ok(_) => return Some(index as u32 * 64 + bit + 1),
                Err(present) => bits = present,
            }
        }
    }
    None
}

/// Give the number back; its next owner sees what was stored before.
pub(crate) fn give_back(used: &[AtomicU64], number: u32) {
    let index = number as usize - 1;
    used[index / 64].fetch_and(!(1 << (index % 64)), Release);
}
