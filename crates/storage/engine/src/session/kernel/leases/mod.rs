//! Leases: what the kernel of a mount may cache of an inode without asking. One mount of a session grants them. A
//! lease covers the attributes of an inode and, for a directory, which names are absent. The name of a subdirectory is
//! covered by the lease of its parent; the name of any other file by the lease of the file.
//!
//! Making the kernel forget a name takes as long as the kernel's lock on that directory is held, and every lookup of
//! the name waits for it, too. So a name is recalled only before two changes: of that name, and of the owner of a
//! file. The kernel trusts a file's owner as long as it finds the file by a cached name.
//!
//! A thread that locks an inode to change it without that kernel sees the lease. It unlocks the inode, has the lease
//! recalled and starts again. So no lock is held while it waits for the mount, and nothing changes while the kernel
//! trusts the old state. The mount grants a lease under the inode's lock: no thread is changing the inode then. The
//! mount never waits for its own leases: the kernel that asked for a change knows about it.
//!
//! Leases end with the process that granted them. A thread that waits for a recall waits for a live process, even if
//! that process is stopped for a long time.

use crate::session::Leases;
use crate::session::inode::Locked;
use crate::session::layout::SessionInode;
use crate::session::lease_words::{
    self, ATTRIBUTES, NAMES, OWNER, RecallProgress, Recalls, WITH_NAMES,
};
use crate::session::lookup_references::LookupReferences;
use crate::session::map::Session;
use crate::session::patience::{self, Obstacle};
use crate::session::volume::Severity;
use crate::session::wait_notes::WAIT_UNREPORTED;
use crate::types::{Errno, FileKind, InodeNumber, Outcome};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a recall is waited for before the mount is checked.
const LOOK_AT_MOUNT: Duration = Duration::from_millis(20);
/// While all places for recalls are taken.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

thread_local! {
    /// The mount that this thread works for; 0: none that grants leases.
    static FOR_MOUNT: Cell<u64> = const { Cell::new(0) };
}

/// A mount that grants leases: its process and its lookup references, both from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseMount(pub(in crate::session) u64);

impl LeaseMount {
    fn process(word: u64) -> usize {
        word as u32 as usize
    }
}

/// From now on this thread works for the kernel of this mount, which knows of the changes it asked for.
pub fn work_for_kernel(mount: Option<LeaseMount>) {
    let _ = FOR_MOUNT.try_with(|cell| cell.set(mount.map_or(0, |mount| mount.0)));
}

/// A request to end a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recall {
    pub ino: InodeNumber,
    /// A name of a file, a subdirectory's name in the directory, or the owner of the file is about to change without
    /// the kernel.
    pub with_names: bool,
}

impl<'v> Leases<'v> {
    pub(in crate::session) fn lease_mount_of(
        self,
        references: LookupReferences,
    ) -> Option<LeaseMount> {
        let process = self.volume.session.lookup_owner(references);
        (process != 0).then(|| LeaseMount(process | (references.index() as u64 + 1) << 32))
    }

    pub(in crate::session) fn clear_lease(self, ino: InodeNumber, bits: u32) {
        if let Ok(inode) = self.volume.inode(ino.0) {
            lease_words::end(&inode.leases, bits);
        }
    }

    pub(in crate::session) fn take_recall(self) -> Option<Recall> {
        if !self.volume.session.works_for_kernel() {
            return None;
        }
        let word = self.volume.session.recalls().take()?;
        Some(Recall {
            ino: InodeNumber(word & !WITH_NAMES),
            with_names: word & WITH_NAMES != 0,
        })
    }

    /// Whether the kernel may cache state that every change of an inode affects: attributes, and absent names.
    pub(crate) fn has_lease(self, inode: &SessionInode) -> bool {
        lease_words::held(&inode.leases) & ATTRIBUTES != 0
    }

    /// The rest of `lock_unloaded` on an inode with a lease. `EAGAIN` when the operation must start again without
    /// locks.
    #[cold]
    pub(in crate::session) fn lock_leased(self, mut locked: Locked<'v>) -> Outcome<Locked<'v>> {
        while self.has_lease(locked.inode) && !self.volume.session.works_for_kernel() {
            let (ino, me) = (locked.ino, locked.me);
            drop(locked);
            if patience::limit().is_some() {
                return Err(patience::expired(ino));
            }
            self.recall(ino, ATTRIBUTES)?;
            locked = self.volume.lock_as_it_is(me, ino)?;
        }
        Ok(locked)
    }

    /// Lock an inode to change its owner. The owner of a directory known to the kernel is changed by the kernel itself
    /// ([`crate::session::Leases::check_left_to_kernel`]).
    pub(crate) fn lock_to_change_owner(self, ino: u64) -> Outcome<Locked<'v>> {
        loop {
            let locked = self.volume.lock(ino)?;
            let is_believed = lease_words::held(&locked.inode.leases) & OWNER != 0;
            let is_directory = locked.kind() == FileKind::Directory;
            if !is_believed || is_directory || self.volume.session.works_for_kernel() {
                return Ok(locked);
            }
            drop(locked);
            if patience::limit().is_some() {
                return Err(patience::expired(ino));
            }
            self.recall(ino, OWNER)?;
        }
    }

