//! Playing the kernel: requests go down a socket, replies are awaited and what they name is remembered.

use super::super::subject::Observations;
use egeria_engine::Volume;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_socket_send_buffer_size, set_socket_send_buffer_size_force};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(super) const FORGET: u32 = 2;
const INIT: u32 = 26;
const CREATE: u32 = 35;
pub(super) const BATCH_FORGET: u32 = 42;
const OPEN: u32 = 14;
const OPENDIR: u32 = 27;
/// Opcodes answered with an entry: LOOKUP, SYMLINK, MKNOD, MKDIR, LINK, CREATE.
const ENTRIES: [u32; 6] = [1, 6, 8, 9, 13, CREATE];
pub(super) const HEADER_BYTES: usize = 40;
/// Size of an entry in a reply.
const ENTRY_BYTES: usize = 128;
const REPLY_BYTES: usize = 16;
/// How long a reply is waited for; the mount may wait for its kernel itself for a while.
const PATIENCE: Duration = Duration::from_secs(20);
/// Room for requests and replies on their way.
const SOCKET_BYTES: usize = 4 << 20;

/// A request without its number.
pub(super) struct Request {
    pub(super) opcode: u32,
    pub(super) node: u64,
    pub(super) owner: (u32, u32),
    pub(super) body: Vec<u8>,
}

impl fmt::Display for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, shown) = (self.body.len(), self.body.len().min(96));
        write!(
            out,
            "opcode {} on node {} by {:?}, {count} bytes:",
            self.opcode, self.node, self.owner
        )?;
        for byte in &self.body[..shown] {
            write!(out, " {byte:02x}")?;
        }
        Ok(())
    }
}

/// The kernel's side of a mount.
pub(super) struct Kernel {
    socket: Option<OwnedFd>,
    server: Option<JoinHandle<()>>,
    next: u64,
    /// Opcodes of requests without a reply yet.
    waiting: HashMap<u64, u32>,
    /// Inodes and open files that replies named.
    pub(super) nodes: Vec<u64>,
    pub(super) handles: Vec<u64>,
    buffer: Vec<u8>,
}

impl Kernel {
    /// Have a volume served.
    pub(super) fn mount(volume: Arc<Volume>, read_only: bool) -> Result<Kernel, String> {
        let failed = |error: io::Error| format!("no socket to play the kernel on: {error}");
        let (ours, theirs) = pair().map_err(failed)?;
        let mut kernel = Kernel {
            socket: Some(ours),
            server: None,
            next: 2,
            waiting: HashMap::new(),
            nodes: vec![1],
            handles: vec![0],
            buffer: vec![0; SOCKET_BYTES],
        };
        let mut hello = [0; 64];
        let words = [7u32, 40, 1 << 20, !(1u32 << 30)];
        for (place, word) in hello.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let hello = Request {
            opcode: INIT,
            node: 0,
            owner: (0, 0),
            body: hello.to_vec(),
        };
        kernel.send(&hello).map_err(failed)?;
        let serve = move || _ = egeria_mount::serve_socket(volume, theirs, read_only);
        let server = std::thread::Builder::new().spawn(serve).map_err(failed)?;
        kernel.server = Some(server);
        kernel.settle(&mut Observations::default())?;
        Ok(kernel)
    }

    /// Ask, and take the replies that are there.
    pub(super) fn ask(
        &mut self,
        request: Request,
        observed: &mut Observations,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("the mount ended: {error}");
        match self.send(&request) {
            Ok(()) => {}
            // More than fits a message: the kernel would not either.
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {}
            Err(error) => return Err(failed(error)),
        }
        self.settle(observed)
    }

