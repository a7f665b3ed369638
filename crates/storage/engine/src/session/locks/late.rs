//! Work that is deferred until a lock can be taken.

use crate::session::patience::coarse_now_ms;
use crate::types::InodeNumber;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// After a failed wait for a lock, give-backs of space do not wait for this long.
const BUSY: Duration = Duration::from_millis(200);

/// Deferred work, done when a lock can be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Late {
    /// An open to give back.
    Close(InodeNumber),
    /// A mark to take off.
    Unmark(InodeNumber),
    /// A run of blocks ([`crate::format::Extent`]) that is free.
    Run(u64),
    /// An inode number that is free.
    Number(u64),
}

impl Late {
    pub(crate) fn is_run(&self) -> bool {
        matches!(self, Late::Run(_))
    }

    pub(crate) fn is_space(&self) -> bool {
        matches!(self, Late::Run(_) | Late::Number(_))
    }
}

/// Whether waiting to give space back has failed a moment ago. Many runs may be given back in one call; they must not
/// wait for one holder one after the other.
#[derive(Default)]
pub(crate) struct SpaceBusy {
    /// Monotonic clock; 0: never.
    until_ms: AtomicU64,
}

impl SpaceBusy {
    /// A wait has just failed.
    pub(crate) fn note(&self) {
        let until_ms = coarse_now_ms() + BUSY.as_millis() as u64;
        self.until_ms.store(until_ms, Ordering::Relaxed);
    }

    /// Whether give-backs must not wait now.
    pub(crate) fn is_on(&self) -> bool {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        until_ms != 0 && coarse_now_ms() < until_ms
    }

    /// Whether that time is over after a failed wait, so that deferred give-backs are worth a try.
    pub(crate) fn is_over(&self) -> bool {
        self.until_ms.load(Ordering::Relaxed) != 0 && !self.is_on()
    }

    /// All deferred work was done.
    pub(crate) fn clear(&self) {
        self.until_ms.store(0, Ordering::Relaxed);
    }
}
