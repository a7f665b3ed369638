//! What the process that started this one left to it, as it was before Rust's runtime and this program changed it. A
//! command of `egeria run` begins as if that process had started it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// Signals have numbers from 1 on; each is a bit.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);
/// Of the first three descriptors, those that were closed: the runtime opens them.
static CLOSED: AtomicU64 = AtomicU64::new(0);
static FILES_SOFT: AtomicU64 = AtomicU64::new(u64::MAX);
static FILES_HARD: AtomicU64 = AtomicU64::new(u64::MAX);

/// The runtime ignores SIGPIPE before `main`; this runs before that.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let bits = |holds: &dyn Fn(i32) -> bool| {
        let held = SIGNALS.filter(|&signal| holds(signal));
        held.fold(0, |bits, signal| bits | bit(signal))
    };
    // SAFETY: an all-zero set and an all-zero limit are valid, and the calls only fill them in.
    let (blocked, limit) = unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut blocked);
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        (blocked, limit)
    };
    IGNORED.store(bits(&is_ignored), Ordering::Relaxed);
    // SAFETY: the set was filled in above, and is only read.
    let is_blocked = |signal| unsafe { libc::sigismember(&blocked, signal) } == 1;
    BLOCKED.store(bits(&is_blocked), Ordering::Relaxed);
    // SAFETY: it asks for a flag of a number that need not be a descriptor.
    let is_closed = |number: &i32| unsafe { libc::fcntl(*number, libc::F_GETFD) } < 0;
    let closed = (0..3)
        .filter(is_closed)
        .fold(0, |bits, number| bits | 1 << number);
    CLOSED.store(closed, Ordering::Relaxed);
    FILES_SOFT.store(limit.rlim_cur, Ordering::Relaxed);
    FILES_HARD.store(limit.rlim_max, Ordering::Relaxed);
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero action is valid, and sigaction only fills it in.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The command begins with the signals, the limit on files and the closed descriptors of the caller. Its standard
/// output is not the caller's if it `is_redirected`.
pub fn pass_on(command: &mut Command, is_redirected: bool) {
    let [ignored, blocked, closed, soft, hard] =
        [&IGNORED, &BLOCKED, &CLOSED, &FILES_SOFT, &FILES_HARD]
            .map(|of| of.load(Ordering::Relaxed));
    let redirected = if is_redirected {
        1 << libc::STDOUT_FILENO
    } else {
        0
    };
    let closed = closed & !redirected;
    let begin = move || -> io::Result<()> {
        ignore_and_block(ignored, blocked)?;
        let limit = libc::rlimit {
            rlim_cur: soft,
            rlim_max: hard,
        };
        // SAFETY: the call reads a limit that lives here.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
        for number in (0..3).filter(|number| closed & 1 << number != 0) {
            // SAFETY: the child's own number, which nothing in it uses before it becomes the command.
            unsafe { libc::close(number) };
        }
        Ok(())
    };
    // SAFETY: the closure makes only calls that are allowed between fork and exec, and allocates nothing.
    unsafe { command.pre_exec(begin) };
}

/// Of the signals that are not ignored the runtime sets SIGPIPE to its default, and `exec` the others.
fn ignore_and_block(ignored: u64, blocked: u64) -> io::Result<()> {
    for signal in SIGNALS.filter(|&signal| ignored & bit(signal) != 0) {
        // SAFETY: to ignore a signal runs no code. Signals of libc's own are refused, which changes nothing.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: an all-zero set is valid, and the calls read and change it alone.
    let status = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        for signal in SIGNALS.filter(|&signal| blocked & bit(signal) != 0) {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut())
    };
    match status {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
