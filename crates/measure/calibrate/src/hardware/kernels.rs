//! The loops that are measured. All work on whole cache lines that belong to the caller.

use std::arch::x86_64::{
    __m128i, _mm_load_si128, _mm_set1_epi64x, _mm_setzero_si128, _mm_sfence, _mm_stream_si128,
    _mm_xor_si128,
};
use std::hint::black_box;
use std::ptr;

use egeria_stats::rng::Rng;

use crate::LINE_BYTES;

/// A cache line. Its first word is where a chain goes on.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; 8]);

const _: () = assert!(size_of::<Line>() == LINE_BYTES);

/// 16-byte words of a line.
const WORDS: usize = LINE_BYTES / size_of::<__m128i>();

/// Loads every byte.
pub(crate) fn read(lines: &[Line]) {
    // SAFETY: SSE2 is part of x86-64; the four words lie in the line, which is aligned to 64 bytes.
    unsafe {
        let mut sums = [_mm_setzero_si128(); WORDS];
        for line in lines {
            let words = ptr::from_ref(line).cast::<__m128i>();
            for (word, sum) in sums.iter_mut().enumerate() {
                *sum = _mm_xor_si128(*sum, _mm_load_si128(words.add(word)));
            }
        }
        black_box(sums);
    }
}

/// Stores every byte, through the caches.
pub(crate) fn write(lines: &mut [Line]) {
    // SAFETY: as in `read`, and the lines are ours alone.
    unsafe {
        let value = _mm_set1_epi64x(black_box(0x5a));
        for line in lines {
            let words = ptr::from_mut(line).cast::<__m128i>();
            for word in 0..WORDS {
                // Volatile: the compiler would make one call of it, which may go past the caches.
                words.add(word).write_volatile(value);
            }
        }
    }
}

/// Stores every byte past the caches, and waits until all are on their way.
pub(crate) fn write_nontemporal(lines: &mut [Line]) {
    begin_nontemporal(lines);
    wait_for_nontemporal();
}

/// Stores every byte past the caches, and waits for none.
pub(crate) fn begin_nontemporal(lines: &mut [Line]) {
    // SAFETY: as in `write`.
    unsafe {
        let value = _mm_set1_epi64x(black_box(0x5a));
        for line in lines {
            let words = ptr::from_mut(line).cast::<__m128i>();
            for word in 0..WORDS {
                _mm_stream_si128(words.add(word), value);
            }
        }
    }
}

/// Waits until all stores past the caches are on their way.
pub(crate) fn wait_for_nontemporal() {
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
}

/// Loads one half, and stores it to the other half past the caches.
pub(crate) fn copy_nontemporal(lines: &mut [Line]) {
    let middle = lines.len() / 2;
    let (from, to) = lines.split_at_mut(middle);
    // SAFETY: as in `write`; the halves do not overlap.
    unsafe {
        for (from, to) in from.iter().zip(to) {
            let from = ptr::from_ref(from).cast::<__m128i>();
            let to = ptr::from_mut(to).cast::<__m128i>();
            for word in 0..WORDS {
                _mm_stream_si128(to.add(word), _mm_load_si128(from.add(word)));
            }
        }
        _mm_sfence();
    }
}

/// Goes on along a chain for so many loads, each of which needs the one before; says where it ended.
pub(crate) fn chase(lines: &[Line], from: usize, hops: u32) -> usize {
    let mut at = from;
    for _ in 0..hops {
        at = lines[at].0[0] as usize;
    }
    black_box(at)
}

/// Lines that are linked between two looks at whether to stop.
const LINKED_LINES: usize = 1 << 16;

/// Makes the lines one chain that comes to each of them once, in random order (Sattolo's algorithm). That takes long for many:
/// `false` where somebody asked to stop.
#[must_use]
pub(crate) fn link_at_random(lines: &mut [Line], seed: u64, is_stopped: &dyn Fn() -> bool) -> bool {
    let mut rng = Rng::new(seed);
    for (index, line) in lines.iter_mut().enumerate() {
        line.0[0] = index as u64;
    }
    for last in (1..lines.len()).rev() {
        if last % LINKED_LINES == 0 && is_stopped() {
            return false;
        }
        let other = rng.index(last);
        let word = lines[last].0[0];
        lines[last].0[0] = lines[other].0[0];
        lines[other].0[0] = word;
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_chain_comes_to_every_line_once_and_back(count in 1..2000_usize, seed: u64) {
            let mut lines = vec![Line([7; 8]); count];
            prop_assert!(link_at_random(&mut lines, seed, &|| false));
            let mut seen = vec![false; count];
            let mut at = 0;
            for _ in 0..count {
                prop_assert!(!std::mem::replace(&mut seen[at], true));
                at = chase(&lines, at, 1);
            }
            prop_assert_eq!(at, 0);
            prop_assert_eq!(chase(&lines, 0, count as u32), 0);
        }
    }

    #[test]
    fn linking_many_lines_heeds_a_stop() {
        let mut lines = vec![Line([0; 8]); 2 * LINKED_LINES + 1];
        let looks = std::cell::Cell::new(0);
        let is_stopped = || looks.replace(looks.get() + 1) == 1;
        assert!(!link_at_random(&mut lines, 1, &is_stopped));
        assert_eq!(looks.get(), 2);
    }

    #[test]
    fn stores_reach_every_byte_and_no_other() {
        let kernels: [fn(&mut [Line]); 2] = [write, write_nontemporal];
        for kernel in kernels {
            let mut lines = vec![Line([1; 8]); 9];
            kernel(&mut lines[2..7]);
            let stored = |line: &Line| line.0 == [0x5a; 8];
            let untouched = |line: &Line| line.0 == [1; 8];
            assert!(lines[2..7].iter().all(stored));
            assert!(lines[..2].iter().chain(&lines[7..]).all(untouched));
        }
    }

    #[test]
    fn a_copy_brings_the_first_half_to_the_second() {
        let mut lines: Vec<Line> = (0..8).map(|line| Line([line; 8])).collect();
        copy_nontemporal(&mut lines);
        let words: Vec<u64> = lines.iter().map(|line| line.0[7]).collect();
        assert_eq!(words, [0, 1, 2, 3, 0, 1, 2, 3]);
    }
}
