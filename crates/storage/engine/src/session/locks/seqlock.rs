//! The seqlock of an inode. Readers read the inode without its lock and check afterwards that what they read is a
//! consistent state. Writers hold the lock and mark their changes with [`WriteSection`].
//!
//! ```text
//! reader: read the words, copy the bytes they name, check that nothing changed
//! writer: new bytes in new blocks, fence, words; blocks that words no longer name
//!         are reused only after a locked instruction (the lock's own)
//! ```

use crate::format::BlockWord;
use crate::session::index::Index;
use crate::session::layout::{CHANGING, LOADED, SessionInode, UNLOADED};
use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Tries without the lock before a reader takes it.
pub(crate) const OPTIMISTIC_TRIES: usize = 8;

/// A snapshot of an inode's state before a read.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot {
    sequence: u64,
    epoch: u64,
}

impl Snapshot {
    #[inline(always)]
    pub(crate) fn begin(inode: &SessionInode) -> Snapshot {
        Snapshot {
            sequence: inode.sequence.load(Ordering::Acquire),
            epoch: inode.epoch.load(Ordering::Acquire),
        }
    }

    /// Whether a thread is changing the inode.
    #[inline(always)]
    pub(crate) fn write_in_progress(self) -> bool {
        self.sequence & 1 == 1
    }

    /// Whether a loaded inode was consistent then and is unchanged since. Reads in between must be words, or be
    /// followed by a fence.
    #[inline(always)]
    pub(crate) fn is_unchanged(self, inode: &SessionInode) -> bool {
        !self.write_in_progress()
            && inode.sequence.load(Ordering::Acquire) == self.sequence
            && self.has_same_tree(inode)
    }

    /// [`Snapshot::is_unchanged`] after a copy.
    #[inline(always)]
    pub(crate) fn is_unchanged_after_copy(self, inode: &SessionInode) -> bool {
        fence(Ordering::Acquire);
        self.is_unchanged(inode)
    }

    /// Whether no page of the index was freed, and the end of file was not moved before bytes that were read.
    #[inline(always)]
    fn has_same_tree(self, inode: &SessionInode) -> bool {
        // The state first: `mark_loaded` changes the epoch before it.
        inode.state.load(Ordering::Acquire) == LOADED
            && inode.epoch.load(Ordering::Acquire) == self.epoch
    }
}

/// One block as a reader saw it.
#[derive(Clone, Copy)]
pub(crate) struct BlockSnapshot<'a> {
    index: Index<'a>,
    look: Snapshot,
    file_block: u64,
    slot: Option<&'a AtomicU64>,
    /// What names the block's place.
    pub(crate) word: BlockWord,
}

impl<'a> BlockSnapshot<'a> {
    /// `look` was taken first, and the size loaded after it.
    #[inline(always)]
    pub(crate) fn begin(index: Index<'a>, look: Snapshot, file_block: u64) -> BlockSnapshot<'a> {
        let slot = index.slot(file_block);
        BlockSnapshot {
            index,
            look,
            file_block,
            slot,
            word: slot.map_or(BlockWord::HOLE, |slot| {
                BlockWord(slot.load(Ordering::Acquire))
            }),
        }
    }

    /// After the copy: whether it is consistent. `end_bytes`: the end of the copy in the file. `None` when the end of
    /// file cut it off; then nothing at all may have changed.
    #[inline(always)]
    pub(crate) fn stands(&self, end_bytes: Option<u64>) -> bool {
        let inode = self.index.inode;
        // The copy must be over before the word is loaded again.
        fence(Ordering::Acquire);
        let same_word = match self.slot {
            Some(slot) => slot.load(Ordering::Acquire) == self.word.0,
            None => self.index.slot(self.file_block).is_none(),
        };
        // A tree root that was set since makes the inline words old.
        let same_root = !self.is_inline() || inode.root.load(Ordering::Acquire) == 0;
        let whole = match end_bytes {
            Some(end) => inode.size_bytes.load(Ordering::Acquire) >= end,
            None => self.look.is_unchanged(inode),
        };
        same_word && same_root && whole && self.look.has_same_tree(inode)
    }

    fn is_inline(&self) -> bool {
        let inline = &self.index.inode.inline_words;
        self.slot
            .is_some_and(|slot| inline.as_ptr_range().contains(&std::ptr::from_ref(slot)))
    }
}

/// One block of a tree of at most two levels, as seen by the fast path; all of it is before the end of file.
#[derive(Clone, Copy)]
pub(crate) struct QuickSnapshot<'a> {
    inode: &'a SessionInode,
    epoch: u64,
    root: u64,
    end_bytes: u64,
    slot: &'a AtomicU64,
    /// What names the block's place.
    pub(crate) word: BlockWord,
}

