//! Fast path of short writes: up to a block of bytes, inside a file or from its end on, in one block or two. Does the steps
//! of `write` without those for longer writes; log entries are stored before the data.

#[cfg(test)]
mod tests;

use crate::data::Writing;
use crate::data::overwrite::count_written;
use crate::data::write::edges::fill_around;
use crate::data::write::{MAX_FILE_BYTES, Target};
use crate::data::write_rules::WriteRules;
use crate::format::*;
use crate::log::Log;
use crate::log::staging::Staged;
use crate::session::Stamps;
use crate::session::index::has_pairs;
use crate::session::inode::Locked;
use crate::session::path_mode::PathMode;
use crate::session::seqlock::WriteSection;
use crate::session::slots::{Me, count};
use crate::session::volume::FileReference;
use crate::space::Placing;
use crate::space::free_space::{Need, PocketPlace};
use crate::space::operation::Operation;
use crate::types::Errno;
use egeria_media::{BlockNumber, CallerSource, PoolIndex};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

/// The part of a short write that lies in one block.
struct Piece<'a> {
    file_block: u64,
    /// The block's word in the index, and its value while the inode is locked.
    slot: &'a AtomicU64,
    old: BlockWord,
    /// Offset in the block.
    within: u64,
    source: CallerSource<'a>,
    /// The new block. `None`: the bytes go behind the end of file, in the block that is there.
    taken: Option<(Extent, PocketPlace<'a>)>,
}

impl<'v> Writing<'v> {
    /// Write at most a block; the offset where it landed. `None`: nothing was done; use the ordinary path, which also
    /// reports what is wrong.
    pub(crate) fn write_short(
        self,
        file: FileReference,
        target: Target,
        source: CallerSource<'_>,
        rules: WriteRules,
        mode: PathMode,
    ) -> Option<u64> {
        if !self.is_short(file, target, source, mode) {
            return None;
        }
        self.write_locked(file, source, |locked| {
            self.short_locked(locked, target, source, rules)
        })
    }

    /// As [`Writing::write_short`], by a process that bypasses the kernel, if the inode's lock is free. Cannot panic.
    #[inline(never)]
    pub(crate) fn write_short_at_once(
        self,
        me: Me<'_>,
        file: FileReference,
        target: Target,
        source: CallerSource<'_>,
    ) -> Option<u64> {
        if !self.is_short(file, target, source, PathMode::NORMAL) {
            return None;
        }
        self.write_locked_at_once(me, file, source, |locked| {
            self.short_locked(locked, target, source, WriteRules::DIRECT)
        })
    }

