//! `io_submit` of libaio: the kernel's asynchronous reads of a mount end at the size that the kernel knows,
//! so it is told first.

use super::map::hand_over;
use crate::system::raw;
use crate::trust::settings;
use libc::{c_int, c_long, c_void};
use std::mem::MaybeUninit;

/// What of the kernel's `struct iocb` stands before the descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control {
    _data: u64,
    _key_and_flags: u64,
    _operation: u32,
    fd: c_int,
}

/// What the program points to; `None` for a bad address. May come before any file of ours is known.
fn fetch<T: Copy>(from: *const T) -> Option<T> {
    let bytes = size_of::<T>();
    let mut value = MaybeUninit::<T>::uninit();
    let part = |base: *mut c_void| libc::iovec {
        iov_base: base,
        iov_len: bytes,
    };
    let (here, there) = (part(value.as_mut_ptr().cast()), part(from as *mut c_void));
    let own = raw::getpid() as c_int;
    let read = raw::process_vm_readv(own, &raw const here, 1, &raw const there, 1, 0);
    // SAFETY: filled by the kernel.
    (read == bytes as isize).then(|| unsafe { value.assume_init() })
}

/// Tell the size of every file of ours among the calls, which are a list of `struct iocb *`.
pub(super) fn tell_sizes(count: c_long, list: *const c_void) {
    if settings::is_off() {
        return;
    }
    let list: *const *const Control = list.cast();
    for index in 0..count.clamp(0, 1024) as usize {
        match fetch(list.wrapping_add(index)).and_then(fetch) {
            Some(control) => hand_over(control.fd),
            None => break,
        }
    }
}

/// As libaio's: minus an errno, which stays as it is.
fn io_submit(context: usize, count: c_long, list: *const c_void) -> c_int {
    tell_sizes(count, list);
    raw::io_submit(context, count, list) as c_int
}

export! {
    io_submit => io_submit(context: usize, count: c_long, list: *const c_void) -> c_int;
}
