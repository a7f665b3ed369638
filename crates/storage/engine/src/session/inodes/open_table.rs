//! The table of open inodes of a process, which all processes may read, and the process's own locks for changing it.
//! Entries have two words, the inode and its counts. The table has parts: a thread notes its opens in its own part
//! while there is room, so threads rarely need the same lock. An inode may have entries in several parts, and its uses
//! are their sum. The place of an entry in a part follows from the inode number and from collisions.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The inode of a removed entry; searches continue past it.
pub(in crate::session) const GONE: u64 = u64::MAX;
/// Parts of a table.
pub(in crate::session) const PARTS: usize = 8;
/// Tries before the CPU is given up: a lock is held for some tens of nanoseconds, unless the table grows.
const SPINS: u32 = 100;

/// Lock and fill level of a part. On its own cache lines, because every open and close writes them.
#[derive(Default)]
#[repr(align(128))]
struct Part {
    lock: AtomicU32,
    used: AtomicU64,
}

impl Part {
    fn take(&self) {
        let mut spins = 0;
        while self
            .lock
            .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
        }
    }

    fn give(&self) {
        self.lock.store(0, Ordering::Release);
    }
}

/// Locks and fill levels of this process's table; private to the process.
#[derive(Default)]
pub(crate) struct Opens {
    parts: [Part; PARTS],
}

impl Opens {
    /// Run `body` under the lock of a part, with the number of its non-empty entries.
    pub(crate) fn locked<T>(&self, part: usize, body: impl FnOnce(&AtomicU64) -> T) -> T {
        let part = &self.parts[part];
        part.take();
        let result = body(&part.used);
        part.give();
        result
    }

    /// Run `body` under all locks, with the counts of all parts.
    pub(crate) fn all_locked<T>(&self, body: impl FnOnce(&FillLevels<'_>) -> T) -> T {
        // Taken in ascending order, like every other thread that takes all locks.
        self.parts.iter().for_each(Part::take);
        let result = body(&FillLevels(&self.parts));
        self.parts.iter().for_each(Part::give);
        result
    }

    /// The child has no table yet.
    pub(crate) fn reset_after_fork(&self) {
        for part in &self.parts {
            part.lock.store(0, Ordering::Relaxed);
            part.used.store(0, Ordering::Relaxed);
        }
    }
}

/// The number of non-empty entries of each part.
pub(crate) struct FillLevels<'a>(&'a [Part; PARTS]);

impl FillLevels<'_> {
    pub(crate) fn of(&self, part: usize) -> &AtomicU64 {
        &self.0[part].used
    }

    /// The table is empty.
    pub(crate) fn reset(&self) {
        let all = self.0.iter();
        all.for_each(|part| part.used.store(0, Ordering::Relaxed));
    }
}

/// A part of a table. The remainder at the end belongs to no part.
fn part_of(table: &[AtomicU64], part: usize) -> &[AtomicU64] {
    let words = part_slots(table) * 2;
    &table[part * words..][..words]
}

/// All entries, used or not, each with its part.
pub(in crate::session) fn entries(
    table: &[AtomicU64],
) -> impl Iterator<Item = (usize, &[AtomicU64])> + Clone {
    (0..PARTS).flat_map(move |part| {
        let entries = part_of(table, part).chunks_exact(2);
        entries.map(move |entry| (part, entry))
    })
}

/// Entries of each part.
pub(in crate::session) fn part_slots(table: &[AtomicU64]) -> usize {
    table.len() / 2 / PARTS
}

/// The entry of a part where the search for an inode begins.
#[inline]
fn first(ino: u64, slots: usize) -> usize {
    // Scales the hash to the part's size without a division.
    let hash = ino.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((u128::from(hash) * slots as u128) >> 64) as usize
}

#[inline]
fn next(slot: usize, slots: usize) -> usize {
    if slot + 1 == slots { 0 } else { slot + 1 }
}

