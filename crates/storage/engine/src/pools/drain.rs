//! Draining a pool: moving file data and logs off it, while the volume is in use.
//!
//! 1. The pool is *retired* in the session: from then on no thread of any process takes free blocks of it.
//! 2. Every inode is locked in turn. Its blocks on the pool are moved, a part per commit, and its log is rewritten if a
//!    page of it is there or an entry names the pool. Both are one store of the inode's commit word.
//! 3. What began before the pool was retired may still have put something there. So the walk is repeated until it
//!    finds nothing.
//! 4. Blocks that cannot be read stay, unless the caller gives them up. Each of these is named to the caller before it is
//!    given up, so that an interruption hides none.
//!
//! Nothing on media says that a pool is drained: an interrupted drain is begun again and finds less to do. Records of
//! inodes stay, because they can be moved only while no process uses them (`remove`).

use crate::data::Relocating;
use crate::data::evacuate::Source;
use crate::format::*;
use crate::log::Log;
use crate::recovery::Recovery;
use crate::recovery::scrub::without_name;
use crate::requests::*;
use crate::session::inode::Locked;
use crate::session::volume::Volume;
use crate::space::operation::Operation;
use crate::space::{InodeNumbers, Space};
use crate::types::{Errno, FileKind, InodeNumber, Outcome, sorted_apart};
use egeria_machine::format_bytes;
use egeria_media::PoolIndex;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// Walks until nothing is found; more find only what is in constant use.
const MAX_WALKS: usize = 8;
/// Inodes that could not be moved and are named.
const MAX_NAMED: usize = 20;

/// How far a drain is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainProgress {
    /// Blocks that were moved.
    pub moved_blocks: u64,
    /// Blocks in use when it began.
    pub all_blocks: u64,
}

/// What a drain did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// Blocks of files and logs that were moved.
    pub moved_blocks: u64,
    /// Inodes of which something is left there, and why: at most 20.
    pub left: Vec<(InodeNumber, Errno)>,
    /// The caller asked to stop.
    pub is_stopped: bool,
    /// Programs put more there in every walk: something is in constant use.
    pub is_in_use: bool,
}

impl DrainReport {
    /// Whether the pool has no block of a file or log any more.
    pub fn is_drained(&self) -> bool {
        self.left.is_empty() && !self.is_stopped && !self.is_in_use
    }
}

/// Bytes of a file that could not be read and are given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    pub ino: InodeNumber,
    /// One of its paths in the volume, or words that say that it has none.
    pub path: String,
    /// Of the file.
    pub bytes: Range<u64>,
}

/// What a drain does with blocks that cannot be read.
#[derive(Default)]
pub struct Unreadable<'a> {
    /// Byte ranges of the pool that must not be read, because the medium has lost them.
    pub bad: Vec<Range<u64>>,
    /// Given: such blocks are given up after it was called for them. Otherwise they stay on the pool.
    pub give_up: Option<&'a mut dyn FnMut(LostRange)>,
}

/// Is called between inodes; whether to go on.
pub type GoOn<'a> = &'a mut dyn FnMut(DrainProgress) -> bool;

impl Volume {
    /// Move all file data and logs off a pool, and have no new data go there, for all processes of this session. A
    /// drain that was stopped can be continued by another call.
    ///
    /// Blocks of files that are given up become zeros. In files with checksums, reading them fails with `EIO` until they are
    /// overwritten.
    ///
    /// # Errors
    /// `EINVAL` for pool 0, which has the journal, and for a pool that is not there; `ENOSPC` when the other pools have
    /// too little room: then nothing was moved; `EROFS`.
    pub fn drain(
        &self,
        pool: u8,
        unreadable: Unreadable<'_>,
        go_on: GoOn<'_>,
    ) -> Result<DrainReport, VolumeError> {
        self.writable().map_err(|_| {
            failure(
                libc::EROFS,
                "the volume is attached for reading only; attach it for changes",
            )
        })?;
        let all_blocks = self.check_drain(pool)?;
        self.retire_pool(pool as usize, true);
        let mut drain = Drain {
            volume: self,
            pool: PoolIndex(pool),
            progress: DrainProgress {
                moved_blocks: 0,
                all_blocks,
            },
            report: DrainReport::default(),
            bad: sorted_apart(unreadable.bad),
            unreadable: BTreeSet::new(),
        };
        drain.walk_until_nothing_is_found(go_on);
        if let Some(give_up) = unreadable.give_up
            && !drain.report.is_stopped
            && !drain.unreadable.is_empty()
        {
            drain.give_up(give_up, go_on);
            if !drain.report.is_stopped {
                drain.walk_until_nothing_is_found(go_on);
            }
        }
        drain.report.moved_blocks = drain.progress.moved_blocks;
        Ok(drain.report)
    }

