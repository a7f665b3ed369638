//! Copies between the caller's scattered buffers and one of ours: a bad address is an answer, not a
//! death. (The engine's own copies are guarded in `egeria_media::guard`.)

use crate::{errno, serve, signals, thread};
use libc::{c_int, ucontext_t};
use std::arch::global_asm;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

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
    "egeria_preload_copy_fault:",
    "mov eax, 1",
    "ret",
    ".size egeria_preload_copy, . - egeria_preload_copy",
    ".popsection",
);

unsafe extern "C" {
    fn egeria_preload_copy(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    fn egeria_preload_copy_fault();
}

/// Copy; false when an address was bad. For use inside, after `signals::take_over`.
///
/// # Safety
/// The part of `to..+bytes` that can be written is the caller's to write.
pub unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> bool {
    // SAFETY: by the contract; faults end at the fix-up.
    unsafe { egeria_preload_copy(to, from, bytes) == 0 }
}

/// What a caller of ours points to; `None` for a bad address, or when the descriptor is not (known to be)
/// ours.
pub fn fetch<T: Copy>(fd: c_int, from: *const T) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    let mut there = false;
    let error = errno::get();
    serve::quietly(fd, |_| {
        // SAFETY: a place of ours.
        there = unsafe { copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()) };
    });
    errno::set(error);
    // SAFETY: filled.
    there.then(|| unsafe { value.assume_init() })
}

/// Store where a caller of ours points to; false as with [`fetch`].
pub fn store<T: Copy>(fd: c_int, to: *mut T, value: T) -> bool {
    let mut there = false;
    let error = errno::get();
    serve::quietly(fd, |_| {
        // SAFETY: the caller's to write.
        there = unsafe { copy(to.cast(), (&raw const value).cast(), size_of::<T>()) };
    });
    errno::set(error);
    there
}

/// Whether the calling thread can [`look`] at addresses that may be bad: faults come to us, and are
/// open in this thread.
pub fn can_look() -> bool {
    let thread = thread::current();
    if !signals::has_taken_over() {
        return false;
    }
    if thread.pin.load(Ordering::Relaxed).is_null() {
        signals::open_faults(thread);
    }
    true
}

/// What any caller points to; `None` for a bad address, which is a fault unless the thread [`can_look`].
pub fn look<T: Copy>(from: *const T) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: a place of ours; filled when the copy went well.
    unsafe {
        copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()).then(|| value.assume_init())
    }
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
