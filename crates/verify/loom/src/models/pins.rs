//! `preload::description::pin`, with a table of one number.

use crate::cell::Watched;
use crate::check::check;
use crate::pin::{Pin, drain, free_unused};
use crate::record::Record;
use crate::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;
use std::ptr::null_mut;

const FD: i32 = 3;

struct Process {
    /// What the number is, as `preload::descriptors::table` has it: a record, or none.
    table: AtomicPtr<Record>,
    pins: [Pin; 1],
    limbo: AtomicPtr<Record>,
    record: Record,
}

impl Process {
    fn new() -> Arc<Process> {
        let process = Arc::new(Process {
            table: AtomicPtr::new(null_mut()),
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
        let record = std::ptr::from_ref(&process.record).cast_mut();
        process.table.store(record, Ordering::Relaxed);
        process
    }

    /// A call on the number, as `preload::serve` makes it.
    fn call(&self, body: impl FnOnce(&Record)) {
        let record = self.table.load(Ordering::Acquire);
        if record.is_null() {
            return;
        }
        let [pin] = &self.pins;
        if pin.hold(FD, record, || self.table.load(Ordering::Acquire) == record) {
            assert!(std::ptr::eq(record, &self.record));
            body(&self.record);
        }
        pin.let_go();
    }

    /// The number means nothing any more.
    fn take_out(&self) -> *mut Record {
        self.table.swap(null_mut(), Ordering::AcqRel)
    }
}

#[test]
fn a_record_in_use_is_not_freed() {
    check(
        "models::pins::a_record_in_use_is_not_freed",
        FREEING,
        || {
            let process = Process::new();
            let other = process.clone();
            let user = thread::spawn(move || {
                // Pinned, so it is not freed meanwhile.
                other.call(|record| assert!(record.alive.get()));
            });
            let free = |record: *mut Record| {
                assert!(std::ptr::eq(record, &process.record));
                // Nobody uses it.
                process.record.alive.set(false);
            };
            process.limbo.store(process.take_out(), Ordering::Relaxed);
            free_unused(&process.limbo, &process.pins, free);
            user.join().expect("the user");
            // What stayed in limbo is freed by the next one.
            free_unused(&process.limbo, &process.pins, free);
            assert!(!process.record.alive.get());
        },
    );
}

const FREEING: &[&str] = &[
    "let in_use = |pin: &Pin| pin.record.load(Ordering::Acquire) == record;",
    "self.record.store(std::ptr::null_mut(), Ordering::Release);",
    "without fence(Ordering::SeqCst);",
    "without let mut record = limbo.swap(std::ptr::null_mut(), Ordering::Relaxed);",
    "without limbo.store(record, Ordering::Relaxed);",
    "without self.record.store(record, Ordering::Release);",
    "without self.record.store(std::ptr::null_mut(), Ordering::Release);",
];

#[test]
fn a_number_is_closed_behind_the_last_call_that_found_it() {
    check(
        "models::pins::a_number_is_closed_behind_the_last_call_that_found_it",
        DRAINING,
        || {
            let process = Process::new();
            // The kernel's descriptor: 1 while it is the old one.
            let kernel = Arc::new(AtomicU64::new(1));
            let (other, other_kernel) = (process.clone(), kernel.clone());
            let user = thread::spawn(move || {
                other.call(|_| assert_eq!(other_kernel.load(Ordering::Relaxed), 1));
            });
            process.take_out();
            drain(FD, &process.pins);
            kernel.store(2, Ordering::Relaxed);
            user.join().expect("the user");
        },
    );
}

const DRAINING: &[&str] = &[
    "without fence(Ordering::SeqCst);",
    "without self.fd.store(fd, Ordering::Relaxed);",
    "without self.record.store(record, Ordering::Release);",
    "without self.record.store(std::ptr::null_mut(), Ordering::Release);",
];
