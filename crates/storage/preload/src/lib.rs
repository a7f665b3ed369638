//! `libegeria_preload.so`: files on a mount, and their names, past the kernel, in unmodified programs.
//!
//! ```text
//!  hooks         the C functions, by family
//!  files         files and directories as a whole: opened without the kernel, listed, closed, shared, left
//!  serve         into the engine and back, by a descriptor or a path: errno, panics, handlers, counters
//!  volumes       attached volumes, the mounts that lead to them, whose rights count, watched files
//!  descriptors   what each number is, where reads and writes are, what the kernel has not opened yet
//!  bare_calls    calls that close or replace descriptors past the library, and signs of them
//!  signals       handlers wait while their thread is in the engine
//!  thread        what is kept per thread and process: words, pins, memory and stacks of our own
//!  description   one open description of ours, and how threads use it at the same time
//!  trust         whether the library works at all, and whose mounts it believes
//!  sync          locks, gates and barriers without libc
//!  system        system calls, and libc's own functions behind the hooks
//! ```
//!
//! Each folder uses those below it alone (`crates/verify/lint/layers.toml`).
//!
//! What it cannot do it passes to the kernel, and the mount does it right; it counts that. Limits,
//! where the kernel cannot be asked cheaply: descriptors that a program duplicates or hands on by bare
//! `syscall` instructions, past libc, are not followed. Where it may close them so (`bare_calls::signs`), each call looks first.

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!("egeria-preload is for x86-64 Linux with glibc: use the mount alone elsewhere");

mod bare_calls;
mod description;
mod descriptors;
mod files;
mod hooks;
mod serve;
mod signals;
mod sync;
mod system;
mod thread;
mod trust;
mod volumes;

use descriptors::reclaim;
use files::forks;
use libc::{c_char, c_int};
use std::ffi::CStr;
use system::{libc_streams, real};
use thread::endings;
use trust::settings;

/// Tells two copies of this library in one process from each other.
#[unsafe(no_mangle)]
pub static EGERIA_PRELOAD_INSTANCE: u8 = 1;

/// Run by the dynamic linker before the program: finds the real functions, reads the environment.
/// Nothing is allocated, mapped, opened or started until the program's first call with a path.
extern "C" fn initialise(count: c_int, arguments: *const *const c_char) {
    real::find_all();
    endings::prepare();
    forks::prepare();
    libc_streams::prepare(hooks::stream_functions());
    let program = (count > 0 && !arguments.is_null()).then(|| {
        // SAFETY: the linker passes the program's arguments.
        unsafe { CStr::from_ptr(*arguments) }
    });
    settings::read_environment(program);
    // SAFETY: a terminated name.
    let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"EGERIA_PRELOAD_INSTANCE".as_ptr()) };
    if !first.is_null() && !std::ptr::eq(first.cast(), &EGERIA_PRELOAD_INSTANCE) {
        // Two libraries would each keep a table: the first one does.
        settings::switch_off();
    }
    // SAFETY: a terminated name.
    if !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__tsan_init".as_ptr()) }.is_null() {
        // ThreadSanitizer sees the library's memory but not what orders its uses, and would report races that are none.
        settings::switch_off();
    }
    if !settings::is_off() {
        // For later: with several threads the kernel waits for an RCU grace period (milliseconds). An error comes again at
        // the first attach, and is handled there.
        let _ = reclaim::register_barrier();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn(c_int, *const *const c_char) = initialise;
