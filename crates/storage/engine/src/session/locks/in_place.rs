//! Writers that change blocks in place (see `data::in_place`), and what excludes them.
//!
//! Other in-place writers: a range of a file has a word, which names the writer. All files share these words. Ranges
//! in a row have words in a row, so ranges of one file closer than 2 GiB never share a word, and a long write takes few
//! cache lines. One write takes its words in ascending order, so writers cannot deadlock. A word left by a dead writer is
//! taken over: that write was not finished, so any part of it may be visible.
//!
//! Threads that change which blocks a file has, under the inode's lock: see `exclusion`. An in-place writer waits for
//! no lock during its write.

use crate::format::LayoutWord;
use crate::session::exclusion::{WritingInPlace, is_writing, say_before_looking};
use crate::session::inode::Locked;
use crate::session::layout::{LOADED, ProcessSlot, RANGE_LOCKS, SessionInode};
use crate::session::map::Session;
use crate::session::owner_word::OwnerWord;
use crate::session::slots::Me;
use crate::session::wait_notes::{Awaited, WAIT_UNREPORTED};
use crate::session::{Locking, Waits, patience};
use crate::types::Outcome;
use arrayvec::ArrayVec;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const RANGE_BLOCKS: u64 = 8;
/// Most ranges of one write.
pub(crate) const MAX_RANGES: usize = 65;
/// Longest write in place, blocks.
pub(crate) const MAX_IN_PLACE_BLOCKS: u64 = (MAX_RANGES as u64 - 1) * RANGE_BLOCKS;

/// Checks before a waiter sleeps: most writes end within microseconds.
const LOOKS: u32 = 200;
/// How long a waiter sleeps between looks.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// How often a waiter checks whether the thread it waits for is alive.
const ASK_AGAIN: Duration = Duration::from_millis(10);
/// How often a writer checks again at once while the inode's lock is held.
const TRIES: u32 = 64;
/// How long a writer waits for the inode's lock before it goes the ordinary way, which notices a dead or stopped holder.
const MAX_HOLDER_WAIT: Duration = Duration::from_millis(20);
/// The same on an emulated machine, however slow it is.
const MAX_WAIT: Duration = Duration::from_secs(10);

impl SessionInode {
    /// Whether blocks are changed in place. Changes only under the inode's lock.
    #[inline(always)]
    pub(crate) fn is_written_in_place(&self) -> bool {
        let layout = LayoutWord(self.layout.load(Ordering::Relaxed));
        layout.stripe_blocks().is_some()
            && self.checksums.load(Ordering::Relaxed) == 0
            && self.mode.load(Ordering::Relaxed) & libc::S_IFMT == libc::S_IFREG
    }
}

/// Ranges of a file that this thread alone writes in place, until this is dropped.
pub(crate) struct Ranges<'a> {
    words: &'a [AtomicU32],
    held: ArrayVec<u16, MAX_RANGES>,
}

impl Drop for Ranges<'_> {
    fn drop(&mut self) {
        for at in &self.held {
            self.words[usize::from(*at)].store(0, Ordering::Release);
        }
    }
}

/// Indexes of the words for a file's blocks, without duplicates, ascending.
fn places(ino: u64, first_block: u64, last_block: u64) -> ArrayVec<u16, MAX_RANGES> {
    let first_of_file = ino.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let range = |range: u64| (first_of_file.wrapping_add(range) % RANGE_LOCKS as u64) as u16;
    let ranges = first_block / RANGE_BLOCKS..=last_block / RANGE_BLOCKS;
    let mut places: ArrayVec<u16, MAX_RANGES> = ranges.map(range).take(MAX_RANGES).collect();
    places.sort_unstable();
    let mut last = None;
    places.retain(|place| last.replace(*place) != Some(*place));
    places
}

/// Waiting for a thread that is usually done at once.
#[derive(Default)]
struct Wait {
    looks: u32,
    asked: Option<Instant>,
    begun: Option<Instant>,
    is_reported: bool,
}

impl Wait {
    /// Pause; returns whether it is time to check that the awaited thread is alive.
    fn pause(&mut self, ino: u64) -> Outcome<bool> {
        self.looks += 1;
        if self.looks < LOOKS {
            std::hint::spin_loop();
            return Ok(false);
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        if patience::limit().is_some_and(|limit| begun.elapsed() >= limit) {
            return Err(patience::expired(ino));
        }
        std::thread::sleep(LOOK_AGAIN);
        let asks = self.asked.is_none_or(|at| at.elapsed() >= ASK_AGAIN);
        if asks {
            self.asked = Some(Instant::now());
        }
        Ok(asks)
    }

    /// Whether to report the wait now; true only once.
    fn is_long(&mut self) -> bool {
        let is_long = self.begun.is_some_and(|at| at.elapsed() >= WAIT_UNREPORTED);
        is_long && !std::mem::replace(&mut self.is_reported, true)
    }
}

impl<'v> Locking<'v> {
    /// Take the ranges of these blocks, at most [`MAX_IN_PLACE_BLOCKS`].
    pub(crate) fn lock_ranges(
        self,
        me: Me<'_>,
        ino: u64,
        first_block: u64,
        last_block: u64,
    ) -> Outcome<Ranges<'v>> {
        let mut ranges = Ranges {
            words: self.volume.session.range_locks(),
            held: ArrayVec::new(),
        };
        for place in places(ino, first_block, last_block) {
            self.take_range(me, ino, &ranges.words[usize::from(place)])?;
            ranges.held.push(place);
        }
        Ok(ranges)
    }

