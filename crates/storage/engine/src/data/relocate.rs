//! Moving data of a file from one pool to another while the file is in use.
//!
//! 1. Data is copied without a lock, and committed only if nothing of the file changed since. A write during the copy
//!    wins, and the copy is discarded. So this suits files that are mostly read.
//! 2. One commit, as for a write: before it the data is at the old place, after it at the new place. Times do not
//!    change.
//! 3. Files written in place are not moved: their bytes change without a trace that could be checked. They are spread
//!    over the pools anyway.

use crate::data::{Reading, Relocating};
use crate::format::*;
use crate::log::Log;
use crate::log::mapping::{Mapping, entries_of};
use crate::log::staging::Staged;
use crate::session::access::{Access, Run};
use crate::session::index::Index;
use crate::session::inode::Locked;
use crate::session::layout::PENDING_EXTENTS;
use crate::session::slots::Me;
use crate::session::volume::FileReference;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::*;
use arrayvec::ArrayVec;
use egeria_media::PoolIndex;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Blocks of one commit: the lock is held for microseconds.
const MAX_BLOCKS: u64 = 256;
/// Blocks that are looked at for these.
const MAX_LOOKS: u64 = 1 << 16;

/// How far a relocation came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocated {
    /// Where the next part begins, file block; the end of the range when all is done.
    pub next_block: u64,
    /// Bytes of the range that are on the new pool now.
    pub moved_bytes: u64,
    /// The file was written during the copy: this part was discarded, and stays where it was.
    pub is_given_up: bool,
}

/// Blocks that are copied and not committed yet.
#[derive(Default)]
pub(super) struct Copied {
    pub(super) mappings: ArrayVec<Mapping, PENDING_EXTENTS>,
    /// Checksums of the blocks of each mapping; empty for files without checksums.
    pub(super) sums: Vec<u8>,
    pub(super) blocks: u64,
}

impl Relocating<'_> {
    /// Copies blocks to new ones; returns the copies, and the first block that was not examined.
    pub(super) fn copy_to(
        self,
        (me, file): (Me<'_>, FileReference),
        blocks: Range<u64>,
        (from, to): (PoolIndex, PoolIndex),
        operation: &mut Operation<'_>,
        accesses: &mut [Access<'_>; 2],
    ) -> Outcome<(Copied, u64)> {
        debug_assert!(std::ptr::eq(me.slot, operation.me.slot));
        let index = Reading::of(self.volume).index_of(file.inode());
        let has_sums = file.inode().checksums.load(Ordering::Relaxed) != 0;
        let mut copied = Copied::default();
        let mut block = blocks.start;
        let last = blocks.end.min(blocks.start.saturating_add(MAX_LOOKS));
        let lies_there = |block: u64| {
            let word = index.load(block);
            (word.has_data() && word.pool() == from).then_some(word)
        };
        while block < last && copied.blocks < MAX_BLOCKS && operation.has_room() {
            if lies_there(block).is_none() {
                block += 1;
                continue;
            }
            let most = last.min(block + MAX_BLOCKS - copied.blocks);
            let end = (block..most).find(|next| lies_there(*next).is_none());
            let count = end.unwrap_or(most) - block;
            let taken = operation.take(file.ino.0, block, count, to.0.into(), Need::Ordinary)?;
            if taken.pool != to {
                return Err(Errno(libc::ENOSPC));
            }
            let sums_at = copied.sums.len();
            for next in 0..taken.count {
                let word = index.load(block + next);
                let new = taken.block.offset() + next * BLOCK as u64;
                self.copy_block(word, (to, new), accesses)?;
                if has_sums {
                    copied.sums.extend(index.sum(block + next));
                }
            }
            copied.mappings.push(Mapping::to(taken, block, sums_at));
            copied.blocks += taken.count;
            block += taken.count;
        }
        // The range up to the end may be larger than what was examined.
        Ok((
            copied,
            if block < last {
                block
            } else {
                last.max(blocks.start)
            },
        ))
    }

    /// Copy one block. It may have changed already: the commit checks whether it still belongs to the file.
    fn copy_block(
        self,
        word: BlockWord,
        (pool, at): (PoolIndex, egeria_media::PoolOffset),
        [reading, writing]: &mut [Access<'_>; 2],
    ) -> Outcome<()> {
        let mut bytes = [0u8; BLOCK];
        let old = Run {
            pool: word.pool(),
            at: word.block().offset(),
            bytes: BLOCK,
        };
        reading.run(old, |pool| {
            pool.read_bytes(old.at, &mut bytes)
                .map_err(|_| Errno(libc::EIO))
        })?;
        let new = Run {
            pool,
            at,
            bytes: BLOCK,
        };
        writing.run(new, |pool| {
            pool.copy_in(at, (&bytes[..]).into()).map_err(Errno::from)
        })
    }

    pub(super) fn commit_copy(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        copied: &Copied,
    ) -> Outcome<()> {
        Log::of(self.volume).compact_if_due(locked, operation);
        // The entries carry the time of the last change, so it does not change.
        let time_ns = locked.inode.ctime_ns.load(Ordering::Relaxed) as i64;
        let size_bytes = locked.size_bytes();
        let sums_of = |mapping: &Mapping| {
            if copied.sums.is_empty() || mapping.unwritten {
                &[][..]
            } else {
                &copied.sums[mapping.sums_at..mapping.sums_at + 4 * mapping.count as usize]
            }
        };
        let entries = |mapping: &Mapping| entries_of(*mapping, sums_of(mapping), size_bytes, false);
        let mut staged = Staged::begin(locked, Need::Ordinary)?;
        for mapping in &copied.mappings {
            for entry in entries(mapping) {
                staged.add(operation, &entry, time_ns)?;
            }
            let index: Index<'_> = locked.index();
            index.reserve_for_write(mapping.file_block, mapping.count)?;
        }
        // The fence of the commit makes the copies durable before the commit.
        operation.commit(&[&staged])?;
        Log::of(self.volume).apply_commit(locked, &staged, || {
            for entry in copied.mappings.iter().flat_map(entries) {
                Log::of(self.volume).apply_entry(
                    locked,
                    operation,
                    LogPosition::NONE,
                    &entry,
                    time_ns,
                    false,
                )?;
            }
            Ok(())
        })?;
        operation.finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::test_volume::{FILE, new_volume};
    use crate::*;
    use egeria_media::PoolIndex;

    #[test]
    fn pools_that_are_not_there_are_refused() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        let made = volume.create(InodeNumber::ROOT, b"file", &FILE);
        let file = volume.open(made.expect("create").ino, None).expect("open");
        for (from, to) in [(0, 0), (0, 7), (7, 0)] {
            let ends = (PoolIndex(from), PoolIndex(to));
            assert_eq!(volume.relocate(file, 0..1, ends), Err(Errno(libc::EINVAL)));
        }
    }
}
