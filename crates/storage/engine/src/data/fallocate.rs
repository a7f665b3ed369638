//! Reserving, punching and zeroing ranges; finding data and holes; reporting where data lies.

use crate::data::write::MAX_FILE_BYTES;
use crate::data::write_rules::WriteRules;
use crate::data::{Reading, Reserving, Writing};
use crate::format::*;
use crate::log::Log;
use crate::log::checksums::NewSums;
use crate::log::committed::CommittedBlocks;
use crate::log::mapping::{Mapping, entries_of};
use crate::log::staging::Staged;
use crate::session::index::Index;
use crate::session::inode::Locked;
use crate::session::layout::PENDING_EXTENTS;
use crate::session::volume::FileReference;
use crate::session::{Quotas, Stamps};
use crate::space::Placing;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::*;
use arrayvec::ArrayVec;
use std::sync::atomic::Ordering;

impl Reserving<'_> {
    pub(super) fn allocate_by(
        self,
        file: FileReference,
        (offset_bytes, length_bytes): (u64, u64),
        mode: AllocateMode,
        rules: WriteRules,
    ) -> Outcome<()> {
        self.volume.writable()?;
        if length_bytes == 0 {
            return Err(Errno(libc::EINVAL));
        }
        let end = offset_bytes
            .checked_add(length_bytes)
            .filter(|end| *end <= MAX_FILE_BYTES)
            .ok_or(Errno(libc::EFBIG))?;
        match mode {
            AllocateMode::Extend | AllocateMode::KeepSize => {
                let grow = mode == AllocateMode::Extend;
                let reserve = || self.reserve_range(file, (offset_bytes, end), grow, rules);
                match reserve() {
                    Err(Errno(libc::ENOSPC)) if self.volume.reap_for_space() => reserve(),
                    Err(Errno(libc::EDQUOT)) if self.volume.reap_for_quota(file) => reserve(),
                    outcome => outcome,
                }
            }
            AllocateMode::PunchHole | AllocateMode::ZeroRange | AllocateMode::ZeroRangeKeepSize => {
                let grow = mode == AllocateMode::ZeroRange;
                self.clear_range(file, (offset_bytes, end), grow, rules)
            }
        }
    }

    /// Map every hole of a range to blocks that read as zeros; in as many commits as needed.
    fn reserve_range(
        self,
        file: FileReference,
        (offset, end): (u64, u64),
        grow: bool,
        rules: WriteRules,
    ) -> Outcome<()> {
        let mut block = offset / BLOCK as u64;
        let end_block = end.div_ceil(BLOCK as u64);
        loop {
            let locked = self.volume.lock(file.ino.0)?.regular()?;
            let mut operation = Operation::new(self.volume, locked.me);
            let mut mappings = ArrayVec::<Mapping, PENDING_EXTENTS>::new();
            while block < end_block && operation.has_room() {
                block =
                    self.reserve_some(&locked, &mut operation, block, end_block, &mut mappings)?;
            }
            let last = block >= end_block;
            let size = locked.size_bytes();
            let new_size = if last && grow { size.max(end) } else { size };
            if new_size > size {
                Writing::of(self.volume).zero_behind_end(&locked, size, new_size)?;
            }
            self.commit_mappings(
                &locked,
                &mut operation,
                (&mappings, &NewSums::default()),
                new_size,
                None,
                (Need::Ordinary, rules),
            )?;
            if last {
                return Ok(());
            }
        }
    }

    fn reserve_some(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        block: u64,
        end: u64,
        mappings: &mut ArrayVec<Mapping, PENDING_EXTENTS>,
    ) -> Outcome<u64> {
        let index = locked.index();
        let hole_end = index.next_mapped(block, end).unwrap_or(end);
        if hole_end == block {
            // Skip what is mapped.
            return Ok((block..end)
                .find(|block| !index.load(*block).is_mapped())
                .unwrap_or(end));
        }
        let (prefer, count) = Placing::of(self.volume)
            .placement(operation.me, locked.inode)
            .run_for(locked.ino, block, hole_end);
        let taken = operation.take(locked.ino, block, count, prefer, Need::Ordinary)?;
        mappings.push(Mapping {
            file_block: block,
            count: taken.count,
            pool: taken.pool,
            block: taken.block,
            unwritten: true,
            sums_at: 0,
        });
        Ok(block + taken.count)
    }

    /// Make a range read as zeros: whole blocks become a hole, edges are copied with zeros.
    fn clear_range(
        self,
        file: FileReference,
        (offset, end): (u64, u64),
        grow: bool,
        rules: WriteRules,
    ) -> Outcome<()> {
        let locked = self.volume.lock(file.ino.0)?.regular()?;
        let size = locked.size_bytes();
        let new_size = if grow { size.max(end) } else { size };
        if new_size > size {
            Writing::of(self.volume).zero_behind_end(&locked, size, new_size)?;
        }
        let first = offset.div_ceil(BLOCK as u64);
        let last = end / BLOCK as u64;
        let mut operation = Operation::new(self.volume, locked.me);
        let mut mappings = ArrayVec::<Mapping, PENDING_EXTENTS>::new();
        let edges = if first > last {
            [Some((offset, end)), None]
        } else {
            [
                (offset < first * BLOCK as u64).then_some((offset, first * BLOCK as u64)),
                (last * (BLOCK as u64) < end).then_some((last * BLOCK as u64, end)),
            ]
        };
        let mut sums = NewSums::new(locked.has_sums());
        for (from, to) in edges.into_iter().flatten() {
            if let Some(mapping) = self.zero_edge(&locked, &mut operation, &mut sums, from, to)? {
                mappings.push(mapping);
            }
        }
        let hole = (first < last).then(|| (first, last - first));
        // Zeros may use the reserve, for edges as for the hole: punching frees space on a full volume.
        self.commit_mappings(
            &locked,
            &mut operation,
            (&mappings, &sums),
            new_size,
            hole,
            (Need::Freeing, rules),
        )
    }

    fn zero_edge(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        sums: &mut NewSums,
        from: u64,
        to: u64,
    ) -> Outcome<Option<Mapping>> {
        let file_block = from / BLOCK as u64;
        let word = locked.index().load(file_block);
        if !word.has_data() {
            return Ok(None);
        }
        let mut bytes = [0u8; BLOCK];
        Reading::of(self.volume).old_block(locked, file_block, word, &mut bytes)?;
        let start = (from % BLOCK as u64) as usize;
        bytes[start..start + (to - from) as usize].fill(0);
        let taken = operation.take(
            locked.ino,
            file_block,
            1,
            Placing::of(self.volume)
                .placement(operation.me, locked.inode)
                .pool_for(locked.ino, file_block),
            Need::Freeing,
        )?;
        let sums_at = sums.count();
        sums.store_block(self.volume, (taken.pool, taken.block), &bytes)?;
        Ok(Some(Mapping::to(taken, file_block, sums_at)))
    }

    fn commit_mappings(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        (mappings, sums): (&[Mapping], &NewSums),
        size_bytes: u64,
        hole: Option<(u64, u64)>,
        (need, rules): (Need, WriteRules),
    ) -> Outcome<()> {
        if mappings.is_empty() && hole.is_none() && size_bytes == locked.size_bytes() {
            return Ok(());
        }
        let new_blocks = || locked.unmapped_blocks(mappings);
        let _charge = Quotas::of(self.volume).reserve(locked, new_blocks)?;
        Log::of(self.volume).compact_if_due(locked, operation);
        let time_ns = Stamps::of(self.volume).stamp_ns(locked.inode);
        let mut staged = Staged::begin(locked, need)?;
        // If there is no other entry, an empty hole records the size.
        let hole = hole.or(mappings.is_empty().then_some((0, 0)));
        let hole = hole.map(|(file_block, count)| Entry::Hole {
            file_block,
            count,
            size_bytes,
        });
        if let Some(entry) = &hole {
            staged.add(operation, entry, time_ns)?;
        }
        for mapping in mappings {
            staged.add_mapping(operation, mapping, sums.of(mapping), size_bytes, time_ns)?;
            locked
                .index()
                .reserve_for_write(mapping.file_block, mapping.count)?;
        }
        let _direct = rules.begin_commit(locked.inode)?;
        operation.commit(&[&staged])?;
        Log::of(self.volume).apply_commit(locked, &staged, || {
            if let Some(entry) = &hole {
                Log::of(self.volume).apply_entry(
                    locked,
                    operation,
                    LogPosition::NONE,
                    entry,
                    time_ns,
                    false,
                )?;
            }
            let entries = mappings.iter().flat_map(|mapping| {
                entries_of(*mapping, sums.of(mapping), size_bytes, !mapping.unwritten)
            });
            for entry in entries {
                Log::of(self.volume).apply_entry(
                    locked,
                    operation,
                    LogPosition::NONE,
                    &entry,
                    time_ns,
                    false,
                )?;
            }
            Ok(())
        })?;
        operation.finish();
        Ok(())
    }

    /// The offset of the block that `in_index` or `in_log` finds, searching from a block to the end of the file.
    pub(super) fn seek(
        self,
        file: FileReference,
        offset_bytes: u64,
        in_index: impl Fn(Index<'_>, u64, u64) -> Option<u64>,
        in_log: impl Fn(&CommittedBlocks, u64, u64) -> Option<u64>,
    ) -> Outcome<Option<u64>> {
        let from = offset_bytes / BLOCK as u64;
        let find = |size_bytes: u64, find: &dyn Fn(u64) -> Option<u64>| {
            if offset_bytes >= size_bytes {
                return None;
            }
            let found = find(size_bytes.div_ceil(BLOCK as u64))?;
            Some((found * BLOCK as u64).clamp(offset_bytes, size_bytes))
        };
        Log::of(self.volume).read_unlocked(
            file.ino.0,
            |inode, _| {
                match FileKind::from_mode(inode.mode.load(Ordering::Relaxed)) {
                    Some(FileKind::Regular) => {}
                    Some(FileKind::Directory) => return Err(Errno(libc::EISDIR)),
                    _ => return Err(Errno(libc::EINVAL)),
                }
                let index = Index {
                    inode,
                    arena: self.volume.session.arena(),
                };
                let size_bytes = inode.size_bytes.load(Ordering::Acquire);
                Ok(find(size_bytes, &|end| in_index(index, from, end)))
            },
            || {
                Log::of(self.volume).with_committed_blocks(file.ino.0, |blocks| {
                    Ok(find(blocks.size_bytes, &|end| in_log(blocks, from, end)))
                })
            },
        )
    }
}
