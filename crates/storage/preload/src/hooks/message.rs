//! Descriptors that travel over sockets: those sent become shared, those received are new.
//!
//! Messages are looked at as the kernel looks at them: a bad address in one is the kernel's to refuse
//! (`EFAULT`), and nothing behind it travels.

use super::arrivals::arrived;
use crate::files::forks;
use crate::serve;
use crate::serve::guarded::{can_look, look};
use crate::system::real;
use crate::trust::settings;
use libc::{c_int, c_uint, cmsghdr, mmsghdr, msghdr, ssize_t, timespec};

/// Most messages that the kernel takes in one call (`UIO_MAXIOV`).
const MAX_MESSAGES: usize = 1024;

/// Every descriptor in the message's control data.
fn for_each_fd(message: &msghdr, mut body: impl FnMut(c_int)) {
    let end = message.msg_controllen;
    let mut at = 0;
    while let Some(left) = end.checked_sub(at)
        && left >= size_of::<cmsghdr>()
        && let header = message.msg_control.wrapping_byte_add(at)
        && let Some(control) = look(header.cast::<cmsghdr>())
        && (size_of::<cmsghdr>()..=left).contains(&control.cmsg_len)
    {
        if control.cmsg_level == libc::SOL_SOCKET && control.cmsg_type == libc::SCM_RIGHTS {
            let descriptors = header
                .wrapping_byte_add(size_of::<cmsghdr>())
                .cast::<c_int>();
            let count = (control.cmsg_len - size_of::<cmsghdr>()) / size_of::<c_int>();
            (0..count)
                .map_while(|index| look(descriptors.wrapping_add(index)))
                .for_each(&mut body);
        }
        at += control.cmsg_len.next_multiple_of(size_of::<usize>());
    }
}

/// The descriptors of messages become shared before anybody can have them.
fn share_all(mut messages: impl Iterator<Item = Option<msghdr>>) {
    if can_look() {
        while let Some(Some(message)) = messages.next() {
            for_each_fd(&message, serve::share);
        }
    } else {
        // No file of ours was met yet; any descriptor may be one.
        forks::share_descriptors();
    }
}

/// The kernel filled this message.
fn take_in(message: *const msghdr) {
    if settings::is_off() {
        return;
    }
    if let Some(message) = look(message) {
        for_each_fd(&message, |fd| {
            arrived(fd);
        });
    }
}

fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    share_all([message].into_iter().map(look));
    real::sendmsg(fd, message, flags)
}

fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    let all = 0..(count as usize).min(MAX_MESSAGES);
    share_all(all.map(|index| look(messages.wrapping_add(index)).map(|message| message.msg_hdr)));
    real::sendmmsg(fd, messages, count, flags)
}

fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let answer = real::recvmsg(fd, message, flags);
    if answer >= 0 {
        take_in(message);
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
        // An `mmsghdr` begins with its `msghdr`.
        take_in(messages.wrapping_add(index).cast());
    }
    answer
}

export! {
    sendmsg => sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg, __sendmmsg => sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    recvmsg => recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg => recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
}
