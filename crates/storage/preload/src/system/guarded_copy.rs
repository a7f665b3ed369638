//! A copy that says whether an address was bad, where the host would die.

use libc::ucontext_t;
use std::arch::global_asm;

global_asm!(
    ".pushsection .text.egeria_preload_copy,\"ax\",@progbits",
    ".globl egeria_preload_copy",
    ".hidden egeria_preload_copy",
    ".type egeria_preload_copy,@function",
    "egeria_preload_copy:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    ".globl egeria_preload_copy_fault",
    ".hidden egeria_preload_copy_fault",
    ".globl egeria_preload_copy_string",
    ".hidden egeria_preload_copy_string",
    "egeria_preload_copy_string:",
    "xor ecx, ecx",
    "2: cmp rcx, rdx",
    "jae 3f",
    "movzx eax, byte ptr [rsi + rcx]",
    "mov byte ptr [rdi + rcx], al",
    "inc rcx",
    "test al, al",
    "jnz 2b",
    "lea rdx, [rcx - 1]",
    "xor eax, eax",
    "ret",
    "3: mov eax, 1",
    "ret",
    "egeria_preload_copy_fault:",
    "mov eax, 1",
    "ret",
    ".size egeria_preload_copy, . - egeria_preload_copy",
    ".popsection",
);

unsafe extern "C" {
    fn egeria_preload_copy(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    fn egeria_preload_copy_string(to: *mut u8, from: *const u8, room: usize) -> CopiedString;
    fn egeria_preload_copy_fault();
}

/// What the copy of a string returns in two registers.
#[repr(C)]
struct CopiedString {
    failed: usize,
    bytes: usize,
}

/// Copy a terminated string with its end; its length, or `None` when an address was bad or it does not fit. For use
/// inside, after `signals::take_over`.
pub fn copy_string(to: &mut [u8], from: *const u8) -> Option<usize> {
    // SAFETY: writes within `to`; faults of reads end at the fix-up.
    let copied = unsafe { egeria_preload_copy_string(to.as_mut_ptr(), from, to.len()) };
    (copied.failed == 0).then_some(copied.bytes)
}

/// Copy; false when an address was bad. For use inside, after `signals::take_over`.
///
/// # Safety
/// The part of `to..+bytes` that can be written is the caller's to write.
pub unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> bool {
    // SAFETY: what is mapped may be read and written, as the contract says; faults end at the fix-up.
    unsafe { egeria_preload_copy(to, from, bytes) == 0 }
}

/// Whether a fault was in the copy; then it goes on at the fix-up.
///
/// # Safety
/// In a handler, with its context.
pub unsafe fn handle(context: *mut ucontext_t) -> bool {
    // SAFETY: the kernel's context.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as usize;
    let first = egeria_preload_copy as *const () as usize;
    let fix_up = egeria_preload_copy_fault as *const () as usize;
    if !(first..fix_up).contains(&at) {
        return false;
    }
    registers[libc::REG_RIP as usize] = fix_up as i64;
    true
}
