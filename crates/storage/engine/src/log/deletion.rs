//! Deleting inodes that have neither names nor opens.

use crate::format::place::LogPlace;
use crate::format::*;
use crate::session::inode::Locked;
use crate::session::volume::Volume;
use crate::space::operation::{Operation, note_pages};
use crate::types::{Errno, Outcome};
use std::sync::atomic::Ordering;

impl Volume {
    /// Delete an inode that has neither names nor opens.
    pub(crate) fn delete_if_unused(&self, locked: &Locked<'_>) -> Outcome<()> {
        if locked.inode.nlink.load(Ordering::Relaxed) == 0
            && !self.is_open_anywhere(locked.ino, locked.inode)
        {
            // The name is gone in any case; recovery would finish the deletion.
            if self.delete_inode(locked).is_err() {
                self.inode_settled(locked.me);
            }
        }
        Ok(())
    }

    /// Delete an inode without names and opens: its data, its log, its record.
    pub(crate) fn delete_inode(&self, locked: &Locked<'_>) -> Outcome<()> {
        let me = locked.me;
        me.slot.pending_inode.store(locked.ino, Ordering::Release);
        let mut operation = Operation::new(self, me);
        // The orphan mark is durable: recovery would delete the inode too, so its blocks may be freed one by one.
        if locked.kind() == crate::FileKind::Directory {
            self.session.drop_name_table(locked.inode);
        } else {
            self.apply_hole(
                locked,
                &mut operation,
                0,
                crate::session::index::MAX_FILE_BLOCKS,
                false,
            );
            operation.settle_replaced();
        }
        let pages = self.log_pages(locked).unwrap_or_default();
        let (pool, at) = self.record_place(locked.ino)?;
        let media = self.pool(pool)?;
        let free_record = || {
            media
                .commit_u64(at + COMMIT_WORD_AT, 0)
                .map_err(|_| Errno(libc::EIO))
        };
        // Pages are noted while the record still names them, so that none is lost if their owner dies; pages that do
        // not fit in the notes are freed after the record.
        let noted = operation.can_note(pages.len());
        if !noted {
            free_record()?;
        }
        note_pages(locked.ino, &mut operation, &pages);
        if noted && let Err(errno) = free_record() {
            operation.forget_replaced();
            return Err(errno);
        }
        operation.settle_replaced();
        locked.inode.nlink.store(0, Ordering::Relaxed);
        self.unload(locked);
        self.free_inode(me.slot, locked.ino);
        Ok(())
    }

    /// All pages of an inode's log.
    pub(crate) fn log_pages(&self, locked: &Locked<'_>) -> Outcome<Vec<LogPosition>> {
        let record = self.read_record(locked.ino)?;
        let place = LogPlace {
            generation: record.certificate.generation,
            ..locked.log_place()
        };
        let mut pages = Vec::new();
        self.walk_pages(place, record.commit, &mut |page| {
            pages.push(page);
            Ok(())
        })?;
        Ok(pages)
    }
}
