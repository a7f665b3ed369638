//! Lookup references: the inode numbers that kernels hold (FUSE's `nlookup`). A kernel names inodes by number, and may
//! do so after another process has deleted the inode. If the number belonged to a new inode then, a request sent
//! before would reach the wrong inode. So each mount notes in the session the numbers that its kernel knows. None of
//! them is reused until the kernel forgets it (`space::inode_alloc`).
//!
//! A map belongs to the process in the slot that `owner` names: it alone sets and clears bits. When it dies, its
//! kernel's memory is gone with the mount, and the reaper clears `owner`. The bits left behind mean nothing until the
//! next owner has cleared them; until then they only delay the reuse of numbers.

use crate::format::{inode_number, inode_place};
use crate::session::layout::MAX_LOOKUP_MOUNTS;
use crate::session::volume::Volume;
use crate::types::{InodeNumber, Outcome};
use egeria_media::PoolIndex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Where a mount notes what its kernel remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupReferences(usize);

impl LookupReferences {
    /// Which of the maps of a session.
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// Of each mount, where there is one.
pub(crate) type LookupReferenceMaps<'a> = [Option<&'a [AtomicU64]>; MAX_LOOKUP_MOUNTS];

impl Volume {
    /// Begin to note numbers for a kernel. `None` when the session has no room for another mount: a number of its
    /// kernel may then be reused, but only when no other number is free.
    pub fn track_lookups(&self) -> Option<LookupReferences> {
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
            for word in self.lookup_reference_map(mount, pool) {
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
        if let Some((word, bit)) = self.lookup_reference_bit(memory, ino) {
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
        if let Some((word, bit)) = self.lookup_reference_bit(memory, ino) {
            word.fetch_and(!bit, Ordering::Release);
        }
    }

    /// Whether the kernel of some mount may remember the number, and use the inode without asking: as a working
    /// directory, or an open pipe.
    pub fn is_referenced_by_kernel(&self, ino: InodeNumber) -> bool {
        let Some((pool, index)) = inode_place(ino.0) else {
            return false;
        };
        let pool = pool.0 as usize;
        pool < self.geometry.len()
            && index < self.geometry[pool].inodes()
            && self
                .lookup_reference_maps(pool)
                .iter()
                .flatten()
                .any(|map| {
                    map[(index / 64) as usize].load(Ordering::Acquire) & 1 << (index % 64) != 0
                })
    }

    /// The mount has ended, and its kernel's cache with it.
    pub fn drop_lookup_references(&self, memory: LookupReferences) {
        self.release_references(memory.0);
    }

    /// Give back the maps in which a dead process noted numbers.
    pub(crate) fn reap_lookup_references(&self, process: usize) {
        let owners = &self.session.header().lookup_mounts;
        for (mount, owner) in owners.iter().enumerate() {
            if owner.load(Ordering::Acquire) == process as u64 + 1 {
                self.release_references(mount);
            }
        }
    }

    fn release_references(&self, mount: usize) {
        let header = self.session.header();
        self.end_leases_of(LookupReferences(mount));
        // The bits are not read any more; only then may another mount own them.
        header.lookup_references[mount].store(0, Ordering::Release);
        header.lookup_mounts[mount].store(0, Ordering::Release);
    }

    /// Process slot + 1 of the mount that owns these references; 0: none.
    pub(crate) fn lookup_owner(&self, references: LookupReferences) -> u64 {
        self.session.header().lookup_mounts[references.0].load(Ordering::Acquire)
    }

    /// Every inode that has one of these references.
    pub(crate) fn for_each_lookup_reference(
        &self,
        references: LookupReferences,
        mut each: impl FnMut(InodeNumber),
    ) {
        for pool in 0..self.geometry.len() {
            let map = self.lookup_reference_map(references.0, pool);
            for (word, bits) in (0..).zip(map) {
                let mut bits = bits.load(Ordering::Acquire);
                while bits != 0 {
                    let index = word * 64 + u64::from(bits.trailing_zeros());
                    each(InodeNumber(inode_number(PoolIndex(pool as u8), index)));
                    bits &= bits - 1;
                }
            }
        }
    }

    fn lookup_reference_map(&self, mount: usize, pool: usize) -> &[AtomicU64] {
        let inodes = self.geometry[pool].inodes();
        self.session.lookup_reference_map(mount, pool, inodes)
    }

    fn lookup_reference_bit(
        &self,
        memory: LookupReferences,
        ino: InodeNumber,
    ) -> Option<(&AtomicU64, u64)> {
        let (pool, index) = inode_place(ino.0)?;
        let pool = pool.0 as usize;
        (pool < self.geometry.len() && index < self.geometry[pool].inodes()).then(|| {
            let map = self.lookup_reference_map(memory.0, pool);
            (&map[(index / 64) as usize], 1 << (index % 64))
        })
    }

    /// The maps of a pool's numbers that kernels remember. Loaded after the end of the inodes with these numbers.
    pub(crate) fn lookup_reference_maps(&self, pool: usize) -> LookupReferenceMaps<'_> {
        fence(Ordering::SeqCst);
        let used = &self.session.header().lookup_references;
        std::array::from_fn(|mount| {
            let used = used[mount].load(Ordering::Acquire) != 0;
            used.then(|| self.lookup_reference_map(mount, pool))
        })
    }
}
