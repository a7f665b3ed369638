//! The thread's slot, found in three loads: plain words in the initial-exec thread-local segment.
//!
//! `thread_local!` in a shared object costs a call of `__tls_get_addr` per use, twice in a read. These words are zero
//! at first and have no destructor, so a signal handler may read them too.

use crate::session::layout::ThreadSlot;
use crate::session::robust_list::{self, RobustList};
use std::arch::{asm, global_asm};
use std::cell::Cell;

/// The slot that the thread used last.
#[repr(C)]
pub(crate) struct Current {
    /// [`crate::Volume`]'s era; never 0 for a real one.
    era: Cell<u64>,
    slot: Cell<*const ThreadSlot>,
    index: Cell<usize>,
    /// The list of the locks that it holds, if locks can be taken without glibc.
    robust_list: Cell<Option<&'static RobustList>>,
    /// Its kernel id.
    thread: Cell<u32>,
}

global_asm!(
    ".pushsection .tbss.egeria_fs_current,\"awT\",@nobits",
    ".p2align 5",
    ".globl egeria_fs_current",
    ".hidden egeria_fs_current",
    ".type egeria_fs_current,@object",
    ".size egeria_fs_current,{bytes}",
    "egeria_fs_current:",
    ".zero {bytes}",
    ".popsection",
    bytes = const size_of::<Current>(),
);

/// The calling thread's words, valid while it lives.
#[inline(always)]
fn words() -> &'static Current {
    let address: *const Current;
    // SAFETY: the address is a constant of the thread, of words that are zeroed before it runs. No other thread gets a
    // reference: they are `Cell`s.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + egeria_fs_current@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(pure, nomem, nostack)
        );
        &*address
    }
}

/// The slot the thread holds in this era of a volume, if it is the last used one.
#[inline(always)]
pub(crate) fn get(era: u64) -> Option<(*const ThreadSlot, usize)> {
    let current = words();
    (current.era.get() == era).then(|| (current.slot.get(), current.index.get()))
}

/// What locks of the thread are taken with, once it has a slot: its list, and its kernel id.
#[inline(always)]
pub(crate) fn robust_list() -> Option<(&'static RobustList, u32)> {
    let current = words();
    let list = current.robust_list.get()?;
    Some((list, current.thread.get()))
}

/// Note the slot for this era.
pub(crate) fn set(era: u64, slot: &ThreadSlot, index: usize) {
    let current = words();
    // A signal handler between the stores finds no era, but never a wrong slot.
    current.era.set(0);
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    current.slot.set(slot);
    current.index.set(index);
    current.robust_list.set(robust_list::of_this_thread());
    let thread = slot.thread_id.load(std::sync::atomic::Ordering::Relaxed);
    current.thread.set(thread as u32);
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    current.era.set(era);
}

/// The thread holds no slot any more.
pub(crate) fn forget() {
    let current = words();
    current.era.set(0);
    current.robust_list.set(None);
}
