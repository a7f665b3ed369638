//! Features of a CPU that the standard library does not report in full.

use std::arch::x86_64::{__cpuid, __cpuid_count};

/// Instructions that this CPU has, or executes fast.
pub(super) struct Features {
    pub(super) clwb: bool,
    pub(super) clflushopt: bool,
    pub(super) fast_strings: bool,
    pub(super) fast_short_strings: bool,
}

/// Leaf 7 of CPUID, which the standard library does not report in full.
pub(super) fn features() -> Features {
    let leaf = (__cpuid(0).eax >= 7).then(|| __cpuid_count(7, 0));
    let has = |register: u32, bit: u32| register & (1 << bit) != 0;
    Features {
        clwb: leaf.is_some_and(|leaf| has(leaf.ebx, 24)),
        clflushopt: leaf.is_some_and(|leaf| has(leaf.ebx, 23)),
        fast_strings: leaf.is_some_and(|leaf| has(leaf.ebx, 9)),
        fast_short_strings: leaf.is_some_and(|leaf| has(leaf.edx, 4)),
    }
}
