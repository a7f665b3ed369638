//! The calls that are tested, as libc offers them: each answers what it answered, or its errno.
//!
//! Descriptors are plain numbers, so that wrong ones can be passed too.

use libc::{c_int, c_void, iovec, mode_t, off_t};
use std::ffi::CStr;
use std::fmt;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// What a failed call left in `errno`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// What a call answered.
pub type Answer<T = i64> = Result<T, Errno>;

macro_rules! errno_names {
    ($($name:ident)*) => {
        fn errno_name(number: i32) -> Option<&'static str> {
            match number { $(libc::$name => Some(stringify!($name)),)* _ => None }
        }
    };
}

errno_names! {
    E2BIG EACCES EAGAIN EBADF EBUSY EDEADLK EDOM EEXIST EFAULT EFBIG EINTR EINVAL EIO EISDIR ELOOP EMFILE
    EMLINK ENAMETOOLONG ENODATA ENODEV ENOENT ENOEXEC ENOLCK ENOMEM ENOSPC ENOSYS ENOTCONN ENOTDIR ENOTEMPTY
    ENOTTY ENXIO EOPNOTSUPP EOVERFLOW EPERM EPIPE ERANGE EROFS ESPIPE ESRCH ESTALE ETXTBSY EXDEV
}

impl fmt::Debug for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match errno_name(self.0) {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "errno {}", self.0),
        }
    }
}

/// The errno of the last failed call.
pub fn errno() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

fn answer(value: i64) -> Answer {
    if value == -1 { Err(errno()) } else { Ok(value) }
}

/// A call, and what it returned. Every function of this module makes one, with what is its own to promise: that strings
/// end with NUL, that structures and buffers live and have the sizes passed.
macro_rules! plain {
    ($call:expr) => {{
        // SAFETY: strings end with NUL; buffers live and have the sizes passed; handles of libc are open; where a test
        // passes a bad address on purpose, the kernel or the library answers for it.
        unsafe { $call }
    }};
}

/// A call with its result as [`Answer`].
macro_rules! call {
    ($call:expr) => {
        answer(plain!($call) as i64)
    };
}

/// A structure of libc, all zeros: plain numbers and pointers, for which zero is a value.
macro_rules! zeros {
    ($type:ty) => {{
        let zeros: $type = plain!(std::mem::zeroed());
        zeros
    }};
}

/// A call that fills a structure in.
macro_rules! filled {
    ($type:ty, |$room:ident| $call:expr) => {{
        let mut room = zeros!($type);
        let $room = &raw mut room;
        call!($call).map(|_| room)
    }};
}

macro_rules! done {
    ($call:expr) => {
        call!($call).map(drop)
    };
}

mod control;
mod own;
mod paths;
mod streams;
pub use control::*;
pub use own::*;
pub use paths::*;
pub use streams::*;

/// An open descriptor, closed when dropped.
#[derive(Debug)]
pub struct Fd(pub RawFd);

impl Drop for Fd {
    fn drop(&mut self) {
        plain!(libc::close(self.0));
    }
}

impl Fd {
    /// As std has them.
    pub fn into_owned(self) -> OwnedFd {
        let number = self.0;
        std::mem::forget(self);
        plain!(OwnedFd::from_raw_fd(number))
    }

    /// Close now, and say how that went.
    pub fn close(self) -> Answer<()> {
        let number = self.0;
        std::mem::forget(self);
        close(number)
    }
}

fn descriptor(value: Answer) -> Answer<Fd> {
    value.map(|number| Fd(number as RawFd))
}

/// `close(2)`.
pub fn close(fd: RawFd) -> Answer<()> {
    done!(libc::close(fd))
}

/// `open(2)`.
pub fn open(path: &CStr, flags: c_int, mode: mode_t) -> Answer<Fd> {
    descriptor(call!(libc::open(path.as_ptr(), flags, mode)))
}

/// `creat(2)`.
pub fn creat(path: &CStr, mode: mode_t) -> Answer<Fd> {
    descriptor(call!(libc::creat(path.as_ptr(), mode)))
}

/// `openat(2)`.
pub fn openat(directory: RawFd, path: &CStr, flags: c_int, mode: mode_t) -> Answer<Fd> {
    descriptor(call!(libc::openat(directory, path.as_ptr(), flags, mode)))
}

