//! Snapshots: the state of all inodes at one instant, kept while programs go on.
//!
//! 1. A snapshot begins when its number is stored in the session's header, together with a flag that freed blocks stay.
//! 2. A thread that has locked an inode and is about to change it keeps the inode's record first, once per snapshot. The process that
//!    reads the snapshot locks inodes of which no record was kept, and keeps theirs.
//! 3. Logs are only appended to, and data goes to new blocks. Since freed blocks are not used again, the record leads to all that
//!    the inode had at that instant.
//!
//! The number is read after the inode's lock was taken. So an operation that changes several inodes is in the snapshot with all of
//! them or with none. If it saw no number for one of them, it keeps no record: others keep all of them after its commit. Else it
//! keeps all of them before.
//! An operation that began after another one had returned is in the snapshot only if that one is: it sees the number if that one saw
//! it.
//!
//! Programs come first: without memory for a record, or without space, the snapshot ends early, and its reader learns it.

use crate::format::INODE_BYTES;
use crate::session::Snapshots;
use crate::session::inode::Locked;
use crate::session::layout::KeptRecord;
use crate::types::{Errno, Outcome};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of an inode's record.
pub(crate) const RECORD_WORDS: usize = INODE_BYTES as usize / 8;

/// Bit of `SessionHeader::keeps_freed_blocks`: recovery found a block with two owners. The bits above it hold the number of the
/// snapshot under way.
const SHARED_BLOCKS: u64 = 1;

impl Locked<'_> {
    /// Keep the inode's record for a snapshot under way. Before a change of the record that no log has.
    pub(crate) fn keep_for_snapshot(&self) {
        let number = Snapshots::of(self.volume).seen();
        if number != 0 {
            Snapshots::of(self.volume).keep_or_cancel(self.ino, number);
        }
    }
}

impl<'v> Snapshots<'v> {
    fn word(self) -> &'v AtomicU64 {
        &self.volume.session.header().keeps_freed_blocks
    }

    /// Number of the snapshot under way, by a thread that holds the lock of an inode; 0: none.
    #[inline(always)]
    pub(crate) fn seen(self) -> u64 {
        self.word().load(Ordering::Relaxed) >> 1
    }

    /// Number of the snapshot under way; 0: none.
    #[inline]
    pub(crate) fn current(self) -> u64 {
        self.word().load(Ordering::Acquire) >> 1
    }

    /// Blocks may have two owners: freed ones stay in use in this session.
    pub(crate) fn note_shared_blocks(self) {
        self.word().fetch_or(SHARED_BLOCKS, Ordering::Release);
    }

    pub(crate) fn has_shared_blocks(self) -> bool {
        self.word().load(Ordering::Relaxed) & SHARED_BLOCKS != 0
    }

    /// Whether blocks that are freed now are not used again.
    #[inline(always)]
    pub(crate) fn keeps_freed_blocks(self) -> bool {
        self.word().load(Ordering::Relaxed) != 0
    }

    /// Begin a snapshot of this process.
    ///
    /// # Errors
    /// `EBUSY` while there is another one, `ENOMEM`.
    pub(crate) fn begin(self) -> Outcome<u64> {
        let session = &self.volume.session;
        let owner = self.volume.me()?.slot.owner.load(Ordering::Relaxed);
        session.back_held_maps()?;
        let header = session.header();
        let taken =
            header
                .snapshot_owner
                .compare_exchange(0, owner, Ordering::AcqRel, Ordering::Relaxed);
        taken.map_err(|_| Errno(libc::EBUSY))?;
        let number = header.snapshots.fetch_add(1, Ordering::Relaxed) + 1;
        self.word().fetch_or(number << 1, Ordering::AcqRel);
        // Operations that begin from here on see the number.
        fence(Ordering::SeqCst);
        Ok(number)
    }

    /// End the snapshot early, also that of another process. Its blocks stay until they are released.
    pub(crate) fn cancel(self) {
        self.word().fetch_and(SHARED_BLOCKS, Ordering::AcqRel);
    }

    /// The process in this slot, plus 1, reads no snapshot any more. Returns whether it read one.
    pub(crate) fn leave(self, owner: u64) -> bool {
        let place = &self.volume.session.header().snapshot_owner;
        if place.load(Ordering::Acquire) != owner {
            return false;
        }
        self.cancel();
        true
    }

    /// Another snapshot may begin.
    pub(crate) fn free_place(self, owner: u64) {
        let place = &self.volume.session.header().snapshot_owner;
        let _ = place.compare_exchange(owner, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Keep the record of an inode, which this thread has locked, before it is changed.
    pub(crate) fn keep_or_cancel(self, ino: u64, number: u64) {
        if self.keep(ino, number).is_err() {
            self.cancel();
        }
    }

    /// Keep the record of an inode, which this thread has locked, if it is not kept yet.
    ///
    /// # Errors
    /// `ENOMEM`; `EIO` when the record cannot be read.
    pub(crate) fn keep(self, ino: u64, number: u64) -> Outcome<()> {
        let place = self.volume.session.kept_record(ino)?;
        self.volume.session.back(place)?;
        if place.number.load(Ordering::Acquire) == number {
            return Ok(());
        }
        let (pool, at) = self.volume.record_place(ino)?;
        for (word, kept) in place.words.iter().enumerate() {
            let value = self.volume.load_word(pool, at + 8 * word as u64)?;
            kept.store(value, Ordering::Relaxed);
        }
        // The next write in place puts its time into the log first, and the next change has a later time than all before. So a
        // later snapshot finds that the file has changed.
        let inode = self.volume.inode(ino)?;
        inode.logged_time.store(0, Ordering::Relaxed);
        inode.times_shown.store(1, Ordering::Relaxed);
        // Last: a record that is half kept by a dead thread is kept again.
        place.number.store(number, Ordering::Release);
        Ok(())
    }

    /// The record that was kept of an inode; `None`: none yet.
    pub(crate) fn kept(self, ino: u64, number: u64) -> Outcome<Option<[u64; RECORD_WORDS]>> {
        let place = self.volume.session.kept_record(ino)?;
        self.volume.session.back(place)?;
        if place.number.load(Ordering::Acquire) != number {
            return Ok(None);
        }
        let word = |at: usize| place.words[at].load(Ordering::Relaxed);
        Ok(Some(std::array::from_fn(word)))
    }
}

const _: () = assert!(size_of::<KeptRecord>() == INODE_BYTES as usize + 8);
