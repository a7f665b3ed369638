//! Inodes in the session: where they lie, their lock, and loading one from its log.

use crate::format::*;
use crate::index::{Index, MAX_FILE_BLOCKS};
use crate::look::Changing;
use crate::session::layout::*;
use crate::session::lock::Acquired;
use crate::slots::Me;
use crate::types::*;
use crate::volume::Volume;
use egeria_media::{BlockNumber, PoolIndex, PoolOffset};
use std::sync::atomic::{AtomicU64, Ordering};

/// The certificate and words of an inode as they are on media.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) certificate: Certificate,
    pub(crate) commit: CommitWord,
}

/// An inode whose lock this thread holds.
pub(crate) struct Locked<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) ino: u64,
    pub(crate) inode: &'a SessionInode,
    pub(crate) me: Me<'a>,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.inode.owner.store(0, Ordering::Release);
        self.inode.mutex.unlock();
    }
}

impl Volume {
    /// State of an inode; `ESTALE` for a number outside the volume.
    #[inline]
    pub(crate) fn inode(&self, ino: u64) -> Outcome<&SessionInode> {
        let (pool, index) = inode_place(ino).ok_or(Errno(libc::ESTALE))?;
        match self.geometry.get(pool.0 as usize) {
            Some(geometry) if index < geometry.inode_blocks * INODES_PER_BLOCK => {
                let inode = self.session.inode(pool.0 as usize, index);
                self.session.back(inode)?;
                Ok(inode)
            }
            _ => Err(Errno(libc::ESTALE)),
        }
    }

    /// Offset of an inode's record; `ESTALE` when its block does not exist.
    pub(crate) fn record_place(&self, ino: u64) -> Outcome<(PoolIndex, PoolOffset)> {
        let (pool, index) = inode_place(ino).ok_or(Errno(libc::ESTALE))?;
        let geometry = self
            .geometry
            .get(pool.0 as usize)
            .ok_or(Errno(libc::ESTALE))?;
        let chunk = index / INODES_PER_BLOCK;
        if chunk >= geometry.inode_blocks {
            return Err(Errno(libc::ESTALE));
        }
        let word = self.load_word(pool, inode_pointer(geometry, chunk))?;
        let block = decode_inode_pointer(chunk, word)
            .map_err(|()| self.damaged(ino, "inode block pointer"))?;
        let block = block.ok_or(Errno(libc::ESTALE))?;
        if !geometry.holds(block, 1) {
            return Err(self.damaged(ino, "inode block out of bounds"));
        }
        Ok((
            pool,
            block.offset() + (index % INODES_PER_BLOCK) * INODE_BYTES,
        ))
    }

    /// Read an inode's record; `ESTALE` when the inode is free.
    pub(crate) fn read_record(&self, ino: u64) -> Outcome<Record> {
        let (pool, at) = self.record_place(ino)?;
        let word = self.load_word(pool, at + COMMIT_WORD_AT)?;
        let commit = CommitWord::decode(word, ino)
            .map_err(|()| self.damaged(ino, "commit word"))?
            .ok_or(Errno(libc::ESTALE))?;
        let mut bytes = [0u8; LINE];
        self.read_media(pool, at + CERTIFICATE_AT, &mut bytes)?;
        let certificate =
            Certificate::decode(&bytes, ino).ok_or_else(|| self.damaged(ino, "certificate"))?;
        Ok(Record {
            certificate,
            commit,
        })
    }

    pub(crate) fn load_word(&self, pool: PoolIndex, at: PoolOffset) -> Outcome<u64> {
        self.pool(pool)?.load_u64(at).map_err(|_| Errno(libc::EIO))
    }

    pub(crate) fn read_media(
        &self,
        pool: PoolIndex,
        at: PoolOffset,
        into: &mut [u8],
    ) -> Outcome<()> {
        self.pool(pool)?
            .read_bytes(at, into)
            .map_err(|_| Errno(libc::EIO))
    }

    /// Report damage once per process and place; the operation fails with `EIO`.
    pub(crate) fn damaged(&self, ino: u64, what: &str) -> Errno {
        self.report(&format!(
            "inode {ino}: {what} is damaged; run `egeria check` on the volume"
        ));
        Errno(libc::EIO)
    }

