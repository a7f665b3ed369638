//! Inode numbers: which are in use (the session's bit maps), and the blocks that hold their records.

use crate::format::*;
use crate::inode::Locked;
use crate::log::LogPlace;
use crate::operation::{Operation, note_pages};
use crate::refusal::{Resource, is_refused};
use crate::session::layout::{LOSING_USE, ThreadSlot};
use crate::slots::Me;
use crate::space::{GIVING_BACK, Need};
use crate::types::{Errno, Outcome};
use crate::volume::Volume;
use egeria_media::PoolIndex;
use std::sync::atomic::{AtomicU64, Ordering};

impl Volume {
    pub(crate) fn inodes_of(&self, pool: usize) -> u64 {
        self.geometry[pool].inode_blocks * INODES_PER_BLOCK
    }

    fn inode_map(&self, pool: usize) -> &[AtomicU64] {
        self.session.inode_map(pool, self.inodes_of(pool))
    }

    /// While a session is made: note a number as used.
    pub(crate) fn claim_inode(&self, pool: usize, index: u64) {
        let word = &self.inode_map(pool)[(index / 64) as usize];
        if word.fetch_or(1 << (index % 64), Ordering::Relaxed) >> (index % 64) & 1 == 0 {
            self.session
                .pool(pool)
                .inodes_used
                .fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Take a free number, on the preferred pool if it has one, with a block for its record. The
    /// thread's slot names it until `inode_settled`.
    pub(crate) fn take_inode(&self, operation: &mut Operation<'_>, prefer: usize) -> Outcome<u64> {
        let pools = self.geometry.len();
        let mut failure = Errno(libc::ENOSPC);
        if is_refused(Resource::InodeNumber) {
            return Err(failure);
        }
        for step in 0..pools {
            let pool = (prefer + step) % pools;
            let taken = self.with_numbers(pool, || self.take_inode_in(operation, pool));
            match taken.and_then(|taken| taken) {
                Ok(ino) => return Ok(ino),
                Err(errno) => failure = errno,
            }
        }
        Err(failure)
    }

    fn take_inode_in(&self, operation: &mut Operation<'_>, pool: usize) -> Outcome<u64> {
        let header = self.session.pool(pool);
        let map = self.inode_map(pool);
        let index = self.free_number(pool)?;
        self.make_inode_block(operation, pool, index / INODES_PER_BLOCK)?;
        header.inode_next.store(index + 1, Ordering::Relaxed);
        let ino = inode_number(PoolIndex(pool as u8), index);
        let me = operation.me;
        header
            .inode_mover
            .store(me.index as u64 + 1, Ordering::Release);
        header.inode_moving.store(ino, Ordering::Release);
        map[(index / 64) as usize].fetch_or(1 << (index % 64), Ordering::Release);
        header.inodes_used.fetch_add(1, Ordering::Relaxed);
        me.slot.pending_inode.store(ino, Ordering::Release);
        header.inode_moving.store(0, Ordering::Release);
        Ok(ino)
    }

    /// The next free number that no kernel remembers and that has a record, else one that needs a new block
    /// of records; when kernels remember all that are free, one of those.
    fn free_number(&self, pool: usize) -> Outcome<u64> {
        let (map, end) = (self.inode_map(pool), self.inodes_of(pool));
        let next = self.session.pool(pool).inode_next.load(Ordering::Relaxed);
        let remembered = self.remembered_maps(pool);
        let resting = |word: usize| {
            let maps = remembered.iter().flatten();
            maps.fold(map[word].load(Ordering::Acquire), |taken, map| {
                taken | map[word].load(Ordering::SeqCst)
            })
        };
        let ahead = first_free(resting, next, end);
        if let Some(index) = ahead {
            let at = inode_pointer(&self.geometry[pool], index / INODES_PER_BLOCK);
            if self.load_word(PoolIndex(pool as u8), at)? != 0 {
                return Ok(index);
            }
        }
        let taken = |word: usize| map[word].load(Ordering::Relaxed);
        first_free(resting, 0, next.min(end))
            .or(ahead)
            .or_else(|| first_free(taken, next, end))
            .or_else(|| first_free(taken, 0, next.min(end)))
            .ok_or(Errno(libc::ENOSPC))
    }

    /// Run under the lock of a pool's numbers; finish what its dead owner began.
    fn with_numbers<T>(&self, pool: usize, body: impl FnOnce() -> T) -> Outcome<T> {
        let mutex = &self.session.pool(pool).inode_mutex;
        mutex.with(|| self.finish_number(pool), body)
    }

    fn finish_number(&self, pool: usize) {
        let header = self.session.pool(pool);
        let map = self.inode_map(pool);
        let ino = header.inode_moving.load(Ordering::Acquire);
        let mover = header.inode_mover.load(Ordering::Acquire);
        let slot = (mover & !GIVING_BACK)
            .checked_sub(1)
            .and_then(|index| self.session.threads().get(index as usize));
        if let (Some(slot), Some((_, index))) = (slot, inode_place(ino)) {
            let held = slot.pending_inode.load(Ordering::Acquire) == ino;
            let gives_back = mover & GIVING_BACK != 0;
            if gives_back || !held {
                map[(index / 64) as usize].fetch_and(!(1 << (index % 64)), Ordering::Release);
            }
            if gives_back && held {
                slot.pending_inode.store(0, Ordering::Release);
            }
        }
        let used = map
            .iter()
            .map(|word| word.load(Ordering::Relaxed).count_ones() as u64);
        header.inodes_used.store(used.sum(), Ordering::Relaxed);
        header.inode_moving.store(0, Ordering::Release);
    }

    fn make_inode_block(
        &self,
        operation: &mut Operation<'_>,
        pool: usize,
        chunk: u64,
    ) -> Outcome<()> {
        let index = PoolIndex(pool as u8);
        let at = inode_pointer(&self.geometry[pool], chunk);
        if self.load_word(index, at)? != 0 {
            return Ok(());
        }
        let mark = operation.taken();
        // Noted for inode 0, so that whoever reaps looks whether the pointer names it.
        let taken = operation.take(0, chunk, 1, pool, Need::Ordinary)?;
        if taken.pool != index {
            // A pointer reaches blocks of its own pool only.
            operation.abandon_from(mark);
            return Err(Errno(libc::ENOSPC));
        }
        let media = self.pool(index)?;
        media
            .zero(taken.block.offset(), BLOCK)
            .map_err(|_| Errno(libc::EIO))?;
        // Free records first, then the pointer that makes them be.
        media.fence();
        media
            .commit_u64(at, encode_inode_pointer(chunk, taken.block))
            .map_err(|_| Errno(libc::EIO))?;
        operation.keep_from(mark);
        Ok(())
    }

    /// An inode is about to lose its last name or open: should this thread die, whoever reaps it
    /// deletes the inode if it is unused then. Until `inode_settled`.
    pub(crate) fn inode_losing(&self, me: Me<'_>, ino: u64) {
        me.slot
            .pending_inode
            .store(ino | LOSING_USE, Ordering::Release);
    }

    /// The number taken is committed, the inode deleted or in use: no longer this thread's to settle.
    pub(crate) fn inode_settled(&self, me: Me<'_>) {
        me.slot.pending_inode.store(0, Ordering::Release);
    }

    /// Give the number back that a slot names as pending; its record is free.
    pub(crate) fn free_inode(&self, slot: &ThreadSlot, ino: u64) {
        let Some((pool, index)) = inode_place(ino) else {
            return;
        };
        let header = self.session.pool(pool.0 as usize);
        // A number that cannot be given back is lost until the next session.
        let _ = self.with_numbers(pool.0 as usize, || {
            if slot.pending_inode.load(Ordering::Acquire) != ino {
                // Given back for a dead owner by whoever locked the numbers first.
                return;
            }
            let mover = (self.index_of_slot(slot) as u64 + 1) | GIVING_BACK;
            header.inode_mover.store(mover, Ordering::Release);
            header.inode_moving.store(ino, Ordering::Release);
            let word = &self.inode_map(pool.0 as usize)[(index / 64) as usize];
            if word.fetch_and(!(1 << (index % 64)), Ordering::Release) >> (index % 64) & 1 == 1 {
                header.inodes_used.fetch_sub(1, Ordering::Relaxed);
            }
            slot.pending_inode.store(0, Ordering::Release);
            header.inode_moving.store(0, Ordering::Release);
        });
    }

    /// Delete an inode without names and opens: its data, its log, its record.
    pub(crate) fn delete_inode(&self, locked: &Locked<'_>) -> Outcome<()> {
        let me = locked.me;
        me.slot.pending_inode.store(locked.ino, Ordering::Release);
        let mut operation = Operation::new(self, me);
        // The orphan mark is durable: recovery would delete it too, so its blocks may go one by one.
        if locked.kind() == crate::FileKind::Directory {
            self.drop_table(locked.inode);
        } else {
            self.apply_hole(
                locked,
                &mut operation,
                0,
                crate::index::MAX_FILE_BLOCKS,
                false,
            );
            operation.settle_replaced();
        }
        let pages = self.log_pages(locked).unwrap_or_default();
        let (pool, at) = self.record_place(locked.ino)?;
        let media = self.pool(pool)?;
        let free_record = || {
            media
                .commit_u64(at + COMMIT_WORD_AT, 0)
                .map_err(|_| Errno(libc::EIO))
        };
        // Pages are noted while the record still names them, so that none is lost with their owner;
        // more of them than can be noted are freed behind the record.
        let noted = operation.can_note(pages.len());
        if !noted {
            free_record()?;
        }
        note_pages(locked.ino, &mut operation, &pages);
        if noted && let Err(errno) = free_record() {
            operation.forget_replaced();
            return Err(errno);
        }
        operation.settle_replaced();
        locked.inode.nlink.store(0, Ordering::Relaxed);
        self.unload(locked);
        self.free_inode(me.slot, locked.ino);
        Ok(())
    }

    /// All pages of an inode's log.
    pub(crate) fn log_pages(&self, locked: &Locked<'_>) -> Outcome<Vec<LogPosition>> {
        let record = self.read_record(locked.ino)?;
        let place = LogPlace {
            generation: record.certificate.generation,
            ..locked.log_place()
        };
        let mut pages = Vec::new();
        self.walk_pages(place, record.commit, &mut |page| {
            pages.push(page);
            Ok(())
        })?;
        Ok(pages)
    }

    /// Store a new inode's certificate; its commit word stays zero until the commit.
    pub(crate) fn write_certificate(&self, certificate: &Certificate) -> Outcome<()> {
        let (pool, at) = self.record_place(certificate.ino)?;
        let media = self.pool(pool)?;
        media
            .write_bytes(at + CERTIFICATE_AT, &certificate.encode())
            .map_err(|_| Errno(libc::EIO))?;
        media.flush(at + CERTIFICATE_AT, LINE as u64);
        Ok(())
    }

    /// Generation for the next life of a number.
    pub(crate) fn next_generation(&self, ino: u64) -> Outcome<u32> {
        let (pool, at) = self.record_place(ino)?;
        let mut bytes = [0u8; LINE];
        self.read_media(pool, at + CERTIFICATE_AT, &mut bytes)?;
        Ok(Certificate::decode(&bytes, ino).map_or(1, |old| old.generation.wrapping_add(1).max(1)))
    }
}

/// The first clear bit from `start` on, below `end`.
fn first_free(words: impl Fn(usize) -> u64, start: u64, end: u64) -> Option<u64> {
    let mut index = start;
    while index < end {
        let word = words((index / 64) as usize) | ((1 << (index % 64)) - 1);
        if word != u64::MAX {
            let free = index / 64 * 64 + u64::from(word.trailing_ones());
            return (free < end).then_some(free);
        }
        index = (index / 64 + 1) * 64;
    }
    None
}
