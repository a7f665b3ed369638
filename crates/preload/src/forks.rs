//! Making processes: what the child must not find half done, and what it shares.

use crate::ownership::{FORK_LOCK, begin_in_child};
use crate::process::{self, in_vfork_child, wiped};
use crate::thread::{self, Thread};
use crate::{allocator, errno, pins, registry, serve, settings};
use std::sync::atomic::Ordering;

/// Descriptors become shared: private offsets go to the kernel, and no older descriptor gets one.
pub fn share_descriptors() {
    process::count_share();
    serve::publish_all();
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
        let error = errno::get();
        release_all(thread);
        errno::set(error);
    }
    child
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
