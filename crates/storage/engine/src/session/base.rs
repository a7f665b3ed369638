//! What all floors need of the volume: the calling thread, inodes and their locks, records, reports of damage.

use crate::failure_cause;
use crate::failure_cause::FailureCause;
use crate::format::place::LogPlace;
use crate::format::*;
use crate::session::inode::{Locked, LockedAtOnce};
use crate::session::inodes::inode::Record;
use crate::session::layout::ThreadSlot;
use crate::session::layout::*;
use crate::session::lock::Acquired;
use crate::session::path_mode::PathMode;
use crate::session::slots::Me;
use crate::session::volume::{FileReference, Reported, Severity, Volume};
use crate::session::{Locking, Quotas, Reports, Slots, current, lease_words, robust_list};
use crate::types::*;
use egeria_media::emulation::Emulation;
use egeria_media::{Pool, PoolIndex, PoolOffset};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Volume {
    /// Refuse changes on a read-only attachment.
    pub(crate) fn writable(&self) -> Outcome<()> {
        if self.is_read_only() {
            Err(Errno(libc::EROFS))
        } else {
            Ok(())
        }
    }

    pub(crate) fn report(&self, severity: Severity, line: &str) {
        if let Some(reporter) = self.reporter.get() {
            reporter(severity, line);
        }
    }

    /// Report damage, and keep it as a finding where these are collected.
    pub(crate) fn report_damage(&self, line: &str) {
        Reports::of(self).find(line);
        self.report(Severity::Error, line);
    }

    /// Report damage once for each place, and keep it as a finding where these are collected.
    pub(crate) fn report_damage_once(&self, damage: Reported, line: &str) {
        Reports::of(self).find(line);
        if Reports::of(self).is_new(damage) {
            self.report(Severity::Error, line);
        }
    }

    #[inline]
    pub(crate) fn pool(&self, index: PoolIndex) -> Outcome<&Pool> {
        match self.media.get(index.0 as usize) {
            Some(pool) => Ok(pool),
            None => self.added_pool(index),
        }
    }

    #[cold]
    fn added_pool(&self, index: PoolIndex) -> Outcome<&Pool> {
        (self.open_added_pools)(self);
        let pool = self.media.get(index.0 as usize).map(Arc::as_ref);
        pool.ok_or(Errno(libc::EIO))
    }

    /// Geometry of a pool; `None`: the volume has none with this index.
    #[inline]
    pub(crate) fn geometry_of(&self, pool: PoolIndex) -> Option<&Geometry> {
        match self.geometry.get(pool.0 as usize) {
            Some(geometry) => Some(geometry),
            None => self.geometry_of_added(pool),
        }
    }

    #[cold]
    fn geometry_of_added(&self, pool: PoolIndex) -> Option<&Geometry> {
        (self.open_added_pools)(self);
        self.geometry.get(pool.0 as usize)
    }

    /// Use pools that were added since this process looked last.
    #[inline]
    pub(crate) fn look_for_added_pools(&self) {
        if self.session.pool_count() > self.media.len() {
            (self.open_added_pools)(self);
        }
    }

    /// The superblock in force.
    #[inline]
    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblocks[self.superblocks.len() - 1]
    }

    /// What is between data paths and the pools, in this session.
    #[inline(always)]
    pub(crate) fn path_mode(&self) -> PathMode {
        PathMode(self.session.header().path_mode.load(Ordering::Relaxed))
    }

    /// State of an inode; `ESTALE` for a number outside the volume.
    #[inline]
    pub(crate) fn inode(&self, ino: u64) -> Outcome<&SessionInode> {
        let (pool, index) = inode_place(ino).ok_or(Errno(libc::ESTALE))?;
        match self.geometry_of(pool) {
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
        let geometry = self.geometry_of(pool).ok_or(Errno(libc::ESTALE))?;
        let chunk = index / INODES_PER_BLOCK;
        if chunk >= geometry.inode_blocks {
            return Err(Errno(libc::ESTALE));
        }
        let home = geometry.record_pool;
        let word = self.load_word(home, inode_pointer(geometry, chunk))?;
        let block = decode_inode_pointer(chunk, word)
            .map_err(|()| self.damaged(ino, "inode block pointer"))?;
        let block = block.ok_or(Errno(libc::ESTALE))?;
        let holds = |geometry: &Geometry| geometry.holds(block, 1);
        if !self.geometry_of(home).is_some_and(holds) {
            return Err(self.damaged(ino, "inode block out of bounds"));
        }
        Ok((
            home,
            block.offset() + (index % INODES_PER_BLOCK) * INODE_BYTES,
        ))
    }

    /// Read an inode's record; `ESTALE` when the inode is free.
    pub(crate) fn read_record(&self, ino: u64) -> Outcome<Record> {
        let (pool, at) = self.record_place(ino)?;
        let commit = self.load_word(pool, at + COMMIT_WORD_AT)?;
        let mut certificate = [0u8; LINE];
        self.read_media(pool, at + CERTIFICATE_AT, &mut certificate)?;
        let moved = if self.superblock().version >= FIRST_VERSION_WITH_MOVES {
            self.load_word(pool, at + MOVED_AT)?
        } else {
            0
        };
        Record::decode(ino, commit, &certificate, moved)
            .map_err(|what| self.damaged(ino, what))?
            .ok_or(Errno(libc::ESTALE))
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
    #[cold]
    pub(crate) fn damaged(&self, ino: u64, what: &'static str) -> Errno {
        failure_cause::note(FailureCause::Damaged { ino, what });
        self.report_damage_once(
            Reported::Damage { ino, what },
            &format!("inode {ino}: {what} is damaged; run `egeria check` on the volume"),
        );
        Errno(libc::EIO)
    }

    /// The error for damage found in a log. Without the lock, it is not reported yet.
    pub(crate) fn damaged_in(&self, place: LogPlace, what: &'static str) -> Errno {
        if place.unlocked {
            let ino = place.ino;
            failure_cause::note(FailureCause::Damaged { ino, what });
            Errno(libc::EIO)
        } else {
            self.damaged(place.ino, what)
        }
    }

    /// Lock an inode for a change, and load it. `ESTALE` when there is no such inode.
    #[inline]
    pub(crate) fn lock(&self, ino: u64) -> Outcome<Locked<'_>> {
        let me = self.me()?;
        let locked = self.lock_unloaded(me, ino)?;
        if locked.inode.state.load(Ordering::Acquire) != LOADED {
            self.load(&locked)?;
        }
        Ok(locked)
    }

    /// Lock an inode to read it, or to settle one without a name, and load it; its leases stay. `ESTALE` when there is
    /// no such inode.
    pub(crate) fn lock_beside_leases(&self, ino: u64) -> Outcome<Locked<'_>> {
        let locked = self.lock_as_it_is(self.me()?, ino)?;
        if locked.inode.state.load(Ordering::Acquire) != LOADED {
            self.load(&locked)?;
        }
        Ok(locked)
    }

    /// Lock an inode for a change, without loading it.
    #[inline]
    pub(crate) fn lock_unloaded<'a>(&'a self, me: Me<'a>, ino: u64) -> Outcome<Locked<'a>> {
        let inode = self.inode(ino)?;
        let acquired = Locking::of(self).acquire(ino, inode)?;
        // A nonzero owner word is that of a dead owner, whose change has not been recovered yet.
        let words = inode.owner.load(Ordering::Relaxed)
            | lease_words::held(&inode.leases)
            | inode.layout.load(Ordering::Relaxed);
        if acquired == Acquired::OwnerDied || words != 0 {
            return Locking::of(self).lock_with_care(me, ino, inode, acquired);
        }
        inode.owner.store(me.owner_word().0, Ordering::Release);
        Ok(Locked {
            volume: self,
            ino,
            inode,
            me,
        })
    }

    /// Lock a loaded file for a change if it is free, and there is nothing to do first; `None`: [`Volume::lock`] it.
    /// For code that cannot panic.
    #[inline(always)]
    pub(crate) fn lock_at_once<'a>(
        &'a self,
        me: Me<'a>,
        file: &'a FileReference,
    ) -> Option<LockedAtOnce<'a>> {
        let inode = file.inode();
        let (list, thread) = current::robust_list()?;
        let taken = robust_list::take(&inode.mutex, list, thread)?;
        // What a tree counts may have to be charged.
        let words = inode.owner.load(Ordering::Relaxed)
            | lease_words::held(&inode.leases)
            | inode.layout.load(Ordering::Relaxed)
            | inode.tree.load(Ordering::Relaxed);
        if words != 0 || inode.state.load(Ordering::Acquire) != LOADED {
            robust_list::give(&inode.mutex, taken);
            return None;
        }
        inode.owner.store(me.owner_word().0, Ordering::Release);
        let locked = Locked {
            volume: self,
            ino: file.ino.0,
            inode,
            me,
        };
        Some(LockedAtOnce {
            locked: ManuallyDrop::new(locked),
            taken,
        })
    }

    /// Lock an inode as it is in the session; leases stay in force.
    pub(crate) fn lock_as_it_is<'a>(&'a self, me: Me<'a>, ino: u64) -> Outcome<Locked<'a>> {
        let inode = self.inode(ino)?;
        let acquired = Locking::of(self).acquire(ino, inode)?;
        Locking::of(self).own(me, ino, inode, acquired)
    }

    /// Drop the session's state of an inode; the next user reads its log.
    pub(crate) fn unload(&self, locked: &Locked<'_>) {
        if locked.inode.state.load(Ordering::Acquire) != UNLOADED {
            locked.index().unload(|| {
                if locked.kind() == FileKind::Directory {
                    self.session.drop_name_table(locked.inode);
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
        self.session
            .note_stripes(record.certificate.mode, record.certificate.layout);
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
        locked.index().mark_loaded();
        Quotas::of(self).settle(locked);
        Ok(())
    }

    /// The calling thread's slot, taken at first use.
    #[inline]
    pub(crate) fn me(&self) -> Outcome<Me<'_>> {
        match self.known_me() {
            Some(me) => Ok(me),
            None => Slots::of(self).find_me(),
        }
    }

    /// The calling thread's slot, if it was its last used one.
    #[inline(always)]
    pub(crate) fn known_me(&self) -> Option<Me<'_>> {
        let (slot, index) = current::get(self.era.load(Ordering::Relaxed))?;
        // SAFETY: noted in this era, so it lies in this volume's session, which is mapped.
        let slot = unsafe { &*slot };
        Some(Me { slot, index })
    }

    /// The emulated machine, if accesses take as long as there. Without one, its state is not made: it takes memory that
    /// a program may not have.
    pub(crate) fn emulated(&self) -> Option<&Emulation> {
        let is_emulated = self.path_mode().is_emulated();
        is_emulated.then(|| self.session.emulation())
    }

    /// Run a wait of this thread. An emulated machine does not charge the CPU time of looking whether it is over.
    pub(crate) fn wait_uncharged<T>(&self, slot: &ThreadSlot, wait: impl FnOnce() -> T) -> T {
        match self.emulated() {
            None => wait(),
            Some(emulation) => emulation.wait(&slot.emulated, wait),
        }
    }

    /// Index of the pool of the node the thread runs on.
    #[inline(always)]
    pub(crate) fn pool_here(&self, me: Me<'_>) -> usize {
        if self.media.len() == 1 {
            return 0;
        }
        self.pool_of_node(me)
    }

    /// Index of the pool for new data: of the node of the thread that writes it. A mount's thread writes for others.
    #[inline(always)]
    pub(crate) fn pool_of_writer(&self, me: Me<'_>) -> usize {
        if self.media.len() == 1 {
            return 0;
        }
        match me.slot.writer_pool.load(Ordering::Relaxed) as usize {
            0 => self.pool_of_node(me),
            pool => (pool - 1).min(self.media.len() - 1),
        }
    }

    fn pool_of_node(&self, me: Me<'_>) -> usize {
        let header = self.session.header();
        let pool = if self.path_mode().is_emulated() {
            let node = self.session.emulation().node_of_thread(&me.slot.emulated);
            header.pool_of_node[node % header.pool_of_node.len()].load(Ordering::Relaxed)
        } else {
            // SAFETY: no arguments; a failure is -1.
            let cpu = unsafe { libc::sched_getcpu() }.max(0) as usize;
            header.pool_of_cpu[cpu % header.pool_of_cpu.len()].load(Ordering::Relaxed) as u32
        };
        (pool as usize).min(self.media.len() - 1)
    }

    /// This process's slot, taken at first use.
    pub(crate) fn process_slot(&self) -> Outcome<usize> {
        match self.process.load(Ordering::Acquire) {
            0 => Slots::of(self).take_process_slot(),
            slot => Ok(slot as usize - 1),
        }
    }
}
