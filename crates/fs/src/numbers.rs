//! Inode numbers: which are in use (the session's bit maps), and the blocks that hold their records.

use crate::format::*;
use crate::inode::Locked;
use crate::log::LogPlace;
use crate::operation::Operation;
use crate::session::layout::{PENDING_EXTENTS, PENDING_LOG};
use crate::slots::Me;
use crate::space::Need;
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
        for step in 0..pools {
            let pool = (prefer + step) % pools;
            let header = self.session.pool(pool);
            // Whatever a dead owner changed is at worst a number out of use until the next session.
            let taken = header
                .inode_mutex
                .with(|| (), || self.take_inode_in(operation, pool));
            match taken {
                Ok(index) => {
                    let ino = inode_number(PoolIndex(pool as u8), index);
                    operation
                        .me
                        .slot
                        .pending_inode
                        .store(ino, Ordering::Release);
                    return Ok(ino);
                }
                Err(errno) => failure = errno,
            }
        }
        Err(failure)
    }

    fn take_inode_in(&self, operation: &mut Operation<'_>, pool: usize) -> Outcome<u64> {
        let header = self.session.pool(pool);
        let map = self.inode_map(pool);
        let hint = header.inode_hint.load(Ordering::Relaxed) as usize % map.len().max(1);
        let word = (hint..map.len())
            .chain(0..hint)
            .find(|word| map[*word].load(Ordering::Relaxed) != u64::MAX);
        let word = word.ok_or(Errno(libc::ENOSPC))?;
        let index = word as u64 * 64 + map[word].load(Ordering::Relaxed).trailing_ones() as u64;
        if index >= self.inodes_of(pool) {
            return Err(Errno(libc::ENOSPC));
        }
        self.make_inode_block(operation, pool, index / INODES_PER_BLOCK)?;
        header.inode_hint.store(word as u64, Ordering::Relaxed);
        map[word].fetch_or(1 << (index % 64), Ordering::Release);
        header.inodes_used.fetch_add(1, Ordering::Relaxed);
        Ok(index)
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

    /// The number taken is committed: no longer this thread's to give back.
    pub(crate) fn inode_settled(&self, me: Me<'_>) {
        me.slot.pending_inode.store(0, Ordering::Release);
    }

    /// Give a number back whose record is free.
    pub(crate) fn free_inode(&self, owner: &AtomicU64, ino: u64) {
        let Some((pool, index)) = inode_place(ino) else {
            return;
        };
        // The slot forgets it first: to die here loses the number until the next session; the other
        // order could take it from its next owner.
        owner.store(0, Ordering::Release);
        let header = self.session.pool(pool.0 as usize);
        header.inode_mutex.with(
            || (),
            || {
                let word = &self.inode_map(pool.0 as usize)[(index / 64) as usize];
                if word.fetch_and(!(1 << (index % 64)), Ordering::Release) >> (index % 64) & 1 == 1
                {
                    header.inodes_used.fetch_sub(1, Ordering::Relaxed);
                }
                header.inode_hint.fetch_min(index / 64, Ordering::Relaxed);
            },
        );
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
        let noted = pages.len() <= PENDING_EXTENTS;
        if !noted {
            free_record()?;
        }
        for page in pages {
            operation.replace(locked.ino, PENDING_LOG, page.pool(), page.block());
        }
        if noted && let Err(errno) = free_record() {
            operation.forget_replaced();
            return Err(errno);
        }
        operation.settle_replaced();
        locked.inode.nlink.store(0, Ordering::Relaxed);
        self.unload(locked);
        self.free_inode(&me.slot.pending_inode, locked.ino);
        Ok(())
    }

    /// All pages of an inode's log.
    pub(crate) fn log_pages(&self, locked: &Locked<'_>) -> Outcome<Vec<LogPosition>> {
        let record = self.read_record(locked.ino)?;
        let mut pages = Vec::new();
        self.walk_log(
            LogPlace {
                generation: record.certificate.generation,
                ..locked.log_place()
            },
            record.commit,
            LogPosition::NONE,
            &mut |page| {
                pages.push(page);
                Ok(())
            },
            &mut |_, _, _| Ok(()),
        )?;
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
