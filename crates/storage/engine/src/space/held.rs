//! Blocks that were freed during a snapshot. They are free, but nothing takes them before it ends.
//!
//! A bit of its pool's map of held blocks stands for each. The thread that clears the bit owns the block, and gives it back. A thread that
//! dies in between loses at most a run of blocks until the session ends; no block is given back twice.

use crate::format::Extent;
use crate::session::Snapshots;
use crate::session::slots::Me;
use crate::space::Space;
use egeria_media::{BlockNumber, PoolIndex};
use std::sync::atomic::{Ordering, fence};

/// Blocks that one thread gives back together.
const MAX_RUN_BLOCKS: u64 = 1 << 12;

impl Space<'_> {
    /// Hold a freed run that nothing else names.
    #[cold]
    pub(in crate::space) fn hold(self, me: Me<'_>, run: Extent) {
        let pool = run.pool.0 as usize;
        let map = self.volume.session.held_map(pool);
        for block in run.block.0..run.end() {
            if let Some(word) = map.get((block / 64) as usize) {
                word.fetch_or(1 << (block % 64), Ordering::AcqRel);
            }
        }
        // The snapshot may have ended before the bits were set: then its end did not find them.
        fence(Ordering::SeqCst);
        if !Snapshots::of(self.volume).keeps_freed_blocks() {
            self.release_between(me, pool, run.block.0, run.end());
        }
    }

    /// End the snapshot that the process in a slot, given plus 1, reads, if it reads one.
    pub(crate) fn end_snapshot_of(self, owner: u64) {
        let snapshots = Snapshots::of(self.volume);
        if snapshots.leave(owner) {
            if let Ok(me) = self.volume.me() {
                self.release_held(me);
            }
            snapshots.free_place(owner);
        }
    }

    /// End a snapshot early, because programs need the space.
    pub(crate) fn end_snapshot_for_space(self) {
        Snapshots::of(self.volume).cancel();
        if let Ok(me) = self.volume.me() {
            self.release_held(me);
        }
    }

    /// Give back all held blocks. No snapshot is under way.
    fn release_held(self, me: Me<'_>) {
        if !self.volume.session.has_held_blocks() {
            return;
        }
        fence(Ordering::SeqCst);
        for pool in 0..self.volume.geometry.len() {
            let blocks = self.volume.geometry[pool].blocks;
            self.release_between(me, pool, 0, blocks);
        }
    }

    fn release_between(self, me: Me<'_>, pool: usize, first: u64, end: u64) {
        let map = self.volume.session.held_map(pool);
        let mut run = Extent {
            pool: PoolIndex(pool as u8),
            block: BlockNumber(first),
            count: 0,
        };
        for (index, word) in map.iter().enumerate() {
            let at = index as u64 * 64;
            if at + 64 <= first || at >= end || word.load(Ordering::Acquire) == 0 {
                continue;
            }
            let wanted = bits_between(first.saturating_sub(at), (end - at).min(64));
            let mut taken = word.fetch_and(!wanted, Ordering::AcqRel) & wanted;
            while taken != 0 {
                let bit = u64::from(taken.trailing_zeros());
                let count = u64::from((taken >> bit).trailing_ones());
                taken &= !bits_between(bit, bit + count);
                if run.end() == at + bit && run.count + count <= MAX_RUN_BLOCKS {
                    run.count += count;
                } else {
                    self.give_back_released(me, run);
                    run.block = BlockNumber(at + bit);
                    run.count = count;
                }
            }
        }
        self.give_back_released(me, run);
    }

    fn give_back_released(self, me: Me<'_>, run: Extent) {
        if run.count > 0 {
            self.volume.give_back_run(me, run);
        }
    }
}

/// Bits from one number up to another, which is at most 64.
fn bits_between(from: u64, to: u64) -> u64 {
    let below = |end: u64| match end {
        64.. => u64::MAX,
        end => (1 << end) - 1,
    };
    below(to) & !below(from)
}

#[cfg(test)]
mod tests {
    use super::bits_between;

    #[test]
    fn bits_between_numbers() {
        assert_eq!(bits_between(0, 64), u64::MAX);
        assert_eq!(bits_between(0, 0), 0);
        assert_eq!(bits_between(3, 5), 0b11000);
        assert_eq!(bits_between(63, 64), 1 << 63);
        assert_eq!(bits_between(64, 64), 0);
    }
}
