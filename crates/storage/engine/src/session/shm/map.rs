//! The segment's memory: created by the creator of the session, mapped by all, named after volume and session.

use crate::format::{BLOCK, MAX_POOLS, inode_place};
use crate::session::arena::Arena;
use crate::session::layout::*;
use crate::session::machine::{self, SessionMachine};
use crate::session::memory::{Address, SessionMemory, populate};
use crate::session::segments::remove_segment;
use crate::session::trust::Owner;
use crate::types::{Errno, Outcome};
use egeria_machine::Machine;
use egeria_media::emulation::Emulation;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of inodes that get memory at once when inodes are made.
const AHEAD_BYTES: usize = 64 << 10;

/// A mapped session segment.
pub struct Session {
    memory: Arc<SessionMemory>,
    base: Address,
    bytes: usize,
    layout: SessionLayout,
    arena: Arena,
    path: PathBuf,
    owner: Option<Owner>,
    /// The emulated machine, where there is one.
    machine: OnceLock<Arc<SessionMachine>>,
    /// Pages before the arena that are known to have memory, one bit each.
    backed: Vec<AtomicU64>,
}

/// Name of a session's segment in its directory.
pub fn segment_name(volume: &[u8; 16], session: &[u8; 16]) -> String {
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    format!("{}-{}", hex(volume), hex(session))
}

