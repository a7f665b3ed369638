//! Usage of directory trees with limits.
//!
//! 1. An inode names the tree that counts it, and what this tree counts for it: itself, and its blocks. The usage of a
//!    tree is the sum over its inodes. It is in the session alone: recovery counts it (`namespace::quotas`).
//! 2. The usage is kept as a sum over thread slots. A thread changes only the cell of its own slot, so that no thread
//!    waits for another one, and a stopped one delays no other.
//! 3. Before blocks are taken, the inode is charged for them under its lock. The usage is summed up after that, so that
//!    of several threads at the limit none exceeds it. After the commit the inode is charged what it uses.
//! 4. A change of cell and inode is noted in the slot before it is made. After a death it is repeated by the process
//!    that locks the inode next, or reaps. The slot names the inode until it is settled, so that a charge without use is
//!    found.

use crate::session::Quotas;
use crate::session::inode::Locked;
use crate::session::layout::*;
use crate::session::slots::Me;
use crate::types::{Errno, FileKind, Outcome};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Flag in `SessionInode::charged`: the inode itself is counted.
const COUNTED: u64 = 1 << 63;

/// Index of a tree in the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TreeIndex(usize);

/// Blocks and inodes of a tree: what is used, or the limits (0: none).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Amounts {
    pub(crate) blocks: u64,
    pub(crate) inodes: u64,
}

impl SessionInode {
    /// Whether a tree counts it. One load.
    #[inline(always)]
    pub(crate) fn is_counted(&self) -> bool {
        self.tree.load(Ordering::Relaxed) != 0
    }
}

/// A charge for blocks that may not be used. Dropping it settles the inode.
pub(crate) struct Charge<'a, 'v> {
    quotas: Quotas<'v>,
    locked: &'a Locked<'v>,
}

impl Drop for Charge<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.quotas.settle(self.locked);
    }
}

