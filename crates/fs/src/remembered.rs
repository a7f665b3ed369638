//! Numbers that kernels remember. A kernel names inodes by number, and may do so after the inode is gone
//! another way; given to a new inode, the number would mean that one to a request sent before. So each
//! mount notes in the session the numbers it told its kernel, and none of them is given out anew until
//! the kernel forgets it (`numbers.rs`).
//!
//! A map belongs to the process whose slot `owner` names: it alone sets and clears bits. When it dies
//! its kernel's memory is gone with the mount, and whoever reaps it clears `owner`; the bits it leaves
//! mean nothing until the next owner has cleared them, and until then only make numbers rest.

use crate::format::inode_place;
use crate::session::layout::REMEMBERING_MOUNTS;
use crate::types::{InodeNumber, Outcome};
use crate::volume::Volume;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Where a mount notes what its kernel remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelMemory(usize);

/// Of each mount, where there is one.
pub(crate) type RememberedMaps<'a> = [Option<&'a [AtomicU64]>; REMEMBERING_MOUNTS];

impl Volume {
    /// Begin to note numbers for a kernel; `None` when the session has no room for one more mount, whose
    /// numbers then rest as long as others can be had and no longer.
    pub fn remember_numbers(&self) -> Option<KernelMemory> {
        let process = self.process_slot().ok()? as u64 + 1;
        let owners = &self.session.header().rememberers;
        let mount = owners.iter().position(|owner| {
            owner
                .compare_exchange(0, process, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })?;
        if self.session.back_remembered(mount).is_err() {
            owners[mount].store(0, Ordering::Release);
            return None;
        }
        for pool in 0..self.geometry.len() {
            for word in self.remembered_map(mount, pool) {
                word.store(0, Ordering::Relaxed);
            }
        }
        // Others look at the bits once these are the owner's.
        fence(Ordering::SeqCst);
        self.session.header().remembered[mount].store(1, Ordering::Release);
        Some(KernelMemory(mount))
    }

    /// The kernel is about to be told of this life of a number, which rests from now on when it ends.
    /// `ESTALE` when it ended before.
    pub fn remember_number(
        &self,
        memory: KernelMemory,
        ino: InodeNumber,
        generation: u32,
    ) -> Outcome<()> {
        if let Some((word, bit)) = self.remembered_bit(memory, ino) {
            word.fetch_or(bit, Ordering::SeqCst);
        }
        // The bit before the look, as who gives the number out looks for the bit after this life's end:
        // one of the two sees the other.
        fence(Ordering::SeqCst);
        let alive = self.open(ino, Some(generation));
        match alive {
            Ok(_) => self.close(ino),
            Err(_) => self.forget_number(memory, ino),
        }
        alive.map(drop)
    }

    /// The kernel forgot the number.
    pub fn forget_number(&self, memory: KernelMemory, ino: InodeNumber) {
        if let Some((word, bit)) = self.remembered_bit(memory, ino) {
            word.fetch_and(!bit, Ordering::Release);
        }
    }

    /// The mount ended, and its kernel's memory with it.
    pub fn forget_numbers(&self, memory: KernelMemory) {
        self.disown_memory(memory.0);
    }

    /// Give back what a dead process noted numbers in.
    pub(crate) fn reap_memories(&self, process: usize) {
        let owners = &self.session.header().rememberers;
        for (mount, owner) in owners.iter().enumerate() {
            if owner.load(Ordering::Acquire) == process as u64 + 1 {
                self.disown_memory(mount);
            }
        }
    }

    fn disown_memory(&self, mount: usize) {
        let header = self.session.header();
        // Nobody looks at the bits any more; only then may another own them.
        header.remembered[mount].store(0, Ordering::Release);
        header.rememberers[mount].store(0, Ordering::Release);
    }

    fn remembered_map(&self, mount: usize, pool: usize) -> &[AtomicU64] {
        let inodes = self.inodes_of(pool);
        self.session.remembered_map(mount, pool, inodes)
    }

    fn remembered_bit(&self, memory: KernelMemory, ino: InodeNumber) -> Option<(&AtomicU64, u64)> {
        let (pool, index) = inode_place(ino.0)?;
        let pool = pool.0 as usize;
        (pool < self.geometry.len() && index < self.inodes_of(pool)).then(|| {
            let map = self.remembered_map(memory.0, pool);
            (&map[(index / 64) as usize], 1 << (index % 64))
        })
    }

    /// The maps of a pool's numbers that kernels remember. Taken after the end of the lives of the numbers
    /// looked for.
    pub(crate) fn remembered_maps(&self, pool: usize) -> RememberedMaps<'_> {
        fence(Ordering::SeqCst);
        let used = &self.session.header().remembered;
        std::array::from_fn(|mount| {
            let used = used[mount].load(Ordering::Acquire) != 0;
            used.then(|| self.remembered_map(mount, pool))
        })
    }
}
