//! `preload::sync::Lock`.

use crate::cell::Watched;
use crate::check::check;
use crate::lock::Lock;
use loom::sync::Arc;
use loom::thread;

struct Guarded {
    lock: Lock,
    count: Watched<u32>,
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
                count: Watched::new(0),
            });
            let count = |guarded: &Guarded| {
                guarded.lock.with(|| guarded.count.add(1));
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
            guarded.lock.with(|| assert_eq!(guarded.count.get(), 3));
        },
    );
}
