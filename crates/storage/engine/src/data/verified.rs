//! Reading data that has checksums: only bytes that match their checksum are returned (see `checksums`).

use crate::data::Reading;
use crate::failure_cause::{self, FailureCause};
use crate::format::checksum::crc32c;
use crate::format::*;
use crate::log::Log;
use crate::log::committed::CommittedBlocks;
use crate::session::access::{Access, Run};
use crate::session::index::{Index, MAX_FILE_BLOCKS};
use crate::session::inode::Locked;
use crate::session::layout::{LOADED, SessionInode};
use crate::session::patience::{self, LOOKING_PATIENCE};
use crate::session::seqlock::{OPTIMISTIC_TRIES, Snapshot};
use crate::session::slots::{Me, count};
use crate::session::volume::{FileReference, Reported};
use crate::types::*;
use egeria_media::CallerDestination;
use egeria_media::emulation::AccessKind;
use std::sync::atomic::Ordering;

/// Why a range could not be read.
enum Trouble {
    Errno(Errno),
    /// A block and its checksum do not match.
    Mismatch(u64, BlockWord),
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Trouble {
        Trouble::Errno(errno)
    }
}

/// Adjacent blocks of a file that cannot be read.
pub(crate) struct BadBlocks {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Where the first one is.
    word: BlockWord,
    /// They could be read, but do not match their checksums.
    mismatch: bool,
}

/// Joins adjacent bad blocks.
struct BadRuns<'f> {
    last: Option<BadBlocks>,
    found: &'f mut dyn FnMut(BadBlocks),
}

impl BadRuns<'_> {
    /// A block was read: whether it matches its checksum.
    fn note(&mut self, file_block: u64, word: BlockWord, read: Outcome<bool>) {
        let mismatch = match read {
            Ok(true) => return,
            Ok(false) => true,
            Err(_) => false,
        };
        match &mut self.last {
            Some(last) if last.first + last.count == file_block && last.mismatch == mismatch => {
                last.count += 1;
            }
            _ => {
                let next = BadBlocks {
                    first: file_block,
                    count: 1,
                    word,
                    mismatch,
                };
                self.last
                    .replace(next)
                    .into_iter()
                    .for_each(&mut self.found);
            }
        }
    }
}

impl Drop for BadRuns<'_> {
    fn drop(&mut self) {
        self.last.take().into_iter().for_each(&mut self.found);
    }
}

impl BadBlocks {
    /// What is wrong, in words.
    pub(crate) fn text(&self) -> String {
        let (pool, block) = (self.word.pool(), self.word.block());
        let (from, to) = (
            self.first * BLOCK as u64,
            (self.first + self.count) * BLOCK as u64 - 1,
        );
        let what = if self.mismatch {
            "do not match their checksum"
        } else {
            "cannot be read"
        };
        format!("bytes {from} to {to} (from block {block} of pool {pool} on) {what}")
    }
}

