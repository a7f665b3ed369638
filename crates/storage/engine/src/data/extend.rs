//! Fast path of most appends: at most a block at the end of file, in the block of the end or as a block of its own. Does
//! the steps of `write` without those for longer writes.

use crate::data::Writing;
use crate::data::overwrite::count_written;
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
use crate::session::slots::Me;
use crate::session::volume::FileReference;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use egeria_media::{BlockNumber, CallerSource, PoolIndex};
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

impl Writing<'_> {
    /// Write at the end of file; where it landed. `None`: nothing was done; use the ordinary path, which also reports
    /// what is wrong.
    pub(crate) fn extend(
        self,
        file: FileReference,
        target: Target,
        source: CallerSource<'_>,
        rules: WriteRules,
        mode: PathMode,
    ) -> Option<u64> {
        if !self.is_usual_extension(file, target, source, mode) {
            return None;
        }
        self.write_locked(file, source, |locked| {
            self.extend_locked::<true>(locked, target, source, rules)
        })
    }

    /// As [`Writing::extend`], by a process that bypasses the kernel, if the inode's lock is free. Cannot panic.
    #[inline(never)]
    pub(crate) fn extend_at_once(
        self,
        me: Me<'_>,
        file: FileReference,
        target: Target,
        source: CallerSource<'_>,
    ) -> Option<u64> {
        if !self.is_usual_extension(file, target, source, PathMode::NORMAL) {
            return None;
        }
        self.write_locked_at_once(me, file, source, |locked| {
            self.extend_locked::<false>(locked, target, source, WriteRules::DIRECT)
        })
    }

    /// Whether it is worth taking the lock: the end of file may be another then.
    #[inline(always)]
    fn is_usual_extension(
        self,
        file: FileReference,
        target: Target,
        source: CallerSource<'_>,
        mode: PathMode,
    ) -> bool {
        let size_bytes = file.inode().size_bytes.load(Ordering::Relaxed);
        self.volume.path_mode() == mode
            && target.is_end(size_bytes)
            && is_in_one_block(size_bytes, source.bytes())
            && !self.volume.is_read_only()
            && !has_pairs(file.inode().root.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn extend_locked<const MAY_BE_COUNTED: bool>(
        self,
        locked: &Locked<'_>,
        target: Target,
        source: CallerSource<'_>,
        rules: WriteRules,
    ) -> Option<u64> {
        let inode = locked.inode;
        let (offset, bytes) = (locked.size_bytes(), source.bytes());
        if !target.is_end(offset) || !is_in_one_block(offset, bytes) {
            return None;
        }
        let within = offset % BLOCK as u64;
        if within == 0 {
            return self
                .overwrite_locked::<MAY_BE_COUNTED>(locked, offset, source, rules)
                .map(|()| offset);
        }
        let word = locked.index().load(offset / BLOCK as u64);
        let cached = rules.direct && inode.kernel_cached.load(Ordering::Acquire) != 0;
        let usual = !cached
            && word.has_data()
            && locked.is_regular()
            && !locked.has_sums()
            && !Log::of(self.volume).is_compaction_due(locked);
        if !usual {
            return None;
        }
        let mut staged = Staged::begin(locked, Need::Ordinary).ok()?;
        if !staged.has_line() {
            return None;
        }
        let me = locked.me;
        let size_bytes = offset + bytes as u64;
        let time_ns = Stamps::of(self.volume).stamp_ns(inode);
        // It takes no block, so that there is nothing to give back.
        let mut operation = ManuallyDrop::new(Operation::new(self.volume, me));
        let entry = WriteEntry {
            file_block: 0,
            count: 0,
            pool: PoolIndex(0),
            block: BlockNumber(0),
            size_bytes,
            unwritten: false,
            touches_mtime: true,
            sums: &[],
        };
        staged.store_write(self.volume, &entry, time_ns).ok()?;
        // These bytes are not visible before the commit moves the size.
        let pool = self.volume.pool(word.pool()).ok()?;
        pool.copy_in(word.block().offset() + within, source).ok()?;
        let direct = rules.begin_commit(inode).ok()?;
        operation.commit_one(&staged).ok()?;
        let changing = WriteSection::begin(inode);
        inode.note_write(size_bytes, time_ns);
        Log::of(self.volume).end_apply(inode, &staged, changing);
        drop(direct);
        let here = self.volume.pool_of_writer(me);
        count_written(me, word.pool(), here, bytes as u64);
        Some(offset)
    }
}

/// Whether this number of bytes at the end of file fills a part of the last block, or one whole block.
#[inline(always)]
fn is_in_one_block(size_bytes: u64, bytes: usize) -> bool {
    let within = (size_bytes % BLOCK as u64) as usize;
    let fits = if within == 0 {
        bytes == BLOCK
    } else {
        (1..=BLOCK - within).contains(&bytes)
    };
    fits && size_bytes < MAX_FILE_BYTES - BLOCK as u64
}

#[cfg(test)]
mod tests {
    use crate::test_volume::{FILE, findings, new_volume};
    use crate::*;
    use egeria_stats::rng::Rng;
    use std::path::PathBuf;
    use std::sync::Arc;

    const BLOCK: usize = 4096;

    /// A volume with an empty file, and another one that has blocks.
    fn prepared(directory: &tempfile::TempDir) -> (Arc<Volume>, PathBuf, FileReference) {
        let (volume, path) = new_volume(directory);
        let open = |name| {
            let made = volume.create(InodeNumber::ROOT, name, &FILE);
            volume.open(made.expect("create").ino, None).expect("open")
        };
        volume
            .write(open(b"other"), 0, &[1; 64 * BLOCK])
            .expect("write");
        let file = open(b"file");
        (volume, path, file)
    }

    /// Give the thread this number of free blocks at hand.
    fn give_blocks(volume: &Volume, blocks: u64) {
        let other = volume.lookup(InodeNumber::ROOT, b"other").expect("lookup");
        let size = volume.attributes(other.ino).expect("attributes").size_bytes;
        let change = AttributeChange {
            size_bytes: Some(size - blocks * BLOCK as u64),
            ..AttributeChange::default()
        };
        volume.set_attributes(other.ino, &change).expect("truncate");
    }

    /// Appends, the quick way if it can.
    fn append(volume: &Volume, file: FileReference, bytes: &[u8]) -> (u64, bool) {
        match volume.append_quickly(file, bytes.into()) {
            Some(offset) => (offset, true),
            None => (volume.append(file, bytes).expect("append").0, false),
        }
    }

    fn content(volume: &Volume, file: FileReference) -> Vec<u8> {
        let mut all = vec![
            0;
            volume
                .attributes(file.ino())
                .expect("attributes")
                .size_bytes as usize
        ];
        assert_eq!(volume.read(file, 0, &mut all), Ok(all.len()));
        all
    }

    #[test]
    fn appends_go_the_quick_way_and_are_found_again() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, path, file) = prepared(&directory);
        let mut expected = Vec::new();
        let mut quick = 0;
        for round in 0..4 * 256u32 {
            let bytes = [round as u8; 256];
            let (offset, was_quick) = append(&volume, file, &bytes);
            assert_eq!(offset as usize, expected.len());
            expected.extend(bytes);
            quick += u32::from(was_quick);
        }
        // One in sixteen begins a block, and one in some sixty a page of the log.
        assert!(quick > 900, "{quick}");
        give_blocks(&volume, 4);
        for round in 0..4 {
            let bytes = [round as u8; BLOCK];
            let (_, was_quick) = append(&volume, file, &bytes);
            expected.extend(bytes);
            assert!(was_quick, "block {round}");
        }
        assert!(content(&volume, file) == expected);
        drop(volume);
        assert_eq!(findings(&path), []);
        let options = AttachOptions::default();
        let volume = Volume::attach(&path, AttachMode::CreateOrJoin, &options).expect("attach");
        let found = volume.lookup(InodeNumber::ROOT, b"file").expect("lookup");
        let file = volume.open(found.ino, None).expect("open");
        assert!(content(&volume, file) == expected);
    }

    #[test]
    fn random_changes_of_the_end_are_those_of_a_vector() {
        for seed in 0..8 {
            let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
            let (volume, path, file) = prepared(&directory);
            let mut random = Rng::new(seed);
            let mut expected: Vec<u8> = Vec::new();
            for round in 0..600u32 {
                let byte = round as u8 | 1;
                let most = [8, 300, 2 * BLOCK][random.below(3) as usize];
                let bytes = vec![byte; 1 + random.below(most as u64) as usize];
                let end = expected.len() as u64;
                match random.below(12) {
                    0 => {
                        let size = random.below(end + BLOCK as u64);
                        let change = AttributeChange {
                            size_bytes: Some(size),
                            ..AttributeChange::default()
                        };
                        volume
                            .set_attributes(file.ino(), &change)
                            .expect("truncate");
                        expected.resize(size as usize, 0);
                    }
                    1 => {
                        let reserved =
                            volume.allocate(file, end, 3 * BLOCK as u64, AllocateMode::KeepSize);
                        reserved.expect("reserve");
                    }
                    2 => {
                        // A gap is zeros, whatever was behind the end before.
                        let at = end + random.below(300);
                        volume.write(file, at, &bytes).expect("write");
                        expected.resize(at as usize, 0);
                        expected.extend(&bytes);
                    }
                    3 => {
                        let whole = [byte; BLOCK];
                        append(&volume, file, &whole);
                        expected.extend(whole);
                    }
                    4..8 => {
                        if volume.write_quickly(file, end, bytes[..].into()).is_none() {
                            volume.write(file, end, &bytes).expect("write");
                        }
                        expected.extend(&bytes);
                    }
                    _ => {
                        append(&volume, file, &bytes);
                        expected.extend(&bytes);
                    }
                }
            }
            assert!(content(&volume, file) == expected, "seed {seed}");
            drop(volume);
            assert_eq!(findings(&path), [], "seed {seed}");
        }
    }

    #[test]
    fn what_ends_in_another_block_is_left() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _, file) = prepared(&directory);
        volume.append(file, &[1; 5000]).expect("append");
        let quick = |bytes: &[u8]| volume.append_quickly(file, bytes.into());
        assert_eq!(quick(&[2; 2 * BLOCK - 5000 + 1]), None);
        assert_eq!(quick(&[]), None);
        let at = |at, bytes: &[u8]| volume.write_quickly(file, at, bytes.into());
        assert_eq!(at(4999, &[2; 8]), None, "before the end");
        assert_eq!(at(5001, &[2; 8]), None, "behind it");
        assert_eq!(at(5000, &[2; 8]), Some(8));
        volume.mark_kernel_cached(file.ino()).expect("mark");
        assert_eq!(quick(&[2; 8]), None, "the kernel has pages");
        volume.unmark_kernel_cached(file.ino());
        assert_eq!(quick(&[2; 8]), Some(5008));
        assert_eq!(quick(&[2; 2 * BLOCK - 5016]), Some(5016));
        give_blocks(&volume, 1);
        volume.append(file, &[2; 8 * BLOCK]).expect("append");
        assert_eq!(quick(&[2; BLOCK]), Some(10 * BLOCK as u64));
    }

    #[test]
    fn bad_memory_appends_nothing() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, path, file) = prepared(&directory);
        volume.append(file, &[1; 100]).expect("append");
        for bytes in [8, BLOCK] {
            // SAFETY: nothing is mapped there.
            let nowhere = unsafe { CallerSource::new(std::ptr::null(), bytes) };
            assert_eq!(volume.append_quickly(file, nowhere), None);
        }
        assert_eq!(content(&volume, file), [1; 100]);
        drop(volume);
        assert_eq!(findings(&path), []);
    }
}
