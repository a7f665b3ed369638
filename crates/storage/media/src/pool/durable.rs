//! What makes stores durable: flushes, fences and commits.

use std::panic::Location;
use std::sync::atomic::Ordering;

use super::{IS_ANY_DURABLE, PROTECTED, Pool, RECORDED};
use crate::address::PoolOffset;
use crate::error::Result;
use crate::guard::routines;
use crate::protection;

impl Pool {
    /// Writes back every cache line the range touches; durable after the next
    /// [`Pool::fence`] of this thread. Parts outside the pool are ignored.
    #[inline]
    #[track_caller]
    pub fn flush(&self, at: PoolOffset, bytes: u64) {
        let end = at.0.saturating_add(bytes).min(self.bytes);
        if at.0 >= end {
            return;
        }
        if self.has_hook(RECORDED | PROTECTED) {
            // Writing a line back counts as a load.
            protection::allow_loads();
            if self.has_hook(RECORDED) {
                self.attachment.flushed(at, end - at.0, Location::caller());
            }
        }
        self.flush_lines(at, end - at.0);
    }

    /// Makes everything this thread flushed before, in any pool, durable.
    #[inline(always)]
    #[track_caller]
    pub fn fence(&self) {
        // Without a fence, stores of this thread are seen in order; but lines of another pool may be in flight.
        if self.may_wait() {
            routines::store_fence();
        }
        if self.has_hook(RECORDED) {
            self.attachment.fenced(Location::caller());
        }
    }

    /// Stores an aligned word and makes it durable: the commit. One non-temporal 8-byte store: it
    /// needs no flush, and the fence waits for it alone.
    ///
    /// # Errors
    /// As [`Pool::store_u64`].
    #[inline(always)]
    #[track_caller]
    pub fn commit_u64(&self, at: PoolOffset, value: u64) -> Result<()> {
        let is_word = self.contains(at, 8) && at.0.is_multiple_of(8);
        if !is_word || !self.takes_stores() || self.is_hooked() {
            return self.commit_carefully(at, value);
        }
        self.stream_word(at, value)?;
        self.fence();
        Ok(())
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn commit_carefully(&self, at: PoolOffset, value: u64) -> Result<()> {
        self.check_word(at)?;
        self.check_writable(at)?;
        let caller = Some(Location::caller());
        self.hooked(at, 8, caller, || self.stream_word(at, value))?;
        self.fence();
        Ok(())
    }

    /// Makes everything this thread flushed before durable, in any pool, and then the word: a fence, and
    /// [`Pool::commit_u64`].
    ///
    /// # Errors
    /// As [`Pool::store_u64`].
    #[inline(always)]
    pub fn fence_and_commit_u64(&self, at: PoolOffset, value: u64) -> Result<()> {
        let is_word = self.contains(at, 8) && at.0.is_multiple_of(8);
        if is_word && self.takes_stores() && !self.is_hooked() && !self.may_wait() {
            return self.store_word(at, value);
        }
        self.fence_then_commit(at, value)
    }

    /// Two places for a recorder, so that each of the fences can be left out by itself.
    #[inline(never)]
    fn fence_then_commit(&self, at: PoolOffset, value: u64) -> Result<()> {
        self.fence();
        self.commit_u64(at, value)
    }

    /// Whether a fence waits for lines of this pool or another one.
    #[inline(always)]
    fn may_wait(&self) -> bool {
        self.is_durable || IS_ANY_DURABLE.load(Ordering::Relaxed)
    }
}