    /// Whether it is worth taking the lock: the end of file may be another then.
    #[inline(always)]
    fn is_short(
        self,
        file: FileReference,
        target: Target,
        source: CallerSource<'_>,
        mode: PathMode,
    ) -> bool {
        let size_bytes = file.inode().size_bytes.load(Ordering::Relaxed);
        // `overwrite_block` was tried before.
        let is_whole_block = |offset: u64| {
            matches!(target, Target::At(_))
                && source.bytes() == BLOCK
                && offset.is_multiple_of(BLOCK as u64)
        };
        (1..=BLOCK).contains(&source.bytes())
            && target
                .offset_inside(size_bytes)
                .is_some_and(|offset| !is_whole_block(offset))
            && self.volume.path_mode() == mode
            && !self.volume.is_read_only()
            && !has_pairs(file.inode().root.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn short_locked<'a>(
        self,
        locked: &Locked<'a>,
        target: Target,
        source: CallerSource<'a>,
        rules: WriteRules,
    ) -> Option<u64>
    where
        'v: 'a,
    {
        let offset = target.offset_inside(locked.size_bytes())?;
        if source.bytes() == BLOCK && offset.is_multiple_of(BLOCK as u64) {
            self.overwrite_locked::<true>(locked, offset, source, rules)?;
            return Some(offset);
        }
        let (first, within) = (offset / BLOCK as u64, offset % BLOCK as u64);
        let room = BLOCK - within as usize;
        let head = piece(locked, first, within, source.first(room))?;
        if source.bytes() <= room {
            self.write_pieces(locked, offset, source.bytes(), [head], rules)?;
        } else {
            let tail = piece(locked, first + 1, 0, source.after(room))?;
            self.write_pieces(locked, offset, source.bytes(), [head, tail], rules)?;
        }
        Some(offset)
    }

    #[inline(always)]
    fn write_pieces<'a, const PIECES: usize>(
        self,
        locked: &Locked<'a>,
        offset: u64,
        bytes: usize,
        mut pieces: [Piece<'a>; PIECES],
        rules: WriteRules,
    ) -> Option<()>
    where
        'v: 'a,
    {
        let (inode, me, ino) = (locked.inode, locked.me, locked.ino);
        let size = locked.size_bytes();
        let cached = rules.direct && inode.kernel_cached.load(Ordering::Acquire) != 0;
        let usual = !cached
            && size < MAX_FILE_BYTES - 2 * BLOCK as u64
            && locked.is_regular()
            && !locked.has_sums()
            && !Log::of(self.volume).is_compaction_due(locked);
        if !usual {
            return None;
        }
        let mut staged = Staged::begin(locked, Need::Ordinary).ok()?;
        if !staged.has_lines(PIECES as u8) {
            return None;
        }
        let new_size = size.max(offset + bytes as u64);
        let time_ns = Stamps::of(self.volume).stamp_ns(inode);
        let here = self.volume.pool_of_writer(me);
        let mut operation = ManuallyDrop::new(Operation::new(self.volume, me));
        let prepared = self
            .take_blocks(&mut pieces, locked, here, &mut operation)
            .and_then(|()| self.store_entries(&pieces, &mut staged, new_size, time_ns))
            .and_then(|()| self.copy_pieces(&pieces, size))
            .and_then(|()| rules.begin_commit(inode).ok());
        let Some(direct) = prepared else {
            operation.abandon_from(0);
            return None;
        };
        operation.commit_one(&staged).ok()?;
        // As in `apply_commit` and `apply_mapping`; the words of the slots cannot change while the inode is locked.
        let changing = WriteSection::begin(inode);
        for piece in &pieces {
            let Some((taken, _)) = &piece.taken else {
                continue;
            };
            let generation = inode.next_word_generation();
            let new = BlockWord::new(taken.pool, taken.block, false, generation);
            if piece.old.is_mapped() {
                let (pool, block) = (piece.old.pool(), piece.old.block());
                operation.replace_alone(ino, piece.file_block, pool, block);
            } else {
                count(&inode.blocks, 1);
            }
            piece.slot.store(new.0, Ordering::Release);
        }
        inode.note_write(new_size, time_ns);
        Log::of(self.volume).end_apply(inode, &staged, changing);
        drop(direct);
        let places = pieces.iter().filter_map(|piece| piece.taken);
        operation.finish_at_hand(places.map(|(_, place)| place));
        for piece in &pieces {
            let bytes = piece.source.bytes() as u64;
            count_written(me, piece.pool(), here, bytes);
        }
        Some(())
    }

    /// Take the new blocks. `None`: the thread has too few at hand; those that were taken are noted in the operation.
    #[inline(always)]
    fn take_blocks<'a>(
        self,
        pieces: &mut [Piece<'a>],
        locked: &Locked<'a>,
        here: usize,
        operation: &mut Operation<'a>,
    ) -> Option<()> {
        let size = locked.size_bytes();
        for piece in pieces {
            // These bytes are not visible before the commit moves the size.
            if piece.offset() >= size && piece.old.has_data() {
                continue;
            }
            // The ordinary path charges a block that a tree with limits gets.
            if locked.inode.is_counted() && !piece.old.is_mapped() {
                return None;
            }
            let prefer = Placing::of(self.volume).pool_for_block(
                locked.me,
                (locked.ino, locked.inode),
                piece.file_block,
                here,
            );
            piece.taken = Some(operation.take_at_hand(locked.ino, piece.file_block, prefer)?);
        }
        Some(())
    }

    /// Store an entry for each new block, or one of the size alone.
    #[inline(always)]
    fn store_entries(
        self,
        pieces: &[Piece<'_>],
        staged: &mut Staged,
        size_bytes: u64,
        time_ns: i64,
    ) -> Option<()> {
        let of_size = WriteEntry {
            file_block: 0,
            count: 0,
            pool: PoolIndex(0),
            block: BlockNumber(0),
            size_bytes,
            unwritten: false,
            touches_mtime: true,
            sums: &[],
        };
        let mut has_blocks = false;
        for piece in pieces {
            let Some((taken, _)) = &piece.taken else {
                continue;
            };
            let entry = WriteEntry {
                file_block: piece.file_block,
                count: 1,
                pool: taken.pool,
                block: taken.block,
                ..of_size
            };
            staged.store_write(self.volume, &entry, time_ns).ok()?;
            has_blocks = true;
        }
        if !has_blocks {
            staged.store_write(self.volume, &of_size, time_ns).ok()?;
        }
        Some(())
    }

    /// Copy the caller's bytes, and to new blocks what is around them. `None`: something cannot be read, or a medium
    /// fails.
    #[inline(always)]
    fn copy_pieces(self, pieces: &[Piece<'_>], size_bytes: u64) -> Option<()> {
        for piece in pieces {
            let (old, within) = (piece.old, piece.within);
            let Some((taken, _)) = &piece.taken else {
                let pool = self.volume.pool(old.pool()).ok()?;
                let at = old.block().offset() + within;
                pool.copy_in(at, piece.source).ok()?;
                continue;
            };
            let size = size_bytes.saturating_sub(piece.file_block * BLOCK as u64);
            let written = within..within + piece.source.bytes() as u64;
            let pool = self.volume.pool(taken.pool).ok()?;
            fill_around(self.volume, (old, size), *taken, written, || {
                let at = taken.block.offset() + within;
                pool.copy_in(at, piece.source).map_err(Errno::from)
            })
            .ok()?;
        }
        Some(())
    }
}

impl Piece<'_> {
    /// Offset in the file.
    fn offset(&self) -> u64 {
        self.file_block * BLOCK as u64 + self.within
    }

    /// Where the caller's bytes go.
    fn pool(&self) -> PoolIndex {
        match &self.taken {
            Some((taken, _)) => taken.pool,
            None => self.old.pool(),
        }
    }
}

/// The part of a write in one block. `None`: the index has no word for the block.
#[inline(always)]
fn piece<'a>(
    locked: &Locked<'a>,
    file_block: u64,
    within: u64,
    source: CallerSource<'a>,
) -> Option<Piece<'a>> {
    let slot = locked.index().slot(file_block)?;
    Some(Piece {
        file_block,
        slot,
        old: BlockWord(slot.load(Ordering::Relaxed)),
        within,
        source,
        taken: None,
    })
}
