//! Lookup references: the inode numbers that kernels hold (FUSE's `nlookup`). A kernel names inodes by number, and may
//! do so after another process has deleted the inode. If the number belonged to a new inode then, a request sent
//! before would reach the wrong inode. So each mount notes in the session the numbers that its kernel knows. None of
//! them is reused until the kernel forgets it (`space::inode_alloc`).
//!
//! A map belongs to the process in the slot that `owner` names: it alone sets and clears bits. When it dies, its
//! kernel's memory is gone with the mount, and the reaper clears `owner`. The bits left behind mean nothing until the
//! next owner has cleared them; until then they only delay the reuse of numbers.

use crate::format::{inode_number, inode_place};
use crate::session::References;
use crate::session::layout::MAX_LOOKUP_MOUNTS;
use crate::session::map::Session;
use crate::types::InodeNumber;
use egeria_media::PoolIndex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Where a mount notes what its kernel remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupReferences(pub(in crate::session) usize);

impl LookupReferences {
    /// Which of the maps of a session.
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// Of each mount, where there is one.
pub(crate) type LookupReferenceMaps<'a> = [Option<&'a [AtomicU64]>; MAX_LOOKUP_MOUNTS];

impl<'v> References<'v> {
    /// Give back the maps in which a dead process noted numbers.
    pub(crate) fn reap_lookup_references(self, process: usize) {
        let owners = &self.volume.session.header().lookup_mounts;
        for (mount, owner) in owners.iter().enumerate() {
            if owner.load(Ordering::Acquire) == process as u64 + 1 {
                self.release_references(mount);
            }
        }
    }

    pub(in crate::session) fn release_references(self, mount: usize) {
        let header = self.volume.session.header();
        self.volume.end_leases_of(LookupReferences(mount));
        // The bits are not read any more; only then may another mount own them.
        header.lookup_references[mount].store(0, Ordering::Release);
        header.lookup_mounts[mount].store(0, Ordering::Release);
    }

    /// Every inode that has one of these references.
    pub(crate) fn for_each_lookup_reference(
        self,
        references: LookupReferences,
        mut each: impl FnMut(InodeNumber),
    ) {
        for pool in 0..self.volume.geometry.len() {
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

    pub(in crate::session) fn lookup_reference_map(
        self,
        mount: usize,
        pool: usize,
    ) -> &'v [AtomicU64] {
        let inodes = self.volume.geometry[pool].inodes();
        self.volume
            .session
            .lookup_reference_map(mount, pool, inodes)
    }

    pub(in crate::session) fn lookup_reference_bit(
        self,
        memory: LookupReferences,
        ino: InodeNumber,
    ) -> Option<(&'v AtomicU64, u64)> {
        let (pool, index) = inode_place(ino.0)?;
        let geometry = self.volume.geometry_of(pool)?;
        (index < geometry.inodes()).then(|| {
            let map = self.lookup_reference_map(memory.0, pool.0 as usize);
            (&map[(index / 64) as usize], 1 << (index % 64))
        })
    }

    /// The maps of a pool's numbers that kernels remember. Loaded after the end of the inodes with these numbers.
    pub(crate) fn lookup_reference_maps(self, pool: usize) -> LookupReferenceMaps<'v> {
        fence(Ordering::SeqCst);
        let used = &self.volume.session.header().lookup_references;
        std::array::from_fn(|mount| {
            let used = used[mount].load(Ordering::Acquire) != 0;
            used.then(|| self.lookup_reference_map(mount, pool))
        })
    }
}

impl Session {
    /// Process slot + 1 of the mount that owns these references; 0: none.
    pub(crate) fn lookup_owner(&self, references: LookupReferences) -> u64 {
        self.header().lookup_mounts[references.0].load(Ordering::Acquire)
    }
}
