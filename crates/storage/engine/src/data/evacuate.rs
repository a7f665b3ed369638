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

impl Relocating<'_> {
    /// Move a part of a file's blocks off a pool, from block `first` on, which becomes where to go on.
    ///
    /// # Errors
    /// `ENOSPC` when no other pool has room, `EIO` when a block cannot be read, `ENOMEM`.
    pub(crate) fn evacuate_part(
        self,
        locked: &Locked<'_>,
        from: PoolIndex,
        first: &mut u64,
    ) -> Outcome<Evacuated> {
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
                    self.copy_unseen(index.load(block + next), (taken.pool, to))?;
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

    /// Copy one block. It counts as no access of a program.
    fn copy_unseen(self, word: BlockWord, (pool, at): (PoolIndex, PoolOffset)) -> Outcome<()> {
        let mut bytes = [0u8; BLOCK];
        self.volume
            .read_media(word.pool(), word.block().offset(), &mut bytes)?;
        let to = self.volume.pool(pool)?;
        to.copy_in(at, (&bytes[..]).into()).map_err(Errno::from)
    }
}
