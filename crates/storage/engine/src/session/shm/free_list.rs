//! Free runs of pages in shared memory, as a lock-free stack: a thread that stops or dies in it never blocks others. A
//! run that a thread had just taken and not used yet is lost if it dies, until the session ends.
//!
//! The head counts its changes above the page number, so that a head that came back is not taken for an unchanged one:
//! between two reads a run can be taken, used and given back (ABA).

use crate::sync::atomic::{AtomicU64, Ordering};

const PAGE_BITS: u32 = 40;
const PAGE_MASK: u64 = (1 << PAGE_BITS) - 1;

/// Take the first run off. `next` reads the link of a free page, which is garbage when the page is not free any
/// more. Links and heads hold page + 1, 0 is the end.
pub(crate) fn take<'a>(
    head: &AtomicU64,
    next: impl Fn(u64) -> Option<&'a AtomicU64>,
) -> Option<u64> {
    let mut seen = head.load(Ordering::Acquire);
    loop {
        let page = (seen & PAGE_MASK).checked_sub(1)?;
        let link = next(page)?.load(Ordering::Relaxed);
        match exchange(head, seen, link) {
            Ok(()) => return Some(page),
            Err(now) => seen = now,
        }
    }
}

/// Put a run in front.
pub(crate) fn put(head: &AtomicU64, page: u64, link: &AtomicU64) {
    let mut seen = head.load(Ordering::Relaxed);
    loop {
        let first = seen & PAGE_MASK;
        link.store(first, Ordering::Relaxed);
        match exchange(head, seen, page + 1) {
            Ok(()) => return,
            Err(now) => seen = now,
        }
    }
}

fn exchange(head: &AtomicU64, seen: u64, page: u64) -> Result<(), u64> {
    let count = (seen >> PAGE_BITS).wrapping_add(1);
    let new = (count << PAGE_BITS) | (page & PAGE_MASK);
    // Release: the link and what the giver wrote come before. Acquire: the taker's stores come after.
    head.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire)
        .map(drop)
}
