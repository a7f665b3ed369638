//! The memory that the kernel writes the samples of one CPU into.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A ring, mapped. The kernel writes behind `head` and never over what is between `tail` and `head`; we move `tail`.
pub(crate) struct Ring {
    start: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
    /// Closed after the mapping is gone.
    _event: OwnedFd,
}

// SAFETY: the mapping belongs to this value alone, and nothing of it is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event, with `pages` pages, a power of two.
    pub(crate) fn map(event: OwnedFd, pages: usize) -> Result<Ring, Errno> {
        let page_bytes = rustix::param::page_size();
        let data_bytes = page_bytes * pages;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which the kernel places where nothing is.
        let start = unsafe {
            let (anywhere, bytes) = (std::ptr::null_mut(), page_bytes + data_bytes);
            mmap(anywhere, bytes, protection, MapFlags::SHARED, &event, 0)?
        };
        Ok(Ring {
            start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?,
            page_bytes,
            data_bytes,
            _event: event,
        })
    }

    pub(crate) fn event(&self) -> &OwnedFd {
        &self._event
    }

    pub(crate) fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping is this structure, and its words are aligned; the kernel too accesses
        // them atomically.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Appends all records that are there, and gives their room back; false when what the kernel says makes no sense.
    pub(crate) fn drain(&mut self, into: &mut Vec<u8>) -> bool {
        let head = self.word(offset_of!(perf_event_mmap_page, data_head));
        let tail = self.word(offset_of!(perf_event_mmap_page, data_tail));
        // What was written before `head` was is seen now.
        let (end, begin) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let pieces = pieces(begin, end, self.data_bytes);
        for piece in pieces.iter().flatten() {
            let length = piece.len();
            into.reserve(length);
            // SAFETY: the piece lies within the data, which the kernel does not write before `tail` moves; there is
            // room for it.
            unsafe {
                let from = self.start.as_ptr().add(self.page_bytes + piece.start);
                let to = into.as_mut_ptr().add(into.len());
                std::ptr::copy_nonoverlapping(from, to, length);
                into.set_len(into.len() + length);
            }
        }
        // Not before it has been copied.
        tail.store(end, Ordering::Release);
        pieces.is_some()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let bytes = self.page_bytes + self.data_bytes;
        // SAFETY: our mapping, and there is no reference to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), bytes) };
    }
}

/// Where in a ring the bytes from `tail` to `head` are: up to its end, and on from its beginning. `None` when it is
/// too small for them.
fn pieces(tail: u64, head: u64, ring_bytes: usize) -> Option<[Range<usize>; 2]> {
    let length = usize::try_from(head.wrapping_sub(tail)).ok()?;
    if length > ring_bytes || ring_bytes == 0 {
        return None;
    }
    let start = (tail % ring_bytes as u64) as usize;
    let first = length.min(ring_bytes - start);
    Some([start..start + first, 0..length - first])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_the_bytes_between_and_lie_inside(tail: u64, length in 0_u64..6000, shift in 6_u32..13) {
            let bytes = 1_usize << shift;
            let found = pieces(tail, tail.wrapping_add(length), bytes);
            prop_assert_eq!(found.is_some(), length <= bytes as u64);
            if let Some(pieces) = found {
                let places = pieces.iter().cloned().flatten().map(|at| at as u64);
                let expected = (0..length).map(|at| tail.wrapping_add(at) % bytes as u64);
                prop_assert!(places.eq(expected));
                prop_assert!(pieces.iter().all(|piece| piece.end <= bytes));
            }
        }

        #[test]
        fn no_two_numbers_lead_outside(tail: u64, head: u64, bytes in 0_usize..1 << 20) {
            for piece in pieces(tail, head, bytes).iter().flatten() {
                prop_assert!(piece.start <= piece.end && piece.end <= bytes);
            }
        }
    }
}
