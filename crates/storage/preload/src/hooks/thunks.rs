//! Functions with a variable number of arguments, that never return, or return twice: a few instructions
//! that let the library prepare, then go on into the real function with the caller's registers and
//! stack as they were.

use crate::bare_calls::signs;
use crate::files::forks;
use crate::system::{errno, real};
use crate::{serve, thread};
use libc::{c_char, c_int, c_void};
use std::arch::naked_asm;
use std::sync::atomic::Ordering;

extern "C" fn before_dprintf(fd: c_int) -> *mut c_void {
    serve::publish(fd);
    real::address::dprintf.address()
}

extern "C" fn before_dprintf_checked(fd: c_int) -> *mut c_void {
    serve::publish(fd);
    real::address::__dprintf_chk.address()
}

extern "C" fn before_execl() -> *mut c_void {
    forks::share_descriptors();
    real::address::execl.address()
}

extern "C" fn before_execlp() -> *mut c_void {
    forks::share_descriptors();
    real::address::execlp.address()
}

extern "C" fn before_execle() -> *mut c_void {
    forks::share_descriptors();
    real::address::execle.address()
}

/// A jump may leave a handler, which then never returns.
extern "C" fn leave_handlers() {
    thread::current().handler_depth.store(0, Ordering::Relaxed);
}

extern "C" fn before_longjmp() -> *mut c_void {
    leave_handlers();
    real::address::longjmp.address()
}

extern "C" fn before_siglongjmp() -> *mut c_void {
    leave_handlers();
    real::address::siglongjmp.address()
}

extern "C" fn before_longjmp_checked() -> *mut c_void {
    leave_handlers();
    real::address::__longjmp_chk.address()
}

/// A plug-in that prefers its own libc (`RTLD_DEEPBIND`) calls past the library.
extern "C" fn before_dlopen(_path: *const c_char, flags: c_int) -> *mut c_void {
    signs::note_load();
    if flags & libc::RTLD_DEEPBIND != 0 {
        serve::expect_bare_calls();
    }
    real::address::dlopen.address()
}

/// Another name space has a libc of its own.
extern "C" fn before_dlmopen(space: libc::Lmid_t) -> *mut c_void {
    signs::note_load();
    if space != libc::LM_ID_BASE {
        serve::expect_bare_calls();
    }
    real::address::dlmopen.address()
}

macro_rules! forward {
    ($($name:ident after $before:ident;)*) => {
        $(
            /// Saves all registers that carry arguments, prepares, goes on.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                naked_asm!(
                    "push rbp",
                    "mov rbp, rsp",
                    "sub rsp, 192",
                    "mov [rsp], rdi",
                    "mov [rsp + 8], rsi",
                    "mov [rsp + 16], rdx",
                    "mov [rsp + 24], rcx",
                    "mov [rsp + 32], r8",
                    "mov [rsp + 40], r9",
                    "mov [rsp + 48], rax",
                    "movups [rsp + 64], xmm0",
                    "movups [rsp + 80], xmm1",
                    "movups [rsp + 96], xmm2",
                    "movups [rsp + 112], xmm3",
                    "movups [rsp + 128], xmm4",
                    "movups [rsp + 144], xmm5",
                    "movups [rsp + 160], xmm6",
                    "movups [rsp + 176], xmm7",
                    "call {before}",
                    "mov r11, rax",
                    "mov rdi, [rsp]",
                    "mov rsi, [rsp + 8]",
                    "mov rdx, [rsp + 16]",
                    "mov rcx, [rsp + 24]",
                    "mov r8, [rsp + 32]",
                    "mov r9, [rsp + 40]",
                    "mov rax, [rsp + 48]",
                    "movups xmm0, [rsp + 64]",
                    "movups xmm1, [rsp + 80]",
                    "movups xmm2, [rsp + 96]",
                    "movups xmm3, [rsp + 112]",
                    "movups xmm4, [rsp + 128]",
                    "movups xmm5, [rsp + 144]",
                    "movups xmm6, [rsp + 160]",
                    "movups xmm7, [rsp + 176]",
                    "leave",
                    "jmp r11",
                    before = sym $before,
                );
            }
        )*
    };
}

forward! {
    dprintf after before_dprintf;
    __dprintf_chk after before_dprintf_checked;
    dlopen after before_dlopen;
    dlmopen after before_dlmopen;
    execl after before_execl;
    execlp after before_execlp;
    execle after before_execle;
    longjmp after before_longjmp;
    _longjmp after before_longjmp;
    siglongjmp after before_siglongjmp;
    __longjmp_chk after before_longjmp_checked;
}

extern "C" fn vfork_failed(answer: isize) -> isize {
    errno::from_kernel(answer)
}

macro_rules! vfork {
    ($($name:ident),*) => {
        $(
            /// The child returns first, on the same stack: the return address waits in a register.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() -> c_int {
                naked_asm!(
                    "sub rsp, 8",
                    "call {before}",
                    "add rsp, 8",
                    "pop rdi",
                    "mov eax, {number}",
                    "syscall",
                    "push rdi",
                    "cmp rax, -4095",
                    "jae 2f",
                    "ret",
                    "2:",
                    "mov rdi, rax",
                    "jmp {failed}",
                    before = sym forks::before_vfork,
                    failed = sym vfork_failed,
                    number = const libc::SYS_vfork,
                );
            }
        )*
    };
}

vfork!(vfork, __vfork);