fn entry(part: &[AtomicU64], slot: usize) -> &[AtomicU64] {
    &part[slot * 2..][..2]
}

/// The two words of an inode's entry in a part.
#[inline]
pub(in crate::session) fn find(table: &[AtomicU64], part: usize, ino: u64) -> Option<&[AtomicU64]> {
    let (part, slots) = (part_of(table, part), part_slots(table));
    let mut slot = first(ino, slots);
    for _ in 0..slots {
        let entry = entry(part, slot);
        match entry[0].load(Ordering::Acquire) {
            0 => return None,
            found if found == ino => return Some(entry),
            _ => slot = next(slot, slots),
        }
    }
    None
}

/// The new entry, and how many empty entries it used: none if it reuses a removed one.
pub(in crate::session) fn insert(
    table: &[AtomicU64],
    part: usize,
    ino: u64,
    counts: u64,
) -> Option<(&[AtomicU64], u64)> {
    let (part, slots) = (part_of(table, part), part_slots(table));
    let mut slot = first(ino, slots);
    for _ in 0..slots {
        let entry = entry(part, slot);
        let found = entry[0].load(Ordering::Relaxed);
        if matches!(found, 0 | GONE) {
            entry[1].store(counts, Ordering::Relaxed);
            entry[0].store(ino, Ordering::Release);
            return Some((entry, u64::from(found == 0)));
        }
        slot = next(slot, slots);
    }
    None
}

/// Take an entry out; returns how many entries became empty. A search ends at an empty entry, so the entry right
/// before it need not stay [`GONE`], nor do [`GONE`] entries before that one. A concurrent search still reaches every
/// entry in use.
pub(in crate::session) fn remove(table: &[AtomicU64], part: usize, removed: &[AtomicU64]) -> u64 {
    let part = part_of(table, part);
    let slots = part_slots(table);
    let bytes = removed.as_ptr().addr() - part.as_ptr().addr();
    let mut slot = bytes / size_of_val(removed);
    removed[0].store(GONE, Ordering::Release);
    if entry(part, next(slot, slots))[0].load(Ordering::Relaxed) != 0 {
        return 0;
    }
    let mut emptied = 0;
    while emptied < slots as u64 {
        let word = &entry(part, slot)[0];
        if word.load(Ordering::Relaxed) != GONE {
            break;
        }
        word.store(0, Ordering::Release);
        emptied += 1;
        slot = slot.checked_sub(1).unwrap_or(slots - 1);
    }
    emptied
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn the_table_holds_what_was_put_in_and_not_taken_out(
            steps in prop::collection::vec((0..PARTS, 1u64..60, any::<bool>()), 1..800),
        ) {
            let table: Vec<AtomicU64> = (0..2 * 40 * PARTS).map(|_| AtomicU64::new(0)).collect();
            let mut held = vec![std::collections::BTreeSet::new(); PARTS];
            let mut used = 0;
            for (part, ino, add) in steps {
                let held = &mut held[part];
                if add && held.len() < 30 && held.insert(ino) {
                    let (_, filled) = insert(&table, part, ino, 1).expect("room");
                    used += filled;
                } else if !add && held.remove(&ino) {
                    used -= remove(&table, part, find(&table, part, ino).expect("it is held"));
                }
                for ino in 1..60 {
                    prop_assert_eq!(find(&table, part, ino).is_some(), held.contains(&ino));
                }
                let words = entries(&table).map(|(_, entry)| entry[0].load(Ordering::Relaxed));
                prop_assert_eq!(words.filter(|word| *word != 0).count() as u64, used);
            }
            for (part, held) in held.iter().enumerate() {
                for ino in held {
                    remove(&table, part, find(&table, part, *ino).expect("it is held"));
                }
            }
            prop_assert!(table.iter().step_by(2).all(|word| word.load(Ordering::Relaxed) == 0));
        }
    }
}
