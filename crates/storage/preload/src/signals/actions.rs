//! What the program asked to be done with each signal, and the doing.

use super::sets::{self, OF_LIBC, bit, is_over};
use crate::sync::Locked;
use crate::system::{caller, real};
use crate::thread::{self, process};
use libc::{c_int, c_void, sigaction, siginfo_t};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const SIGNALS: usize = 65;
/// What libc adds to the flags it tells.
const SA_RESTORER: c_int = 0x0400_0000;

/// The program's view, for its queries.
type Asked = [sigaction; SIGNALS];

static ASKED: Locked<Asked> = Locked::new([sets::default_action(); SIGNALS]);
/// The same, for the trampoline: handler, and whether it is good for one signal only.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static ONCE: AtomicU64 = AtomicU64::new(0);
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);
static TAKEN_OVER: AtomicBool = AtomicBool::new(false);
/// The trampoline's address, from before it is first used.
static TRAMPOLINE: AtomicUsize = AtomicUsize::new(0);

fn trampoline() -> usize {
    TRAMPOLINE.load(Ordering::Relaxed)
}

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

/// The handler that the kernel is given in place of the program's.
pub type Trampoline = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// Put the trampoline between the kernel and every handler that is there. Once; false on refusal.
pub fn take_over(trampoline: Trampoline) -> bool {
    ASKED.with(|asked| {
        if TAKEN_OVER.load(Ordering::Relaxed) {
            return true;
        }
        TRAMPOLINE.store(trampoline as *const () as usize, Ordering::Relaxed);
        for signal in (1..SIGNALS as c_int).filter(|&signal| is_wrapped(signal)) {
            let mut action = sets::default_action();
            if real::sigaction(signal, std::ptr::null(), &raw mut action) < 0 {
                return false;
            }
            if is_plain(&action) && !is_fault(signal) {
                remember(asked, signal, &action);
            } else if !install(asked, signal, &action) {
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

/// The kernel knows the program's handlers again; `forget` runs under the lock. Whether ours were there.
pub fn give_back(forget: impl FnOnce()) -> bool {
    ASKED.with(|asked| {
        let was_ours = TAKEN_OVER.swap(false, Ordering::AcqRel);
        forget();
        let wrapped = (1..SIGNALS as c_int).filter(|&signal| was_ours && is_wrapped(signal));
        wrapped.for_each(|signal| give_back_one(asked, signal));
        was_ours
    })
}

/// Under the lock.
fn give_back_one(asked: &Asked, signal: c_int) {
    let mut action = sets::default_action();
    let known = real::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
    if known && action.sa_sigaction == trampoline() {
        let asked = &raw const asked[signal as usize];
        real::sigaction(signal, asked, std::ptr::null_mut());
    }
}

/// Whether faults come to the trampoline.
pub fn has_taken_over() -> bool {
    TAKEN_OVER.load(Ordering::Acquire)
}

/// Under the lock: remember what the program wants, tell the kernel what we want.
fn install(asked: &mut Asked, signal: c_int, wanted: &sigaction) -> bool {
    HANDLERS[signal as usize].store(wanted.sa_sigaction, Ordering::Release);
    if wanted.sa_flags & libc::SA_RESETHAND != 0 {
        ONCE.fetch_or(bit(signal), Ordering::Relaxed);
    } else {
        ONCE.fetch_and(!bit(signal), Ordering::Relaxed);
    }
    let mut action = *wanted;
    if !is_plain(wanted) || is_fault(signal) {
        action.sa_sigaction = trampoline();
        action.sa_flags = (wanted.sa_flags & !libc::SA_RESETHAND) | libc::SA_SIGINFO;
    }
    if is_plain(wanted) && is_fault(signal) {
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    }
    if real::sigaction(signal, &raw const action, std::ptr::null_mut()) < 0 {
        return false;
    }
    remember(asked, signal, wanted);
    true
}

/// Under the lock: what the program's queries are answered with.
fn remember(asked: &mut Asked, signal: c_int, wanted: &sigaction) {
    HANDLERS[signal as usize].store(wanted.sa_sigaction, Ordering::Release);
    let asked = &mut asked[signal as usize];
    *asked = *wanted;
    asked.sa_flags |= SA_RESTORER;
}

/// Whether the program wants the default action.
pub fn is_left_to_the_kernel(signal: c_int) -> bool {
    handler(signal) == libc::SIG_DFL
}

/// Have those of these signals that the program left to the kernel come to the trampoline, or not any more.
/// The caller is inside.
pub fn catch(signals: &[c_int], wanted: bool) {
    let mut action = sets::default_action();
    if wanted {
        action.sa_sigaction = trampoline();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: a set of ours. A SIGCONT that comes while the handler runs must be seen.
        unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    }
    // To leave SIGCONT to the kernel loses one that the program blocked, and may wait for.
    let is_kept = |signal| !wanted && signal == libc::SIGCONT && is_over();
    ASKED.with(|_| {
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
        caller::write(old, sets::default_action());
        return is_fault(signal).then_some(0);
    }
    if current.has(thread::VFORK) && process::in_vfork_child(current) {
        return Some(in_vfork_child(signal, new, old));
    }
    let wanted = caller::read(new);
    let (before, done) = thread::inside(|| {
        ASKED.with(|asked| {
            let before = asked[signal as usize];
            let mut install = || wanted.is_none_or(|wanted| install(asked, signal, &wanted));
            has_taken_over().then(|| (before, install()))
        })
    })?;
    if !done {
        return Some(-1);
    }
    caller::write(old, before);
    Some(0)
}

/// The child has dispositions of its own, but the parent's tables: those stay as they are.
fn in_vfork_child(signal: c_int, new: *const sigaction, old: *mut sigaction) -> c_int {
    let answer = real::sigaction(signal, new, old);
    // SAFETY: null or given to be written, as libc just did; the parent, which owns the table, is stopped.
    unsafe {
        if answer == 0
            && let Some(old) = old.as_mut()
            && old.sa_sigaction == trampoline()
        {
            *old = ASKED.peek()[signal as usize];
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

/// What the program wants for a signal: the address of its handler, or `SIG_DFL` or `SIG_IGN`.
pub fn handler(signal: c_int) -> usize {
    HANDLERS[signal as usize].load(Ordering::Acquire)
}

/// Whether the handler was good for one signal only, and this is it.
pub fn is_used_up(signal: c_int) -> bool {
    ONCE.fetch_and(!bit(signal), Ordering::Relaxed) & bit(signal) != 0
}

/// A handler for one signal was used up.
pub fn reset(signal: c_int) {
    thread::inside(|| {
        ASKED.with(|asked| {
            let default = sets::default_action();
            if has_taken_over() {
                _ = install(asked, signal, &default)
            } else {
                _ = real::sigaction(signal, &raw const default, std::ptr::null_mut())
            }
        });
    });
}
