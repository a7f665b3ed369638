//! What lies below the library: system calls, the functions of libc behind the hooks, `errno`, and copies that a bad address
//! does not end. It builds on nothing of this crate.

pub(crate) mod caller;
pub(crate) mod errno;
pub(crate) mod guarded_copy;
pub(crate) mod libc_streams;
pub(crate) mod libc_threads;
pub(crate) mod raw;
pub(crate) mod readable;
pub(crate) mod real;
pub(crate) mod thread_end;
pub(crate) mod valgrind;
pub(crate) mod zeros;
