//! Connections, all served by one thread: little is read of each, and not for long. A silent client keeps no other
//! client out: when there are too many, the connection that has been silent longest is closed.

use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::request::{Asked, Site, response, understood};

const MAX_REQUEST_BYTES: usize = 8192;
/// For a request to arrive, and again for its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_CONNECTIONS: usize = 64;

/// Where connections come from; none of its calls blocks.
pub(super) enum Listener {
    Port(TcpListener),
    Socket(UnixListener),
}

impl Listener {
    fn accept(&self) -> io::Result<File> {
        let stream: OwnedFd = match self {
            Listener::Port(listener) => listener.accept()?.0.into(),
            Listener::Socket(listener) => listener.accept()?.0.into(),
        };
        rustix::io::ioctl_fionbio(&stream, true)?;
        Ok(stream.into())
    }

    /// A browser asks a port of this machine also for pages of elsewhere.
    fn checks_host(&self) -> bool {
        matches!(self, Listener::Port(_))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Port(listener) => listener.as_fd(),
            Listener::Socket(listener) => listener.as_fd(),
        }
    }
}

/// Answers until the other end of the pipe is closed.
pub(super) fn serve(listener: &Listener, end: &PipeReader, site: &dyn Site) {
    let mut open: Vec<Connection> = Vec::new();
    loop {
        let Ok(ready) = wait(listener, end, &open) else {
            // No memory, for instance: that passes.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let [comes, ends, ready @ ..] = &ready[..] else {
            return;
        };
        if *ends {
            return;
        }
        for (connection, _) in open.iter_mut().zip(ready).filter(|(_, ready)| **ready) {
            connection.go_on(listener.checks_host(), site);
        }
        let now = Instant::now();
        open.retain(|connection| !connection.is_over && connection.until > now);
        if *comes {
            take_in(listener, &mut open);
        }
    }
}

/// Which of them can go on, in the order of arguments; waits until one can, or a connection's time is over.
fn wait(listener: &Listener, end: &PipeReader, open: &[Connection]) -> io::Result<Vec<bool>> {
    let mut polled = vec![
        PollFd::new(listener, PollFlags::IN),
        PollFd::new(end, PollFlags::IN),
    ];
    polled.extend(open.iter().map(Connection::polled));
    let until = open.iter().map(|connection| connection.until).min();
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // A millisecond more, so that the time is over then.
    let left = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
    match poll(&mut polled, left.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|one| !one.revents().is_empty()).collect())
}

/// Takes in one connection, in the place of another where there are too many, or too few descriptors.
fn take_in(listener: &Listener, open: &mut Vec<Connection>) {
    let accepted = listener.accept();
    if open.len() >= MAX_CONNECTIONS || accepted.is_err() {
        let silent = open
            .iter()
            .position(|connection| connection.answer.is_none());
        // They stand in the order in which they came.
        let oldest = silent.or((!open.is_empty()).then_some(0));
        oldest.map(|oldest| open.remove(oldest));
    }
    match accepted {
        Ok(stream) => open.push(Connection::new(stream)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => std::thread::sleep(Duration::from_millis(10)),
    }
}

struct Connection {
    stream: File,
    until: Instant,
    request: Vec<u8>,
    /// What is left of the answer, once it was asked for.
    answer: Option<Vec<u8>>,
    is_over: bool,
}

impl Connection {
    fn new(stream: File) -> Connection {
        Connection {
            stream,
            until: Instant::now() + PATIENCE,
            request: Vec::new(),
            answer: None,
            is_over: false,
        }
    }

    fn polled(&self) -> PollFd<'_> {
        let flags = match self.answer {
            None => PollFlags::IN,
            Some(_) => PollFlags::OUT,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Reads or writes what can be, without waiting.
    fn go_on(&mut self, checks_host: bool, site: &dyn Site) {
        if self.answer.is_none() {
            self.read(checks_host, site);
        }
        if self.answer.is_some() {
            self.write();
        }
    }

    fn read(&mut self, checks_host: bool, site: &dyn Site) {
        let mut room = [0; 1024];
        match self.stream.read(&mut room) {
            Ok(length @ 1..) => self.request.extend_from_slice(&room[..length]),
            Err(error) if is_for_later(&error) => return,
            Ok(0) | Err(_) => {
                self.is_over = true;
                return;
            }
        }
        let asked = match understood(&self.request, checks_host) {
            None if self.request.len() >= MAX_REQUEST_BYTES => Asked::Nonsense,
            None => return,
            Some(asked) => asked,
        };
        self.answer = Some(response(&asked, site));
        self.until = Instant::now() + PATIENCE;
    }

    fn write(&mut self) {
        let Some(answer) = &mut self.answer else {
            return;
        };
        match self.stream.write(answer) {
            Ok(length) => {
                answer.drain(..length);
                self.is_over = answer.is_empty() || length == 0;
            }
            Err(error) => self.is_over = !is_for_later(&error),
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
