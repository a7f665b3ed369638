//! What the program asked to be done with each signal, and the doing.

use super::{OF_LIBC, SET_BYTES, bit, stops, trampoline};
use crate::lock::Lock;
use crate::process;
use crate::thread::{self, Thread};
use crate::{raw, real};
use libc::{c_int, c_void, sigaction, siginfo_t};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const SIGNALS: usize = 65;
/// What libc adds to the flags it tells.
const SA_RESTORER: c_int = 0x0400_0000;

/// The program's view, for its queries; guarded by `LOCK`.
struct Asked(UnsafeCell<[sigaction; SIGNALS]>);

// SAFETY: touched only under `LOCK`.
unsafe impl Sync for Asked {}

// SAFETY: all-zero is a valid sigaction: SIG_DFL, nothing masked.
static ASKED: Asked = Asked(UnsafeCell::new(unsafe { std::mem::zeroed() }));
static LOCK: Lock = Lock::new();
/// The same, for the trampoline: handler, and whether it is good for one signal only.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static ONCE: AtomicU64 = AtomicU64::new(0);
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);
static TAKEN_OVER: AtomicBool = AtomicBool::new(false);

/// Whether a signal is one whose handler goes through the trampoline.
fn is_wrapped(signal: c_int) -> bool {
    (1..SIGNALS as c_int).contains(&signal)
        && !OF_LIBC.contains(&signal)
        && signal != libc::SIGKILL
        && signal != libc::SIGSTOP
}

fn is_fault(signal: c_int) -> bool {
    egeria_media::guard::SIGNALS.contains(&signal)
}

/// Put the trampoline between the kernel and every handler that is there. Once; false on refusal.
pub fn take_over() -> bool {
    LOCK.with(|| {
        if TAKEN_OVER.load(Ordering::Relaxed) {
            return true;
        }
        for signal in (1..SIGNALS as c_int).filter(|&signal| is_wrapped(signal)) {
            // SAFETY: all-zero is valid, and the kernel fills it.
            let mut action: sigaction = unsafe { std::mem::zeroed() };
            if real::sigaction(signal, std::ptr::null(), &raw mut action) < 0 {
                return false;
            }
            if is_plain(&action) && !is_fault(signal) {
                remember(signal, &action);
            } else if !install(signal, &action) {
                return false;
            }
        }
        TAKEN_OVER.store(true, Ordering::Release);
        true
    })
}

/// Whether the kernel does what is asked for itself.
fn is_plain(action: &sigaction) -> bool {
    [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction)
}

/// The library leaves: the kernel knows the program's handlers again, and the caller's mask is what the
/// program made it.
pub fn give_back(thread: &Thread) {
    let was_ours = LOCK.with(|| {
        let was_ours = TAKEN_OVER.swap(false, Ordering::AcqRel);
        stops::forget();
        let wrapped = (1..SIGNALS as c_int).filter(|&signal| was_ours && is_wrapped(signal));
        wrapped.for_each(give_back_one);
        was_ours
    });
    if was_ours {
        super::masks::close_faults(thread);
    }
}

/// Under the lock.
fn give_back_one(signal: c_int) {
    // SAFETY: all-zero is valid, and the kernel fills it.
    let mut action: sigaction = unsafe { std::mem::zeroed() };
    let known = real::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
    if known && action.sa_sigaction == trampoline as *const () as usize {
        // SAFETY: under the lock.
        let asked = unsafe { &(*ASKED.0.get())[signal as usize] };
        real::sigaction(signal, asked, std::ptr::null_mut());
    }
}

/// Whether faults come to the trampoline.
pub fn has_taken_over() -> bool {
    TAKEN_OVER.load(Ordering::Acquire)
}

/// Under the lock: remember what the program wants, tell the kernel what we want.
fn install(signal: c_int, wanted: &sigaction) -> bool {
    HANDLERS[signal as usize].store(wanted.sa_sigaction, Ordering::Release);
    if wanted.sa_flags & libc::SA_RESETHAND != 0 {
        ONCE.fetch_or(bit(signal), Ordering::Relaxed);
    } else {
        ONCE.fetch_and(!bit(signal), Ordering::Relaxed);
    }
    let mut action = *wanted;
    if !is_plain(wanted) || is_fault(signal) {
        action.sa_sigaction = trampoline as *const () as usize;
        action.sa_flags = (wanted.sa_flags & !libc::SA_RESETHAND) | libc::SA_SIGINFO;
    }
    if is_plain(wanted) && is_fault(signal) {
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    }
    if real::sigaction(signal, &raw const action, std::ptr::null_mut()) < 0 {
        return false;
    }
    remember(signal, wanted);
    true
}

/// Under the lock: what the program's queries are answered with.
fn remember(signal: c_int, wanted: &sigaction) {
    HANDLERS[signal as usize].store(wanted.sa_sigaction, Ordering::Release);
    // SAFETY: under the lock.
    unsafe {
        let asked = &mut (*ASKED.0.get())[signal as usize];
        *asked = *wanted;
        asked.sa_flags |= SA_RESTORER;
    }
}

/// Whether the program wants the default action.
pub fn is_left_to_the_kernel(signal: c_int) -> bool {
    HANDLERS[signal as usize].load(Ordering::Acquire) == libc::SIG_DFL
}

