//! Limits on file sizes, ends of threads: small things the engine's way depends on.

use crate::system::real;
use crate::thread::{self, endings};
use crate::trust::settings;
use libc::{c_int, c_uint, c_void, pid_t};

fn setrlimit(resource: c_uint, limit: *const c_void) -> c_int {
    let answer = real::setrlimit(resource, limit);
    if answer == 0 && resource == libc::RLIMIT_FSIZE {
        settings::look_at_limits();
    }
    answer
}

fn prlimit(process: pid_t, resource: c_uint, new: *const c_void, old: *mut c_void) -> c_int {
    let answer = real::prlimit(process, resource, new, old);
    if answer == 0 && resource == libc::RLIMIT_FSIZE && !new.is_null() {
        settings::look_at_limits();
    }
    answer
}

/// What the engine wants done at the end of a thread is kept by us: libc would take memory from the
/// host's allocator for it.
fn at_thread_end(run: *mut c_void, object: *mut c_void, library: *mut c_void) -> c_int {
    if thread::current().has(thread::INSIDE) {
        return endings::add(run, object);
    }
    real::__cxa_thread_atexit_impl(run, object, library)
}

export! {
    __cxa_thread_atexit_impl => at_thread_end(run: *mut c_void, object: *mut c_void, library: *mut c_void) -> c_int;
    setrlimit, setrlimit64 => setrlimit(resource: c_uint, limit: *const c_void) -> c_int;
    prlimit, prlimit64 => prlimit(process: pid_t, resource: c_uint, new: *const c_void, old: *mut c_void) -> c_int;
}
