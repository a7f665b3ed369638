//! Work that one thread at a time does for all, while no thread waits for it: others leave a note that there is more
//! to do. A thread that is stopped or dies in the middle loses the turn after some time.

use crate::session::layout::Turn;
use crate::sync::atomic::Ordering::SeqCst;

/// A turn that was not given back for this long may be taken by any thread.
const MAX_TURN_MS: u64 = 20;

impl Turn {
    /// Have `body` run after this call began, here or in the thread that has the turn.
    pub(crate) fn run(&self, now_ms: impl Fn() -> u64, body: impl Fn()) {
        self.wanted.store(1, SeqCst);
        // A thread that gives the turn back checks again: a note may have been left after its last check.
        while self.wanted.load(SeqCst) != 0 {
            let Some(taken) = self.take(now_ms()) else {
                return;
            };
            while self.wanted.swap(0, SeqCst) != 0 {
                body();
            }
            // Unless it was taken away.
            let _ = self.taken_ms.compare_exchange(taken, 0, SeqCst, SeqCst);
        }
    }

    fn take(&self, now_ms: u64) -> Option<u64> {
        let found = self.taken_ms.load(SeqCst);
        // A time of the future is forged.
        let is_over = found == 0 || (found - 1).abs_diff(now_ms) >= MAX_TURN_MS;
        let taken = now_ms + 1;
        let took = || {
            self.taken_ms
                .compare_exchange(found, taken, SeqCst, SeqCst)
                .is_ok()
        };
        (is_over && took()).then_some(taken)
    }
}
