//! Writing file data: copy-on-write, whole blocks copied before the lock is taken, edges under it;
//! appends go in place behind the end of file. One commit per call makes it atomic.

pub(super) mod edges;

use crate::data::delegation::Delegation;
use crate::data::prefetch::prefetch;
use crate::data::write_rules::WriteRules;
use crate::data::{Delegating, Reading, Writing};
use crate::format::*;
use crate::log::Log;
use crate::log::checksums::NewSums;
use crate::log::mapping::Mapping;
use crate::log::staging::Staged;
use crate::session::access::{Access, Run};
use crate::session::admission::Admitted;
use crate::session::index::{Index, MAX_FILE_BLOCKS};
use crate::session::inode::Locked;
use crate::session::layout::PENDING_EXTENTS;
use crate::session::path_mode::PathMode;
use crate::session::traffic::Traffic;
use crate::session::volume::{FileReference, Volume};
use crate::session::{Admitting, Quotas, Stamps};
use crate::space::Placing;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::space::placement::Placement;
use crate::types::*;
use arrayvec::ArrayVec;
use egeria_media::CallerSource;
use egeria_media::emulation::AccessKind;
use std::sync::atomic::Ordering;

/// Largest file: what `off_t` holds.
pub(crate) const MAX_FILE_BYTES: u64 = i64::MAX as u64;
/// Maximum bytes of a write in one commit; longer writes take several commits.
const MAX_COMMIT_BYTES: usize = 1 << 30;

/// Up to this size the copy is made under the lock. Taking a lock waits for all stores before it, so a lock taken
/// after the copy would wait for the media twice. Longer copies must not hold up other threads.
const COPY_UNDER_LOCK_BYTES: usize = 8192;

/// Target position of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    At(u64),
    End,
    /// The rest of an append: valid only while the end of file is where the first part left it.
    Rest(u64),
}

impl Target {
    /// The offset in a file of this size; `None`: behind its end, or the rest of an append that is no longer the end.
    #[inline(always)]
    pub(crate) fn offset_inside(self, size_bytes: u64) -> Option<u64> {
        match self {
            Target::At(offset) => (offset <= size_bytes).then_some(offset),
            Target::End => Some(size_bytes),
            Target::Rest(offset) => (offset == size_bytes).then_some(offset),
        }
    }

    /// The offset, as far as it is known without a lock.
    fn guess(self, file: FileReference) -> u64 {
        match self {
            Target::At(offset) | Target::Rest(offset) => offset,
            Target::End => file.inode().size_bytes.load(Ordering::Acquire),
        }
    }
}

/// A write as its caller asks for it.
#[derive(Clone, Copy)]
struct WriteCall<'a> {
    file: FileReference,
    target: Target,
    from: CallerSource<'a>,
    rules: WriteRules,
}

/// A write in progress: the blocks copied and where to map them.
struct Write<'a, 'o> {
    volume: &'a Volume,
    operation: &'o mut Operation<'a>,
    ino: u64,
    offset: u64,
    source: CallerSource<'a>,
    bytes: usize,
    placement: Placement<'a>,
    /// What new blocks may be taken from.
    need: Need,
    /// Runs in file order.
    mappings: ArrayVec<Mapping, PENDING_EXTENTS>,
    sums: NewSums,
    access: Access<'a>,
}

impl<'v> Writing<'v> {
    /// Every write: to a striped file perhaps by delegates, else by this thread.
    pub(crate) fn write_with_rules(
        self,
        file: FileReference,
        target: Target,
        from: CallerSource<'_>,
        rules: WriteRules,
    ) -> Outcome<(u64, usize)> {
        if self.volume.is_read_only() {
            return Err(Errno(libc::EROFS));
        }
        let call = WriteCall {
            file,
            target,
            from,
            rules,
        };
        if Delegating::of(self.volume).may_delegate(file) {
            self.write_by_delegates(call)
        } else {
            self.write_by_fastest(call, None)
        }
    }

    /// A write to a striped file while long accesses are delegated.
    #[cold]
    fn write_by_delegates(self, call: WriteCall<'_>) -> Outcome<(u64, usize)> {
        let me = self.volume.me()?;
        let long =
            Delegating::of(self.volume).long_access(me, AccessKind::Write, call.from.bytes());
        let delegation = long.as_ref().and_then(|long| long.delegation.as_ref());
        let outcome = self.write_by_fastest(call, delegation);
        if let (Ok(_), Some(long)) = (&outcome, long) {
            long.end();
        }
        outcome
    }

