//! Processes that notify the kernel of names and pages to forget.
//!
//! A notification can block on a directory or a page that a request holds in the kernel. A thread of the mount that
//! blocks there could not be killed: the connection would stay open, with no process to answer the request. So small
//! processes block instead, each with one descriptor of the connection. When the mount dies, the requests it had read
//! end with its own descriptors. One more such process refuses the other requests until the notifiers have finished,
//! and the connection ends with it.
//!
//! They are forked from a process with many threads, so they make only system calls; the memory they need is allocated
//! before.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const MAX_BATCH_BYTES: usize = 32 << 10;
/// Each of them waits for one directory, or for pages of one file.
const MAX_MESSENGERS: usize = 64;
/// A request with data, and its header.
const REQUEST_BYTES: usize = (1 << 20) + (64 << 10);

// From the kernel's include/uapi/linux/fuse.h.
const HEADER_BYTES: usize = 16;
const REQUEST_HEADER_BYTES: usize = 40;
const FORGET: u32 = 2;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
/// `_IOR(229, 0, u32)`.
const CLONE_DEVICE: libc::Ioctl = 0x8004_e500u32 as libc::Ioctl;

/// The answer of a notifier: the errno of its last notification.
const ANSWER_BYTES: usize = 4;

/// All notifiers of a mount.
pub(crate) struct Notifiers {
    device: OwnedFd,
    /// Closed when our process ends in any way; and its other end.
    life: Mutex<Option<OwnedFd>>,
    our_end: OwnedFd,
    /// Closed when the last notifier ends; and its other end.
    their_lives: Option<OwnedFd>,
    their_ends: OwnedFd,
    /// The process that refuses requests.
    refusing: Mutex<Pid>,
    idle: Mutex<Idle>,
    returned: Condvar,
}

#[derive(Default)]
struct Idle {
    sockets: Vec<OwnedFd>,
    started: usize,
    children: Vec<Pid>,
}

impl Drop for Notifiers {
    fn drop(&mut self) {
        self.end();
        drop(self.their_lives.take());
        let idle = std::mem::take(&mut *self.idle());
        drop(idle.sockets);
        let refusing = *self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
        for child in idle.children.into_iter().chain([refusing]) {
            while matches!(waitpid(Some(child), WaitOptions::empty()), Err(Errno::INTR)) {}
        }
    }
}

impl Notifiers {
    /// Start the first notifier, and the process that refuses requests after the mount's death.
    ///
    /// # Errors
    /// They cannot be started: `/dev/fuse` cannot be opened, or is not the device of `device`.
    pub(crate) fn start(device: BorrowedFd<'_>) -> io::Result<Notifiers> {
        let (our_end, life) = pipe_with(PipeFlags::CLOEXEC)?;
        let (their_ends, their_lives) = pipe_with(PipeFlags::CLOEXEC)?;
        let refusing = start_refusing(device, &our_end, &their_ends)?;
        let notifiers = Notifiers {
            device: device.try_clone_to_owned()?,
            life: Mutex::new(Some(life)),
            our_end,
            their_lives: Some(their_lives),
            their_ends,
            refusing: Mutex::new(refusing),
            idle: Mutex::default(),
            returned: Condvar::new(),
        };
        let first = notifiers.start_one()?;
        notifiers.give_back(first);
        Ok(notifiers)
    }

