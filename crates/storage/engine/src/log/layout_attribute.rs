//! The attribute `user.egeria.layout`: which inodes may have it, and how it changes an inode.

use crate::format::{Entry, FIRST_VERSION_WITH_LAYOUTS, LayoutWord};
use crate::log::Log;
use crate::session::inode::Locked;
use crate::session::layout::STRIPED_ALLOCATION;
use crate::space::striping::{DEFAULT_STRIPE_BLOCKS, parse};
use crate::types::*;
use std::sync::atomic::Ordering;

/// The layout that an entry for the attribute sets; `None`: such an inode cannot have it.
pub(crate) fn layout_of_entry(kind: FileKind, entry: &Entry<'_>) -> Option<LayoutWord> {
    let may_have = matches!(kind, FileKind::Regular | FileKind::Directory);
    match *entry {
        _ if !may_have => None,
        Entry::XattrSet { value, .. } => parse(value),
        _ => Some(LayoutWord::UNSET),
    }
}

impl Log<'_> {
    /// Whether the attribute may be set to this: `EINVAL` for an invalid value, else as `check_layout_may_change`.
    pub(crate) fn check_layout_attribute(self, locked: &Locked<'_>, value: &[u8]) -> Outcome<()> {
        let layout = parse(value).ok_or(Errno(libc::EINVAL))?;
        // Setting the same value is always allowed.
        if locked.layout() == layout && locked.kind() == FileKind::Regular {
            Ok(())
        } else {
            self.check_layout_may_change(locked)
        }
    }

    /// Layouts may be set on directories and on files without data, if the volume's format has a field for them.
    pub(crate) fn check_layout_may_change(self, locked: &Locked<'_>) -> Outcome<()> {
        let inode = locked.inode;
        let may_change = match locked.kind() {
            FileKind::Directory => true,
            FileKind::Regular => {
                locked.size_bytes() == 0 && inode.blocks.load(Ordering::Relaxed) == 0
            }
            _ => false,
        };
        if may_change && self.has_layouts() {
            Ok(())
        } else {
            Err(Errno(libc::EOPNOTSUPP))
        }
    }

    fn has_layouts(self) -> bool {
        self.volume.superblock().version >= FIRST_VERSION_WITH_LAYOUTS
    }

    /// The layout of a new inode in a directory.
    pub(crate) fn layout_of_new(self, directory: &Locked<'_>, mode: u32) -> LayoutWord {
        let kind = FileKind::from_mode(mode);
        if !self.has_layouts() || !matches!(kind, Some(FileKind::Regular | FileKind::Directory)) {
            return LayoutWord::UNSET;
        }
        let striped = self
            .volume
            .session
            .header()
            .allocation
            .load(Ordering::Relaxed)
            == STRIPED_ALLOCATION;
        match directory.layout() {
            LayoutWord::UNSET if striped && kind == Some(FileKind::Regular) => {
                LayoutWord(DEFAULT_STRIPE_BLOCKS)
            }
            layout => layout,
        }
    }

    /// Apply an entry for the attribute, which was checked.
    pub(crate) fn apply_layout_attribute(self, locked: &Locked<'_>, entry: &Entry<'_>) {
        if let Some(layout) = layout_of_entry(locked.kind(), entry) {
            locked.inode.layout.store(layout.0, Ordering::Relaxed);
            let mode = locked.inode.mode.load(Ordering::Relaxed);
            self.volume.session.note_stripes(mode, layout);
        }
    }

    /// Whether a file was created with a layout that was removed later: its log must keep recording this.
    pub(crate) fn lost_its_layout(self, locked: &Locked<'_>) -> Outcome<bool> {
        let is_unset_file =
            locked.kind() == FileKind::Regular && locked.layout() == LayoutWord::UNSET;
        Ok(is_unset_file
            && self.volume.read_record(locked.ino)?.certificate.layout != LayoutWord::UNSET)
    }
}
