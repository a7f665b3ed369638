//! Whether the program's memory can be read, asked of the kernel: before faults come to us.

use super::{raw, valgrind};
use libc::c_int;

/// Whether the page of an address can be read. The kernel copies a signal mask from there before it finds that it does
/// not know what to do with it: the quickest call that answers.
pub fn is_readable(address: usize) -> bool {
    const NO_WAY_TO_CHANGE: c_int = -1;
    if valgrind::is_there() {
        return is_byte_readable(address);
    }
    let mask = (address & !(size_of::<u64>() - 1)) as *const u64;
    let answer = raw::signal_mask(
        NO_WAY_TO_CHANGE,
        mask,
        std::ptr::null_mut(),
        size_of::<u64>(),
    );
    answer == -(libc::EINVAL as isize)
}

/// The same without a call that valgrind would report to its user.
#[cold]
fn is_byte_readable(address: usize) -> bool {
    let mut byte = 0_u8;
    let part = |base: *mut u8| libc::iovec {
        iov_base: base.cast(),
        iov_len: 1,
    };
    let (here, there) = (part(&raw mut byte), part(address as *mut u8));
    let own = raw::getpid() as c_int;
    raw::process_vm_readv(own, &raw const here, 1, &raw const there, 1, 0) == 1
}
