//! Free space. Each pool's map is cut into groups, each with a lock; threads keep a few runs in their *pocket*, so
//! that the common write uses no shared cache line. At any instant every block is owned by the map, by one thread slot
//! (pocket, incoming, outgoing, pending), or by a committed log. A transfer is recorded before it begins, so that the
//! blocks of a dead owner are found and the transfer is finished.

mod pockets;

pub(crate) use pockets::PocketPlace;

use crate::failpoint::{Resource, should_fail};
use crate::format::*;
use crate::session::Snapshots;
use crate::session::late::Late;
use crate::session::layout::*;
use crate::session::lock::{Acquired, LockFailure, RobustMutex};
use crate::session::slots::Me;
use crate::space::Space;
use crate::space::runs::{change_bits, find_run};
use crate::types::{Errno, Outcome};
use egeria_media::{BlockNumber, PoolIndex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Blocks per pool that only operations that free space may take, so that a full volume can be emptied.
pub(crate) const RESERVE_BLOCKS: u64 = 64;
/// Blocks reserved for the logs of new data when available space is reported.
pub(in crate::space) const LOG_BLOCKS: u64 = 8;
/// Most blocks a thread takes at once for its pocket.
const POCKET_REFILL_BLOCKS: u64 = 64;
/// A thread that takes at least this many blocks will write them soon: their pages are mapped ahead.
const MIN_MAPPED_BLOCKS: u64 = 16;
/// Most blocks to map ahead of writing them.
const MAX_MAPPED_BLOCKS: u64 = 512;
/// Longest run that goes back into a pocket instead of the map.
const POCKET_RUN_BLOCKS: u64 = 64;
/// Flag in a `mover` word: the move is from the thread to the map.
pub(crate) const GIVING_BACK: u64 = 1 << 63;
/// How long to wait for a lock to give blocks back before this is deferred.
const GIVING_BACK_PATIENCE: Duration = Duration::from_millis(20);
/// How long to wait for each of several locks in turn.
pub(super) const TURN: Duration = Duration::from_millis(1);
/// Minimum size of a group, unless the pool has fewer blocks.
const MIN_GROUP_BLOCKS: u64 = 2048;
/// Blocks of a huge page: long runs begin at a multiple of it.
const HUGE_BLOCKS: u64 = 512;

/// What an allocation is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// New data or names.
    Ordinary,
    /// New data for a block that the file frees: may take half of the reserve, so that removals still work.
    Replacing,
    /// A record of a removal: may take the reserve.
    Freeing,
}

/// How long the lock of a part of the free space is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    For(Duration),
    /// Some time, but not again and again.
    ToGiveBack,
}

