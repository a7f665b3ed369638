//! Numbers that stand for files the kernel has not opened: copies of a descriptor, which no call can read, write or
//! change anything by. Its file is empty, sealed, of mode 0, and nobody else's; it is open as `O_PATH`.
//!
//! A copy costs a quarter of an open. The kernel counts the copies of an open file in one word, so threads copy different
//! ones. The descriptors themselves have high numbers, which programs rarely reach; they may close them.

use crate::system::libc_threads;
use crate::system::raw::{self, number};
use crate::thread::{self, process};
use libc::c_int;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Descriptors to copy, at most.
const COUNT: usize = 4;
const NONE: c_int = -1;
/// Where it is looked for a free number, below the usual limit of 1024.
const FIRST: usize = 1000;
/// As many at the end of the kernel's table are tried.
const LAST: usize = 2 * COUNT;
const SEALS: c_int =
    libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;

/// A descriptor to copy.
struct Original {
    number: AtomicI32,
    /// It stands for a file itself.
    is_lent: AtomicBool,
}

static ORIGINALS: [Original; COUNT] = [const {
    Original {
        number: AtomicI32::new(NONE),
        is_lent: AtomicBool::new(false),
    }
}; COUNT];
/// None has a lower number.
static LOWEST: AtomicI32 = AtomicI32::new(c_int::MAX);

/// The lowest free number, closed by `exec` when the flags say so; `None` when the kernel is to open the file.
pub fn make(flags: c_int) -> Option<c_int> {
    let own = if libc_threads::alone() {
        0
    } else {
        thread::current().id(process::owner()) as usize % COUNT
    };
    match ORIGINALS[own].copy(flags) {
        Ok(made) => Some(made),
        Err(libc::EMFILE) => make_among_few(flags),
        Err(_) => None,
    }
}

/// A program that may have few numbers has room for few descriptors to copy, and in the end a right to their numbers.
#[cold]
fn make_among_few(flags: c_int) -> Option<c_int> {
    let copied = ORIGINALS.iter().map(|original| original.copy(flags));
    let mut made = copied.filter_map(Result::ok);
    made.next().or_else(|| {
        let not_lent = |original: &&Original| !original.is_lent.load(Ordering::Relaxed);
        let there = among(0, c_int::MAX).filter(not_lent);
        there
            .min_by_key(|original| original.number.load(Ordering::Relaxed))?
            .lend(flags)
    })
}

fn duplicate(original: c_int, flags: c_int) -> Result<c_int, c_int> {
    let command = match flags & libc::O_CLOEXEC {
        0 => libc::F_DUPFD,
        _ => libc::F_DUPFD_CLOEXEC,
    };
    number(raw::fcntl(original, command, 0))
}

impl Original {
    fn copy(&self, flags: c_int) -> Result<c_int, c_int> {
        let original = match self.number.load(Ordering::Relaxed) {
            NONE => self.prepare(NONE)?,
            original => original,
        };
        match duplicate(original, flags) {
            // Closed by a bare system call.
            Err(libc::EBADF) => duplicate(self.prepare(original)?, flags),
            copied => copied,
        }
    }

    #[cold]
    fn prepare(&self, before: c_int) -> Result<c_int, c_int> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | libc::MFD_NOEXEC_SEAL;
        let file = number(raw::memfd_create(c"egeria-placeholder".as_ptr(), flags))?;
        let index = ORIGINALS
            .iter()
            .position(|original| std::ptr::eq(original, self));
        let copied = copy_high(file, index.unwrap_or(0));
        raw::close(file);
        let original = copied?;
        LOWEST.fetch_min(original, Ordering::Relaxed);
        let stored =
            self.number
                .compare_exchange(before, original, Ordering::Relaxed, Ordering::Relaxed);
        match stored {
            Ok(_) => {
                self.is_lent.store(false, Ordering::Relaxed);
                Ok(original)
            }
            Err(of_another_thread) => {
                raw::close(original);
                match of_another_thread {
                    NONE => Err(libc::EBADF),
                    number => Ok(number),
                }
            }
        }
    }

    /// The program has no other number left: it has a right to this one.
    #[cold]
    fn lend(&self, flags: c_int) -> Option<c_int> {
        let number = self.number.load(Ordering::Relaxed);
        let is_within = limit().is_some_and(|limit| (number as u64) < limit);
        let is_last = duplicate(number, flags) == Err(libc::EMFILE);
        if !is_within || !is_last || self.is_lent.swap(true, Ordering::Relaxed) {
            return None;
        }
        let flags = match flags & libc::O_CLOEXEC {
            0 => 0,
            _ => libc::FD_CLOEXEC,
        };
        raw::fcntl(number, libc::F_SETFD, flags as usize);
        Some(number)
    }
}

fn copy_high(file: c_int, index: usize) -> Result<c_int, c_int> {
    number(raw::fcntl(file, libc::F_ADD_SEALS, SEALS as usize))?;
    number(raw::fchmod(file, 0))?;
    let mut path = [0; 40];
    write!(&mut path[..], "/proc/thread-self/fd/{file}\0").map_err(|_| libc::EINVAL)?;
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    let opened = number(raw::openat(libc::AT_FDCWD, path.as_ptr().cast(), flags, 0))?;
    let is_it = raw::facts_of(opened)
        .zip(raw::facts_of(file))
        .is_some_and(|(one, other)| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino));
    let copied = if is_it {
        raw::fcntl(opened, libc::F_DUPFD_CLOEXEC, first_number(index))
    } else {
        -libc::EINVAL as isize
    };
    raw::close(opened);
    number(copied)
}

/// Where it is looked for a free number. With several threads the kernel waits for an RCU grace period (milliseconds) before
/// it makes its table longer: then a number at the end of the table is taken.
fn first_number(index: usize) -> usize {
    let last = |limit: u64| limit.saturating_sub(1 + index as u64) as usize;
    let first = limit().map_or(FIRST, |limit| FIRST.min(last(limit)));
    if libc_threads::alone() {
        return first;
    }
    table_length().map_or(first, |length| first.min(length.saturating_sub(LAST)))
}

/// How many numbers the kernel's table has room for.
fn table_length() -> Option<usize> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let path = c"/proc/thread-self/status";
    let status = number(raw::openat(libc::AT_FDCWD, path.as_ptr(), flags, 0)).ok()?;
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

/// Whether one of these numbers is that of a descriptor to copy.
#[inline]
pub fn is_among(first: c_int, last: c_int) -> bool {
    last >= LOWEST.load(Ordering::Relaxed) && among(first, last).next().is_some()
}

fn among(first: c_int, last: c_int) -> impl Iterator<Item = &'static Original> {
    let originals = ORIGINALS.iter();
    originals.filter(move |original| {
        let number = original.number.load(Ordering::Relaxed);
        number != NONE && (first..=last).contains(&number)
    })
}

/// These numbers are closed, or mean something else.
pub fn forget(first: c_int, last: c_int) {
    for original in among(first, last) {
        original.is_lent.store(false, Ordering::Relaxed);
        original.number.store(NONE, Ordering::Relaxed);
    }
}

/// No more are made.
pub fn end() {
    for original in &ORIGINALS {
        let number = original.number.swap(NONE, Ordering::Relaxed);
        if number != NONE && !original.is_lent.load(Ordering::Relaxed) {
            raw::close(number);
        }
    }
}
