//! Numbers that stand for files the kernel has not opened: copies of one descriptor, which no call can read, write or
//! change anything by. Its file is empty, sealed, of mode 0, and nobody else's; it is open as `O_PATH`.
//!
//! A copy costs a quarter of an open. The descriptor itself has a high number, which programs rarely reach; they may close
//! it.

use crate::libc_threads;
use crate::raw;
use libc::c_int;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

const NONE: c_int = -1;
/// Where it is looked for a free number, below the usual limit of 1024.
const FIRST: usize = 1000;
/// As many at the end of the kernel's table are tried.
const LAST: usize = 4;
const SEALS: c_int =
    libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;

/// The number of the descriptor to copy.
static ORIGINAL: AtomicI32 = AtomicI32::new(NONE);
/// It stands for a file itself.
static IS_LENT: AtomicBool = AtomicBool::new(false);

/// The lowest free number, closed by `exec` when the flags say so; `None` when the kernel is to open the file.
pub fn make(flags: c_int) -> Option<c_int> {
    let command = match flags & libc::O_CLOEXEC {
        0 => libc::F_DUPFD,
        _ => libc::F_DUPFD_CLOEXEC,
    };
    let original = match ORIGINAL.load(Ordering::Relaxed) {
        NONE => prepare(NONE)?,
        original => original,
    };
    match raw::fcntl(original, command, 0) as c_int {
        made @ 0.. => Some(made),
        // Closed by a bare system call.
        failed if failed == -libc::EBADF => number(raw::fcntl(prepare(original)?, command, 0)),
        failed if failed == -libc::EMFILE => lend(original, flags),
        _ => None,
    }
}

fn number(answer: isize) -> Option<c_int> {
    c_int::try_from(answer).ok().filter(|fd| *fd >= 0)
}

#[cold]
fn prepare(before: c_int) -> Option<c_int> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | libc::MFD_NOEXEC_SEAL;
    let file = number(raw::memfd_create(c"egeria-placeholder".as_ptr(), flags))?;
    let copied = copy_high(file);
    raw::close(file);
    let original = copied?;
    let stored = ORIGINAL.compare_exchange(before, original, Ordering::Relaxed, Ordering::Relaxed);
    match stored {
        Ok(_) => {
            IS_LENT.store(false, Ordering::Relaxed);
            Some(original)
        }
        Err(of_another_thread) => {
            raw::close(original);
            (of_another_thread != NONE).then_some(of_another_thread)
        }
    }
}

fn copy_high(file: c_int) -> Option<c_int> {
    let is_closed =
        raw::fcntl(file, libc::F_ADD_SEALS, SEALS as usize) >= 0 && raw::fchmod(file, 0) >= 0;
    if !is_closed {
        return None;
    }
    let mut path = [0; 40];
    write!(&mut path[..], "/proc/thread-self/fd/{file}\0").ok()?;
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    let opened = number(raw::openat(libc::AT_FDCWD, path.as_ptr().cast(), flags, 0))?;
    let is_it = raw::facts_of(opened)
        .zip(raw::facts_of(file))
        .is_some_and(|(one, other)| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino));
    let copied = is_it.then(|| number(raw::fcntl(opened, libc::F_DUPFD_CLOEXEC, first_number())));
    raw::close(opened);
    copied.flatten()
}

/// Where it is looked for a free number. With several threads the kernel waits for an RCU grace period (milliseconds) before
/// it makes its table longer: then a number at the end of the table is taken.
fn first_number() -> usize {
    let first = limit().map_or(FIRST, |limit| FIRST.min(limit.saturating_sub(1) as usize));
    if libc_threads::alone() {
        return first;
    }
    table_length().map_or(first, |length| first.min(length.saturating_sub(LAST)))
}

/// How many numbers the kernel's table has room for.
fn table_length() -> Option<usize> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let path = c"/proc/thread-self/status";
    let status = number(raw::openat(libc::AT_FDCWD, path.as_ptr(), flags, 0))?;
    // The line is among the first.
    let mut text = [0; 1024];
    let read = raw::read(status, text.as_mut_ptr().cast(), text.len());
    raw::close(status);
    let text = text.get(..usize::try_from(read).ok()?)?;
    let mut lines = text.split(|byte| *byte == b'\n');
    let length = lines.find_map(|line| line.strip_prefix(b"FDSize:"))?;
    std::str::from_utf8(length).ok()?.trim().parse().ok()
}

/// Numbers are below it.
fn limit() -> Option<u64> {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let kind = libc::RLIMIT_NOFILE as c_int;
    let answer = raw::prlimit(0, kind, std::ptr::null(), &raw mut limit);
    (answer == 0).then_some(limit.rlim_cur)
}

/// The program has no other number left: it has a right to this one.
#[cold]
fn lend(original: c_int, flags: c_int) -> Option<c_int> {
    let is_within = limit().is_some_and(|limit| (original as u64) < limit);
    if !is_within || IS_LENT.swap(true, Ordering::Relaxed) {
        return None;
    }
    let flags = match flags & libc::O_CLOEXEC {
        0 => 0,
        _ => libc::FD_CLOEXEC,
    };
    raw::fcntl(original, libc::F_SETFD, flags as usize);
    Some(original)
}

/// Whether one of these numbers is that of the descriptor to copy.
#[inline]
pub fn is_among(first: c_int, last: c_int) -> bool {
    let original = ORIGINAL.load(Ordering::Relaxed);
    original != NONE && (first..=last).contains(&original)
}

/// It is closed, or means something else.
pub fn forget() {
    IS_LENT.store(false, Ordering::Relaxed);
    ORIGINAL.store(NONE, Ordering::Relaxed);
}

/// No more are made.
pub fn end() {
    let original = ORIGINAL.swap(NONE, Ordering::Relaxed);
    if original != NONE && !IS_LENT.load(Ordering::Relaxed) {
        raw::close(original);
    }
}
