//! Runs of a file's blocks, and the log entries that map them.

use crate::format::{Entry, Extent, MAX_SUMS, WriteEntry};
use crate::session::inode::Locked;
use egeria_media::{BlockNumber, PoolIndex};

/// A run of a file's blocks, as an entry maps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) file_block: u64,
    pub(crate) count: u64,
    pub(crate) pool: PoolIndex,
    pub(crate) block: BlockNumber,
    pub(crate) unwritten: bool,
    /// Number of its first checksum among those of the operation, if the file has some.
    pub(crate) sums_at: usize,
}

impl Mapping {
    /// Of new blocks that have been written.
    #[inline]
    pub(crate) fn to(new: Extent, file_block: u64, sums_at: usize) -> Mapping {
        Mapping {
            file_block,
            count: new.count,
            pool: new.pool,
            block: new.block,
            unwritten: false,
            sums_at,
        }
    }

    /// Of an entry that was read; its checksums are in the entry.
    pub(crate) fn of(write: &WriteEntry<'_>) -> Mapping {
        Mapping {
            file_block: write.file_block,
            count: write.count,
            pool: write.pool,
            block: write.block,
            unwritten: write.unwritten,
            sums_at: 0,
        }
    }

    /// The entry that maps it, in a file without checksums.
    #[inline]
    pub(crate) fn entry(&self, size_bytes: u64, touches_mtime: bool) -> Entry<'static> {
        Entry::Write(self.written(size_bytes, touches_mtime))
    }

    /// The content of that entry.
    #[inline]
    pub(crate) fn written(&self, size_bytes: u64, touches_mtime: bool) -> WriteEntry<'static> {
        WriteEntry {
            file_block: self.file_block,
            count: self.count,
            pool: self.pool,
            block: self.block,
            size_bytes,
            unwritten: self.unwritten,
            touches_mtime,
            sums: &[],
        }
    }
}

impl Locked<'_> {
    /// How many blocks of these runs the file does not have so far.
    pub(crate) fn unmapped_blocks(&self, mappings: &[Mapping]) -> u64 {
        let index = self.index();
        let blocks = |mapping: &Mapping| mapping.file_block..mapping.file_block + mapping.count;
        let all = mappings.iter().flat_map(blocks);
        all.filter(|block| !index.load(*block).is_mapped()).count() as u64
    }
}

/// The entries of a mapping: one, or as many as its checksums need.
pub(crate) fn entries_of<'s>(
    mapping: Mapping,
    sums: &'s [u8],
    size_bytes: u64,
    touches_mtime: bool,
) -> impl Iterator<Item = Entry<'s>> {
    let most = match sums {
        [] => u64::MAX,
        _ => MAX_SUMS,
    };
    let pieces = mapping.count.div_ceil(most).max(1);
    (0..pieces).map(move |piece| {
        let first = piece * most;
        let count = (mapping.count - first).min(most);
        let end = sums.len().min(4 * (first + count) as usize);
        Entry::Write(WriteEntry {
            file_block: mapping.file_block + first,
            count,
            pool: mapping.pool,
            block: BlockNumber(mapping.block.0 + first),
            size_bytes,
            unwritten: mapping.unwritten,
            touches_mtime,
            sums: &sums[end.min(4 * first as usize)..end],
        })
    })
}
