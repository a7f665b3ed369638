//! Waiting for the lock of an inode: how long, and what is reported about a long wait.

use crate::session::layout::*;
use crate::session::lock::{Acquired, LockFailure, RobustMutex};
use crate::session::owner_word::OwnerWord;
use crate::session::patience;
use crate::types::*;
use crate::volume::{Severity, Volume};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long an inode is waited for before its holder is reported.
const WAIT_UNREPORTED: Duration = Duration::from_secs(1);
/// How long a lock is waited for while others are held.
const HOLDING_PATIENCE: Duration = Duration::from_millis(1);

impl Volume {
    /// Wait for whoever holds an inode's lock, as long as this thread may.
    #[cold]
    pub(super) fn wait_for_holder(&self, ino: u64, inode: &SessionInode) -> Outcome<Acquired> {
        self.wait_for(ino, &inode.mutex, || self.report_wait(ino, inode))
    }

    /// Wait for a lock without which an inode cannot be changed, as long as this thread may.
    #[cold]
    pub(super) fn wait_for(
        &self,
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

    /// Report which thread holds an inode.
    fn report_wait(&self, ino: u64, inode: &SessionInode) {
        let holder = self.slot_of_owner(OwnerWord(inode.owner.load(Ordering::Acquire)));
        let Some(slot) = holder.map(|index| &self.session.threads()[index]) else {
            return;
        };
        let process = (slot.owner.load(Ordering::Acquire) as usize)
            .checked_sub(1)
            .and_then(|process| self.session.processes().get(process));
        let pid = process.map_or(0, |process| process.pid.load(Ordering::Acquire));
        let thread = slot.thread_id.load(Ordering::Acquire);
        let who = format!("thread {thread} of process {pid} is changing it");
        self.report_waited_for(ino, &who);
    }

    /// Report which thread is putting right what a killed one left.
    pub(super) fn report_recovery(&self, ino: u64, recovery: &RobustMutex) {
        let thread = recovery.holder();
        let who = format!("thread {thread} is putting right what a killed process left there");
        self.report_waited_for(ino, &who);
    }

    fn report_waited_for(&self, ino: u64, who: &str) {
        let line = format!(
            "inode {ino} is waited for: {who} and has not gone on for {} s; if it is stopped, continue or end it",
            WAIT_UNREPORTED.as_secs()
        );
        self.report(Severity::Warning, &line);
    }

    /// Wait until nobody is changing an inode, without holding it then.
    ///
    /// # Errors
    /// What [every operation](crate::Errno) can fail with; `EAGAIN` within [`crate::within_patience`].
    pub fn wait_for_inode(&self, ino: InodeNumber) -> Outcome<()> {
        self.lock_unloaded(self.me()?, ino.0).map(drop)
    }

    /// Begin an operation on several inodes again, with nothing held, whenever one of them is busy: a directory
    /// must not be held while its child, or another one, is waited for.
    pub(crate) fn holding_up_nobody<T>(&self, operation: impl Fn() -> Outcome<T>) -> Outcome<T> {
        loop {
            match patience::within(HOLDING_PATIENCE, &operation) {
                Ok(outcome) => return outcome,
                Err(busy) => self.wait_for_inode(InodeNumber(busy))?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::test_volume::new_volume;
    use crate::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

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
                    volume.set_attributes(root, &nothing, false)
                });
                assert!(soon.is_none(), "it would have to wait");
                volume.set_attributes(root, &nothing, false).map(drop)
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
