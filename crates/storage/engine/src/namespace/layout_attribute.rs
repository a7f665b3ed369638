//! The attribute `user.egeria.layout`: which inodes may have it, and how it changes an inode.

use crate::format::{BLOCK, Entry, FIRST_VERSION_WITH_LAYOUTS, LayoutWord};
use crate::session::inode::Locked;
use crate::session::layout::STRIPED_ALLOCATION;
use crate::session::volume::Volume;
use crate::space::striping::{DEFAULT_STRIPE_BLOCKS, parse};
use crate::types::*;
use std::sync::atomic::Ordering;

impl Volume {
    /// Where the data of an inode goes, or of a directory that of files made in it.
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

    /// Whether the attribute may be set to this: `EINVAL` for nonsense, else as `check_layout_may_change`.
    pub(crate) fn check_layout_attribute(&self, locked: &Locked<'_>, value: &[u8]) -> Outcome<()> {
        let layout = parse(value).ok_or(Errno(libc::EINVAL))?;
        // Nothing changes: no reason to refuse.
        if locked.layout() == layout && locked.kind() == FileKind::Regular {
            Ok(())
        } else {
            self.check_layout_may_change(locked)
        }
    }

    /// Layouts belong to directories and to files without data, of volumes that have a place for them.
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

    /// The layout that something made in a directory is born with.
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

    /// Take over what an entry says of the attribute.
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
        self.note_stripes(locked.inode.mode.load(Ordering::Relaxed), layout);
        Ok(())
    }

    /// Take note of a file that has stripes.
    pub(crate) fn note_stripes(&self, mode: u32, layout: LayoutWord) {
        let is_file = FileKind::from_mode(mode) == Some(FileKind::Regular);
        if is_file && layout.stripe_blocks().is_some() {
            self.session
                .header()
                .striped_files
                .store(1, Ordering::Relaxed);
        }
    }

    /// Whether any file that this session has met is striped, or was.
    pub fn has_striped_files(&self) -> bool {
        self.session.header().striped_files.load(Ordering::Relaxed) != 0
    }

    /// Whether a file was born with a layout that was taken from it: its log must go on saying so.
    pub(crate) fn lost_its_layout(&self, locked: &Locked<'_>) -> Outcome<bool> {
        let is_unset_file =
            locked.kind() == FileKind::Regular && locked.layout() == LayoutWord::UNSET;
        Ok(is_unset_file && self.read_record(locked.ino)?.certificate.layout != LayoutWord::UNSET)
    }
}
