//! Builds a session's state from the pools: finish journals, drop orphans, claim blocks and numbers in use. The order
//! matters: journals first, because they move tails; nothing is allocated before all is claimed.

use crate::attach::superblocks;
use crate::format::*;
use crate::log::Log;
use crate::log::committed::CommittedBlocks;
use crate::log::layout_attribute::layout_of_entry;
use crate::namespace::TreeWalks;
use crate::recovery::Recovery;
use crate::requests::*;
use crate::session::inode::{Record, is_extent_valid};
use crate::space::{InodeNumbers, Space, striping};
use crate::types::{AllocationPolicy, Errno, FileKind, InodeNumber, Outcome};
use egeria_media::{BlockNumber, Pool, PoolIndex, PoolOffset};
use std::sync::Arc;

impl Recovery<'_> {
    pub(super) fn recover_into(
        self,
        options: &AttachOptions,
        report: &mut RecoveryReport,
    ) -> Result<(), VolumeError> {
        let failed = |errno: Errno| {
            let hint = match errno.0 {
                libc::ENOMEM => "free space in /dev/shm or mount it larger",
                _ => "run `egeria check`",
            };
            crate::requests::failure(
                errno.0,
                format!(
                    "cannot recover {}: {errno}; {hint}",
                    self.volume.paths[0].display()
                ),
            )
        };
        let media: Vec<&Pool> = self.volume.media.iter().map(Arc::as_ref).collect();
        superblocks::complete(&media, self.volume.superblock())?;
        Space::of(self.volume).initialise_space();
        for slot in 0..JOURNAL_SLOTS as usize {
            if let Some(records) = self.volume.complete_journal(slot) {
                report.dead_slots += 1;
                report.replayed_records += records as u64;
            }
        }
        let mut orphans = Vec::new();
        for pool in 0..self.volume.geometry.len() {
            self.claim_inode_blocks(pool);
        }
        self.for_each_record(&mut |ino, at| {
            report.inodes += 1;
            self.recover_inode(ino, at, &mut orphans);
        });
        Space::of(self.volume).count_free_space();
        report.freed_orphans = orphans.len() as u64;
        for (pool, at) in orphans {
            // Recovery may be interrupted anywhere: an orphan not dropped now is dropped next time.
            self.volume
                .pool(pool)
                .and_then(|pool| pool.commit_u64(at, 0).map_err(|_| Errno(libc::EIO)))
                .map_err(failed)?;
        }
        self.volume
            .set_allocation(options.allocation.unwrap_or(AllocationPolicy::Local));
        self.volume.thread_exit();
        self.volume
            .lock(InodeNumber::ROOT.0)
            .map(drop)
            .map_err(|errno| {
                if errno.0 == libc::ENOMEM {
                    return failed(errno);
                }
                crate::requests::failure(
                    libc::EIO,
                    format!(
                        "the root directory of {} is damaged; run `egeria check --repair`",
                        self.volume.paths[0].display()
                    ),
                )
            })?;
        TreeWalks::of(self.volume).count_limited().map_err(failed)
    }

    fn claim_inode_blocks(self, pool: usize) {
        let index = PoolIndex(pool as u8);
        for chunk in 0..self.volume.geometry[pool].inode_blocks {
            match self.inode_block(index, chunk) {
                Ok(Some(block)) => {
                    let home = self.volume.geometry[pool].record_pool.0 as usize;
                    if !Space::of(self.volume).claim_blocks(home, block.0, 1) {
                        Space::of(self.volume).note_shared_blocks();
                        self.volume.report_damage(&format!(
                            "pool {pool}: inode block {chunk} shares block {block}"
                        ));
                    }
                }
                Ok(None) => {}
                Err(_) => {
                    // Its numbers must not be given out again.
                    for slot in 0..INODES_PER_BLOCK {
                        InodeNumbers::of(self.volume)
                            .claim_inode(pool, chunk * INODES_PER_BLOCK + slot);
                    }
                }
            }
        }
    }

    /// Block of a pool's inode records, in the pool that has them; `None` when there is none yet.
    pub(crate) fn inode_block(
        self,
        pool: PoolIndex,
        chunk: u64,
    ) -> Outcome<Option<egeria_media::BlockNumber>> {
        let geometry = &self.volume.geometry[pool.0 as usize];
        let home = geometry.record_pool;
        let word = self
            .volume
            .load_word(home, inode_pointer(geometry, chunk))?;
        let damaged = || {
            self.volume.damaged(
                inode_number(pool, chunk * INODES_PER_BLOCK),
                "inode block pointer",
            )
        };
        let block = decode_inode_pointer(chunk, word).map_err(|()| damaged())?;
        match block {
            Some(block) if !self.volume.geometry[home.0 as usize].holds(block, 1) => Err(damaged()),
            block => Ok(block),
        }
    }

    /// Every inode record in use: number and place.
    pub(crate) fn for_each_record(self, visit: &mut dyn FnMut(u64, (PoolIndex, PoolOffset))) {
        for pool in 0..self.volume.geometry.len() {
            let index = PoolIndex(pool as u8);
            let home = self.volume.geometry[pool].record_pool;
            for chunk in 0..self.volume.geometry[pool].inode_blocks {
                let Ok(Some(block)) = self.inode_block(index, chunk) else {
                    continue;
                };
                for slot in 0..INODES_PER_BLOCK {
                    let at = block.offset() + slot * INODE_BYTES;
                    if self.volume.load_word(home, at).is_ok_and(|word| word != 0) {
                        visit(
                            inode_number(index, chunk * INODES_PER_BLOCK + slot),
                            (home, at),
                        );
                    }
                }
            }
        }
    }

    fn recover_inode(
        self,
        ino: u64,
        place: (PoolIndex, PoolOffset),
        orphans: &mut Vec<(PoolIndex, PoolOffset)>,
    ) {
        let Some((pool, index)) = inode_place(ino) else {
            return;
        };
        match self.volume.read_record(ino) {
            Ok(record) if record.commit.orphan => orphans.push(place),
            Ok(record) => {
                InodeNumbers::of(self.volume).claim_inode(pool.0 as usize, index);
                // Damage was reported. What can be claimed is claimed; the rest answers EIO when used.
                if self.claim_object(ino, &record).is_err() {
                    self.claim_up_to_damage(ino, &record);
                }
            }
            Err(_) => InodeNumbers::of(self.volume).claim_inode(pool.0 as usize, index),
        }
    }

    /// Claim an inode's log pages and blocks. They are found in its log. Its state in the session is not made, so that an inode
    /// takes memory only when it is used.
    fn claim_object(self, ino: u64, record: &Record) -> Outcome<()> {
        let certificate = &record.certificate;
        let session = &self.volume.session;
        session.note_stripes(certificate.mode, certificate.layout);
        let place = record.log_place(ino);
        let log = Log::of(self.volume);
        let claim_page = &mut |page: LogPosition| {
            self.claim_page(ino, page);
            Ok(())
        };
        let kind = FileKind::from_mode(certificate.mode);
        let Some(kind @ (FileKind::Regular | FileKind::Symlink)) = kind else {
            return log.walk_pages(place, record.commit, claim_page);
        };
        let mut blocks = CommittedBlocks::without_sums();
        let apply = &mut |_, entry: &Entry<'_>, _| {
            log.check_entry(ino, kind, certificate.checksums, entry)?;
            if let Entry::XattrSet { name, .. } = *entry
                && name == striping::ATTRIBUTE
                && let Some(layout) = layout_of_entry(kind, entry)
            {
                session.note_stripes(certificate.mode, layout);
            }
            blocks.apply(entry);
            Ok(())
        };
        log.walk_log(place, record.commit, LogPosition::NONE, claim_page, apply)?;
        self.claim_file_blocks(ino, &blocks);
        Ok(())
    }

    fn claim_page(self, ino: u64, page: LogPosition) {
        if !Space::of(self.volume).claim_blocks(page.pool().0 as usize, page.block().0, 1) {
            Space::of(self.volume).note_shared_blocks();
            self.volume.report_damage(&format!(
                "inode {ino}: a log page shares block {} of pool {}",
                page.block(),
                page.pool()
            ));
        }
    }

    /// For a log that ends in damage, keep all blocks that its readable part names, also replaced ones: what may still
    /// be rescued must not be reused.
    fn claim_up_to_damage(self, ino: u64, record: &Record) {
        let _ = Log::of(self.volume).walk_log(
            record.log_place(ino),
            record.commit,
            LogPosition::NONE,
            &mut |page| {
                Space::of(self.volume).claim_blocks(page.pool().0 as usize, page.block().0, 1);
                Ok(())
            },
            &mut |_, entry, _| {
                if let Entry::Write(WriteEntry {
                    pool, block, count, ..
                }) = *entry
                    && is_extent_valid(self.volume, pool, block, count)
                {
                    Space::of(self.volume).claim_blocks(pool.0 as usize, block.0, count);
                }
                Ok(())
            },
        );
    }

    fn claim_file_blocks(self, ino: u64, blocks: &CommittedBlocks) {
        let space = Space::of(self.volume);
        let mut shared: Option<Shared> = None;
        for (file_block, count, word) in blocks.runs() {
            let (pool, block) = (word.pool(), word.block().0);
            for at in 0..count {
                if space.claim_blocks(pool.0 as usize, block + at, 1) {
                    continue;
                }
                space.note_shared_blocks();
                let (file_block, block) = (file_block + at, BlockNumber(block + at));
                let longer = shared.and_then(|shared| shared.with(file_block, pool, block));
                if longer.is_none() {
                    self.report_shared(ino, shared);
                }
                shared = longer.or(Some(Shared {
                    file_block,
                    pool,
                    block,
                    count: 1,
                }));
            }
        }
        self.report_shared(ino, shared);
    }

    fn report_shared(self, ino: u64, shared: Option<Shared>) {
        let Some(shared) = shared else { return };
        let (file_block, count) = (shared.file_block, shared.count);
        let (pool, block) = (shared.pool, shared.block);
        self.volume.report_damage(&match count {
            1 => format!("inode {ino}: file block {file_block} shares block {block} of pool {pool}"),
            _ => format!(
                "inode {ino}: {count} file blocks from {file_block} on share blocks from {block} on of pool {pool}"
            ),
        });
    }
}

/// A run of a file's blocks that also belong to another owner. Reported as one, because there may be millions of
/// blocks.
#[derive(Clone, Copy)]
struct Shared {
    file_block: u64,
    pool: PoolIndex,
    block: BlockNumber,
    count: u64,
}

impl Shared {
    /// The run extended by this block, if the block is the next one.
    fn with(self, file_block: u64, pool: PoolIndex, block: BlockNumber) -> Option<Shared> {
        let next = file_block == self.file_block + self.count
            && pool == self.pool
            && block.0 == self.block.0 + self.count;
        next.then_some(Shared {
            count: self.count + 1,
            ..self
        })
    }
}
