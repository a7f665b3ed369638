//! What a mount asks for its kernel: marks, numbers, leases, errors of write-back.

use crate::format::{Geometry, inode_place};
use crate::session::inodes::write_back_errors::{GENERATION_SHIFT, WriteBackErrors};
use crate::session::kernel::kernel_marks::COMMIT_SPINS;
use crate::session::kernel::leases::{LeaseMount, Recall};
use crate::session::late::Late;
use crate::session::layout::LOADED;
use crate::session::lease_words::{ALL, ATTRIBUTES, NAMES, OWNER};
use crate::session::lookup_references::LookupReferences;
use crate::session::opens::CACHED_UNIT;
use crate::session::volume::{FileReference, Volume};
use crate::session::{LateWork, Leases, References, Uses, direct, lease_words, patience};
use crate::types::*;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

impl Volume {
    /// Note that a kernel's page could not be written back.
    pub fn note_write_back_error(&self, ino: InodeNumber, errno: Errno) {
        let Ok(inode) = self.inode(ino.0) else { return };
        let generation = inode.generation.load(Ordering::Relaxed);
        let more = |word| Some(WriteBackErrors(word).with_another(errno, generation).0);
        let errors = &inode.write_back_errors;
        let _ = errors.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
    }

    /// The errors so far, of this generation of the inode.
    #[inline]
    pub fn write_back_errors(&self, file: FileReference) -> WriteBackErrors {
        let inode = file.inode();
        let word = inode.write_back_errors.load(Ordering::Acquire);
        let generation = inode.generation.load(Ordering::Relaxed);
        if word >> GENERATION_SHIFT == u64::from(generation) {
            WriteBackErrors(word)
        } else {
            WriteBackErrors::default()
        }
    }

    /// Report the last of these errors to a handle; `false`: another handle saw it before.
    pub fn see_write_back_error(&self, file: FileReference, errors: WriteBackErrors) -> bool {
        let word = &file.inode().write_back_errors;
        let seen = errors.seen().0;
        let changed = word.compare_exchange(errors.0, seen, Ordering::AcqRel, Ordering::Relaxed);
        errors.is_unseen() && changed.is_ok()
    }

