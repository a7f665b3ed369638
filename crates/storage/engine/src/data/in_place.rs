//! Overwrites in place, of striped files (OdinFS §4.3). Writers of ranges that do not overlap need not wait for each
//! other. Nothing is logged except, at intervals, the time of the last change.
//!
//! 1. Only written blocks below the end of file are changed in place, and only in files without checksums. All other
//!    writes go the ordinary way: to new blocks, under the inode's lock.
//! 2. A reader during such a write may find any part of it; so may a reader after a crash or a death during the write.
//! 3. The holder of the inode's lock and in-place writers exclude each other (`session::in_place`).
//! 4. No lock that the mount needs is held over a fault of the caller's memory: reading a file needs neither of the
//!    two. Afterwards the writer checks whether the kernel got pages of the file during the write. If so, the data is
//!    written again: by a direct writer through the kernel, by others in the ordinary way.

use crate::data::delegation::Delegation;
use crate::data::read::continues;
use crate::data::write_rules::WriteRules;
use crate::data::{Reading, Writing};
use crate::format::*;
use crate::session::access::{Access, Run};
use crate::session::in_place::MAX_IN_PLACE_BLOCKS;
use crate::session::index::Index;
use crate::session::layout::SessionInode;
use crate::session::slots::Me;
use crate::session::volume::FileReference;
use crate::session::{Locking, Snapshots, Stamps};
use crate::types::*;
use egeria_media::CallerSource;
use egeria_media::emulation::AccessKind;
use std::sync::atomic::{Ordering, fence};

impl SessionInode {
    /// A write was committed at this time; the file has this size now.
    #[inline(always)]
    pub(crate) fn note_write(&self, size_bytes: u64, time_ns: i64) {
        self.size_bytes.store(size_bytes, Ordering::Release);
        self.mtime_ns.store(time_ns as u64, Ordering::Relaxed);
        self.ctime_ns.store(time_ns as u64, Ordering::Relaxed);
        self.note_logged_time(time_ns);
    }

    /// Unit of 2^30 ns for the last change time recorded in the log.
    #[inline(always)]
    pub(crate) fn note_logged_time(&self, time_ns: i64) {
        self.logged_time
            .store((time_ns >> 30) as u32, Ordering::Relaxed);
    }

    fn is_time_logged(&self, time_ns: i64) -> bool {
        self.logged_time.load(Ordering::Relaxed) == (time_ns >> 30) as u32
    }
}

impl Writing<'_> {
    /// Overwrite blocks in place. Returns the bytes written, fewer when the caller's memory ends early. `None`: use
    /// the ordinary path, which writes all of it.
    pub(crate) fn overwrite_in_place(
        self,
        file: FileReference,
        offset: u64,
        source: CallerSource<'_>,
        rules: WriteRules,
        delegation: Option<&Delegation<'_>>,
    ) -> Option<Outcome<usize>> {
        let inode = file.inode();
        let bytes = source.bytes();
        let end = offset.checked_add(bytes as u64)?;
        let blocks = (offset / BLOCK as u64, end.checked_sub(1)? / BLOCK as u64);
        let time_ns = Stamps::of(self.volume).stamp_ns(inode);
        let keeps_blocks = || Snapshots::of(self.volume).keeps_freed_blocks();
        let usual = bytes != 0
            && blocks.1 - blocks.0 < MAX_IN_PLACE_BLOCKS
            && inode.is_written_in_place()
            && !self.volume.is_read_only()
            && (inode.is_time_logged(time_ns) || self.is_time_logged_there(inode, time_ns))
            // Its blocks may also belong to another file, or to a snapshot.
            && !keeps_blocks();
        if !usual {
            return None;
        }
        let me = self.volume.me().ok()?;
        let ranges = match Locking::of(self.volume).lock_ranges(me, file.ino.0, blocks.0, blocks.1)
        {
            Ok(ranges) => ranges,
            Err(errno) => return Some(Err(errno)),
        };
        let writing = Locking::of(self.volume).begin_in_place(me, file.ino.0, inode)?;
        // Where the kernel has pages, mounts detect a change by the inode's sequence, which is not changed here.
        let is_cached = || inode.kernel_cached.load(Ordering::Acquire) != 0;
        let index = Reading::of(self.volume).index_of(inode);
        let is_written = |block| index.load(block).has_data();
        if end > inode.size_bytes.load(Ordering::Acquire)
            || is_cached()
            // A snapshot may have begun, and has this file as it is, unless it waits for this write.
            || keeps_blocks()
            || !(blocks.0..=blocks.1).all(is_written)
        {
            return None;
        }
        let mut access = Access::begin_long(self.volume, me, AccessKind::Write, delegation);
        let (mut done, mut fault) = copy_in_place(&mut access, index, offset, source);
        if !access.settle() {
            (done, fault) = copy_in_place(&mut access, index, offset, source);
        }
        // Durable before the call returns, and before checking which pages the kernel got.
        if let Ok(pool) = self.volume.pool(egeria_media::PoolIndex(0)) {
            pool.fence();
        }
        fence(Ordering::SeqCst);
        if is_cached() {
            return rules.direct.then_some(Err(Errno(libc::EAGAIN)));
        }
        inode.mtime_ns.store(time_ns as u64, Ordering::Relaxed);
        inode.ctime_ns.store(time_ns as u64, Ordering::Relaxed);
        drop(writing);
        drop(ranges);
        Some(self.end_in_place(me, file, access, done, fault))
    }

    /// On an emulated machine, a time is logged as often as there: seconds of it are longer here. Otherwise writes
    /// that take the lock would be as many as the machine is slow.
    #[cold]
    fn is_time_logged_there(self, inode: &SessionInode, time_ns: i64) -> bool {
        let Some(emulation) = self.volume.emulated() else {
            return false;
        };
        let logged = i64::from(inode.logged_time.load(Ordering::Relaxed));
        let since = (time_ns >> 30) - logged;
        logged != 0 && emulation.is_on() && (0..emulation.dilation() as i64).contains(&since)
    }

    fn end_in_place(
        self,
        me: Me<'_>,
        file: FileReference,
        access: Access<'_>,
        done: usize,
        fault: Option<Errno>,
    ) -> Outcome<usize> {
        access.end();
        self.volume
            .note_use(me, file, done as u64, AccessKind::Write);
        match fault {
            Some(errno) if done == 0 => Err(errno),
            _ => Ok(done),
        }
    }
}