impl<'v> Space<'v> {
    pub(in crate::space) fn map_of(self, pool: usize) -> &'v [AtomicU64] {
        self.volume
            .session
            .block_map(pool, self.volume.geometry[pool].blocks)
    }

    /// Make the groups of a fresh session: everything before the data region is used.
    pub(crate) fn initialise_space(self) {
        for (pool, geometry) in self.volume.geometry.iter().enumerate() {
            self.initialise_pool(pool, geometry);
        }
        // Tables of the inodes of removed pools.
        let pools = self.volume.superblock().pools.iter();
        for rehoused in pools.filter_map(|pool| pool.removed) {
            let map = self.map_of(rehoused.pool as usize);
            change_bits(map, rehoused.table.0, rehoused.table_blocks(), true);
        }
    }

    fn initialise_pool(self, pool: usize, geometry: &Geometry) {
        let header = self.volume.session.pool(pool);
        let groups = (geometry.blocks / MIN_GROUP_BLOCKS).clamp(1, MAX_GROUPS as u64);
        let group_blocks = geometry
            .blocks
            .div_ceil(groups)
            .next_multiple_of(HUGE_BLOCKS)
            .max(HUGE_BLOCKS);
        header.group_blocks.store(group_blocks, Ordering::Relaxed);
        header
            .group_count
            .store(geometry.blocks.div_ceil(group_blocks), Ordering::Relaxed);
        let map = self.volume.session.block_map(pool, geometry.blocks);
        change_bits(map, 0, geometry.data_block.0, true);
    }

    /// Make the maps of an empty pool that is about to be added to the session. No process uses them yet; an attempt before may have
    /// left something in them.
    pub(crate) fn initialise_added_pool(self, pool: usize, geometry: &Geometry) {
        let session = &self.volume.session;
        let maps = [
            session.block_map(pool, geometry.blocks),
            session.inode_map(pool, geometry.inodes()),
        ];
        for word in maps.into_iter().flatten() {
            word.store(0, Ordering::Relaxed);
        }
        self.initialise_pool(pool, geometry);
        let groups = session.pool(pool).group_count.load(Ordering::Relaxed);
        for group in 0..groups as usize {
            self.recount_group_of(pool, group, geometry.blocks);
        }
    }

    /// While a session is made (by one thread): claim a run; false when a part was claimed already.
    pub(crate) fn claim_blocks(self, pool: usize, block: u64, count: u64) -> bool {
        change_bits(self.map_of(pool), block, count, true) == count
    }

    /// Whether a block is in use, as far as the map knows.
    #[allow(dead_code)]
    pub(crate) fn is_block_used(self, pool: usize, block: u64) -> bool {
        self.map_of(pool)[(block / 64) as usize].load(Ordering::Relaxed) >> (block % 64) & 1 == 1
    }

    /// Count the free blocks of every group: once, after all claims are made.
    pub(crate) fn count_free_space(self) {
        for pool in 0..self.volume.geometry.len() {
            for group in 0..self
                .volume
                .session
                .pool(pool)
                .group_count
                .load(Ordering::Relaxed) as usize
            {
                self.recount_group(pool, group);
            }
        }
    }

    fn group_range(self, pool: usize, group: usize, blocks: u64) -> (u64, u64) {
        let size = self
            .volume
            .session
            .pool(pool)
            .group_blocks
            .load(Ordering::Relaxed);
        let start = group as u64 * size;
        (start, (start + size).min(blocks))
    }

    fn recount_group(self, pool: usize, group: usize) {
        self.recount_group_of(pool, group, self.volume.geometry[pool].blocks);
    }

    fn recount_group_of(self, pool: usize, group: usize, blocks: u64) {
        let (start, end) = self.group_range(pool, group, blocks);
        let map = self.volume.session.block_map(pool, blocks);
        let mut free = 0;
        let mut bit = start;
        while bit < end {
            let run = (end - bit).min(64);
            let word = map[(bit / 64) as usize].load(Ordering::Relaxed);
            free += run
                - (word & if run == 64 { u64::MAX } else { (1 << run) - 1 }).count_ones() as u64;
            bit += run;
        }
        self.volume.session.pool(pool).groups[group]
            .free
            .store(free, Ordering::Release);
    }

    /// Lock a group; finish what its dead owner began. `EBUSY` when another thread holds it for as long as `wait`
    /// says.
    pub(in crate::space) fn lock_group(
        self,
        pool: usize,
        group: usize,
        wait: Wait,
    ) -> Outcome<&'v Group> {
        let mutex = &self.volume.session.pool(pool).groups[group].mutex;
        self.locked_group(pool, group, self.lock_space(mutex, wait))
    }

    /// Lock part of the free space, or of the numbers; its holder may be stopped.
    pub(super) fn lock_space(
        self,
        mutex: &RobustMutex,
        wait: Wait,
    ) -> Result<Acquired, LockFailure> {
        match (mutex.try_lock(), wait) {
            (Err(LockFailure::Busy), Wait::For(limit)) => mutex.lock_within(limit),
            (Err(LockFailure::Busy), Wait::ToGiveBack) => {
                if self.volume.space_busy.is_on() {
                    return Err(LockFailure::Busy);
                }
                let acquired = mutex.lock_within(GIVING_BACK_PATIENCE);
                if acquired == Err(LockFailure::Busy) {
                    self.volume.space_busy.note();
                }
                acquired
            }
            (acquired, _) => acquired,
        }
    }

    fn locked_group(
        self,
        pool: usize,
        group: usize,
        acquired: Result<Acquired, LockFailure>,
    ) -> Outcome<&'v Group> {
        let entry = &self.volume.session.pool(pool).groups[group];
        match acquired {
            Ok(Acquired::Clean) => Ok(entry),
            Ok(Acquired::OwnerDied) => {
                self.finish_move(pool, entry);
                self.recount_group(pool, group);
                entry.mutex.make_consistent();
                Ok(entry)
            }
            Err(LockFailure::Busy) => Err(Errno(libc::EBUSY)),
            Err(LockFailure::Unusable) => Err(Errno(libc::EIO)),
        }
    }

    /// Finish a move that died in the group this run lies in; `EBUSY` while another thread holds the group.
    pub(crate) fn settle_group_of(self, extent: Extent) -> Outcome<()> {
        let pool = extent.pool.0 as usize;
        if self.volume.geometry_of(extent.pool).is_some() {
            let size = self
                .volume
                .session
                .pool(pool)
                .group_blocks
                .load(Ordering::Relaxed);
            let group = (extent.block.0 / size.max(1)) as usize;
            if group < MAX_GROUPS {
                match self.lock_group(pool, group, Wait::ToGiveBack) {
                    Ok(entry) => entry.mutex.unlock(),
                    Err(Errno(libc::EBUSY)) => return Err(Errno(libc::EBUSY)),
                    // The group can never be locked again.
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    fn finish_move(self, pool: usize, group: &Group) {
        let word = group.moving.load(Ordering::Acquire);
        let mover = group.mover.load(Ordering::Acquire);
        let slot = (mover & !GIVING_BACK)
            .checked_sub(1)
            .and_then(|index| self.volume.session.threads().get(index as usize));
        if let (Some(slot), true) = (slot, word != 0) {
            let extent = Extent::decode(word);
            if mover & GIVING_BACK != 0 {
                change_bits(self.map_of(pool), extent.block.0, extent.count, false);
                let left = Extent::decode(slot.outgoing.load(Ordering::Acquire));
                if left.pool == extent.pool && left.block == extent.block {
                    let rest = left.without_first(extent.count);
                    slot.outgoing.store(rest.encode(), Ordering::Release);
                }
            } else if slot.incoming.load(Ordering::Acquire) != word {
                change_bits(self.map_of(pool), extent.block.0, extent.count, false);
            }
        }
        group.moving.store(0, Ordering::Release);
    }

    /// Move up to `want` blocks of one group into the thread's `incoming`.
    fn take_from_group(
        self,
        me: Me<'_>,
        pool: usize,
        group: usize,
        want: u64,
        (exact, wait): (bool, Wait),
    ) -> Outcome<Option<Extent>> {
        let entry = match self.lock_group(pool, group, wait) {
            Err(Errno(libc::EBUSY)) => return Ok(None),
            entry => entry?,
        };
        let blocks = self.volume.geometry[pool].blocks;
        let (start, end) = self.group_range(pool, group, blocks);
        let hint = entry.hint.load(Ordering::Relaxed).clamp(start, end);
        let align = if want >= HUGE_BLOCKS { HUGE_BLOCKS } else { 1 };
        let map = self.map_of(pool);
        let tries = 64 + want / 2;
        let ahead = find_run(map, hint, end, want, align, tries);
        let found = match ahead {
            Some((_, count)) if count == want => ahead,
            _ => {
                let behind = find_run(map, start, end, want, align, tries);
                ahead
                    .into_iter()
                    .chain(behind)
                    .max_by_key(|(_, count)| *count)
            }
        };
        let found = found.filter(|(_, count)| *count == want || !exact);
        if let Some((first, count)) = found {
            let extent = Extent {
                pool: PoolIndex(pool as u8),
                block: BlockNumber(first),
                count,
            };
            entry.mover.store(me.index as u64 + 1, Ordering::Release);
            entry.moving.store(extent.encode(), Ordering::Release);
            change_bits(map, first, count, true);
            entry.free.store(
                entry.free.load(Ordering::Relaxed) - count,
                Ordering::Relaxed,
            );
            entry.hint.store(first + count, Ordering::Relaxed);
            me.slot.incoming.store(extent.encode(), Ordering::Release);
            entry.moving.store(0, Ordering::Release);
        }
        entry.mutex.unlock();
        Ok(found.map(|(first, count)| Extent {
            pool: PoolIndex(pool as u8),
            block: BlockNumber(first),
            count,
        }))
    }

    /// Recovery found a block with two owners. A block freed by one may belong to the other: so freed blocks are not
    /// reused in this session.
    pub(crate) fn note_shared_blocks(self) {
        Snapshots::of(self.volume).note_shared_blocks();
    }

    /// Whether freed blocks are not used again now.
    #[inline(always)]
    pub(in crate::space) fn keeps_freed_blocks(self) -> bool {
        Snapshots::of(self.volume).keeps_freed_blocks()
    }

    /// Free blocks of a pool's map, pockets not counted.
    pub(crate) fn free_in_maps(self, pool: usize) -> u64 {
        let header = self.volume.session.pool(pool);
        let count = header.group_count.load(Ordering::Relaxed) as usize;
        header.groups[..count.min(MAX_GROUPS)]
            .iter()
            .map(|group| group.free.load(Ordering::Relaxed))
            .sum()
    }

    /// Whether a pool is so full that threads should not keep free runs.
    fn is_tight(self, pool: usize) -> bool {
        self.volume.tight[pool].load(Ordering::Relaxed)
    }

    pub(crate) fn blocks_in_pockets(self, pool: usize) -> u64 {
        let threads = self.volume.session.used_threads().iter();
        threads
            .filter(|slot| slot.owner.load(Ordering::Relaxed) != 0)
            .flat_map(|slot| &slot.pocket[pool])
            .map(|word| Extent::decode(word.load(Ordering::Relaxed)).count)
            .sum()
    }
}

#[cfg(test)]
mod tests;
