//! Questions and remarks for valgrind: instructions that change nothing on a processor.

use std::arch::asm;

const RUNNING_ON_VALGRIND: u64 = 0x1001;
const STACK_REGISTER: u64 = 0x1501;

/// Whether the program runs under valgrind.
#[inline]
pub fn is_there() -> bool {
    request(RUNNING_ON_VALGRIND, [0, 0]) > 0
}

/// Threads will have their stack here: a change of the stack pointer to it is no large frame.
pub fn note_stack(start: usize, end: usize) {
    request(STACK_REGISTER, [start as u64, end as u64]);
}

#[inline]
fn request(code: u64, [one, other]: [u64; 2]) -> u64 {
    let request = [code, one, other, 0, 0, 0];
    let answer: u64;
    // SAFETY: rotates a register once around and exchanges another with itself; valgrind reads `request`.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") 0_u64 => answer,
            options(nostack, readonly),
        );
    }
    answer
}