    /// Called before the link between a name in a locked directory and its inode changes. Does nothing when no kernel
    /// caches the name. Checked again once the inode is locked, too, because a lease is granted under its lock.
    ///
    /// # Errors
    /// `EAGAIN` when the name is to be [recalled](Volume::recall_names) with nothing held, by
    /// [`crate::session::Waits::holding_up_nobody`]; `EBUSY` when this process [leaves](Volume::leave_used_names_to_kernel) the change
    /// to the kernel.
    pub(crate) fn check_remembered_name(
        self,
        directory: &Locked<'_>,
        (ino, kind): (u64, FileKind),
    ) -> Outcome<()> {
        let named = InodeNumber(ino);
        if !self.volume.is_referenced_by_kernel(named) || self.volume.session.works_for_kernel() {
            return Ok(());
        }
        let is_directory = kind == FileKind::Directory;
        if self.volume.leaves_used_names.load(Ordering::Relaxed)
            && (is_directory || self.volume.is_open_in_kernel(named))
        {
            return Err(Errno(libc::EBUSY));
        }
        // A directory is cached under the lease of its parent. Another file is cached under its own lease, which tells
        // its names, so that all other names in its directory stay cached.
        let (holder, bit) = if is_directory {
            (directory.ino, NAMES)
        } else {
            (ino, OWNER)
        };
        match lease_words::held(&self.volume.inode(holder)?.leases) & bit {
            0 => Ok(()),
            _ => Err(patience::blocked_by(Obstacle::Names(holder))),
        }
    }

    /// Make a kernel forget the names of a file, or the names in a directory. Called without locks.
    #[cold]
    pub(crate) fn recall_names(self, ino: u64) -> Outcome<()> {
        if patience::limit().is_some() {
            return Err(patience::blocked_by(Obstacle::Names(ino)));
        }
        self.recall(ino, NAMES | OWNER)
    }

    /// Before a change of the owner or permissions of a directory locked by this thread. `EBUSY` when this process
    /// [leaves](Volume::leave_used_names_to_kernel) such changes to a kernel that knows the directory.
    pub(crate) fn check_left_to_kernel(self, ino: u64) -> Outcome<()> {
        let is_left = self.volume.leaves_used_names.load(Ordering::Relaxed)
            && self.volume.is_referenced_by_kernel(InodeNumber(ino));
        if is_left {
            Err(Errno(libc::EBUSY))
        } else {
            Ok(())
        }
    }

    /// Have the leases of an inode in the mask ended. Waits for the mount that granted them, as long as it lives.
    #[cold]
    fn recall(self, ino: u64, mask: u32) -> Outcome<()> {
        let inode = self.volume.inode(ino)?;
        let recalls = self.volume.session.recalls();
        let begun = Instant::now();
        let (mut looked, mut is_reported) = (begun, false);
        loop {
            match recalls.wait(&inode.leases, ino, mask, LOOK_AT_MOUNT) {
                RecallProgress::Ended => return Ok(()),
                RecallProgress::Woken => {}
                RecallProgress::NoRoom => std::thread::sleep(LOOK_AGAIN),
            }
            if looked.elapsed() >= LOOK_AT_MOUNT {
                looked = Instant::now();
                // Removes the mount's leases if it is dead.
                self.volume.reap();
                self.clear_unowned_lease(ino, inode)?;
            }
            if begun.elapsed() >= WAIT_UNREPORTED && !is_reported {
                is_reported = true;
                self.report_recall(ino);
            }
        }
    }

    /// No mount grants leases: a lease still set is from a mount that died before it was cleared.
    fn clear_unowned_lease(self, ino: u64, inode: &SessionInode) -> Outcome<()> {
        let mount = &self.volume.session.header().lease_mount;
        if mount.load(Ordering::Acquire) == 0 {
            // Under the lock: a mount that starts now sets bits under it, and those must not be cleared.
            let _locked = self.volume.lock_as_it_is(self.volume.me()?, ino)?;
            if mount.load(Ordering::Acquire) == 0 {
                lease_words::end(&inode.leases, u32::MAX);
            }
        }
        Ok(())
    }

    fn report_recall(self, ino: u64) {
        let mount = self
            .volume
            .session
            .header()
            .lease_mount
            .load(Ordering::Acquire);
        let process = LeaseMount::process(mount)
            .checked_sub(1)
            .and_then(|process| self.volume.session.processes().get(process));
        let pid = process.map_or(0, |process| process.pid.load(Ordering::Acquire));
        let line = format!(
            "inode {ino} is waited for: the kernel remembers it, and mount process {pid} has not told it otherwise for {} s; if it is stopped, continue or end it",
            WAIT_UNREPORTED.as_secs()
        );
        self.volume.report(Severity::Warning, &line);
    }
}

impl Session {
    fn works_for_kernel(&self) -> bool {
        let mount = FOR_MOUNT.try_with(Cell::get).unwrap_or(0);
        mount != 0 && self.header().lease_mount.load(Ordering::Acquire) == mount
    }

    pub(in crate::session) fn recalls(&self) -> Recalls<'_> {
        let header = self.header();
        Recalls {
            places: &header.recalls,
            bell: &header.recall_bell,
            ended: &header.recalled,
        }
    }
}

#[cfg(test)]
mod tests;
