//! Whether the library does anything at all: the environment, and reasons found on the way.

use crate::sync::Gate;
use crate::system::raw;
use libc::c_char;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Closed when the library does nothing any more.
pub static GATE: Gate = Gate::new();
static FILE_SIZE_LIMITED: AtomicBool = AtomicBool::new(false);
static OPENS_IN_KERNEL: AtomicBool = AtomicBool::new(false);
static LEAVES_POOLS_OPEN: AtomicBool = AtomicBool::new(false);

/// Every call passes to the kernel, without a system call that the program did not make: it may have
/// forbidden itself all others (seccomp). No word of the table is ours then, nor becomes ours.
#[inline(always)]
pub fn is_off() -> bool {
    GATE.is_closed()
}

/// The kernel is to open all files: the program uses descriptors in ways that the library does not see.
pub fn opens_in_kernel() -> bool {
    OPENS_IN_KERNEL.load(Ordering::Relaxed)
}

/// Pools are not to be protected from stores of the program by protection keys.
pub fn leaves_pools_open() -> bool {
    LEAVES_POOLS_OPEN.load(Ordering::Relaxed)
}

/// From now on every call passes to the kernel.
pub fn switch_off() {
    GATE.close();
}

/// A limit on file sizes is set: the kernel must see writes, to send its signal.
#[inline(always)]
pub fn file_size_limited() -> bool {
    FILE_SIZE_LIMITED.load(Ordering::Relaxed)
}

/// Look at the limit on file sizes again.
pub fn look_at_limits() {
    if is_off() {
        return;
    }
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let answer = raw::prlimit(
        0,
        libc::RLIMIT_FSIZE as i32,
        std::ptr::null(),
        &raw mut limit,
    );
    let limited = answer < 0 || limit.rlim_cur != libc::RLIM64_INFINITY;
    FILE_SIZE_LIMITED.store(limited, Ordering::Relaxed);
}

/// `EGERIA_PRELOAD=off`, the list of program names `EGERIA_BYPASS=one:two`, `EGERIA_OPEN=kernel` and
/// `EGERIA_PROTECTION_KEYS=off`.
pub fn read_environment(program: Option<&CStr>) {
    let off = variable(c"EGERIA_PRELOAD").is_some_and(|value| value == b"off");
    let name = program.map(|path| {
        path.to_bytes()
            .rsplit(|&byte| byte == b'/')
            .next()
            .unwrap_or(b"")
    });
    let bypassed = variable(c"EGERIA_BYPASS")
        .zip(name)
        .is_some_and(|(list, name)| list.split(|&byte| byte == b':').any(|entry| entry == name));
    if off || bypassed {
        switch_off();
    }
    if variable(c"EGERIA_OPEN").is_some_and(|value| value == b"kernel") {
        OPENS_IN_KERNEL.store(true, Ordering::Relaxed);
    }
    if variable(c"EGERIA_PROTECTION_KEYS").is_some_and(|value| value == b"off") {
        LEAVES_POOLS_OPEN.store(true, Ordering::Relaxed);
    }
}

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: called while the program is being started, before it can change its environment; a terminated string or
    // null.
    unsafe {
        let value: *const c_char = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    }
}
