//! `preload::sync::Gate`.

use crate::check::check;
use crate::gate::Gate;
use crate::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

const UNKNOWN: u64 = 0;
const OURS: u64 = 3;

/// A table of one number, as `preload::descriptors::table` has it.
struct Process {
    gate: Gate,
    word: AtomicU64,
}

#[test]
fn nothing_becomes_ours_behind_who_leaves() {
    check(
        "models::gates::nothing_becomes_ours_behind_who_leaves",
        // `closed` is ordered by the other word.
        &[
            "self.0.fetch_sub(1, Ordering::Release);",
            "self.inside.fetch_add(1, Ordering::AcqRel);",
            "while self.inside.fetch_add(0, Ordering::AcqRel) != 0 {",
            "without self.0.fetch_sub(1, Ordering::Release);",
            "without self.closed.store(1, Ordering::SeqCst);",
            "without self.inside.fetch_add(1, Ordering::AcqRel);",
            "without while self.inside.fetch_add(0, Ordering::AcqRel) != 0 {",
        ],
        || {
            let process = Arc::new(Process {
                gate: Gate::new(),
                word: AtomicU64::new(UNKNOWN),
            });
            // Made by their first use.
            assert!(!process.gate.is_closed());
            process.gate.wait_until_empty();
            let other = process.clone();
            let opener = thread::spawn(move || {
                other
                    .gate
                    .inside(|| other.word.store(OURS, Ordering::Relaxed))
            });
            // As `preload::files::withdraw`.
            process.gate.close();
            process.gate.wait_until_empty();
            if process.word.load(Ordering::Relaxed) == OURS {
                process.word.store(UNKNOWN, Ordering::Relaxed);
            }
            opener.join().expect("who opens");
            assert_eq!(process.word.load(Ordering::Relaxed), UNKNOWN);
            assert!(process.gate.inside(|| ()).is_none());
        },
    );
}
