//! The blocks at the ends of a write, which it covers only in part.

use super::Write;
use crate::data::{Reading, Writing};
use crate::format::*;
use crate::log::mapping::Mapping;
use crate::session::access::{Access, Run};
use crate::session::inode::Locked;
use crate::session::volume::Volume;
use crate::types::*;
use egeria_media::{CallerSource, PoolIndex, PoolOffset};
use std::ops::Range;

impl Write<'_, '_> {
    /// Write a part of a block.
    pub(super) fn copy_edge(
        &mut self,
        locked: &Locked<'_>,
        size: u64,
        file_block: u64,
    ) -> Outcome<()> {
        let block_start = file_block * BLOCK as u64;
        let from = self.offset.max(block_start);
        let to = self.end().min(block_start + BLOCK as u64);
        let word = locked.index().load(file_block);
        let bytes = (to - from) as usize;
        let source = self
            .source
            .after((from - self.offset) as usize)
            .first(bytes);
        let within = from - block_start;
        if self.sums.wanted {
            let within = within as usize..within as usize + bytes;
            return self.copy_edge_with_sum(locked, size, file_block, source, within);
        }
        if word.has_data() && from >= size {
            // These bytes are not visible before the commit moves the size.
            return self.copy_part(word.pool(), word.block().offset() + within, source);
        }
        let taken = self.take_block(file_block)?;
        let size = size.saturating_sub(block_start);
        let written = within..within + bytes as u64;
        fill_around(self.volume, (word, size), taken, written, || {
            self.copy_part(taken.pool, taken.block.offset() + within, source)
        })?;
        self.mappings.push(Mapping::to(taken, file_block, 0));
        Ok(())
    }

    /// A new block for an edge.
    fn take_block(&mut self, file_block: u64) -> Outcome<Extent> {
        let prefer = self.placement.pool_for(self.ino, file_block);
        self.operation
            .take(self.ino, file_block, 1, prefer, self.need)
    }

    /// Copy the caller's bytes to a part of a block.
    fn copy_part(
        &mut self,
        pool: PoolIndex,
        at: PoolOffset,
        from: CallerSource<'_>,
    ) -> Outcome<()> {
        let run = Run {
            pool,
            at,
            bytes: from.bytes(),
        };
        self.access
            .run(run, |pool| pool.copy_in(at, from).map_err(Errno::from))
    }

    /// Copy an edge in a file with checksums: write the whole block again, also behind the end of file.
    fn copy_edge_with_sum(
        &mut self,
        locked: &Locked<'_>,
        size: u64,
        file_block: u64,
        source: CallerSource<'_>,
        within: Range<usize>,
    ) -> Outcome<()> {
        let word = locked.index().load(file_block);
        let kept = size.saturating_sub(file_block * BLOCK as u64) as usize;
        let mut block = [0u8; BLOCK];
        // A damaged block does not matter if none of its bytes are kept.
        if word.has_data() && (within.start.min(kept) > 0 || within.end < kept.min(BLOCK)) {
            Reading::of(self.volume).old_block(locked, file_block, word, &mut block)?;
        }
        source
            .read(&mut block[within.clone()])
            .map_err(Errno::from)?;
        let taken = self.take_block(file_block)?;
        let sums_at = self.sums.count();
        let run = Run {
            pool: taken.pool,
            at: taken.block.offset() + within.start as u64,
            bytes: within.len(),
        };
        let (volume, sums) = (self.volume, &mut self.sums);
        self.access.run(run, |_| {
            sums.store_block(volume, (taken.pool, taken.block), &block)
        })?;
        self.mappings.push(Mapping::to(taken, file_block, sums_at));
        Ok(())
    }
}

/// Fill a new block: `copy` stores the bytes `written`, and around them come those of the old block as far as the file
/// goes. `size`: that of the file, from the start of the block on.
#[inline(always)]
pub(in crate::data) fn fill_around(
    volume: &Volume,
    (old, size): (BlockWord, u64),
    taken: Extent,
    written: Range<u64>,
    copy: impl FnOnce() -> Outcome<()>,
) -> Outcome<()> {
    // Old bytes behind the end of file do not belong to the file.
    let kept = if old.has_data() {
        size.min(BLOCK as u64)
    } else {
        0
    };
    let new = (taken.pool, taken.block.offset());
    keep_old(volume, old, new, 0, written.start.min(kept))?;
    zero(volume, new, written.start.min(kept), written.start)?;
    copy()?;
    keep_old(volume, old, new, written.end, kept)?;
    zero(volume, new, written.end.max(kept), BLOCK as u64)
}

/// Copy bytes `from..to` of an old block to a new one.
fn keep_old(
    volume: &Volume,
    word: BlockWord,
    (pool, new): (PoolIndex, PoolOffset),
    from: u64,
    to: u64,
) -> Outcome<()> {
    if from >= to {
        return Ok(());
    }
    let run = |pool, block: PoolOffset| Run {
        pool,
        at: block + from,
        bytes: (to - from) as usize,
    };
    let (old, new) = (run(word.pool(), word.block().offset()), run(pool, new));
    Access::upkeep(volume, old, |from| {
        Access::upkeep(volume, new, |to| {
            to.copy_from(new.at, from, old.at, old.bytes)
                .map_err(Errno::from)
        })
    })
}

/// Zero bytes `from..to` of a block.
fn zero(
    volume: &Volume,
    (pool, block): (PoolIndex, PoolOffset),
    from: u64,
    to: u64,
) -> Outcome<()> {
    if from >= to {
        return Ok(());
    }
    let run = Run {
        pool,
        at: block + from,
        bytes: (to - from) as usize,
    };
    Access::upkeep(volume, run, |pool| {
        pool.zero(run.at, run.bytes).map_err(Errno::from)
    })
}

impl Writing<'_> {
    /// Zero in place the bytes from the end of file up to `to`, in the block of the end.
    pub(crate) fn zero_behind_end(self, locked: &Locked<'_>, size: u64, to: u64) -> Outcome<()> {
        let within = size % BLOCK as u64;
        let word = locked.index().load(size / BLOCK as u64);
        // In files with checksums these bytes are zeros already.
        if within == 0 || !word.has_data() || locked.has_sums() {
            return Ok(());
        }
        let end = (size - within + BLOCK as u64).min(to);
        let block = (word.pool(), word.block().offset());
        zero(self.volume, block, within, within + (end - size))
    }
}