impl<'v> Quotas<'v> {
    fn header(self, tree: TreeIndex) -> &'v TreeHeader {
        &self.volume.session.header().trees[tree.0]
    }

    fn cells(self, tree: TreeIndex) -> &'v [UsageCell; THREAD_SLOTS] {
        &self.volume.session.usage()[tree.0].cells
    }

    /// The tree that counts an inode. The number is in memory of all processes, so it is not trusted.
    fn tree_of(self, inode: &SessionInode) -> Option<TreeIndex> {
        let index = (inode.tree.load(Ordering::Acquire) as usize).checked_sub(1)?;
        (index < MAX_TREES).then_some(TreeIndex(index))
    }

    /// The tree that counts an inode, if it has limits or is about to get them.
    pub(crate) fn tree_in_force(self, inode: &SessionInode) -> Option<TreeIndex> {
        let is_in_force = |tree: &TreeIndex| {
            let state = self.header(*tree).state.load(Ordering::Acquire);
            state == TREE_LIMITED || state == TREE_COUNTED
        };
        self.tree_of(inode).filter(is_in_force)
    }

    /// Whether this tree counts an inode.
    pub(crate) fn is_counted_by(self, inode: &SessionInode, tree: TreeIndex) -> bool {
        self.tree_of(inode) == Some(tree)
    }

    /// Whether a name may lead from one inode to the other, or move from one to the other: `EXDEV` if different limits
    /// count them.
    #[inline]
    pub(crate) fn check_same_tree(self, one: &SessionInode, other: &SessionInode) -> Outcome<()> {
        let is_same = (!one.is_counted() && !other.is_counted())
            || self.tree_in_force(one) == self.tree_in_force(other);
        is_same.then_some(()).ok_or(Errno(libc::EXDEV))
    }

    /// What a tree uses; during changes by other threads at least that.
    pub(crate) fn usage(self, tree: TreeIndex) -> Amounts {
        let used = self.volume.session.used_threads().len();
        let cells = &self.cells(tree)[..used];
        let sum = |part: fn(&UsageCell) -> &AtomicU64| {
            let values = cells.iter().map(|cell| part(cell).load(Ordering::Acquire));
            values.fold(0, u64::wrapping_add)
        };
        // What was removed was added before, perhaps in another cell. So no addition is missed of which the removal is
        // seen.
        let removed = Amounts {
            blocks: sum(|cell| &cell.blocks.removed),
            inodes: sum(|cell| &cell.inodes.removed),
        };
        Amounts {
            blocks: sum(|cell| &cell.blocks.added).wrapping_sub(removed.blocks),
            inodes: sum(|cell| &cell.inodes.added).wrapping_sub(removed.inodes),
        }
    }

    /// The limits of a tree; 0: none.
    pub(crate) fn limits(self, tree: TreeIndex) -> Amounts {
        let header = self.header(tree);
        match header.state.load(Ordering::Acquire) {
            TREE_LIMITED => Amounts {
                blocks: header.limit_blocks.load(Ordering::Relaxed),
                inodes: header.limit_inodes.load(Ordering::Relaxed),
            },
            _ => Amounts::default(),
        }
    }

    /// Charge an inode for blocks that it is about to get, under its lock, until the charge is dropped: then it is charged
    /// what it uses. One branch where no tree counts it.
    ///
    /// # Errors
    /// `EDQUOT` when the tree would exceed its limit.
    #[inline(always)]
    pub(crate) fn reserve<'a>(
        self,
        locked: &'a Locked<'v>,
        new_blocks: impl FnOnce() -> u64,
    ) -> Outcome<Charge<'a, 'v>> {
        if locked.inode.is_counted() {
            self.reserve_in_tree(locked, new_blocks())?;
        }
        Ok(Charge {
            quotas: self,
            locked,
        })
    }

    #[inline(never)]
    fn reserve_in_tree(self, locked: &Locked<'_>, new_blocks: u64) -> Outcome<()> {
        let Some(tree) = self.tree_of(locked.inode).filter(|_| new_blocks > 0) else {
            return Ok(());
        };
        self.note_unsettled(locked);
        let before = locked.inode.charged.load(Ordering::Relaxed);
        let new = before.saturating_add(new_blocks) | COUNTED;
        self.charge(locked.me, (locked.ino, locked.inode), tree, new);
        // The own charge is visible before those of others are read.
        fence(Ordering::SeqCst);
        let limit = self.limits(tree).blocks;
        if limit != 0 && self.usage(tree).blocks > limit {
            self.settle(locked);
            return Err(Errno(libc::EDQUOT));
        }
        Ok(())
    }

    /// From now on the inode may be charged more or less than it uses.
    #[inline(always)]
    pub(crate) fn note_unsettled(self, locked: &Locked<'_>) {
        if locked.inode.is_counted() {
            let unsettled = &locked.me.slot.unsettled;
            unsettled.store(locked.ino, Ordering::Release);
        }
    }

    /// Charge a locked inode what it uses. An inode that is not loaded is settled when it is.
    #[inline(always)]
    pub(crate) fn settle(self, locked: &Locked<'_>) {
        if locked.inode.is_counted() {
            self.settle_in_tree(locked);
        }
    }

    #[inline(never)]
    fn settle_in_tree(self, locked: &Locked<'_>) {
        let inode = locked.inode;
        let Some(tree) = self.tree_of(inode) else {
            return;
        };
        if inode.state.load(Ordering::Acquire) != LOADED {
            return;
        }
        let blocks = match locked.kind() {
            // Its `blocks` are names.
            FileKind::Directory => 0,
            _ => inode.blocks.load(Ordering::Relaxed),
        };
        let exact = COUNTED | blocks;
        if inode.charged.load(Ordering::Relaxed) != exact {
            self.charge(locked.me, (locked.ino, inode), tree, exact);
        }
        let unsettled = &locked.me.slot.unsettled;
        if unsettled.load(Ordering::Relaxed) == locked.ino {
            unsettled.store(0, Ordering::Release);
        }
    }

    /// Count an inode that is about to be made in a directory, for the tree of the directory. Its number is taken by
    /// this thread. Until [`Quotas::discount`].
    ///
    /// # Errors
    /// `EDQUOT` when the tree would exceed a limit.
    #[inline(always)]
    pub(crate) fn count_new(self, directory: &Locked<'_>, ino: u64, blocks: u64) -> Outcome<()> {
        if !directory.inode.is_counted() {
            return Ok(());
        }
        self.count_new_in_tree(directory, ino, blocks)
    }

    #[inline(never)]
    fn count_new_in_tree(self, directory: &Locked<'_>, ino: u64, blocks: u64) -> Outcome<()> {
        let Some(tree) = self.tree_in_force(directory.inode) else {
            return Ok(());
        };
        let inode = self.volume.inode(ino)?;
        inode.tree.store(tree.0 as u32 + 1, Ordering::Release);
        self.charge(directory.me, (ino, inode), tree, COUNTED | blocks);
        // As in `reserve_in_tree`.
        fence(Ordering::SeqCst);
        let (limits, usage) = (self.limits(tree), self.usage(tree));
        let is_over = |limit, used| limit != 0 && used > limit;
        if is_over(limits.inodes, usage.inodes)
            || blocks > 0 && is_over(limits.blocks, usage.blocks)
        {
            self.discount(directory.me, ino);
            return Err(Errno(libc::EDQUOT));
        }
        Ok(())
    }

    /// Count an inode no more: its record is free, or was never committed. The thread's slot, or that of a dead thread,
    /// names the number.
    pub(crate) fn discount(self, me: Me<'_>, ino: u64) {
        let Ok(inode) = self.volume.inode(ino) else {
            return;
        };
        let Some(tree) = self.tree_of(inode) else {
            return;
        };
        if inode.charged.load(Ordering::Relaxed) != 0 {
            self.charge(me, (ino, inode), tree, 0);
        }
        let header = self.header(tree);
        if header.top.load(Ordering::Relaxed) == ino {
            // An attribute of the root still names it, with a generation that will not come again.
            header.state.store(TREE_RETIRED, Ordering::Release);
        }
        inode.tree.store(0, Ordering::Release);
    }

    /// Have another tree, or none, count a locked and loaded inode.
    pub(crate) fn move_to(self, locked: &Locked<'_>, tree: Option<TreeIndex>) {
        let (inode, before) = (locked.inode, self.tree_of(locked.inode));
        if before == tree {
            return self.settle(locked);
        }
        let unsettled = &locked.me.slot.unsettled;
        unsettled.store(locked.ino, Ordering::Release);
        if let Some(before) = before {
            self.charge(locked.me, (locked.ino, inode), before, 0);
        }
        let word = tree.map_or(0, |tree| tree.0 as u32 + 1);
        inode.tree.store(word, Ordering::Release);
        self.settle(locked);
        unsettled.store(0, Ordering::Release);
    }

    /// Charge an inode this much instead of what it is charged now.
    fn charge(self, me: Me<'_>, (ino, inode): (u64, &SessionInode), tree: TreeIndex, charged: u64) {
        let cell = &self.cells(tree)[me.index];
        let before = inode.charged.load(Ordering::Relaxed);
        let change = &me.slot.usage_change;
        let blocks = |charged: u64| charged & !COUNTED;
        let [blocks_added, blocks_removed] = cell.blocks.after(blocks(before), blocks(charged));
        let inodes = |charged: u64| charged >> 63;
        let [inodes_added, inodes_removed] = cell.inodes.after(inodes(before), inodes(charged));
        let stores = [
            (&change.ino, ino),
            (&change.tree, tree.0 as u64),
            (&change.cell.blocks.added, blocks_added),
            (&change.cell.blocks.removed, blocks_removed),
            (&change.cell.inodes.added, inodes_added),
            (&change.cell.inodes.removed, inodes_removed),
            (&change.charged, charged),
            (&change.begun, 1),
        ];
        // Each store releases those before it, also the end of the change before.
        for (word, new) in stores {
            word.store(new, Ordering::Release);
        }
        change.make(cell, inode);
        change.begun.store(0, Ordering::Release);
    }

    /// Complete the change of a dead thread. Under the `recovery` of its slot.
    pub(crate) fn complete_change(self, slot: usize) {
        let change = &self.volume.session.threads()[slot].usage_change;
        if change.begun.load(Ordering::Acquire) == 0 {
            return;
        }
        let tree = change.tree.load(Ordering::Relaxed) as usize;
        let inode = self.volume.inode(change.ino.load(Ordering::Relaxed));
        if let (true, Ok(inode)) = (tree < MAX_TREES, inode) {
            change.make(&self.cells(TreeIndex(tree))[slot], inode);
        }
        change.begun.store(0, Ordering::Release);
    }

    /// Trees with limits, or about to get them.
    pub(crate) fn trees(self) -> impl Iterator<Item = TreeIndex> + use<'v> {
        (0..MAX_TREES).map(TreeIndex).filter(move |tree| {
            let state = self.header(*tree).state.load(Ordering::Acquire);
            state == TREE_LIMITED || state == TREE_COUNTED
        })
    }

    /// Inode number and generation of the directory at the top.
    pub(crate) fn top_of(self, tree: TreeIndex) -> (u64, u32) {
        let header = self.header(tree);
        let generation = header.generation.load(Ordering::Relaxed);
        (header.top.load(Ordering::Relaxed), generation)
    }

    /// Begin to count a tree. The lock of renames is held, or the session is being made.
    ///
    /// # Errors
    /// `ENOSPC` when there are as many trees as there may be, `ENOMEM` when the session has no memory.
    pub(crate) fn begin_tree(self, top: u64, generation: u32) -> Outcome<TreeIndex> {
        let is_free = |tree: &TreeIndex| match self.header(*tree).state.load(Ordering::Acquire) {
            TREE_FREE => true,
            TREE_RETIRED => self.usage(*tree).inodes == 0,
            _ => false,
        };
        let mut all = (0..MAX_TREES).map(TreeIndex);
        let tree = all.find(is_free).ok_or(Errno(libc::ENOSPC))?;
        self.volume.session.back(self.cells(tree))?;
        let header = self.header(tree);
        header.top.store(top, Ordering::Relaxed);
        header.generation.store(generation, Ordering::Relaxed);
        header.state.store(TREE_COUNTED, Ordering::Release);
        Ok(tree)
    }

    /// Put limits of a counted tree in force.
    pub(crate) fn limit(self, tree: TreeIndex, limits: Amounts) {
        let header = self.header(tree);
        let stores = [
            (&header.limit_blocks, limits.blocks),
            (&header.limit_inodes, limits.inodes),
        ];
        for (word, limit) in stores {
            word.store(limit, Ordering::Relaxed);
        }
        header.state.store(TREE_LIMITED, Ordering::Release);
    }

    /// Remove the limits of a tree.
    pub(crate) fn retire(self, tree: TreeIndex) {
        let state = &self.header(tree).state;
        state.store(TREE_RETIRED, Ordering::Release);
    }

    /// Give up counting trees that their processes did not finish. The lock of renames is held.
    pub(crate) fn retire_unfinished(self) {
        for header in &self.volume.session.header().trees {
            let (counted, retired) = (TREE_COUNTED, TREE_RETIRED);
            let order = Ordering::AcqRel;
            let _ = (header.state).compare_exchange(counted, retired, order, Ordering::Relaxed);
        }
    }
}

