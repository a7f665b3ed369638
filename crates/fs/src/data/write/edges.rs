//! The blocks at the ends of a write, of which it covers a part.

use super::{Write, zero};
use crate::data::mapping::Mapping;
use crate::format::*;
use crate::session::inode::Locked;
use crate::space::free_space::Need;
use crate::types::*;
use egeria_media::PoolOffset;
use std::ops::Range;

impl Write<'_, '_> {
    /// The part of the write that lies in one block it does not cover.
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
        let source = self.source.wrapping_add((from - self.offset) as usize);
        let bytes = (to - from) as usize;
        let within = from - block_start;
        if self.sums.wanted {
            let within = within as usize..within as usize + bytes;
            return self.copy_edge_with_sum(locked, size, file_block, source, within);
        }
        if word.has_data() && from >= size {
            // Nobody can see these bytes before the commit moves the size.
            let pool = self.volume.pool(word.pool())?;
            // SAFETY: the caller of the write promised its memory.
            unsafe { pool.copy_in(word.block().offset() + within, source, bytes) }
                .map_err(Errno::from)?;
            self.wrote(word.pool(), word.block().offset() + within, bytes);
            return Ok(());
        }
        let taken = self
            .operation
            .take(self.ino, file_block, 1, self.prefer, Need::Ordinary)?;
        let pool = self.volume.pool(taken.pool)?;
        let new = taken.block.offset();
        // Old bytes behind the end of file are not the file's: only those before it are kept.
        let kept = if word.has_data() {
            size.saturating_sub(block_start).min(BLOCK as u64)
        } else {
            0
        };
        self.keep_old(word, new, pool, 0, within.min(kept))?;
        zero(pool, new, within.min(kept), within)?;
        // SAFETY: the caller of the write promised its memory.
        unsafe { pool.copy_in(new + within, source, bytes) }.map_err(Errno::from)?;
        let after = within + bytes as u64;
        self.keep_old(word, new, pool, after, kept)?;
        zero(pool, new, after.max(kept), BLOCK as u64)?;
        self.wrote(taken.pool, new + within, bytes);
        self.mappings.push(Mapping {
            file_block,
            count: 1,
            pool: taken.pool,
            block: taken.block,
            unwritten: false,
            sums_at: 0,
        });
        Ok(())
    }

    /// As `copy_edge` where blocks have checksums: the whole block anew, also behind the end of file.
    fn copy_edge_with_sum(
        &mut self,
        locked: &Locked<'_>,
        size: u64,
        file_block: u64,
        source: *const u8,
        within: Range<usize>,
    ) -> Outcome<()> {
        let word = locked.index().load(file_block);
        let kept = size.saturating_sub(file_block * BLOCK as u64) as usize;
        let mut block = [0u8; BLOCK];
        // Damage that nothing is kept of is no hindrance.
        if word.has_data() && (within.start.min(kept) > 0 || within.end < kept.min(BLOCK)) {
            self.volume
                .old_block(locked, file_block, word, &mut block)?;
        }
        // SAFETY: the caller of the write promised its memory.
        unsafe { egeria_media::copy_from_caller(source, &mut block[within.clone()]) }
            .map_err(Errno::from)?;
        let taken = self
            .operation
            .take(self.ino, file_block, 1, self.prefer, Need::Ordinary)?;
        let sums_at = self.sums.count();
        self.sums
            .store_block(self.volume, (taken.pool, taken.block), &block)?;
        let at = taken.block.offset() + within.start as u64;
        self.wrote(taken.pool, at, within.len());
        self.mappings.push(Mapping {
            file_block,
            count: 1,
            pool: taken.pool,
            block: taken.block,
            unwritten: false,
            sums_at,
        });
        Ok(())
    }

    /// Copy bytes `from..to` of the old block to the new one.
    fn keep_old(
        &self,
        word: BlockWord,
        new: PoolOffset,
        pool: &egeria_media::Pool,
        from: u64,
        to: u64,
    ) -> Outcome<()> {
        if from >= to {
            return Ok(());
        }
        let mut bytes = [0u8; BLOCK];
        let bytes = &mut bytes[..(to - from) as usize];
        self.volume
            .read_media(word.pool(), word.block().offset() + from, bytes)?;
        // SAFETY: a local buffer of this length.
        unsafe { pool.copy_in(new + from, bytes.as_ptr(), bytes.len()) }.map_err(Errno::from)
    }
}
