//! Something that is done for all by one at a time, without anybody waiting for who does it: others leave word that there
//! is more to do. Who is stopped in the middle, or dead, loses the turn after a while.

use super::layout::Turn;
use crate::sync::atomic::Ordering::SeqCst;

/// A turn that was not given back for so long is anybody's.
const MAX_TURN_MS: u64 = 20;

impl Turn {
    /// Have `body` run after this call began, here or by whoever has the turn.
    pub(crate) fn run(&self, now_ms: impl Fn() -> u64, body: impl Fn()) {
        self.wanted.store(1, SeqCst);
        // Who gives the turn back looks again: word may have been left after the last look.
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
