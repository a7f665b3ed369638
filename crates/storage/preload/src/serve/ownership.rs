//! Whose the tables are: of this process, which a fork child takes over at its first call.

use crate::descriptors::{late_open, reclaim, table};
use crate::sync::Lock;
use crate::system::{libc_streams, raw};
use crate::thread::process::{self, prepare, wiped};
use crate::thread::{self, Thread, allocator};
use crate::trust::settings;
use crate::volumes::{mounts, registry, watched};
use std::sync::atomic::Ordering;

/// Held by a fork, and by what must not be forked in its middle.
pub static FORK_LOCK: Lock = Lock::new();

/// Whether the caller may change the tables. Takes them over when it is a fork child nobody announced.
pub fn owns_tables() -> bool {
    let Some(wiped) = wiped().or_else(prepare) else {
        return false;
    };
    let thread = thread::current();
    let owner = wiped.owner.load(Ordering::Relaxed);
    if !thread.has(thread::VFORK) && (thread.has_live_pin() || thread.belongs_to(owner)) {
        // Seen in this process, and it has not called `vfork` since.
        return true;
    }
    let process = raw::getpid() as u32;
    match owner {
        owner if owner == process => {
            thread.clear(thread::VFORK);
            thread.note_owner(owner);
            true
        }
        0 => {
            begin_in_child(thread);
            true
        }
        _ => {
            thread.set(thread::VFORK);
            false
        }
    }
}

/// The child's tables begin anew: descriptors of ours are found again at their next use, with the
/// kernel's position, and the engine takes slots of the child's own. Only stores: no allocation.
#[cold]
pub fn begin_in_child(thread: &Thread) {
    let Some(wiped) = wiped() else { return };
    let interrupted = registry::was_attaching();
    thread.pin.store(std::ptr::null_mut(), Ordering::Relaxed);
    thread.forget_owner();
    process::count_share();
    FORK_LOCK.reset();
    allocator::reset_in_child();
    thread.stacks.reset_list_in_child();
    late_open::reset_in_child();
    libc_streams::reset_in_child();
    reclaim::reset_in_child();
    mounts::reset_in_child();
    watched::reset_in_child();
    table::forget_records();
    registry::after_fork_in_child();
    if interrupted && !thread.has(thread::FORKING) {
        // Another thread was attaching at a fork that was not announced: its locks stay taken.
        settings::switch_off();
    }
    wiped.owner.store(raw::getpid() as u32, Ordering::Release);
}

/// Run `body` while nobody forks. The caller is inside.
pub fn without_forks(body: impl FnOnce()) {
    FORK_LOCK.with(body);
}
