//! Reaping dead processes: whatever they held goes back to where it belongs.

use crate::format::Extent;
use crate::log::apply::{is_in_pocket, is_outgoing};
use crate::session::layout::*;
use crate::session::lock::Acquired;
use crate::session::slots::{Life, pid_namespace, process_life};
use crate::types::Errno;
use crate::volume::Volume;
use crate::volume::segments::mappings_here;
use std::sync::atomic::Ordering;

/// Start time of no process that uses a volume: what held the slot is gone, whatever its pid says.
const BEFORE_EXEC: u64 = u64::MAX;

impl Volume {
    /// Reap dead processes now (the mount calls it every second): their locks, slots, opens, space.
    pub fn reap(&self) {
        self.do_late();
        self.session.arena().trim();
        let reaper = &self.session.header().reaper;
        match reaper.try_lock() {
            Ok(Acquired::Clean) => {}
            // Every step below may be taken again from where the dead reaper stopped.
            Ok(Acquired::OwnerDied) => reaper.make_consistent(),
            Err(_) => return,
        }
        let high = self.session.header().process_high.load(Ordering::Acquire) as usize;
        for process in 0..high.min(PROCESS_SLOTS) {
            if self.is_dead(&self.session.processes()[process]) {
                self.reap_process(process);
            }
        }
        reaper.unlock();
    }

    /// Whether a slot's process is gone. One that another pid namespace hides counts as living.
    fn is_dead(&self, slot: &ProcessSlot) -> bool {
        let pid = slot.pid.load(Ordering::Acquire);
        if pid == 0 || slot.pid_namespace.load(Ordering::Relaxed) != pid_namespace() {
            return false;
        }
        let known = slot.start_ticks.load(Ordering::Relaxed);
        match process_life(pid) {
            Life::Running(start_ticks) => known != 0 && start_ticks != known,
            Life::Over => true,
            Life::Unknown => false,
        }
    }

    /// Leave to the reaper what this process took before it became another program by `exec`: pid and start
    /// time stay the same, so it looks alive. Under `recovery`, as all taking of slots is, and before this
    /// attachment has a slot.
    ///
    /// Whoever of this process holds a slot maps the segment for as long: another attachment, also one of
    /// another copy of this library or of a process that shares our memory (`vfork`). So when the only
    /// mapping is ours, slots of this process are of a program that is no more, with all its threads.
    pub(crate) fn disown_slots_before_exec(&self, pid: u64, start_ticks: u64) {
        let header = self.session.header();
        let high = (header.process_high.load(Ordering::Acquire) as usize).min(PROCESS_SLOTS);
        let namespace = pid_namespace();
        let ours = |slot: &&ProcessSlot| {
            slot.pid.load(Ordering::Acquire) == pid
                && slot.start_ticks.load(Ordering::Relaxed) == start_ticks
                && slot.pid_namespace.load(Ordering::Relaxed) == namespace
        };
        let slots: Vec<_> = self.session.processes()[..high]
            .iter()
            .filter(ours)
            .collect();
        let known = start_ticks != 0 && namespace != 0 && !slots.is_empty();
        if known && mappings_here(self.session.path()) == Some(1) {
            for slot in slots {
                slot.start_ticks.store(BEFORE_EXEC, Ordering::Release);
            }
        }
    }

    fn reap_process(&self, process: usize) {
        let high =
            (self.session.header().thread_high.load(Ordering::Acquire) as usize).min(THREAD_SLOTS);
        for index in 0..high {
            if self.session.threads()[index].owner.load(Ordering::Acquire) == process as u64 + 1 {
                self.reap_thread(index);
            }
        }
        self.reap_opens(process);
        self.reap_descriptions(process);
        self.reap_lookup_references(process);
        self.session.processes()[process]
            .pid
            .store(0, Ordering::Release);
    }

    fn reap_thread(&self, index: usize) {
        let slot = &self.session.threads()[index];
        let recovery = &self.session.header().recovery;
        if recovery
            .with(|| (), || self.complete_journal(index))
            .is_err()
        {
            // Its slot stays as it is, for a process that can.
            return;
        }
        self.reap_pending(index);
        self.reap_moves(index);
        self.empty_pockets(slot);
        self.reap_pending_inode(index);
        let _ = recovery.with(|| (), || self.retire_thread_slot(slot));
    }

    /// Settle the runs of an operation cut off, inode by inode, under each inode's lock.
    fn reap_pending(&self, index: usize) {
        let slot = &self.session.threads()[index];
        for entry in slot.pending_new.iter().chain(&slot.pending_old) {
            if entry.extent.load(Ordering::Acquire) == 0 {
                continue;
            }
            match self.lock(entry.ino.load(Ordering::Relaxed)) {
                Ok(locked) => self.reclaim_new_blocks(&locked, index),
                // No such inode was ever committed: the run is nobody's.
                Err(Errno(libc::ESTALE)) => self.settle_ownerless(slot, entry),
                // What cannot be told is not freed.
                Err(_) => entry.extent.store(0, Ordering::Release),
            }
        }
    }

    /// Settle a run that no inode's log can name; one noted for inode 0 may be a block of records.
    fn settle_ownerless(&self, slot: &ThreadSlot, entry: &PendingExtent) {
        let extent = Extent::decode(entry.extent.load(Ordering::Acquire));
        let chunk = entry.file_block.load(Ordering::Relaxed);
        let named = entry.ino.load(Ordering::Relaxed) == 0
            && self.inode_block(extent.pool, chunk) != Ok(None)
            && self.inode_block(extent.pool, chunk).ok().flatten() == Some(extent.block);
        let held = named || is_in_pocket(slot, extent) || is_outgoing(slot, extent);
        entry.extent.store(0, Ordering::Release);
        if let (false, Ok(me)) = (held, self.me()) {
            me.slot.outgoing.store(extent.encode(), Ordering::Release);
            self.give_back(me.index, me.slot);
        }
    }

    /// Finish runs that were on their way between the slot and the map.
    fn reap_moves(&self, index: usize) {
        let slot = &self.session.threads()[index];
        let outgoing = slot.outgoing.load(Ordering::Acquire);
        if outgoing != 0 && is_in_pocket(slot, Extent::decode(outgoing)) {
            slot.outgoing.store(0, Ordering::Release);
        }
        self.give_back(index, slot);
        let incoming = Extent::decode(slot.incoming.load(Ordering::Acquire));
        if incoming.count > 0 {
            // While `incoming` still names it: the group may be locked by the dead one.
            self.settle_group_of(incoming);
            slot.incoming.store(0, Ordering::Release);
            if !is_in_pocket(slot, incoming) {
                slot.outgoing.store(incoming.encode(), Ordering::Release);
                self.give_back(index, slot);
            }
        }
    }

    /// A number taken and not committed is free; a deletion cut off goes on.
    fn reap_pending_inode(&self, index: usize) {
        let slot = &self.session.threads()[index];
        let word = slot.pending_inode.load(Ordering::Acquire);
        let ino = word & !LOSING_USE;
        if ino == 0 {
            return;
        }
        match self.lock(ino) {
            Ok(locked) => {
                self.inode_losing(locked.me, ino);
                slot.pending_inode.store(0, Ordering::Release);
                let _ = self.delete_if_unused(&locked);
                self.inode_settled(locked.me);
            }
            Err(Errno(libc::ESTALE)) if word == ino => self.free_inode(slot, ino),
            Err(_) => slot.pending_inode.store(0, Ordering::Release),
        }
    }
}
