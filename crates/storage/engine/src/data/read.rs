//! Reading file data without a lock: load the words, copy, and check that the words are unchanged.

use crate::data::delegation::Delegation;
use crate::data::{Delegating, Reading};
use crate::format::*;
use crate::session::Admitting;
use crate::session::access::{Access, Run};
use crate::session::admission::Admitted;
use crate::session::index::Index;
use crate::session::inode::Locked;
use crate::session::layout::{LOADED, SessionInode};
use crate::session::path_mode::PathMode;
use crate::session::seqlock::{BlockSnapshot, OPTIMISTIC_TRIES, QuickSnapshot, Snapshot};
use crate::session::slots::{Me, count};
use crate::session::traffic::Traffic;
use crate::session::volume::FileReference;
use crate::types::*;
use egeria_media::CallerDestination;
use egeria_media::emulation::AccessKind;
use std::sync::atomic::Ordering;

/// How much of the next run is prefetched, bytes: more does not help.
const RUN_PREFETCH_BYTES: usize = 1 << 10;

impl<'v> Reading<'v> {
    /// A read of a striped file while long reads are delegated.
    #[cold]
    pub(super) fn read_by_delegates(
        self,
        me: Me<'_>,
        file: FileReference,
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<usize> {
        let Some(long) = Delegating::of(self.volume).long_access(me, AccessKind::Read, to.bytes())
        else {
            return self.read_without_delegates(me, file, offset, to);
        };
        let Some(delegation) = &long.delegation else {
            let outcome = self.read_without_delegates(me, file, offset, to);
            return outcome.inspect(|_| long.end());
        };
        for _ in 0..OPTIMISTIC_TRIES {
            let tried = self.try_read_blocks(me, file.inode(), offset, to, Some(delegation));
            if let Some(outcome) = tried {
                let bytes = outcome?;
                self.volume
                    .note_use(me, file, bytes as u64, AccessKind::Read);
                long.end();
                return Ok(bytes);
            }
        }
        self.read_patiently(me, file, offset, to).inspect(|bytes| {
            self.volume
                .note_use(me, file, *bytes as u64, AccessKind::Read)
        })
    }

    /// Read without delegates, as soon as this thread may access the pools.
    #[inline(always)]
    pub(super) fn read_without_delegates(
        self,
        me: Me<'_>,
        file: FileReference,
        offset_bytes: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<usize> {
        let inode = file.inode();
        // Held until this returns.
        let admitted = if self.volume.path_mode().is_limited() {
            self.admit_read(me, file, offset_bytes, to.bytes())?
        } else {
            Admitted::default()
        };
        if admitted.holds_any()
            && let Some(bytes) = self.read_one_block(me, file, offset_bytes, to, PathMode::LIMITED)
        {
            return Ok(bytes);
        }
        if inode.checksums.load(Ordering::Relaxed) != 0 {
            return self.read_with_sums(file, offset_bytes, to);
        }
        let one_block = to.bytes() <= BLOCK - (offset_bytes % BLOCK as u64) as usize;
        for _ in 0..OPTIMISTIC_TRIES {
            let tried = if one_block {
                self.try_read_block(me, file, offset_bytes, to)
            } else {
                self.try_read_blocks(me, inode, offset_bytes, to, None)
            };
            if let Some(outcome) = tried {
                return outcome.inspect(|bytes| {
                    self.volume
                        .note_use(me, file, *bytes as u64, AccessKind::Read)
                });
            }
        }
        self.read_patiently(me, file, offset_bytes, to)
            .inspect(|bytes| {
                self.volume
                    .note_use(me, file, *bytes as u64, AccessKind::Read)
            })
    }

    /// The fast path of most reads: all bytes lie in one written block at the guessed place. `None`: use the ordinary
    /// path, which also reports what is wrong.
    #[inline(always)]
    pub(super) fn read_one_block(
        self,
        me: Me<'_>,
        file: FileReference,
        offset: u64,
        to: CallerDestination<'_>,
        mode: PathMode,
    ) -> Option<usize> {
        let inode = file.inode();
        let bytes = to.bytes();
        let within = offset % BLOCK as u64;
        let usual = bytes != 0
            && bytes <= BLOCK - within as usize
            && self.volume.path_mode() == mode
            && inode.kernel_cached.load(Ordering::Acquire) == 0
            && inode.state.load(Ordering::Acquire) == LOADED;
        if !usual {
            return None;
        }
        let file_block = offset / BLOCK as u64;
        let end = offset.saturating_add(bytes as u64);
        let snapshot = QuickSnapshot::begin(self.index_of(inode), file_block, end)?;
        let word = snapshot.word;
        let guess = self.volume.guesses.guess(file.ino.0, file_block);
        if !word.has_data() || word.place() != guess {
            return None;
        }
        let pool = self.volume.media.get(guess.pool().0 as usize)?;
        pool.copy_out(guess.block().offset() + within, to).ok()?;
        if !snapshot.stands() {
            return None;
        }
        let pool = word.pool().0 as usize;
        count(&me.slot.counters.read_bytes[pool], bytes as u64);
        if self.volume.media.len() > 1 && self.volume.pool_here(me) != pool {
            count(&me.slot.counters.remote_bytes[pool], bytes as u64);
        }
        self.volume
            .note_use(me, file, bytes as u64, AccessKind::Read);
        Some(bytes)
    }

    /// Ask for admission to the pools that hold the blocks; a hole is in no pool.
    #[cold]
    fn admit_read(
        self,
        me: Me<'v>,
        file: FileReference,
        offset: u64,
        bytes: usize,
    ) -> Outcome<Admitted<'v>> {
        let index = self.index_of(file.inode());
        let size = file.inode().size_bytes.load(Ordering::Acquire);
        let end = offset.saturating_add(bytes as u64).min(size);
        let mut traffic = Traffic::default();
        let mut at = offset;
        while at < end {
            let next = (at / BLOCK as u64 + 1).saturating_mul(BLOCK as u64);
            let word = index.load(at / BLOCK as u64);
            if word.has_data() {
                traffic.add(word.pool().0, next.min(end) - at);
            }
            at = next;
        }
        Admitting::of(self.volume).admit(me, file.ino.0, AccessKind::Read, &traffic)
    }

    #[inline(always)]
    pub(crate) fn index_of(self, inode: &'v SessionInode) -> Index<'v> {
        Index {
            inode,
            arena: self.volume.session.arena(),
        }
    }

    /// Read one block: its word shows whether anything changed. `None`: try again.
    #[inline]
    fn try_read_block(
        self,
        me: Me<'_>,
        file: FileReference,
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Option<Outcome<usize>> {
        let inode = file.inode();
        let snapshot = Snapshot::begin(inode);
        let size = inode.size_bytes.load(Ordering::Acquire);
        if to.bytes() == 0 {
            return Some(Ok(0));
        }
        if offset >= size {
            return snapshot.is_unchanged(inode).then_some(Ok(0));
        }
        let wanted = to.bytes();
        let to = to.first((size - offset) as usize);
        let bytes = to.bytes();
        let mut access = Access::begin(self.volume, me, AccessKind::Read);
        let file_block = offset / BLOCK as u64;
        let snapshot = BlockSnapshot::begin(self.index_of(inode), snapshot, file_block);
        let word = snapshot.word;
        let guess = self.volume.guesses.guess(file.ino.0, file_block);
        let within = offset % BLOCK as u64;
        let copied = if word.has_data() && word.place() == guess {
            copy_run(&mut access, guess, within, to)
        } else {
            self.copy_unguessed(&mut access, (file.ino, file_block), word, within, to)
        };
        if !snapshot.stands((bytes == wanted).then_some(offset + bytes as u64)) {
            return None;
        }
        if let Err(errno) = copied {
            return Some(Err(errno));
        }
        access.end();
        Some(Ok(bytes))
    }

    /// The block is not at the guessed place, or not mapped. Out of line, so that the compiler does not select between
    /// two addresses where the CPU should predict a branch.
    #[cold]
    #[inline(never)]
    fn copy_unguessed(
        self,
        access: &mut Access<'_>,
        (ino, file_block): (InodeNumber, u64),
        word: BlockWord,
        within: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<()> {
        if word.has_data() {
            self.volume.guesses.learn(ino.0, file_block, word);
        }
        copy_run(access, word, within, to)
    }

    /// Read several blocks: nothing may change under an even sequence.
    fn try_read_blocks(
        self,
        me: Me<'_>,
        inode: &SessionInode,
        offset: u64,
        to: CallerDestination<'_>,
        delegation: Option<&Delegation<'_>>,
    ) -> Option<Outcome<usize>> {
        let snapshot = Snapshot::begin(inode);
        if snapshot.write_in_progress() {
            std::hint::spin_loop();
            return None;
        }
        let size = inode.size_bytes.load(Ordering::Acquire);
        if offset >= size {
            return snapshot.is_unchanged(inode).then_some(Ok(0));
        }
        let to = to.first(usize::try_from(size - offset).unwrap_or(usize::MAX));
        let mut access = Access::begin_long(self.volume, me, AccessKind::Read, delegation);
        let outcome = self.copy_range(&mut access, inode, offset, to);
        if !snapshot.is_unchanged_after_copy(inode) {
            return None;
        }
        if let Err(errno) = outcome {
            return Some(Err(errno));
        }
        access.end();
        Some(Ok(to.bytes()))
    }

    /// Read under the inode's lock.
    pub(crate) fn read_locked(
        self,
        file: FileReference,
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<usize> {
        let locked: Locked<'_> = self.volume.lock_beside_leases(file.ino.0)?;
        let size = locked.size_bytes();
        if offset >= size {
            return Ok(0);
        }
        let to = to.first(usize::try_from(size - offset).unwrap_or(usize::MAX));
        let mut access = Access::again(self.volume, locked.me, AccessKind::Read);
        self.copy_range(&mut access, locked.inode, offset, to)?;
        drop(locked);
        access.end();
        Ok(to.bytes())
    }

    /// Copy a range by the present index, run by run.
    fn copy_range(
        self,
        access: &mut Access<'_>,
        inode: &SessionInode,
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<()> {
        let outcome = self.copy_runs(access, inode, offset, to);
        if access.settle() {
            outcome
        } else {
            self.copy_runs(access, inode, offset, to)
        }
    }

    /// Prefetch the beginning of the next run: the CPU's prefetchers notice that run only when its copy begins.
    #[inline]
    fn prefetch_run(self, first: BlockWord) {
        if let (true, Ok(pool)) = (first.has_data(), self.volume.pool(first.pool())) {
            pool.prefetch(first.block().offset(), RUN_PREFETCH_BYTES);
        }
    }

    fn copy_runs(
        self,
        access: &mut Access<'_>,
        inode: &SessionInode,
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<()> {
        let index = self.index_of(inode);
        let bytes = to.bytes();
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
                    self.prefetch_run(next);
                    break;
                }
                run += BLOCK;
            }
            let to = to.after(done).first(run);
            copy_run(access, word, within, to)?;
            done += to.bytes();
        }
        Ok(())
    }
}

/// Copy from a run that begins with `word`'s block, or zeros.
#[inline]
pub(crate) fn copy_run(
    access: &mut Access<'_>,
    word: BlockWord,
    within: u64,
    to: CallerDestination<'_>,
) -> Outcome<()> {
    if !word.has_data() {
        return to.zero().map_err(Errno::from);
    }
    let run = Run {
        pool: word.pool(),
        at: word.block().offset() + within,
        bytes: to.bytes(),
    };
    access.copy_out(run, to)
}

/// Whether a block directly follows, in place, a block that is this many blocks before it in the file.
#[inline]
pub(crate) fn continues(first: BlockWord, next: BlockWord, distance: u64) -> bool {
    if !first.has_data() {
        return !next.has_data();
    }
    next.has_data() && next.pool() == first.pool() && next.block().0 == first.block().0 + distance
}
