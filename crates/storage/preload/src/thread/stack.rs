//! Memory of our own that the library's calls run on: a thread of the program, or a handler on an alternate stack, may
//! have room for little more than the kernel's own call.
//!
//! ```text
//! inside: handlers wait ─ switch ─ the engine ─ switch back ─ leave: handlers run, on the program's stack
//! ```
//! So nothing of the program runs on this memory: no handler, no jump out of one, no cancellation, no fork. A panic ends
//! before the switch back and goes on after it.
//!
//! The kernel puts a handler's frame at the start of the alternate stack unless the stack pointer is within it. Where the
//! call itself comes from a handler there, that would overwrite the frames of that handler. Such calls have no alternate
//! stack, and block what can be blocked.

use crate::sync::Locked;
use crate::system::zeros::zeros;
use crate::system::{raw, thread_end, valgrind};
use libc::c_void;
use std::any::Any;
use std::arch::{asm, naked_asm};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// The engine needs 32 KiB for an attach; a frame of a signal, some 11 KiB on processors with large registers. Pages that
/// nothing has touched cost nothing.
const BYTES: usize = 256 << 10;
const GUARD_BYTES: usize = 4096;
/// What a fault raises must come.
const ALL_BUT_FAULTS: u64 = !(1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1));
const SET_BYTES: usize = size_of::<u64>();

/// Those that no thread has: the top word of each holds the top of the next.
struct Free(*mut u8);

// SAFETY: memory that no thread uses.
unsafe impl Send for Free {}

static FREE: Locked<Free> = Locked::new(Free(null_mut()));

/// What a thread knows of its stacks. All zero at first.
#[repr(C)]
pub struct Stacks {
    /// Where calls of the library begin; null until the first.
    top: AtomicPtr<u8>,
    /// The program's alternate stack.
    alternate: AtomicUsize,
    alternate_bytes: AtomicUsize,
    /// The thread holds the list of free ones, for a fork.
    holds_list: AtomicBool,
}

/// A function to run, and what comes of it: a value, or the panic that ended it.
struct Work<F, T> {
    body: ManuallyDrop<F>,
    value: MaybeUninit<T>,
    panic: Option<Box<dyn Any + Send>>,
}

/// Run `work`, a `Work<F, T>`, on the stack that ends at `top`, which is aligned to 16 bytes; on this one where it is null.
/// One function for each kind of work, so that it calls `run_work` directly: an indirect call that all share would be
/// predicted badly.
#[unsafe(naked)]
unsafe extern "C" fn run_on<F: FnOnce() -> T, T>(work: *mut c_void, top: *mut u8) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        // The frame is aligned: with no other stack it goes on here.
        "test rsi, rsi",
        "cmovz rsi, rsp",
        "mov rsp, rsi",
        "call {run}",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        run = sym run_work::<F, T>,
    )
}

/// On the other stack. What `body` holds and what it answers are not copied on the way: copies of what was just written
/// word by word wait until it is stored.
unsafe extern "C" fn run_work<F: FnOnce() -> T, T>(work: *mut c_void) {
    // SAFETY: `on` gives its own work, which waits for the end of this.
    let work = unsafe { &mut *work.cast::<Work<F, T>>() };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: taken once, for `on` has it run once.
        let body = unsafe { ManuallyDrop::take(&mut work.body) };
        work.value.write(body());
    }));
    if let Err(panic) = outcome {
        work.panic = Some(panic);
    }
}

/// Run `body` on the stack that ends at `top`, which nothing else uses, or on this one. What it needs is not part of the
/// caller's frame.
#[inline(always)]
fn on<F: FnOnce() -> T, T>(top: *mut u8, body: F) -> std::thread::Result<T> {
    let mut work = Work {
        body: ManuallyDrop::new(body),
        value: MaybeUninit::uninit(),
        panic: None,
    };
    let place = (&raw mut work).cast();
    // SAFETY: null, or the memory below `top` is this thread's alone, and nothing of it is in use; `run_work` does not
    // unwind.
    unsafe { run_on::<F, T>(place, top) };
    match work.panic {
        // SAFETY: `run_work` has returned, and wrote it where it notes no panic.
        None => Ok(unsafe { work.value.assume_init() }),
        Some(panic) => Err(panic),
    }
}

#[inline(always)]
fn stack_pointer() -> usize {
    let here: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags)) };
    here
}

