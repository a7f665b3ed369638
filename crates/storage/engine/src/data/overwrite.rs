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
use crate::session::path_mode::PathMode;
use crate::session::seqlock::WriteSection;
use crate::session::slots::{Me, count};
use crate::session::volume::FileReference;
use crate::space::Placing;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::*;
use egeria_media::emulation::AccessKind;
use egeria_media::{BlockNumber, CallerSource, PoolIndex};
use std::mem::ManuallyDrop;
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
    ) -> Option<usize> {
        if !self.is_usual_overwrite(file, offset, source, mode) {
            return None;
        }
        self.write_locked(file, source, |locked| {
            self.overwrite_locked::<true>(locked, offset, source, rules)
        })?;
        Some(BLOCK)
    }

    /// As [`Writing::overwrite_block`], by a process that bypasses the kernel, if the inode's lock is free. Cannot panic.
    #[inline(always)]
    pub(crate) fn overwrite_block_at_once(
        self,
        me: Me<'_>,
        file: FileReference,
        offset: u64,
        source: CallerSource<'_>,
    ) -> Option<usize> {
        if !self.is_usual_overwrite(file, offset, source, PathMode::NORMAL) {
            return None;
        }
        self.write_locked_at_once(me, file, source, |locked| {
            self.overwrite_locked::<false>(locked, offset, source, WriteRules::DIRECT)
        })?;
        Some(BLOCK)
    }

    /// A short write of a whole source under the inode's lock, which may have to be waited for.
    #[inline(always)]
    pub(super) fn write_locked<T>(
        self,
        file: FileReference,
        source: CallerSource<'_>,
        write: impl FnOnce(&Locked<'_>) -> Option<T>,
    ) -> Option<T> {
        let locked = self.volume.lock(file.ino.0).ok()?;
        let me = locked.me;
        let written = write(&locked);
        drop(locked);
        let written = written?;
        let bytes = source.bytes() as u64;
        self.volume.note_use(me, file, bytes, AccessKind::Write);
        Some(written)
    }

    /// As [`Writing::write_locked`], if the lock is free. Cannot panic.
    #[inline(always)]
    pub(super) fn write_locked_at_once<T>(
        self,
        me: Me<'_>,
        file: FileReference,
        source: CallerSource<'_>,
        write: impl FnOnce(&Locked<'_>) -> Option<T>,
    ) -> Option<T> {
        let locked = self.volume.lock_at_once(me, &file)?;
        let written = write(locked.locked());
        locked.unlock();
        let written = written?;
        let bytes = source.bytes() as u64;
        self.volume.note_use(me, file, bytes, AccessKind::Write);
        Some(written)
    }

    #[inline(always)]
    fn is_usual_overwrite(
        self,
        file: FileReference,
        offset: u64,
        source: CallerSource<'_>,
        mode: PathMode,
    ) -> bool {
        source.bytes() == BLOCK
            && offset.is_multiple_of(BLOCK as u64)
            && self.volume.path_mode() == mode
            && !self.volume.is_read_only()
            && !has_pairs(file.inode().root.load(Ordering::Relaxed))
    }

    /// Overwrite a block of a locked file, or write the block behind its end; `None`: the ordinary path is to do it. All
    /// that is called here is inlined, and the operation has no guard, so that what they consist of stays in registers.
    /// `MAY_BE_COUNTED`: a tree with limits may count the file.
    #[inline(always)]
    pub(super) fn overwrite_locked<const MAY_BE_COUNTED: bool>(
        self,
        locked: &Locked<'_>,
        offset: u64,
        source: CallerSource<'_>,
        rules: WriteRules,
    ) -> Option<()> {
        let inode = locked.inode;
        let file_block = offset / BLOCK as u64;
        let root = inode.root.load(Ordering::Relaxed);
        let (slot, before) = locked.index().slots_in_low_tree(root, file_block)?;
        // The one load that misses the caches: needed only after the commit, so prefetched now.
        prefetch(slot);
        let (size, end) = (locked.size_bytes(), offset.saturating_add(BLOCK as u64));
        let cached = rules.direct && inode.kernel_cached.load(Ordering::Acquire) != 0;
        let usual = !cached
            && (end <= size || offset == size)
            && locked.is_regular()
            && !Log::of(self.volume).is_compaction_due(locked);
        if !usual {
            return None;
        }
        if MAY_BE_COUNTED
            && inode.is_counted()
            && !BlockWord(slot.load(Ordering::Relaxed)).is_mapped()
        {
            // The ordinary path charges it.
            return None;
        }
        let mut staged = Staged::begin(locked, Need::Ordinary).ok()?;
        if !staged.has_lines(1) {
            return None;
        }
        let (me, ino) = (locked.me, locked.ino);
        let time_ns = Stamps::of(self.volume).stamp_ns(inode);
        let here = self.volume.pool_of_writer(me);
        let prefer = Placing::of(self.volume).pool_for_block(me, (ino, inode), file_block, here);
        let mut operation = ManuallyDrop::new(Operation::new(self.volume, me));
        let (taken, place) = operation.take_at_hand(ino, file_block, prefer)?;
        let size_bytes = size.max(end);
        let entry = WriteEntry {
            file_block,
            count: 1,
            pool: taken.pool,
            block: taken.block,
            size_bytes,
            unwritten: false,
            touches_mtime: true,
            sums: &[],
        };
        let in_order = before.is_some_and(|slot| is_followed_by(slot, taken.pool, taken.block));
        let stored = staged.store_write(self.volume, &entry, time_ns).is_ok()
            && self.copy_block(taken, source, in_order);
        let direct = if stored {
            rules.begin_commit(inode)
        } else {
            Err(Errno(libc::EIO))
        };
        let Ok(direct) = direct else {
            operation.abandon_from(0);
            return None;
        };
        operation.commit_one(&staged).ok()?;
        // As in `apply_commit` and `apply_mapping`; the slot's word cannot change while we hold the lock.
        let changing = WriteSection::begin(inode);
        let generation = inode.next_word_generation();
        let new = BlockWord::new(taken.pool, taken.block, false, generation);
        let old = BlockWord(slot.load(Ordering::Relaxed));
        if old.is_mapped() {
            operation.replace(ino, file_block, old.pool(), old.block());
        } else {
            count(&inode.blocks, 1);
        }
        slot.store(new.0, Ordering::Release);
        inode.note_write(size_bytes, time_ns);
        Log::of(self.volume).end_apply(inode, &staged, changing);
        drop(direct);
        operation.finish_at_hand([place]);
        count_written(me, taken.pool, here, BLOCK as u64);
        Some(())
    }

    /// Copy a block from the caller; false when it cannot be read, or the medium fails.
    #[inline(always)]
    fn copy_block(self, taken: Extent, source: CallerSource<'_>, in_order: bool) -> bool {
        let Ok(pool) = self.volume.pool(taken.pool) else {
            return false;
        };
        let copied = if in_order {
            pool.copy_in_order(taken.block.offset(), source)
        } else {
            pool.copy_in(taken.block.offset(), source)
        };
        copied.is_ok()
    }
}

/// Count bytes that a thread wrote to a pool; `here`: index of the pool of the writer's node.
#[inline(always)]
pub(super) fn count_written(me: Me<'_>, pool: PoolIndex, here: usize, bytes: u64) {
    let pool = pool.0 as usize % MAX_POOLS;
    count(&me.slot.counters.written_bytes[pool], bytes);
    if here != pool {
        count(&me.slot.counters.remote_bytes[pool], bytes);
    }
}

/// Whether the block that an index word names lies directly before this one.
#[inline(always)]
fn is_followed_by(slot: &AtomicU64, pool: PoolIndex, block: BlockNumber) -> bool {
    let word = BlockWord(slot.load(Ordering::Relaxed));
    word.is_mapped() && word.pool() == pool && word.block().0 + 1 == block.0
}

#[cfg(test)]
mod tests {
    use crate::test_volume::{FILE, Stopped, findings, new_volume};
    use crate::*;
    use std::path::PathBuf;
    use std::sync::Arc;

    const BLOCK: u64 = 4096;
    const BLOCKS: u64 = 64;

    /// A volume with a file of [`BLOCKS`] blocks, and a thread that has free blocks at hand.
    fn prepared(directory: &tempfile::TempDir) -> (Arc<Volume>, PathBuf, FileReference) {
        let (volume, path) = new_volume(directory);
        let made = volume.create(InodeNumber::ROOT, b"file", &FILE);
        let file = volume.open(made.expect("create").ino, None).expect("open");
        let filled = volume.write(file, 0, &[1; (BLOCKS * BLOCK) as usize]);
        filled.expect("write");
        volume.write(file, 0, &[1; BLOCK as usize]).expect("write");
        (volume, path, file)
    }

    fn at_once(volume: &Volume, file: FileReference, block: u64, byte: u8) -> Option<usize> {
        let bytes = [byte; BLOCK as usize];
        volume.write_quickly(file, block * BLOCK, bytes[..].into())
    }

    #[test]
    fn blocks_are_overwritten_at_once_and_found_again() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, path, file) = prepared(&directory);
        let free = volume.space(None).free_blocks;
        let written = || (0..BLOCKS).map(|at| (at * 7 % BLOCKS, at as u8 + 2));
        let mut quick = 0;
        for (block, byte) in written() {
            match at_once(&volume, file, block, byte) {
                Some(_) => quick += 1,
                // The page of the log is full.
                None => drop(volume.write(file, block * BLOCK, &[byte; BLOCK as usize])),
            }
        }
        assert!(quick >= BLOCKS - 2, "{quick}");
        let mut read = vec![0; BLOCK as usize];
        let check = |volume: &Volume, file, read: &mut [u8]| {
            for (block, byte) in written() {
                let bytes = volume.read(file, block * BLOCK, read);
                assert_eq!(bytes, Ok(BLOCK as usize));
                assert!(read.iter().all(|read| *read == byte), "block {block}");
            }
        };
        check(&volume, file, &mut read);
        let counters = volume.counters();
        assert_eq!(counters.direct_calls, quick);
        assert!(
            free - volume.space(None).free_blocks <= 1,
            "a page of the log at most"
        );
        drop(volume);
        assert_eq!(findings(&path), []);
        let options = AttachOptions::default();
        let volume = Volume::attach(&path, AttachMode::CreateOrJoin, &options).expect("attach");
        let found = volume.lookup(InodeNumber::ROOT, b"file").expect("lookup");
        let file = volume.open(found.ino, None).expect("open");
        check(&volume, file, &mut read);
    }

    #[test]
    fn blocks_behind_the_end_are_left() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _, file) = prepared(&directory);
        let write = |at, bytes: &[u8]| volume.write_quickly(file, at, bytes.into());
        assert_eq!(write(0, &[2; BLOCK as usize + 1]), None);
        assert_eq!(write((BLOCKS + 1) * BLOCK, &[2; BLOCK as usize]), None);
        assert_eq!(write(u64::MAX - BLOCK + 1, &[2; BLOCK as usize]), None);
        volume.mark_kernel_cached(file.ino()).expect("mark");
        assert_eq!(at_once(&volume, file, 3, 2), None, "the kernel has pages");
        volume.unmark_kernel_cached(file.ino());
        assert_eq!(at_once(&volume, file, 3, 2), Some(BLOCK as usize));
    }

    #[test]
    fn a_lock_that_is_held_is_not_waited_for() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _, file) = prepared(&directory);
        let stopped = Stopped::in_child(&volume, |volume| volume.lock(file.ino().0));
        assert_eq!(at_once(&volume, file, 3, 2), None);
        stopped.kill();
        assert_eq!(at_once(&volume, file, 3, 2), None, "its owner died");
        // The ordinary way recovers it.
        volume.write(file, 0, &[2; BLOCK as usize]).expect("write");
        assert_eq!(at_once(&volume, file, 3, 2), Some(BLOCK as usize));
    }

    #[test]
    fn bad_memory_takes_no_block() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, path, file) = prepared(&directory);
        let before = volume.space(None);
        // SAFETY: nothing is mapped there.
        let nowhere = unsafe { CallerSource::new(std::ptr::null(), BLOCK as usize) };
        for _ in 0..100 {
            assert_eq!(volume.write_quickly(file, 0, nowhere), None);
        }
        assert_eq!(volume.space(None).free_blocks, before.free_blocks);
        assert_eq!(at_once(&volume, file, 3, 2), Some(BLOCK as usize));
        drop(volume);
        assert_eq!(findings(&path), []);
    }
}
