//! Stripes: the data of a file over all pools, so that all nodes work on it (OdinFS §4).
//!
//! A layout is set by an attribute on a directory or on a file without data, and inherited: a new inode gets its
//! directory's layout in its certificate. The layout decides where new data goes. Only the index says where data is,
//! so no reader depends on the layout. Blocks that found no room on their pool may be elsewhere.

use crate::format::{BLOCK, LayoutWord};

/// The attribute of directories and files.
pub(crate) const ATTRIBUTE: &[u8] = b"user.egeria.layout";
/// Blocks of a stripe by default: 32 KiB, as in OdinFS.
pub(crate) const DEFAULT_STRIPE_BLOCKS: u32 = 8;

const LOCAL: &[u8] = b"local";
const STRIPED_VALUE: &[u8] = b"striped";

/// Where the stripes of a file go: round robin. The first pool depends on the file, so that small files are spread,
/// too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripes {
    /// Blocks of a stripe.
    pub(crate) blocks: u64,
    /// Pools of the volume.
    pub(crate) pools: u64,
}

impl Stripes {
    /// Index of the pool for a block.
    #[inline]
    pub(crate) fn pool_of(self, ino: u64, file_block: u64) -> usize {
        // Numbers of one pool's inodes are 16 apart. They are mixed, because otherwise all files would begin at one
        // pool.
        let start = ino.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        ((start + file_block / self.blocks) % self.pools) as usize
    }

    /// The first block after the stripe of a block.
    #[inline]
    pub(crate) fn end_of_stripe(self, file_block: u64) -> u64 {
        (file_block / self.blocks + 1) * self.blocks
    }
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
}
