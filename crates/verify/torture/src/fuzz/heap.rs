//! A heap with an end: what a small input makes a program allocate must be small too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static USED: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// The system's heap, counted: what goes beyond the limit ends as if memory were exhausted.
pub struct BoundedHeap;

/// From now on no more than so much may be in use.
pub(super) fn limit(bytes: u64) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// The most that was in use.
pub(super) fn most() -> u64 {
    MOST.load(Ordering::Relaxed)
}

fn take(bytes: usize) -> bool {
    let used = USED.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    MOST.fetch_max(used, Ordering::Relaxed);
    used <= LIMIT.load(Ordering::Relaxed)
}

fn give(bytes: usize) {
    USED.fetch_sub(bytes as u64, Ordering::Relaxed);
}

// SAFETY: the system's allocator, whose answers are passed on; null is a legal answer.
unsafe impl GlobalAlloc for BoundedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if take(layout.size()) {
            // SAFETY: by the caller's contract.
            unsafe { System.alloc(layout) }
        } else {
            refused(layout.size())
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if take(layout.size()) {
            // SAFETY: by the caller's contract.
            unsafe { System.alloc_zeroed(layout) }
        } else {
            refused(layout.size())
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if !take(bytes) {
            return refused(bytes);
        }
        give(layout.size());
        // SAFETY: by the caller's contract.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// Not taken after all.
fn refused(bytes: usize) -> *mut u8 {
    give(bytes);
    std::ptr::null_mut()
}