/// `read(2)`.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> Answer<usize> {
    call!(libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len())).map(|bytes| bytes as usize)
}

/// `pread(2)`.
pub fn pread(fd: RawFd, buffer: &mut [u8], at: off_t) -> Answer<usize> {
    call!(libc::pread(
        fd,
        buffer.as_mut_ptr().cast(),
        buffer.len(),
        at
    ))
    .map(|bytes| bytes as usize)
}

/// `write(2)`.
pub fn write(fd: RawFd, data: &[u8]) -> Answer<usize> {
    call!(libc::write(fd, data.as_ptr().cast(), data.len())).map(|bytes| bytes as usize)
}

/// `pwrite(2)`.
pub fn pwrite(fd: RawFd, data: &[u8], at: off_t) -> Answer<usize> {
    call!(libc::pwrite(fd, data.as_ptr().cast(), data.len(), at)).map(|bytes| bytes as usize)
}

/// `read(2)` or `write(2)` with any address.
pub fn transfer_raw(writes: bool, fd: RawFd, address: usize, bytes: usize) -> Answer {
    let address: *mut c_void = ptr::with_exposed_provenance_mut(address);
    if writes {
        call!(libc::write(fd, address, bytes))
    } else {
        call!(libc::read(fd, address, bytes))
    }
}

/// `pread(2)` or `pwrite(2)` with any address.
pub fn transfer_raw_at(writes: bool, fd: RawFd, address: usize, bytes: usize, at: off_t) -> Answer {
    let address: *mut c_void = ptr::with_exposed_provenance_mut(address);
    if writes {
        call!(libc::pwrite(fd, address, bytes, at))
    } else {
        call!(libc::pread(fd, address, bytes, at))
    }
}

/// `msync(2)` of any range, waiting.
pub fn msync_raw(address: usize, bytes: usize) -> Answer<()> {
    let address: *mut c_void = ptr::with_exposed_provenance_mut(address);
    done!(libc::msync(address, bytes, libc::MS_SYNC))
}

fn parts(buffers: &mut [&mut [u8]]) -> Vec<iovec> {
    let part = |buffer: &mut &mut [u8]| iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    buffers.iter_mut().map(part).collect()
}

fn data_parts(data: &[&[u8]]) -> Vec<iovec> {
    let part = |data: &&[u8]| iovec {
        iov_base: data.as_ptr() as *mut c_void,
        iov_len: data.len(),
    };
    data.iter().map(part).collect()
}

/// `readv(2)`.
pub fn readv(fd: RawFd, buffers: &mut [&mut [u8]]) -> Answer {
    let parts = parts(buffers);
    call!(libc::readv(fd, parts.as_ptr(), parts.len() as c_int))
}

/// `writev(2)`.
pub fn writev(fd: RawFd, data: &[&[u8]]) -> Answer {
    let parts = data_parts(data);
    call!(libc::writev(fd, parts.as_ptr(), parts.len() as c_int))
}

/// `readv(2)` or `writev(2)` with parts as given.
pub fn vector_raw(writes: bool, fd: RawFd, parts: &[iovec], count: c_int) -> Answer {
    if writes {
        call!(libc::writev(fd, parts.as_ptr(), count))
    } else {
        call!(libc::readv(fd, parts.as_ptr(), count))
    }
}

/// `preadv(2)`.
pub fn preadv(fd: RawFd, buffers: &mut [&mut [u8]], at: off_t) -> Answer {
    let parts = parts(buffers);
    call!(libc::preadv(fd, parts.as_ptr(), parts.len() as c_int, at))
}

/// `pwritev(2)`.
pub fn pwritev(fd: RawFd, data: &[&[u8]], at: off_t) -> Answer {
    let parts = data_parts(data);
    call!(libc::pwritev(fd, parts.as_ptr(), parts.len() as c_int, at))
}

/// `preadv2(2)`.
pub fn preadv2(fd: RawFd, buffers: &mut [&mut [u8]], at: off_t, flags: c_int) -> Answer {
    let parts = parts(buffers);
    call!(libc::preadv2(
        fd,
        parts.as_ptr(),
        parts.len() as c_int,
        at,
        flags
    ))
}

