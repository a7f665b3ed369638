//! `preload::file_set`, as `preload::locked_files` uses it.

use crate::check::check;
use crate::file_set::FileSet;
use crate::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

const UNKNOWN: u64 = 0;
const OURS: u64 = 3;
const FILE: u32 = 7;

/// A table of one number, as `preload::table` has it.
struct Process {
    locked: FileSet,
    word: AtomicU64,
}

#[test]
fn who_locks_a_file_and_who_opens_it_see_each_other() {
    check(
        "models::file_sets::who_locks_a_file_and_who_opens_it_see_each_other",
        &["without fence(Ordering::SeqCst);"],
        || {
            let process = Arc::new(Process {
                locked: FileSet::new(),
                word: AtomicU64::new(UNKNOWN),
            });
            // Made by their first use.
            assert!(!process.locked.has(FILE));
            let other = process.clone();
            let opener = thread::spawn(move || {
                let (order, failed) = (Ordering::AcqRel, Ordering::Acquire);
                let made = other.word.compare_exchange(UNKNOWN, OURS, order, failed);
                assert!(made.is_ok());
                other.locked.has(FILE)
            });
            assert!(process.locked.add(FILE));
            let is_seen_by_locker = process.word.load(Ordering::Acquire) == OURS;
            let is_seen_by_opener = opener.join().expect("who opens");
            assert!(is_seen_by_locker || is_seen_by_opener);
        },
    );
}
