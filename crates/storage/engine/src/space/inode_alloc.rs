//! Inode numbers: which are in use (the session's bit maps), and the blocks that hold their records.

use crate::failpoint::{Resource, should_fail};
use crate::format::*;
use crate::session::late::Late;
use crate::session::layout::{NUMBER_PARTS, Numbers};
use crate::session::lock::LockFailure;
use crate::session::{LateWork, References};
use crate::space::free_space::{GIVING_BACK, Need, TURN, Wait};
use crate::space::operation::Operation;
use crate::space::{InodeNumbers, Space};
use crate::types::{Errno, Outcome};
use egeria_media::{PoolIndex, PoolOffset};
use std::sync::atomic::{AtomicU64, Ordering};

impl<'v> InodeNumbers<'v> {
    pub(super) fn inode_map(self, pool: usize) -> &'v [AtomicU64] {
        self.volume
            .session
            .inode_map(pool, self.volume.geometry[pool].inodes())
    }

    /// Which part of a pool's numbers an index belongs to, and the indexes of a part.
    pub(super) fn part_of(self, pool: usize, index: u64) -> usize {
        (index / self.part_size(pool)) as usize % NUMBER_PARTS
    }

    fn part_size(self, pool: usize) -> u64 {
        // Parts share no word of the map.
        let size = self.volume.geometry[pool]
            .inodes()
            .div_ceil(NUMBER_PARTS as u64);
        size.next_multiple_of(64)
    }

    fn part_range(self, pool: usize, part: usize) -> (u64, u64) {
        let (size, end) = (self.part_size(pool), self.volume.geometry[pool].inodes());
        let start = (part as u64 * size).min(end);
        (start, (start + size).min(end))
    }

    pub(super) fn numbers(self, pool: usize, part: usize) -> &'v Numbers {
        &self.volume.session.pool(pool).numbers[part]
    }

    pub(crate) fn inodes_used(self, pool: usize) -> u64 {
        let parts = self.volume.session.pool(pool).numbers.iter();
        parts.map(|part| part.used.load(Ordering::Relaxed)).sum()
    }

    /// While a session is made: note a number as used.
    pub(crate) fn claim_inode(self, pool: usize, index: u64) {
        let word = &self.inode_map(pool)[(index / 64) as usize];
        if word.fetch_or(1 << (index % 64), Ordering::Relaxed) >> (index % 64) & 1 == 0 {
            let part = self.part_of(pool, index);
            self.numbers(pool, part)
                .used
                .fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Take a free number, on the preferred pool if it has one, with a block for its record. The thread's slot names
    /// it until `inode_settled`. Locked parts are skipped as long as there are others. The thread then stays with the
    /// part it found, so that inodes made by several threads at once are in different cache lines.
    pub(crate) fn take_inode(self, operation: &mut Operation<'_>, prefer: usize) -> Outcome<u64> {
        let pools = self.volume.geometry.len();
        let own_part = &operation.me.slot.number_part;
        let first_part = own_part.load(Ordering::Relaxed) as usize;
        if should_fail(Resource::InodeNumber) {
            return Err(Errno(libc::ENOSPC));
        }
        LateWork::of(self.volume).give_back_late(Late::is_space);
        // Numbers that a kernel remembers come last. When all parts with free numbers are locked, they are waited for
        // in turn: one of the holders may be stopped.
        let waits = std::iter::once(Wait::No).chain(std::iter::repeat(Wait::For(TURN)));
        for (wait, remembered) in waits.flat_map(|wait| [(wait, false), (wait, true)]) {
            let (mut failure, mut is_busy) = (Errno(libc::ENOSPC), false);
            for step in 0..pools * NUMBER_PARTS {
                let pool = (prefer + step / NUMBER_PARTS) % pools;
                let part = (first_part + step) % NUMBER_PARTS;
                let place = (pool, part);
                let take = || self.take_inode_in(operation, place, remembered);
                match self.with_numbers(place, wait, take).and_then(|taken| taken) {
                    Ok(ino) => {
                        if is_busy {
                            own_part.store(part as u32, Ordering::Relaxed);
                        }
                        return Ok(ino);
                    }
                    Err(Errno(libc::EBUSY)) => is_busy = true,
                    Err(errno) => failure = errno,
                }
            }
            if remembered && !is_busy {
                return Err(failure);
            }
        }
        Err(Errno(libc::ENOSPC))
    }

    fn take_inode_in(
        self,
        operation: &mut Operation<'_>,
        (pool, part): (usize, usize),
        remembered: bool,
    ) -> Outcome<u64> {
        let numbers = self.numbers(pool, part);
        let map = self.inode_map(pool);
        let index = self.free_number((pool, part), remembered)?;
        self.make_inode_block(operation, pool, index / INODES_PER_BLOCK)?;
        let (_, end) = self.part_range(pool, part);
        self.volume.session.back_inodes_ahead(pool, index, end);
        numbers.next.store(index + 1, Ordering::Relaxed);
        let ino = inode_number(PoolIndex(pool as u8), index);
        let me = operation.me;
        numbers.mover.store(me.index as u64 + 1, Ordering::Release);
        numbers.moving.store(ino, Ordering::Release);
        map[(index / 64) as usize].fetch_or(1 << (index % 64), Ordering::Release);
        numbers.used.fetch_add(1, Ordering::Relaxed);
        me.slot.pending_inode.store(ino, Ordering::Release);
        numbers.moving.store(0, Ordering::Release);
        Ok(ino)
    }

    /// The next free number of a part that has a record, else one that needs a new block of records. Skips numbers
    /// that a kernel remembers, unless `remembered`.
    fn free_number(self, (pool, part): (usize, usize), remembered: bool) -> Outcome<u64> {
        let map = self.inode_map(pool);
        let (start, end) = self.part_range(pool, part);
        let next = self.numbers(pool, part).next.load(Ordering::Relaxed);
        let next = next.clamp(start, end);
        let memories = References::of(self.volume).lookup_reference_maps(pool);
        let taken = |word: usize| {
            let taken = map[word].load(Ordering::Acquire);
            if remembered {
                taken
            } else {
                memories
                    .iter()
                    .flatten()
                    .fold(taken, |taken, map| taken | map[word].load(Ordering::SeqCst))
            }
        };
        let ahead = first_free(taken, next, end);
        if let Some(index) = ahead {
            let at = inode_pointer(&self.volume.geometry[pool], index / INODES_PER_BLOCK);
            let home = self.volume.geometry[pool].record_pool;
            if self.volume.load_word(home, at)? != 0 {
                return Ok(index);
            }
        }
        // Full words are not searched again for each new block of records.
        let full_below = &self.numbers(pool, part).full_below;
        let from = full_below.load(Ordering::Relaxed).clamp(start, next);
        let from = first_free(|word| map[word].load(Ordering::Acquire), from, next).unwrap_or(next);
        full_below.store(from, Ordering::Relaxed);
        first_free(taken, from, next)
            .or(ahead)
            .ok_or(Errno(libc::ENOSPC))
    }

    /// Run under the lock of a part of a pool's numbers; finish what its dead owner began. `EBUSY` when another thread
    /// holds the lock for longer than `wait` says.
    pub(super) fn with_numbers<T>(
        self,
        place: (usize, usize),
        wait: Wait,
        body: impl FnOnce() -> T,
    ) -> Outcome<T> {
        let mutex = &self.numbers(place.0, place.1).mutex;
        let repair = || self.finish_number(place);
        match Space::of(self.volume).lock_space(mutex, wait) {
            Ok(acquired) => Ok(mutex.run_locked(acquired, repair, body)),
            Err(LockFailure::Busy) => Err(Errno(libc::EBUSY)),
            Err(LockFailure::Unusable) => Err(Errno(libc::EIO)),
        }
    }

    fn finish_number(self, (pool, part): (usize, usize)) {
        let numbers = self.numbers(pool, part);
        let map = self.inode_map(pool);
        let ino = numbers.moving.load(Ordering::Acquire);
        let mover = numbers.mover.load(Ordering::Acquire);
        let slot = (mover & !GIVING_BACK)
            .checked_sub(1)
            .and_then(|index| self.volume.session.threads().get(index as usize));
        if let (Some(slot), Some((_, index))) = (slot, inode_place(ino)) {
            let held = slot.pending_inode.load(Ordering::Acquire) == ino;
            let gives_back = mover & GIVING_BACK != 0;
            if gives_back || !held {
                map[(index / 64) as usize].fetch_and(!(1 << (index % 64)), Ordering::Release);
                numbers.full_below.fetch_min(index, Ordering::Relaxed);
            }
            if gives_back && held {
                slot.pending_inode.store(0, Ordering::Release);
            }
        }
        let (start, end) = self.part_range(pool, part);
        let words = map[(start / 64) as usize..end.div_ceil(64) as usize].iter();
        let used = words.map(|word| word.load(Ordering::Relaxed).count_ones() as u64);
        numbers.used.store(used.sum(), Ordering::Relaxed);
        numbers.moving.store(0, Ordering::Release);
    }

    fn make_inode_block(
        self,
        operation: &mut Operation<'_>,
        pool: usize,
        chunk: u64,
    ) -> Outcome<()> {
        let index = PoolIndex(pool as u8);
        let geometry = &self.volume.geometry[pool];
        let at = inode_pointer(geometry, chunk);
        if self.volume.load_word(geometry.record_pool, at)? != 0 {
            return Ok(());
        }
        if geometry.record_pool != index {
            // A removed pool gets no more blocks of records.
            return Err(Errno(libc::ENOSPC));
        }
        let mark = operation.taken();
        // Noted for inode 0, so that the reaper checks whether the pointer names it.
        let taken = operation.take(0, chunk, 1, pool, Need::Ordinary)?;
        if taken.pool != index {
            // A pointer reaches blocks of its own pool only.
            operation.abandon_from(mark);
            return Err(Errno(libc::ENOSPC));
        }
        let media = self.volume.pool(index)?;
        media
            .zero(taken.block.offset(), BLOCK)
            .map_err(|_| Errno(libc::EIO))?;
        // Free records first, then the pointer that makes them reachable.
        media.fence();
        media
            .commit_u64(at, encode_inode_pointer(chunk, taken.block))
            .map_err(|_| Errno(libc::EIO))?;
        operation.keep_from(mark);
        Ok(())
    }

    /// Blocks of a pool that hold records, and tables of pointers to them, of removed pools, too.
    pub(crate) fn record_blocks(self, pool: PoolIndex) -> u64 {
        let homes = self.volume.geometry.iter().enumerate();
        let here = homes.filter(|(_, geometry)| geometry.record_pool == pool);
        here.map(|(index, geometry)| {
            let pointers = (0..geometry.inode_blocks).map(|chunk| inode_pointer(geometry, chunk));
            let is_used =
                |at: &PoolOffset| self.volume.load_word(pool, *at).is_ok_and(|it| it != 0);
            let table = if index == pool.0 as usize {
                0
            } else {
                (geometry.inode_blocks * 8).div_ceil(BLOCK as u64)
            };
            pointers.filter(is_used).count() as u64 + table
        })
        .sum()
    }

    /// Store a new inode's certificate; its commit word stays zero until the commit.
    pub(crate) fn write_certificate(self, certificate: &Certificate) -> Outcome<()> {
        let (pool, at) = self.volume.record_place(certificate.ino)?;
        let media = self.volume.pool(pool)?;
        if self.volume.superblock().version >= FIRST_VERSION_WITH_MOVES
            && self.volume.load_word(pool, at + MOVED_AT)? != 0
        {
            // Of an earlier inode with this number. Durable before the commit, like the certificate.
            media
                .store_u64(at + MOVED_AT, 0)
                .map_err(|_| Errno(libc::EIO))?;
            media.flush(at + MOVED_AT, 8);
        }
        media
            .write_bytes(at + CERTIFICATE_AT, &certificate.encode())
            .map_err(|_| Errno(libc::EIO))?;
        media.flush(at + CERTIFICATE_AT, LINE as u64);
        Ok(())
    }

    /// Generation for the next inode with this number.
    pub(crate) fn next_generation(self, ino: u64) -> Outcome<u32> {
        let (pool, at) = self.volume.record_place(ino)?;
        let mut bytes = [0u8; LINE];
        self.volume
            .read_media(pool, at + CERTIFICATE_AT, &mut bytes)?;
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
