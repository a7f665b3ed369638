//! `preload::description::deferral`: a file that the engine opened, with two numbers, while the kernel gets to open it.

use crate::check::check;
use crate::deferral::{Deferral, Openings};
use crate::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

/// What the table says of a number.
const CLOSED: u64 = 0;
const OURS: u64 = 3;
/// What a number means in the kernel.
const PLACEHOLDER: u64 = 0;
const FILE: u64 = 1;
const OF_SOMEBODY_ELSE: u64 = 2;
/// Slots of the description.
const NONE: u32 = 0;
const SLOT: u32 = 5;

struct Process {
    openings: Openings,
    deferral: Deferral,
    table: [AtomicU64; 2],
    kernel: [AtomicU64; 2],
    opened: AtomicU64,
}

impl Process {
    fn new() -> Arc<Process> {
        let words = |first| std::array::from_fn(|_| AtomicU64::new(first));
        let openings = Openings::new();
        // Made by their first use.
        let other = openings.begin(false, NONE);
        assert_eq!(openings.open(&other, || Err(())), Ok(()));
        assert!(!openings.may_any_be_deferred());
        let deferral = openings.begin(true, NONE);
        assert_eq!(deferral.slot(), NONE);
        Arc::new(Process {
            openings,
            deferral,
            table: words(OURS),
            kernel: words(PLACEHOLDER),
            opened: AtomicU64::new(0),
        })
    }

    /// As `preload::descriptors::late_open` does it.
    fn open_in_kernel(&self) {
        let opened = self.openings.open(&self.deferral, || {
            let opened = self.opened.load(Ordering::Relaxed);
            self.opened.store(opened + 1, Ordering::Relaxed);
            for (word, number) in self.table.iter().zip(&self.kernel) {
                if word.load(Ordering::Acquire) == OURS {
                    number.store(FILE, Ordering::Relaxed);
                }
            }
            Ok::<u32, ()>(SLOT)
        });
        assert_eq!(opened, Ok(()));
    }

    /// A call that `preload::serve` passes on.
    fn pass(&self, number: usize) {
        if self.deferral.is_on() {
            self.open_in_kernel();
        }
        assert_eq!(self.kernel[number].load(Ordering::Relaxed), FILE);
        assert_eq!(self.deferral.slot(), SLOT);
    }

    /// A call that a hook makes by the number, whatever that is.
    fn pass_unseen(&self, number: usize) {
        if self.openings.may_any_be_deferred() {
            self.open_in_kernel();
        }
        assert_eq!(self.kernel[number].load(Ordering::Relaxed), FILE);
    }

    /// As `preload::files::numbers` closes a number that no call uses; another thread gets it.
    fn close(&self, number: usize) {
        let word = &self.table[number];
        let closed = word.compare_exchange(OURS, CLOSED, Ordering::AcqRel, Ordering::Acquire);
        assert_eq!(closed, Ok(OURS));
        self.openings.wait_for_opener();
        self.kernel[number].store(OF_SOMEBODY_ELSE, Ordering::Relaxed);
    }
}

#[test]
fn a_file_is_opened_once_and_under_all_its_numbers() {
    check(
        "models::deferrals::a_file_is_opened_once_and_under_all_its_numbers",
        // The slot is seen with what says that it is there.
        &[
            "deferral.is_on.store(false, Ordering::Release);",
            "self.is_on.load(Ordering::Acquire)",
            "without deferral.is_on.store(false, Ordering::Release);",
            "without deferral.slot.store(open()?, Ordering::Release);",
        ],
        || {
            let process = Process::new();
            let threads = [0, 1].map(|number| {
                let process = process.clone();
                thread::spawn(move || process.pass(number))
            });
            process.pass(1);
            for thread in threads {
                thread.join().expect("a call");
            }
            assert_eq!(process.opened.load(Ordering::Relaxed), 1);
        },
    );
}

#[test]
fn no_number_is_a_placeholder_where_no_file_is_deferred() {
    check(
        "models::deferrals::no_number_is_a_placeholder_where_no_file_is_deferred",
        &["without self.has_deferred.store(1, Ordering::Relaxed);"],
        || {
            let process = Process::new();
            let other = process.clone();
            let thread = thread::spawn(move || other.pass_unseen(1));
            process.pass(0);
            thread.join().expect("a call");
        },
    );
}

#[test]
fn a_number_that_was_closed_is_not_given_the_file() {
    check(
        "models::deferrals::a_number_that_was_closed_is_not_given_the_file",
        &[
            ".compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)",
            "if self.0.swap(FREE, Ordering::Release) == AWAITED {",
            "without self.has_deferred.store(1, Ordering::Relaxed);",
        ],
        || {
            let process = Process::new();
            let other = process.clone();
            let thread = thread::spawn(move || other.pass(0));
            process.close(1);
            thread.join().expect("a call");
            let number = process.kernel[1].load(Ordering::Relaxed);
            assert_eq!(number, OF_SOMEBODY_ELSE);
        },
    );
}
