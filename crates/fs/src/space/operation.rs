//! One operation under way: the blocks it brings and the blocks it replaces, noted in the thread's
//! slot before anything depends on them, so that they are found when the thread dies.

use crate::format::{Extent, LogPosition};
use crate::log::staging::Staged;
use crate::session::layout::{PENDING_EXTENTS, PENDING_LOG, PendingExtent};
use crate::session::slots::Me;
use crate::space::free_space::Need;
use crate::types::{Errno, Outcome};
use crate::volume::Volume;
use egeria_media::{BlockNumber, PoolIndex};
use std::sync::atomic::Ordering;

/// Pending runs of one thread. Dropped without `finish`, it gives its new blocks back.
pub(crate) struct Operation<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) me: Me<'a>,
    new: usize,
    old: usize,
    commits: u32,
}

impl<'a> Operation<'a> {
    /// Begin; a thread has one operation at a time.
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
        let extent = self
            .volume
            .take_blocks(self.me, prefer, want, need, |extent| {
                note(entry, ino, file_block, extent)
            })?;
        self.new += 1;
        Ok(extent)
    }

    /// Whether another run can be taken, with room to spare for log pages.
    pub(crate) fn has_room(&self) -> bool {
        self.new + 8 < PENDING_EXTENTS
    }

    /// How many runs were taken so far.
    pub(crate) fn taken(&self) -> usize {
        self.new
    }

    /// A run this operation replaces, still in the index; call before the index changes.
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

    /// The index no longer names the replaced runs: they are free.
    pub(crate) fn settle_replaced(&mut self) {
        for entry in &self.me.slot.pending_old[..self.old] {
            self.volume.put_blocks(self.me, &entry.extent);
        }
        self.old = 0;
    }

    /// Whether so many single blocks can be noted as replaced with none settled before.
    pub(crate) fn can_note(&self, blocks: usize) -> bool {
        self.old + blocks <= PENDING_EXTENTS
    }

    /// The noted runs stay where they are after all.
    pub(crate) fn forget_replaced(&mut self) {
        for entry in &self.me.slot.pending_old[..self.old] {
            entry.extent.store(0, Ordering::Release);
        }
        self.old = 0;
    }

    /// The new runs from number `from` on belong to a committed log now.
    pub(crate) fn keep_from(&mut self, from: usize) {
        for entry in &self.me.slot.pending_new[from..self.new] {
            entry.extent.store(0, Ordering::Release);
        }
        self.new = from;
    }

    /// Make logs count that this operation staged. From then on the new runs are theirs, whatever fails;
    /// also after an error, for the word may be on media: lost until the next session, not given out twice.
    pub(crate) fn commit(&mut self, logs: &[&Staged]) -> Outcome<()> {
        let outcome = self.volume.commit_all(self.me.index, logs);
        self.keep_from(0);
        self.commits += 1;
        outcome
    }

    /// How many commits it made, or tried to.
    pub(crate) fn commits(&self) -> u32 {
        self.commits
    }

    /// Committed and applied: keep the new, free the replaced.
    pub(crate) fn finish(&mut self) {
        self.keep_from(0);
        self.settle_replaced();
    }

    /// Give back the new runs from number `from` on.
    pub(crate) fn abandon_from(&mut self, from: usize) {
        for entry in &self.me.slot.pending_new[from..self.new] {
            self.volume.put_blocks(self.me, &entry.extent);
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

fn note(entry: &PendingExtent, ino: u64, file_block: u64, extent: Extent) {
    entry.ino.store(ino, Ordering::Relaxed);
    entry.file_block.store(file_block, Ordering::Relaxed);
    entry.extent.store(extent.encode(), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use crate::format::Entry;
    use crate::log::staging::Staged;
    use crate::space::free_space::Need;
    use crate::space::operation::Operation;
    use crate::*;

    #[test]
    fn a_commit_that_cannot_be_applied_keeps_its_pages_and_its_news() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = directory.path().join("pool");
        let pool = PoolRequest {
            node: 0,
            path: path.clone(),
            bytes: Some(16 << 20),
        };
        create_volume(&[pool], &CreateOptions::default()).expect("mkfs");
        let options = AttachOptions::default();
        let volume = Volume::attach(&path, AttachMode::CreateOrJoin, &options).expect("attach");
        let new = NewInode {
            mode: libc::S_IFREG | 0o644,
            uid: 0,
            gid: 0,
            rdev: 0,
        };
        let file = volume.create(InodeNumber::ROOT, b"file", &new);
        let ino = file.expect("create").ino;
        let before = volume.space(None).free_blocks;
        {
            let locked = volume.lock(ino.0).expect("lock");
            let mut operation = Operation::new(&volume, locked.me);
            let mut staged = Staged::begin(&locked, Need::Ordinary).expect("begin");
            let entry = Entry::XattrSet {
                name: b"user.a",
                value: &[7; 3000],
            };
            staged.add(&mut operation, &entry, 0).expect("stage");
            operation.commit(&[&staged]).expect("commit");
            let applied = volume.apply_commit(&locked, &staged, || Err(Errno(libc::EIO)));
            assert_eq!(applied, Err(Errno(libc::EIO)));
        }
        assert_eq!(volume.get_xattr(ino, b"user.a"), Ok(vec![7; 3000]));
        assert!(volume.space(None).free_blocks < before, "its page is taken");
        drop(volume);
        let report = check_volume(&path, false, &mut |_, _| {}).expect("check");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}
