//! Installs the fault handler in front of the existing one, and calls that one as the kernel would.

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t};

/// The earlier handlers for SIGSEGV and SIGBUS. Never freed, because a handler may be reading one at any time. Null is
/// the default action.
static BEFORE: [AtomicPtr<sigaction>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

/// Installs the handler for SIGSEGV and SIGBUS in front of what is installed now.
/// Calling it again does nothing.
///
/// # Errors
/// What `sigaction` fails with: `EINVAL`, where the kernel has no such signal.
pub fn install() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if *installed {
        return Ok(());
    }
    for (signal, before) in super::SIGNALS.into_iter().zip(&BEFORE) {
        // The earlier handler must be known before ours can run.
        before.store(
            Box::into_raw(Box::new(action_of(signal)?)),
            Ordering::Release,
        );
        // SAFETY: all-zero is a valid sigaction, completed before it is used; the earlier one is kept above.
        let answer = unsafe {
            let mut action: sigaction = zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            // Without SA_NODEFER: a fault inside the chain then ends the process, as it would without our handler.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(signal, &action, ptr::null_mut())
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    *installed = true;
    Ok(())
}

fn action_of(signal: c_int) -> io::Result<sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: only asks; on success the action is filled.
    unsafe {
        match libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) {
            0 => Ok(action.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

extern "C" fn on_fault(signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: these are the kernel's arguments; errno belongs to this thread.
    unsafe {
        if super::handle(signal, information, context) {
            return;
        }
        let errno = *libc::__errno_location();
        chain(signal, information, context);
        *libc::__errno_location() = errno;
    }
}

/// Does what the kernel would have done without our handler.
///
/// # Safety
/// From a signal handler, with its arguments.
unsafe fn chain(signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    let index = usize::from(signal != libc::SIGSEGV);
    let before = BEFORE[index].load(Ordering::Acquire);
    // SAFETY: information is the kernel's; `before` is null or a leaked action.
    unsafe {
        let sent = (*information).si_code <= 0;
        match before.as_ref().map(|action| (action.sa_sigaction, action)) {
            // The kernel never ignores a fault the thread itself caused.
            Some((libc::SIG_IGN, _)) if sent => {}
            None | Some((libc::SIG_DFL | libc::SIG_IGN, _)) => {
                reset_to_default(signal);
                if sent {
                    // Pending until we return; then the default action.
                    libc::raise(signal);
                }
                // Otherwise the instruction runs again and faults fatally.
            }
            Some((_, action)) => call(action, signal, information, context),
        }
    }
}

/// Calls an earlier handler with the signal mask, arguments and reset it asked for.
///
/// # Safety
/// From a signal handler, with its arguments; `action` holds a handler.
unsafe fn call(
    action: &sigaction,
    signal: c_int,
    information: *mut siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the handler's type follows from its flags; masks are this thread's.
    // Returning from our handler restores the mask from before the signal.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &action.sa_mask, ptr::null_mut());
        if action.sa_flags & libc::SA_NODEFER != 0 {
            let mut own: libc::sigset_t = zeroed();
            libc::sigaddset(&mut own, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &own, ptr::null_mut());
        }
        if action.sa_flags & libc::SA_RESETHAND != 0 {
            BEFORE[usize::from(signal != libc::SIGSEGV)].store(ptr::null_mut(), Ordering::Release);
        }
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
            std::mem::transmute::<usize, Handler>(action.sa_sigaction)(
                signal,
                information,
                context,
            );
        } else {
            type Handler = extern "C" fn(c_int);
            std::mem::transmute::<usize, Handler>(action.sa_sigaction)(signal);
        }
    }
}

/// Bypasses libc: its `signal` and `sigaction` may be interposed by the library that contains this code.
fn reset_to_default(signal: c_int) {
    // The kernel's own sigaction on x86-64: handler, flags, restorer, mask; zeros are SIG_DFL.
    let default = [0usize; 4];
    // SAFETY: the kernel reads 32 bytes and a mask of 8 bytes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            default.as_ptr(),
            ptr::null_mut::<usize>(),
            8,
        )
    };
}
