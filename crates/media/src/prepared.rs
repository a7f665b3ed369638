//! Pages of pools in DRAM that are mapped before they are used. A page that a process touches for the first time is a
//! fault, and one of a pool that nobody used yet costs five times the copy that it is for; the kernel maps many at once
//! for a third of that.

use crate::address::{BLOCK_BYTES, BlockNumber};
use crate::map::Persistence;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Blocks that are prepared once in the life of the mapping.
const PART_BLOCKS: u64 = 64;

/// Which parts of a pool this process has prepared: hints, so nothing orders them.
pub(crate) struct Prepared {
    /// A bit per part; empty where nothing is prepared.
    parts: Box<[AtomicU64]>,
    /// A process that writes little is not to pay for more.
    is_worth_it: AtomicBool,
}

impl Prepared {
    pub(crate) fn new(persistence: Persistence, bytes: u64) -> Prepared {
        let parts = match persistence {
            Persistence::Volatile => bytes.div_ceil(PART_BLOCKS * BLOCK_BYTES),
            // Of DAX each page is there, and of the page cache it is read.
            Persistence::Dax | Persistence::PageCache => 0,
        };
        Prepared {
            parts: (0..parts.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            is_worth_it: AtomicBool::new(false),
        }
    }

    /// Ranges of these blocks, each in a part that this process was not given before; none at the first call.
    pub(crate) fn next_ranges(
        &self,
        first: BlockNumber,
        end: BlockNumber,
    ) -> impl Iterator<Item = Range<u64>> + '_ {
        let has_parts = !self.parts.is_empty();
        let is_worth_it = has_parts && self.is_worth_it.swap(true, Ordering::Relaxed);
        let last = match is_worth_it {
            true => end.0.div_ceil(PART_BLOCKS),
            false => 0,
        };
        (first.0 / PART_BLOCKS..last)
            .filter(|part| self.is_new(*part))
            .map(move |part| {
                let begin = part * PART_BLOCKS;
                first.0.max(begin)..end.0.min(begin + PART_BLOCKS)
            })
    }

    /// Whether this process asks for a part the first time.
    fn is_new(&self, part: u64) -> bool {
        let bit = 1 << (part % 64);
        let word = self.parts.get((part / 64) as usize);
        word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Pool};

    /// Pages of the pool's file that have memory.
    fn pages(path: &std::path::Path) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let facts = std::fs::metadata(path).expect("the pool's file");
        facts.blocks() * 512 / BLOCK_BYTES
    }

    #[test]
    fn parts_of_a_pool_in_dram_are_mapped_once_and_no_more_than_asked_for() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file on tmpfs");
        file.as_file().set_len(1024 * BLOCK_BYTES).expect("room");
        let pool = Pool::open(file.path(), Access::ReadWrite).expect("a pool");
        pool.prepare(BlockNumber(0), 64);
        assert_eq!(pages(file.path()), 0, "the first is left to faults");
        pool.prepare(BlockNumber(96), 64);
        assert_eq!(pages(file.path()), 64);
        pool.prepare(BlockNumber(96), 64);
        pool.prepare(BlockNumber(70), 10);
        assert_eq!(pages(file.path()), 64, "of these parts there is enough");
        pool.prepare(BlockNumber(1000), 64);
        assert_eq!(pages(file.path()), 64 + 24, "no further than the pool");
    }

    #[test]
    fn pools_for_reading_are_left_alone() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file on tmpfs");
        file.as_file().set_len(256 * BLOCK_BYTES).expect("room");
        let pool = Pool::open(file.path(), Access::ReadOnly).expect("a pool");
        for _ in 0..2 {
            pool.prepare(BlockNumber(0), 64);
        }
        assert_eq!(pages(file.path()), 0);
    }
}