    #[inline]
    fn take_range(self, me: Me<'_>, ino: u64, word: &AtomicU32) -> Outcome<()> {
        let ours = me.owner_word().0;
        match word.compare_exchange(0, ours, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => {
                (self.volume).wait_uncharged(me.slot, || self.wait_for_range(ours, ino, word))
            }
        }
    }

    #[cold]
    fn wait_for_range(self, ours: u32, ino: u64, word: &AtomicU32) -> Outcome<()> {
        let mut wait = Wait::default();
        loop {
            let holder = word.load(Ordering::Relaxed);
            let asks = holder != 0 && wait.pause(ino)?;
            let slot = || self.volume.session.slot_of_owner(OwnerWord(holder));
            let is_over = || slot().is_none_or(|slot| self.volume.session.is_thread_dead(slot));
            let is_free = holder == 0 || holder == ours || (asks && is_over());
            let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            if is_free && word.compare_exchange(holder, ours, order, failed).is_ok() {
                return Ok(());
            }
            if wait.is_long()
                && let Some(slot) = slot()
            {
                Waits::of(self.volume).report_wait_for_slot(ino, Awaited::Write, slot);
            }
        }
    }

    /// Begin to write in place. `None`: use the ordinary path.
    #[inline]
    pub(crate) fn begin_in_place<'a>(
        self,
        me: Me<'a>,
        ino: u64,
        inode: &SessionInode,
    ) -> Option<WritingInPlace<'a>> {
        let begin = || WritingInPlace::begin(&me.slot.in_place, ino, &inode.owner);
        let tried = || {
            let writing = begin();
            if writing.is_none() {
                std::hint::spin_loop();
            }
            writing
        };
        let at_once = (0..TRIES).find_map(|_| tried());
        let writing = at_once.or_else(|| self.begin_after_holder(me, begin))?;
        let may = inode.state.load(Ordering::Acquire) == LOADED && inode.is_written_in_place();
        may.then_some(writing)
    }

    /// A thread holds the inode's lock: wait for it for a moment. Writers that went the ordinary way instead would hold
    /// the lock one after the other, wait for writers in place each time, and so keep all others out.
    #[cold]
    fn begin_after_holder<'a>(
        self,
        me: Me<'a>,
        begin: impl Fn() -> Option<WritingInPlace<'a>>,
    ) -> Option<WritingInPlace<'a>> {
        let emulated = self.volume.emulated();
        let slowness = emulated.map_or(1.0, |emulation| emulation.dilation());
        let limit =
            patience::limit().unwrap_or_else(|| MAX_HOLDER_WAIT.mul_f64(slowness).min(MAX_WAIT));
        let begun = Instant::now();
        let wait = || loop {
            if let Some(writing) = begin() {
                return Some(writing);
            }
            if begun.elapsed() >= limit {
                return None;
            }
            std::thread::sleep(LOOK_AGAIN);
        };
        self.volume.wait_uncharged(me.slot, wait)
    }

    /// Wait until all in-place writes have ended. The owner word is ours, so no new one begins.
    #[inline]
    pub(in crate::session) fn wait_for_writers_in_place(self, locked: &Locked<'_>) -> Outcome<()> {
        if locked.inode.is_written_in_place() {
            self.wait_for_slots(locked.me, locked.ino)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn wait_for_slots(self, me: Me<'_>, ino: u64) -> Outcome<()> {
        say_before_looking();
        let threads = self.volume.session.used_threads().iter().enumerate();
        for (index, slot) in threads.filter(|(index, _)| *index != me.index) {
            let in_place = &slot.in_place;
            let mut wait = Wait::default();
            while is_writing(in_place, ino) {
                if wait.pause(ino)? && self.volume.session.is_thread_dead(index) {
                    break;
                }
                if wait.is_long() {
                    Waits::of(self.volume).report_wait_for_slot(ino, Awaited::Write, index);
                }
            }
        }
        Ok(())
    }
}

impl Session {
    /// Whether the process of a thread slot is gone.
    fn is_thread_dead(&self, slot: usize) -> bool {
        let owner = self.threads()[slot].owner.load(Ordering::Acquire) as usize;
        let process = owner.checked_sub(1);
        let process = process.and_then(|process| self.processes().get(process));
        process.is_none_or(ProcessSlot::is_dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_ascend_and_are_there_once() {
        for (first, last) in [
            (0, 0),
            (7, 8),
            (3, MAX_IN_PLACE_BLOCKS + 2),
            (1 << 50, (1 << 50) + 99),
        ] {
            for ino in [1, 17, 1 << 40] {
                let places = places(ino, first, last);
                assert!(places.is_sorted_by(|one, other| one < other), "{places:?}");
                let ranges = (last / RANGE_BLOCKS - first / RANGE_BLOCKS + 1) as usize;
                assert!((1..=ranges).contains(&places.len()));
                assert!(places.iter().all(|place| usize::from(*place) < RANGE_LOCKS));
            }
        }
        assert_eq!(places(5, 8, 9), places(5, 15, 15), "one range, one word");
        assert_ne!(places(5, 8, 8), places(5, 16, 16));
    }

    #[test]
    fn ranges_of_a_file_share_no_word() {
        let all = RANGE_LOCKS as u64 * RANGE_BLOCKS;
        let writes = (0..all).step_by(MAX_IN_PLACE_BLOCKS as usize);
        let mut used = vec![false; RANGE_LOCKS];
        for first in writes {
            for place in places(77, first, first + MAX_IN_PLACE_BLOCKS - 1) {
                assert!(!std::mem::replace(&mut used[usize::from(place)], true));
            }
        }
        assert!(used.iter().all(|used| *used));
    }
}
