//! The control call: how a program with a descriptor on a mount learns which inode of which volume it refers to. The
//! mount answers one `ioctl`; all later calls bypass the kernel.

mod mounts;
mod serving;

pub use mounts::{MountLine, volume_mounts};
pub use serving::serving_user;

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

/// `_IOR('E', 1, ControlReply)`: what to pass to `ioctl` on a descriptor of a mount.
pub const CONTROL_REQUEST: u32 =
    (2 << 30) | ((size_of::<ControlReply>() as u32) << 16) | ((b'E' as u32) << 8) | 1;

/// `_IO('E', 2)`: the caller is about to map the file. Once it is answered, no process writes past the kernel until
/// the open file, and with it the last mapping, is released.
pub const MARK_REQUEST: u32 = ((b'E' as u32) << 8) | 2;

/// Send [`MARK_REQUEST`] to the mount that serves an open file.
///
/// # Errors
/// `ENOTTY` where no mount serves it, else as `ioctl(2)`.
pub fn mark(file: impl AsFd) -> std::io::Result<()> {
    let file = file.as_fd().as_raw_fd();
    // SAFETY: the request is `_IO`: the kernel passes no memory of this process on.
    match unsafe { libc::ioctl(file, MARK_REQUEST.into()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// `_IOWR('E', 3, NumberTicket)`: what to pass to `ioctl` on an open directory of a mount, to open an inode without
/// its names.
pub const TICKET_REQUEST: u32 =
    (3 << 30) | ((size_of::<NumberTicket>() as u32) << 16) | ((b'E' as u32) << 8) | 3;

/// The right to open a regular file once by its number, whatever its names are.
///
/// FUSE lets the kernel open an inode only by a name. The mount creates a random name, and the next `creat` of it in
/// the root opens the file. A ticket ends when it is used, or when the directory of its request is closed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NumberTicket {
    pub ino: u64,
    /// Reuse count of the inode number.
    pub generation: u32,
    pub reserved: u32,
    /// Answer: the name, [`TICKET_DIGITS`] bytes, followed by zeros.
    pub name: [u8; 40],
}

/// Hexadecimal digits in the name of a [`NumberTicket`].
pub const TICKET_DIGITS: usize = 32;

const _: () = assert!(size_of::<NumberTicket>() == 8 + 4 + 4 + 40);

impl NumberTicket {
    /// A request for a ticket for an inode.
    pub fn asking(ino: u64, generation: u32) -> NumberTicket {
        NumberTicket {
            ino,
            generation,
            reserved: 0,
            name: [0; 40],
        }
    }

    /// The ticket in a request; `None` when its size is wrong.
    pub fn of_request(bytes: &[u8]) -> Option<NumberTicket> {
        let (ino, rest) = bytes.split_first_chunk()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let is_whole = rest.len() == size_of::<NumberTicket>() - 12;
        let (ino, generation) = (u64::from_ne_bytes(*ino), u32::from_ne_bytes(*generation));
        is_whole.then(|| NumberTicket::asking(ino, generation))
    }

    /// The answer, with the name filled in.
    pub fn answer(mut self, digits: [u8; TICKET_DIGITS]) -> [u8; size_of::<NumberTicket>()] {
        self.name[..TICKET_DIGITS].copy_from_slice(&digits);
        let mut bytes = [0; size_of::<NumberTicket>()];
        bytes[..8].copy_from_slice(&self.ino.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.generation.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.name);
        bytes
    }

    /// Ask the mount that serves an open directory for a ticket.
    ///
    /// # Errors
    /// `EPERM` for another user than root and the one that serves the mount, `ENOTTY` where no mount serves it, else as
    /// `ioctl(2)`.
    pub fn ask(directory: impl AsFd, ino: u64, generation: u32) -> std::io::Result<NumberTicket> {
        let directory = directory.as_fd().as_raw_fd();
        let mut ticket = NumberTicket::asking(ino, generation);
        // SAFETY: the request is `_IOWR` of `NumberTicket`: the kernel reads and writes at most its size, in `ticket`,
        // and any bytes are one.
        match unsafe { libc::ioctl(directory, TICKET_REQUEST.into(), &raw mut ticket) } {
            0 => Ok(ticket),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// The name; `None` when the answer is no C string.
    pub fn name(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.name).ok()
    }
}

/// First word of a genuine reply.
pub const CONTROL_MAGIC: u64 = u64::from_le_bytes(*b"EGERIAC2");

/// No open-description slot was free: pass calls that move the file position to the kernel.
pub const NO_DESCRIPTION_SLOT: u32 = u32::MAX;

/// Answer to the control call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ControlReply {
    /// [`CONTROL_MAGIC`].
    pub magic: u64,
    pub volume: [u8; 16],
    pub ino: u64,
    /// Reuse count of the inode number.
    pub generation: u32,
    /// Slot of the open description, or [`NO_DESCRIPTION_SLOT`].
    pub description_slot: u32,
    /// Kind of the inode ([`crate::FileKind`] as u32).
    pub kind: u32,
    /// The mount refuses changes.
    pub read_only: u32,
    /// The session knows which inode numbers the kernel of this mount remembers, so names may be changed without the
    /// kernel.
    pub tracks_lookups: u32,
    pub reserved: u32,
    /// Process id of the mount.
    pub mount_pid: u32,
    /// Length of `pool_path`.
    pub pool_path_bytes: u32,
    /// Absolute path of pool 0, for attaching; not terminated.
    pub pool_path: [u8; 1024],
}

impl ControlReply {
    /// A reply that no mount gives.
    pub const EMPTY: ControlReply = ControlReply {
        magic: 0,
        volume: [0; 16],
        ino: 0,
        generation: 0,
        description_slot: 0,
        kind: 0,
        read_only: 0,
        tracks_lookups: 0,
        reserved: 0,
        mount_pid: 0,
        pool_path_bytes: 0,
        pool_path: [0; 1024],
    };

    /// Send the control call to the server of this file; [`ControlReply::magic`] and the caller decide whether it is a
    /// mount.
    ///
    /// # Errors
    /// `ENOTTY` where no mount serves it, else as `ioctl(2)`.
    pub fn ask(file: impl AsFd) -> std::io::Result<ControlReply> {
        let file = file.as_fd().as_raw_fd();
        let mut reply = ControlReply::EMPTY;
        // SAFETY: the request is `_IOR` of `ControlReply`: the kernel writes at most its size, into `reply`, and any
        // bytes are one.
        match unsafe { libc::ioctl(file, CONTROL_REQUEST.into(), &raw mut reply) } {
            0 => Ok(reply),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// The reply as bytes, for the mount's answer.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: repr(C) of integers and byte arrays without padding (asserted below).
        unsafe { std::slice::from_raw_parts((self as *const Self).cast(), size_of::<Self>()) }
    }

    /// The pool path, if its length is valid.
    pub fn pool_path(&self) -> Option<&[u8]> {
        self.pool_path.get(..self.pool_path_bytes as usize)
    }
}

const _: () = assert!(size_of::<ControlReply>() == 8 + 16 + 8 + 8 * 4 + 1024);
