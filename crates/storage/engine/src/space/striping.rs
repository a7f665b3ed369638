//! Stripes: the data of a file over all pools, so that all nodes work on it (OdinFS §4).
//!
//! A layout is set by an attribute on a directory or on a file without data, and inherited: a new inode gets its
//! directory's layout in its certificate. The layout decides where new data goes. Only the index says where data is,
//! so no reader depends on the layout. Blocks that found no room on their pool may be elsewhere.

use crate::format::{BLOCK, LayoutWord};
use egeria_machine::{NodeId, turns, weights};
use std::sync::atomic::{AtomicU8, Ordering};

/// The attribute of directories and files.
pub(crate) const ATTRIBUTE: &[u8] = b"user.egeria.layout";
/// Blocks of a stripe by default: 32 KiB, as in OdinFS.
pub(crate) const DEFAULT_STRIPE_BLOCKS: u32 = 8;

const LOCAL: &[u8] = b"local";
const STRIPED_VALUE: &[u8] = b"striped";

/// Where the stripes of a file go: round robin, or in turns by what the pools' memories give. The first pool depends on
/// the file, so that small files are spread, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripes<'a> {
    /// Blocks of a stripe.
    pub(crate) blocks: u64,
    /// Pools of the volume.
    pub(crate) pools: u64,
    /// Pools in turn; empty: each once.
    pub(crate) turns: &'a [AtomicU8],
}

impl Stripes<'_> {
    /// Index of the pool for a block.
    #[inline]
    pub(crate) fn pool_of(self, ino: u64, file_block: u64) -> usize {
        // Numbers of one pool's inodes are 16 apart. They are mixed, because otherwise all files would begin at one
        // pool.
        let start = ino.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let stripe = start + file_block / self.blocks;
        if self.turns.is_empty() {
            return (stripe % self.pools) as usize;
        }
        let turn = &self.turns[(stripe % self.turns.len() as u64) as usize];
        // Other processes can write to the session's memory.
        (u64::from(turn.load(Ordering::Relaxed)) % self.pools) as usize
    }

    /// The first block after the stripe of a block.
    #[inline]
    pub(crate) fn end_of_stripe(self, file_block: u64) -> u64 {
        (file_block / self.blocks + 1) * self.blocks
    }
}

/// The order in which stripes go to pools of these bandwidths, each as often as its weight says; empty where each has its
/// turn, or where a bandwidth is not known.
pub(crate) fn turns_of(bandwidths: &[f64], max_turns: usize) -> Vec<u8> {
    let weights = weights(bandwidths);
    let all: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
    if weights.is_empty() || weights.iter().all(|weight| *weight == weights[0]) {
        return Vec::new();
    }
    let pools = (0..).map(NodeId);
    let weighted: Vec<(NodeId, u8)> = if all <= max_turns {
        pools.zip(weights).collect()
    } else {
        // Smaller weights in nearly the same proportion, none of them 0.
        let most = max_turns.saturating_sub(weights.len());
        let less = |weight: &u8| (usize::from(*weight) * most / all).max(1) as u8;
        pools.zip(weights.iter().map(less)).collect()
    };
    let turns = turns(&weighted);
    turns.iter().map(|pool| pool.0 as u8).collect()
}

/// The layout of an attribute value; `None`: invalid.
pub(crate) fn parse(value: &[u8]) -> Option<LayoutWord> {
    if value == LOCAL {
        return Some(LayoutWord::LOCAL);
    }
    let rest = value.strip_prefix(STRIPED_VALUE)?;
    if rest.is_empty() {
        return Some(LayoutWord(DEFAULT_STRIPE_BLOCKS));
    }
    let digits = std::str::from_utf8(rest.strip_prefix(b":")?).ok()?;
    let bytes: u64 = digits.parse().ok()?;
    let blocks = u32::try_from(bytes / BLOCK as u64).ok()?;
    let word = LayoutWord(blocks);
    let is_whole = digits.starts_with(|first: char| first.is_ascii_digit())
        && bytes.is_multiple_of(BLOCK as u64);
    word.stripe_blocks().filter(|_| is_whole).map(|_| word)
}

