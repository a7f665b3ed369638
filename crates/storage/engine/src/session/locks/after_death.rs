//! Recovery of an inode after the owner of its lock died. It takes the inode's lock and, for short times, the recovery
//! lock of the dead owner's thread slot. So a thread stopped in recovery blocks only threads that want to change what
//! the dead owner was changing.

use crate::session::direct::DirectCommit;
use crate::session::index::MAX_FILE_BLOCKS;
use crate::session::inode::Locked;
use crate::session::layout::*;
use crate::session::lock::LockFailure;
use crate::session::map::Session;
use crate::session::owner_word::OwnerWord;
use crate::session::seqlock::WriteSection;
use crate::session::slots::Me;
use crate::session::{Locking, Quotas, Waits};
use crate::types::*;
use std::sync::atomic::Ordering;

impl Locked<'_> {
    /// Unlock without recovering what a dead owner left. The owner word still names the dead owner, so the next locker
    /// of the inode starts recovery again.
    fn leave_to_the_next(self) {
        self.inode.mutex.make_consistent();
        self.inode.mutex.unlock();
        std::mem::forget(self);
    }
}

impl<'v> Locking<'v> {
    /// The rest of `lock_unloaded` when the last owner died.
    #[cold]
    pub(in crate::session) fn lock_after_owner_died(
        self,
        me: Me<'v>,
        ino: u64,
        inode: &'v SessionInode,
    ) -> Outcome<Locked<'v>> {
        // Until the owner word changes below, our own death leaves this work to the next owner.
        let dead = OwnerWord(inode.owner.load(Ordering::Acquire));
        let locked = Locked {
            volume: self.volume,
            ino,
            inode,
            me,
        };
        // They began before the dead owner had the lock, or saw that it had the lock.
        let settle = || {
            self.wait_for_writers_in_place(&locked)?;
            self.put_right(&locked, dead)
        };
        if dead != OwnerWord(0)
            && let Err(errno) = settle()
        {
            locked.leave_to_the_next();
            return Err(errno);
        }
        DirectCommit::end_of_dead(inode);
        inode.owner.store(me.owner_word().0, Ordering::Release);
        inode.mutex.make_consistent();
        Ok(locked)
    }

    /// Recover the inode. Every step may be repeated from the first.
    fn put_right(self, locked: &Locked<'_>, dead: OwnerWord) -> Outcome<()> {
        let inode = locked.inode;
        let is_loaded = || inode.state.load(Ordering::Acquire) == LOADED;
        if is_loaded() {
            // Readers that look now, or after we give up, find in the log what the dead owner committed.
            let _ends_in_recover_loaded = WriteSection::begin(inode);
        }
        let slot = self.with_slot_of(locked.ino, dead, |slot| {
            self.volume.complete_journal(slot);
            Quotas::of(self.volume).complete_change(slot);
            if is_loaded() && locked.kind() != FileKind::Directory {
                self.volume.reclaim_replaced_blocks(locked, slot);
            }
        })?;
        match inode.state.load(Ordering::Acquire) {
            LOADED => self.recover_loaded(locked),
            CHANGING => self.volume.unload(locked),
            _ => {}
        }
        // Blocks named by the log must be known before the rest is freed. If the inode cannot be loaded, the reaper
        // frees the rest.
        if slot.is_some() && (is_loaded() || self.volume.load(locked).is_ok()) {
            self.with_slot_of(locked.ino, dead, |slot| {
                self.volume.reclaim_new_blocks(locked, slot);
            })?;
        }
        Quotas::of(self.volume).settle(locked);
        Ok(())
    }

    /// Run `body` with the slot that an owner word names; the slot is not retired during the call. `None`: it was
    /// retired before. If another thread does the same, waits for it, as long as this thread may.
    fn with_slot_of<T>(
        self,
        ino: u64,
        owner: OwnerWord,
        body: impl FnOnce(usize) -> T,
    ) -> Outcome<Option<T>> {
        let named = owner
            .slot()
            .and_then(|at| self.volume.session.threads().get(at));
        let Some(slot) = named else {
            return Ok(None);
        };
        self.volume.session.back(slot)?;
        let recovery = &slot.recovery;
        let acquired = match recovery.try_lock() {
            Ok(acquired) => acquired,
            Err(LockFailure::Busy) => self.wait_for(ino, recovery, || {
                Waits::of(self.volume).report_recovery(ino, recovery)
            })?,
            Err(LockFailure::Unusable) => return Err(self.unusable(ino)),
        };
        let run = || self.volume.session.slot_of_owner(owner).map(body);
        Ok(recovery.run_locked(acquired, || (), run))
    }

    /// Bring a loaded inode to its committed state after its lock's owner died.
    fn recover_loaded(self, locked: &Locked<'_>) {
        let inode = locked.inode;
        // Readers without the lock must notice all that changes here.
        let changing = WriteSection::begin(inode);
        // A half-changed table is not worth repairing: the directory's log is read again.
        let directory = locked.kind() == FileKind::Directory;
        if directory || self.reapply(locked).is_err() {
            self.volume.unload(locked);
        }
        // The dead owner may have shrunk the file without notifying readers.
        inode.epoch.fetch_add(1, Ordering::AcqRel);
        changing.end();
    }

    /// Apply what a dead owner left unapplied. Its counters may be from before or after the change, so they are
    /// recounted.
    fn reapply(self, locked: &Locked<'_>) -> Outcome<()> {
        let applied = locked.commit()?.tail.at_line(0);
        let pages = self.volume.log_pages(locked)?;
        let before = pages.iter().position(|page| page.at_line(0) == applied);
        let inode = locked.inode;
        inode
            .log_pages
            .store(before.map_or(0, |at| at as u32 + 1), Ordering::Relaxed);
        self.volume.apply_from_log(locked)?;
        let index = locked.index();
        let (mut blocks, mut block) = (0, 0);
        while let Some(found) = index.next_mapped(block, MAX_FILE_BLOCKS) {
            blocks += 1;
            block = found + 1;
        }
        inode.blocks.store(blocks, Ordering::Relaxed);
        Ok(())
    }
}

