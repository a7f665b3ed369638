//! What this CPU offers for writing cache lines back, asked once.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::atomic::{AtomicU8, Ordering};

/// How a cache line is written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FlushInstruction {
    /// Writes back, may keep the line.
    Clwb = 1,
    /// Writes back and evicts, unordered.
    ClflushOpt = 2,
    /// Writes back and evicts, ordered; every x86-64 CPU.
    Clflush = 3,
}

static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The best instruction this CPU has.
#[inline]
pub fn flush_instruction() -> FlushInstruction {
    match CHOSEN.load(Ordering::Relaxed) {
        1 => FlushInstruction::Clwb,
        2 => FlushInstruction::ClflushOpt,
        3 => FlushInstruction::Clflush,
        _ => choose(),
    }
}

#[cold]
fn choose() -> FlushInstruction {
    let features = if __cpuid(0).eax >= 7 {
        __cpuid_count(7, 0).ebx
    } else {
        0
    };
    let chosen = if features & (1 << 24) != 0 {
        FlushInstruction::Clwb
    } else if features & (1 << 23) != 0 {
        FlushInstruction::ClflushOpt
    } else {
        FlushInstruction::Clflush
    };
    CHOSEN.store(chosen as u8, Ordering::Relaxed);
    chosen
}

/// Orders all earlier flushes and non-temporal stores before later stores.
#[inline]
pub(crate) fn store_fence() {
    // SAFETY: sfence has no operands and no effect but ordering.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}
