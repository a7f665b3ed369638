//! Reading file data without a lock: load the words, copy, look whether they still say the same.

use crate::data::traffic::Traffic;
use crate::format::*;
use crate::session::inode::Locked;
use crate::session::layout::{LOADED, SessionInode};
use crate::session::seqlock::{BlockSnapshot, OPTIMISTIC_TRIES, QuickSnapshot, Snapshot};
use crate::session::slots::{Me, count};
use crate::types::*;
use crate::volume::{FileReference, Volume};
use egeria_media::emulation::AccessKind;
use egeria_media::{PoolIndex, PoolOffset};
use std::sync::atomic::Ordering;

impl Volume {
    /// Read into caller's memory (a bad address gives `EFAULT`); fewer bytes at end of file.
    /// # Safety
    /// Any address is allowed when `media::guard` is installed; else `buffer..+bytes` must be writable.
    pub unsafe fn read_raw(
        &self,
        file: FileReference,
        offset_bytes: u64,
        buffer: *mut u8,
        bytes: usize,
    ) -> Outcome<usize> {
        let inode = file.inode();
        if inode.state.load(Ordering::Acquire) != LOADED {
            drop(self.lock(file.ino.0)?);
        }
        let me = self.me()?;
        // SAFETY: the caller's promise.
        if let Some(bytes) = unsafe { self.read_one_block(me, file, offset_bytes, buffer, bytes) } {
            return Ok(bytes);
        }
        if inode.checksums.load(Ordering::Relaxed) != 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.read_with_sums(file, offset_bytes, buffer, bytes) };
        }
        let one_block = bytes <= BLOCK - (offset_bytes % BLOCK as u64) as usize;
        for _ in 0..OPTIMISTIC_TRIES {
            // SAFETY: the caller's promise.
            let tried = unsafe {
                match one_block {
                    true => self.try_read_block(me, file, offset_bytes, buffer, bytes),
                    false => self.try_read_blocks(me, inode, offset_bytes, buffer, bytes),
                }
            };
            if let Some(outcome) = tried {
                return outcome
                    .inspect(|bytes| self.note_use(me, file, *bytes as u64, AccessKind::Read));
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.read_patiently(me, file, offset_bytes, buffer, bytes) }
            .inspect(|bytes| self.note_use(me, file, *bytes as u64, AccessKind::Read))
    }

    /// As `read_direct`, if it goes the way of most reads; counts itself as a direct call. `None`: use
    /// that. Touches no `errno`, takes no lock, cannot panic.
    ///
    /// # Safety
    /// As `read_raw`.
    #[inline]
    pub unsafe fn read_quickly(
        &self,
        file: FileReference,
        offset: u64,
        buffer: *mut u8,
        bytes: usize,
    ) -> Option<usize> {
        let me = self.known_me()?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { self.read_one_block(me, file, offset, buffer, bytes) }?;
        count(&me.slot.counters.direct_calls, 1);
        Some(bytes)
    }

    /// The way of most reads: bytes of one written block where it was thought to be, all there, nothing
    /// unusual. `None`: go the ordinary way, which also finds out what is wrong.
    ///
    /// # Safety
    /// As `read_raw`.
    #[inline(always)]
    unsafe fn read_one_block(
        &self,
        me: Me<'_>,
        file: FileReference,
        offset: u64,
        buffer: *mut u8,
        bytes: usize,
    ) -> Option<usize> {
        let inode = file.inode();
        let within = offset % BLOCK as u64;
        let usual = bytes != 0
            && bytes <= BLOCK - within as usize
            && !self.emulated
            && inode.kernel_cached.load(Ordering::Acquire) == 0
            && inode.state.load(Ordering::Acquire) == LOADED;
        if !usual {
            return None;
        }
        let index = crate::data::index::Index {
            inode,
            arena: self.session.arena(),
        };
        let file_block = offset / BLOCK as u64;
        let end = offset.saturating_add(bytes as u64);
        let look = QuickSnapshot::begin(index, file_block, end)?;
        let word = look.word;
        let guess = self.guesses.guess(file.ino.0, file_block);
        if !word.has_data() || word.place() != guess {
            return None;
        }
        let pool = self.media.get(guess.pool().0 as usize)?;
        // SAFETY: the caller's promise; the pool checks its own bounds.
        unsafe { pool.copy_out(guess.block().offset() + within, buffer, bytes) }.ok()?;
        if !look.stands() {
            return None;
        }
        self.count_read(me, word, within, bytes);
        self.note_use(me, file, bytes as u64, AccessKind::Read);
        Some(bytes)
    }

    /// One block: its word tells whether anything happened. `None`: try again.
    ///
    /// # Safety
    /// As `read_raw`.
    #[inline]
    unsafe fn try_read_block(
        &self,
        me: Me<'_>,
        file: FileReference,
        offset: u64,
        buffer: *mut u8,
        bytes: usize,
    ) -> Option<Outcome<usize>> {
        let inode = file.inode();
        let look = Snapshot::begin(inode);
        let size = inode.size_bytes.load(Ordering::Acquire);
        if bytes == 0 {
            return Some(Ok(0));
        }
        if offset >= size {
            return look.is_unchanged(inode).then_some(Ok(0));
        }
        let wanted = bytes;
        let bytes = bytes.min((size - offset) as usize);
        self.begin_access(me);
        let index = crate::data::index::Index {
            inode,
            arena: self.session.arena(),
        };
        let file_block = offset / BLOCK as u64;
        let look = BlockSnapshot::begin(index, look, file_block);
        let word = look.word;
        let guess = self.guesses.guess(file.ino.0, file_block);
        let within = offset % BLOCK as u64;
        // SAFETY: the caller's promise.
        let copied = unsafe {
            match word.has_data() && word.place() == guess {
                true => self.copy_run(guess, within, buffer, bytes),
                false => self.copy_unguessed(file.ino, file_block, word, within, buffer, bytes),
            }
        };
        if !look.stands((bytes == wanted).then_some(offset + bytes as u64)) {
            return None;
        }
        if let Err(errno) = copied {
            return Some(Err(errno));
        }
        self.count_read(me, word, within, bytes);
        Some(Ok(bytes))
    }

    /// The block is not where it was thought to be, or not there. Out of line, lest the compiler
    /// choose between two addresses where the CPU should guess a branch.
    ///
    /// # Safety
    /// As `read_raw`.
    #[cold]
    #[inline(never)]
    unsafe fn copy_unguessed(
        &self,
        ino: InodeNumber,
        file_block: u64,
        word: BlockWord,
        within: u64,
        buffer: *mut u8,
        bytes: usize,
    ) -> Outcome<()> {
        if word.has_data() {
            self.guesses.learn(ino.0, file_block, word);
        }
        // SAFETY: the caller's promise.
        unsafe { self.copy_run(word, within, buffer, bytes) }
    }

    #[inline(always)]
    fn count_read(&self, me: Me<'_>, word: BlockWord, within: u64, bytes: usize) {
        if word.has_data() {
            let pool = word.pool().0;
            count(&me.slot.counters.read_bytes[pool as usize], bytes as u64);
            if self.media.len() > 1 && self.pool_here(me) != pool as usize {
                count(&me.slot.counters.remote_bytes, bytes as u64);
            }
            if self.emulated {
                let place = (word.pool(), word.block().offset() + within);
                self.tell_caches(me, place, bytes as u64, AccessKind::Read);
                self.session.emulation().access(
                    &me.slot.emulated,
                    self.node_index(pool),
                    bytes as u64,
                    AccessKind::Read,
                );
            }
        }
    }

    /// On an emulated machine: which bytes are accessed, for its caches.
    #[inline]
    pub(crate) fn tell_caches(
        &self,
        me: Me<'_>,
        (pool, offset): (PoolIndex, PoolOffset),
        bytes: u64,
        kind: AccessKind,
    ) {
        if self.emulated {
            let (thread, node) = (&me.slot.emulated, self.node_index(pool.0));
            let emulation = self.session.emulation();
            emulation.touch(thread, node, (pool, offset), bytes, kind);
        }
    }

    /// Several blocks: nothing may change under an even sequence.
    unsafe fn try_read_blocks(
        &self,
        me: Me<'_>,
        inode: &SessionInode,
        offset: u64,
        buffer: *mut u8,
        bytes: usize,
    ) -> Option<Outcome<usize>> {
        let look = Snapshot::begin(inode);
        if look.write_in_progress() {
            std::hint::spin_loop();
            return None;
        }
        let size = inode.size_bytes.load(Ordering::Acquire);
        if offset >= size {
            return look.is_unchanged(inode).then_some(Ok(0));
        }
        let bytes = bytes.min(usize::try_from(size - offset).unwrap_or(usize::MAX));
        let mut traffic = Traffic::default();
        self.begin_access(me);
        // SAFETY: the caller's promise.
        let outcome = unsafe { self.copy_range(me, inode, offset, buffer, bytes, &mut traffic) };
        if !look.is_unchanged_after_copy(inode) {
            return None;
        }
        if let Err(errno) = outcome {
            return Some(Err(errno));
        }
        self.count_traffic(me, &traffic, AccessKind::Read);
        Some(Ok(bytes))
    }

    /// Read under the inode's lock.
    ///
    /// # Safety
    /// As `read_raw`.
    pub(crate) unsafe fn read_locked(
        &self,
        file: FileReference,
        offset: u64,
        buffer: *mut u8,
        bytes: usize,
    ) -> Outcome<usize> {
        let locked: Locked<'_> = self.lock(file.ino.0)?;
        let size = locked.size_bytes();
        if offset >= size {
            return Ok(0);
        }
        let bytes = bytes.min(usize::try_from(size - offset).unwrap_or(usize::MAX));
        let mut traffic = Traffic::default();
        // SAFETY: the caller's promise.
        unsafe { self.copy_range(locked.me, locked.inode, offset, buffer, bytes, &mut traffic) }?;
        let me = locked.me;
        drop(locked);
        self.count_traffic(me, &traffic, AccessKind::Read);
        Ok(bytes)
    }

    /// Copy a range as the index says now, run by run.
    unsafe fn copy_range(
        &self,
        me: Me<'_>,
        inode: &SessionInode,
        offset: u64,
        buffer: *mut u8,
        bytes: usize,
        traffic: &mut Traffic,
    ) -> Outcome<()> {
        let index = crate::data::index::Index {
            inode,
            arena: self.session.arena(),
        };
        let mut done = 0;
        while done < bytes {
            let at = offset + done as u64;
            let within = at % BLOCK as u64;
            let file_block = at / BLOCK as u64;
            let word = index.load(file_block);
            let mut run = BLOCK - within as usize;
            // Neighbours on media are copied at once.
            while run < bytes - done {
                let next = index.load(file_block + (within + run as u64) / BLOCK as u64);
                if !continues(word, next, (within + run as u64) / BLOCK as u64) {
                    break;
                }
                run += BLOCK;
            }
            let run = run.min(bytes - done);
            // SAFETY: the caller's promise; done + run <= bytes.
            unsafe { self.copy_run(word, within, buffer.wrapping_add(done), run) }?;
            if word.has_data() {
                traffic.add(word.pool().0, run as u64);
                let place = (word.pool(), word.block().offset() + within);
                self.tell_caches(me, place, run as u64, AccessKind::Read);
            }
            done += run;
        }
        Ok(())
    }

    /// Copy from a run that begins with `word`'s block, or zeros.
    #[inline]
    unsafe fn copy_run(
        &self,
        word: BlockWord,
        within: u64,
        buffer: *mut u8,
        bytes: usize,
    ) -> Outcome<()> {
        if !word.has_data() {
            // SAFETY: the caller's promise.
            return unsafe { egeria_media::zero_caller(buffer, bytes) }.map_err(Errno::from);
        }
        let pool = self.pool(word.pool())?;
        // SAFETY: the caller's promise; the pool checks its own bounds.
        unsafe { pool.copy_out(word.block().offset() + within, buffer, bytes) }.map_err(Errno::from)
    }

    /// On an emulated machine: what follows is the access, not the thread's own computing.
    #[inline]
    pub(crate) fn begin_access(&self, me: Me<'_>) {
        if self.emulated {
            self.session.emulation().begin_access(&me.slot.emulated);
        }
    }

    /// Count and, on an emulated machine, charge traffic. Outside all locks.
    pub(crate) fn count_traffic(&self, me: Me<'_>, traffic: &Traffic, kind: AccessKind) {
        let here = self.pool_here(me);
        let counters = &me.slot.counters;
        let mut pools = traffic.pools;
        while pools != 0 {
            let pool = pools.trailing_zeros() as usize;
            pools &= pools - 1;
            let bytes = traffic.bytes[pool];
            let of_pool = if kind == AccessKind::Read {
                &counters.read_bytes
            } else {
                &counters.written_bytes
            };
            count(&of_pool[pool], bytes);
            if pool != here {
                count(&counters.remote_bytes, bytes);
            }
            if self.emulated {
                self.session.emulation().access(
                    &me.slot.emulated,
                    self.node_index(pool as u8),
                    bytes,
                    kind,
                );
            }
        }
    }
}

fn continues(first: BlockWord, next: BlockWord, distance: u64) -> bool {
    if !first.has_data() {
        return !next.has_data();
    }
    next.has_data() && next.pool() == first.pool() && next.block().0 == first.block().0 + distance
}
