//! Calls that change the process itself: its user, limits, signals, mounts, sockets, program.

use super::{Answer, Errno, Fd, answer, errno};
use libc::{SOL_SOCKET, c_int, iovec, mode_t, msghdr, timeval};
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::ptr::{null, null_mut};

/// What is called when a signal comes; it may do little.
pub type Handler = extern "C" fn(c_int);

/// `umask(2)`: the mask before.
pub fn umask(mask: mode_t) -> mode_t {
    plain!(libc::umask(mask))
}

/// `setgroups(2)`.
pub fn setgroups(groups: &[u32]) -> Answer<()> {
    done!(libc::setgroups(groups.len(), groups.as_ptr()))
}

/// `setresgid(2)`; `u32::MAX` leaves one as it is.
pub fn setresgid(real: u32, effective: u32, saved: u32) -> Answer<()> {
    done!(libc::setresgid(real, effective, saved))
}

/// `setfsgid(2)`, `setfsuid(2)`: as which user this thread makes files. They answer no errors.
pub fn set_file_user(user: u32, group: u32) {
    plain!(libc::setfsgid(group));
    plain!(libc::setfsuid(user));
}

/// `setresuid(2)`; `u32::MAX` leaves one as it is.
pub fn setresuid(real: u32, effective: u32, saved: u32) -> Answer<()> {
    done!(libc::setresuid(real, effective, saved))
}

/// `setrlimit(2)`.
pub fn setrlimit(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) -> Answer<()> {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    done!(libc::setrlimit(resource, &raw const limit))
}

/// `signal(2)` that ignores it.
pub fn ignore(signal: c_int) {
    plain!(libc::signal(signal, libc::SIG_IGN));
}

/// `signal(2)` that takes a handler away.
pub fn reset(signal: c_int) {
    plain!(libc::signal(signal, libc::SIG_DFL));
}

/// `signal(2)`: calls that wait go on after the handler.
pub fn handle(signal: c_int, handler: Handler) {
    plain!(libc::signal(signal, handler as libc::sighandler_t));
}

/// `sigaction(2)` without flags: calls that wait are ended by the signal.
pub fn interrupt_by(signal: c_int, handler: Handler) -> Answer<()> {
    let mut action = zeros!(libc::sigaction);
    action.sa_sigaction = handler as libc::sighandler_t;
    done!(libc::sigaction(signal, &raw const action, null_mut()))
}

/// `setitimer(2)`: SIGALRM again and again.
pub fn alarm_every(interval: timeval) -> Answer<()> {
    let timer = libc::itimerval {
        it_interval: interval,
        it_value: interval,
    };
    done!(libc::setitimer(
        libc::ITIMER_REAL,
        &raw const timer,
        null_mut()
    ))
}

/// `pause(2)`.
pub fn pause() {
    plain!(libc::pause());
}

/// `unshare(2)` of the mounts.
pub fn separate_mounts() -> Answer<()> {
    done!(libc::unshare(libc::CLONE_NEWNS))
}

/// `mount(2)` of a directory elsewhere, or with other flags.
pub fn mount_again(directory: Option<&CStr>, at: &CStr, flags: u64) -> Answer<()> {
    let directory = directory.map_or(null(), CStr::as_ptr);
    done!(libc::mount(directory, at.as_ptr(), null(), flags, null()))
}

/// `execv(3)` without arguments: why it failed.
pub fn execv(path: &CStr) -> Errno {
    let arguments = [path.as_ptr(), null()];
    plain!(libc::execv(path.as_ptr(), arguments.as_ptr()));
    errno()
}

/// `socketpair(2)`.
pub fn socketpair() -> Answer<[Fd; 2]> {
    let mut pair = [0; 2];
    let (family, kind) = (libc::AF_UNIX, libc::SOCK_STREAM);
    done!(libc::socketpair(family, kind, 0, pair.as_mut_ptr()))?;
    Ok(pair.map(Fd))
}

/// Room for one number among the ancillary data, aligned.
#[repr(C, align(8))]
struct Ancillary {
    head: libc::cmsghdr,
    number: RawFd,
}

fn message(data: &mut iovec, ancillary: &mut Ancillary) -> msghdr {
    let mut message = zeros!(msghdr);
    message.msg_iov = data;
    message.msg_iovlen = 1;
    message.msg_controllen = size_of_val(ancillary);
    message.msg_control = std::ptr::from_mut(ancillary).cast();
    message
}

fn ancillary(number: RawFd) -> Ancillary {
    let mut head = zeros!(libc::cmsghdr);
    head.cmsg_level = SOL_SOCKET;
    head.cmsg_type = libc::SCM_RIGHTS;
    head.cmsg_len = size_of::<libc::cmsghdr>() + size_of::<RawFd>();
    Ancillary { head, number }
}

/// `sendmsg(2)` of one byte and a descriptor.
pub fn send_number(socket: RawFd, fd: RawFd) -> Answer {
    let (mut byte, mut rights) = ([1u8], ancillary(fd));
    let mut data = iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let message = message(&mut data, &mut rights);
    call!(libc::sendmsg(socket, &raw const message, 0))
}

/// `recvmsg(2)` of one byte and a descriptor.
#[track_caller]
pub fn receive_number(socket: RawFd) -> Answer<Fd> {
    let (mut byte, mut rights) = ([0u8], ancillary(-1));
    let mut data = iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut message = message(&mut data, &mut rights);
    assert_eq!(call!(libc::recvmsg(socket, &raw mut message, 0))?, 1);
    assert_eq!(rights.head.cmsg_type, libc::SCM_RIGHTS);
    assert_ne!(rights.number, -1, "no descriptor came");
    Ok(Fd(rights.number))
}
