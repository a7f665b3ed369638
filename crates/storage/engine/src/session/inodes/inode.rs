//! Inodes in the session: where their records are, their locks, and loading them from their logs.

use crate::failure_cause::{self, FailureCause};
use crate::format::place::LogPlace;
use crate::format::*;
use crate::session::Leases;
use crate::session::Locking;
use crate::session::index::Index;
use crate::session::layout::*;
use crate::session::lock::{Acquired, LockFailure};
use crate::session::map::Session;
use crate::session::robust_list::{self, Taken};
use crate::session::seqlock::WriteSection;
use crate::session::slots::Me;
use crate::session::volume::Volume;
use crate::types::*;
use egeria_media::{BlockNumber, PoolIndex, PoolOffset};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// The certificate and words of an inode as on media.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) certificate: Certificate,
    pub(crate) commit: CommitWord,
    /// Time of the last move that the log does not have.
    pub(crate) moved_ns: Option<i64>,
}

impl Record {
    /// From the words and the certificate of a record; `None`: the inode is free. The error names what is damaged.
    pub(crate) fn decode(
        ino: u64,
        commit: u64,
        certificate: &[u8; LINE],
        moved: u64,
    ) -> Result<Option<Record>, &'static str> {
        let commit = CommitWord::decode(commit, ino).map_err(|()| "commit word")?;
        let Some(commit) = commit else {
            return Ok(None);
        };
        let certificate = Certificate::decode(certificate, ino).ok_or("certificate")?;
        let moved_ns = decode_moved(ino, certificate.birth_ns, moved);
        Ok(Some(Record {
            certificate,
            commit,
            moved_ns: moved_ns.map_err(|()| "time of a move")?,
        }))
    }

    /// The inode's log, from its head on.
    pub(crate) fn log_place(&self, ino: u64) -> LogPlace {
        LogPlace {
            ino,
            generation: self.certificate.generation,
            pages_before: 0,
            unlocked: false,
            head: None,
        }
    }
}

/// An inode locked by this thread.
pub(crate) struct Locked<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) ino: u64,
    pub(crate) inode: &'a SessionInode,
    pub(crate) me: Me<'a>,
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.forget_half_done();
        }
        self.inode.owner.store(0, Ordering::Release);
        self.inode.mutex.unlock();
    }
}

/// An inode locked by [`Volume::lock_at_once`]. It has no guard, which would be kept in memory.
pub(crate) struct LockedAtOnce<'a> {
    pub(in crate::session) locked: ManuallyDrop<Locked<'a>>,
    pub(in crate::session) taken: Taken<'a>,
}

impl<'a> LockedAtOnce<'a> {
    /// The inode, until it is unlocked.
    #[inline(always)]
    pub(crate) fn locked(&self) -> &Locked<'a> {
        &self.locked
    }

    #[inline(always)]
    pub(crate) fn unlock(self) {
        let inode = self.locked.inode;
        inode.owner.store(0, Ordering::Release);
        robust_list::give(&inode.mutex, self.taken);
    }
}

impl Locked<'_> {
    /// A panic unwinds, and the host may catch it: the next user of the inode reads its log.
    #[cold]
    fn forget_half_done(&self) {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let changing = WriteSection::begin(self.inode);
            self.volume.unload(self);
            self.inode.epoch.fetch_add(1, Ordering::AcqRel);
            changing.end();
        }));
    }
}

impl<'v> Locking<'v> {
    /// The error for a lock that cannot be used any more.
    #[cold]
    pub(in crate::session) fn unusable(self, ino: u64) -> Errno {
        failure_cause::note(FailureCause::Lock { ino });
        Errno(libc::EIO)
    }

