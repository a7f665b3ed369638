//! Making processes: what the child must not find half done, and what it shares.

use crate::descriptors::reclaim;
use crate::serve;
use crate::serve::ownership::{FORK_LOCK, begin_in_child};
use crate::system::{errno, libc_streams, libc_threads};
use crate::thread::process::{self, in_vfork_child, wiped};
use crate::thread::{self, Thread, allocator};
use crate::trust::settings;
use crate::volumes::registry;
use std::sync::atomic::{AtomicBool, Ordering};

/// Descriptors become shared: private offsets go to the kernel, and no older descriptor gets one.
pub fn share_descriptors() {
    process::count_share();
    serve::publish_all();
}

/// libc calls the handlers here around each fork.
static HAS_HANDLERS: AtomicBool = AtomicBool::new(false);
/// The fork that holds all has taken the lock of libc's list of streams, too.
static HAS_LIST: AtomicBool = AtomicBool::new(false);

/// When the library is initialised: handlers that are registered later come before ours, and may wait for threads that
/// use the library.
pub fn prepare() {
    // SAFETY: functions of the right kind, which stay.
    let answer = unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after_in_child)) };
    HAS_HANDLERS.store(answer == 0, Ordering::Relaxed);
}

/// Run a call that makes a process with memory of its own, and has libc's handlers run.
pub fn around_fork(fork: impl FnOnce() -> isize) -> isize {
    if HAS_HANDLERS.load(Ordering::Relaxed) {
        fork()
    } else {
        around_bare_fork(fork)
    }
}

/// The same without handlers.
pub fn around_bare_fork(fork: impl FnOnce() -> isize) -> isize {
    before();
    let child = fork();
    match child {
        0 => after_in_child(),
        _ => after(),
    }
    child
}

extern "C" fn before() {
    let thread = thread::current();
    let nested = thread.has(thread::INSIDE | thread::FORKING);
    let vforked = thread.has(thread::VFORK) && in_vfork_child(thread);
    if nested || vforked || settings::is_off() || !has_something_to_hold() {
        return;
    }
    let error = errno::get();
    share_descriptors();
    // Whoever writes streams has it, and then takes ours. libc's `fork` takes it once more.
    let has_list = libc_streams::lock_list();
    hold_all(thread);
    HAS_LIST.store(has_list, Ordering::Relaxed);
    errno::set(error);
}

/// Whether a thread may be in the middle of something: also of its first look for volumes, before the process has used one.
fn has_something_to_hold() -> bool {
    let is_first = || !libc_threads::alone() && process::prepare().is_some();
    wiped().is_some() || is_first()
}

extern "C" fn after() {
    let thread = thread::current();
    if thread.has(thread::FORKING) {
        let error = errno::get();
        let has_list = HAS_LIST.swap(false, Ordering::Relaxed);
        release_all(thread);
        if has_list {
            libc_streams::unlock_list();
        }
        errno::set(error);
    }
}

extern "C" fn after_in_child() {
    let thread = thread::current();
    if thread.has(thread::FORKING) {
        if HAS_LIST.swap(false, Ordering::Relaxed) {
            libc_streams::free_list_in_child();
        }
        if wiped().is_some_and(|wiped| wiped.owner.load(Ordering::Relaxed) == 0) {
            begin_in_child(thread);
        }
        thread.clear(thread::FORKING);
    }
}

/// No other thread is in the middle of anything that the child would find half done.
fn hold_all(thread: &Thread) {
    thread.set(thread::INSIDE);
    FORK_LOCK.take();
    registry::hold();
    reclaim::hold();
    allocator::hold();
    thread.stacks.hold_list();
    thread.set(thread::FORKING);
    thread.leave();
}

fn release_all(thread: &Thread) {
    thread.set(thread::INSIDE);
    thread.stacks.release_list();
    allocator::release();
    reclaim::release();
    registry::release();
    FORK_LOCK.give();
    thread.clear(thread::FORKING);
    thread.leave();
}

/// Before `vfork`, from its thunk: what the child does next is checked against the pid.
pub extern "C" fn before_vfork() {
    if wiped().is_some() && !settings::is_off() {
        share_descriptors();
        note_borrower();
    }
}

/// A child is about to run in this thread's memory: who calls from here on is found out by the pid.
pub fn note_borrower() {
    if wiped().is_some() && !settings::is_off() {
        thread::current().set(thread::VFORK);
    }
}
