//! Which process this memory belongs to: itself, a fork child that nobody announced, or a vfork
//! child in its parent's memory.
//!
//! One page that the kernel wipes in a fork child holds the owner's pid and the pins. A wiped page
//! says "new process, own memory"; a foreign pid says "vfork child, hands off the parent's tables".

use super::words::{self, Thread};
use crate::description::pin::Pin;
use crate::system::raw;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Threads that can be inside at once; more pass to the kernel.
pub const PINS: usize = 2048;

/// Memory that is zero in a fork child.
#[repr(C, align(64))]
pub struct Wiped {
    /// Process that owns the tables; 0 in a fork child until it has taken them over.
    pub owner: AtomicU32,
    /// One pin per thread.
    pub pins: [Pin; PINS],
}

static WIPED: AtomicPtr<Wiped> = AtomicPtr::new(std::ptr::null_mut());
static SHARES: AtomicU64 = AtomicU64::new(1);

/// The wiped memory; `None` until something first needed it, or when it cannot be had.
#[inline(always)]
pub fn wiped() -> Option<&'static Wiped> {
    // SAFETY: once set it stays mapped for ever; all of it is atomics.
    unsafe { WIPED.load(Ordering::Acquire).as_ref() }
}

/// The process that owns the tables; 0 while none does.
#[inline]
pub fn owner() -> u32 {
    wiped().map_or(0, |wiped| wiped.owner.load(Ordering::Relaxed))
}

/// How often descriptors of this process may have become shared (fork, exec). Tells whether a
/// descriptor opened at one count is still this process's alone at a later one.
pub fn shares() -> u64 {
    SHARES.load(Ordering::Relaxed)
}

/// Make the wiped memory; `None` when the kernel refuses.
#[cold]
pub fn prepare() -> Option<&'static Wiped> {
    let bytes = size_of::<Wiped>().next_multiple_of(4096);
    let page = raw::map(bytes)?;
    if raw::advise(page, bytes, libc::MADV_WIPEONFORK) < 0 {
        raw::munmap(page, bytes);
        return None;
    }
    let fresh = page.cast::<Wiped>();
    // SAFETY: zeroed memory of the right size and alignment, of atomics.
    let owner = unsafe { &(*fresh).owner };
    owner.store(raw::getpid() as u32, Ordering::Relaxed);
    let null = std::ptr::null_mut();
    if WIPED
        .compare_exchange(null, fresh, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        raw::munmap(page, bytes);
    }
    wiped()
}

/// Descriptors of this process become shared, or may have.
pub fn count_share() {
    SHARES.fetch_add(1, Ordering::SeqCst);
}

/// Whether the caller runs as a vfork child. Notices when the parent goes on.
#[cold]
pub fn in_vfork_child(thread: &Thread) -> bool {
    let owner = owner();
    if owner != 0 && owner != raw::getpid() as u32 {
        return true;
    }
    thread.clear(words::VFORK);
    false
}
