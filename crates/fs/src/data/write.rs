//! Writing file data: copy-on-write, whole blocks copied before the lock is taken, edges under it;
//! appends go in place behind the end of file. One commit per call makes it atomic.

mod edges;

use crate::data::checksums::NewSums;
use crate::data::index::{Index, MAX_FILE_BLOCKS};
use crate::data::mapping::Mapping;
use crate::data::prefetch::prefetch;
use crate::data::traffic::Traffic;
use crate::data::write_rules::WriteRules;
use crate::format::*;
use crate::log::staging::Staged;
use crate::session::inode::Locked;
use crate::session::layout::PENDING_EXTENTS;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::*;
use crate::volume::{FileReference, Volume};
use arrayvec::ArrayVec;
use egeria_media::emulation::AccessKind;
use egeria_media::{PoolIndex, PoolOffset};
use std::sync::atomic::Ordering;

/// Largest file: what `off_t` holds.
pub(crate) const MAX_FILE_BYTES: u64 = i64::MAX as u64;
/// Bytes of one write that commit at once at most; more is written in several commits.
const MAX_COMMIT_BYTES: usize = 1 << 30;

/// Up to here the copy is made under the lock: taking a lock waits for all stores before it, so one
/// taken after the copy would wait for the media twice. Longer copies should not hold others up.
const COPY_UNDER_LOCK_BYTES: usize = 8192;

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    At(u64),
    End,
    /// The rest of an append: only while it is the end that its beginning made.
    Rest(u64),
}

/// A write under way: what was copied and where it shall be mapped.
struct Write<'a, 'o> {
    volume: &'a Volume,
    operation: &'o mut Operation<'a>,
    ino: u64,
    offset: u64,
    source: *const u8,
    bytes: usize,
    prefer: usize,
    /// Runs in file order.
    mappings: ArrayVec<Mapping, PENDING_EXTENTS>,
    sums: NewSums,
    traffic: Traffic,
}

impl Volume {
    /// Write from caller's memory; durable when it returns.
    /// # Safety
    /// As `read_raw`, readable.
    pub unsafe fn write_raw(
        &self,
        file: FileReference,
        offset_bytes: u64,
        buffer: *const u8,
        bytes: usize,
    ) -> Outcome<usize> {
        // SAFETY: the caller's promise.
        unsafe {
            self.write_by(
                file,
                Target::At(offset_bytes),
                buffer,
                bytes,
                WriteRules::default(),
            )
        }
        .map(|(_, bytes)| bytes)
    }

    /// Write at the end of file, atomically; returns the offset it landed at and the bytes written.
    /// # Safety
    /// As `write_raw`.
    pub unsafe fn append_raw(
        &self,
        file: FileReference,
        buffer: *const u8,
        bytes: usize,
    ) -> Outcome<(u64, usize)> {
        // SAFETY: the caller's promise.
        unsafe { self.write_by(file, Target::End, buffer, bytes, WriteRules::default()) }
    }

    /// As `write_raw`, for preload: `EAGAIN` when kernel-cached (decided under the inode's lock), and setuid/setgid
    /// bits are cleared when the caller is not privileged.
    /// # Safety
    /// As `write_raw`.
    pub unsafe fn write_direct(
        &self,
        file: FileReference,
        offset_bytes: u64,
        buffer: *const u8,
        bytes: usize,
    ) -> Outcome<usize> {
        let rules = self.direct_rules(file);
        // SAFETY: the caller's promise.
        unsafe { self.write_by(file, Target::At(offset_bytes), buffer, bytes, rules) }
            .map(|(_, bytes)| bytes)
    }

    /// As `append_raw`, for preload, like `write_direct`.
    /// # Safety
    /// As `append_raw`.
    pub unsafe fn append_direct(
        &self,
        file: FileReference,
        buffer: *const u8,
        bytes: usize,
    ) -> Outcome<(u64, usize)> {
        let rules = self.direct_rules(file);
        // SAFETY: the caller's promise.
        unsafe { self.write_by(file, Target::End, buffer, bytes, rules) }
    }

    fn direct_rules(&self, file: FileReference) -> WriteRules {
        let setid = libc::S_ISUID | libc::S_ISGID;
        // SAFETY: geteuid cannot fail.
        let clear = file.inode().mode.load(Ordering::Relaxed) & setid != 0
            && unsafe { libc::geteuid() } != 0;
        WriteRules {
            direct: true,
            clear_setid: clear,
        }
    }