impl Reading<'_> {
    /// Whether the blocks of an open file have checksums.
    pub(crate) fn has_sums(self, file: FileReference) -> Outcome<bool> {
        if file.inode().state.load(Ordering::Acquire) != LOADED {
            // A thread that is loading it may be stopped.
            return Ok(self.volume.read_record(file.ino.0)?.certificate.checksums);
        }
        Ok(file.inode().checksums.load(Ordering::Relaxed) != 0)
    }

    /// Read a block that has data into private memory; returns whether it matches.
    fn read_block(
        self,
        index: Index<'_>,
        file_block: u64,
        word: BlockWord,
        bytes: &mut [u8; BLOCK],
    ) -> Outcome<bool> {
        self.read_block_of(word, sum_in(index, file_block), bytes)
    }

    /// Read a block that has data; whether it matches this checksum, if there is one.
    fn read_block_of(
        self,
        word: BlockWord,
        sum: Option<u32>,
        bytes: &mut [u8; BLOCK],
    ) -> Outcome<bool> {
        let run = Run {
            pool: word.pool(),
            at: word.block().offset(),
            bytes: BLOCK,
        };
        Access::upkeep(self.volume, run, |pool| {
            pool.read_bytes(run.at, bytes).map_err(|_| Errno(libc::EIO))
        })?;
        Ok(sum.is_none_or(|sum| sum == crc32c(bytes)))
    }

    /// Read a whole block with data of a locked file, and verify it.
    pub(crate) fn old_block(
        self,
        locked: &Locked<'_>,
        file_block: u64,
        word: BlockWord,
        bytes: &mut [u8; BLOCK],
    ) -> Outcome<()> {
        if self.read_block(locked.index(), file_block, word, bytes)? {
            Ok(())
        } else {
            Err(self.mismatch(locked.me, locked.ino, file_block, word))
        }
    }

    /// Report and count a block that is not what was written.
    #[cold]
    fn mismatch(self, me: Me<'_>, ino: u64, file_block: u64, word: BlockWord) -> Errno {
        count(&me.slot.counters.checksum_failures, 1);
        let bad = BadBlocks {
            first: file_block,
            count: 1,
            word,
            mismatch: true,
        };
        let bad = bad.text();
        failure_cause::note(FailureCause::Mismatch {
            ino,
            offset_bytes: file_block * BLOCK as u64,
            pool: word.pool(),
            block: word.block(),
        });
        self.volume.report_damage_once(
            Reported::Mismatch { ino, file_block },
            &format!("inode {ino}: {bad}; `egeria scrub` names the file, restore it from a copy"),
        );
        Errno(libc::EIO)
    }

    /// Verify up to `most` mapped blocks of a locked file from a block on; returns where to continue, `None` at the
    /// end.
    pub(crate) fn verify_blocks(
        self,
        locked: &Locked<'_>,
        from: u64,
        most: usize,
        found: &mut dyn FnMut(BadBlocks),
    ) -> (Option<u64>, u64) {
        let index = locked.index();
        let (mut block, mut read, mut bytes) = (from, 0, [0; BLOCK]);
        let mut bad = BadRuns { last: None, found };
        for _ in 0..most {
            let Some(file_block) = index.next_mapped(block, MAX_FILE_BLOCKS) else {
                return (None, read);
            };
            block = file_block + 1;
            let word = index.load(file_block);
            if word.is_unwritten() {
                continue;
            }
            read += 1;
            bad.note(
                file_block,
                word,
                self.read_block(index, file_block, word, &mut bytes),
            );
        }
        (Some(block), read)
    }

    /// Verify all blocks of a file that have data, as its log says them.
    pub(crate) fn verify_committed(
        self,
        blocks: &CommittedBlocks,
        found: &mut dyn FnMut(BadBlocks),
    ) {
        let mut bytes = [0; BLOCK];
        let mut bad = BadRuns { last: None, found };
        let mut next = blocks.next_data(0);
        while let Some(file_block) = next {
            let (word, _) = blocks.run_at(file_block);
            bad.note(
                file_block,
                word,
                self.read_committed(blocks, file_block, &mut bytes),
            );
            next = blocks.next_data(file_block + 1);
        }
    }

    /// Read a block with data of a file, as its log says it; returns whether it matches its checksum, if it has one.
    pub(crate) fn read_committed(
        self,
        blocks: &CommittedBlocks,
        file_block: u64,
        bytes: &mut [u8; BLOCK],
    ) -> Outcome<bool> {
        let (word, _) = blocks.run_at(file_block);
        self.read_block_of(word, blocks.sum_of(file_block), bytes)
    }

    /// Read into a caller's memory, for a file with checksums.
    // Out of line, so that the path of other files does not get longer.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_with_sums(
        self,
        file: FileReference,
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<usize> {
        let me = self.volume.me()?;
        let ino = file.ino.0;
        loop {
            for _ in 0..OPTIMISTIC_TRIES {
                if let Some(outcome) = self.try_read_with_sums(me, file.inode(), offset, to) {
                    return outcome.inspect(|bytes| {
                        self.volume
                            .note_use(me, file, *bytes as u64, AccessKind::Read)
                    });
                }
            }
            let copied = patience::within(LOOKING_PATIENCE, || {
                let locked = self.volume.lock_beside_leases(ino)?;
                let to = available(locked.size_bytes(), offset, to);
                let look = |block| (locked.index().load(block), sum_in(locked.index(), block));
                let mut access = Access::again(self.volume, me, AccessKind::Read);
                let copied = self.copy_verified(&mut access, &look, offset, to);
                Ok((copied, access, to.bytes()))
            });
            let copied = match copied {
                Ok(copied) => copied,
                // A thread is stopped in the middle of a change: the log describes a consistent state.
                Err(_) => Log::of(self.volume).with_committed_blocks(ino, |blocks| {
                    let to = available(blocks.size_bytes, offset, to);
                    let look = |block| (blocks.run_at(block).0, blocks.sum_of(block));
                    let mut access = Access::again(self.volume, me, AccessKind::Read);
                    let copied = self.copy_verified(&mut access, &look, offset, to);
                    Ok((copied, access, to.bytes()))
                }),
            };
            let (copied, access, bytes) = match copied {
                // It changes all the time, so its writer is not stopped.
                Err(Errno(libc::EAGAIN)) => continue,
                copied => copied?,
            };
            match copied {
                Ok(()) => {}
                Err(Trouble::Errno(errno)) => return Err(errno),
                Err(Trouble::Mismatch(block, word)) => {
                    return Err(self.mismatch(me, ino, block, word));
                }
            }
            access.end();
            self.volume
                .note_use(me, file, bytes as u64, AccessKind::Read);
            return Ok(bytes);
        }
    }

    /// Without the lock; `None`: try again.
    fn try_read_with_sums(
        self,
        me: Me<'_>,
        inode: &SessionInode,
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Option<Outcome<usize>> {
        let snapshot = Snapshot::begin(inode);
        if snapshot.write_in_progress() {
            std::hint::spin_loop();
            return None;
        }
        let to = available(inode.size_bytes.load(Ordering::Acquire), offset, to);
        let mut access = Access::begin(self.volume, me, AccessKind::Read);
        let index = Index {
            inode,
            arena: self.volume.session.arena(),
        };
        let look = |block| (index.load(block), sum_in(index, block));
        let copied = self.copy_verified(&mut access, &look, offset, to);
        if !snapshot.is_unchanged_after_copy(inode) {
            return None;
        }
        match copied {
            Ok(()) => {}
            Err(Trouble::Errno(errno)) => return Some(Err(errno)),
            // A mismatch counts as damage only under the lock.
            Err(Trouble::Mismatch(..)) => return None,
        }
        access.end();
        Some(Ok(to.bytes()))
    }

    /// Copy a range block by block, each only if it matches: `look` returns the place of a block and its checksum.
    fn copy_verified(
        self,
        access: &mut Access<'_>,
        look: &impl Fn(u64) -> (BlockWord, Option<u32>),
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Result<(), Trouble> {
        let mut block = [0u8; BLOCK];
        let mut done = 0;
        while done < to.bytes() {
            let at = offset + done as u64;
            let within = (at % BLOCK as u64) as usize;
            let file_block = at / BLOCK as u64;
            let to = to.after(done).first(BLOCK - within);
            let bytes = to.bytes();
            let (word, sum) = look(file_block);
            done += bytes;
            if !word.has_data() {
                to.zero().map_err(Errno::from)?;
                continue;
            }
            if !self.read_block_of(word, sum, &mut block)? {
                return Err(Trouble::Mismatch(file_block, word));
            }
            let run = Run {
                pool: word.pool(),
                at: word.block().offset() + within as u64,
                bytes,
            };
            access.run(run, |_| {
                to.fill(&block[within..within + bytes]).map_err(Errno::from)
            })?;
        }
        Ok(())
    }
}

/// The checksum of a block in the index; `None`: none.
fn sum_in(index: Index<'_>, file_block: u64) -> Option<u32> {
    let pair = index.pair(file_block);
    pair.map(|[_, sum]| sum.load(Ordering::Acquire) as u32)
}

/// The part of a destination for bytes that are before the end of file.
fn available(size_bytes: u64, offset: u64, to: CallerDestination<'_>) -> CallerDestination<'_> {
    let left = size_bytes.saturating_sub(offset);
    to.first(usize::try_from(left).unwrap_or(usize::MAX))
}