    /// Mark an open inode kernel-cached. Once this returns, `*_direct` calls of every process fail with `EAGAIN` until
    /// `unmark_kernel_cached`. Counted in the session, not per process. Takes the inode's lock only when a direct
    /// writer is in its commit.
    ///
    /// # Errors
    /// `ENOMEM`, and `EAGAIN` when all places of processes are taken.
    pub fn mark_kernel_cached(&self, ino: InodeNumber) -> Outcome<()> {
        let inode = self.inode(ino.0)?;
        // The count is raised before the table and lowered after it: a process that dies in between leaves the count
        // too high, never too low. The reaper subtracts only what the table says. An excess is never subtracted: until
        // the session ends, direct calls on that file go through the kernel, which is correct but slower.
        direct::mark(inode);
        let noted = Uses::of(self).change_entry(ino.0, CACHED_UNIT, true);
        if let Err(errno) = noted {
            inode.kernel_cached.fetch_sub(1, Ordering::AcqRel);
            return Err(errno);
        }
        for _ in 0..COMMIT_SPINS {
            if direct::is_settled(inode) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        // Preempted, stopped or dead in there.
        let waited = self.lock_beside_leases(ino.0).map(drop);
        waited.inspect_err(|_| Uses::of(self).take_mark(ino, inode))
    }

    /// Remove a mark (after the kernel's pages were dropped).
    pub fn unmark_kernel_cached(&self, ino: InodeNumber) {
        let Ok(inode) = self.inode(ino.0) else { return };
        if Uses::of(self).lose_named_use(ino, || Uses::of(self).take_mark(ino, inode)) {
            return;
        }
        match self.lock_beside_leases(ino.0) {
            Ok(locked) => {
                Uses::of(self).losing_use(&locked, || Uses::of(self).take_mark(ino, inode))
            }
            Err(errno) if patience::is_expiry(errno) => LateWork::of(self).later(Late::Unmark(ino)),
            Err(_) => {}
        }
    }

    /// Whether the kernel holds pages of the inode; one relaxed load.
    #[inline]
    pub fn is_kernel_cached(&self, file: FileReference) -> bool {
        file.inode().kernel_cached.load(Ordering::Relaxed) != 0
    }

    /// Whether the kernel holds pages of the inode with this number.
    #[inline]
    pub fn has_kernel_pages(&self, ino: InodeNumber) -> bool {
        let inode = self.inode(ino.0);
        inode.is_ok_and(|inode| inode.kernel_cached.load(Ordering::Relaxed) != 0)
    }

    /// A number that changes with every commit to an inode, to compare with an earlier one; `None`: there is no such
    /// inode. Overwrites in place do not change it, but none are made while the kernel holds pages.
    pub fn change_number(&self, ino: InodeNumber) -> Option<u64> {
        let inode = self.inode(ino.0).ok()?;
        Some(inode.sequence.load(Ordering::Acquire))
    }

    /// Begin to note numbers for a kernel. `None` when the session has no room for another mount: a number of its
    /// kernel may then be reused, but only when no other number is free.
    pub fn track_lookups(&self) -> Option<LookupReferences> {
        self.look_for_added_pools();
        let process = self.process_slot().ok()? as u64 + 1;
        let owners = &self.session.header().lookup_mounts;
        let mount = owners.iter().position(|owner| {
            owner
                .compare_exchange(0, process, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })?;
        if self.session.back_lookup_references(mount).is_err() {
            owners[mount].store(0, Ordering::Release);
            return None;
        }
        for pool in 0..self.geometry.len() {
            for word in References::of(self).lookup_reference_map(mount, pool) {
                word.store(0, Ordering::Relaxed);
            }
        }
        // Other threads read the bits once the owner is set.
        fence(Ordering::SeqCst);
        self.session.header().lookup_references[mount].store(1, Ordering::Release);
        Some(LookupReferences(mount))
    }

    /// A mount is about to pass a number with this generation to its kernel: from now on the number is not reused
    /// after the inode's end. On `ESTALE` the caller removes the reference again, unless it also belongs to another
    /// inode.
    ///
    /// # Errors
    /// `ESTALE` when this inode ended before; what [every operation](crate::Errno) can fail with.
    pub fn add_lookup_reference(
        &self,
        memory: LookupReferences,
        ino: InodeNumber,
        generation: u32,
    ) -> Outcome<()> {
        if let Some((word, bit)) = References::of(self).lookup_reference_bit(memory, ino) {
            word.fetch_or(bit, Ordering::SeqCst);
        }
        // Set the bit first, then check; a thread that reuses a number checks the bit after the end of the old inode.
        // One of the two sees the other.
        fence(Ordering::SeqCst);
        self.open(ino, Some(generation))?;
        self.close(ino);
        Ok(())
    }

    /// The kernel forgot the number.
    pub fn drop_lookup_reference(&self, memory: LookupReferences, ino: InodeNumber) {
        if let Some((word, bit)) = References::of(self).lookup_reference_bit(memory, ino) {
            word.fetch_and(!bit, Ordering::Release);
        }
    }

    /// Whether the kernel of some mount may remember the number, and use the inode without asking: as a working
    /// directory, or an open pipe.
    pub fn is_referenced_by_kernel(&self, ino: InodeNumber) -> bool {
        let Some((pool, index)) = inode_place(ino.0) else {
            return false;
        };
        let is_there = |geometry: &Geometry| index < geometry.inodes();
        let is_there = self.geometry_of(pool).is_some_and(is_there);
        let pool = pool.0 as usize;
        is_there
            && References::of(self)
                .lookup_reference_maps(pool)
                .iter()
                .flatten()
                .any(|map| {
                    map[(index / 64) as usize].load(Ordering::Acquire) & 1 << (index % 64) != 0
                })
    }

    /// The mount has ended, and its kernel's cache with it.
    pub fn drop_lookup_references(&self, memory: LookupReferences) {
        References::of(self).release_references(memory.0);
    }

    /// From now on this process leaves name changes to the kernel (`EBUSY`) for inodes that the kernel uses without
    /// asking: directories that it knows, and other files that are open there.
    pub fn leave_used_names_to_kernel(&self) {
        self.leaves_used_names.store(true, Ordering::Relaxed);
    }

    /// Start to grant leases to the kernel that has these lookup references; `None` when another mount does.
    pub fn grant_leases(&self, references: LookupReferences) -> Option<LeaseMount> {
        let mount = Leases::of(self).lease_mount_of(references)?;
        let granting = &self.session.header().lease_mount;
        granting
            .compare_exchange(0, mount.0, Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        Some(mount)
    }

    /// Grant a lease; false when another thread is changing the inode. What is read from now on may be cached until
    /// the lease is recalled. Only for an inode that has a lookup reference, or the root.
    pub fn lease(&self, ino: InodeNumber, with_names: bool) -> bool {
        let bits = if with_names { ALL } else { ATTRIBUTES | OWNER };
        let locked = patience::within(Duration::ZERO, || self.lock_as_it_is(self.me()?, ino.0));
        match locked {
            // In-place writers change times without the lock.
            Ok(Ok(locked)) if locked.inode.is_written_in_place() => false,
            Ok(Ok(locked)) if locked.inode.state.load(Ordering::Acquire) == LOADED => {
                // Under the lock: the next thread that locks the inode sees the lease.
                lease_words::grant(&locked.inode.leases, bits);
                true
            }
            _ => false,
        }
    }

    /// The kernel is about to move a name that it may cache into this directory, whatever lease the directory has.
    /// Called before the change, so that every later locker of the directory sees it.
    pub fn note_moved_name(&self, directory: InodeNumber) {
        if let Ok(inode) = self.inode(directory.0) {
            lease_words::grant(&inode.leases, NAMES);
        }
    }

    /// The kernel caches nothing of the inode any more.
    pub fn end_lease(&self, ino: InodeNumber) {
        Leases::of(self).clear_lease(ino, ALL);
    }

    /// The kernel has dropped everything that the recall asked for.
    pub fn end_recall(&self, recall: Recall) {
        Leases::of(self).clear_lease(recall.ino, if recall.with_names { ALL } else { ATTRIBUTES });
        self.session.recalls().tell_ended();
    }

    /// The next recall, for a thread that [works](work_for_kernel) for the mount that grants leases. `None` when none
    /// comes within this time, or when `is_over` is true; [`Volume::ring_for_recalls`] must be called after that is
    /// set.
    pub fn next_recall(&self, patience: Duration, is_over: impl Fn() -> bool) -> Option<Recall> {
        let recalls = self.session.recalls();
        recalls.next(patience, is_over, || Leases::of(self).take_recall())
    }

    /// Wake all threads that wait for the next recall.
    pub fn ring_for_recalls(&self) {
        self.session.recalls().ring();
    }

    /// Ask for a recall of an inode's lease without waiting for its end; `false`: too many recalls are under way.
    pub fn ask_for_recall_of(&self, ino: InodeNumber) -> bool {
        self.session.recalls().ask(ino.0)
    }

    /// The mount of these lookup references is gone, and its kernel's memory with it.
    pub fn end_leases_of(&self, references: LookupReferences) {
        let header = self.session.header();
        let granting = header.lease_mount.load(Ordering::Acquire);
        if Leases::of(self).lease_mount_of(references) != Some(LeaseMount(granting)) {
            return;
        }
        self.end_lease(InodeNumber::ROOT);
        References::of(self).for_each_lookup_reference(references, |ino| self.end_lease(ino));
        let recalls = self.session.recalls();
        recalls.drop_all();
        header.lease_mount.store(0, Ordering::Release);
        recalls.tell_ended();
    }
}