impl Stacks {
    /// Run `body` on the thread's own memory; on the caller's stack where there is none to be had. A panic of it is the
    /// error. By its thread, which is inside and was not before.
    #[inline(always)]
    pub fn try_run<T>(&self, body: impl FnOnce() -> T) -> std::thread::Result<T> {
        let mut top = self.top.load(Ordering::Relaxed);
        if top.is_null() {
            top = self.take();
        }
        let into_alternate = stack_pointer().wrapping_sub(self.alternate.load(Ordering::Relaxed));
        if into_alternate < self.alternate_bytes.load(Ordering::Relaxed) {
            without_alternate(|| on(top, || disarmed(body)))
        } else {
            on(top, body)
        }
    }

    /// The same; a panic goes on in the caller.
    #[inline(always)]
    pub fn run<T>(&self, body: impl FnOnce() -> T) -> T {
        self.try_run(body)
            .unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Run `body` on this stack, in a frame of its own.
    #[inline(always)]
    pub fn run_here<T>(body: impl FnOnce() -> T) -> T {
        on(null_mut(), body).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The program has changed its alternate stack.
    pub fn note_alternate(&self) {
        let mut stack: libc::stack_t = zeros();
        raw::sigaltstack(null(), &raw mut stack);
        let bytes = match stack.ss_flags & libc::SS_DISABLE {
            0 => stack.ss_size,
            _ => 0,
        };
        self.alternate
            .store(stack.ss_sp as usize, Ordering::Relaxed);
        self.alternate_bytes.store(bytes, Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn take(&self) -> *mut u8 {
        if self.holds_list.load(Ordering::Relaxed) || !thread_end::report() {
            return null_mut();
        }
        let free = FREE.with(|free| {
            let top = free.0;
            if !top.is_null() {
                // SAFETY: a free one, whose top word names the next.
                free.0 = unsafe { *next_of(top) };
            }
            top
        });
        let top = if free.is_null() {
            make().unwrap_or(null_mut())
        } else {
            free
        };
        self.top.store(top, Ordering::Relaxed);
        top
    }

    /// Hold those that no thread has still across a fork.
    pub fn hold_list(&self) {
        FREE.take();
        self.holds_list.store(true, Ordering::Relaxed);
    }

    /// Let them go again in the parent.
    pub fn release_list(&self) {
        self.holds_list.store(false, Ordering::Relaxed);
        FREE.give();
    }

    /// In a fork child: the list may have been half changed, and those of other threads are lost.
    pub fn reset_list_in_child(&self) {
        FREE.reset();
        FREE.with(|free| free.0 = null_mut());
        self.holds_list.store(false, Ordering::Relaxed);
    }

    /// The thread ends. It is inside, on another stack.
    pub fn give_back(&self) {
        let top = self.top.swap(null_mut(), Ordering::Relaxed);
        if !top.is_null() {
            FREE.with(|free| {
                // SAFETY: its own until now, and mapped for ever.
                unsafe { *next_of(top) = free.0 };
                free.0 = top;
            });
        }
    }
}

fn next_of(top: *mut u8) -> *mut *mut u8 {
    top.wrapping_sub(size_of::<*mut u8>()).cast()
}

fn make() -> Option<*mut u8> {
    let start = raw::map(BYTES)?;
    raw::mprotect(start, GUARD_BYTES, libc::PROT_NONE);
    valgrind::note_stack(start as usize, start as usize + BYTES);
    Some(start.wrapping_add(BYTES))
}

/// Run `body` while no handler comes but for a fault.
#[cold]
fn without_alternate<T>(body: impl FnOnce() -> T) -> T {
    let mut before = 0;
    raw::signal_mask(libc::SIG_BLOCK, &ALL_BUT_FAULTS, &raw mut before, SET_BYTES);
    let outcome = body();
    // What `body` opened stays open.
    let added = ALL_BUT_FAULTS & !before;
    raw::signal_mask(libc::SIG_UNBLOCK, &added, null_mut(), SET_BYTES);
    outcome
}

/// Run `body` without an alternate stack. Not by a thread that is on it.
fn disarmed<T>(body: impl FnOnce() -> T) -> T {
    let mut stack: libc::stack_t = zeros();
    let none = libc::stack_t {
        ss_sp: null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    };
    let is_off = raw::sigaltstack(&raw const none, &raw mut stack) == 0;
    let outcome = catch_unwind(AssertUnwindSafe(body));
    if is_off {
        raw::sigaltstack(&raw const stack, null_mut());
    }
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}