    unsafe fn write_by(
        &self,
        file: FileReference,
        target: Target,
        source: *const u8,
        bytes: usize,
        rules: WriteRules,
    ) -> Outcome<(u64, usize)> {
        if self.is_read_only() {
            return Err(Errno(libc::EROFS));
        }
        if let (Target::At(offset), BLOCK) = (target, bytes)
            // SAFETY: the caller's promise.
            && let Some(outcome) = unsafe { self.overwrite_block(file, offset, source, rules) }
        {
            return outcome.map(|bytes| (offset, bytes));
        }
        let mut landed = None;
        let mut done = 0;
        let mut at_once = MAX_COMMIT_BYTES;
        loop {
            let target = match (target, landed) {
                (Target::At(offset), _) => Target::At(offset + done as u64),
                (_, None) => Target::End,
                (_, Some(start)) => Target::Rest(start + done as u64),
            };
            let some = (bytes - done).min(at_once);
            // SAFETY: the caller's promise; done + some <= bytes.
            match unsafe { self.write_some(file, target, source.wrapping_add(done), some, rules) } {
                Ok((offset, written)) => {
                    landed.get_or_insert(offset);
                    done += written;
                }
                // The data took the last block, or run of blocks, and left none for the log: less data then.
                Err(Errno(libc::ENOSPC | libc::ENOBUFS)) if some > BLOCK => {
                    at_once = (some / 2).next_multiple_of(BLOCK);
                }
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
            if done >= bytes {
                break;
            }
        }
        Ok((landed.unwrap_or(0), done))
    }

    /// One commit: all of it, or as much as a fragmented pool lets one commit hold.
    unsafe fn write_some(
        &self,
        file: FileReference,
        target: Target,
        source: *const u8,
        bytes: usize,
        rules: WriteRules,
    ) -> Outcome<(u64, usize)> {
        let early = match bytes <= COPY_UNDER_LOCK_BYTES {
            true => Some(self.lock(file.ino.0)?.regular()?),
            false => None,
        };
        let guess = match target {
            Target::At(offset) | Target::Rest(offset) => offset,
            Target::End => file.inode().size_bytes.load(Ordering::Acquire),
        };
        if guess >= MAX_FILE_BYTES && bytes > 0 {
            return Err(Errno(libc::EFBIG));
        }
        let bytes = bytes.min(MAX_FILE_BYTES.saturating_sub(guess) as usize);
        let has_sums = match &early {
            Some(locked) => locked.has_sums(),
            None => self.has_sums(file)?,
        };
        let me = self.me()?;
        let mut operation = Operation::new(self, me);
        let prefer = self.pool_for_data(me);
        let mut write = Write {
            volume: self,
            operation: &mut operation,
            ino: file.ino.0,
            offset: guess,
            source,
            bytes,
            prefer,
            mappings: ArrayVec::new(),
            sums: NewSums::new(has_sums),
            traffic: Traffic::default(),
        };
        self.begin_access(me);
        write.prefetch_words(file);
        write.copy_whole_blocks()?;
        let locked = match early {
            Some(locked) => locked,
            None => self.lock(file.ino.0)?.regular()?,
        };
        if rules.direct && locked.inode.kernel_cached.load(Ordering::Acquire) != 0 {
            return Err(Errno(libc::EAGAIN));
        }
        if target == Target::Rest(guess) && locked.size_bytes() != guess {
            // Others appended between two commits: stop short, overwrite nobody.
            return Err(Errno(libc::EAGAIN));
        }
        if target == Target::End && locked.size_bytes() != write.offset {
            // Somebody appended meanwhile: what was copied belongs elsewhere now.
            write.start_over(locked.size_bytes());
            write.copy_whole_blocks()?;
        }
        if locked.has_sums() != has_sums {
            // The number means another file now.
            return Err(Errno(libc::ESTALE));
        }
        write.commit(&locked, rules)?;
        let (offset, bytes, traffic) = (write.offset, write.bytes, write.traffic);
        drop(locked);
        drop(operation);
        self.count_traffic(me, &traffic, AccessKind::Write);
        self.note_use(me, file, bytes as u64, AccessKind::Write);
        Ok((offset, bytes))
    }
}

impl<'a> Write<'a, '_> {
    fn end(&self) -> u64 {
        self.offset + self.bytes as u64
    }

