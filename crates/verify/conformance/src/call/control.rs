//! Calls on descriptors that neither move data nor change names: readiness, advice, handles, calls by number.

use super::{Answer, Fd, answer, descriptor};
use libc::{c_int, c_long, off_t};
use std::ffi::CStr;
use std::os::fd::RawFd;

/// `syscall(2)`: any call by its number, addresses as numbers.
pub fn by_number(number: c_long, arguments: [usize; 6]) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    call!(libc::syscall(number, a, b, c, d, e, f))
}

/// Load a byte of memory that a call by number mapped.
pub fn byte_at(address: usize) -> u8 {
    let address: *const u8 = std::ptr::with_exposed_provenance(address);
    plain!(address.read_volatile())
}

/// `getdents64(2)`, which libc has by number alone.
pub fn getdents64(fd: RawFd, room: &mut [u8]) -> Answer {
    let (at, bytes) = (room.as_mut_ptr(), room.len());
    call!(libc::syscall(libc::SYS_getdents64, fd, at, bytes))
}

/// `openat2(2)`, which libc has by number alone: flags, mode and how the path is resolved.
pub fn openat2(directory: RawFd, path: &CStr, how: [u64; 3]) -> Answer<Fd> {
    let (number, bytes) = (libc::SYS_openat2, size_of_val(&how));
    descriptor(call!(libc::syscall(
        number,
        directory,
        path.as_ptr(),
        how.as_ptr(),
        bytes
    )))
}

/// `poll(2)` of one descriptor, without waiting: what it is ready for.
pub fn poll(fd: RawFd, events: i16) -> Answer<i16> {
    let mut wanted = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    call!(libc::poll(&raw mut wanted, 1, 0)).map(|_| wanted.revents)
}

/// `epoll_create1(2)`.
pub fn epoll_create() -> Answer<Fd> {
    descriptor(call!(libc::epoll_create1(0)))
}

/// `epoll_ctl(2)` that adds a descriptor.
pub fn epoll_add(set: RawFd, fd: RawFd, events: c_int) -> Answer<()> {
    let mut event = libc::epoll_event {
        events: events as u32,
        u64: 0,
    };
    done!(libc::epoll_ctl(
        set,
        libc::EPOLL_CTL_ADD,
        fd,
        &raw mut event
    ))
}

/// `ioctl(2)` that asks a terminal for its size.
pub fn window_size(fd: RawFd) -> Answer<libc::winsize> {
    filled!(libc::winsize, |room| libc::ioctl(
        fd,
        libc::TIOCGWINSZ,
        room
    ))
}

/// `ioctl(2)` that asks for the bytes that are left to be read.
pub fn unread_bytes(fd: RawFd) -> Answer<c_int> {
    filled!(c_int, |room| libc::ioctl(fd, libc::FIONREAD, room))
}

/// `isatty(3)`: 0 and an errno for what is no terminal.
pub fn isatty(fd: RawFd) -> c_int {
    plain!(libc::isatty(fd))
}

/// `sync(2)`.
pub fn sync() {
    plain!(libc::sync())
}

/// `sync_file_range(2)`.
pub fn sync_file_range(fd: RawFd, at: off_t, bytes: off_t, flags: u32) -> Answer<()> {
    done!(libc::sync_file_range(fd, at, bytes, flags))
}

/// `posix_fadvise(2)` of all: 0, or an error number.
pub fn posix_fadvise(fd: RawFd, advice: c_int) -> c_int {
    plain!(libc::posix_fadvise(fd, 0, 0, advice))
}

/// `posix_fallocate(3)`: 0, or an error number.
pub fn posix_fallocate(fd: RawFd, at: off_t, bytes: off_t) -> c_int {
    plain!(libc::posix_fallocate(fd, at, bytes))
}

/// `readahead(2)`.
pub fn readahead(fd: RawFd, at: off_t, bytes: usize) -> Answer<()> {
    done!(libc::readahead(fd, at, bytes))
}

/// A handle of a file, with room for the largest.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    /// The room, before; what of it is filled, afterwards.
    pub bytes: u32,
    kind: i32,
    /// What the file system fills in.
    pub data: [u8; 128],
}

impl Handle {
    /// With all its room.
    pub const EMPTY: Handle = Handle {
        bytes: 128,
        kind: 0,
        data: [0; 128],
    };
}

/// `name_to_handle_at(2)` below the working directory; no more room may be claimed than there is.
pub fn name_to_handle(path: &CStr, handle: &mut Handle) -> Answer<()> {
    assert!(handle.bytes as usize <= handle.data.len());
    let (place, mut mount) = (std::ptr::from_mut(handle), 0);
    done!(libc::name_to_handle_at(
        libc::AT_FDCWD,
        path.as_ptr(),
        place.cast(),
        &raw mut mount,
        0
    ))
}

/// `open_by_handle_at(2)` with these flags; more bytes than there are may be claimed, which the kernel refuses.
pub fn open_by_handle(directory: RawFd, handle: &Handle, flags: c_int) -> Answer<Fd> {
    assert!(handle.bytes as usize <= handle.data.len() + 1);
    let mut handle = *handle;
    let place = &raw mut handle;
    descriptor(call!(libc::open_by_handle_at(
        directory,
        place.cast(),
        flags
    )))
}

/// `mkstemp(3)`, which fills the template in; it ends with NUL.
pub fn mkstemp(template: &mut [u8]) -> Answer<Fd> {
    assert_eq!(template.last(), Some(&0));
    descriptor(call!(libc::mkstemp(template.as_mut_ptr().cast())))
}

/// `memfd_create(2)`.
pub fn memfd_create(name: &CStr) -> Answer<Fd> {
    descriptor(call!(libc::memfd_create(name.as_ptr(), 0)))
}

/// `inotify_init1(2)` and `inotify_add_watch(2)`: a watch of one path, which does not wait for events.
pub fn inotify(path: &CStr, mask: u32) -> Answer<Fd> {
    let watch = descriptor(call!(libc::inotify_init1(libc::IN_NONBLOCK)))?;
    done!(libc::inotify_add_watch(watch.0, path.as_ptr(), mask))?;
    Ok(watch)
}