/// `pwritev2(2)`.
pub fn pwritev2(fd: RawFd, data: &[&[u8]], at: off_t, flags: c_int) -> Answer {
    let parts = data_parts(data);
    call!(libc::pwritev2(
        fd,
        parts.as_ptr(),
        parts.len() as c_int,
        at,
        flags
    ))
}

/// `lseek(2)`.
pub fn lseek(fd: RawFd, offset: off_t, whence: c_int) -> Answer {
    call!(libc::lseek(fd, offset, whence))
}

/// `truncate(2)`.
pub fn truncate(path: &CStr, bytes: off_t) -> Answer<()> {
    done!(libc::truncate(path.as_ptr(), bytes))
}

/// `ftruncate(2)`.
pub fn ftruncate(fd: RawFd, bytes: off_t) -> Answer<()> {
    done!(libc::ftruncate(fd, bytes))
}

/// `fallocate(2)`.
pub fn fallocate(fd: RawFd, mode: c_int, at: off_t, bytes: off_t) -> Answer<()> {
    done!(libc::fallocate(fd, mode, at, bytes))
}

/// Any of `fsync`, `fdatasync`, `syncfs`: calls with a descriptor alone.
pub fn with_fd(call: unsafe extern "C" fn(c_int) -> c_int, fd: RawFd) -> Answer<()> {
    done!(call(fd))
}

/// `copy_file_range(2)`; `None` stands for the position.
pub fn copy_file_range(
    (from, from_at): (RawFd, Option<&mut i64>),
    (to, to_at): (RawFd, Option<&mut i64>),
    bytes: usize,
    flags: u32,
) -> Answer {
    let from_at = from_at.map_or(ptr::null_mut(), ptr::from_mut);
    let to_at = to_at.map_or(ptr::null_mut(), ptr::from_mut);
    call!(libc::copy_file_range(
        from, from_at, to, to_at, bytes, flags
    ))
}

/// `sendfile(2)`.
pub fn sendfile(to: RawFd, from: RawFd, at: Option<&mut i64>, bytes: usize) -> Answer {
    let at = at.map_or(ptr::null_mut(), ptr::from_mut);
    call!(libc::sendfile(to, from, at, bytes))
}

/// `splice(2)`.
pub fn splice(
    (from, from_at): (RawFd, Option<&mut i64>),
    (to, to_at): (RawFd, Option<&mut i64>),
    bytes: usize,
) -> Answer {
    let from_at = from_at.map_or(ptr::null_mut(), ptr::from_mut);
    let to_at = to_at.map_or(ptr::null_mut(), ptr::from_mut);
    call!(libc::splice(from, from_at, to, to_at, bytes, 0))
}

/// `pipe(2)`: where to read, and where to write.
pub fn pipe() -> Answer<(Fd, Fd)> {
    let mut pair = [0; 2];
    call!(libc::pipe(pair.as_mut_ptr()))?;
    Ok((Fd(pair[0]), Fd(pair[1])))
}

/// `dup(2)`.
pub fn dup(fd: RawFd) -> Answer<Fd> {
    descriptor(call!(libc::dup(fd)))
}

/// `dup2(2)`.
pub fn dup2(fd: RawFd, number: RawFd) -> Answer {
    call!(libc::dup2(fd, number))
}

/// `dup3(2)`.
pub fn dup3(fd: RawFd, number: RawFd, flags: c_int) -> Answer {
    call!(libc::dup3(fd, number, flags))
}

/// `fcntl(2)` with a number.
pub fn fcntl(fd: RawFd, command: c_int, argument: c_int) -> Answer {
    call!(libc::fcntl(fd, command, argument))
}

/// `fcntl(2)` with a lock.
pub fn fcntl_lock(fd: RawFd, command: c_int, lock: &mut libc::flock) -> Answer<()> {
    done!(libc::fcntl(fd, command, ptr::from_mut(lock)))
}

/// `fcntl(2)` without an argument.
pub fn fcntl_bare(fd: RawFd, command: c_int) -> Answer {
    call!(libc::fcntl(fd, command))
}

/// `flock(2)`.
pub fn flock(fd: RawFd, operation: c_int) -> Answer<()> {
    done!(libc::flock(fd, operation))
}
