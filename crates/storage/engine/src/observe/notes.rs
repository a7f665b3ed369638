//! The words in which threads note their use of files, and how others read them (see `reports`).

use crate::session::layout::{FileNote, THREAD_SLOTS};
use crate::sync::TRIES;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Bits of a touched word: window (50), shared (1), thread slot + 1 (13).
const THREAD_BITS: u32 = 13;
const SHARED: u64 = 1 << THREAD_BITS;
const WINDOW_SHIFT: u32 = THREAD_BITS + 1;
const _: () = assert!(THREAD_SLOTS < 1 << THREAD_BITS);

/// What one thread did with one file in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// The inode number.
    pub ino: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// An inode's touched word when thread slot `index` alone used it in the window.
#[inline(always)]
pub(crate) fn used_by(window: u64, index: usize) -> u64 {
    (window << WINDOW_SHIFT) | (index as u64 + 1)
}

/// Note in an inode's touched word that a thread uses it; `mark` is called for thread slots that share it with others.
pub(crate) fn touch(word: &AtomicU64, window: u64, index: usize, mark: impl Fn(usize)) {
    let mine = index as u64 + 1;
    let mut touched = word.load(Ordering::Relaxed);
    loop {
        let present = touched >> WINDOW_SHIFT == window;
        if present && touched & SHARED != 0 {
            return mark(index);
        }
        let other = touched & (SHARED - 1);
        if present && other == mine {
            return;
        }
        let new = if present {
            (window << WINDOW_SHIFT) | SHARED
        } else {
            used_by(window, index)
        };
        match word.compare_exchange(touched, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) if present => {
                mark(index);
                return mark(other.wrapping_sub(1) as usize);
            }
            Ok(_) => return,
            Err(now) => touched = now,
        }
    }
}

impl FileNote {
    /// Assign the place to a file, with all counters at 0. Called by the owning thread.
    #[cold]
    pub(crate) fn begin(&self, window: u64, ino: u64, displaced: &AtomicU64) {
        let displaces = self.window.load(Ordering::Relaxed) == window;
        // Window 0 while the note changes, so that readers skip it.
        self.window.store(0, Ordering::Release);
        if displaces {
            // Stored after the window, so that a reader that sees the new count sees nothing of the old note.
            let before = displaced.load(Ordering::Relaxed);
            displaced.store(before.wrapping_add(1), Ordering::Release);
        }
        self.read_bytes.store(0, Ordering::Release);
        self.written_bytes.store(0, Ordering::Release);
        self.ino.store(ino, Ordering::Release);
        self.window.store(window, Ordering::Release);
    }

    /// Add bytes; `counter` is one of this note's, which only this thread writes. Release: a reader that sees these
    /// bytes sees which file they belong to.
    #[inline(always)]
    pub(crate) fn add(counter: &AtomicU64, bytes: u64) {
        let before = counter.load(Ordering::Relaxed);
        counter.store(before.wrapping_add(bytes), Ordering::Release);
    }

    /// What the note says of a window. May be called by any thread. `displaced` shows if the note was given to another
    /// file during the read; the window alone does not, because it is the same before and after. A note that keeps
    /// changing is skipped.
    pub(crate) fn report(&self, window: u64, displaced: &AtomicU64) -> Option<FileReport> {
        (0..TRIES).find_map(|_| {
            let before = displaced.load(Ordering::Acquire);
            if self.window.load(Ordering::Acquire) != window {
                return None;
            }
            let report = FileReport {
                ino: self.ino.load(Ordering::Acquire),
                read_bytes: self.read_bytes.load(Ordering::Acquire),
                written_bytes: self.written_bytes.load(Ordering::Acquire),
            };
            let same = self.window.load(Ordering::Acquire) == window
                && displaced.load(Ordering::Relaxed) == before;
            same.then_some(report)
        })
    }
}