    /// Have new data go to a pool again that a drain retired.
    pub fn end_drain(&self, pool: u8) {
        if self.superblock().has_pool(pool as usize) {
            self.retire_pool(pool as usize, false);
        }
    }

    /// Refuse what cannot be drained; else the blocks that are to be moved, more or less.
    fn check_drain(&self, pool: u8) -> Result<u64, VolumeError> {
        let index = pool as usize;
        let path = self.paths.get(index).map_or(Path::new(""), |path| path);
        if !self.superblock().has_pool(index) {
            return Err(failure(
                libc::EINVAL,
                format!("the volume has no pool {pool}; `egeria df` lists its pools"),
            ));
        }
        let path = path.display();
        if pool == 0 {
            return Err(failure(
                libc::EINVAL,
                format!(
                    "{path} is pool 0, which has the journal of the volume and stays; copy the files to another volume"
                ),
            ));
        }
        let used = self.used_blocks(index);
        let others = (0..self.geometry.len() as u8)
            .filter(|other| *other != pool && !self.is_retired(*other as usize));
        let left: u64 = others
            .map(|other| self.space(Some(other)).available_blocks)
            .sum();
        if used > left {
            let bytes = |blocks: u64| format_bytes(blocks * BLOCK as u64);
            return Err(failure(
                libc::ENOSPC,
                format!(
                    "pool {pool} ({path}) holds {}, and the other pools have {} left; remove files, or add a pool first",
                    bytes(used),
                    bytes(left)
                ),
            ));
        }
        Ok(used)
    }

    /// Blocks of files and logs in a pool, and few that threads use just now.
    fn used_blocks(&self, pool: usize) -> u64 {
        let space = Space::of(self);
        let geometry = &self.geometry[pool];
        let free = space.free_in_maps(pool) + space.blocks_in_pockets(pool);
        let records = InodeNumbers::of(self).record_blocks(PoolIndex(pool as u8));
        (geometry.blocks - geometry.data_block.0).saturating_sub(free + records)
    }
}

struct Drain<'a> {
    volume: &'a Volume,
    pool: PoolIndex,
    progress: DrainProgress,
    report: DrainReport,
    /// Byte ranges of the pool that must not be read.
    bad: Vec<Range<u64>>,
    /// Inodes of which something cannot be read.
    unreadable: BTreeSet<u64>,
}

