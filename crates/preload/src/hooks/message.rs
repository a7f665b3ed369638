//! Descriptors that travel over sockets: those sent become shared, those received are new.

use super::opened::arrived;
use crate::{offset, real};
use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t, timespec};

/// Every descriptor in the message's control data.
fn for_each_fd(message: &msghdr, mut body: impl FnMut(c_int)) {
    // SAFETY: the caller's message, walked as libc's macros walk it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = header.as_ref() {
            if control.cmsg_level == libc::SOL_SOCKET && control.cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header);
                let bytes = control
                    .cmsg_len
                    .saturating_sub(data as usize - header as usize);
                for index in 0..bytes / size_of::<c_int>() {
                    body(data.cast::<c_int>().add(index).read_unaligned());
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's message.
    if let Some(message) = unsafe { message.as_ref() } {
        for_each_fd(message, offset::share);
    }
    real::sendmsg(fd, message, flags)
}

fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if !messages.is_null() {
        for index in 0..count as usize {
            // SAFETY: the caller's array of `count` messages.
            for_each_fd(unsafe { &(*messages.add(index)).msg_hdr }, offset::share);
        }
    }
    real::sendmmsg(fd, messages, count, flags)
}

fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let answer = real::recvmsg(fd, message, flags);
    // SAFETY: the caller's message, filled by the kernel.
    if let Some(message) = unsafe { message.as_ref() }
        && answer >= 0
    {
        for_each_fd(message, |fd| {
            arrived(fd);
        });
    }
    answer
}

fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let answer = real::recvmmsg(fd, messages, count, flags, timeout);
    for index in 0..answer.max(0) as usize {
        // SAFETY: so many messages of the caller's array were filled by the kernel.
        for_each_fd(unsafe { &(*messages.add(index)).msg_hdr }, |fd| {
            arrived(fd);
        });
    }
    answer
}

export! {
    sendmsg => sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg, __sendmmsg => sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    recvmsg => recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg => recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
}