/// Have those of these signals that the program left to the kernel come to the trampoline, or not any more.
/// The caller is inside.
pub fn catch(signals: &[c_int], wanted: bool) {
    // SAFETY: all-zero is SIG_DFL.
    let mut action: sigaction = unsafe { std::mem::zeroed() };
    if wanted {
        action.sa_sigaction = trampoline as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: a set of ours. A SIGCONT that comes while the handler runs must be seen.
        unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    }
    // To leave SIGCONT to the kernel loses one that the program blocked, and may wait for.
    let is_kept = |signal| !wanted && signal == libc::SIGCONT && stops::is_over();
    LOCK.with(|| {
        for &signal in signals {
            if is_left_to_the_kernel(signal) && has_taken_over() && !is_kept(signal) {
                real::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    });
}

/// `sigaction` of the program. `None`: let libc do it.
pub fn hook_action(signal: c_int, new: *const sigaction, old: *mut sigaction) -> Option<c_int> {
    if !is_wrapped(signal) || !TAKEN_OVER.load(Ordering::Acquire) {
        return None;
    }
    let current = thread::current();
    if current.has(thread::INSIDE) {
        // The engine, which wants to hear of faults: it does, through the trampoline.
        if !old.is_null() {
            // SAFETY: the caller's pointer, as libc would use it; all-zero is SIG_DFL.
            unsafe { old.write(std::mem::zeroed()) };
        }
        return is_fault(signal).then_some(0);
    }
    if current.has(thread::VFORK) && process::in_vfork_child(current) {
        return Some(in_vfork_child(signal, new, old));
    }
    // SAFETY: the caller's pointers, as libc would use them.
    let wanted = unsafe { new.as_ref() }.copied();
    let (before, done) = thread::inside(|| {
        LOCK.with(|| {
            // SAFETY: under the lock.
            let before = unsafe { (*ASKED.0.get())[signal as usize] };
            let install = || wanted.is_none_or(|wanted| install(signal, &wanted));
            has_taken_over().then(|| (before, install()))
        })
    })?;
    if !done {
        return Some(-1);
    }
    // SAFETY: as above.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = before;
    }
    Some(0)
}

/// The child has dispositions of its own, but the parent's tables: those stay as they are.
fn in_vfork_child(signal: c_int, new: *const sigaction, old: *mut sigaction) -> c_int {
    let answer = real::sigaction(signal, new, old);
    // SAFETY: the caller's pointer, as libc used it; the parent, which owns the table, is stopped.
    unsafe {
        if answer == 0
            && let Some(old) = old.as_mut()
            && old.sa_sigaction == trampoline as *const () as usize
        {
            *old = (*ASKED.0.get())[signal as usize];
        }
    }
    answer
}

/// `siginterrupt` of the program, kept for `signal`; whether calls are to be interrupted.
pub fn interrupting(signal: c_int, change: Option<bool>) -> bool {
    if !is_wrapped(signal) {
        return false;
    }
    match change {
        Some(true) => INTERRUPTING.fetch_or(bit(signal), Ordering::Relaxed),
        Some(false) => INTERRUPTING.fetch_and(!bit(signal), Ordering::Relaxed),
        None => 0,
    };
    INTERRUPTING.load(Ordering::Relaxed) & bit(signal) != 0
}

/// Do what the program asked for.
pub fn deliver(
    thread: &Thread,
    signal: c_int,
    information: *mut siginfo_t,
    context: *mut c_void,
    raised: bool,
) {
    let handler = HANDLERS[signal as usize].load(Ordering::Acquire);
    if handler == libc::SIG_IGN && !raised {
        return;
    }
    if stops::is_stop(signal) {
        return stops::stop(signal);
    }
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        return die(signal, raised);
    }
    if raised && thread.believed_mask.load(Ordering::Relaxed) & bit(signal) != 0 {
        // The program blocked it: the kernel would have killed the process.
        return die(signal, raised);
    }
    if ONCE.fetch_and(!bit(signal), Ordering::Relaxed) & bit(signal) != 0 {
        reset(signal);
    }
    // SAFETY: the program's handler; one that takes one argument ignores the others.
    let handler: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
        unsafe { std::mem::transmute(handler) };
    thread.handler_depth.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as above, with the kernel's arguments.
    unsafe { handler(signal, information, context) };
    thread.handler_depth.fetch_sub(1, Ordering::Relaxed);
}

/// A handler for one signal was used up.
fn reset(signal: c_int) {
    thread::inside(|| {
        LOCK.with(|| {
            // SAFETY: all-zero is SIG_DFL.
            let default: sigaction = unsafe { std::mem::zeroed() };
            match has_taken_over() {
                true => _ = install(signal, &default),
                false => _ = real::sigaction(signal, &raw const default, std::ptr::null_mut()),
            }
        });
    });
}

/// The default action. A raised fault comes again when the handler returns; a sent signal is sent
/// again, and delivered when it does.
fn die(signal: c_int, raised: bool) {
    // SAFETY: all-zero is SIG_DFL.
    let default: sigaction = unsafe { std::mem::zeroed() };
    real::sigaction(signal, &raw const default, std::ptr::null_mut());
    if !raised {
        raw::tgkill(raw::getpid(), raw::gettid(), signal);
        let set = bit(signal);
        raw::signal_mask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut(), SET_BYTES);
    }
}
