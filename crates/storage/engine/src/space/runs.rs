//! Runs of bits in the maps of free space: setting, clearing, finding.

use std::sync::atomic::{AtomicU64, Ordering};

/// Set or clear a run of bits; returns how many changed.
pub(crate) fn change_bits(map: &[AtomicU64], start: u64, count: u64, set: bool) -> u64 {
    let mut changed = 0;
    let mut bit = start;
    let end = start + count;
    while bit < end {
        let within = bit % 64;
        let run = (64 - within).min(end - bit);
        let mask = if run == 64 {
            u64::MAX
        } else {
            ((1 << run) - 1) << within
        };
        let word = &map[(bit / 64) as usize];
        // The group's lock is held, and no other group shares this word: groups are multiples of 64 blocks.
        let old = word.load(Ordering::Relaxed);
        let new = if set { old | mask } else { old & !mask };
        word.store(new, Ordering::Release);
        changed += (old ^ new).count_ones() as u64;
        bit += run;
    }
    changed
}

/// First run of at least `want` clear bits in `start..end`, else the longest of the first `tries` runs; `align` is the
/// alignment of its beginning. Bounded, because a fragmented map has thousands of useless runs.
pub(crate) fn find_run(
    map: &[AtomicU64],
    start: u64,
    end: u64,
    want: u64,
    align: u64,
    tries: u64,
) -> Option<(u64, u64)> {
    let mut best: Option<(u64, u64)> = None;
    let mut bit = start;
    let mut tries = tries;
    while bit < end && tries > 0 {
        let word = map[(bit / 64) as usize].load(Ordering::Relaxed) >> (bit % 64);
        if word & 1 == 1 {
            bit += (word.trailing_ones() as u64).min(64 - bit % 64);
            continue;
        }
        let run_start = bit;
        while bit < end {
            let word = map[(bit / 64) as usize].load(Ordering::Relaxed) >> (bit % 64);
            let room = 64 - bit % 64;
            let clear = (word.trailing_zeros() as u64).min(room);
            bit += clear;
            if clear < room || bit - run_start >= want + align {
                break;
            }
        }
        let run_end = bit.min(end);
        let aligned = run_start.next_multiple_of(align);
        if aligned + want <= run_end {
            return Some((aligned, want));
        }
        let length = run_end - run_start;
        if best.is_none_or(|(_, longest)| length > longest) {
            best = Some((run_start, length.min(want)));
        }
        tries -= 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(bits: &[(u64, u64)], words: usize) -> Vec<AtomicU64> {
        let map: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        for (start, count) in bits {
            assert_eq!(change_bits(&map, *start, *count, true), *count);
        }
        map
    }

    #[test]
    fn a_run_across_words_is_found_whole() {
        let map = map(&[(0, 60), (200, 56)], 4);
        assert_eq!(find_run(&map, 0, 256, 140, 1, 64), Some((60, 140)));
    }

    #[test]
    fn the_longest_run_is_offered_when_none_is_long_enough() {
        let map = map(&[(10, 10), (50, 206)], 4);
        assert_eq!(find_run(&map, 0, 256, 64, 1, 64), Some((20, 30)));
    }

    #[test]
    fn a_full_map_offers_nothing() {
        let map = map(&[(0, 256)], 4);
        assert_eq!(find_run(&map, 0, 256, 1, 1, 64), None);
    }

    #[test]
    fn long_runs_begin_at_a_huge_page() {
        let map = map(&[(0, 5)], 64);
        assert_eq!(find_run(&map, 0, 4096, 512, 512, 64), Some((512, 512)));
    }
}
