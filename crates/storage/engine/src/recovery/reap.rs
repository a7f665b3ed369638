//! Reaping dead processes: returns what they held to its owner.

use crate::format::Extent;
use crate::log::apply::{is_in_pocket, is_outgoing};
use crate::observe::Users;
use crate::recovery::{Reaper, Recovery};
use crate::session::layout::*;
use crate::session::lock::Acquired;
use crate::session::volume::Severity;
use crate::session::{LateWork, Quotas, References, Uses, patience};
use crate::space::Space;
use crate::types::{Errno, Outcome};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long to wait for an inode lock or a slot's recovery lock. Its holder may be stopped, and dead processes are
/// reaped one after another.
const REAPING_PATIENCE: Duration = Duration::from_millis(1);

/// How long to wait for another reaping thread when there is no space.
pub(super) const REAPER_PATIENCE: Duration = Duration::from_millis(200);

/// Whether a thread is in the middle of an operation.
fn is_at_work(slot: &ThreadSlot) -> bool {
    let pending = slot.pending_new.iter().chain(&slot.pending_old);
    let words = [
        &slot.incoming,
        &slot.outgoing,
        &slot.pending_inode,
        &slot.unsettled,
    ];
    pending
        .map(|entry| &entry.extent)
        .chain(words)
        .any(|word| word.load(Ordering::Acquire) != 0)
}

