//! The attribute `user.egeria.layout`: which inodes may have it, and how it changes an inode.

use crate::format::{BLOCK, Entry, FIRST_VERSION_WITH_LAYOUTS, LayoutWord};
use crate::session::inode::Locked;
use crate::session::layout::STRIPED_ALLOCATION;
use crate::session::volume::Volume;
use crate::space::striping::{DEFAULT_STRIPE_BLOCKS, parse};
use crate::types::*;
use std::sync::atomic::Ordering;

impl Volume {
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

    /// Whether the attribute may be set to this: `EINVAL` for an invalid value, else as `check_layout_may_change`.
    pub(crate) fn check_layout_attribute(&self, locked: &Locked<'_>, value: &[u8]) -> Outcome<()> {
        let layout = parse(value).ok_or(Errno(libc::EINVAL))?;
        // Setting the same value is always allowed.
        if locked.layout() == layout && locked.kind() == FileKind::Regular {
            Ok(())
        } else {
            self.check_layout_may_change(locked)
        }
    }

    /// Layouts may be set on directories and on files without data, if the volume's format has a field for them.
    pub(crate) fn check_layout_may_change(&self, locked: &Locked<'_>) -> Outcome<()> {
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

    fn has_layouts(&self) -> bool {
        self.superblock.version >= FIRST_VERSION_WITH_LAYOUTS
    }

    /// The layout of a new inode in a directory.
    pub(crate) fn layout_of_new(&self, directory: &Locked<'_>, mode: u32) -> LayoutWord {
        let kind = FileKind::from_mode(mode);
        if !self.has_layouts() || !matches!(kind, Some(FileKind::Regular | FileKind::Directory)) {
            return LayoutWord::UNSET;
        }
        let striped =
            self.session.header().allocation.load(Ordering::Relaxed) == STRIPED_ALLOCATION;
        match directory.layout() {
            LayoutWord::UNSET if striped && kind == Some(FileKind::Regular) => {
                LayoutWord(DEFAULT_STRIPE_BLOCKS)
            }
            layout => layout,
        }
    }

    /// Apply an entry for the attribute.
    pub(crate) fn apply_layout_attribute(
        &self,
        locked: &Locked<'_>,
        entry: &Entry<'_>,
    ) -> Outcome<()> {
        let layout = match *entry {
            Entry::XattrSet { value, .. } => parse(value),
            _ => Some(LayoutWord::UNSET),
        };
        let may_have = matches!(locked.kind(), FileKind::Regular | FileKind::Directory);
        let layout = layout.filter(|_| may_have);
        let layout = layout.ok_or_else(|| self.damaged(locked.ino, "the layout attribute"))?;
        locked.inode.layout.store(layout.0, Ordering::Relaxed);
        self.session
            .note_stripes(locked.inode.mode.load(Ordering::Relaxed), layout);
        Ok(())
    }

    /// Whether this session has ever loaded a striped file.
    pub fn has_striped_files(&self) -> bool {
        self.session.header().striped_files.load(Ordering::Relaxed) != 0
    }

    /// Whether a file was created with a layout that was removed later: its log must keep recording this.
    pub(crate) fn lost_its_layout(&self, locked: &Locked<'_>) -> Outcome<bool> {
        let is_unset_file =
            locked.kind() == FileKind::Regular && locked.layout() == LayoutWord::UNSET;
        Ok(is_unset_file && self.read_record(locked.ino)?.certificate.layout != LayoutWord::UNSET)
    }
}