impl Session {
    /// The slot that an owner word names, while it still belongs to that owner.
    pub(in crate::session) fn slot_of_owner(&self, owner: OwnerWord) -> Option<usize> {
        let index = owner.slot()?;
        let slot = self.threads().get(index)?;
        let incarnation = slot.incarnation.load(Ordering::Acquire);
        owner.is_of(incarnation).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Locking;
    use crate::session::volume::Volume;
    use crate::test_volume::{FILE, Stopped, new_volume, stop};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const ROOT: InodeNumber = InodeNumber::ROOT;

    /// An inode with a lock owner that was killed, and a process stopped during the recovery of that inode.
    fn stopped_after_a_death(volume: &Volume, ino: InodeNumber) -> Stopped {
        Stopped::in_child(volume, |volume| volume.lock(ino.0)).kill();
        let dead = OwnerWord(
            volume
                .inode(ino.0)
                .expect("inode")
                .owner
                .load(Ordering::Acquire),
        );
        Stopped::in_child(volume, |volume| {
            Locking::of(volume).with_slot_of(ino.0, dead, |_| stop())
        })
    }

    /// Run `body`, which must not wait for the stopped process.
    fn unless_held_up<T: Send>(stopped: &Stopped, body: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let (sender, done) = channel();
            scope.spawn(move || {
                let _ = sender.send(body());
            });
            let outcome = done.recv_timeout(Duration::from_secs(60));
            if outcome.is_err() {
                stopped.kill();
            }
            outcome.expect("it waits for a stopped process")
        })
    }

    #[test]
    fn a_process_stopped_in_recovery_blocks_no_other_inodes() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        let make = |name: &[u8]| volume.create(ROOT, name, &FILE).expect("create").ino;
        let [busy, other] = [b"busy".as_slice(), b"other"].map(make);
        let stopped = stopped_after_a_death(&volume, busy);
        Stopped::in_child(&volume, |volume| volume.lock(other.0)).kill();
        let change = |ino| {
            volume
                .set_attributes(ino, &AttributeChange::default())
                .map(drop)
        };
        assert_eq!(unless_held_up(&stopped, || change(other)), Ok(()));
        // Processes and threads that begin take slots.
        unless_held_up(&stopped, || {
            Stopped::in_child(&volume, |volume| volume.lock(other.0)).kill();
        });
        assert_eq!(unless_held_up(&stopped, || change(other)), Ok(()));
        unless_held_up(&stopped, || volume.reap());
        let size = volume.attributes(busy).map(|found| found.size_bytes);
        assert_eq!(size, Ok(0), "looking waits for nobody");
        stopped.kill();
        assert_eq!(change(busy), Ok(()));
    }

    #[test]
    fn recovery_that_times_out_is_left_to_the_next_locker() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        let busy = volume.create(ROOT, b"busy", &FILE).expect("create").ino;
        let stopped = stopped_after_a_death(&volume, busy);
        let change = || volume.set_attributes(busy, &AttributeChange::default());
        let soon = unless_held_up(&stopped, || {
            crate::within_patience(Duration::from_millis(1), change)
        });
        assert!(soon.is_none(), "it would have to wait");
        std::thread::scope(|scope| {
            let removing = scope.spawn(|| volume.unlink(ROOT, b"busy").map(drop));
            for name in 0..20u8 {
                let made = || volume.create(ROOT, &[name + b'a'], &FILE).map(drop);
                assert_eq!(unless_held_up(&stopped, made), Ok(()));
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!removing.is_finished());
            stopped.kill();
            assert_eq!(removing.join().expect("a thread"), Ok(()));
        });
        assert_eq!(volume.attributes(busy).map(drop), Err(Errno(libc::ESTALE)));
    }
}
