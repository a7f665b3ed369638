//! Whether the program's memory can be read, asked of the kernel: before faults come to us.

use crate::raw;
use libc::c_int;
use std::arch::asm;

/// Whether the page of an address can be read. The kernel copies a signal mask from there before it finds that it does
/// not know what to do with it: the quickest call that answers.
pub fn is_readable(address: usize) -> bool {
    const NO_WAY_TO_CHANGE: c_int = -1;
    if runs_under_valgrind() {
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

/// Valgrind's client request `RUNNING_ON_VALGRIND`: instructions that change nothing on a processor, and that valgrind
/// takes for a question.
#[inline]
fn runs_under_valgrind() -> bool {
    const RUNNING_ON_VALGRIND: u64 = 0x1001;
    let request = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
    let depth: u64;
    // SAFETY: rotates a register once around and exchanges another with itself; valgrind reads `request`.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") 0_u64 => depth,
            options(nostack, readonly),
        );
    }
    depth > 0
}
