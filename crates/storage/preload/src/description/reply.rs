//! How a call of the program ends.

use crate::system::errno;
use egeria_engine::{Errno, Outcome, PathStop};
use libc::c_int;

/// The engine's error for what only the kernel can do: it has pages of the file.
pub const PASS: Errno = Errno(libc::EAGAIN);

/// How a call of the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Served here, with this value.
    Done(isize),
    /// Refused here, with this errno.
    Fails(c_int),
    /// The kernel was asked on the way: its value, or minus an errno.
    Asked(isize),
    /// Left to the kernel, which is to be asked now.
    Pass,
}

impl Reply {
    /// The answer of an engine call of which only these errors are known to be the kernel's, too. The kernel
    /// decides all others.
    pub fn expecting<T>(outcome: Outcome<T>, errors: &[c_int]) -> Reply {
        match outcome {
            Ok(_) => Reply::Done(0),
            Err(Errno(errno)) if errors.contains(&errno) => Reply::Fails(errno),
            Err(_) => Reply::Pass,
        }
    }

    /// Whether the kernel does the call, or did a part of it.
    #[inline(always)]
    pub fn is_by_kernel(self) -> bool {
        matches!(self, Reply::Asked(_) | Reply::Pass)
    }

    /// What libc's caller gets, with `errno` set; it stays as it was before where nothing failed. `None`: the
    /// kernel is to be asked.
    #[inline(always)]
    pub fn publish(self, errno_before: c_int) -> Option<isize> {
        let (errno, value) = match self {
            Reply::Fails(errno) => (errno, Some(-1)),
            Reply::Asked(value) if value < 0 => (-value as c_int, Some(-1)),
            Reply::Done(value) | Reply::Asked(value) => (errno_before, Some(value)),
            Reply::Pass => (errno_before, None),
        };
        errno::set(errno);
        value
    }
}

impl From<Outcome<usize>> for Reply {
    #[inline(always)]
    fn from(outcome: Outcome<usize>) -> Reply {
        match outcome {
            Ok(value) => Reply::Done(value as isize),
            Err(error) => Reply::from(error),
        }
    }
}

impl From<Errno> for Reply {
    #[inline(always)]
    fn from(error: Errno) -> Reply {
        match error {
            PASS => Reply::Pass,
            Errno(errno) => Reply::Fails(errno),
        }
    }
}

impl From<PathStop> for Reply {
    fn from(stop: PathStop) -> Reply {
        match stop {
            PathStop::Missing => Reply::Fails(libc::ENOENT),
            PathStop::Elsewhere => Reply::Pass,
        }
    }
}
