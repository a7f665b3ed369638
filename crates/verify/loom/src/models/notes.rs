//! `engine::observe::notes`.

use crate::check::check;
use crate::observe::notes::{FileReport, touch};
use crate::session::layout::FileNote;
use crate::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

const WINDOW: u64 = 7;

struct Thread {
    note: FileNote,
    displaced: AtomicU64,
}

impl Thread {
    fn uses(&self, ino: u64, bytes: u64) {
        self.note.begin(WINDOW, ino, &self.displaced);
        FileNote::add(&self.note.read_bytes, bytes);
    }
}

#[test]
fn a_note_is_never_of_two_files() {
    check("models::notes::a_note_is_never_of_two_files", NOTES, || {
        let noting = Arc::new(Thread {
            note: FileNote::new(),
            displaced: AtomicU64::new(0),
        });
        noting.uses(1, 10);
        let other = noting.clone();
        let thread = thread::spawn(move || {
            other.uses(2, 20);
            other.uses(1, 30);
        });
        let report = |ino, read_bytes| FileReport {
            ino,
            read_bytes,
            written_bytes: 0,
        };
        if let Some(seen) = noting.note.report(WINDOW, &noting.displaced) {
            let one = [
                report(1, 10),
                report(2, 0),
                report(2, 20),
                report(1, 0),
                report(1, 30),
            ];
            assert!(one.contains(&seen), "{seen:?}");
        }
        thread.join().expect("the thread that notes");
    });
}

const NOTES: &[&str] = &[
    "counter.store(before.wrapping_add(bytes), Ordering::Release);",
    "ino: self.ino.load(Ordering::Acquire),",
    "read_bytes: self.read_bytes.load(Ordering::Acquire),",
    "self.ino.store(ino, Ordering::Release);",
    "without displaced.store(before.wrapping_add(1), Ordering::Release);",
    "without self.ino.store(ino, Ordering::Release);",
];

#[test]
fn two_threads_that_use_a_file_in_one_window_are_both_marked() {
    let model = || {
        let word = Arc::new(AtomicU64::new(crate::observe::notes::used_by(
            WINDOW - 1,
            1,
        )));
        let marks = Arc::new([0; 2].map(AtomicU64::new));
        let mark = |marks: &[AtomicU64; 2], index: usize| marks[index].store(1, Ordering::Relaxed);
        let (other_word, other_marks) = (word.clone(), marks.clone());
        let other = thread::spawn(move || {
            touch(&other_word, WINDOW, 1, |index| mark(&other_marks, index));
        });
        touch(&word, WINDOW, 0, |index| mark(&marks, index));
        other.join().expect("a thread");
        for mark in marks.iter() {
            assert_eq!(mark.load(Ordering::Relaxed), 1);
        }
    };
    // Relaxed throughout: nothing to weaken.
    loom::model(model);
}