    /// Try the fast paths, then write in commits; after admission, where accesses are limited. Delegates ask for
    /// admission themselves.
    #[inline(always)]
    fn write_by_fastest(
        self,
        call: WriteCall<'_>,
        delegation: Option<&Delegation<'_>>,
    ) -> Outcome<(u64, usize)> {
        if delegation.is_none() && self.volume.path_mode().is_limited() {
            return self.write_admitted(call);
        }
        if let Some(outcome) = self.try_fast_paths(call, delegation, PathMode::NORMAL) {
            return outcome;
        }
        self.write_in_commits(call, delegation)
    }

    #[cold]
    fn write_admitted(self, call: WriteCall<'_>) -> Outcome<(u64, usize)> {
        // Held until this returns.
        let admitted = self.admit_write(call.file, call.target, call.from.bytes())?;
        if admitted.holds_any()
            && let Some(outcome) = self.try_fast_paths(call, None, PathMode::LIMITED)
        {
            return outcome;
        }
        self.write_in_commits(call, None)
    }

    /// The ways of writes in place, of whole blocks, and of other short writes. `None`: none applies.
    #[inline(always)]
    fn try_fast_paths(
        self,
        call: WriteCall<'_>,
        delegation: Option<&Delegation<'_>>,
        mode: PathMode,
    ) -> Option<Outcome<(u64, usize)>> {
        let WriteCall {
            file, from, rules, ..
        } = call;
        if let Target::At(offset) = call.target {
            if file.inode().is_written_in_place()
                && let Some(outcome) =
                    self.overwrite_in_place(file, offset, from, rules, delegation)
            {
                return Some(outcome.map(|bytes| (offset, bytes)));
            }
            if let Some(bytes) = self.overwrite_block(file, offset, from, rules, mode) {
                return Some(Ok((offset, bytes)));
            }
        }
        let offset = self.write_short(file, call.target, from, rules, mode)?;
        Some(Ok((offset, from.bytes())))
    }

    /// Write in one commit, or in several if the data is long or the space is fragmented.
    fn write_in_commits(
        self,
        call: WriteCall<'_>,
        delegation: Option<&Delegation<'_>>,
    ) -> Outcome<(u64, usize)> {
        let mut landed = None;
        let mut done = 0;
        let mut at_once = MAX_COMMIT_BYTES;
        let mut may_reap = !call.rules.replaces;
        loop {
            let target = match (call.target, landed) {
                (Target::At(offset), _) => Target::At(offset + done as u64),
                (_, None) => Target::End,
                (_, Some(start)) => Target::Rest(start + done as u64),
            };
            let from = call.from.after(done).first(at_once);
            let part = WriteCall {
                target,
                from,
                ..call
            };
            match self.write_one_commit(part, delegation) {
                Ok((offset, written)) => {
                    landed.get_or_insert(offset);
                    done += written;
                }
                // The data took the last block, or run of blocks, and left none for the log, or it exceeds a limit:
                // write less data.
                Err(Errno(libc::ENOSPC | libc::ENOBUFS | libc::EDQUOT)) if from.bytes() > BLOCK => {
                    at_once = (from.bytes() / 2).next_multiple_of(BLOCK);
                }
                Err(Errno(libc::ENOSPC)) if may_reap && self.volume.reap_for_space() => {
                    (may_reap, at_once) = (false, MAX_COMMIT_BYTES);
                }
                Err(Errno(libc::EDQUOT)) if may_reap && self.volume.reap_for_quota(call.file) => {
                    (may_reap, at_once) = (false, MAX_COMMIT_BYTES);
                }
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
            if done >= call.from.bytes() {
                break;
            }
        }
        Ok((landed.unwrap_or(0), done))
    }

    /// Ask for admission to the pools that new blocks come from.
    #[cold]
    fn admit_write(
        self,
        file: FileReference,
        target: Target,
        bytes: usize,
    ) -> Outcome<Admitted<'v>> {
        let me = self.volume.me()?;
        let placement = Placing::of(self.volume).placement(me, file.inode());
        let mut at = target.guess(file);
        let end = at.saturating_add(bytes as u64);
        let end_block = end.div_ceil(BLOCK as u64);
        let mut traffic = Traffic::default();
        // A write of nothing asks, too.
        loop {
            let block = at / BLOCK as u64;
            let (pool, count) = placement.run_for(file.ino.0, block, end_block.max(block + 1));
            let next = (block + count).saturating_mul(BLOCK as u64).min(end);
            traffic.add(pool as u8, next - at);
            at = next;
            if at >= end {
                break;
            }
        }
        Admitting::of(self.volume).admit(me, file.ino.0, AccessKind::Write, &traffic)
    }

