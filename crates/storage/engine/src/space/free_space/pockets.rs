//! Pockets: the few runs of free blocks that each thread keeps, so that the common write uses no shared cache line.

use crate::session::LateWork;
use crate::space::Space;

use super::*;

/// An entry of this thread's pocket, and its pool.
#[derive(Clone, Copy)]
pub(crate) struct PocketPlace<'a> {
    pool: usize,
    word: &'a AtomicU64,
}

impl Space<'_> {
    /// Fetch a run of up to `want` blocks of this pool into the pocket; returns the pocket entry.
    fn refill(self, me: Me<'_>, pool: usize, want: u64, need: Need) -> Outcome<usize> {
        LateWork::of(self.volume).give_back_late(Late::is_run);
        self.volume.look_for_added_pools();
        let free = self.free_in_maps(pool);
        let floor = match need {
            Need::Ordinary => RESERVE_BLOCKS,
            Need::Replacing => RESERVE_BLOCKS / 2,
            Need::Freeing => 0,
        };
        let tight = free < 2048 || free < self.volume.geometry[pool].blocks / 32;
        self.volume.tight[pool].store(tight, Ordering::Relaxed);
        if free <= floor {
            return Err(Errno(libc::ENOSPC));
        }
        let ahead = (free / 2048).clamp(1, POCKET_REFILL_BLOCKS);
        let is_large = want >= MIN_MAPPED_BLOCKS;
        let want = want.max(ahead).min(free - floor).min(MAX_EXTENT_BLOCKS);
        let entry = self.empty_pocket_entry(me, pool);
        let extent = self
            .search_groups(me, pool, want)?
            .ok_or(Errno(libc::ENOSPC))?;
        // For a moment two words name it (incoming and pocket): reaping drops the copy.
        me.slot.pocket[pool][entry].store(extent.encode(), Ordering::Release);
        me.slot.incoming.store(0, Ordering::Release);
        // A process that fills one pocket may write a small file and end; one that fills a second pocket writes more.
        if is_large || self.volume.has_refilled.load(Ordering::Relaxed) {
            let blocks = extent.count.min(MAX_MAPPED_BLOCKS);
            if let Ok(pool) = self.volume.pool(extent.pool) {
                pool.map_ahead(extent.block.offset(), blocks * BLOCK as u64);
            }
        } else {
            self.volume.has_refilled.store(true, Ordering::Relaxed);
        }
        Ok(entry)
    }

    /// Search where this thread last found room, then further on; threads begin in different groups.
    pub(super) fn search_groups(
        self,
        me: Me<'_>,
        pool: usize,
        want: u64,
    ) -> Outcome<Option<Extent>> {
        let header = self.volume.session.pool(pool);
        let groups = (header.group_count.load(Ordering::Relaxed) as usize).max(1);
        let last = &me.slot.last_group[pool];
        let first = match last.load(Ordering::Relaxed) as usize {
            0 => me.index % groups,
            group => (group - 1) % groups,
        };
        let free = |group: &usize| header.groups[*group].free.load(Ordering::Relaxed);
        let order = (first..groups).chain(0..first);
        let whole = order
            .clone()
            .filter(|group| free(group) >= want)
            .take(4)
            .map(|group| (group, (true, Wait::No)));
        let any = || order.clone().filter(|group| free(group) > 0);
        let some = any().map(|group| (group, (false, Wait::No)));
        // When all groups with room are locked, they are waited for in turn: one of the holders may be stopped.
        let waiting = std::iter::repeat_with(|| any().collect::<Vec<usize>>())
            .take_while(|groups| !groups.is_empty())
            .flatten()
            .map(|group| (group, (false, Wait::For(TURN))));
        for (group, manner) in whole.chain(some).chain(waiting) {
            if let Some(extent) = self.take_from_group(me, pool, group, want, manner)? {
                last.store(group as u32 + 1, Ordering::Relaxed);
                return Ok(Some(extent));
            }
        }
        Ok(None)
    }

    fn empty_pocket_entry(self, me: Me<'_>, pool: usize) -> usize {
        let pocket = &me.slot.pocket[pool];
        if let Some(entry) = pocket
            .iter()
            .position(|word| word.load(Ordering::Relaxed) == 0)
        {
            return entry;
        }
        let mut empty = None;
        for (entry, word) in pocket.iter().enumerate() {
            let given = self.give_back_pocket_entry(me.index, me.slot, word);
            empty = empty.or(given.is_ok().then_some(entry));
        }
        empty.unwrap_or_else(|| {
            LateWork::of(self.volume).later(Late::Run(pocket[0].swap(0, Ordering::AcqRel)));
            0
        })
    }

    /// `EBUSY`: the rest stays there.
    pub(in crate::space) fn give_back_pocket_entry(
        self,
        index: usize,
        slot: &ThreadSlot,
        word: &AtomicU64,
    ) -> Outcome<()> {
        let extent = word.load(Ordering::Relaxed);
        if extent == 0 {
            return Ok(());
        }
        slot.outgoing.store(extent, Ordering::Release);
        word.store(0, Ordering::Release);
        let given = self.volume.give_back(index, slot);
        if given.is_err() {
            // For a moment two words name it, as in `refill`.
            word.store(slot.outgoing.load(Ordering::Relaxed), Ordering::Release);
            slot.outgoing.store(0, Ordering::Release);
        }
        given
    }

    pub(crate) fn index_of_slot(self, slot: &ThreadSlot) -> usize {
        let base = self.volume.session.threads().as_ptr() as usize;
        (slot as *const ThreadSlot as usize - base) / size_of::<ThreadSlot>()
    }

    /// Take up to `want` blocks, first from the preferred pool, then from any pool with room. `record` stores the run
    /// as pending before it leaves the pocket.
    pub(crate) fn take_blocks(
        self,
        me: Me<'_>,
        prefer: usize,
        want: u64,
        need: Need,
        record: impl Fn(Extent),
    ) -> Outcome<Extent> {
        if should_fail(Resource::Blocks) {
            return Err(Errno(libc::ENOSPC));
        }
        let pools = self.volume.geometry.len();
        for pool in (prefer..pools).chain(0..prefer.min(pools)) {
            if self.volume.is_retired(pool) {
                continue;
            }
            let Some(entry) = self.pocket_entry(me, pool, want, need)? else {
                continue;
            };
            let word = &me.slot.pocket[pool][entry];
            let held = Extent::decode(word.load(Ordering::Relaxed));
            let count = held.count.min(want);
            let taken = Extent { count, ..held };
            record(taken);
            let rest = Extent {
                block: BlockNumber(held.block.0 + count),
                count: held.count - count,
                ..held
            };
            word.store(rest.encode(), Ordering::Release);
            return Ok(taken);
        }
        Err(Errno(libc::ENOSPC))
    }

    /// Take one block of the shortest run that the pocket has of this pool; `None`: it has none. `record` as in
    /// [`Space::take_blocks`].
    #[inline(always)]
    pub(crate) fn take_block_at_hand<'a>(
        self,
        me: Me<'a>,
        pool: usize,
        record: impl Fn(Extent),
    ) -> Option<(Extent, PocketPlace<'a>)> {
        if should_fail(Resource::Blocks) {
            return None;
        }
        let mut shortest: Option<(&AtomicU64, Extent)> = None;
        for word in me.slot.pocket.get(pool)? {
            let held = Extent::decode(word.load(Ordering::Relaxed));
            if held.count > 0 && shortest.is_none_or(|(_, other)| held.count < other.count) {
                shortest = Some((word, held));
            }
            if held.count == 1 {
                break;
            }
        }
        let (word, held) = shortest?;
        let taken = Extent { count: 1, ..held };
        record(taken);
        word.store(held.without_first(1).encode(), Ordering::Release);
        Some((taken, PocketPlace { pool, word }))
    }

    #[inline]
    fn pocket_entry(
        self,
        me: Me<'_>,
        pool: usize,
        want: u64,
        need: Need,
    ) -> Outcome<Option<usize>> {
        let counts = || {
            me.slot.pocket[pool]
                .iter()
                .map(|word| Extent::decode(word.load(Ordering::Relaxed)).count)
        };
        // The shortest sufficient run: recently freed runs are reused first, so that overwriting needs no group and
        // touches no new memory.
        let mut fitting: Option<(usize, u64)> = None;
        for (entry, count) in counts().enumerate() {
            if count == want {
                return Ok(Some(entry));
            }
            if count > want && fitting.is_none_or(|(_, shortest)| count < shortest) {
                fitting = Some((entry, count));
            }
        }
        if let Some((entry, _)) = fitting {
            return Ok(Some(entry));
        }
        match self.refill(me, pool, want, need) {
            Ok(entry) => Ok(Some(entry)),
            Err(Errno(libc::ENOSPC)) => Ok(counts()
                .enumerate()
                .filter(|(_, count)| *count > 0)
                .max_by_key(|(_, count)| *count)
                .map(|(entry, _)| entry)),
            Err(errno) => Err(errno),
        }
    }

    /// As [`Space::put_blocks`], of one block. It goes to the place in the pocket that another one was taken from, if that
    /// is empty now.
    #[inline(always)]
    pub(crate) fn put_block_at_hand(self, me: Me<'_>, source: &AtomicU64, place: PocketPlace<'_>) {
        let freed = source.load(Ordering::Relaxed);
        let pool = place.pool % MAX_POOLS;
        let is_usual = place.word.load(Ordering::Relaxed) == 0
            && Extent::decode(freed).pool.0 as usize == pool
            && Extent::decode(freed).count == 1
            && !self.is_tight(pool)
            && !self.keeps_freed_blocks();
        if is_usual {
            place.word.store(freed, Ordering::Release);
            source.store(0, Ordering::Release);
        } else {
            self.put_blocks(me, source);
        }
    }

    /// Take ownership of a freed run named by `source` (a pending word): into the pocket when it is
    /// short and space is plentiful, else back to the map.
    #[inline]
    pub(crate) fn put_blocks(self, me: Me<'_>, source: &AtomicU64) {
        let extent = Extent::decode(source.load(Ordering::Relaxed));
        if extent.count == 0 {
            return;
        }
        let pool = extent.pool.0 as usize;
        if extent.count <= POCKET_RUN_BLOCKS && !self.is_tight(pool) && !self.keeps_freed_blocks() {
            for word in &me.slot.pocket[pool] {
                if let Some(merged) = merge(Extent::decode(word.load(Ordering::Relaxed)), extent) {
                    word.store(merged.encode(), Ordering::Release);
                    source.store(0, Ordering::Release);
                    return;
                }
            }
        }
        self.put_in_map(me, source, extent);
    }

    #[inline(never)]
    fn put_in_map(self, me: Me<'_>, source: &AtomicU64, extent: Extent) {
        me.slot.outgoing.store(extent.encode(), Ordering::Release);
        source.store(0, Ordering::Release);
        self.volume.give_back_run(me, extent);
    }
}

/// Add a run to a pocket entry that is empty or adjacent.
#[inline(always)]
fn merge(held: Extent, freed: Extent) -> Option<Extent> {
    if held.count == 0 {
        return Some(freed);
    }
    let count = held.count + freed.count;
    if count > POCKET_RUN_BLOCKS {
        None
    } else if held.end() == freed.block.0 {
        Some(Extent { count, ..held })
    } else if freed.end() == held.block.0 {
        Some(Extent { count, ..freed })
    } else {
        None
    }
}
