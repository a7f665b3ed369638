//! Fast path of most overwrites: one whole block inside a loaded file, with a free block at hand and room in the log
//! page. Does the steps of `write` without those for longer writes; the log entry is stored before the data.

use crate::data::Writing;
use crate::data::prefetch::prefetch;
use crate::data::write_rules::WriteRules;
use crate::format::*;
use crate::log::Log;
use crate::log::staging::Staged;
use crate::session::Stamps;
use crate::session::index::has_pairs;
use crate::session::inode::Locked;
use crate::session::layout::LOADED;
use crate::session::path_mode::PathMode;
use crate::session::slots::count;
use crate::session::volume::FileReference;
use crate::space::Placing;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::*;
use egeria_media::emulation::AccessKind;
use egeria_media::{BlockNumber, CallerSource, PoolIndex};
use std::sync::atomic::{AtomicU64, Ordering};

impl Writing<'_> {
    /// Overwrite one whole block below the end of file. `None`: nothing was done; use the ordinary path, which also
    /// reports what is wrong.
    pub(crate) fn overwrite_block(
        self,
        file: FileReference,
        offset: u64,
        source: CallerSource<'_>,
        rules: WriteRules,
        mode: PathMode,
    ) -> Option<Outcome<usize>> {
        let usual = offset.is_multiple_of(BLOCK as u64)
            && self.volume.path_mode() == mode
            && !self.volume.is_read_only()
            && !has_pairs(file.inode().root.load(Ordering::Relaxed))
            && file.inode().state.load(Ordering::Acquire) == LOADED;
        if !usual {
            return None;
        }
        let locked = self.volume.lock(file.ino.0).ok()?;
        let me = locked.me;
        let outcome = self.overwrite_locked(&locked, offset, source, rules);
        drop(locked);
        if let Some(Ok(bytes)) = outcome {
            self.volume
                .note_use(me, file, bytes as u64, AccessKind::Write);
        }
        outcome
    }

    #[inline(always)]
    fn overwrite_locked(
        self,
        locked: &Locked<'_>,
        offset: u64,
        source: CallerSource<'_>,
        rules: WriteRules,
    ) -> Option<Outcome<usize>> {
        let inode = locked.inode;
        let file_block = offset / BLOCK as u64;
        let root = inode.root.load(Ordering::Relaxed);
        let slot = locked.index().slot_in_low_tree(root, file_block)?;
        // The one load that misses the caches: needed only after the commit, so prefetched now.
        prefetch(slot);
        let size_bytes = locked.size_bytes();
        let cached = rules.direct && inode.kernel_cached.load(Ordering::Acquire) != 0;
        let usual = !cached
            && offset + BLOCK as u64 <= size_bytes
            && locked.kind() == FileKind::Regular
            && !Log::of(self.volume).is_compaction_due(locked);
        if !usual {
            return None;
        }
        let mut staged = Staged::begin(locked, Need::Ordinary).ok()?;
        if !staged.has_line() {
            return None;
        }
        let me = locked.me;
        let mut operation = Operation::new(self.volume, me);
        let prefer = Placing::of(self.volume)
            .placement(me, inode)
            .pool_for(locked.ino, file_block);
        let taken = operation
            .take(locked.ino, file_block, 1, prefer, Need::Ordinary)
            .ok()?;
        let pool = self.volume.pool(taken.pool).ok()?;
        let time_ns = Stamps::of(self.volume).stamp_ns(inode);
        let entry = Entry::Write(WriteEntry {
            file_block,
            count: 1,
            pool: taken.pool,
            block: taken.block,
            size_bytes,
            unwritten: false,
            touches_mtime: true,
            sums: &[],
        });
        // Before the copy: the checksum loads again what is stored here. A load that spans several stores waits until
        // all earlier stores are in the caches.
        if let Err(errno) = staged.store(self.volume, &entry, 1, time_ns) {
            return Some(Err(errno));
        }
        let before = file_block.checked_sub(1);
        let before = before.and_then(|block| locked.index().slot_in_low_tree(root, block));
        let in_order = before.is_some_and(|slot| is_followed_by(slot, taken.pool, taken.block));
        let copied = if in_order {
            pool.copy_in_order(taken.block.offset(), source)
        } else {
            pool.copy_in(taken.block.offset(), source)
        };
        if let Err(fault) = copied {
            return Some(Err(Errno::from(fault)));
        }
        let mut change = || {
            let _direct = rules.begin_commit(inode)?;
            operation.commit(&[&staged])?;
            Log::of(self.volume).apply_commit(locked, &staged, || {
                // As in `apply_mapping`; the slot's word cannot change while we hold the lock.
                let generation = inode.next_word_generation();
                let new = BlockWord::new(taken.pool, taken.block, false, generation);
                let old = BlockWord(slot.load(Ordering::Relaxed));
                if old.is_mapped() {
                    operation.replace(locked.ino, file_block, old.pool(), old.block());
                } else {
                    count(&inode.blocks, 1);
                }
                slot.store(new.0, Ordering::Release);
                inode.mtime_ns.store(time_ns as u64, Ordering::Relaxed);
                inode.ctime_ns.store(time_ns as u64, Ordering::Relaxed);
                inode.note_logged_time(time_ns);
                Ok(())
            })
        };
        if let Err(errno) = change() {
            return Some(Err(errno));
        }
        operation.finish();
        let pool = taken.pool.0 as usize % MAX_POOLS;
        count(&me.slot.counters.written_bytes[pool], BLOCK as u64);
        if self.volume.pool_here(me) != pool {
            count(&me.slot.counters.remote_bytes[pool], BLOCK as u64);
        }
        Some(Ok(BLOCK))
    }
}

/// Whether the block that an index word names lies directly before this one.
fn is_followed_by(slot: &AtomicU64, pool: PoolIndex, block: BlockNumber) -> bool {
    let word = BlockWord(slot.load(Ordering::Relaxed));
    word.is_mapped() && word.pool() == pool && word.block().0 + 1 == block.0
}
