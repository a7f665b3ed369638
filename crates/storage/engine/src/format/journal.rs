//! Redo journal slots: operations on two or more logs commit through one slot (DESIGN.md, "The log of an inode"). A
//! slot is one sealed word, followed by pairs of (place, value) words.

use super::*;
use egeria_media::{BlockNumber, PoolIndex, PoolOffset};

/// First block of the journal (pool 0).
pub const JOURNAL_BLOCK: BlockNumber = BlockNumber(5);
/// Slots of a volume; a thread's slot in the session has this index, too.
pub const JOURNAL_SLOTS: u64 = 4096;
pub const JOURNAL_SLOT_BYTES: u64 = 256;
/// Most words one operation changes.
pub const MAX_JOURNAL_PAIRS: usize = 15;
const JOURNAL_MAGIC: u64 = 0xE6E8;

/// One word to store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalPair {
    /// Pool of the word.
    pub pool: PoolIndex,
    /// Where in the pool; a multiple of 8.
    pub at: PoolOffset,
    pub value: u64,
}

pub fn journal_slot(index: u64) -> PoolOffset {
    JOURNAL_BLOCK.offset() + index * JOURNAL_SLOT_BYTES
}

/// The pairs as bytes, to be stored at slot + 16.
pub fn encode_journal_pairs(pairs: &[JournalPair]) -> Vec<u8> {
    let mut bytes = vec![0; pairs.len() * 16];
    for (index, pair) in pairs.iter().enumerate() {
        put_u64(
            &mut bytes,
            index * 16,
            ((pair.pool.0 as u64) << 56) | pair.at.0,
        );
        put_u64(&mut bytes, index * 16 + 8, pair.value);
    }
    bytes
}

/// The word that commits these pairs when it is stored at the slot's start.
pub fn journal_commit_word(slot: u64, encoded_pairs: &[u8]) -> u64 {
    let crc = super::checksum::crc32c_append(slot as u32, encoded_pairs) as u64;
    (JOURNAL_MAGIC << 48) | ((encoded_pairs.len() as u64 / 16) << 32) | crc
}

/// Number of pairs in a commit word, if the word is valid.
pub fn journal_pair_count(word: u64) -> Option<usize> {
    let count = ((word >> 32) & 0xffff) as usize;
    (word >> 48 == JOURNAL_MAGIC && count > 0 && count <= MAX_JOURNAL_PAIRS).then_some(count)
}

/// Decode the pairs read with a commit word; `None` when the word does not match them.
pub fn decode_journal_pairs(slot: u64, word: u64, bytes: &[u8]) -> Option<Vec<JournalPair>> {
    if journal_commit_word(slot, bytes) != word {
        return None;
    }
    Some(
        bytes
            .chunks_exact(16)
            .map(|pair| {
                let place = get_u64(pair, 0);
                JournalPair {
                    pool: PoolIndex((place >> 56) as u8),
                    at: PoolOffset(place & ((1 << 56) - 1)),
                    value: get_u64(pair, 8),
                }
            })
            .collect(),
    )
}

const _: () = assert!(16 + MAX_JOURNAL_PAIRS as u64 * 16 <= JOURNAL_SLOT_BYTES);