    /// Note data written to a pool.
    #[inline]
    fn wrote(&mut self, pool: PoolIndex, offset: PoolOffset, bytes: usize) {
        self.traffic.add(pool.0, bytes as u64);
        let me = self.operation.me;
        self.volume
            .tell_caches(me, (pool, offset), bytes as u64, AccessKind::Write);
    }

    /// Bring the first word of the index near while the copy is made: it is the one load that misses.
    #[inline]
    fn prefetch_words(&self, file: FileReference) {
        let index = Index {
            inode: file.inode(),
            arena: self.volume.session.arena(),
        };
        if let Some(slot) = index.slot(self.offset / BLOCK as u64) {
            prefetch(slot);
        }
    }

    fn start_over(&mut self, offset: u64) {
        self.operation.abandon_from(0);
        self.mappings.clear();
        self.sums.clear();
        self.traffic = Traffic::default();
        self.offset = offset;
        self.bytes = self
            .bytes
            .min((MAX_FILE_BYTES - offset.min(MAX_FILE_BYTES)) as usize);
    }

    /// Copy every block the write covers whole to new blocks. Shortens the write when one commit cannot
    /// hold all the runs.
    fn copy_whole_blocks(&mut self) -> Outcome<()> {
        let mut block = self.offset.div_ceil(BLOCK as u64);
        let end = self.end() / BLOCK as u64;
        while block < end {
            if !self.operation.has_room() {
                self.bytes = (block * BLOCK as u64 - self.offset) as usize;
                break;
            }
            let taken =
                match self
                    .operation
                    .take(self.ino, block, end - block, self.prefer, Need::Ordinary)
                {
                    Ok(taken) => taken,
                    // Part of a write is better than none, as other file systems do it.
                    Err(Errno(libc::ENOSPC))
                        if block * BLOCK as u64 > self.offset && !self.mappings.is_empty() =>
                    {
                        self.bytes = (block * BLOCK as u64 - self.offset) as usize;
                        break;
                    }
                    Err(errno) => return Err(errno),
                };
            let from = self
                .source
                .wrapping_add((block * BLOCK as u64 - self.offset) as usize);
            let bytes = taken.count as usize * BLOCK;
            let sums_at = self.sums.count();
            // SAFETY: the caller of the write promised its memory (or the guard catches the fault).
            unsafe { self.copy_run(taken, from) }?;
            self.wrote(taken.pool, taken.block.offset(), bytes);
            self.mappings.push(Mapping {
                file_block: block,
                count: taken.count,
                pool: taken.pool,
                block: taken.block,
                unwritten: false,
                sums_at,
            });
            block += taken.count;
        }
        Ok(())
    }

    /// Copy the caller's bytes to a whole run.
    ///
    /// # Safety
    /// As `write_raw`.
    unsafe fn copy_run(&mut self, run: Extent, from: *const u8) -> Outcome<()> {
        if self.sums.wanted {
            let place = (run.pool, run.block);
            // SAFETY: by contract.
            return unsafe {
                self.sums
                    .store_blocks_of_caller(self.volume, place, run.count, from)
            };
        }
        let pool = self.volume.pool(run.pool)?;
        // SAFETY: by contract.
        unsafe { pool.copy_in(run.block.offset(), from, run.count as usize * BLOCK) }
            .map_err(Errno::from)
    }