/// Copy run by run; returns the bytes copied and the error that stopped it.
fn copy_in_place(
    access: &mut Access<'_>,
    index: Index<'_>,
    offset: u64,
    source: CallerSource<'_>,
) -> (usize, Option<Errno>) {
    let mut done = 0;
    while done < source.bytes() {
        let at = offset + done as u64;
        let (file_block, within) = (at / BLOCK as u64, at % BLOCK as u64);
        let word = index.load(file_block);
        let left = source.bytes() - done;
        let mut bytes = BLOCK - within as usize;
        let mut next = 1;
        while bytes < left && continues(word, index.load(file_block + next), next) {
            bytes += BLOCK;
            next += 1;
        }
        let from = source.after(done).first(bytes);
        let run = Run {
            pool: word.pool(),
            at: word.block().offset() + within,
            bytes: from.bytes(),
        };
        if let Err(errno) = access.copy_in(run, from) {
            return (done, Some(errno));
        }
        done += from.bytes();
    }
    (done, None)
}

#[cfg(test)]
mod tests {
    use crate::session::{Locking, Stamps};
    use crate::test_volume::{FILE, Stopped, new_volume};
    use crate::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    const BLOCKS: u64 = 64;
    const BLOCK: u64 = 4096;

    /// A volume with a striped file of [`BLOCKS`] blocks.
    fn prepared(directory: &tempfile::TempDir) -> (Arc<Volume>, FileReference) {
        let (volume, _) = new_volume(directory);
        let made = volume.create(InodeNumber::ROOT, b"file", &FILE);
        let ino = made.expect("create").ino;
        let layout = b"user.egeria.layout";
        let set = volume.set_xattr(ino, layout, b"striped:4096", XattrMode::Any);
        set.expect("setxattr");
        let file = volume.open(ino, None).expect("open");
        let filled = volume.write(file, 0, &[1; (BLOCKS * BLOCK) as usize]);
        filled.expect("write");
        (volume, file)
    }

    fn write(volume: &Volume, file: FileReference, at: u64) -> Outcome<usize> {
        // Repeat until the time is logged, which is soon.
        volume.write(file, at, &[2; BLOCK as usize])?;
        volume.write(file, at, &[3; BLOCK as usize])
    }