    /// Lock an inode and load it. `ESTALE` when there is no such inode.
    #[inline]
    pub(crate) fn lock(&self, ino: u64) -> Outcome<Locked<'_>> {
        let me = self.me()?;
        let locked = self.lock_unloaded(me, ino)?;
        if locked.inode.state.load(Ordering::Acquire) != LOADED {
            self.load(&locked)?;
        }
        Ok(locked)
    }

    /// Lock an inode as it is in the session.
    #[inline]
    pub(crate) fn lock_unloaded<'a>(&'a self, me: Me<'a>, ino: u64) -> Outcome<Locked<'a>> {
        let inode = self.inode(ino)?;
        match inode.mutex.lock() {
            Some(Acquired::Clean) => {
                inode.owner.store(me.owner_word(), Ordering::Release);
                Ok(Locked {
                    volume: self,
                    ino,
                    inode,
                    me,
                })
            }
            Some(Acquired::OwnerDied) => self.lock_from_the_dead(me, ino, inode),
            None => Err(Errno(libc::EIO)),
        }
    }

    #[cold]
    fn lock_from_the_dead<'a>(
        &'a self,
        me: Me<'a>,
        ino: u64,
        inode: &'a SessionInode,
    ) -> Outcome<Locked<'a>> {
        // Until the owner word changes below, our own death leaves this same work to the next one.
        let dead = inode.owner.load(Ordering::Acquire);
        let locked = Locked {
            volume: self,
            ino,
            inode,
            me,
        };
        if dead != 0 {
            let recovery = &self.session.header().recovery;
            // Held while the dead one's slot is looked at, so that it is not retired meanwhile.
            let slot = recovery.with(
                || (),
                || {
                    let slot = self.unretired_slot(dead);
                    if let Some(slot) = slot {
                        self.complete_journal(slot);
                        if inode.state.load(Ordering::Acquire) == LOADED
                            && locked.kind() != FileKind::Directory
                        {
                            self.settle_replaced_of(&locked, slot);
                        }
                    }
                    slot
                },
            );
            match inode.state.load(Ordering::Acquire) {
                LOADED => self.recover_loaded(&locked),
                CHANGING => self.unload(&locked),
                _ => {}
            }
            // What the log names must be known before the rest is given away; the reaper gives away
            // what belongs to an inode that cannot be loaded.
            let known =
                || inode.state.load(Ordering::Acquire) == LOADED || self.load(&locked).is_ok();
            if let Some(slot) = slot.filter(|_| known()) {
                recovery.with(
                    || (),
                    || {
                        if self.unretired_slot(dead) == Some(slot) {
                            self.settle_new_of(&locked, slot);
                        }
                    },
                );
            }
        }
        inode.owner.store(me.owner_word(), Ordering::Release);
        inode.mutex.make_consistent();
        Ok(locked)
    }

    /// The slot an owner word names, while it still is that owner's.
    fn unretired_slot(&self, owner: u32) -> Option<usize> {
        let index = (owner & 0x1fff) as usize - 1;
        let slot = self.session.threads().get(index)?;
        (slot.incarnation.load(Ordering::Acquire) as u32 & 0x7ffff == owner >> 13).then_some(index)
    }

    /// Bring a loaded inode to its committed state after its lock's owner died.
    fn recover_loaded(&self, locked: &Locked<'_>) {
        let inode = locked.inode;
        // Readers without the lock must notice all that changes here.
        let changing = Changing::begin(inode);
        // A table half changed is not worth mending: read a directory's log again.
        let directory = locked.kind() == FileKind::Directory;
        if directory || self.reapply(locked).is_err() {
            self.unload(locked);
        }
        // The dead one may have shrunk the file and told no reader yet.
        inode.epoch.fetch_add(1, Ordering::AcqRel);
        changing.end();
    }

    /// Apply what a dead owner left unapplied. Its counts may be of before or after: count again.
    fn reapply(&self, locked: &Locked<'_>) -> Outcome<()> {
        let applied = locked.commit()?.tail.at_line(0);
        let pages = self.log_pages(locked)?;
        let before = pages.iter().position(|page| page.at_line(0) == applied);
        let inode = locked.inode;
        inode
            .log_pages
            .store(before.map_or(0, |at| at as u32 + 1), Ordering::Relaxed);
        self.apply_from_log(locked)?;
        let index = locked.index();
        let (mut blocks, mut block) = (0, 0);
        while let Some(found) = index.next_mapped(block, MAX_FILE_BLOCKS) {
            blocks += 1;
            block = found + 1;
        }
        inode.blocks.store(blocks, Ordering::Relaxed);
        Ok(())
    }

    /// Forget what the session knows of an inode; the next user reads its log.
    pub(crate) fn unload(&self, locked: &Locked<'_>) {
        if locked.inode.state.load(Ordering::Acquire) != UNLOADED {
            locked.index().unload(|| {
                if locked.kind() == FileKind::Directory {
                    self.drop_table(locked.inode);
                }
            });
        }
    }

    /// Load an inode from its record and log.
    pub(crate) fn load(&self, locked: &Locked<'_>) -> Outcome<()> {
        let record = self.read_record(locked.ino)?;
        let inode = locked.inode;
        inode
            .record_at
            .store(self.record_place(locked.ino)?.1.0, Ordering::Relaxed);
        locked.index().clear();
        inode.set_birth(&record.certificate);
        inode.applied.store(
            CommitWord {
                tail: LogPosition::NONE,
                ..record.commit
            }
            .encode(locked.ino),
            Ordering::Relaxed,
        );
        inode.state.store(CHANGING, Ordering::Release);
        if let Err(errno) = self.apply_from_log(locked) {
            self.unload(locked);
            return Err(errno);
        }
        locked.index().tell_loaded();
        Ok(())
    }
}