    /// Edges, entries, commit, index: under the lock.
    fn commit(&mut self, locked: &Locked<'_>, rules: WriteRules) -> Outcome<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let size = locked.size_bytes();
        self.zero_gap(locked, size)?;
        let first = self.offset / BLOCK as u64;
        let last = (self.end() - 1) / BLOCK as u64;
        let head_is_edge =
            !self.offset.is_multiple_of(BLOCK as u64) || self.end() < (first + 1) * BLOCK as u64;
        let tail_is_edge = last > first && !self.end().is_multiple_of(BLOCK as u64);
        if tail_is_edge {
            self.copy_edge(locked, size, last)?;
        }
        if head_is_edge {
            self.copy_edge(locked, size, first)?;
        }
        self.mappings
            .sort_unstable_by_key(|mapping| mapping.file_block);
        let new_size = size.max(self.end());
        let time_ns = self.volume.now_ns();
        self.volume.compact_if_due(locked, self.operation);
        let mut staged = Staged::begin(locked, Need::Ordinary)?;
        self.stage(locked, &mut staged, new_size, time_ns, rules)?;
        for mapping in &self.mappings {
            locked.index().reserve(mapping.file_block, mapping.count)?;
        }
        // From here on the caller's memory is not needed.
        let _direct = rules.begin_commit(locked.inode)?;
        self.operation.commit(&[&staged])?;
        let (mappings, sums) = (&self.mappings, &self.sums);
        let operation = &mut *self.operation;
        self.volume.apply_commit(locked, &staged, || {
            for mapping in mappings {
                self.volume
                    .apply_mapping(locked, operation, *mapping, sums.of(mapping), false);
            }
            let inode = locked.inode;
            inode.size_bytes.store(new_size, Ordering::Release);
            inode.mtime_ns.store(time_ns as u64, Ordering::Relaxed);
            inode.ctime_ns.store(time_ns as u64, Ordering::Relaxed);
            if rules.clear_setid {
                inode.mode.store(
                    without_setid(inode.mode.load(Ordering::Relaxed)),
                    Ordering::Relaxed,
                );
            }
            Ok(())
        })?;
        operation.finish();
        Ok(())
    }

    fn stage(
        &mut self,
        locked: &Locked<'_>,
        staged: &mut Staged,
        size_bytes: u64,
        time_ns: i64,
        rules: WriteRules,
    ) -> Outcome<()> {
        if rules.clear_setid {
            let state = locked.attribute_state();
            // With the new size: the old one, applied twice, would cut the write off.
            let state = AttributeState {
                mode: without_setid(state.mode),
                size_bytes,
                ..state
            };
            staged.add(self.operation, &Entry::Attributes(state), time_ns)?;
        }
        if self.mappings.is_empty() {
            // All bytes went in place behind the end of file: only the size is news.
            let mapping = Mapping {
                file_block: 0,
                count: 0,
                pool: egeria_media::PoolIndex(0),
                block: egeria_media::BlockNumber(0),
                unwritten: false,
                sums_at: 0,
            };
            return staged.add_mapping(self.operation, &mapping, &[], size_bytes, time_ns);
        }
        for mapping in &self.mappings {
            let sums = self.sums.of(mapping);
            staged.add_mapping(self.operation, mapping, sums, size_bytes, time_ns)?;
        }
        Ok(())
    }

    /// Bytes between the old end of file and the write, in the block that holds the old end: they were
    /// never part of the file and may hold anything; zero them before the size makes them visible.
    fn zero_gap(&mut self, locked: &Locked<'_>, size: u64) -> Outcome<()> {
        if self.offset > size {
            self.volume.zero_behind_end(locked, size, self.offset)?;
        }
        Ok(())
    }
}

fn zero(pool: &egeria_media::Pool, block: PoolOffset, from: u64, to: u64) -> Outcome<()> {
    if from < to {
        pool.zero(block + from, (to - from) as usize)
            .map_err(Errno::from)?;
    }
    Ok(())
}

/// The mode after a write by somebody unprivileged: no setuid; no setgid where it means execution.
pub(crate) fn without_setid(mode: u32) -> u32 {
    let setgid = if mode & libc::S_IXGRP != 0 {
        libc::S_ISGID
    } else {
        0
    };
    mode & !(libc::S_ISUID | setgid)
}

impl Volume {
    /// Zero, in place, the bytes behind the end of file up to `to` in the block that holds the end.
    pub(crate) fn zero_behind_end(&self, locked: &Locked<'_>, size: u64, to: u64) -> Outcome<()> {
        let within = size % BLOCK as u64;
        let word = locked.index().load(size / BLOCK as u64);
        // Where blocks have checksums, these bytes are zeros.
        if within == 0 || !word.has_data() || locked.has_sums() {
            return Ok(());
        }
        let end = (size - within + BLOCK as u64).min(to);
        zero(
            self.pool(word.pool())?,
            word.block().offset(),
            within,
            within + (end - size),
        )
    }

    /// Blocks of the largest file must be indexable.
    #[allow(dead_code)]
    const ASSERT_RANGE: () = assert!(MAX_FILE_BLOCKS >= MAX_FILE_BYTES / BLOCK as u64);
}
