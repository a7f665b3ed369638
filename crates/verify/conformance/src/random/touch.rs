//! Loads and stores that may fault: the answer is how far they came, and the signal that ended them.

use crate::mapping::Map;
use libc::{REG_RIP, SIGBUS, SIGSEGV, c_int, c_void, siginfo_t, ucontext_t};
use std::arch::asm;
use std::cell::Cell;
use std::mem;
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

thread_local! {
    /// Whether this thread is in [`copy`].
    static IS_COPYING: Cell<bool> = const { Cell::new(false) };
    /// The signal that ended it.
    static SIGNAL: Cell<c_int> = const { Cell::new(0) };
}

/// `rep movsb`, as it is in memory.
const REPEATED_MOVE: u16 = 0xa4f3;

extern "C" fn end_the_copy(signal: c_int, _: *mut siginfo_t, context: *mut c_void) {
    let context: *mut ucontext_t = context.cast();
    // SAFETY: the kernel passes the registers of the interrupted thread; where it executed can be read.
    unsafe {
        let next = &mut (*context).uc_mcontext.gregs[REG_RIP as usize];
        let code: *const u16 = ptr::with_exposed_provenance(*next as usize);
        if IS_COPYING.get() && code.read_unaligned() == REPEATED_MOVE {
            SIGNAL.set(signal);
            *next += 2;
        } else {
            // Not ours: the same instruction ends the process when it is tried again.
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// From now on a fault in [`copy`] ends the copy, not the process.
pub fn survive_faults() {
    // SAFETY: an action of zeros is a valid one; the handler changes nothing but its own thread.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = end_the_copy as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        for signal in [SIGBUS, SIGSEGV] {
            assert_eq!(
                libc::sigaction(signal, &raw const action, ptr::null_mut()),
                0
            );
        }
    }
}

/// Load from a mapping into `data`, or store `data` there, byte by byte: how many were copied, and the signal that ended
/// it early, else 0. Before it, [`survive_faults`] was called.
pub fn copy(map: &Map, at: usize, data: &mut [u8], stores: bool) -> (usize, c_int) {
    let there: *mut u8 = ptr::with_exposed_provenance_mut(map.address(at));
    let bytes = data.len();
    assert!(bytes <= map.bytes() - at);
    let (to, from) = if stores {
        (there, data.as_mut_ptr())
    } else {
        (data.as_mut_ptr(), there)
    };
    SIGNAL.set(0);
    IS_COPYING.set(true);
    compiler_fence(Ordering::SeqCst);
    let left: usize;
    // SAFETY: inside of the buffer and of the mapping, into which nobody has references; a fault goes on behind the
    // instruction, with what is left in `rcx`.
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => left, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    compiler_fence(Ordering::SeqCst);
    IS_COPYING.set(false);
    (bytes - left, SIGNAL.get())
}

/// A system call that no library sees, addresses as numbers. Inlined, so that its number can be read off the code.
#[inline(always)]
pub fn past_libraries(number: i64, arguments: [usize; 4]) -> i64 {
    let [a, b, c, d] = arguments;
    let answer;
    // SAFETY: the kernel keeps all registers but these; buffers live and have the sizes passed.
    unsafe {
        asm!("syscall", inlateout("rax") number => answer, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}