    /// One commit: of all data, or of as much as one commit can map in a fragmented pool.
    fn write_one_commit(
        self,
        call: WriteCall<'_>,
        delegation: Option<&Delegation<'_>>,
    ) -> Outcome<(u64, usize)> {
        let WriteCall {
            file,
            target,
            from: source,
            rules,
        } = call;
        let bytes = source.bytes();
        let early = if bytes <= COPY_UNDER_LOCK_BYTES {
            Some(self.volume.lock(file.ino.0)?.regular()?)
        } else {
            None
        };
        let guess = target.guess(file);
        if guess >= MAX_FILE_BYTES && bytes > 0 {
            return Err(Errno(libc::EFBIG));
        }
        let bytes = bytes.min(MAX_FILE_BYTES.saturating_sub(guess) as usize);
        let has_sums = match &early {
            Some(locked) => locked.has_sums(),
            None => Reading::of(self.volume).has_sums(file)?,
        };
        let me = self.volume.me()?;
        let mut operation = Operation::new(self.volume, me);
        let placement = Placing::of(self.volume).placement(me, file.inode());
        let mut write = Write {
            volume: self.volume,
            operation: &mut operation,
            ino: file.ino.0,
            offset: guess,
            source,
            bytes,
            placement,
            need: need_of(early.as_ref(), guess, bytes, rules),
            mappings: ArrayVec::new(),
            sums: NewSums::new(has_sums),
            access: Access::begin_long(
                self.volume,
                me,
                AccessKind::Write,
                delegation.filter(|_| !has_sums),
            ),
        };
        write.prefetch_words(file);
        write.copy_whole_blocks()?;
        let locked = match early {
            Some(locked) => locked,
            None => self.volume.lock(file.ino.0)?.regular()?,
        };
        if rules.direct && locked.inode.kernel_cached.load(Ordering::Acquire) != 0 {
            return Err(Errno(libc::EAGAIN));
        }
        if target == Target::Rest(guess) && locked.size_bytes() != guess {
            // Another append came between two commits: stop here, and do not overwrite its data.
            return Err(Errno(libc::EAGAIN));
        }
        if target == Target::End && locked.size_bytes() != write.offset {
            // Another append came first: the copy belongs to another offset now.
            write.start_over(locked.size_bytes());
            write.copy_whole_blocks()?;
        }
        if locked.has_sums() != has_sums {
            // The number belongs to another file now.
            return Err(Errno(libc::ESTALE));
        }
        write.commit(&locked, rules)?;
        let (offset, bytes, access) = (write.offset, write.bytes, write.access);
        drop(locked);
        drop(operation);
        access.end();
        self.volume
            .note_use(me, file, bytes as u64, AccessKind::Write);
        Ok((offset, bytes))
    }
}

