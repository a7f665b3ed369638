//! Locking directories and the inodes of their names. Locks are taken from the directory to the inode of a name. On
//! forged media a name may lead to any inode.

use crate::log::found_names::FoundName;
use crate::log::{Log, NameTable};
use crate::namespace::Naming;
use crate::session::inode::Locked;
use crate::session::layout::LOADED;
use crate::space::operation::Operation;
use crate::types::*;
use std::sync::atomic::Ordering;

/// How often a name is looked up again after its directory had to be unlocked. Other threads may rename it each time,
/// so more than once or twice.
pub(crate) const BELOW_TRIES: usize = 16;

impl<'v> Naming<'v> {
    /// Lock a directory that is still there.
    pub(crate) fn lock_directory(self, directory: impl Into<InodeHandle>) -> Outcome<Locked<'v>> {
        let directory = directory.into();
        let locked = self
            .volume
            .lock(directory.ino.0)?
            .same(directory)?
            .directory()?;
        if locked.inode.nlink.load(Ordering::Relaxed) == 0 {
            return Err(Errno(libc::ENOENT));
        }
        Ok(locked)
    }

    /// Lock a directory to change its names. Compaction moves entries, so it is done before any lookup.
    pub(crate) fn lock_for_change(self, directory: impl Into<InodeHandle>) -> Outcome<Locked<'v>> {
        let locked = self.lock_directory(directory)?;
        Log::of(self.volume).compact_if_due(&locked, &mut Operation::new(self.volume, locked.me));
        Ok(locked)
    }

    /// Lock a directory and, if wanted, the inode of a name in it.
    pub(crate) fn lock_named(
        self,
        lock: impl Fn() -> Outcome<Locked<'v>>,
        name: &[u8],
        wanted: impl Fn(&Locked<'v>, &FoundName) -> Outcome<()>,
    ) -> Outcome<(Locked<'v>, FoundName, Locked<'v>)> {
        let mut parent = 0;
        for _ in 0..BELOW_TRIES {
            let directory = lock()?;
            let found = NameTable::of(self.volume)
                .find_name(&directory, name)?
                .ok_or(Errno(libc::ENOENT))?;
            wanted(&directory, &found)?;
            if self.is_below(&directory, &found)? {
                let child = self.volume.lock(found.ino)?;
                return Ok((directory, found, child));
            }
            parent = directory.ino;
            drop(directory);
            drop(self.volume.lock(found.ino)?);
        }
        Err(self
            .volume
            .damaged(parent, "a directory in it with another parent"))
    }

    /// Whether the target of a name may be locked while its directory is locked. On forged media a name can lead back
    /// to its own directory or to one above it: waiting for that lock would never end. `false`: unknown for a
    /// directory; the target is then locked alone and checked again.
    pub(crate) fn is_below(self, directory: &Locked<'_>, found: &FoundName) -> Outcome<bool> {
        if found.ino == directory.ino || found.ino == InodeNumber::ROOT.0 {
            return Err(self.volume.damaged(directory.ino, "a name that leads back"));
        }
        let inode = self.volume.inode(found.ino)?;
        let loaded = inode.state.load(Ordering::Acquire) == LOADED;
        // The kind does not change as long as the name exists.
        let mode = if loaded {
            inode.mode.load(Ordering::Relaxed)
        } else {
            self.volume.read_record(found.ino)?.certificate.mode
        };
        if FileKind::from_mode(mode) != Some(found.kind) {
            return Err(self.volume.damaged(directory.ino, "kind of a name"));
        }
        Ok(found.kind != FileKind::Directory
            || loaded && inode.parent.load(Ordering::Relaxed) == directory.ino)
    }

    /// Lock an inode that is not a directory. The kind never changes while an inode exists, so it is checked first: a
    /// directory must not be locked out of tree order.
    pub(crate) fn lock_leaf(self, ino: u64) -> Outcome<Locked<'v>> {
        let record = self.volume.read_record(ino)?;
        if FileKind::from_mode(record.certificate.mode) == Some(FileKind::Directory) {
            return Err(Errno(libc::EPERM));
        }
        let locked = self.volume.lock(ino)?;
        if locked.kind() == FileKind::Directory {
            return Err(Errno(libc::EPERM));
        }
        Ok(locked)
    }
}
