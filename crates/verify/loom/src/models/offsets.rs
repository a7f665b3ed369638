//! `preload::description::private_offset`: calls that move the position while the kernel gets it.

use crate::check::check;
use crate::private_offset::PrivateOffset;
use crate::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

struct Description {
    offset: PrivateOffset,
    in_kernel: AtomicU64,
}

impl Description {
    /// As `preload::descriptors::offset`, by one byte.
    fn read(&self) {
        if self.offset.with(|at| *at += 1).is_none() {
            let before = self.in_kernel.load(Ordering::Relaxed);
            assert!(before >= 7, "the kernel's position before it got ours");
            self.in_kernel.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn publish(&self) {
        self.offset.with(|at| {
            self.in_kernel.store(*at, Ordering::Relaxed);
            self.offset.end();
        });
    }
}

#[test]
fn no_move_of_a_position_is_lost_when_the_kernel_gets_it() {
    check(
        "models::offsets::no_move_of_a_position_is_lost_when_the_kernel_gets_it",
        &[
            "if !self.is_here.load(Ordering::Acquire) {",
            "self.is_here.store(false, Ordering::Release);",
            "without self.is_here.store(false, Ordering::Release);",
        ],
        || {
            let description = Arc::new(Description {
                offset: PrivateOffset::new(Some(7)),
                in_kernel: AtomicU64::new(0),
            });
            // The lock is made by its first use.
            assert_eq!(description.offset.with(|at| *at), Some(7));
            let threads = [Description::read, Description::publish].map(|call| {
                let description = description.clone();
                thread::spawn(move || call(&description))
            });
            description.publish();
            description.read();
            for thread in threads {
                thread.join().expect("a call");
            }
            assert_eq!(description.in_kernel.load(Ordering::Relaxed), 9);
        },
    );
}
