//! What callers ask of a log, and what the session asks: loading an inode, and putting it right after a death.

use crate::format::*;
use crate::log::Log;
use crate::log::apply::COMPACT_MIN_PAGES;
use crate::session::inode::Locked;
use crate::session::volume::Volume;
use crate::space::operation::Operation;
use crate::types::*;
use std::sync::atomic::Ordering;

impl Volume {
    /// Apply the entries between the applied position and the committed tail on media.
    pub(crate) fn apply_from_log(&self, locked: &Locked<'_>) -> Outcome<()> {
        let record = self.read_record(locked.ino)?;
        let applied = locked.commit()?;
        if applied.head_index != record.commit.head_index {
            // The log was compacted since: the caller reads the new log from its head.
            return Err(Errno(libc::EAGAIN));
        }
        let inode = locked.inode;
        let mut place = locked.log_place();
        place.pages_before = inode.log_pages.load(Ordering::Relaxed);
        let loading = applied.tail.is_none();
        let mut operation = Operation::new(self, locked.me);
        let mut pages = 0;
        Log::of(self).walk_log(
            place,
            record.commit,
            applied.tail,
            &mut |_| {
                pages += 1;
                Ok(())
            },
            &mut |position, entry, time_ns| {
                Log::of(self).apply_entry(locked, &mut operation, position, entry, time_ns, loading)
            },
        )?;
        operation.settle_replaced();
        inode.log_pages.fetch_add(pages, Ordering::Relaxed);
        if loading {
            inode
                .compact_at_pages
                .store((2 * pages).max(COMPACT_MIN_PAGES), Ordering::Relaxed);
        }
        let ctime_ns = inode.ctime_ns.load(Ordering::Relaxed) as i64;
        if let Some(moved_ns) = record.moved_ns.filter(|moved_ns| *moved_ns > ctime_ns) {
            inode.ctime_ns.store(moved_ns as u64, Ordering::Relaxed);
        }
        if record.commit.orphan {
            // The orphan mark implies this, so that losing the last name needs no log entry.
            inode.nlink.store(0, Ordering::Relaxed);
        } else if locked.kind() == FileKind::Directory && inode.nlink.load(Ordering::Relaxed) != 1 {
            return Err(self.damaged(locked.ino, "link count of a directory"));
        }
        inode
            .applied
            .store(record.commit.encode(locked.ino), Ordering::Release);
        Ok(())
    }

    /// Settle replaced runs that a dead owner noted for this inode: runs that the index no longer names are free; the
    /// rest will be replaced by applying the log. Under `recovery`.
    pub(crate) fn reclaim_replaced_blocks(&self, locked: &Locked<'_>, dead: usize) {
        Log::of(self).settle_pending(locked, dead, true);
    }

    /// Settle new runs that a dead owner took for this inode: runs that no commit mapped are free.
    pub(crate) fn reclaim_new_blocks(&self, locked: &Locked<'_>, dead: usize) {
        Log::of(self).settle_pending(locked, dead, false);
        Log::of(self).settle_pending(locked, dead, true);
    }

    /// Finish what a slot's journal holds: of a dead owner (under `recovery`), or when a session is made. Returns how
    /// many words it held. Places outside of records are refused.
    pub(crate) fn complete_journal(&self, slot: usize) -> Option<usize> {
        let pairs = Log::of(self).read_journal(slot)?;
        Log::of(self).apply_journal(slot, &pairs).ok()?;
        Some(pairs.len())
    }

    /// Delete an inode that has neither names nor opens.
    pub(crate) fn delete_if_unused(&self, locked: &Locked<'_>) -> Outcome<()> {
        if locked.inode.nlink.load(Ordering::Relaxed) == 0
            && !self.session.is_open_anywhere(locked.ino, locked.inode)
        {
            // The name is gone in any case; recovery would finish the deletion.
            if Log::of(self).delete_inode(locked).is_err() {
                locked.me.inode_settled();
            }
        }
        Ok(())
    }

    /// All pages of an inode's log.
    pub(crate) fn log_pages(&self, locked: &Locked<'_>) -> Outcome<Vec<LogPosition>> {
        let record = self.read_record(locked.ino)?;
        let place = record.log_place(locked.ino);
        let mut pages = Vec::new();
        Log::of(self).walk_pages(place, record.commit, &mut |page| {
            pages.push(page);
            Ok(())
        })?;
        Ok(pages)
    }

    /// Where the data of a file goes, or for a directory the data of files created in it.
    ///
    /// # Errors
    /// What [every operation](crate::Errno) can fail with.
    pub fn layout(&self, ino: InodeNumber) -> Outcome<FileLayout> {
        let layout = self.lock_beside_leases(ino.0)?.layout();
        Ok(match layout.stripe_blocks() {
            Some(blocks) => FileLayout::Striped {
                stripe_bytes: blocks as u64 * BLOCK as u64,
            },
            None if layout == LayoutWord::LOCAL => FileLayout::Local,
            None => FileLayout::Unset,
        })
    }

    /// Whether this session has ever loaded a striped file.
    pub fn has_striped_files(&self) -> bool {
        self.session.header().striped_files.load(Ordering::Relaxed) != 0
    }
}
