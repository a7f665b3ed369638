//! `preload::lock`.

use crate::check::check;
use crate::lock::Lock;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

struct Guarded {
    lock: Lock,
    count: UnsafeCell<u32>,
}

#[test]
fn a_lock_is_one_threads_at_a_time_and_wakes_who_waits() {
    check(
        "models::locks::a_lock_is_one_threads_at_a_time_and_wakes_who_waits",
        &[
            ".compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)",
            "if self.0.swap(FREE, Ordering::Release) == AWAITED {",
            "while self.0.swap(AWAITED, Ordering::Acquire) != FREE {",
            "without if self.0.swap(FREE, Ordering::Release) == AWAITED {",
            "without while self.0.swap(AWAITED, Ordering::Acquire) != FREE {",
        ],
        || {
            let guarded = Arc::new(Guarded {
                lock: Lock::new(),
                count: UnsafeCell::new(0),
            });
            let count = |guarded: &Guarded| {
                guarded.lock.with(|| {
                    // SAFETY: under the lock; loom says when it is not.
                    guarded.count.with_mut(|count| unsafe { *count += 1 });
                });
            };
            assert!(!guarded.lock.is_held());
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let guarded = guarded.clone();
                    thread::spawn(move || count(&guarded))
                })
                .collect();
            count(&guarded);
            for thread in threads {
                thread.join().expect("a thread");
            }
            // SAFETY: under the lock; the other threads are over.
            guarded
                .lock
                .with(|| guarded.count.with(|count| assert_eq!(unsafe { *count }, 3)));
        },
    );
}
