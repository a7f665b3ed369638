//! Applying log entries to the session's state of an inode. The same code loads an inode, applies a fresh commit, and
//! repeats what a dead owner left unfinished; so every step may be executed twice.

use crate::format::*;
use crate::log::checksums::{self, checksums_of_entry};
use crate::log::layout_attribute::layout_of_entry;
use crate::log::mapping::Mapping;
use crate::log::{Log, NameTable};
use crate::session::Quotas;
use crate::session::index::MAX_FILE_BLOCKS;
use crate::session::inode::{Locked, is_extent_valid};
use crate::session::layout::{SessionInode, ThreadSlot};
use crate::session::seqlock::WriteSection;
use crate::space::operation::Operation;
use crate::space::striping;
use crate::types::{FileKind, Outcome};
use egeria_media::{BlockNumber, PoolIndex};
use std::sync::atomic::{AtomicU64, Ordering};

/// Log pages below which a log is never compacted.
pub(crate) const COMPACT_MIN_PAGES: u32 = 16;

impl Log<'_> {
    /// Apply one entry. While `loading`, blocks that an entry replaces have no owner yet and are not freed.
    pub(crate) fn apply_entry(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        position: LogPosition,
        entry: &Entry<'_>,
        time_ns: i64,
        loading: bool,
    ) -> Outcome<()> {
        let inode = locked.inode;
        self.check_entry(locked.ino, locked.kind(), locked.has_sums(), entry)?;
        match *entry {
            Entry::Write(write) => {
                if loading {
                    locked.index().reserve(write.file_block, write.count)?;
                }
                self.apply_mapping(locked, operation, Mapping::of(&write), write.sums, loading);
                inode.size_bytes.store(write.size_bytes, Ordering::Release);
                touch(inode, time_ns, write.touches_mtime);
            }
            Entry::Hole {
                file_block,
                count,
                size_bytes,
            } => {
                self.apply_hole(locked, operation, file_block, file_block + count, loading);
                inode.size_bytes.store(size_bytes, Ordering::Release);
                touch(inode, time_ns, true);
            }
            Entry::Attributes(state) => {
                self.apply_attributes(locked, operation, &state, time_ns, loading);
            }
            Entry::NameAdd { .. } | Entry::NameRemove { .. } => {
                NameTable::of(self.volume).apply_name(locked, position, entry, loading)?;
                touch(inode, time_ns, true);
            }
            Entry::XattrSet { name, .. } | Entry::XattrRemove { name } => {
                if name == checksums::ATTRIBUTE {
                    self.apply_checksum_attribute(locked, entry);
                }
                if name == striping::ATTRIBUTE {
                    self.apply_layout_attribute(locked, entry);
                }
                inode.has_xattr.store(1, Ordering::Relaxed);
                touch(inode, time_ns, false);
            }
            Entry::Pad => {}
        }
        Ok(())
    }

    /// Refuse an entry that the log of such an inode cannot have. `has_sums`: the blocks of the file have checksums.
    ///
    /// # Errors
    /// `EIO`; the damage is reported.
    pub(crate) fn check_entry(
        self,
        ino: u64,
        kind: FileKind,
        has_sums: bool,
        entry: &Entry<'_>,
    ) -> Outcome<()> {
        let is_of_file = |file_block: u64, count: u64, size_bytes: u64| {
            let end = file_block.checked_add(count);
            end.is_some_and(|end| end <= MAX_FILE_BLOCKS)
                && size_bytes <= i64::MAX as u64
                && matches!(kind, FileKind::Regular | FileKind::Symlink)
        };
        let damage = match *entry {
            Entry::Write(write) => {
                let has_blocks = write.count > 0;
                if !is_of_file(write.file_block, write.count, write.size_bytes) {
                    Some("range of a log entry")
                } else if has_blocks
                    && !is_extent_valid(self.volume, write.pool, write.block, write.count)
                {
                    Some("extent out of bounds")
                } else if (has_sums && has_blocks && !write.unwritten) == write.sums.is_empty() {
                    Some("checksums of an extent")
                } else {
                    None
                }
            }
            Entry::Hole {
                file_block,
                count,
                size_bytes,
            } => (!is_of_file(file_block, count, size_bytes)).then_some("range of a log entry"),
            Entry::Attributes(state) => {
                let is_right = FileKind::from_mode(state.mode) == Some(kind)
                    && state.size_bytes <= i64::MAX as u64;
                (!is_right).then_some("attributes in the log")
            }
            Entry::NameAdd { .. } | Entry::NameRemove { .. } => {
                (kind != FileKind::Directory).then_some("a name in the log of a file")
            }
            Entry::XattrSet { name, .. } | Entry::XattrRemove { name } => {
                let is_wrong_sum =
                    name == checksums::ATTRIBUTE && checksums_of_entry(kind, entry).is_none();
                let is_wrong_layout =
                    name == striping::ATTRIBUTE && layout_of_entry(kind, entry).is_none();
                match (is_wrong_sum, is_wrong_layout) {
                    (true, _) => Some("the checksum attribute"),
                    (_, true) => Some("the layout attribute"),
                    _ => None,
                }
            }
            Entry::Pad => None,
        };
        damage.map_or(Ok(()), |what| Err(self.volume.damaged(ino, what)))
    }

    /// Map a run; its slots exist. A word that already names the place is left unchanged, so that applying twice frees
    /// no block twice. `sums`: checksums of its blocks, if the file has checksums.
    pub(crate) fn apply_mapping(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        mapping: Mapping,
        sums: &[u8],
        loading: bool,
    ) {
        let inode = locked.inode;
        let index = locked.index();
        let generation = inode.next_word_generation();
        for at in 0..mapping.count {
            let Some(slot) = index.slot(mapping.file_block + at) else {
                continue;
            };
            let block = BlockNumber(mapping.block.0 + at);
            let new = BlockWord::new(mapping.pool, block, mapping.unwritten, generation);
            let old = BlockWord(slot.load(Ordering::Relaxed));
            // Stored before the word: a reader between the two stores finds a mismatch and reads again.
            index.set_sum(mapping.file_block + at, sums, at as usize);
            if old.is_mapped() && old.same_place(new) {
                if old.is_unwritten() != new.is_unwritten() {
                    slot.store(new.0, Ordering::Release);
                }
                continue;
            }
            if old.is_mapped() {
                if !loading {
                    operation.replace(locked.ino, mapping.file_block + at, old.pool(), old.block());
                }
            } else {
                inode
                    .blocks
                    .store(inode.blocks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            slot.store(new.0, Ordering::Release);
        }
    }

    /// Unmap everything in `from..end`.
    pub(crate) fn apply_hole(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        from: u64,
        end: u64,
        loading: bool,
    ) {
        let inode = locked.inode;
        let index = locked.index();
        let mut block = from;
        while let Some(found) = index.next_mapped(block, end) {
            if let Some(slot) = index.slot(found) {
                let old = BlockWord(slot.load(Ordering::Relaxed));
                if !loading {
                    operation.replace(locked.ino, found, old.pool(), old.block());
                }
                slot.store(0, Ordering::Release);
                inode.blocks.store(
                    inode.blocks.load(Ordering::Relaxed).saturating_sub(1),
                    Ordering::Relaxed,
                );
            }
            block = found + 1;
        }
    }

    fn apply_attributes(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        state: &AttributeState,
        time_ns: i64,
        loading: bool,
    ) {
        let inode = locked.inode;
        let kind = locked.kind();
        if kind == FileKind::Directory {
            inode.parent.store(state.parent, Ordering::Relaxed);
        }
        let shrinks = kind != FileKind::Directory
            && state.size_bytes < inode.size_bytes.load(Ordering::Relaxed);
        if shrinks {
            let end = state.size_bytes.div_ceil(BLOCK as u64);
            self.apply_hole(locked, operation, end, MAX_FILE_BLOCKS, loading);
        }
        // The last change time in the log may be old now.
        inode.logged_time.store(0, Ordering::Relaxed);
        inode.mode.store(state.mode, Ordering::Relaxed);
        inode.uid.store(state.uid, Ordering::Relaxed);
        inode.gid.store(state.gid, Ordering::Relaxed);
        inode.nlink.store(state.nlink, Ordering::Relaxed);
        if shrinks {
            locked.index().shrink(state.size_bytes)
        } else {
            inode.size_bytes.store(state.size_bytes, Ordering::Release)
        }
        inode
            .atime_ns
            .store(state.atime_ns as u64, Ordering::Relaxed);
        inode
            .mtime_ns
            .store(state.mtime_ns as u64, Ordering::Relaxed);
        inode.ctime_ns.store(time_ns as u64, Ordering::Relaxed);
    }

    /// After a commit, under the lock: apply staged entries that `apply` describes, under an odd
    /// sequence, and note the new tail as applied.
    pub(crate) fn apply_commit(
        self,
        locked: &Locked<'_>,
        staged: &crate::log::staging::Staged,
        apply: impl FnOnce() -> Outcome<()>,
    ) -> Outcome<()> {
        let inode = locked.inode;
        Quotas::of(self.volume).note_unsettled(locked);
        let changing = WriteSection::begin(inode);
        if let Err(errno) = apply() {
            self.forget(locked);
            changing.end();
            return Err(errno);
        }
        self.end_apply(inode, staged, changing);
        Quotas::of(self.volume).settle(locked);
        Ok(())
    }

    /// Staged entries are applied: note the new tail.
    #[inline(always)]
    pub(crate) fn end_apply(
        self,
        inode: &SessionInode,
        staged: &crate::log::staging::Staged,
        changing: WriteSection<'_>,
    ) {
        let pages = inode.log_pages.load(Ordering::Relaxed) + staged.pages;
        inode.log_pages.store(pages, Ordering::Relaxed);
        inode
            .applied
            .store(staged.committed_word(), Ordering::Release);
        changing.end();
    }

    /// After a failed apply of one of the inodes changed in one commit: unload them, so that their next users read the
    /// logs.
    pub(crate) fn or_forget(self, changed: &[&Locked<'_>], outcome: Outcome<()>) -> Outcome<()> {
        if outcome.is_err() {
            changed.iter().for_each(|locked| self.forget(locked));
        }
        outcome
    }

    fn forget(self, locked: &Locked<'_>) {
        self.volume.unload(locked);
        locked.inode.epoch.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn settle_pending(self, locked: &Locked<'_>, dead: usize, replaced: bool) {
        let slot = &self.volume.session.threads()[dead];
        let entries = if replaced {
            &slot.pending_old
        } else {
            &slot.pending_new
        };
        for entry in entries {
            let extent = Extent::decode(entry.extent.load(Ordering::Acquire));
            if extent.count == 0 || entry.ino.load(Ordering::Relaxed) != locked.ino {
                continue;
            }
            let file_block = entry.file_block.load(Ordering::Relaxed);
            // Checked while the entry stands: once it is removed, the reaper may empty the pocket.
            let held = is_in_pocket(slot, extent) || is_outgoing(slot, extent);
            let runs = if held {
                Vec::new()
            } else {
                self.unreferenced(locked, file_block, extent)
            };
            // First removed from the list, then given to the map: a death in between loses the run until the next
            // session, but never frees it twice.
            entry.extent.store(0, Ordering::Release);
            for (block, count) in runs {
                let run = Extent {
                    pool: extent.pool,
                    block,
                    count,
                };
                // Through our own slot: others may settle other inodes of the same dead owner.
                self.volume.give_back_run(locked.me, run);
            }
        }
    }

    /// Parts of a run that neither the index nor the log of this inode names.
    pub(crate) fn unreferenced(
        self,
        locked: &Locked<'_>,
        file_block: u64,
        extent: Extent,
    ) -> Vec<(BlockNumber, u64)> {
        let mut runs: Vec<(BlockNumber, u64)> = Vec::new();
        for at in 0..extent.count {
            let block = BlockNumber(extent.block.0 + at);
            let named = match file_block {
                crate::session::layout::PENDING_LOG => self.is_log_page(locked, extent.pool, block),
                _ => {
                    let word = locked.index().load(file_block + at);
                    word.is_mapped()
                        && word.same_place(BlockWord::new(extent.pool, block, false, 0))
                }
            };
            match runs.last_mut() {
                _ if named => {}
                Some((first, count)) if first.0 + *count == block.0 => *count += 1,
                _ => runs.push((block, 1)),
            }
        }
        runs
    }

    fn is_log_page(self, locked: &Locked<'_>, pool: PoolIndex, block: BlockNumber) -> bool {
        let Ok(record) = self.volume.read_record(locked.ino) else {
            return false;
        };
        let place = record.log_place(locked.ino);
        let mut found = false;
        let walked = self.walk_pages(place, record.commit, &mut |page| {
            found |= page.pool() == pool && page.block() == block;
            Ok(())
        });
        // Runs with an unclear state are not freed.
        found || walked.is_err()
    }
}

/// Whether a slot's pocket holds this run already (it was on its way there, or had not left).
pub(crate) fn is_in_pocket(slot: &ThreadSlot, extent: Extent) -> bool {
    slot.pocket
        .iter()
        .flatten()
        .any(|word| covers(word, extent))
}

/// Whether a slot was giving this run back to the map.
pub(crate) fn is_outgoing(slot: &ThreadSlot, extent: Extent) -> bool {
    covers(&slot.outgoing, extent)
}

fn covers(word: &AtomicU64, extent: Extent) -> bool {
    let held = Extent::decode(word.load(Ordering::Acquire));
    held.count > 0
        && held.pool == extent.pool
        && held.block.0 <= extent.block.0
        && extent.end() <= held.end()
}

fn touch(inode: &SessionInode, time_ns: i64, modified: bool) {
    if modified {
        inode.mtime_ns.store(time_ns as u64, Ordering::Relaxed);
    }
    inode.ctime_ns.store(time_ns as u64, Ordering::Relaxed);
}
