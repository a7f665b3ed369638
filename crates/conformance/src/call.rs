//! The calls that are tested, as libc offers them: each answers what it answered, or its errno.
//!
//! Descriptors are plain numbers, so that wrong ones can be passed too.

use libc::{c_int, c_void, iovec, mode_t, off_t};
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::fd::RawFd;
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

/// A call with its result as [`Answer`].
macro_rules! call {
    ($call:expr) => {{
        // SAFETY: strings end with NUL; buffers live and have the sizes passed; where a test passes a
        // bad address on purpose, the kernel or the library answers for it.
        answer(unsafe { $call } as i64)
    }};
}

macro_rules! done {
    ($call:expr) => {
        call!($call).map(drop)
    };
}

/// An open descriptor, closed when dropped.
#[derive(Debug)]
pub struct Fd(pub RawFd);

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the number is this value's own.
        unsafe { libc::close(self.0) };
    }
}

impl Fd {
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
    match writes {
        true => call!(libc::write(fd, address, bytes)),
        false => call!(libc::read(fd, address, bytes)),
    }
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
    match writes {
        true => call!(libc::writev(fd, parts.as_ptr(), count)),
        false => call!(libc::readv(fd, parts.as_ptr(), count)),
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

/// `flock(2)`.
pub fn flock(fd: RawFd, operation: c_int) -> Answer<()> {
    done!(libc::flock(fd, operation))
}

/// Any call with a path alone: `unlink`, `rmdir`, `chdir`.
pub fn with_path(
    call: unsafe extern "C" fn(*const libc::c_char) -> c_int,
    path: &CStr,
) -> Answer<()> {
    done!(call(path.as_ptr()))
}

/// `unlink(2)`.
pub fn unlink(path: &CStr) -> Answer<()> {
    with_path(libc::unlink, path)
}

/// `rmdir(2)`.
pub fn rmdir(path: &CStr) -> Answer<()> {
    with_path(libc::rmdir, path)
}

/// `chdir(2)`.
pub fn chdir(path: &CStr) -> Answer<()> {
    with_path(libc::chdir, path)
}

/// `unlinkat(2)`.
pub fn unlinkat(directory: RawFd, path: &CStr, flags: c_int) -> Answer<()> {
    done!(libc::unlinkat(directory, path.as_ptr(), flags))
}

/// `mkdir(2)`.
pub fn mkdir(path: &CStr, mode: mode_t) -> Answer<()> {
    done!(libc::mkdir(path.as_ptr(), mode))
}

/// `mkdirat(2)`.
pub fn mkdirat(directory: RawFd, path: &CStr, mode: mode_t) -> Answer<()> {
    done!(libc::mkdirat(directory, path.as_ptr(), mode))
}

/// `mknod(2)`.
pub fn mknod(path: &CStr, mode: mode_t, device: u64) -> Answer<()> {
    done!(libc::mknod(path.as_ptr(), mode, device))
}

/// `link(2)`.
pub fn link(from: &CStr, to: &CStr) -> Answer<()> {
    done!(libc::link(from.as_ptr(), to.as_ptr()))
}

/// `linkat(2)` with paths relative to these directories.
pub fn linkat(from: (RawFd, &CStr), to: (RawFd, &CStr), flags: c_int) -> Answer<()> {
    done!(libc::linkat(
        from.0,
        from.1.as_ptr(),
        to.0,
        to.1.as_ptr(),
        flags
    ))
}

/// `symlink(2)`.
pub fn symlink(target: &CStr, path: &CStr) -> Answer<()> {
    done!(libc::symlink(target.as_ptr(), path.as_ptr()))
}

/// `readlink(2)` into so much room.
pub fn readlink(path: &CStr, room: usize) -> Answer<Vec<u8>> {
    let mut target = vec![0u8; room];
    let bytes = call!(libc::readlink(
        path.as_ptr(),
        target.as_mut_ptr().cast(),
        room
    ))?;
    target.truncate(bytes as usize);
    Ok(target)
}

/// `rename(2)`.
pub fn rename(from: &CStr, to: &CStr) -> Answer<()> {
    done!(libc::rename(from.as_ptr(), to.as_ptr()))
}

/// `renameat2(2)` below the working directory.
pub fn renameat2(from: &CStr, to: &CStr, flags: u32) -> Answer<()> {
    let here = libc::AT_FDCWD;
    done!(libc::renameat2(
        here,
        from.as_ptr(),
        here,
        to.as_ptr(),
        flags
    ))
}

/// `chmod(2)`.
pub fn chmod(path: &CStr, mode: mode_t) -> Answer<()> {
    done!(libc::chmod(path.as_ptr(), mode))
}

/// `fchmod(2)`.
pub fn fchmod(fd: RawFd, mode: mode_t) -> Answer<()> {
    done!(libc::fchmod(fd, mode))
}

/// `fchmodat(2)`.
pub fn fchmodat(directory: RawFd, path: &CStr, mode: mode_t, flags: c_int) -> Answer<()> {
    done!(libc::fchmodat(directory, path.as_ptr(), mode, flags))
}

/// `chown(2)`; `u32::MAX` leaves one as it is.
pub fn chown(path: &CStr, user: u32, group: u32) -> Answer<()> {
    done!(libc::chown(path.as_ptr(), user, group))
}

/// `fchown(2)`.
pub fn fchown(fd: RawFd, user: u32, group: u32) -> Answer<()> {
    done!(libc::fchown(fd, user, group))
}

/// `lchown(2)`.
pub fn lchown(path: &CStr, user: u32, group: u32) -> Answer<()> {
    done!(libc::lchown(path.as_ptr(), user, group))
}

/// `utimensat(2)`; `None` for both now.
pub fn utimensat(
    directory: RawFd,
    path: &CStr,
    times: Option<[libc::timespec; 2]>,
    flags: c_int,
) -> Answer<()> {
    let times = times.as_ref().map_or(ptr::null(), |times| times.as_ptr());
    done!(libc::utimensat(directory, path.as_ptr(), times, flags))
}

/// `futimens(3)`.
pub fn futimens(fd: RawFd, times: [libc::timespec; 2]) -> Answer<()> {
    done!(libc::futimens(fd, times.as_ptr()))
}

/// `access(2)`.
pub fn access(path: &CStr, mode: c_int) -> Answer<()> {
    done!(libc::access(path.as_ptr(), mode))
}

/// `faccessat(2)`.
pub fn faccessat(directory: RawFd, path: &CStr, mode: c_int, flags: c_int) -> Answer<()> {
    done!(libc::faccessat(directory, path.as_ptr(), mode, flags))
}

macro_rules! filled {
    ($type:ty, |$room:ident| $call:expr) => {{
        // SAFETY: plain numbers, for which zero is a value.
        let mut room: $type = unsafe { std::mem::zeroed() };
        let $room = &raw mut room;
        call!($call).map(|_| room)
    }};
}

/// `stat(2)`.
pub fn stat(path: &CStr) -> Answer<libc::stat> {
    filled!(libc::stat, |room| libc::stat(path.as_ptr(), room))
}

/// `lstat(2)`.
pub fn lstat(path: &CStr) -> Answer<libc::stat> {
    filled!(libc::stat, |room| libc::lstat(path.as_ptr(), room))
}

/// `fstat(2)`.
pub fn fstat(fd: RawFd) -> Answer<libc::stat> {
    filled!(libc::stat, |room| libc::fstat(fd, room))
}

/// `fstatat(2)`.
pub fn fstatat(directory: RawFd, path: &CStr, flags: c_int) -> Answer<libc::stat> {
    filled!(libc::stat, |room| libc::fstatat(
        directory,
        path.as_ptr(),
        room,
        flags
    ))
}

/// `statx(2)`.
pub fn statx(directory: RawFd, path: &CStr, flags: c_int, mask: u32) -> Answer<libc::statx> {
    filled!(libc::statx, |room| libc::statx(
        directory,
        path.as_ptr(),
        flags,
        mask,
        room
    ))
}

/// `statfs(2)`.
pub fn statfs(path: &CStr) -> Answer<libc::statfs> {
    filled!(libc::statfs, |room| libc::statfs(path.as_ptr(), room))
}

/// `fstatfs(2)`.
pub fn fstatfs(fd: RawFd) -> Answer<libc::statfs> {
    filled!(libc::statfs, |room| libc::fstatfs(fd, room))
}

/// `lsetxattr(2)`.
pub fn set_xattr(path: &CStr, name: &CStr, value: &[u8], flags: c_int) -> Answer<()> {
    let (data, bytes) = (value.as_ptr().cast(), value.len());
    done!(libc::lsetxattr(
        path.as_ptr(),
        name.as_ptr(),
        data,
        bytes,
        flags
    ))
}

/// `lgetxattr(2)` into so much room: the size answered, and what was filled in.
pub fn get_xattr(path: &CStr, name: &CStr, room: usize) -> Answer<(usize, Vec<u8>)> {
    let mut value = vec![0u8; room];
    let data = value.as_mut_ptr().cast();
    let bytes = call!(libc::lgetxattr(path.as_ptr(), name.as_ptr(), data, room))? as usize;
    value.truncate(bytes);
    Ok((bytes, value))
}

/// `llistxattr(2)` into so much room: the size answered, and the names filled in.
pub fn list_xattr(path: &CStr, room: usize) -> Answer<(usize, Vec<CString>)> {
    let mut names = vec![0u8; room];
    let data = names.as_mut_ptr().cast();
    let bytes = call!(libc::llistxattr(path.as_ptr(), data, room))? as usize;
    names.truncate(bytes);
    let name = |name: &[u8]| CString::new(name).expect("no NUL between NULs");
    let split = names
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty());
    Ok((bytes, split.map(name).collect()))
}

/// `lremovexattr(2)`.
pub fn remove_xattr(path: &CStr, name: &CStr) -> Answer<()> {
    done!(libc::lremovexattr(path.as_ptr(), name.as_ptr()))
}