impl Flow {
    /// Both words after a part of the usage has changed.
    fn after(&self, before: u64, now: u64) -> [u64; 2] {
        let (added, removed) = (now.saturating_sub(before), before.saturating_sub(now));
        [
            self.added.load(Ordering::Relaxed).wrapping_add(added),
            self.removed.load(Ordering::Relaxed).wrapping_add(removed),
        ]
    }
}

impl UsageChange {
    /// Each store releases those before it: none comes before the note of the change.
    fn make(&self, cell: &UsageCell, inode: &SessionInode) {
        let stores = [
            (&cell.blocks.added, &self.cell.blocks.added),
            (&cell.blocks.removed, &self.cell.blocks.removed),
            (&cell.inodes.added, &self.cell.inodes.added),
            (&cell.inodes.removed, &self.cell.inodes.removed),
            (&inode.charged, &self.charged),
        ];
        for (word, new) in stores {
            word.store(new.load(Ordering::Relaxed), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::volume::Volume;
    use crate::test_volume::{FILE, Stopped, new_volume, stop};
    use crate::*;
    use std::sync::Arc;

    const ROOT: InodeNumber = InodeNumber::ROOT;

    /// A volume with a limit of 8 blocks for all of it, and a file of 2 blocks.
    fn limited(directory: &tempfile::TempDir) -> (Arc<Volume>, FileReference) {
        let (volume, _) = new_volume(directory);
        let made = volume.create(ROOT, b"file", &FILE).expect("create");
        let file = volume.open(made.ino, None).expect("open");
        volume.write(file, 0, &[7; 8192]).expect("write");
        let limits = QuotaLimits {
            bytes: Some(8 * 4096),
            inodes: Some(4),
        };
        volume.set_quota(ROOT, limits).expect("limit");
        (volume, file)
    }

    fn used(volume: &Volume) -> (u64, u64) {
        let quota = volume.quota_of(ROOT).expect("limits");
        (quota.used_bytes / 4096, quota.used_inodes)
    }

    /// A process that stops with a charge of 6 blocks that it did not use.
    fn charged(volume: &Volume, file: FileReference) -> Stopped {
        Stopped::in_child(volume, |volume| {
            let locked = volume.lock(file.ino().0)?;
            std::mem::forget(Quotas::of(volume).reserve(&locked, || 6)?);
            Ok(locked)
        })
    }

    #[test]
    fn a_stopped_process_with_a_charge_delays_no_other() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, file) = limited(&directory);
        let other = volume.create(ROOT, b"other", &FILE).expect("create").ino;
        let other = volume.open(other, None).expect("open");
        let stopped = charged(&volume, file);
        assert_eq!(used(&volume), (8, 3));
        assert_eq!(volume.write(other, 0, b"x"), Err(Errno(libc::EDQUOT)));
        assert!(volume.create(ROOT, b"more", &FILE).is_ok());
        stopped.kill();
        // The writer at the limit reaps.
        assert_eq!(volume.write(other, 0, b"x"), Ok(1));
        assert_eq!(used(&volume), (3, 4));
    }

    #[test]
    fn a_dead_charge_is_settled_by_the_next_to_lock_the_inode() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, file) = limited(&directory);
        charged(&volume, file).kill();
        assert_eq!(used(&volume), (8, 2));
        drop(volume.lock(file.ino().0).expect("lock"));
        assert_eq!(used(&volume), (2, 2));
        volume.reap();
        assert_eq!(used(&volume), (2, 2));
    }

    #[test]
    fn a_number_that_was_counted_and_not_committed_is_discounted() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = limited(&directory);
        let stopped = Stopped::in_child(&volume, |volume| {
            let locked = volume.lock(ROOT.0)?;
            let mut operation = crate::space::operation::Operation::new(volume, locked.me);
            let numbers = crate::space::InodeNumbers::of(volume);
            let ino = numbers.take_inode(&mut operation, 0)?;
            Quotas::of(volume).count_new(&locked, ino, 1)?;
            std::mem::forget(operation);
            Ok(locked)
        });
        assert_eq!(used(&volume), (3, 3));
        stopped.kill();
        volume.reap();
        assert_eq!(used(&volume), (2, 2));
    }

    /// The process dies with its change noted, and none or all of it made.
    #[test]
    fn a_noted_change_is_completed_once() {
        for steps in 0..6 {
            let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
            let (volume, file) = limited(&directory);
            let stopped = Stopped::in_child(&volume, |volume| {
                let locked = volume.lock(file.ino().0)?;
                half_charge(volume, &locked, steps);
                Ok(locked)
            });
            stopped.kill();
            volume.write(file, 8192, &[1; 4096]).expect("write");
            assert_eq!(used(&volume), (3, 2), "{steps} steps");
            volume.reap();
            assert_eq!(used(&volume), (3, 2), "{steps} steps");
        }
    }

    /// As `charge` for one more block, up to a step.
    fn half_charge(volume: &Volume, locked: &Locked<'_>, steps: usize) {
        let quotas = Quotas::of(volume);
        quotas.note_unsettled(locked);
        let tree = quotas.tree_of(locked.inode).expect("counted");
        let cell = &quotas.cells(tree)[locked.me.index];
        let change = &locked.me.slot.usage_change;
        let words = [
            (&cell.blocks.added, &change.cell.blocks.added, 1),
            (&cell.blocks.removed, &change.cell.blocks.removed, 0),
            (&cell.inodes.added, &change.cell.inodes.added, 0),
            (&cell.inodes.removed, &change.cell.inodes.removed, 0),
            (&locked.inode.charged, &change.charged, 1),
        ];
        for (word, new, more) in words {
            let value = word.load(Ordering::Relaxed).wrapping_add(more);
            new.store(value, Ordering::Relaxed);
        }
        change.ino.store(locked.ino, Ordering::Relaxed);
        change.tree.store(tree.0 as u64, Ordering::Relaxed);
        change.begun.store(1, Ordering::Release);
        for (word, new, _) in &words[..steps] {
            word.store(new.load(Ordering::Relaxed), Ordering::Release);
        }
    }

    #[test]
    fn counting_that_was_killed_leaves_no_limits() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        let parent = NewInode::of_root(libc::S_IFDIR | 0o755);
        let top = volume.create(ROOT, b"top", &parent).expect("mkdir").ino;
        volume.create(top, b"file", &FILE).expect("create");
        let stopped = Stopped::in_child(&volume, |volume| {
            let _held = volume.session.lock_renames()?;
            let quotas = Quotas::of(volume);
            let tree = quotas.begin_tree(top.0, 1)?;
            quotas.move_to(&volume.lock(top.0)?, Some(tree));
            stop();
            Ok(())
        });
        let rename =
            |volume: &Volume| volume.rename(top, b"file", ROOT, b"file", RenameMode::Replace);
        assert_eq!(rename(&volume), Err(Errno(libc::EXDEV)), "being counted");
        stopped.kill();
        volume.reap();
        assert_eq!(rename(&volume), Ok(()));
        assert_eq!(volume.quotas(), []);
    }
}
