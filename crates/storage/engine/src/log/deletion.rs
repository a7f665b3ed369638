//! Deleting inodes that have neither names nor opens.

use crate::format::*;
use crate::log::Log;
use crate::session::inode::Locked;
use crate::space::operation::{Operation, note_pages};
use crate::types::{Errno, Outcome};
use std::sync::atomic::Ordering;

impl Log<'_> {
    /// Delete an inode without names and opens: its data, its log, its record.
    pub(crate) fn delete_inode(self, locked: &Locked<'_>) -> Outcome<()> {
        let me = locked.me;
        locked.keep_for_snapshot();
        me.slot.pending_inode.store(locked.ino, Ordering::Release);
        let mut operation = Operation::new(self.volume, me);
        // The orphan mark is durable: recovery would delete the inode too, so its blocks may be freed one by one.
        if locked.kind() == crate::FileKind::Directory {
            self.volume.session.drop_name_table(locked.inode);
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
        let pages = self.volume.log_pages(locked).unwrap_or_default();
        let (pool, at) = self.volume.record_place(locked.ino)?;
        let media = self.volume.pool(pool)?;
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
        self.volume.unload(locked);
        self.volume.free_inode(me.slot, locked.ino);
        Ok(())
    }
}