impl SessionInode {
    fn set_birth(&self, certificate: &Certificate) {
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
        self.has_xattr.store(
            (directory && certificate.checksums).into(),
            Ordering::Relaxed,
        );
        self.parent.store(certificate.parent, Ordering::Relaxed);
        self.checksums
            .store(certificate.checksums.into(), Ordering::Relaxed);
        for time in [&self.atime_ns, &self.mtime_ns, &self.ctime_ns] {
            time.store(certificate.birth_ns as u64, Ordering::Relaxed);
        }
    }
}

impl<'a> Locked<'a> {
    /// What the inode is.
    pub(crate) fn kind(&self) -> FileKind {
        FileKind::from_mode(self.inode.mode.load(Ordering::Relaxed)).unwrap_or(FileKind::Regular)
    }

    /// Whether the blocks of this file have checksums.
    #[inline]
    pub(crate) fn has_sums(&self) -> bool {
        self.inode.checksums.load(Ordering::Relaxed) != 0 && self.kind() != FileKind::Directory
    }

    /// The file's index.
    pub(crate) fn index(&self) -> Index<'a> {
        Index {
            inode: self.inode,
            arena: self.volume.session.arena(),
        }
    }

    /// Where the record of the loaded inode lies.
    pub(crate) fn record(&self) -> Outcome<(PoolIndex, PoolOffset)> {
        let (pool, _) = inode_place(self.ino).ok_or(Errno(libc::ESTALE))?;
        Ok((
            pool,
            PoolOffset(self.inode.record_at.load(Ordering::Relaxed)),
        ))
    }

    /// Commit word in force.
    pub(crate) fn commit(&self) -> Outcome<CommitWord> {
        CommitWord::decode(self.inode.applied.load(Ordering::Relaxed), self.ino)
            .ok()
            .flatten()
            .ok_or(Errno(libc::EIO))
    }

    /// Size in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.inode.size_bytes.load(Ordering::Relaxed)
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
        let inode = self.inode;
        let directory = self.kind() == FileKind::Directory;
        let time = |word: &AtomicU64| word.load(Ordering::Relaxed) as i64;
        Attributes {
            ino: InodeNumber(self.ino),
            generation: inode.generation.load(Ordering::Relaxed),
            mode: inode.mode.load(Ordering::Relaxed),
            nlink: if directory && inode.nlink.load(Ordering::Relaxed) > 0 {
                2 + self.subdirectories()
            } else {
                inode.nlink.load(Ordering::Relaxed)
            },
            uid: inode.uid.load(Ordering::Relaxed),
            gid: inode.gid.load(Ordering::Relaxed),
            rdev: inode.rdev.load(Ordering::Relaxed),
            size_bytes: if directory {
                inode.log_pages.load(Ordering::Relaxed).max(1) as u64 * BLOCK as u64
            } else {
                self.size_bytes()
            },
            blocks: if directory {
                inode.log_pages.load(Ordering::Relaxed).max(1) as u64
            } else {
                inode.blocks.load(Ordering::Relaxed)
            },
            atime_ns: time(&inode.atime_ns),
            mtime_ns: time(&inode.mtime_ns),
            ctime_ns: time(&inode.ctime_ns),
        }
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

/// A run of blocks as an `Entry::Write` speaks of it, checked against the pool.
pub(crate) fn is_extent_valid(
    volume: &Volume,
    pool: PoolIndex,
    block: BlockNumber,
    count: u64,
) -> bool {
    volume
        .geometry
        .get(pool.0 as usize)
        .is_some_and(|geometry| geometry.holds(block, count))
}
