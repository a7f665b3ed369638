//! The words in which threads note what they do with files, and how others read them (see `reports`).

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
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// What an inode's touched word says when thread slot `index` alone used it in the window.
#[inline(always)]
pub(crate) fn used_by(window: u64, index: usize) -> u64 {
    (window << WINDOW_SHIFT) | (index as u64 + 1)
}

/// Note in an inode's touched word that a thread uses it; `mark` thread slots that share it with others.
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
    /// The place is a file's from now on, with nothing done yet. By the thread it belongs to.
    #[cold]
    pub(crate) fn begin(&self, window: u64, ino: u64, displaced: &AtomicU64) {
        let displaces = self.window.load(Ordering::Relaxed) == window;
        // Not of any window while it changes: who reads it then skips it.
        self.window.store(0, Ordering::Release);
        if displaces {
            // Behind that, so that who sees the new count sees nothing of the old note.
            let before = displaced.load(Ordering::Relaxed);
            displaced.store(before.wrapping_add(1), Ordering::Release);
        }
        self.read_bytes.store(0, Ordering::Release);
        self.written_bytes.store(0, Ordering::Release);
        self.ino.store(ino, Ordering::Release);
        self.window.store(window, Ordering::Release);
    }

    /// Bytes more; `counter` is one of this note's, which only this thread writes. Release, so that who
    /// sees them sees whose they are.
    #[inline(always)]
    pub(crate) fn add(counter: &AtomicU64, bytes: u64) {
        let before = counter.load(Ordering::Relaxed);
        counter.store(before.wrapping_add(bytes), Ordering::Release);
    }

    /// What it says of a window. By anybody: `displaced` tells when it became another file's meanwhile,
    /// which the window alone does not, for that is the same before and after. A note that changes hands
    /// all the while is left out.
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