impl<'a> Write<'a, '_> {
    fn end(&self) -> u64 {
        self.offset + self.bytes as u64
    }

    /// Prefetch the first word of the index during the copy: it is the one load that misses the caches.
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
        self.access.start_over();
        self.offset = offset;
        self.bytes = self
            .bytes
            .min((MAX_FILE_BYTES - offset.min(MAX_FILE_BYTES)) as usize);
    }

    /// Copy every block that the write covers completely to new blocks. Shortens the write when one commit cannot hold
    /// all runs.
    fn copy_whole_blocks(&mut self) -> Outcome<()> {
        let mut block = self.offset.div_ceil(BLOCK as u64);
        let end = self.end() / BLOCK as u64;
        while block < end {
            if !self.operation.has_room() {
                self.bytes = (block * BLOCK as u64 - self.offset) as usize;
                break;
            }
            let (prefer, count) = self.placement.run_for(self.ino, block, end);
            let taken = match self
                .operation
                .take(self.ino, block, count, prefer, self.need)
            {
                Ok(taken) => taken,
                // A partial write is better than none; other file systems do the same.
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
                .after((block * BLOCK as u64 - self.offset) as usize);
            let sums_at = self.sums.count();
            self.copy_run(taken, from.first(taken.count as usize * BLOCK))?;
            self.mappings.push(Mapping::to(taken, block, sums_at));
            block += taken.count;
        }
        if self.access.settle() {
            Ok(())
        } else {
            self.copy_mapped_blocks()
        }
    }

    /// Copy again to the blocks that were taken.
    fn copy_mapped_blocks(&mut self) -> Outcome<()> {
        for at in 0..self.mappings.len() {
            let mapping = self.mappings[at];
            let from = (self.source)
                .after((mapping.file_block * BLOCK as u64 - self.offset) as usize)
                .first(mapping.count as usize * BLOCK);
            let run = Run {
                pool: mapping.pool,
                at: mapping.block.offset(),
                bytes: from.bytes(),
            };
            self.access.copy_in(run, from)?;
        }
        Ok(())
    }

    /// Copy the caller's bytes to a whole run.
    fn copy_run(&mut self, taken: Extent, from: CallerSource<'_>) -> Outcome<()> {
        let run = Run {
            pool: taken.pool,
            at: taken.block.offset(),
            bytes: from.bytes(),
        };
        let (volume, sums) = (self.volume, &mut self.sums);
        if sums.wanted {
            self.access.run(run, |_| {
                let place = (taken.pool, taken.block);
                sums.store_blocks_of_caller(volume, place, taken.count, from)
            })
        } else {
            self.access.copy_in(run, from)
        }
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
        let new_blocks = || locked.unmapped_blocks(&self.mappings);
        let _charge = Quotas::of(self.volume).reserve(locked, new_blocks)?;
        let time_ns = Stamps::of(self.volume).stamp_ns(locked.inode);
        Log::of(self.volume).compact_if_due(locked, self.operation);
        let mut staged = Staged::begin(locked, self.need)?;
        self.stage(&mut staged, new_size, time_ns)?;
        for mapping in &self.mappings {
            locked
                .index()
                .reserve_for_write(mapping.file_block, mapping.count)?;
        }
        // From here on the caller's memory is not needed.
        let _direct = rules.begin_commit(locked.inode)?;
        self.operation.commit(&[&staged])?;
        let (mappings, sums) = (&self.mappings, &self.sums);
        let operation = &mut *self.operation;
        Log::of(self.volume).apply_commit(locked, &staged, || {
            for mapping in mappings {
                Log::of(self.volume).apply_mapping(
                    locked,
                    operation,
                    *mapping,
                    sums.of(mapping),
                    false,
                );
            }
            locked.inode.note_write(new_size, time_ns);
            Ok(())
        })?;
        operation.finish();
        Ok(())
    }

    fn stage(&mut self, staged: &mut Staged, size_bytes: u64, time_ns: i64) -> Outcome<()> {
        if self.mappings.is_empty() {
            // All bytes went in place behind the end of file: only the size changes.
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

    /// Zero the bytes between the old end of file and the write, in the block of the old end. They were never part of
    /// the file and may hold anything; this is done before the size makes them visible.
    fn zero_gap(&mut self, locked: &Locked<'_>, size: u64) -> Outcome<()> {
        if self.offset > size {
            Writing::of(self.volume).zero_behind_end(locked, size, self.offset)?;
        }
        Ok(())
    }
}

/// Which space a write may take: from the reserve, if it takes one block and frees one.
fn need_of(early: Option<&Locked<'_>>, offset: u64, bytes: usize, rules: WriteRules) -> Need {
    let has_block = |locked: &Locked<'_>| {
        let word = locked.index().load(offset / BLOCK as u64);
        let is_one = offset % BLOCK as u64 + bytes as u64 <= BLOCK as u64;
        is_one && word.is_mapped() && offset + bytes as u64 <= locked.size_bytes()
    };
    if rules.replaces && early.is_some_and(has_block) {
        Need::Replacing
    } else {
        Need::Ordinary
    }
}

/// The blocks of the largest file must fit the index.
const _: () = assert!(MAX_FILE_BLOCKS >= MAX_FILE_BYTES / BLOCK as u64);
