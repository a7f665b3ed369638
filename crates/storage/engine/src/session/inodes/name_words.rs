//! Words of a directory's table: where the log has a name, and a part of the name's hash.
//!
//! ```text
//! hash of the name, upper part │ pool │ block │ line
//! ```
//!
//! A place takes only as many bits as the volume's pools need. All others are bits of the hash. These also say where in
//! a table a word belongs, so a table grows without a look at the names.

use crate::format::LogPosition;
use egeria_media::{BlockNumber, PoolIndex};

/// A name was here and is removed.
pub(crate) const TOMBSTONE: u64 = 1;
/// Entries begin at lines below 64.
const LINE_BITS: u32 = 6;

/// How the words of a volume's directories are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameWords {
    block_bits: u32,
    place_bits: u32,
}

fn bits_below(count: u64) -> u32 {
    u64::BITS - count.saturating_sub(1).leading_zeros()
}

impl NameWords {
    /// For pools of these sizes in blocks and inodes, as all processes see them.
    pub(crate) fn new(pools: &[(u64, u64)]) -> NameWords {
        let blocks = pools.iter().map(|(blocks, _)| *blocks).max();
        let block_bits = bits_below(blocks.unwrap_or(0));
        NameWords {
            block_bits,
            place_bits: LINE_BITS + block_bits + bits_below(pools.len() as u64),
        }
    }

    fn place(self, position: LogPosition) -> u64 {
        let block = u64::from(position.pool().0) << self.block_bits | position.block().0;
        block << LINE_BITS | u64::from(position.line())
    }

    /// The word of a name. It is neither 0 nor [`TOMBSTONE`], because block 0 holds no log.
    #[inline]
    pub(crate) fn word(self, hash: u64, position: LogPosition) -> u64 {
        hash >> self.place_bits << self.place_bits | self.place(position)
    }

    /// The place that a word names.
    #[inline]
    pub(crate) fn position(self, word: u64) -> LogPosition {
        let line = word & ((1 << LINE_BITS) - 1);
        let block = word >> LINE_BITS & ((1 << self.block_bits) - 1);
        let pool = (word & ((1 << self.place_bits) - 1)) >> (LINE_BITS + self.block_bits);
        LogPosition::new(PoolIndex(pool as u8), BlockNumber(block), line as u8)
    }

    /// Whether a word may be of a name with this hash.
    #[inline]
    pub(crate) fn may_be(self, word: u64, hash: u64) -> bool {
        (word ^ hash) >> self.place_bits == 0
    }

    /// Where in a table a search for this hash begins; the caller takes as many low bits as the table has.
    #[inline]
    pub(crate) fn start(self, hash: u64) -> usize {
        hash.rotate_right(self.place_bits) as usize
    }

    /// Where in a table of so many words a word belongs; `None`: the word has too little of the hash.
    pub(crate) fn start_of(self, word: u64, words: usize) -> Option<usize> {
        let known = u64::BITS - self.place_bits;
        (bits_below(words as u64) <= known).then_some((word >> self.place_bits) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pools: usize, blocks: u64) -> NameWords {
        NameWords::new(&vec![(blocks, 1); pools])
    }

    #[test]
    fn a_word_holds_the_last_place_of_the_largest_volume() {
        for (pools, blocks) in [(1, 2048), (2, 2049), (16, 1 << 40)] {
            let words = of(pools, blocks);
            for hash in [0, 0x0123_4567_89ab_cdef, u64::MAX] {
                let last = (PoolIndex(pools as u8 - 1), BlockNumber(blocks - 1));
                let position = LogPosition::new(last.0, last.1, 63);
                let word = words.word(hash, position);
                assert_eq!(words.position(word), position);
                assert!(word > TOMBSTONE && words.may_be(word, hash));
                assert!(!words.may_be(word, hash ^ 1 << 63));
            }
        }
    }

    #[test]
    fn a_word_belongs_where_its_hash_is_searched() {
        let words = of(2, 1 << 20);
        let position = LogPosition::new(PoolIndex(1), BlockNumber(300), 5);
        let slots = 1 << 20;
        for hash in [0x0123_4567_89ab_cdef_u64, u64::MAX, 1 << 60] {
            let start = words.start_of(words.word(hash, position), slots);
            let start = start.expect("enough of the hash");
            assert_eq!(start % slots, words.start(hash) % slots);
        }
        assert_eq!(of(16, 1 << 40).start_of(0, 1 << 15), None);
    }
}