    /// The rest of `lock_unloaded` for an inode with a dead last owner, a lease or a layout.
    #[cold]
    pub(in crate::session) fn lock_with_care(
        self,
        me: Me<'v>,
        ino: u64,
        inode: &'v SessionInode,
        acquired: Acquired,
    ) -> Outcome<Locked<'v>> {
        let locked = self.own(me, ino, inode, acquired)?;
        if Leases::of(self.volume).has_lease(inode) {
            Leases::of(self.volume).lock_leased(locked)
        } else {
            Ok(locked)
        }
    }

    #[inline(always)]
    pub(in crate::session) fn acquire(self, ino: u64, inode: &SessionInode) -> Outcome<Acquired> {
        match inode.mutex.try_lock() {
            Ok(acquired) => Ok(acquired),
            Err(LockFailure::Busy) => self.wait_for_holder(ino, inode),
            Err(LockFailure::Unusable) => Err(self.unusable(ino)),
        }
    }

    /// Become the owner of an inode after its lock was taken.
    pub(in crate::session) fn own(
        self,
        me: Me<'v>,
        ino: u64,
        inode: &'v SessionInode,
        acquired: Acquired,
    ) -> Outcome<Locked<'v>> {
        let in_order = acquired == Acquired::Clean && inode.owner.load(Ordering::Relaxed) == 0;
        let locked = if in_order {
            inode.owner.store(me.owner_word().0, Ordering::Release);
            Locked {
                volume: self.volume,
                ino,
                inode,
                me,
            }
        } else {
            self.lock_after_owner_died(me, ino, inode)?
        };
        self.wait_for_writers_in_place(&locked)?;
        Ok(locked)
    }
}

impl Session {
    /// Note that the session has a striped file.
    pub(crate) fn note_stripes(&self, mode: u32, layout: LayoutWord) {
        let is_file = FileKind::from_mode(mode) == Some(FileKind::Regular);
        if is_file && layout.stripe_blocks().is_some() {
            self.header().striped_files.store(1, Ordering::Relaxed);
        }
    }
}

impl SessionInode {
    /// Attributes as `stat` shows them, of a loaded inode.
    #[inline(always)]
    pub(crate) fn attributes(&self, ino: u64) -> Attributes {
        let mode = self.mode.load(Ordering::Relaxed);
        let directory = FileKind::from_mode(mode) == Some(FileKind::Directory);
        let time = |word: &AtomicU64| word.load(Ordering::Relaxed) as i64;
        let nlink = self.nlink.load(Ordering::Relaxed);
        let pages = self.log_pages.load(Ordering::Relaxed).max(1) as u64;
        Attributes {
            ino: InodeNumber(ino),
            generation: self.generation.load(Ordering::Relaxed),
            mode,
            nlink: if directory && nlink > 0 {
                2 + self.subdirectories()
            } else {
                nlink
            },
            uid: self.uid.load(Ordering::Relaxed),
            gid: self.gid.load(Ordering::Relaxed),
            rdev: self.rdev.load(Ordering::Relaxed),
            size_bytes: if directory {
                pages * BLOCK as u64
            } else {
                self.size_bytes.load(Ordering::Relaxed)
            },
            blocks: if directory {
                pages
            } else {
                self.blocks.load(Ordering::Relaxed)
            },
            atime_ns: time(&self.atime_ns),
            mtime_ns: time(&self.mtime_ns),
            ctime_ns: time(&self.ctime_ns),
        }
    }

    /// Commit word in force.
    #[inline(always)]
    pub(crate) fn commit(&self, ino: u64) -> Outcome<CommitWord> {
        CommitWord::decode(self.applied.load(Ordering::Relaxed), ino)
            .ok()
            .flatten()
            .ok_or(Errno(libc::EIO))
    }

    pub(in crate::session) fn set_birth(&self, certificate: &Certificate) {
        self.mode.store(certificate.mode, Ordering::Relaxed);
        self.generation
            .store(certificate.generation, Ordering::Relaxed);
        self.uid.store(certificate.uid, Ordering::Relaxed);
        self.gid.store(certificate.gid, Ordering::Relaxed);
        self.rdev.store(certificate.rdev, Ordering::Relaxed);
        self.nlink.store(certificate.nlink, Ordering::Relaxed);
        self.size_bytes.store(0, Ordering::Relaxed);
        self.blocks.store(0, Ordering::Relaxed);
        self.log_pages.store(0, Ordering::Relaxed);
        let directory = certificate.mode & libc::S_IFMT == libc::S_IFDIR;
        let passes_on = certificate.checksums || certificate.layout != LayoutWord::UNSET;
        self.has_xattr
            .store((directory && passes_on).into(), Ordering::Relaxed);
        self.layout.store(certificate.layout.0, Ordering::Relaxed);
        self.parent.store(certificate.parent, Ordering::Relaxed);
        self.birth_ns
            .store(certificate.birth_ns as u64, Ordering::Relaxed);
        self.checksums
            .store(certificate.checksums.into(), Ordering::Relaxed);
        for time in [&self.atime_ns, &self.mtime_ns, &self.ctime_ns] {
            time.store(certificate.birth_ns as u64, Ordering::Relaxed);
        }
    }
}