    /// A process that stopped while it wrote the first blocks in place.
    fn stopped_writer(volume: &Arc<Volume>, file: FileReference) -> Stopped {
        Stopped::in_child(volume, |volume| {
            let me = volume.me()?;
            let ranges = Locking::of(volume).lock_ranges(me, file.ino().0, 0, 0)?;
            let writing = Locking::of(volume).begin_in_place(me, file.ino().0, file.inode());
            Ok((ranges, writing.ok_or(Errno(libc::EBUSY))?))
        })
    }

    #[test]
    fn other_ranges_do_not_wait_for_a_stopped_writer() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, file) = prepared(&directory);
        let stopped = stopped_writer(&volume, file);
        let soon =
            |body: &dyn Fn() -> Outcome<usize>| within_patience(Duration::from_millis(20), body);
        let mut block = [0; BLOCK as usize];
        let read = volume.read(file, 0, &mut block);
        assert_eq!(read, Ok(block.len()));
        volume.attributes(file.ino()).expect("stat");
        assert_eq!(
            soon(&|| volume.write(file, 0, &[2; 10])),
            None,
            "the same range"
        );
        let change = AttributeChange {
            size_bytes: Some(0),
            ..AttributeChange::default()
        };
        let truncate = || volume.set_attributes(file.ino(), &change).map(|_| 0);
        assert_eq!(soon(&truncate), None, "it would take its blocks away");
        stopped.kill();
        assert_eq!(write(&volume, file, 0), Ok(BLOCK as usize));
        assert_eq!(truncate(), Ok(0));
        assert_eq!(volume.attributes(file.ino()).expect("stat").size_bytes, 0);
    }

    #[test]
    fn other_ranges_are_free_beside_a_stopped_writer() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, file) = prepared(&directory);
        // Now the time of the change is logged and stays valid for some time.
        volume.write(file, 0, &[2; BLOCK as usize]).expect("write");
        let stopped = stopped_writer(&volume, file);
        // If the second ends during the write, the write must log the time, and waits: not for long.
        let written = within_patience(Duration::from_millis(20), || {
            volume.write(file, 32 * BLOCK, &[3; BLOCK as usize])
        });
        let is_logged = written == Some(Ok(BLOCK as usize));
        assert!(is_logged || !file.inode().is_time_logged(Stamps::of(&volume).now_ns()));
        stopped.kill();
    }

    #[test]
    fn what_the_kernel_gets_meanwhile_is_written_again_through_it() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, file) = prepared(&directory);
        volume.mark_kernel_cached(file.ino()).expect("mark");
        let source = [4; BLOCK as usize];
        let direct = volume.write_direct(file, 0, source[..].into());
        assert_eq!(direct, Err(Errno(libc::EAGAIN)));
        volume.unmark_kernel_cached(file.ino());
        let direct = volume.write_direct(file, 0, source[..].into());
        assert_eq!(direct, Ok(source.len()));
    }

    #[test]
    fn a_writer_in_place_waits_for_the_holder_of_the_lock() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, file) = prepared(&directory);
        let is_there = AtomicBool::new(false);
        let begins = || {
            let me = volume.me()?;
            is_there.store(true, Ordering::Release);
            let locking = Locking::of(&volume);
            let writing = locking.begin_in_place(me, file.ino().0, file.inode());
            Ok(usize::from(writing.is_some()))
        };
        std::thread::scope(|scope| {
            let locked = volume.lock(file.ino().0).expect("a lock");
            let writer = scope.spawn(|| within_patience(Duration::from_secs(60), begins));
            while !is_there.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(5));
            drop(locked);
            assert_eq!(writer.join().expect("a thread"), Some(Ok(1)));
        });
    }

    #[test]
    fn nobody_writes_in_place_while_the_inode_is_locked() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, file) = prepared(&directory);
        let begins = || {
            let me = volume.me().expect("a slot");
            let writing = Locking::of(&volume).begin_in_place(me, file.ino().0, file.inode());
            writing.is_some()
        };
        let begins_elsewhere =
            || std::thread::scope(|scope| scope.spawn(begins).join().expect("a thread"));
        assert!(begins_elsewhere());
        let locked = volume.lock(file.ino().0).expect("a lock");
        assert!(!begins_elsewhere());
        drop(locked);
        assert!(begins_elsewhere());
        let plain = volume.create(InodeNumber::ROOT, b"plain", &FILE);
        let plain = volume.open(plain.expect("create").ino, None).expect("open");
        let me = volume.me().expect("a slot");
        let writing = Locking::of(&volume).begin_in_place(me, plain.ino().0, plain.inode());
        assert!(writing.is_none(), "it is not striped");
    }
}
