//! The offset of a description that only this process has, until the kernel gets it.
//!
//! ```text
//! user:      private? then lock ─ private still? use it and move it ─ unlock; else the kernel's counts
//! publisher: lock ─ private still? the kernel gets it ─ not private ─ unlock
//! ```

use crate::sync::Locked;
use crate::sync::atomic::{AtomicBool, Ordering};

/// An offset that is here or in the kernel.
pub struct PrivateOffset {
    /// Goes from true to false, never back.
    is_here: AtomicBool,
    bytes: Locked<u64>,
}

impl PrivateOffset {
    /// `None`: in the kernel.
    pub fn new(bytes: Option<u64>) -> PrivateOffset {
        PrivateOffset {
            is_here: AtomicBool::new(bytes.is_some()),
            bytes: Locked::new(bytes.unwrap_or(0)),
        }
    }

    /// Run `body` on it while nobody moves it; `None`: it is in the kernel, with all that was done to it here. Not from
    /// within another `body`, by a thread that is inside.
    #[inline(always)]
    pub fn with<T>(&self, body: impl FnOnce(&mut u64) -> T) -> Option<T> {
        if !self.is_here.load(Ordering::Acquire) {
            return None;
        }
        self.bytes
            .with(|bytes| self.is_here.load(Ordering::Relaxed).then(|| body(bytes)))
    }

    /// The kernel has it. From within a `body` of [`PrivateOffset::with`].
    pub fn end(&self) {
        self.is_here.store(false, Ordering::Release);
    }
}
