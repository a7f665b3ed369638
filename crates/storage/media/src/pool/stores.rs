//! Stores to a mapped pool, through the caches or bypassing them. The caller has checked bounds.

use crate::address::{CACHE_LINE_BYTES, PoolOffset};
use crate::caller::CallerSource;
use crate::error::{AccessFault, Result};
use crate::guard::{lines, routines};

use super::{MIN_STREAMED_BYTES, Pool};

impl Pool {
    /// Copies bytes of a pool, this or another, into this one, without a buffer between them; as [`Pool::copy_in`] otherwise.
    /// The ranges may not overlap.
    ///
    /// # Errors
    /// [`AccessFault::Pool`] when a range is not in its pool, stores are refused or a medium fails.
    #[inline(always)]
    #[track_caller]
    pub fn copy_from(
        &self,
        at: PoolOffset,
        from: &Pool,
        from_at: PoolOffset,
        bytes: usize,
    ) -> Result<(), AccessFault> {
        if bytes == 0 {
            return Ok(());
        }
        if !from.contains(from_at, bytes as u64) {
            return Err(AccessFault::Pool);
        }
        // SAFETY: inside the mapping of a pool, which is borrowed until the copy is done.
        let source = unsafe { CallerSource::new(from.address(from_at), bytes) };
        self.copy_in(at, source)
            .inspect_err(|_| from.note_unreadable(from_at, bytes))
            .map_err(|_| AccessFault::Pool)
    }

    /// Note the first failure of the medium in a range, if there is one.
    #[cold]
    #[inline(never)]
    fn note_unreadable(&self, at: PoolOffset, bytes: usize) {
        let mut line = [0; CACHE_LINE_BYTES as usize];
        for begin in (0..bytes).step_by(line.len()) {
            let length = line.len().min(bytes - begin);
            if self
                .read_bytes(at + begin as u64, &mut line[..length])
                .is_err()
            {
                return;
            }
        }
    }

    #[inline(always)]
    pub(super) fn store_word(&self, at: PoolOffset, value: u64) -> Result<()> {
        // SAFETY: inside the mapping. x86-64 stores are release, and the call is opaque.
        match unsafe { routines::egeria_media_guard_store(self.address(at), value) } {
            0 => Ok(()),
            address => Err(self.fault(at, address)),
        }
    }

    #[inline(always)]
    pub(super) fn stream_word(&self, at: PoolOffset, value: u64) -> Result<()> {
        if !self.is_durable {
            return self.store_word(at, value);
        }
        // SAFETY: inside the mapping, aligned.
        match unsafe { routines::egeria_media_guard_stream_word(self.address(at), value) } {
            0 => Ok(()),
            address => Err(self.fault(at, address)),
        }
    }

    /// Store a line, past the caches where it has to reach its medium. The bounds were checked.
    #[inline(always)]
    pub(super) fn stream_line(&self, at: PoolOffset, words: [u64; 8]) -> Result<(), AccessFault> {
        let to = self.address(at);
        // SAFETY: a line inside the mapping.
        let fault = unsafe {
            if self.is_durable {
                lines::stream_line(to, words)
            } else {
                lines::store_line(to, words)
            }
        };
        match fault {
            0 => Ok(()),
            address => Err(self.whose(address)),
        }
    }

    pub(super) fn store_bytes(&self, at: PoolOffset, from: &[u8]) -> Result<()> {
        // SAFETY: inside the mapping; the slice is valid.
        match unsafe { self.copy(self.address(at), from.as_ptr(), from.len()) } {
            0 => Ok(()),
            address => Err(self.fault(at, address)),
        }
    }

    /// Copy to the pool through the caches; its lines are most likely uncached.
    ///
    /// # Safety
    /// `to` lies in the pool, as do the bytes from there on; `from` may be read, as far as it is mapped.
    #[inline(always)]
    pub(super) unsafe fn store(&self, to: *mut u8, from: *const u8, bytes: usize) -> usize {
        if bytes < self.routines.string_store_bytes {
            // SAFETY: by contract.
            return unsafe { self.copy(to, from, bytes) };
        }
        // SAFETY: a guarded routine, which answers for invalid memory.
        unsafe { routines::call_copy(self.routines.copy_large, to, from, bytes) }
    }

    /// Copy through the caches to a range directly after the last one. The bounds were checked.
    #[inline(always)]
    pub(super) fn store_in_order(
        &self,
        at: PoolOffset,
        source: CallerSource<'_>,
    ) -> Result<(), AccessFault> {
        let (to, bytes) = (self.address(at), source.bytes());
        lines::prefetch_lines(to, bytes);
        // SAFETY: the range was checked; the source may be read, as its maker promised.
        match unsafe { routines::call_copy(self.routines.copy, to, source.start(), bytes) } {
            0 => Ok(()),
            address => Err(self.whose(address)),
        }
    }

