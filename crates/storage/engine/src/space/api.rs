//! What callers ask about space, and what the session gives back.

use crate::format::*;
use crate::session::late::Late;
use crate::session::layout::*;
use crate::session::slots::Me;
use crate::session::volume::Volume;
use crate::session::{LateWork, Quotas, Snapshots};
use crate::space::free_space::{GIVING_BACK, LOG_BLOCKS, RESERVE_BLOCKS, Wait};
use crate::space::runs::change_bits;
use crate::space::{InodeNumbers, Space};
use crate::types::{Errno, Outcome, SpaceReport};
use egeria_machine::{Machine, format_bytes};
use egeria_media::BlockNumber;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

impl Volume {
    /// Give back the number that a slot names as pending; its record is free.
    pub(crate) fn free_inode(&self, slot: &ThreadSlot, ino: u64) {
        let Some((pool, index)) = inode_place(ino) else {
            return;
        };
        let owner = Me {
            slot,
            index: Space::of(self).index_of_slot(slot),
        };
        Quotas::of(self).discount(owner, ino);
        let pool = pool.0 as usize;
        let place = (pool, InodeNumbers::of(self).part_of(pool, index));
        let numbers = InodeNumbers::of(self).numbers(place.0, place.1);
        let freed = InodeNumbers::of(self).with_numbers(place, Wait::ToGiveBack, || {
            if slot.pending_inode.load(Ordering::Acquire) != ino {
                // Given back for a dead owner by the thread that locked the numbers first.
                return;
            }
            let mover = (Space::of(self).index_of_slot(slot) as u64 + 1) | GIVING_BACK;
            numbers.mover.store(mover, Ordering::Release);
            numbers.moving.store(ino, Ordering::Release);
            numbers.full_below.fetch_min(index, Ordering::Relaxed);
            let word = &InodeNumbers::of(self).inode_map(pool)[(index / 64) as usize];
            if word.fetch_and(!(1 << (index % 64)), Ordering::Release) >> (index % 64) & 1 == 1 {
                numbers.used.fetch_sub(1, Ordering::Relaxed);
            }
            slot.pending_inode.store(0, Ordering::Release);
            numbers.moving.store(0, Ordering::Release);
        });
        // A number that cannot be given back for another reason is lost until the next session.
        if freed == Err(Errno(libc::EBUSY)) {
            slot.pending_inode.store(0, Ordering::Release);
            LateWork::of(self).later(Late::Number(ino));
        }
    }

    /// Give `slot.outgoing` back to the map. The caller has removed the run from its old place.
    ///
    /// # Errors
    /// `EBUSY` when a thread that may be stopped holds a part of the map: `outgoing` still names what is left.
    pub(crate) fn give_back(&self, slot_index: usize, slot: &ThreadSlot) -> Outcome<()> {
        let whole = Extent::decode(slot.outgoing.load(Ordering::Acquire));
        let pool = whole.pool.0 as usize;
        let snapshots = Snapshots::of(self);
        if whole.count == 0
            || self.geometry_of(whole.pool).is_none()
            || snapshots.has_shared_blocks()
        {
            slot.outgoing.store(0, Ordering::Release);
            return Ok(());
        }
        if snapshots.current() != 0 {
            // Before the bits are set, so that no block is given back twice.
            slot.outgoing.store(0, Ordering::Release);
            Space::of(self).hold(self.me()?, whole);
            return Ok(());
        }
        let group_blocks = self
            .session
            .pool(pool)
            .group_blocks
            .load(Ordering::Relaxed)
            .max(1);
        let mut block = whole.block.0;
        while block < whole.end() {
            let group = (block / group_blocks) as usize;
            let count = (whole.end() - block).min(group_blocks - block % group_blocks);
            let part = Extent {
                pool: whole.pool,
                block: BlockNumber(block),
                count,
            };
            let left = Extent {
                pool: whole.pool,
                block: BlockNumber(block),
                count: whole.end() - block,
            };
            let entry = match Space::of(self).lock_group(pool, group, Wait::ToGiveBack) {
                Ok(entry) => entry,
                Err(Errno(libc::EBUSY)) => return Err(Errno(libc::EBUSY)),
                Err(_) => break,
            };
            let rest = left.without_first(count);
            if slot.outgoing.load(Ordering::Acquire) != left.encode() {
                // Locking the group has just finished this move on behalf of its dead owner.
                entry.mutex.unlock();
                block += count;
                continue;
            }
            // Recorded first: after a death the group's next owner finishes the move and shortens `outgoing` too.
            entry
                .mover
                .store((slot_index as u64 + 1) | GIVING_BACK, Ordering::Release);
            entry.moving.store(part.encode(), Ordering::Release);
            let freed = change_bits(Space::of(self).map_of(pool), block, count, false);
            entry.free.store(
                entry.free.load(Ordering::Relaxed) + freed,
                Ordering::Relaxed,
            );
            slot.outgoing.store(rest.encode(), Ordering::Release);
            entry.moving.store(0, Ordering::Release);
            entry.mutex.unlock();
            block += count;
        }
        slot.outgoing.store(0, Ordering::Release);
        Ok(())
    }

