//! What callers ask about the data of files.

use crate::data::delegation::{BY_HAND, DelegationRule, MAX_DELEGATES, pack, unpack};
use crate::data::relocate::Relocated;
use crate::data::write::Target;
use crate::data::write_rules::WriteRules;
use crate::data::{Delegating, Reading, Relocating, Reserving, Writing};
use crate::format::*;
use crate::session::Admitting;
use crate::session::access::Access;
use crate::session::layout::LOADED;
use crate::session::path_mode::PathMode;
use crate::session::patience;
use crate::session::seqlock::Snapshot;
use crate::session::slots::count;
use crate::session::volume::{FileReference, Volume};
use crate::space::operation::Operation;
use crate::types::*;
use egeria_media::emulation::AccessKind;
use egeria_media::{CallerDestination, CallerSource, PoolIndex};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl Volume {
    /// Read into a buffer.
    ///
    /// # Errors
    /// As `read_to`.
    pub fn read(
        &self,
        file: FileReference,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Outcome<usize> {
        self.read_to(file, offset_bytes, buffer.into())
    }

    /// As `read_to`, for preload.
    ///
    /// # Errors
    /// As `read_to`; `EAGAIN` when the inode is kernel-cached: pass the call to the kernel.
    #[inline]
    pub fn read_direct(
        &self,
        file: FileReference,
        offset_bytes: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<usize> {
        if self.is_kernel_cached(file) {
            return Err(Errno(libc::EAGAIN));
        }
        self.read_to(file, offset_bytes, to)
    }

    /// Read into a caller's memory, as much as it holds; fewer bytes at end of file.
    ///
    /// # Errors
    /// `EFAULT` for a bad address; `ESTALE` when there is no such inode; `EIO` for damage; `EAGAIN` when all
    /// thread slots are taken.
    pub fn read_to(
        &self,
        file: FileReference,
        offset_bytes: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<usize> {
        let inode = file.inode();
        if inode.state.load(Ordering::Acquire) != LOADED {
            drop(self.lock_beside_leases(file.ino.0)?);
        }
        let me = self.me()?;
        if let Some(bytes) =
            Reading::of(self).read_one_block(me, file, offset_bytes, to, PathMode::NORMAL)
        {
            return Ok(bytes);
        }
        if Delegating::of(self).may_delegate(file) {
            Reading::of(self).read_by_delegates(me, file, offset_bytes, to)
        } else {
            Reading::of(self).read_without_delegates(me, file, offset_bytes, to)
        }
    }

    /// The fast path of `read_direct`, which counts itself as a direct call. `None`: use `read_direct`. Does not
    /// change `errno`, takes no lock, cannot panic.
    #[inline]
    pub fn read_quickly(
        &self,
        file: FileReference,
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Option<usize> {
        let me = self.known_me()?;
        let bytes = Reading::of(self).read_one_block(me, file, offset, to, PathMode::NORMAL)?;
        count(&me.slot.counters.direct_calls, 1);
        Some(bytes)
    }

    /// The fast path of `write_direct` for a write of at most a block inside a file or at its end; it counts itself as a direct call. `None`: use `write_direct`, which also reports what is wrong. Does
    /// not change `errno`, waits for no lock, cannot panic.
    #[inline(always)]
    pub fn write_quickly(
        &self,
        file: FileReference,
        offset: u64,
        from: CallerSource<'_>,
    ) -> Option<usize> {
        let me = self.known_me()?;
        let writing = Writing::of(self);
        if writing
            .overwrite_block_at_once(me, file, offset, from)
            .is_none()
        {
            writing.write_short_at_once(me, file, Target::At(offset), from)?;
        }
        count(&me.slot.counters.direct_calls, 1);
        Some(from.bytes())
    }

    /// As [`Volume::write_quickly`], at the end of file: the offset where it landed.
    #[inline(always)]
    pub fn append_quickly(&self, file: FileReference, from: CallerSource<'_>) -> Option<u64> {
        let me = self.known_me()?;
        let offset = Writing::of(self).write_short_at_once(me, file, Target::End, from)?;
        count(&me.slot.counters.direct_calls, 1);
        Some(offset)
    }

    /// Write a buffer.
    ///
    /// # Errors
    /// As `write_from`.
    pub fn write(&self, file: FileReference, offset_bytes: u64, buffer: &[u8]) -> Outcome<usize> {
        self.write_from(file, offset_bytes, buffer.into())
    }

    /// Write a buffer at the end of file; see `append_from`.
    ///
    /// # Errors
    /// As `append_from`.
    pub fn append(&self, file: FileReference, buffer: &[u8]) -> Outcome<(u64, usize)> {
        self.append_from(file, buffer.into())
    }

    /// Write from a caller's memory; durable when it returns.
    ///
    /// # Errors
    /// `EFAULT` for a bad address; `ENOSPC`; `EFBIG` beyond the largest file; `EROFS`; `EISDIR` and `EINVAL` for
    /// other kinds of inodes; `ESTALE` when there is no such inode; `ENOMEM` and `EAGAIN` when the session has no
    /// room; `EIO` for damage.
    pub fn write_from(
        &self,
        file: FileReference,
        offset_bytes: u64,
        from: CallerSource<'_>,
    ) -> Outcome<usize> {
        Writing::of(self)
            .write_with_rules(file, Target::At(offset_bytes), from, WriteRules::default())
            .map(|(_, bytes)| bytes)
    }

    /// Write at the end of file, atomically; returns the offset it landed at and the bytes written.
    ///
    /// # Errors
    /// As `write_from`.
    pub fn append_from(
        &self,
        file: FileReference,
        from: CallerSource<'_>,
    ) -> Outcome<(u64, usize)> {
        Writing::of(self).write_with_rules(file, Target::End, from, WriteRules::default())
    }

    /// As `write_from`, by a process that bypasses the kernel, after it checked [`Volume::may_have_privileges`].
    ///
    /// # Errors
    /// As `write_from`; `EAGAIN` when kernel-cached (decided under the inode's lock): pass the call to the kernel.
    pub fn write_direct(
        &self,
        file: FileReference,
        offset_bytes: u64,
        from: CallerSource<'_>,
    ) -> Outcome<usize> {
        let rules = WriteRules::DIRECT;
        Writing::of(self)
            .write_with_rules(file, Target::At(offset_bytes), from, rules)
            .map(|(_, bytes)| bytes)
    }

    /// As `append_from`, for preload, like `write_direct`.
    ///
    /// # Errors
    /// As `write_direct`.
    pub fn append_direct(
        &self,
        file: FileReference,
        from: CallerSource<'_>,
    ) -> Outcome<(u64, usize)> {
        let rules = WriteRules::DIRECT;
        Writing::of(self).write_with_rules(file, Target::End, from, rules)
    }

    /// Write the pages that a kernel sends. Pages that cannot be written (holes on a full volume) do not prevent
    /// writing the rest.
    ///
    /// # Errors
    /// The first of the errors of `write_from`.
    pub fn write_back(&self, file: FileReference, offset_bytes: u64, data: &[u8]) -> Outcome<()> {
        let rules = WriteRules::default();
        let written =
            Writing::of(self).write_with_rules(file, Target::At(offset_bytes), data.into(), rules);
        let mut done = match written {
            Ok((_, written)) => written,
            Err(errno) if patience::is_expiry(errno) => return Err(errno),
            Err(_) => 0,
        };
        let mut outcome = Ok(());
        // Block by block: one block may fail where the next one succeeds.
        while done < data.len() {
            let offset = offset_bytes + done as u64;
            let rest = &data[done..];
            let part = &rest[..rest.len().min(BLOCK - (offset % BLOCK as u64) as usize)];
            match Writing::of(self).write_back_part(file, offset, part) {
                Err(errno) if patience::is_expiry(errno) => return Err(errno),
                part => outcome = outcome.and(part),
            }
            done += part.len();
        }
        outcome
    }

    /// Reserve, punch or zero a range.
    ///
    /// # Errors
    /// `EINVAL` for an empty range; `EFBIG` beyond the largest file; `EISDIR` and `EINVAL` for other kinds of
    /// inodes; what [every change](crate::Errno) can fail with.
    pub fn allocate(
        &self,
        file: FileReference,
        offset_bytes: u64,
        length_bytes: u64,
        mode: AllocateMode,
    ) -> Outcome<()> {
        let rules = WriteRules::default();
        Reserving::of(self).allocate_by(file, (offset_bytes, length_bytes), mode, rules)
    }

    /// Reserve, punch or zero a range, by a process that bypasses the kernel.
    ///
    /// # Errors
    /// As `allocate`; `EAGAIN` when the kernel holds pages of the inode: the kernel must make the change itself. Part
    /// of the range may have been reserved.
    pub fn allocate_direct(
        &self,
        file: FileReference,
        offset_bytes: u64,
        length_bytes: u64,
        mode: AllocateMode,
    ) -> Outcome<()> {
        let rules = WriteRules::DIRECT;
        Reserving::of(self).allocate_by(file, (offset_bytes, length_bytes), mode, rules)
    }

    /// Next data at or after the offset (`ENXIO` past the end). Does not wait for other threads.
    ///
    /// # Errors
    /// `ENXIO` when there is none; `EISDIR` and `EINVAL` for other kinds of inodes; what [every
    /// operation](crate::Errno) can fail with.
    pub fn seek_data(&self, file: FileReference, offset_bytes: u64) -> Outcome<u64> {
        Reserving::of(self)
            .seek(
                file,
                offset_bytes,
                |index, from, end| {
                    let mut block = from;
                    while let Some(found) = index.next_mapped(block, end) {
                        if index.load(found).has_data() {
                            return Some(found);
                        }
                        block = found + 1;
                    }
                    None
                },
                |blocks, from, end| blocks.next_data(from).filter(|found| *found < end),
            )?
            .ok_or(Errno(libc::ENXIO))
    }

    /// Next hole at or after the offset (`ENXIO` past the end). Does not wait for other threads.
    ///
    /// # Errors
    /// `ENXIO` past the end; `EISDIR` and `EINVAL` for other kinds of inodes; what [every operation](crate::Errno)
    /// can fail with.
    pub fn seek_hole(&self, file: FileReference, offset_bytes: u64) -> Outcome<u64> {
        Reserving::of(self)
            .seek(
                file,
                offset_bytes,
                |index, from, end| {
                    let hole = (from..end).find(|block| !index.load(*block).has_data());
                    hole.or(Some(end))
                },
                |blocks, from, end| Some(blocks.next_hole(from).min(end)),
            )?
            .ok_or(Errno(libc::ENXIO))
    }

    /// Whether there is a hole in a range of bytes; what lies behind the end of file is none. Looks at this range
    /// only, and does not wait for other threads.
    ///
    /// # Errors
    /// `EISDIR` and `EINVAL` for other kinds of inodes; what [every operation](crate::Errno) can fail with.
    pub fn has_hole(&self, file: FileReference, range: Range<u64>) -> Outcome<bool> {
        let limit = range.end.div_ceil(BLOCK as u64);
        let hole = Reserving::of(self).seek(
            file,
            range.start,
            |index, from, end| (from..end.min(limit)).find(|block| !index.load(*block).has_data()),
            |blocks, from, end| {
                let hole = blocks.next_hole(from);
                (hole < end.min(limit)).then_some(hole)
            },
        )?;
        Ok(hole.is_some() && !range.is_empty())
    }

    /// Where the data of a file lies.
    ///
    /// # Errors
    /// What [every operation](crate::Errno) can fail with.
    pub fn extents(&self, ino: InodeNumber) -> Outcome<Vec<ExtentReport>> {
        let locked = self.lock_beside_leases(ino.0)?;
        if locked.kind() == FileKind::Directory {
            return Ok(Vec::new());
        }
        let index = locked.index();
        let mut extents: Vec<ExtentReport> = Vec::new();
        let mut block = 0;
        while let Some(found) = index.next_mapped(block, crate::session::index::MAX_FILE_BLOCKS) {
            let word = index.load(found);
            let offset = found * BLOCK as u64;
            let continued = extents.last_mut().filter(|last| {
                last.pool == word.pool().0
                    && last.unwritten == word.is_unwritten()
                    && last.file_offset_bytes + last.length_bytes == offset
                    && last.block + last.length_bytes / BLOCK as u64 == word.block().0
            });
            match continued {
                Some(last) => last.length_bytes += BLOCK as u64,
                None => extents.push(ExtentReport {
                    file_offset_bytes: offset,
                    length_bytes: BLOCK as u64,
                    pool: word.pool().0,
                    node: self
                        .superblock()
                        .pools
                        .get(word.pool().0 as usize)
                        .map_or(0, |pool| pool.node),
                    block: word.block().0,
                    unwritten: word.is_unwritten(),
                }),
            }
            block = found + 1;
        }
        Ok(extents)
    }

    /// Moves blocks of a file from one pool to another, up to 1 MiB per call.
    ///
    /// # Errors
    /// `EINVAL` when there are no such pools; `EOPNOTSUPP` for files that are written in place; `ENOSPC` when the new pool has no room;
    /// `EISDIR` and `EINVAL` for other kinds of inodes; `ESTALE` when there is no such inode; what every change can fail with.
    pub fn relocate(
        &self,
        file: FileReference,
        blocks: Range<u64>,
        (from, to): (PoolIndex, PoolIndex),
    ) -> Outcome<Relocated> {
        self.writable()?;
        let pools = self.media.len();
        if from == to || usize::from(from.0) >= pools || usize::from(to.0) >= pools {
            return Err(Errno(libc::EINVAL));
        }
        let inode = file.inode();
        if inode.state.load(Ordering::Acquire) != LOADED {
            drop(self.lock_beside_leases(file.ino.0)?.regular()?);
        }
        match inode.mode.load(Ordering::Relaxed) & libc::S_IFMT {
            libc::S_IFREG => {}
            libc::S_IFDIR => return Err(Errno(libc::EISDIR)),
            _ => return Err(Errno(libc::EINVAL)),
        }
        if inode.is_written_in_place() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let me = self.me()?;
        let before = Snapshot::begin(inode);
        let size_blocks = inode
            .size_bytes
            .load(Ordering::Acquire)
            .div_ceil(BLOCK as u64);
        let blocks = blocks.start..blocks.end.min(size_blocks);
        let mut operation = Operation::new(self, me);
        let mut accesses =
            [AccessKind::Read, AccessKind::Write].map(|kind| Access::begin(self, me, kind));
        let (copied, next_block) = Relocating::of(self).copy_to(
            (me, file),
            blocks,
            (from, to),
            &mut operation,
            &mut accesses,
        )?;
        let mut relocated = Relocated {
            next_block,
            moved_bytes: 0,
            is_given_up: false,
        };
        if !copied.mappings.is_empty() {
            let locked = self.lock_beside_leases(file.ino.0)?.regular()?;
            if before.is_unchanged_after_copy(inode) && !inode.is_written_in_place() {
                Relocating::of(self).commit_copy(&locked, &mut operation, &copied)?;
                relocated.moved_bytes = copied.blocks * BLOCK as u64;
            } else {
                relocated.is_given_up = true
            }
        }
        drop(operation);
        // No lock is held from here on: on an emulated machine these calls wait.
        accesses.into_iter().for_each(Access::end);
        Ok(relocated)
    }

    /// Bytes of a file on each pool at this moment, without holes. Of a file with more than `max_looks` blocks, only
    /// that many blocks are checked, evenly spread; they stand for the others.
    ///
    /// # Errors
    /// `EISDIR` and `EINVAL` for other kinds of inodes; `ESTALE` when there is no such inode.
    pub fn bytes_by_pool(&self, file: FileReference, max_looks: u64) -> Outcome<[u64; MAX_POOLS]> {
        let inode = file.inode();
        if inode.state.load(Ordering::Acquire) != LOADED {
            drop(self.lock_beside_leases(file.ino.0)?.regular()?);
        }
        let mut bytes = [0; MAX_POOLS];
        let index = Reading::of(self).index_of(inode);
        let end = inode
            .size_bytes
            .load(Ordering::Acquire)
            .div_ceil(BLOCK as u64);
        let step = end.div_ceil(max_looks.max(1)).max(1);
        let words = (0..end)
            .step_by(step as usize)
            .map(|block| index.load(block));
        for word in words.filter(|word| word.has_data()) {
            bytes[word.pool().0 as usize & (MAX_POOLS - 1)] += step * BLOCK as u64;
        }
        Ok(bytes)
    }

    /// Set which accesses of striped files are delegated from now on, for all processes of the session; `None`: none.
    ///
    /// # Errors
    /// `EINVAL` for more than 16 delegates; `EBUSY` for a planner where a person set it; `ENOMEM` when the session's memory
    /// has no room.
    pub fn set_delegation(&self, rule: Option<DelegationRule>, by_hand: bool) -> Outcome<()> {
        if rule.is_some_and(|rule| usize::from(rule.delegates.get()) > MAX_DELEGATES) {
            return Err(Errno(libc::EINVAL));
        }
        let word = &self.session.header().delegation;
        let new = pack(rule) | if by_hand { BY_HAND } else { 0 };
        let set = |old: u64| (by_hand || old & BY_HAND == 0).then_some(new);
        let set = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, set);
        set.map_err(|_| Errno(libc::EBUSY))?;
        self.bound_delegates()
    }

    /// Ends a rule [set by hand](Volume::set_delegation) and restores the rule before it, unless another process has
    /// changed the rule since then.
    pub fn give_delegation_back(
        &self,
        ours: Option<DelegationRule>,
        (before, by_hand): (Option<DelegationRule>, bool),
    ) {
        let word = &self.session.header().delegation;
        let before = pack(before) | if by_hand { BY_HAND } else { 0 };
        let ours = pack(ours) | BY_HAND;
        let given = word.compare_exchange(ours, before, Ordering::AcqRel, Ordering::Relaxed);
        if given.is_ok() {
            // The memory is there: a rule of ours was set.
            let _ = self.bound_delegates();
        }
    }

    /// Bound the delegates of all processes as the rule that holds now says.
    fn bound_delegates(&self) -> Outcome<()> {
        let (rule, _) = self.delegation();
        Admitting::of(self).limit_delegates(rule.map(|rule| rule.delegates))
    }

    /// In this process, start delegates only when this function returns `true`: a library inside another program may
    /// be called where no thread may be created. Can be set once.
    pub fn start_delegates_if(&self, may_start: fn() -> bool) {
        let _ = self.delegates.may_start.set(may_start);
    }

    /// Which accesses of striped files are delegated, and whether a person set it.
    pub fn delegation(&self) -> (Option<DelegationRule>, bool) {
        let word = self.session.header().delegation.load(Ordering::Acquire);
        (unpack(word & !BY_HAND), word & BY_HAND != 0)
    }
}
