//! Probable places of a file's blocks, per process. A read begins its copy at the guessed place while the index word
//! is still being loaded; in a large file that word is not in the caches.
//!
//! An entry remembers the place of 16 neighbours as if they lay in a row. A guess is used only after the index word
//! was seen to say the same. The branch in between is predicted; that is the gain. So a wrong or torn guess costs only
//! time, and entries are never kept up to date.

use crate::format::BlockWord;
use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering};

/// 128 KiB: the neighbourhoods of 1 GiB of files.
const ENTRIES: usize = 1 << 14;
const NEIGHBOURS: u64 = 16;

/// The table. Its memory is touched only for files that were read.
pub(crate) struct Guesses {
    entries: Box<[AtomicU64; ENTRIES]>,
}

impl Guesses {
    pub(crate) fn new() -> Guesses {
        // Zeroed memory, which costs nothing until touched.
        let zeroed = Box::<[AtomicU64; ENTRIES]>::new_zeroed();
        Guesses {
            // SAFETY: zero is an AtomicU64.
            entries: unsafe { zeroed.assume_init() },
        }
    }

    #[inline]
    fn entry(&self, ino: u64, file_block: u64) -> &AtomicU64 {
        // Files start far from each other; neighbourhoods of one file follow each other.
        let start = ino.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.entries[(start.wrapping_add(file_block / NEIGHBOURS) as usize) % ENTRIES]
    }

    /// The probable place of a block. The compiler cannot know that it equals the word it is compared with, so
    /// computations from it do not wait for the index word.
    #[inline]
    pub(crate) fn guess(&self, ino: u64, file_block: u64) -> BlockWord {
        let first = self.entry(ino, file_block).load(Ordering::Relaxed);
        let mut place = BlockWord(first.wrapping_add(file_block % NEIGHBOURS)).place();
        // SAFETY: no instruction at all; it only hides where the value came from.
        unsafe {
            asm!("/* {0} */", inout(reg) place.0, options(pure, nomem, nostack, preserves_flags))
        };
        place
    }

    /// A block's place was another one.
    #[cold]
    #[inline(never)]
    pub(crate) fn learn(&self, ino: u64, file_block: u64, word: BlockWord) {
        let first = word.place().0.wrapping_sub(file_block % NEIGHBOURS);
        self.entry(ino, file_block).store(first, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_media::{BlockNumber, PoolIndex};

    #[test]
    fn neighbours_of_a_block_that_was_found_are_guessed_in_a_row() {
        let guesses = Guesses::new();
        let word = |block: u64| BlockWord::new(PoolIndex(3), BlockNumber(block), false, 7);
        guesses.learn(5, 37, word(1005));
        for (file_block, block) in [(32, 1000), (37, 1005), (47, 1015)] {
            assert_eq!(guesses.guess(5, file_block), word(block).place());
        }
        // Other neighbourhoods and files are not touched.
        assert_ne!(guesses.guess(5, 48), word(1016).place());
        assert_ne!(guesses.guess(6, 37), word(1005).place());
    }

    #[test]
    fn guess_before_its_neighbourhood_does_not_overflow() {
        let guesses = Guesses::new();
        let word = BlockWord::new(PoolIndex(0), BlockNumber(2), false, 1);
        guesses.learn(1, 15, word);
        assert_eq!(guesses.guess(1, 15), word.place());
    }
}