    /// Give back a run without an owner through this thread's slot. The thread keeps what cannot be given back now.
    pub(crate) fn give_back_run(&self, me: Me<'_>, run: Extent) {
        me.slot.outgoing.store(run.encode(), Ordering::Release);
        if self.give_back(me.index, me.slot).is_ok() {
            return;
        }
        let left = me.slot.outgoing.load(Ordering::Relaxed);
        let pocket = &me.slot.pocket[Extent::decode(left).pool.0 as usize];
        let empty = pocket.iter().find(|word| word.load(Ordering::Relaxed) == 0);
        match empty {
            // For a moment two words name the run, as in `refill`.
            Some(word) => word.store(left, Ordering::Release),
            // Should this process die first, the run is lost until the next session.
            None => LateWork::of(self).later(Late::Run(left)),
        }
        me.slot.outgoing.store(0, Ordering::Release);
    }

    /// Space of the volume or of one pool.
    pub fn space(&self, pool: Option<u8>) -> SpaceReport {
        self.look_for_added_pools();
        let mut report = SpaceReport::default();
        for index in 0..self.geometry.len() {
            if pool.is_some_and(|pool| pool as usize != index) {
                continue;
            }
            let geometry = &self.geometry[index];
            let free =
                Space::of(self).free_in_maps(index) + Space::of(self).blocks_in_pockets(index);
            report.blocks += geometry.blocks - geometry.data_block.0;
            report.free_blocks += free.saturating_sub(RESERVE_BLOCKS);
            // Runs that other threads keep are free but cannot be taken by this thread; logs and indexes grow with
            // data.
            let in_maps = Space::of(self).free_in_maps(index);
            let kept = RESERVE_BLOCKS + LOG_BLOCKS + in_maps / 4096;
            if !self.is_retired(index) {
                report.available_blocks += in_maps.saturating_sub(kept);
            }
            let inodes = geometry.inode_blocks * INODES_PER_BLOCK;
            report.inodes += inodes;
            report.free_inodes += inodes.saturating_sub(InodeNumbers::of(self).inodes_used(index));
        }
        report
    }

    /// What is left for new data on each node, in words: `node 0 has 0 B of 8 MiB left, node 1 has …`.
    pub fn space_left(&self) -> String {
        let mut by_node = BTreeMap::<u16, (u64, u64)>::new();
        for (pool, node) in (0..).zip(self.pool_nodes()) {
            if !self.has_pool(pool as usize) {
                continue;
            }
            let space = self.space(Some(pool));
            let (left, all) = by_node.entry(node).or_default();
            *left += space.available_blocks;
            *all += space.blocks;
        }
        let bytes = |blocks: u64| format_bytes(blocks * BLOCK as u64);
        let nodes = by_node.iter().map(|(node, (left, all))| {
            let (left, all) = (bytes(*left), bytes(*all));
            format!("node {node} has {left} of {all} left")
        });
        nodes.collect::<Vec<_>>().join(", ")
    }

    /// Give all pockets of a slot back to the maps.
    ///
    /// # Errors
    /// `EBUSY` when a thread that may be stopped holds parts of the maps: the rest stays in the pockets.
    pub(crate) fn empty_pockets(&self, slot: &ThreadSlot) -> Outcome<()> {
        let index = Space::of(self).index_of_slot(slot);
        let mut all = Ok(());
        for word in slot.pocket.iter().flatten() {
            all = all.and(Space::of(self).give_back_pocket_entry(index, slot, word));
        }
        all
    }

    /// The machine that the creator of the session emulates; `None`: the real one.
    pub fn declared_machine(&self) -> Option<Machine> {
        self.session.emulation().machine().ok()
    }
}
