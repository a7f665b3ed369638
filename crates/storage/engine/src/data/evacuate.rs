//! Moving all blocks of a file off a pool, whatever the file is and while it is in use.
//!
//! Unlike [relocation](super::relocate), it copies under the inode's lock, a part at a time. So it always succeeds,
//! and files that are written in place are moved, too: the lock keeps their writers out. Nothing that programs see
//! changes.

use crate::data::Relocating;
use crate::data::relocate::Copied;
use crate::format::*;
use crate::log::mapping::Mapping;
use crate::session::index::MAX_FILE_BLOCKS;
use crate::session::inode::Locked;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::*;
use egeria_media::{PoolIndex, PoolOffset};
use std::ops::Range;

/// Blocks of one commit: 1 MiB is copied under the lock.
const MAX_BLOCKS: u64 = 256;
/// Blocks that are looked at for these.
const MAX_LOOKS: u64 = 1 << 14;

/// A part of a file was looked at.
pub(crate) struct Evacuated {
    /// Blocks that were moved.
    pub(crate) blocks: u64,
    /// Nothing of the file is left to be looked at.
    pub(crate) is_end: bool,
}

/// A pool that is left, and what of it cannot be read.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) pool: PoolIndex,
    /// Byte ranges of the pool that must not be read: sorted, and apart from each other.
    pub(crate) bad: &'a [Range<u64>],
}

impl Source<'_> {
    fn is_bad(&self, word: BlockWord) -> bool {
        let PoolOffset(at) = word.block().offset();
        let next = self.bad.partition_point(|bad| bad.end <= at);
        let found = self.bad.get(next);
        found.is_some_and(|bad| bad.start < at + BLOCK as u64)
    }
}

impl Relocating<'_> {
    /// Move a part of a file's blocks off a pool, from block `first` on, which becomes where to go on. Blocks in `given_up`
    /// that cannot be read become zeros. If they have checksums, these stay, so that reading them fails until they are
    /// overwritten.
    ///
    /// # Errors
    /// `ENOSPC` when no other pool has room, `EIO` when a block cannot be read, `ENOMEM`.
    pub(crate) fn evacuate_part(
        self,
        locked: &Locked<'_>,
        source: Source<'_>,
        given_up: &[Range<u64>],
        first: &mut u64,
    ) -> Outcome<Evacuated> {
        let from = source.pool;
        let mut operation = Operation::new(self.volume, locked.me);
        let mut copied = Copied::default();
        let index = locked.index();
        let mut is_end = false;
        let mut looks = 0;
        while copied.blocks < MAX_BLOCKS && looks < MAX_LOOKS && operation.has_room() {
            looks += 1;
            let Some(block) = index.next_mapped(*first, MAX_FILE_BLOCKS) else {
                is_end = true;
                break;
            };
            *first = block;
            let word = index.load(block);
            if word.pool() != from {
                *first += 1;
                continue;
            }
            let most = MAX_BLOCKS - copied.blocks;
            let follows = |next: &u64| {
                let next = index.load(block + next);
                next.is_mapped()
                    && next.pool() == from
                    && next.is_unwritten() == word.is_unwritten()
            };
            let count = (1..most).find(|next| !follows(next)).unwrap_or(most);
            let prefer = self.volume.pool_here(locked.me);
            let taken = operation.take(locked.ino, block, count, prefer, Need::Ordinary)?;
            let sums_at = copied.sums.len();
            if !word.is_unwritten() {
                for next in 0..taken.count {
                    let to = taken.block.offset() + next * BLOCK as u64;
                    let mut bytes = [0; BLOCK];
                    match self.read_unseen(source, index.load(block + next), &mut bytes) {
                        Err(Errno(libc::EIO)) if is_among(block + next, given_up) => bytes.fill(0),
                        read => read?,
                    }
                    let to_pool = self.volume.pool(taken.pool)?;
                    to_pool.copy_in(to, (&bytes[..]).into())?;
                    if locked.has_sums() {
                        copied.sums.extend(index.sum(block + next));
                    }
                }
            }
            copied.mappings.push(Mapping {
                unwritten: word.is_unwritten(),
                ..Mapping::to(taken, block, sums_at)
            });
            copied.blocks += taken.count;
            *first = block + taken.count;
        }
        if copied.blocks > 0 {
            self.commit_copy(locked, &mut operation, &copied)?;
        }
        Ok(Evacuated {
            blocks: copied.blocks,
            is_end,
        })
    }

    /// Blocks of a part of a file that lie on a pool and cannot be read, from block `first` on, which becomes where to go on.
    /// Returns whether that is the end of the file.
    pub(crate) fn find_unreadable_part(
        self,
        locked: &Locked<'_>,
        source: Source<'_>,
        first: &mut u64,
        found: &mut Vec<Range<u64>>,
    ) -> bool {
        let index = locked.index();
        let mut bytes = [0; BLOCK];
        for _ in 0..MAX_BLOCKS {
            let Some(block) = index.next_mapped(*first, MAX_FILE_BLOCKS) else {
                return true;
            };
            *first = block + 1;
            let word = index.load(block);
            let is_there = word.has_data() && word.pool() == source.pool;
            if !is_there || self.read_unseen(source, word, &mut bytes).is_ok() {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => found.push(block..block + 1),
            }
        }
        false
    }

    /// Read one block. It counts as no access of a program.
    fn read_unseen(
        self,
        source: Source<'_>,
        word: BlockWord,
        bytes: &mut [u8; BLOCK],
    ) -> Outcome<()> {
        if source.is_bad(word) {
            return Err(Errno(libc::EIO));
        }
        let at = word.block().offset();
        self.volume.read_media(word.pool(), at, bytes)
    }
}

/// Whether a block is in one of these ranges, which are sorted.
fn is_among(block: u64, ranges: &[Range<u64>]) -> bool {
    let next = ranges.partition_point(|range| range.end <= block);
    ranges.get(next).is_some_and(|range| range.contains(&block))
}