impl<'a> QuickSnapshot<'a> {
    /// `None`: not such a block. The caller has checked that the inode is loaded.
    #[inline(always)]
    pub(crate) fn begin(
        index: Index<'a>,
        file_block: u64,
        end_bytes: u64,
    ) -> Option<QuickSnapshot<'a>> {
        let inode = index.inode;
        let epoch = inode.epoch.load(Ordering::Acquire);
        let root = inode.root.load(Ordering::Acquire);
        // Checked before the copy too: bytes behind the end must not be visible.
        if inode.size_bytes.load(Ordering::Acquire) < end_bytes {
            return None;
        }
        let slot = index.slot_in_low_tree(root, file_block)?;
        Some(QuickSnapshot {
            inode,
            epoch,
            root,
            end_bytes,
            slot,
            word: BlockWord(slot.load(Ordering::Acquire)),
        })
    }

    /// After the copy: whether it is consistent.
    #[inline(always)]
    pub(crate) fn stands(&self) -> bool {
        // The copy must be over before the words are loaded again.
        fence(Ordering::Acquire);
        self.slot.load(Ordering::Acquire) == self.word.0
            && self.inode.size_bytes.load(Ordering::Acquire) >= self.end_bytes
            && self.inode.root.load(Ordering::Acquire) == self.root
            // The state first: `mark_loaded` changes the epoch before it.
            && self.inode.state.load(Ordering::Acquire) == LOADED
            && self.inode.epoch.load(Ordering::Acquire) == self.epoch
    }
}

/// A change of what readers without the lock see, made under the lock. A drop does not end it: a thread that dies
/// within leaves the sequence odd, until the next owner has recovered the inode.
pub(crate) struct WriteSection<'a> {
    inode: &'a SessionInode,
    sequence: u64,
}

impl<'a> WriteSection<'a> {
    /// Also after an owner that died within.
    #[inline(always)]
    pub(crate) fn begin(inode: &'a SessionInode) -> WriteSection<'a> {
        let sequence = inode.sequence.load(Ordering::Relaxed) | 1;
        inode.sequence.store(sequence, Ordering::Release);
        fence(Ordering::Release);
        WriteSection { inode, sequence }
    }

    /// All is changed.
    #[inline(always)]
    pub(crate) fn end(self) {
        self.inode
            .sequence
            .store(self.sequence.wrapping_add(1), Ordering::Release);
    }
}

impl Index<'_> {
    /// The file became shorter. From now on bytes behind the new end may be zeroed in place: a reader with the old
    /// size must start again.
    pub(crate) fn shrink(self, size_bytes: u64) {
        self.inode.size_bytes.store(size_bytes, Ordering::Release);
        // After the size, so that no reader sees the new epoch with the old size.
        self.inode.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Drop the session's state of the inode; `drop_more` drops what is not in the index.
    pub(crate) fn unload(self, drop_more: impl FnOnce()) {
        // First, so that no reader takes a half-freed index for a file of holes.
        self.inode.state.store(CHANGING, Ordering::Release);
        drop_more();
        self.clear();
        self.inode.state.store(UNLOADED, Ordering::Release);
    }

    /// All is known again.
    pub(crate) fn mark_loaded(self) {
        // A reader that began during this must start again.
        self.inode.epoch.fetch_add(1, Ordering::AcqRel);
        self.inode.state.store(LOADED, Ordering::Release);
    }
}