impl<'a> Locked<'a> {
    /// What the inode is.
    #[inline(always)]
    pub(crate) fn kind(&self) -> FileKind {
        FileKind::from_mode(self.inode.mode.load(Ordering::Relaxed)).unwrap_or(FileKind::Regular)
    }

    /// Whether it is a regular file.
    #[inline(always)]
    pub(crate) fn is_regular(&self) -> bool {
        self.inode.mode.load(Ordering::Relaxed) & libc::S_IFMT == libc::S_IFREG
    }

    /// Whether the blocks of this file have checksums.
    #[inline]
    pub(crate) fn has_sums(&self) -> bool {
        self.inode.checksums.load(Ordering::Relaxed) != 0 && self.kind() != FileKind::Directory
    }

    /// Where the data of a file goes, or of files created in a directory.
    pub(crate) fn layout(&self) -> LayoutWord {
        LayoutWord(self.inode.layout.load(Ordering::Relaxed))
    }

    /// The file's index.
    pub(crate) fn index(&self) -> Index<'a> {
        Index {
            inode: self.inode,
            arena: self.volume.session.arena(),
        }
    }

    /// Where the record of the loaded inode is.
    #[inline(always)]
    pub(crate) fn record(&self) -> Outcome<(PoolIndex, PoolOffset)> {
        let (pool, _) = inode_place(self.ino).ok_or(Errno(libc::ESTALE))?;
        let geometry = self.volume.geometry_of(pool);
        Ok((
            geometry.ok_or(Errno(libc::ESTALE))?.record_pool,
            PoolOffset(self.inode.record_at.load(Ordering::Relaxed)),
        ))
    }

    /// Commit word in force.
    #[inline(always)]
    pub(crate) fn commit(&self) -> Outcome<CommitWord> {
        self.inode.commit(self.ino)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.inode.size_bytes.load(Ordering::Relaxed)
    }

    /// Fails unless this is the inode that was looked up before.
    #[inline]
    pub(crate) fn same(self, handle: InodeHandle) -> Outcome<Locked<'a>> {
        let generation = self.inode.generation.load(Ordering::Relaxed);
        if handle.generation.is_none_or(|wanted| wanted == generation) {
            Ok(self)
        } else {
            Err(Errno(libc::ESTALE))
        }
    }

    /// Must be a directory.
    pub(crate) fn directory(self) -> Outcome<Locked<'a>> {
        if self.kind() == FileKind::Directory {
            Ok(self)
        } else {
            Err(Errno(libc::ENOTDIR))
        }
    }

    /// Must be a regular file.
    pub(crate) fn regular(self) -> Outcome<Locked<'a>> {
        match self.kind() {
            FileKind::Regular => Ok(self),
            FileKind::Directory => Err(Errno(libc::EISDIR)),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    /// Attributes as `stat` shows them.
    pub(crate) fn attributes(&self) -> Attributes {
        self.inode.attributes(self.ino)
    }

    /// The state an `Attributes` entry would record now.
    pub(crate) fn attribute_state(&self) -> AttributeState {
        let inode = self.inode;
        AttributeState {
            mode: inode.mode.load(Ordering::Relaxed),
            uid: inode.uid.load(Ordering::Relaxed),
            gid: inode.gid.load(Ordering::Relaxed),
            nlink: inode.nlink.load(Ordering::Relaxed),
            size_bytes: self.size_bytes(),
            atime_ns: inode.atime_ns.load(Ordering::Relaxed) as i64,
            mtime_ns: inode.mtime_ns.load(Ordering::Relaxed) as i64,
            parent: if self.kind() == FileKind::Directory {
                inode.parent.load(Ordering::Relaxed)
            } else {
                0
            },
        }
    }
}

/// Whether a run of blocks in an `Entry::Write` lies inside its pool.
pub(crate) fn is_extent_valid(
    volume: &Volume,
    pool: PoolIndex,
    block: BlockNumber,
    count: u64,
) -> bool {
    volume
        .geometry_of(pool)
        .is_some_and(|geometry| geometry.holds(block, count))
}