    /// Wait until everything is answered.
    pub(super) fn settle(&mut self, observed: &mut Observations) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !self.waiting.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let opcodes: Vec<u32> = self.waiting.values().copied().collect();
                return Err(format!("no reply to requests of opcodes {opcodes:?}"));
            }
            self.take_reply(left, observed)?;
        }
        Ok(())
    }

    /// The mount ends.
    pub(super) fn unmount(mut self) -> Result<(), String> {
        self.socket = None;
        match self.server.take().map(JoinHandle::join) {
            Some(Err(_)) => Err("the serving thread panicked".to_owned()),
            _ => Ok(()),
        }
    }

    fn send(&mut self, request: &Request) -> io::Result<()> {
        let number = self.next;
        // Numbers of requests are even.
        self.next += 2;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + request.body.len());
        let length = (HEADER_BYTES + request.body.len()) as u32;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&request.opcode.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&request.node.to_le_bytes());
        bytes.extend_from_slice(&request.owner.0.to_le_bytes());
        bytes.extend_from_slice(&request.owner.1.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&request.body);
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        send(socket, &bytes, SendFlags::NOSIGNAL)?;
        if request.opcode != FORGET && request.opcode != BATCH_FORGET {
            self.waiting.insert(number, request.opcode);
        }
        Ok(())
    }

    fn take_reply(
        &mut self,
        patience: Duration,
        observed: &mut Observations,
    ) -> Result<(), String> {
        let socket = self.socket.as_ref().ok_or("unmounted")?;
        let mut watched = [PollFd::new(socket, PollFlags::IN)];
        let patience = Timespec::try_from(patience).ok();
        if !poll(&mut watched, patience.as_ref()).is_ok_and(|ready| ready > 0) {
            return Ok(());
        }
        let received = recv(socket, &mut self.buffer[..], RecvFlags::empty());
        let received = received.map_or(0, |(filled, _)| filled);
        if received == 0 {
            return Err("the mount ended early".to_owned());
        }
        let bytes = &self.buffer[..received];
        if bytes.len() < REPLY_BYTES || word32(bytes, 0) as usize != bytes.len() {
            return Err(format!("a reply of {} bytes says otherwise", bytes.len()));
        }
        let (error, number) = (word32(bytes, 4) as i32, word64(bytes, 8));
        if number == 0 {
            observed.record("a notice");
            return Ok(());
        }
        let opcode = self.waiting.remove(&number);
        let opcode = opcode.ok_or_else(|| format!("a reply to {number}, which nobody asked"))?;
        observed.line(|| format!("reply to opcode {opcode}: {error}, {} bytes", bytes.len()));
        observed.record(&format!(
            "{} {}",
            letters(opcode),
            letters(error.unsigned_abs())
        ));
        if !(-4095..=0).contains(&error) || (error != 0 && bytes.len() != REPLY_BYTES) {
            return Err(format!(
                "reply {error} of {} bytes to opcode {opcode}",
                bytes.len()
            ));
        }
        if error == 0 {
            let reply = bytes[REPLY_BYTES..].to_vec();
            self.remember(opcode, &reply);
        }
        Ok(())
    }

    fn remember(&mut self, opcode: u32, reply: &[u8]) {
        if ENTRIES.contains(&opcode) && reply.len() >= ENTRY_BYTES {
            self.nodes.push(word64(reply, 0));
        }
        let handle = match opcode {
            OPEN | OPENDIR => reply.get(..8),
            CREATE => reply.get(ENTRY_BYTES..ENTRY_BYTES + 8),
            _ => None,
        };
        self.handles.extend(handle.map(|bytes| word64(bytes, 0)));
    }
}

/// Words whose numbers count must be of letters.
fn letters(number: u32) -> String {
    let digit = |digit: char| char::from(b'a' + digit.to_digit(10).unwrap_or(0) as u8);
    number.to_string().chars().map(digit).collect()
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// Two ends of a socket that keeps messages apart, as the kernel's device does.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    let ends = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    for end in [&ends.0, &ends.1] {
        // Where it is refused, large replies are errors of the mount.
        let _ = set_socket_send_buffer_size_force(end, SOCKET_BYTES)
            .or_else(|_| set_socket_send_buffer_size(end, SOCKET_BYTES));
    }
    Ok(ends)
}
