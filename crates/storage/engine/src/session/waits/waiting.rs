//! Waiting for the lock of an inode: how long, and what is reported about a long wait.

use crate::session::Leases;
use crate::session::Locking;
use crate::session::Waits;
use crate::session::layout::*;
use crate::session::lock::{Acquired, LockFailure, RobustMutex};
use crate::session::map::Session;
use crate::session::owner_word::OwnerWord;
use crate::session::patience::{self, Obstacle};
use crate::session::wait_notes::{Awaited, LongWait, WAIT_UNREPORTED};
use crate::types::*;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a lock is waited for while other locks are held.
const HOLDING_PATIENCE: Duration = Duration::from_millis(1);

impl Locking<'_> {
    /// Wait for the holder of an inode's lock, as long as this thread may.
    #[cold]
    pub(in crate::session) fn wait_for_holder(
        self,
        ino: u64,
        inode: &SessionInode,
    ) -> Outcome<Acquired> {
        self.wait_for(ino, &inode.mutex, || {
            Waits::of(self.volume).report_wait(ino, inode)
        })
    }

    /// Wait for a lock that is needed to change an inode, as long as this thread may.
    #[cold]
    pub(in crate::session) fn wait_for(
        self,
        ino: u64,
        mutex: &RobustMutex,
        report: impl FnOnce(),
    ) -> Outcome<Acquired> {
        if let Some(acquired) = mutex.lock_soon() {
            return Ok(acquired);
        }
        let limit = patience::limit();
        match mutex.lock_within(limit.unwrap_or(WAIT_UNREPORTED)) {
            Ok(acquired) => return Ok(acquired),
            Err(LockFailure::Busy) if limit.is_some() => return Err(patience::expired(ino)),
            Err(LockFailure::Busy) => report(),
            Err(LockFailure::Unusable) => return Err(self.unusable(ino)),
        }
        mutex.lock().ok_or_else(|| self.unusable(ino))
    }
}

impl Waits<'_> {
    /// Report which thread holds an inode. A thread that has just taken the lock has not written the owner word yet;
    /// the lock itself names the thread.
    fn report_wait(self, ino: u64, inode: &SessionInode) {
        let thread = u64::from(inode.mutex.holder());
        let owner = self
            .volume
            .session
            .slot_of_owner(OwnerWord(inode.owner.load(Ordering::Acquire)));
        match owner.or_else(|| self.volume.session.slot_of_thread(thread)) {
            Some(slot) => self.report_wait_for_slot(ino, Awaited::Change, slot),
            None => self.report_long_wait(&LongWait {
                ino,
                what: Awaited::Change,
                thread,
                process: 0,
            }),
        }
    }

    /// Report a wait for the thread of a slot.
    pub(in crate::session) fn report_wait_for_slot(self, ino: u64, what: Awaited, slot: usize) {
        let slot = &self.volume.session.threads()[slot];
        let process = (slot.owner.load(Ordering::Acquire) as usize)
            .checked_sub(1)
            .and_then(|process| self.volume.session.processes().get(process));
        self.report_long_wait(&LongWait {
            ino,
            what,
            thread: slot.thread_id.load(Ordering::Acquire),
            process: process.map_or(0, |process| process.pid.load(Ordering::Acquire)),
        });
    }

    /// Report which thread completes what a killed thread left.
    pub(in crate::session) fn report_recovery(self, ino: u64, recovery: &RobustMutex) {
        self.report_long_wait(&LongWait {
            ino,
            what: Awaited::Recovery,
            thread: recovery.holder().into(),
            process: 0,
        });
    }

    /// Repeat an operation on several inodes from the start, without locks, whenever one inode is busy. A directory
    /// must not stay locked while its child, or another directory, is waited for.
    pub(crate) fn holding_up_nobody<T>(self, operation: impl Fn() -> Outcome<T>) -> Outcome<T> {
        loop {
            match patience::within(HOLDING_PATIENCE, &operation) {
                Ok(outcome) => return outcome,
                Err(Obstacle::Inode(ino)) => self.volume.wait_for_inode(InodeNumber(ino))?,
                Err(Obstacle::Names(ino)) => Leases::of(self.volume).recall_names(ino)?,
                Err(Obstacle::Renames) => self.volume.session.wait_for_renames()?,
            }
        }
    }
}

impl Session {
    /// The slot of a thread by its kernel id.
    fn slot_of_thread(&self, thread: u64) -> Option<usize> {
        let is_its = |slot: &ThreadSlot| {
            slot.owner.load(Ordering::Acquire) != 0
                && slot.thread_id.load(Ordering::Acquire) == thread
        };
        self.used_threads().iter().position(is_its)
    }
}

#[cfg(test)]
mod tests {
    use super::Ordering;
    use crate::session::Waits;
    use crate::test_volume::new_volume;
    use crate::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// A thread stopped right after it took the lock has not stored its owner word yet.
    #[test]
    fn who_has_just_taken_a_lock_is_reported_too() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        let (sender, said) = channel();
        let sender = Mutex::new(sender);
        volume.set_reporter(Box::new(move |_, line| {
            let _ = sender.lock().expect("one at a time").send(line.to_owned());
        }));
        let root = InodeNumber::ROOT;
        let held = volume.lock(root.0).expect("a lock");
        let inode = volume.inode(root.0).expect("an inode");
        let word = inode.owner.swap(0, Ordering::AcqRel);
        Waits::of(&volume).report_wait(root.0, inode);
        inode.owner.store(word, Ordering::Release);
        drop(held);
        let line = said.try_recv().expect("a report");
        let (thread, process) = (rustix::thread::gettid(), std::process::id());
        let wanted = format!("thread {thread} of process {process} is changing it");
        assert!(line.contains(&wanted), "{line}");
    }

    #[test]
    fn waiting_for_an_inode_reports_its_holder() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        let (sender, said) = channel();
        let sender = Mutex::new(sender);
        volume.set_reporter(Box::new(move |_, line| {
            let sender = sender.lock().expect("one at a time");
            let _ = sender.send(line.to_owned());
        }));
        let root = InodeNumber::ROOT;
        let held = volume.lock(root.0).expect("a lock");
        let holder = rustix::thread::gettid();
        let nothing = AttributeChange::default();
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let found = volume.lookup(root, b"none").map(drop);
                (volume.attributes(root).map(drop), found)
            });
            assert_eq!(
                looking.join().expect("a thread"),
                (Ok(()), Err(Errno(libc::ENOENT)))
            );
            let changing = scope.spawn(|| {
                let soon = within_patience(Duration::from_millis(1), || {
                    volume.set_attributes(root, &nothing)
                });
                assert!(soon.is_none(), "it would have to wait");
                volume.set_attributes(root, &nothing).map(drop)
            });
            let line = said
                .recv_timeout(Duration::from_secs(600))
                .expect("a report");
            assert!(
                line.contains(&format!("thread {holder} of process")),
                "{line}"
            );
            drop(held);
            assert_eq!(changing.join().expect("a thread"), Ok(()));
        });
    }
}
