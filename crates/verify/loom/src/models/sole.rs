//! `preload::description::sole` and `preload::description::pin`, with a table of one number: the thread that opened it
//! closes it while another one may use it.

use crate::cell::Watched;
use crate::check::check;
use crate::pin::{Pin, free_unused};
use crate::record::Record;
use crate::sole::{SOLE, may_use, share};
use crate::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;
use std::ptr::null_mut;

const FD: i32 = 3;
/// Words of the table: the record, used by all threads; and nothing.
const OURS: u64 = 3;
const CLOSED: u64 = 0;
const OPENER: u64 = 1;
const OTHER: u64 = 2;

struct Process {
    word: AtomicU64,
    opener: AtomicU64,
    /// Of the other thread.
    pins: [Pin; 1],
    limbo: AtomicPtr<Record>,
    record: Record,
}

impl Process {
    fn record(&self) -> *mut Record {
        std::ptr::from_ref(&self.record).cast_mut()
    }

    /// A call of the other thread, as `preload::serve` makes it.
    fn call(&self) {
        let [pin] = &self.pins;
        let mut word = self.word.load(Ordering::Acquire);
        while word & OURS == OURS {
            if !may_use(word, &self.opener, OTHER) {
                share(&self.word, word);
                word = self.word.load(Ordering::Acquire);
                continue;
            }
            if pin.hold(FD, self.record(), || {
                self.word.load(Ordering::Acquire) == word
            }) {
                // Pinned, so it is not freed meanwhile.
                assert!(self.record.alive.get());
                break;
            }
            word = self.word.load(Ordering::Acquire);
        }
        pin.let_go();
    }

    /// The opener's close, as `preload::files::numbers` makes it; false when it may be in use still.
    fn close(&self) -> bool {
        let free = |record: *mut Record| {
            assert!(std::ptr::eq(record, &self.record));
            // Nobody uses it.
            self.record.alive.set(false);
        };
        loop {
            let word = self.word.load(Ordering::Acquire);
            let is_sole = word & SOLE != 0 && may_use(word, &self.opener, OPENER);
            let taken =
                self.word
                    .compare_exchange(word, CLOSED, Ordering::AcqRel, Ordering::Acquire);
            if taken.is_err() {
                continue;
            }
            if is_sole {
                free(self.record());
            } else {
                self.limbo.store(self.record(), Ordering::Relaxed);
                free_unused(&self.limbo, &self.pins, free);
            }
            return is_sole;
        }
    }
}

#[test]
fn a_record_is_freed_at_once_only_if_no_thread_uses_it() {
    check(
        "models::sole::a_record_is_freed_at_once_only_if_no_thread_uses_it",
        FREEING,
        || {
            let process = Arc::new(Process {
                word: AtomicU64::new(OURS | SOLE),
                opener: AtomicU64::new(OPENER),
                pins: [Pin {
                    thread: AtomicU32::new(1),
                    record: AtomicPtr::new(null_mut()),
                    fd: AtomicI32::new(-1),
                }],
                limbo: AtomicPtr::new(null_mut()),
                record: Record {
                    next: AtomicPtr::new(null_mut()),
                    alive: Watched::new(true),
                },
            });
            let other = process.clone();
            let user = thread::spawn(move || other.call());
            process.close();
            user.join().expect("the user");
        },
    );
}

// The exchanges decide by being one step, whatever they order.
const FREEING: &[&str] = &[
    "let in_use = |pin: &Pin| pin.record.load(Ordering::Acquire) == record;",
    "self.record.store(std::ptr::null_mut(), Ordering::Release);",
    "without fence(Ordering::SeqCst);",
    "without self.record.store(record, Ordering::Release);",
];