    /// Whole lines bypass the cache, except short data in pools without durability. The bounds were checked.
    #[inline(always)]
    pub(super) fn stream_in(
        &self,
        at: PoolOffset,
        source: CallerSource<'_>,
    ) -> Result<(), AccessFault> {
        if self.goes_through_cache(source.bytes()) {
            // SAFETY: the range was checked; the source may be read, as its maker promised.
            return match unsafe { self.store(self.address(at), source.start(), source.bytes()) } {
                0 => Ok(()),
                address => Err(self.whose(address)),
            };
        }
        self.stream_past_cache(at, source)
    }

    /// The unaligned head and tail go through the cache and are flushed. The bounds were checked.
    #[inline(never)]
    fn stream_past_cache(
        &self,
        at: PoolOffset,
        source: CallerSource<'_>,
    ) -> Result<(), AccessFault> {
        let (head, lines, tail) = split(at, source.bytes());
        let (to, source) = (self.address(at), source.start());
        // SAFETY: the parts make up the range, which is inside the mapping, and the source, which may be read, as
        // its maker promised.
        let fault = unsafe {
            let mut fault = 0;
            if head > 0 {
                fault = self.edge_in(to, source, head);
            }
            if lines > 0 && fault == 0 {
                fault = (self.routines.stream)(to.add(head), source.wrapping_add(head), lines);
            }
            if tail > 0 && fault == 0 {
                fault = self.edge_in(
                    to.add(head + lines),
                    source.wrapping_add(head + lines),
                    tail,
                );
            }
            fault
        };
        self.order_streamed();
        if fault == 0 {
            Ok(())
        } else {
            Err(self.whose(fault))
        }
    }

    /// Without durability, short data is better left in the caches.
    #[inline(always)]
    pub(super) fn goes_through_cache(&self, bytes: usize) -> bool {
        !self.is_durable && bytes < MIN_STREAMED_BYTES
    }

    /// Orders lines that bypassed the caches before all later stores. In durable pools the fence does this.
    #[inline(always)]
    pub(super) fn order_streamed(&self) {
        if !self.is_durable {
            routines::store_fence();
        }
    }

    /// Part of a line, at the beginning or end of a range.
    ///
    /// # Safety
    /// `to` lies in the pool; `from` may be read, as far as it is mapped.
    pub(super) unsafe fn edge_in(&self, to: *mut u8, from: *const u8, bytes: usize) -> usize {
        // SAFETY: a guarded routine; both sides are as this function's contract says.
        let fault = unsafe { (self.routines.copy)(to, from, bytes) };
        self.flush_lines(PoolOffset(to as u64 - self.base as u64), bytes as u64);
        fault
    }

    pub(super) fn stream_zeros(&self, at: PoolOffset, bytes: usize) -> Result<(), AccessFault> {
        let (head, lines, tail) = if self.goes_through_cache(bytes) {
            (bytes, 0, 0)
        } else {
            split(at, bytes)
        };
        let edge = |at: PoolOffset, bytes: usize| {
            // SAFETY: inside the mapping.
            let fault = unsafe { routines::egeria_media_guard_zero(self.address(at), bytes) };
            self.flush_lines(at, bytes as u64);
            fault
        };
        let mut fault = if head > 0 { edge(at, head) } else { 0 };
        if lines > 0 && fault == 0 {
            let body = self.address(at + head as u64);
            // SAFETY: inside the mapping, whole lines.
            fault = unsafe { routines::egeria_media_guard_zero_stream(body, lines) };
        }
        if tail > 0 && fault == 0 {
            fault = edge(at + (head + lines) as u64, tail);
        }
        if lines > 0 {
            self.order_streamed();
        }
        if fault == 0 {
            Ok(())
        } else {
            // Only pool memory is accessed here, so the fault is the pool's.
            self.note_failure(fault);
            Err(AccessFault::Pool)
        }
    }

    /// The range lies inside the pool. Failed memory has nothing to write back.
    #[inline]
    pub(super) fn flush_lines(&self, at: PoolOffset, bytes: u64) {
        if bytes == 0 || !self.is_durable {
            return;
        }
        let first = at.0 / CACHE_LINE_BYTES;
        let last = (at.0 + bytes - 1) / CACHE_LINE_BYTES;
        let line = self.address(PoolOffset(first * CACHE_LINE_BYTES));
        // SAFETY: the lines lie inside the mapping, which is whole pages.
        unsafe { (self.routines.flush)(line, (last - first + 1) as usize) };
    }
}

/// Bytes before the first whole line, of whole lines, and after them.
#[inline]
fn split(at: PoolOffset, bytes: usize) -> (usize, usize, usize) {
    let line = CACHE_LINE_BYTES as usize;
    let head = (at.0.wrapping_neg() as usize % line).min(bytes);
    let lines = (bytes - head) / line * line;
    (head, lines, bytes - head - lines)
}