impl Drain<'_> {
    fn walk_until_nothing_is_found(&mut self, go_on: GoOn<'_>) {
        for walk in 1..=MAX_WALKS {
            let before = self.progress.moved_blocks;
            self.report.left.clear();
            self.unreadable.clear();
            self.walk(go_on);
            let found = self.progress.moved_blocks - before;
            self.report.is_in_use = false;
            if self.report.is_stopped || found == 0 {
                break;
            }
            self.report.is_in_use = walk == MAX_WALKS;
        }
    }

    fn walk(&mut self, go_on: GoOn<'_>) {
        let mut inodes = Vec::new();
        Recovery::of(self.volume).for_each_record(&mut |ino, _| inodes.push(ino));
        for ino in inodes {
            if !go_on(self.progress) {
                self.report.is_stopped = true;
                return;
            }
            match self.move_inode(ino, &[]) {
                // It was deleted.
                Ok(()) | Err(Errno(libc::ESTALE)) => {}
                Err(errno) => {
                    if errno == Errno(libc::EIO) {
                        self.unreadable.insert(ino);
                    }
                    if self.report.left.len() < MAX_NAMED {
                        self.report.left.push((InodeNumber(ino), errno));
                    }
                }
            }
        }
    }

    /// Give up what cannot be read of files. What is left of an inode after that is found by the next walk.
    fn give_up(&mut self, named: &mut dyn FnMut(LostRange), go_on: GoOn<'_>) {
        let inodes = self.unreadable.iter().copied().collect();
        let paths = Recovery::of(self.volume).paths_of(&inodes);
        for ino in std::mem::take(&mut self.unreadable) {
            if !go_on(self.progress) {
                self.report.is_stopped = true;
                return;
            }
            let Ok(lost) = self.find_unreadable(ino) else {
                continue;
            };
            let path = paths.get(&ino).cloned();
            let path = path.unwrap_or_else(|| without_name(ino));
            for blocks in &lost {
                named(LostRange {
                    ino: InodeNumber(ino),
                    path: path.clone(),
                    bytes: blocks.start * BLOCK as u64..blocks.end * BLOCK as u64,
                });
            }
            let _ = self.move_inode(ino, &lost);
        }
    }

    /// Blocks of a regular file on the pool that cannot be read. A damaged symbolic link has nothing to give up: without its
    /// target it is of no use.
    fn find_unreadable(&self, ino: u64) -> Outcome<Vec<Range<u64>>> {
        let volume = self.volume;
        let (mut first, mut found) = (0, Vec::new());
        loop {
            let locked = volume.lock_beside_leases(ino)?;
            let is_end = locked.kind() != FileKind::Regular
                || Relocating::of(volume).find_unreadable_part(
                    &locked,
                    self.source(),
                    &mut first,
                    &mut found,
                );
            if is_end {
                return Ok(found);
            }
        }
    }

    fn source(&self) -> Source<'_> {
        Source {
            pool: self.pool,
            bad: &self.bad,
        }
    }

    fn move_inode(&mut self, ino: u64, given_up: &[Range<u64>]) -> Outcome<()> {
        let volume = self.volume;
        let mut first = 0;
        loop {
            let locked = volume.lock_beside_leases(ino)?;
            if matches!(locked.kind(), FileKind::Regular | FileKind::Symlink) {
                let moved = Relocating::of(volume).evacuate_part(
                    &locked,
                    self.source(),
                    given_up,
                    &mut first,
                )?;
                self.progress.moved_blocks += moved.blocks;
                if !moved.is_end {
                    continue;
                }
            }
            // After the data: moving it lengthens the log.
            let named = self.named_in_log(&locked)?;
            if named > 0 {
                let mut operation = Operation::new(volume, locked.me);
                Log::of(volume).compact(&locked, &mut operation)?;
                self.progress.moved_blocks += named;
            }
            return Ok(());
        }
    }

    /// How often a log names the pool: its pages there, and entries that mapped blocks there, also earlier ones. Readers
    /// check every entry, so no log may name a pool that is removed.
    fn named_in_log(&self, locked: &Locked<'_>) -> Outcome<u64> {
        let (mut pages, mut entries) = (0, 0);
        let record = self.volume.read_record(locked.ino)?;
        Log::of(self.volume).walk_log(
            locked.log_place(),
            record.commit,
            LogPosition::NONE,
            &mut |page| {
                pages += u64::from(page.pool() == self.pool);
                Ok(())
            },
            &mut |_, entry, _| {
                let is_there = matches!(entry, Entry::Write(write) if write.pool == self.pool);
                entries += u64::from(is_there);
                Ok(())
            },
        )?;
        Ok(pages + entries)
    }
}

#[cfg(test)]
mod tests {
    use super::sorted_apart;

    #[test]
    fn ranges_are_sorted_and_joined() {
        let ranges = vec![40..50, 5..5, 10..20, 0..3, 15..30, 30..32, 60..61];
        assert_eq!(sorted_apart(ranges), [0..3, 10..32, 40..50, 60..61]);
        assert!(sorted_apart(Vec::new()).is_empty());
    }
}
