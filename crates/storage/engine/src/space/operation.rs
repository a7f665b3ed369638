//! An operation in progress: its new blocks and the blocks it replaces. They are noted in the thread's slot before
//! other state depends on them, so that they are found when the thread dies.

use crate::format::{Extent, LogPosition};
use crate::session::layout::{PENDING_EXTENTS, PENDING_LOG, PendingExtent};
use crate::session::slots::Me;
use crate::session::volume::Volume;
use crate::space::Space;
use crate::space::free_space::{Need, PocketPlace};
use crate::types::{Errno, Outcome};
use egeria_media::{BlockNumber, PoolIndex};
use std::sync::atomic::Ordering;

/// Pending runs of one thread. A drop without `finish` gives the new blocks back.
pub(crate) struct Operation<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) me: Me<'a>,
    new: usize,
    old: usize,
    commits: u32,
}

impl<'a> Operation<'a> {
    /// Begin; a thread has one operation at a time.
    #[inline(always)]
    pub(crate) fn new(volume: &'a Volume, me: Me<'a>) -> Operation<'a> {
        Operation {
            volume,
            me,
            new: 0,
            old: 0,
            commits: 0,
        }
    }

    /// Take up to `want` blocks for `file_block` of an inode; at most [`PENDING_EXTENTS`] runs.
    pub(crate) fn take(
        &mut self,
        ino: u64,
        file_block: u64,
        want: u64,
        prefer: usize,
        need: Need,
    ) -> Outcome<Extent> {
        let entry = self
            .me
            .slot
            .pending_new
            .get(self.new)
            .ok_or(Errno(libc::ENOBUFS))?;
        let extent = Space::of(self.volume).take_blocks(self.me, prefer, want, need, |extent| {
            note(entry, ino, file_block, extent)
        })?;
        self.new += 1;
        Ok(extent)
    }

    /// Take a block of this pool that the thread has at hand, and from where; `None`: it has none.
    #[inline(always)]
    pub(crate) fn take_at_hand(
        &mut self,
        ino: u64,
        file_block: u64,
        pool: usize,
    ) -> Option<(Extent, PocketPlace<'a>)> {
        let entry = self.me.slot.pending_new.get(self.new)?;
        let taken = Space::of(self.volume)
            .take_block_at_hand(self.me, pool, |extent| note(entry, ino, file_block, extent))?;
        self.new += 1;
        Some(taken)
    }

    /// Whether another run can be taken, with room to spare for log pages.
    pub(crate) fn has_room(&self) -> bool {
        self.new + 8 < PENDING_EXTENTS
    }

    /// How many runs were taken so far.
    pub(crate) fn taken(&self) -> usize {
        self.new
    }

    /// Note a run that this operation replaces, still in the index; call before the index changes.
    #[inline(always)]
    pub(crate) fn replace(
        &mut self,
        ino: u64,
        file_block: u64,
        pool: PoolIndex,
        block: BlockNumber,
    ) {
        if let Some(last) = self.old.checked_sub(1) {
            let last = &self.me.slot.pending_old[last];
            let held = Extent::decode(last.extent.load(Ordering::Relaxed));
            let next = file_block == PENDING_LOG
                || last.file_block.load(Ordering::Relaxed) + held.count == file_block;
            if held.pool == pool
                && held.end() == block.0
                && next
                && last.ino.load(Ordering::Relaxed) == ino
                && held.count < 1 << 19
            {
                last.extent.store(
                    Extent {
                        count: held.count + 1,
                        ..held
                    }
                    .encode(),
                    Ordering::Release,
                );
                return;
            }
        }
        self.replace_alone(ino, file_block, pool, block);
    }

    /// As [`Operation::replace`], as a run of its own also behind another one.
    #[inline(always)]
    pub(crate) fn replace_alone(
        &mut self,
        ino: u64,
        file_block: u64,
        pool: PoolIndex,
        block: BlockNumber,
    ) {
        if self.old == PENDING_EXTENTS {
            self.settle_replaced();
        }
        note(
            &self.me.slot.pending_old[self.old],
            ino,
            file_block,
            Extent {
                pool,
                block,
                count: 1,
            },
        );
        self.old += 1;
    }

    /// Free the replaced runs: the index no longer names them.
    #[inline(always)]
    pub(crate) fn settle_replaced(&mut self) {
        for entry in &self.me.slot.pending_old[..self.old] {
            Space::of(self.volume).put_blocks(self.me, &entry.extent);
        }
        self.old = 0;
    }

    /// Whether this many single blocks can be noted as replaced without settling any before.
    pub(crate) fn can_note(&self, blocks: usize) -> bool {
        self.old + blocks <= PENDING_EXTENTS
    }

    /// Drop the notes: the runs are not replaced after all.
    pub(crate) fn forget_replaced(&mut self) {
        for entry in &self.me.slot.pending_old[..self.old] {
            entry.extent.store(0, Ordering::Release);
        }
        self.old = 0;
    }

    /// Keep the new runs from number `from` on: they belong to a committed log now.
    #[inline(always)]
    pub(crate) fn keep_from(&mut self, from: usize) {
        for entry in &self.me.slot.pending_new[from..self.new] {
            entry.extent.store(0, Ordering::Release);
        }
        self.new = from;
    }

    /// Count a commit that was made or tried.
    #[inline(always)]
    pub(crate) fn count_commit(&mut self) {
        self.commits += 1;
    }

    /// Number of commits made or tried.
    pub(crate) fn commits(&self) -> u32 {
        self.commits
    }

    /// After commit and apply: keep the new runs, free the replaced ones.
    #[inline(always)]
    pub(crate) fn finish(&mut self) {
        self.keep_from(0);
        self.settle_replaced();
    }

    /// As [`Operation::finish`]; replaced blocks go to the places that new ones were taken from, if they can. There are at
    /// least as many new ones.
    #[inline(always)]
    pub(crate) fn finish_at_hand<'p>(&mut self, places: impl IntoIterator<Item = PocketPlace<'p>>) {
        self.keep_from(0);
        for (replaced, place) in self.me.slot.pending_old[..self.old].iter().zip(places) {
            Space::of(self.volume).put_block_at_hand(self.me, &replaced.extent, place);
        }
        self.old = 0;
    }

    /// Give back the new runs from number `from` on.
    #[inline(always)]
    pub(crate) fn abandon_from(&mut self, from: usize) {
        for entry in &self.me.slot.pending_new[from..self.new] {
            Space::of(self.volume).put_blocks(self.me, &entry.extent);
        }
        self.new = from;
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.abandon_from(0);
        self.settle_replaced();
    }
}

/// Note log pages as replaced.
pub(crate) fn note_pages(ino: u64, operation: &mut Operation<'_>, pages: &[LogPosition]) {
    for page in pages {
        operation.replace(ino, PENDING_LOG, page.pool(), page.block());
    }
}

#[inline(always)]
fn note(entry: &PendingExtent, ino: u64, file_block: u64, extent: Extent) {
    entry.ino.store(ino, Ordering::Relaxed);
    entry.file_block.store(file_block, Ordering::Relaxed);
    entry.extent.store(extent.encode(), Ordering::Release);
}