    /// The mount answers no more requests: requests that notifiers wait for are refused.
    pub(crate) fn end(&self) {
        drop(
            self.life
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    /// Restart the process that refuses requests, if it was killed.
    pub(crate) fn look_after(&self) {
        let life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refusing = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = || matches!(waitpid(Some(*refusing), WaitOptions::NOHANG), Ok(None));
        if life.is_none() || is_there() {
            return;
        }
        // If this fails, the next check tries again.
        if let Ok(anew) = start_refusing(self.device.as_fd(), &self.our_end, &self.their_ends) {
            *refusing = anew;
        }
    }

    fn start_one(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // The default buffer of the system may be smaller than a batch.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&ours, 2 * MAX_BATCH_BYTES);
        let own = clone_device(self.device.as_fd())?;
        let their_lives = self.their_lives.as_ref().ok_or(Errno::BADF)?;
        let mut buffer = vec![0; MAX_BATCH_BYTES];
        let notifier = fork_off([&theirs, &own, their_lives], |[socket, own, _]| {
            send_batches(socket, own, &mut buffer);
        })?;
        let mut idle = self.idle();
        idle.started += 1;
        idle.children.push(notifier);
        Ok(ours)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, socket: OwnedFd) {
        self.idle().sockets.push(socket);
        self.returned.notify_one();
    }

    fn take(&self) -> OwnedFd {
        let mut idle = self.idle();
        loop {
            if let Some(socket) = idle.sockets.pop() {
                return socket;
            }
            if idle.started < MAX_MESSENGERS {
                drop(idle);
                if let Ok(socket) = self.start_one() {
                    return socket;
                }
                idle = self.idle();
            }
            let waited = self.returned.wait_timeout(idle, TRY_AGAIN);
            idle = waited.map_or_else(|error| error.into_inner().0, |waited| waited.0);
        }
    }

    /// Send the kernel some notifications, one after the other. Returns the errno of the last, 0: none. Blocks as long
    /// as one of them blocks.
    pub(crate) fn send(&self, notifications: &[u8]) -> i32 {
        let mut answer = [0; ANSWER_BYTES];
        loop {
            let socket = self.take();
            let sent = rustix::net::send(&socket, notifications, SendFlags::NOSIGNAL);
            let received = sent.and_then(|_| {
                loop {
                    match rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty()) {
                        Err(Errno::INTR) => {}
                        received => return received.map(|(_, bytes)| bytes),
                    }
                }
            });
            if received == Ok(ANSWER_BYTES) {
                self.give_back(socket);
                return i32::from_ne_bytes(answer);
            }
            // The notifier was killed, or there was no memory for the message. Sending it twice does no harm.
            self.idle().started -= 1;
            std::thread::sleep(TRY_AGAIN);
        }
    }
}

/// How long at least requests are refused after the mount's death. `fusermount3 -o auto_unmount` detaches a mount only
/// if it then answers `ENOTCONN`. A connection that is just being closed does not.
const UNTIL_NOTICED: Duration = Duration::from_secs(1);
const LOOK_AT_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Wait between attempts while no notifier can be started.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Another descriptor of the connection with a queue of its own.
fn clone_device(device: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let own = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    let number = device.as_raw_fd() as u32;
    // SAFETY: the argument is the address of a number that outlives the call.
    match unsafe { libc::ioctl(own.as_raw_fd(), CLONE_DEVICE, &raw const number) } {
        0 => Ok(own),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Run `body` in a child process that has these descriptors and no others.
fn fork_off(
    descriptors: [&OwnedFd; 3],
    body: impl FnOnce([BorrowedFd<'static>; 3]),
) -> io::Result<Pid> {
    use std::os::fd::AsRawFd;
    let numbers = descriptors.map(|descriptor| descriptor.as_raw_fd());
    // SAFETY: the child makes only system calls, on memory that was there before, and ends.
    let child = unsafe {
        match libc::fork() {
            0 => {
                live_alone(numbers);
                body([0, 1, 2].map(|number| BorrowedFd::borrow_raw(number)));
                libc::_exit(0)
            }
            child => child,
        }
    };
    let error = io::Error::last_os_error();
    Pid::from_raw(child).filter(|_| child > 0).ok_or(error)
}

/// Keep these descriptors, as 0 to 2, and no signals of a terminal.
///
/// # Safety
/// In a forked child, which uses no descriptor that anything else owns.
unsafe fn live_alone(numbers: [i32; 3]) {
    // SAFETY: plain system calls on numbers; the set is filled before it is used.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"egeria-notify".as_ptr());
        // First move them away from each other's numbers.
        let high = numbers.map(|number| libc::fcntl(number, libc::F_DUPFD, 16));
        for (to, from) in (0..).zip(high) {
            libc::dup2(from, to);
        }
        if libc::close_range(3, u32::MAX, 0) != 0 {
            // Linux before 5.9, or `close_range` is forbidden.
            let end = libc::sysconf(libc::_SC_OPEN_MAX).min(1 << 20) as i32;
            (3..end).for_each(|number| _ = libc::close(number));
        }
        libc::chdir(c"/".as_ptr());
        unmap_shared();
    }
}

/// Unmap all that other processes may have mapped, too. The pools could not be used elsewhere, and the file systems of mapped
/// files not be unmounted, as long as this process lives.
///
/// # Safety
/// In a forked child, which uses only private memory.
unsafe fn unmap_shared() {
    let Ok(map) = rustix::fs::open("/proc/self/maps", OFlags::RDONLY, Mode::empty()) else {
        return;
    };
    let mut lines = MapLines::default();
    let mut text = [0; 4096];
    while let Ok(bytes @ 1..) = rustix::io::read(&map, &mut text) {
        for &byte in &text[..bytes] {
            if let Some((start, end)) = lines.shared_at(byte) {
                // SAFETY: by the contract, nothing here uses these addresses.
                unsafe { libc::munmap(start as *mut libc::c_void, end - start) };
            }
        }
    }
}

/// Reads lines such as `7f52c4a00000-7f52c4a01000 rw-s 00000000 00:01 7 /file`, byte by byte and without an allocation.
#[derive(Default)]
struct MapLines {
    start: usize,
    end: usize,
    /// Of the line.
    bytes: usize,
    /// Bytes up to the end of the first address, and of the second; 0: not yet.
    dash: usize,
    space: usize,
}

impl MapLines {
    /// The range of a shared mapping, at the byte that says that it is one.
    fn shared_at(&mut self, byte: u8) -> Option<(usize, usize)> {
        if byte == b'\n' {
            *self = MapLines::default();
            return None;
        }
        self.bytes += 1;
        match byte {
            b'-' if self.dash == 0 => self.dash = self.bytes,
            b' ' if self.space == 0 => self.space = self.bytes,
            _ if self.space == 0 => {
                let digit = (byte as char).to_digit(16)? as usize;
                let address = if self.dash == 0 {
                    &mut self.start
                } else {
                    &mut self.end
                };
                *address = *address << 4 | digit;
            }
            b's' if self.bytes == self.space + 4 => return Some((self.start, self.end)),
            _ => {}
        }
        None
    }
}

/// A notifier, until the mount closes its socket.
fn send_batches(socket: BorrowedFd<'_>, device: BorrowedFd<'_>, buffer: &mut [u8]) {
    loop {
        let bytes = match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((_, bytes)) if bytes > 0 => bytes,
            Err(Errno::INTR) => continue,
            _ => return,
        };
        let mut rest = &buffer[..bytes];
        let mut error = 0i32;
        while let Some(length) = rest.first_chunk::<4>() {
            let length = u32::from_ne_bytes(*length) as usize;
            let Some(one) = rest.get(..length).filter(|one| one.len() >= HEADER_BYTES) else {
                return;
            };
            error = match rustix::io::write(device, one) {
                Ok(_) => 0,
                Err(error) => error.raw_os_error(),
            };
            rest = &rest[length..];
        }
        let answer = error.to_ne_bytes();
        if rustix::net::send(socket, &answer, SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

fn start_refusing(
    device: BorrowedFd<'_>,
    our_end: &OwnedFd,
    their_ends: &OwnedFd,
) -> io::Result<Pid> {
    let own = clone_device(device)?;
    let mut buffer = vec![0; REQUEST_BYTES];
    fork_off([our_end, &own, their_ends], |[life, own, lives]| {
        refuse_after_death(life, own, lives, &mut buffer);
    })
}

/// Wait for the mount's death, and refuse requests until the notifiers have ended.
fn refuse_after_death(
    life: BorrowedFd<'_>,
    device: BorrowedFd<'_>,
    their_lives: BorrowedFd<'_>,
    buffer: &mut [u8],
) {
    let mut byte = [0; 1];
    while rustix::io::read(life, &mut byte) == Err(Errno::INTR) {}
    let died = Instant::now();
    let mut are_through = false;
    while !are_through || died.elapsed() < UNTIL_NOTICED {
        let mut events = [
            PollFd::from_borrowed_fd(device, PollFlags::IN),
            PollFd::from_borrowed_fd(their_lives, PollFlags::IN),
        ];
        // After the notifiers ended, `poll` would report that at every call.
        let awaited = if are_through { 1 } else { 2 };
        match poll(&mut events[..awaited], Some(&LOOK_AT_TIME)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        are_through |= events[1].revents().contains(PollFlags::HUP);
        if events[0].revents().contains(PollFlags::ERR) {
            return;
        }
        if events[0].revents().contains(PollFlags::IN) && !refuse_one(device, buffer) {
            return;
        }
    }
}

/// `false`: the connection is over.
fn refuse_one(device: BorrowedFd<'_>, buffer: &mut [u8]) -> bool {
    let bytes = match rustix::io::read(device, &mut *buffer) {
        Ok(bytes) => bytes,
        // The request was interrupted.
        Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => return true,
        Err(_) => return false,
    };
    if bytes < REQUEST_HEADER_BYTES {
        return false;
    }
    let mut operation = [0; 4];
    operation.copy_from_slice(&buffer[4..8]);
    if [FORGET, INTERRUPT, BATCH_FORGET].contains(&u32::from_ne_bytes(operation)) {
        return true;
    }
    let mut answer = [0; HEADER_BYTES];
    answer[..4].copy_from_slice(&(HEADER_BYTES as u32).to_ne_bytes());
    answer[4..8].copy_from_slice(&(-libc::ENOTCONN).to_ne_bytes());
    answer[8..].copy_from_slice(&buffer[8..16]);
    let _ = rustix::io::write(device, &answer);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_mappings_are_found_in_a_map() {
        let map = "55d0c0a00000-55d0c0a01000 r-xp 00000000 fe:00 7 /a -s s\n\
            7f52c4a00000-7f52c4b00000 rw-s 00000000 fe:00 8 /pool\n\
            7f52c4b00000-7f52c4b01000 ---p 00000000 00:00 0 \n\
            7f52c4b01000-7f52c4b03000 r--s 00000000 00:01 9 /memfd:x (deleted)\n";
        let mut lines = MapLines::default();
        let found = map.bytes().filter_map(|byte| lines.shared_at(byte));
        let wanted = [
            (0x7f52_c4a0_0000, 0x7f52_c4b0_0000),
            (0x7f52_c4b0_1000, 0x7f52_c4b0_3000),
        ];
        assert!(found.eq(wanted));
    }
}
