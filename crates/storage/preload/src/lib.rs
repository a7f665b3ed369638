//! `libegeria_preload.so`: files on a mount, and their names, past the kernel, in unmodified programs.
//!
//! ```text
//!  hooks/*   the C functions, by family
//!    │ serve        into the engine and back: errno, panics, handlers, counters
//!    │ offset       where read, write and lseek are: the kernel's position or a private offset
//!    │ table        what each descriptor number is      descriptors  numbers handed out and closed
//!    │ record       one open description of ours        registry     attached volumes
//!    │ stack        memory of our own for all of this
//!    │ identify     found out at the first data call    pins         who uses which record
//!    │ process      whose memory this is (fork, vfork)  ownership    taking the tables over in a child
//!    ├ forks        what a child must not find half done, and what it shares
//!    ├ signals      handlers wait while their thread is in the engine
//!    ├ withdraw     volumes are left before rights change
//!    ├ names        paths that lead into volumes
//!    ├ opening      files opened without the kernel; deferred: until it must see them
//!    ├ watched      files whose data calls must raise events
//!    └ directory    entries of open directories      streams    the library's own `DIR`
//! ```
//!
//! What it cannot do it passes to the kernel, and the mount does it right; it counts that. Limits,
//! where the kernel cannot be asked cheaply: descriptors that a program duplicates or hands on by bare
//! `syscall` instructions, past libc, are not followed. Where it may close them so (`signs`), each call looks first.

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!("egeria-preload is for x86-64 Linux with glibc: use the mount alone elsewhere");

mod admission;
mod allocator;
mod apart;
mod bare_calls;
mod caller;
mod control_call;
mod deferral;
mod deferred;
mod descriptors;
mod devices;
mod directory;
mod endings;
mod errno;
mod forks;
mod gate;
mod guarded;
mod guarded_copy;
mod hooks;
mod identify;
mod libc_streams;
mod libc_threads;
mod lock;
mod locked;
mod locked_files;
mod names;
mod offset;
mod opening;
mod ownership;
mod pin;
mod pins;
mod placeholder;
mod private_offset;
mod process;
mod raw;
mod readable;
mod reading;
mod real;
mod record;
mod registry;
mod reply;
mod serve;
mod settings;
mod signals;
mod signs;
mod sole;
mod stack;
mod streams;
mod sync;
mod table;
mod thread;
mod thread_end;
mod trust;
mod valgrind;
mod watched;
mod withdraw;
mod writing;
mod zeros;

use libc::{c_char, c_int};
use std::ffi::CStr;

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
        let _ = pins::register_barrier();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn(c_int, *const *const c_char) = initialise;
