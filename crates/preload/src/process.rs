//! Which process this memory belongs to: itself, a fork child that nobody announced, or a vfork
//! child in its parent's memory.
//!
//! One page that the kernel wipes in a fork child holds the owner's pid and the pins. A wiped page
//! says "new process, own memory"; a foreign pid says "vfork child, hands off the parent's tables".

use crate::lock::Lock;
use crate::pin::Pin;
use crate::pins;
use crate::thread::{self, Thread};
use crate::{allocator, raw, registry, settings, table};
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
static FORK_LOCK: Lock = Lock::new();

/// The wiped memory; `None` until something first needed it, or when it cannot be had.
#[inline(always)]
pub fn wiped() -> Option<&'static Wiped> {
    // SAFETY: once set it stays mapped for ever; all of it is atomics.
    unsafe { WIPED.load(Ordering::Acquire).as_ref() }
}

/// How often descriptors of this process may have become shared (fork, exec). Tells whether a
/// descriptor opened at one count is still this process's alone at a later one.
pub fn shares() -> u64 {
    SHARES.load(Ordering::Relaxed)
}

/// Whether the caller may change the tables. Takes them over when it is a fork child nobody announced.
pub fn owns_tables() -> bool {
    let Some(wiped) = wiped().or_else(prepare) else {
        return false;
    };
    let process = raw::getpid() as u32;
    match wiped.owner.load(Ordering::Relaxed) {
        owner if owner == process => {
            thread::current().clear(thread::VFORK);
            true
        }
        0 => {
            begin_in_child(thread::current());
            true
        }
        _ => {
            thread::current().set(thread::VFORK);
            false
        }
    }
}

#[cold]
fn prepare() -> Option<&'static Wiped> {
    let bytes = size_of::<Wiped>().next_multiple_of(4096);
    let page = raw::map(bytes)?;
    if raw::advise(page, bytes, libc::MADV_WIPEONFORK) < 0 {
        raw::munmap(page, bytes);
        return None;
    }
    let fresh = page.cast::<Wiped>();
    // SAFETY: zeroed memory of the right size and alignment, nobody else has it yet.
    unsafe {
        (*fresh)
            .owner
            .store(raw::getpid() as u32, Ordering::Relaxed)
    };
    let null = std::ptr::null_mut();
    if WIPED
        .compare_exchange(null, fresh, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        raw::munmap(page, bytes);
    }
    wiped()
}

/// The child's tables begin anew: descriptors of ours are found again at their next use, with the
/// kernel's position, and the engine takes slots of the child's own. Only stores: no allocation.
#[cold]
fn begin_in_child(thread: &Thread) {
    let Some(wiped) = wiped() else { return };
    let interrupted = registry::was_attaching();
    thread.pin.store(std::ptr::null_mut(), Ordering::Relaxed);
    SHARES.fetch_add(1, Ordering::Relaxed);
    FORK_LOCK.reset();
    allocator::reset_in_child();
    pins::reset_in_child();
    table::forget_records();
    registry::after_fork_in_child();
    if interrupted && !thread.has(thread::FORKING) {
        // Another thread was attaching at a fork that was not announced: its locks stay taken.
        settings::switch_off();
    }
    wiped.owner.store(raw::getpid() as u32, Ordering::Release);
}

/// Descriptors become shared: private offsets go to the kernel, and no older descriptor gets one.
pub fn share_descriptors() {
    SHARES.fetch_add(1, Ordering::SeqCst);
    crate::offset::publish_all();
}

/// Whether the caller runs as a vfork child. Notices when the parent goes on.
#[cold]
pub fn in_vfork_child(thread: &Thread) -> bool {
    let owner = wiped().map_or(0, |wiped| wiped.owner.load(Ordering::Relaxed));
    if owner != 0 && owner != raw::getpid() as u32 {
        return true;
    }
    thread.clear(thread::VFORK);
    false
}

/// Run a call that makes a process with memory of its own.
pub fn around_fork(fork: impl FnOnce() -> isize) -> isize {
    let thread = thread::current();
    let nested = thread.has(thread::INSIDE | thread::FORKING);
    let vforked = thread.has(thread::VFORK) && in_vfork_child(thread);
    if nested || vforked || wiped().is_none() || settings::is_off() {
        return fork();
    }
    share_descriptors();
    hold_all(thread);
    let child = fork();
    if child == 0 {
        if wiped().is_some_and(|wiped| wiped.owner.load(Ordering::Relaxed) == 0) {
            begin_in_child(thread);
        }
        thread.clear(thread::FORKING);
    } else {
        let error = crate::errno::get();
        release_all(thread);
        crate::errno::set(error);
    }
    child
}

/// Run `body` while nobody forks. The caller is inside.
pub fn without_forks(body: impl FnOnce()) {
    FORK_LOCK.with(body);
}

/// No other thread is in the middle of anything that the child would find half done.
fn hold_all(thread: &Thread) {
    thread.set(thread::INSIDE);
    FORK_LOCK.take();
    registry::hold();
    pins::hold();
    allocator::hold();
    thread.set(thread::FORKING);
    thread.leave();
}

fn release_all(thread: &Thread) {
    thread.set(thread::INSIDE);
    allocator::release();
    pins::release();
    registry::release();
    FORK_LOCK.give();
    thread.clear(thread::FORKING);
    thread.leave();
}

/// Before `vfork`, from its thunk: what the child does next is checked against the pid.
pub extern "C" fn before_vfork() {
    let thread = thread::current();
    if wiped().is_some() && !settings::is_off() {
        share_descriptors();
        thread.set(thread::VFORK);
    }
}