impl Reaper<'_> {
    /// Reap dead processes; if another thread is reaping, wait at most this long for it.
    pub(crate) fn reap_within(self, patience: Duration) {
        LateWork::of(self.volume).do_late();
        let reaper = &self.volume.session.header().reaper;
        let acquired = if patience.is_zero() {
            reaper.try_lock()
        } else {
            reaper.lock_within(patience)
        };
        match acquired {
            Ok(Acquired::Clean) => {}
            // Every step below may be repeated from where the dead reaper stopped.
            Ok(Acquired::OwnerDied) => reaper.make_consistent(),
            Err(_) => return,
        }
        for (process, slot) in self.volume.session.used_processes().iter().enumerate() {
            if slot.is_dead() {
                let _ = patience::within(REAPING_PATIENCE, || {
                    self.reap_process(process);
                    Ok(())
                });
            }
        }
        reaper.unlock();
    }

    /// Reap a dead process as far as no held lock prevents it. The rest is found again by its slot, which stays taken
    /// until then.
    fn reap_process(self, process: usize) {
        let (mut interrupted, mut done) = (0, true);
        for (index, slot) in self.volume.session.used_threads().iter().enumerate() {
            if slot.owner.load(Ordering::Acquire) == process as u64 + 1 {
                let was_at_work = is_at_work(slot);
                let reaped = self.reap_thread(index);
                interrupted += u32::from(was_at_work && reaped.is_ok());
                done &= reaped.is_ok();
            }
        }
        done &= Uses::of(self.volume).reap_opens(process).is_ok();
        self.volume.session.reap_descriptions(process);
        References::of(self.volume).reap_lookup_references(process);
        Users::of(self.volume).end_watch(process);
        Space::of(self.volume).end_snapshot_of(process as u64 + 1);
        let pid = &self.volume.session.processes()[process].pid;
        if interrupted > 0 {
            let pid = pid.load(Ordering::Relaxed);
            let line = format!(
                "process {pid} died in the middle of {interrupted} operations: each is done or undone, and what it held for it is free"
            );
            self.volume.report(Severity::Information, &line);
        }
        self.retire_unfinished_trees();
        if done {
            pid.store(0, Ordering::Release);
        }
    }

    /// The process may have been counting a tree. If another one holds the lock of renames, it may be counting, and
    /// does this itself before it begins.
    fn retire_unfinished_trees(self) {
        if let Ok(_held) = self.volume.session.lock_renames() {
            Quotas::of(self.volume).retire_unfinished();
        }
    }

    /// `EAGAIN`: not all of it could be done now.
    fn reap_thread(self, index: usize) -> Outcome<()> {
        let slot = &self.volume.session.threads()[index];
        self.under_recovery(slot, || {
            let _ = self.volume.complete_journal(index);
            Quotas::of(self.volume).complete_change(index);
        })?;
        self.reap_pending(index)?;
        self.reap_unsettled(index)?;
        self.reap_moves(index)?;
        self.reap_pending_inode(index)?;
        self.volume.empty_pockets(slot)?;
        self.under_recovery(slot, || self.volume.session.retire_thread_slot(slot))
    }

    /// Run under a slot's recovery lock. If it is not free in time, nothing is changed, and another process can do it.
    fn under_recovery(self, slot: &ThreadSlot, body: impl FnOnce()) -> Outcome<()> {
        match slot.recovery.lock_within(REAPING_PATIENCE) {
            Ok(acquired) => {
                slot.recovery.run_locked(acquired, || (), body);
                Ok(())
            }
            Err(_) => Err(Errno(libc::EAGAIN)),
        }
    }

    /// Settle the runs of an interrupted operation, inode by inode, under each inode's lock.
    fn reap_pending(self, index: usize) -> Outcome<()> {
        let slot = &self.volume.session.threads()[index];
        let mut outcome = Ok(());
        for entry in slot.pending_new.iter().chain(&slot.pending_old) {
            if entry.extent.load(Ordering::Acquire) == 0 {
                continue;
            }
            match self
                .volume
                .lock_beside_leases(entry.ino.load(Ordering::Relaxed))
            {
                Ok(locked) => self.volume.reclaim_new_blocks(&locked, index),
                // Left for a later call; runs noted for other inodes are settled now.
                Err(errno) if patience::is_expiry(errno) => outcome = Err(errno),
                // No such inode was ever committed: the run has no owner.
                Err(Errno(libc::ESTALE)) => self.settle_ownerless(slot, entry),
                // A run with unknown owner is not freed.
                Err(_) => entry.extent.store(0, Ordering::Release),
            }
        }
        outcome
    }

    /// Charge the inode that the thread charged for what it then did not do.
    fn reap_unsettled(self, index: usize) -> Outcome<()> {
        let slot = &self.volume.session.threads()[index];
        let ino = slot.unsettled.load(Ordering::Acquire);
        if ino == 0 {
            return Ok(());
        }
        match self.volume.lock_beside_leases(ino) {
            Ok(locked) => Quotas::of(self.volume).settle(&locked),
            Err(errno) if patience::is_expiry(errno) => return Err(errno),
            // Deleted since, or it is settled when it can be loaded.
            Err(_) => {}
        }
        slot.unsettled.store(0, Ordering::Release);
        Ok(())
    }

    /// Settle a run that no inode's log can name; a run noted for inode 0 may be a block of records.
    fn settle_ownerless(self, slot: &ThreadSlot, entry: &PendingExtent) {
        let extent = Extent::decode(entry.extent.load(Ordering::Acquire));
        let chunk = entry.file_block.load(Ordering::Relaxed);
        let named = entry.ino.load(Ordering::Relaxed) == 0
            && Recovery::of(self.volume).inode_block(extent.pool, chunk) != Ok(None)
            && Recovery::of(self.volume)
                .inode_block(extent.pool, chunk)
                .ok()
                .flatten()
                == Some(extent.block);
        let held = named || is_in_pocket(slot, extent) || is_outgoing(slot, extent);
        entry.extent.store(0, Ordering::Release);
        if let (false, Ok(me)) = (held, self.volume.me()) {
            self.volume.give_back_run(me, extent);
        }
    }

    /// Finish moves of runs between the slot and the map.
    fn reap_moves(self, index: usize) -> Outcome<()> {
        let slot = &self.volume.session.threads()[index];
        let outgoing = slot.outgoing.load(Ordering::Acquire);
        if outgoing != 0 && is_in_pocket(slot, Extent::decode(outgoing)) {
            slot.outgoing.store(0, Ordering::Release);
        }
        self.volume.give_back(index, slot)?;
        let incoming = Extent::decode(slot.incoming.load(Ordering::Acquire));
        if incoming.count > 0 {
            // While `incoming` still names it: the dead thread may hold the group's lock.
            Space::of(self.volume).settle_group_of(incoming)?;
            slot.incoming.store(0, Ordering::Release);
            if !is_in_pocket(slot, incoming) {
                slot.outgoing.store(incoming.encode(), Ordering::Release);
                self.volume.give_back(index, slot)?;
            }
        }
        Ok(())
    }

    /// Free a number that was taken and not committed; continue an interrupted deletion.
    fn reap_pending_inode(self, index: usize) -> Outcome<()> {
        let slot = &self.volume.session.threads()[index];
        let word = slot.pending_inode.load(Ordering::Acquire);
        let ino = word & !LOSING_USE;
        if ino == 0 {
            return Ok(());
        }
        match self.volume.lock_beside_leases(ino) {
            Ok(locked) => {
                locked.me.inode_losing(ino);
                slot.pending_inode.store(0, Ordering::Release);
                let _ = self.volume.delete_if_unused(&locked);
                locked.me.inode_settled();
            }
            Err(Errno(libc::ESTALE)) if word == ino => {
                // In our own slot: others may complete what the dead one noted.
                Quotas::of(self.volume).discount(self.volume.me()?, ino);
                self.volume.free_inode(slot, ino);
            }
            Err(errno) if patience::is_expiry(errno) => return Err(errno),
            Err(_) => slot.pending_inode.store(0, Ordering::Release),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::session::inode::Locked;
    use crate::test_volume::{FILE, Stopped, new_volume};
    use crate::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn reaping_skips_what_a_stopped_process_holds_and_comes_back() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        let root = InodeNumber::ROOT;
        let make = |name: &[u8]| volume.create(root, name, &FILE).expect("create").ino;
        let names: [&[u8]; 3] = [b"first", b"held", b"last"];
        let [first, held, last] = names.map(make);
        let dying = Stopped::in_child(&volume, |volume| {
            [first, held, last]
                .into_iter()
                .try_for_each(|ino| volume.open(ino, None).map(drop))
        });
        for name in names {
            volume.unlink(root, name).expect("unlink");
        }
        let stopped = Stopped::in_child(&volume, |volume| -> Outcome<Locked<'_>> {
            volume.lock(held.0)
        });
        dying.kill();
        std::thread::scope(|scope| {
            let (reaped, done) = channel();
            let volume = &volume;
            scope.spawn(move || {
                volume.reap();
                let _ = reaped.send(());
            });
            let outcome = done.recv_timeout(Duration::from_secs(60));
            if outcome.is_err() {
                stopped.kill();
            }
            outcome.expect("reaping waits for a stopped process");
        });
        let gone = Err(Errno(libc::ESTALE));
        assert_eq!(volume.attributes(first).map(drop), gone);
        assert_eq!(volume.attributes(last).map(drop), gone);
        assert_eq!(volume.attributes(held).map(drop), Ok(()));
        stopped.kill();
        volume.reap();
        assert_eq!(volume.attributes(held).map(drop), gone);
    }
}
