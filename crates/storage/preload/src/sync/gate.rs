//! A gate that is closed once and for all. Who went in before is waited for.
//!
//! ```text
//! who goes in: inside += 1 ─ closed? then out again, else go on ─ inside -= 1
//! who closes:  closed ─ inside += 0 ─ wait while it is not 0
//! ```
//! Both change `inside`, so one comes first: either the other way round it is seen as closed, or who is inside is seen.

use super::apart::Apart;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::pause;

/// See the module.
pub struct Gate {
    closed: AtomicU32,
    inside: Apart<AtomicU32>,
}

impl Gate {
    pub const fn new() -> Gate {
        Gate {
            closed: AtomicU32::new(0),
            inside: Apart(AtomicU32::new(0)),
        }
    }

    /// Whether it was closed.
    #[inline(always)]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) != 0
    }

    /// Close it, for whoever comes.
    pub fn close(&self) {
        self.closed.store(1, Ordering::SeqCst);
    }

    /// Wait for who is inside of a closed one.
    pub fn wait_until_empty(&self) {
        let mut round = 0;
        while self.inside.fetch_add(0, Ordering::AcqRel) != 0 {
            pause(&mut round);
        }
    }

    /// Run `body` inside; `None` when it is closed.
    pub fn inside<T>(&self, body: impl FnOnce() -> T) -> Option<T> {
        struct Inside<'a>(&'a AtomicU32);
        impl Drop for Inside<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        self.inside.fetch_add(1, Ordering::AcqRel);
        let _inside = Inside(&self.inside);
        (!self.is_closed()).then(body)
    }
}