impl Session {
    /// Make a new, zeroed segment that only its owner can open; `None`: only this process has it.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(
        path: PathBuf,
        layout: SessionLayout,
        owner: Option<Owner>,
    ) -> io::Result<Session> {
        let Some(owner) = owner else {
            let memory = SessionMemory::private(layout.bytes)?;
            return Ok(Session::over(path, layout, Arc::new(memory)));
        };
        remove_segment(&path);
        let file = owner.create_session(&path)?;
        file.set_len(layout.bytes as u64)
            .and_then(|()| Session::map(path.clone(), layout, &file))
            .map(|mut session| {
                session.owner = Some(owner);
                session
            })
            .inspect_err(|_| remove_segment(&path))
    }

    /// Map an existing segment if it belongs to this owner and has the size and version of this build. `layout_of`: its layout, by the
    /// number of pools that it was made for.
    ///
    /// # Errors
    /// `EPERM` when others can open it, `EPROTO` when it is from another build; errors of the system.
    pub fn join(
        path: PathBuf,
        layout_of: impl FnOnce(usize) -> Option<SessionLayout>,
        owner: Owner,
    ) -> io::Result<Session> {
        let file = owner.open_session(&path)?;
        let mut first_pool_count = [0; 4];
        let at = std::mem::offset_of!(SessionHeader, first_pool_count);
        file.read_exact_at(&mut first_pool_count, at as u64)?;
        let layout = layout_of(u32::from_ne_bytes(first_pool_count) as usize);
        let layout = layout.ok_or_else(|| io::Error::from_raw_os_error(libc::EPROTO))?;
        if file.metadata()?.len() != layout.bytes as u64 {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        let mut session = Session::map(path, layout, &file)?;
        session.owner = Some(owner);
        let header = session.header();
        if header.magic.load(Ordering::Acquire) != SESSION_MAGIC
            || header.version.load(Ordering::Relaxed) != SESSION_VERSION
        {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        session.join_machine(owner)?;
        Ok(session)
    }

    /// From now on this machine is emulated, for this session alone or for all sessions that share it under a name.
    /// Called by the process that makes the session, before any other process joins.
    ///
    /// # Errors
    /// `EINVAL` when it cannot be emulated; what the system says.
    pub(crate) fn emulate(&self, machine: &Machine, shared_as: Option<&str>) -> io::Result<()> {
        let number = machine::number_of(machine, shared_as);
        let made = match self.owner {
            Some(owner) => {
                let path = machine::path_of(number, &self.path);
                SessionMachine::find_or_make(machine, path, owner)?
            }
            None => SessionMachine::private(machine)?,
        };
        self.header().machine.store(number, Ordering::Relaxed);
        let _ = self.machine.set(Arc::new(made));
        Ok(())
    }

    /// Maps the machine that the session's maker emulates.
    fn join_machine(&self, owner: Owner) -> io::Result<()> {
        let number = self.header().machine.load(Ordering::Relaxed);
        if number != 0 {
            let path = machine::path_of(number, &self.path);
            let joined = SessionMachine::open(path, owner)?;
            let _ = self.machine.set(Arc::new(joined));
        }
        Ok(())
    }

    fn map(path: PathBuf, layout: SessionLayout, file: &File) -> io::Result<Session> {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let memory = SessionMemory::map(layout.bytes, flags, file.as_raw_fd())?;
        Ok(Session::over(path, layout, Arc::new(memory)))
    }

    /// A session in zeroed memory, at least as large as the layout says.
    pub fn over(path: PathBuf, layout: SessionLayout, memory: Arc<SessionMemory>) -> Session {
        assert!(
            layout.bytes <= memory.bytes,
            "memory as large as the layout"
        );
        let memory_base = memory.base;
        let base = memory_base.0;
        // SAFETY: header and arena lie inside the mapping by construction of the layout.
        let arena = unsafe {
            let header: *const SessionHeader = base.cast();
            Arena::new(
                &raw const (*header).arena,
                base.add(layout.arena_links).cast(),
                base.add(layout.arena),
                layout.arena_pages as u64,
            )
        };
        let pages = layout.arena.div_ceil(BLOCK);
        let backed = vec![0u64; pages.div_ceil(64)];
        Session {
            memory,
            base: memory_base,
            bytes: layout.bytes,
            layout,
            arena,
            path,
            owner: None,
            machine: OnceLock::new(),
            backed: backed.into_iter().map(AtomicU64::new).collect(),
        }
    }

    /// The session for another attachment of this process.
    pub fn share(&self) -> Session {
        let (path, layout) = (self.path.clone(), self.layout.clone());
        let mut shared = Session::over(path, layout, Arc::clone(&self.memory));
        shared.owner = self.owner;
        shared.machine = self.machine.clone();
        shared
    }

    /// Make sure that the parts that every process reads have memory: all but slots, inodes and the arena, which get
    /// memory when they are taken.
    ///
    /// # Errors
    /// `ENOMEM` when /dev/shm has no room.
    pub fn back_fixed(&self) -> Outcome<()> {
        self.back_range(self.layout.backed, self.layout.arena_links)?;
        self.back_range(0, size_of::<SessionHeader>())?;
        self.back_range(self.layout.processes, self.layout.threads)?;
        (0..self.layout.first_pools).try_for_each(|pool| self.back_maps(pool))
    }

    /// Make sure that the maps of a pool have memory.
    ///
    /// # Errors
    /// `ENOMEM` when /dev/shm has no room.
    pub(crate) fn back_maps(&self, pool: usize) -> Outcome<()> {
        let layout = &self.layout;
        let (blocks, inodes) = layout.sizes[pool];
        let back = |start: usize, bits: u64| {
            self.back_range(start, start + bits.div_ceil(64) as usize * 8)
        };
        back(layout.block_maps[pool], blocks)?;
        back(layout.inode_maps[pool], inodes)?;
        if self.has_held_blocks() {
            back(layout.held_maps[pool], blocks)?;
        }
        Ok(())
    }

    /// The user or group that it belongs to; `None`: memory of one process.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Where everything is.
    pub(crate) fn layout(&self) -> &SessionLayout {
        &self.layout
    }

    /// Blocks that a pool with this index can have that is added to the session.
    pub(crate) fn room_for_pool(&self, pool: usize) -> Option<u64> {
        Some(self.layout.sizes.get(pool)?.0)
    }

    /// Number of pools. It is in memory of all processes, so it is not trusted.
    #[inline]
    pub(crate) fn pool_count(&self) -> usize {
        let count = self.header().pool_count.load(Ordering::Acquire) as usize;
        count.min(self.layout.sizes.len())
    }

    /// Make sure that the maps of a mount's kernel have memory.
    ///
    /// # Errors
    /// `ENOMEM` when /dev/shm has no room.
    pub fn back_lookup_references(&self, mount: usize) -> Outcome<()> {
        (0..self.pool_count()).try_for_each(|pool| self.back_lookup_references_of(mount, pool))
    }

    /// As [`Session::back_lookup_references`], of one pool.
    ///
    /// # Errors
    /// `ENOMEM` when /dev/shm has no room.
    pub(crate) fn back_lookup_references_of(&self, mount: usize, pool: usize) -> Outcome<()> {
        let start = self.layout.lookup_reference_maps[mount][pool];
        let (_, inodes) = self.layout.sizes[pool];
        self.back_range(start, start + inodes.div_ceil(64) as usize * 8)
    }

    /// Make sure that a part of the segment has memory before it is touched. /dev/shm may be full; touching a page
    /// without memory raises SIGBUS. `ENOMEM` then.
    ///
    /// # Errors
    /// `ENOMEM` when /dev/shm has no room.
    #[inline]
    pub fn back<T>(&self, part: &T) -> Outcome<()> {
        let start = part as *const T as usize - self.base.0 as usize;
        let page = start / BLOCK;
        let inside = (start + size_of::<T>() - 1) / BLOCK == page;
        match self.backed.get(page / 64) {
            Some(word) if inside && word.load(Ordering::Relaxed) >> (page % 64) & 1 == 1 => Ok(()),
            _ => self.back_range(start, start + size_of::<T>()),
        }
    }

    /// Give memory to an inode that is about to be made, and to those that will be made next, below `end`: one call of
    /// the kernel instead of one for each page. Without memory nothing happens: [`Session::back`] then fails.
    pub(crate) fn back_inodes_ahead(&self, pool: usize, index: u64, end: u64) {
        const INODES: u64 = (AHEAD_BYTES / size_of::<SessionInode>()) as u64;
        let first = self.layout.inodes[pool] + index as usize * size_of::<SessionInode>();
        let page = first / BLOCK;
        let known = self.backed.get(page / 64);
        if known.is_some_and(|word| word.load(Ordering::Relaxed) >> (page % 64) & 1 == 1) {
            return;
        }
        let inodes = (end - index).min(INODES) as usize;
        let _ = self.back_range(first, first + inodes * size_of::<SessionInode>());
    }

    #[cold]
    fn back_range(&self, start: usize, end: usize) -> Outcome<()> {
        let (first, last) = (start / BLOCK, end.min(self.bytes).div_ceil(BLOCK));
        // SAFETY: in bounds of the segment, on page boundaries.
        let at = unsafe { self.base.0.add(first * BLOCK) };
        let is_before = last * BLOCK <= self.layout.backed;
        let has_memory = |page: usize| {
            let word = &self.pages_with_memory()[page / 64];
            word.load(Ordering::Acquire) >> (page % 64) & 1 == 1
        };
        if is_before && (first..last).all(has_memory) {
            // Reading one page maps its neighbours, too, if they have memory.
            // SAFETY: a byte of a page that has memory.
            unsafe { at.read_volatile() };
        } else {
            populate(at, (last - first) * BLOCK)?;
        }
        for page in first..last {
            let bit = 1 << (page % 64);
            if is_before {
                // Pages outside the arena keep their memory as long as the session exists.
                self.pages_with_memory()[page / 64].fetch_or(bit, Ordering::Release);
            }
            if let Some(word) = self.backed.get(page / 64) {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// A bit per page: it has memory, allocated by any process.
    fn pages_with_memory(&self) -> &[AtomicU64] {
        let pages = self.layout.backed / BLOCK;
        self.slice(self.layout.backed, pages.div_ceil(64))
    }

    fn at<T>(&self, offset: usize) -> &T {
        debug_assert!(offset + size_of::<T>() <= self.bytes);
        // SAFETY: offsets come from the layout, which keeps them inside the segment and aligned; the
        // types are all atomics, for which zeroed and concurrently changed memory is valid.
        unsafe { &*self.base.0.add(offset).cast() }
    }

    fn slice<T>(&self, offset: usize, count: usize) -> &[T] {
        debug_assert!(offset + count * size_of::<T>() <= self.bytes);
        // SAFETY: offsets come from the layout, which keeps whole arrays of these types of atomics inside the segment.
        unsafe { std::slice::from_raw_parts(self.base.0.add(offset).cast(), count) }
    }

    /// Head of the segment.
    #[inline]
    pub fn header(&self) -> &SessionHeader {
        self.at(0)
    }
    /// Page allocator.
    #[inline]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }
    /// Emulated machine.
    pub fn emulation(&self) -> &Emulation {
        match self.machine.get() {
            Some(machine) => &machine.emulation,
            None => &machine::NONE,
        }
    }
    pub fn processes(&self) -> &[ProcessSlot] {
        self.slice(self.layout.processes, PROCESS_SLOTS)
    }
    /// Words of ranges of files.
    #[inline]
    pub fn range_locks(&self) -> &[AtomicU32] {
        self.slice(self.layout.range_locks, RANGE_LOCKS)
    }
    /// Thread slots.
    #[inline]
    pub fn threads(&self) -> &[ThreadSlot] {
        self.slice(self.layout.threads, THREAD_SLOTS)
    }
    /// Thread slots that were ever taken. The number is in memory of all processes, so it is not trusted.
    #[inline]
    pub fn used_threads(&self) -> &[ThreadSlot] {
        let high = self.header().thread_high.load(Ordering::Acquire) as usize;
        &self.threads()[..high.min(THREAD_SLOTS)]
    }
    /// Process slots that were ever taken; as for threads.
    #[inline]
    pub fn used_processes(&self) -> &[ProcessSlot] {
        let high = self.header().process_high.load(Ordering::Acquire) as usize;
        &self.processes()[..high.min(PROCESS_SLOTS)]
    }
    /// Slots of threads that come through mounts.
    pub fn callers(&self) -> &[CallerSlot] {
        self.slice(self.layout.callers, CALLER_SLOTS)
    }
    /// The admission gate of each pool.
    pub fn gates(&self) -> &[AdmissionGate] {
        self.slice(self.layout.gates, self.pool_count())
    }
    /// The gate of each pool that bounds how many delegates work at once.
    pub fn delegate_gates(&self) -> &[AdmissionGate] {
        let pools = self.layout.sizes.len();
        let first = self.layout.gates + pools * size_of::<AdmissionGate>();
        self.slice(first, self.pool_count())
    }
    /// Open descriptions.
    pub fn descriptions(&self) -> &[DescriptionEntry] {
        self.slice(self.layout.descriptions, DESCRIPTION_SLOTS)
    }
    /// Usage of limited trees. It has memory from the time on when the tree gets limits.
    pub fn usage(&self) -> &[TreeUsage] {
        self.slice(self.layout.usage, MAX_TREES)
    }
    /// Head of a pool.
    #[inline]
    pub fn pool(&self, pool: usize) -> &PoolHeader {
        &self.header().pools[pool & (MAX_POOLS - 1)]
    }
    /// Map of used blocks of a pool.
    pub fn block_map(&self, pool: usize, blocks: u64) -> &[AtomicU64] {
        self.slice(self.layout.block_maps[pool], blocks.div_ceil(64) as usize)
    }
    /// Map of used inode numbers of a pool.
    pub fn inode_map(&self, pool: usize, inodes: u64) -> &[AtomicU64] {
        self.slice(self.layout.inode_maps[pool], inodes.div_ceil(64) as usize)
    }
    /// Map of the inode numbers of a pool that a mount's kernel remembers.
    pub fn lookup_reference_map(&self, mount: usize, pool: usize, inodes: u64) -> &[AtomicU64] {
        let at = self.layout.lookup_reference_maps[mount][pool];
        self.slice(at, inodes.div_ceil(64) as usize)
    }
    /// State of the inode in slot `index` of a pool; the caller keeps `index` below the pool's inodes.
    #[inline]
    pub fn inode(&self, pool: usize, index: u64) -> &SessionInode {
        self.at(self.layout.inodes[pool] + index as usize * size_of::<SessionInode>())
    }
    /// Map of the blocks of a pool that were freed during a snapshot.
    pub(crate) fn held_map(&self, pool: usize) -> &[AtomicU64] {
        let maps = &self.layout.held_maps;
        let Some(start) = maps.get(pool) else {
            return &[];
        };
        let end = maps.get(pool + 1).unwrap_or(&self.layout.kept_records[0]);
        self.slice(*start, (end - start) / size_of::<AtomicU64>())
    }
    /// Make sure that the maps of held blocks have memory.
    ///
    /// # Errors
    /// `ENOMEM` when /dev/shm has no room.
    pub(crate) fn back_held_maps(&self) -> Outcome<()> {
        (0..self.pool_count()).try_for_each(|pool| {
            let start = self.layout.held_maps[pool];
            let (blocks, _) = self.layout.sizes[pool];
            self.back_range(start, start + blocks.div_ceil(64) as usize * 8)
        })
    }
    /// Whether there was a snapshot in this session.
    pub(crate) fn has_held_blocks(&self) -> bool {
        self.header().snapshots.load(Ordering::Acquire) > 0
    }
    /// What is kept of an inode for a snapshot; `ESTALE` for a number outside the volume.
    ///
    /// # Errors
    /// `ESTALE`.
    pub(crate) fn kept_record(&self, ino: u64) -> Outcome<&KeptRecord> {
        let (pool, index) = inode_place(ino).ok_or(Errno(libc::ESTALE))?;
        let records = &self.layout.kept_records;
        let start = records.get(pool.0 as usize).ok_or(Errno(libc::ESTALE))?;
        let after = records.get(pool.0 as usize + 1);
        let end = after.copied().unwrap_or(self.layout.backed);
        let at = start + index as usize * size_of::<KeptRecord>();
        if at + size_of::<KeptRecord>() > end {
            return Err(Errno(libc::ESTALE));
        }
        Ok(self.at(at))
    }
    /// Where the segment is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Index of a pool's node in the emulated machine.
    pub(crate) fn node_index(&self, pool: u8) -> usize {
        self.header().node_of_pool[pool as usize & (MAX_POOLS - 1)].load(Ordering::Relaxed) as usize
    }

    /// Position of the memory that a pool lies on, in the emulated machine.
    pub(crate) fn memory_index(&self, pool: u8) -> usize {
        self.header().memory_of_pool[pool as usize & (MAX_POOLS - 1)].load(Ordering::Relaxed)
            as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_backed_others_need_not() {
        let layout = SessionLayout::new(&[(4096, 4096)], 1);
        let first = Session::create(PathBuf::new(), layout, None).expect("memory");
        first.back_fixed().expect("memory");
        let second = first.share();
        let slots = first.threads();
        let page = |at: usize| (&raw const slots[at] as usize - first.base.0 as usize) / BLOCK;
        let knows = |session: &Session, page: usize| {
            let known = |words: &[AtomicU64]| {
                words[page / 64].load(Ordering::Relaxed) >> (page % 64) & 1 == 1
            };
            (known(&session.backed), known(session.pages_with_memory()))
        };
        let (used, unused) = (page(0), page(64));
        assert_eq!(knows(&second, used), (false, false));
        first.back(&slots[0]).expect("memory");
        assert_eq!(knows(&first, used), (true, true));
        assert_eq!(knows(&second, used), (false, true));
        second.back(&slots[0]).expect("memory");
        assert_eq!(knows(&second, used), (true, true));
        assert_eq!(knows(&first, unused), (false, false));
    }
}