/// The attribute value of a layout; `None` for an unspecified layout.
pub(crate) fn value_of(layout: LayoutWord) -> Option<Vec<u8>> {
    match layout {
        LayoutWord::UNSET => None,
        LayoutWord::LOCAL => Some(LOCAL.to_vec()),
        LayoutWord(blocks) => {
            Some(format!("striped:{}", blocks as u64 * BLOCK as u64).into_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_mean_stripes_or_nothing() {
        let word = |value: &str| parse(value.as_bytes()).map(|layout| layout.0);
        assert_eq!(word("local"), Some(u32::MAX));
        assert_eq!(word("striped"), Some(8));
        assert_eq!(word("striped:4096"), Some(1));
        assert_eq!(word("striped:1073741824"), Some(1 << 18));
        for nonsense in [
            "",
            "stripes",
            "striped:",
            "striped:0",
            "striped:-4096",
            "striped:+4096",
            "striped:4095",
            "striped:6000",
            "striped:64K",
            "striped:1073745920",
            "striped:18446744073709551616",
            "striped 4096",
            "Local",
        ] {
            assert_eq!(word(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn values_come_back() {
        for layout in [LayoutWord::LOCAL, LayoutWord(1), LayoutWord(1 << 18)] {
            assert_eq!(parse(&value_of(layout).expect("a value")), Some(layout));
        }
        assert_eq!(value_of(LayoutWord::UNSET), None);
    }

    #[test]
    fn stripes_go_round_the_pools() {
        let stripes = Stripes {
            blocks: 8,
            pools: 3,
            turns: &[],
        };
        let pools: Vec<usize> = (0..72).map(|block| stripes.pool_of(17, block)).collect();
        for (block, pool) in pools.iter().enumerate() {
            assert_eq!(*pool, pools[block / 8 * 8]);
            assert_eq!(
                stripes.end_of_stripe(block as u64),
                block as u64 / 8 * 8 + 8
            );
        }
        let firsts: Vec<usize> = pools.iter().step_by(8).copied().collect();
        for round in firsts.chunks(3) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, [0, 1, 2]);
        }
    }

    #[test]
    fn files_begin_on_all_pools() {
        let stripes = Stripes {
            blocks: 8,
            pools: 8,
            turns: &[],
        };
        let mut begun = [0; 8];
        for index in 0..8000 {
            begun[stripes.pool_of(index * 16 + 1, 0)] += 1;
        }
        assert!(
            begun.iter().all(|count| (800..1200).contains(count)),
            "{begun:?}"
        );
    }

    #[test]
    fn pools_that_give_more_get_more_stripes() {
        let turns = turns_of(&[400e9, 400e9, 100e9], 256);
        assert_eq!(turns.len(), 9);
        let table: Vec<AtomicU8> = turns.into_iter().map(AtomicU8::new).collect();
        let stripes = Stripes {
            blocks: 8,
            pools: 3,
            turns: &table,
        };
        let mut got = [0; 3];
        for stripe in 0..900 {
            got[stripes.pool_of(17, stripe * 8)] += 1;
        }
        assert_eq!(got, [400, 400, 100]);
    }

    #[test]
    fn pools_alike_or_unknown_have_a_turn_each() {
        assert_eq!(turns_of(&[5e9, 5e9], 256), [0; 0]);
        assert_eq!(turns_of(&[5e9, 0.0], 256), [0; 0]);
        assert_eq!(turns_of(&[], 256), [0; 0]);
    }

    #[test]
    fn many_turns_are_cut_and_no_pool_is_left_out() {
        let bandwidths: Vec<f64> = (1..=16).map(|pool| f64::from(pool) * 1e9 + 0.3e9).collect();
        let turns = turns_of(&bandwidths, 64);
        assert!(turns.len() <= 64, "{}", turns.len());
        assert!((0..16).all(|pool| turns.contains(&pool)), "{turns:?}");
        assert!(turns_of(&[400e9, 1e9], 256).contains(&1));
    }

    /// Whatever lies in the session's memory.
    #[test]
    fn a_forged_turn_is_a_pool() {
        let table = [AtomicU8::new(200)];
        let stripes = Stripes {
            blocks: 8,
            pools: 3,
            turns: &table,
        };
        assert!(stripes.pool_of(17, 0) < 3);
    }
}
