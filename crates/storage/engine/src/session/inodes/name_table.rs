//! The table of a directory in the session, and what the directory's inode says of it. The words of the table belong
//! to `log::name_table`.

use crate::format::*;
use crate::session::inode::Locked;
use crate::session::layout::SessionInode;
use crate::session::map::Session;
use crate::types::*;
use std::sync::atomic::{AtomicU64, Ordering};

const CLASS_SHIFT: u32 = 56;
// Words of `SessionInode::inline_words` that a directory uses.
pub(crate) const USED: usize = 0;
pub(crate) const SUBDIRECTORIES: usize = 1;
pub(crate) const NEXT_COOKIE: usize = 2;
/// Lines of the log that entries of living names take.
pub(crate) const LIVING_LINES: usize = 3;
/// Cookies of `.` and `..` come before those of names.
pub(crate) const FIRST_COOKIE: u64 = 3;

impl SessionInode {
    /// Subdirectories of a loaded directory.
    pub(crate) fn subdirectories(&self) -> u32 {
        self.inline_words[SUBDIRECTORIES].load(Ordering::Relaxed) as u32
    }

    /// Cookie for the next name of a loaded directory.
    pub(crate) fn next_cookie(&self) -> u64 {
        self.inline_words[NEXT_COOKIE]
            .load(Ordering::Relaxed)
            .max(FIRST_COOKIE)
    }

    /// Set the run of the directory's table; returns what `Session::free_name_table` takes for the one before.
    pub(crate) fn replace_name_table(&self, page: u64, class: u32) -> u64 {
        self.root.swap(
            (page + 1) | ((class as u64) << CLASS_SHIFT),
            Ordering::AcqRel,
        )
    }
}

impl Locked<'_> {
    /// `EMLINK` when another subdirectory would exceed the limit.
    pub(crate) fn check_subdirectory_fits(&self) -> Outcome<()> {
        if self.inode.subdirectories() < MAX_LINKS - 2 {
            Ok(())
        } else {
            Err(Errno(libc::EMLINK))
        }
    }

    /// Names in a loaded directory.
    pub(crate) fn name_count(&self) -> u64 {
        self.inode.blocks.load(Ordering::Relaxed)
    }

    /// Cookie for the next name.
    pub(crate) fn next_cookie(&self) -> u64 {
        self.inode.next_cookie()
    }

    /// Lines of a loaded directory's log that entries of living names take.
    pub(crate) fn living_lines(&self) -> u64 {
        self.inode.inline_words[LIVING_LINES].load(Ordering::Relaxed)
    }
}

impl Session {
    /// The words of a directory's table.
    pub(crate) fn name_table(&self, inode: &SessionInode) -> Option<&[AtomicU64]> {
        let root = inode.root.load(Ordering::Acquire);
        let page = (root & ((1 << CLASS_SHIFT) - 1)).checked_sub(1)?;
        self.arena().run(page, (root >> CLASS_SHIFT) as u32)
    }

    /// Give a directory's table back.
    pub(crate) fn drop_name_table(&self, inode: &SessionInode) {
        self.free_name_table(inode.root.swap(0, Ordering::AcqRel));
        for word in &inode.inline_words {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Give the pages of a replaced table back.
    pub(crate) fn free_name_table(&self, root: u64) {
        if let Some(page) = (root & ((1 << CLASS_SHIFT) - 1)).checked_sub(1) {
            self.arena().free(page, (root >> CLASS_SHIFT) as u32);
        }
    }
}
