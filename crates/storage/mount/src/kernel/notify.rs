//! Notifications that make the kernel forget cached data. Those of fuser neither expire an entry nor report whether
//! the kernel knew the inode, so they are written here.

use crate::kernel::notifiers::{MAX_BATCH_BYTES, Notifiers};
use egeria_engine::InodeNumber;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

// From the kernel's include/uapi/linux/fuse.h.
const NOTIFY_INVAL_INODE: i32 = 2;
const NOTIFY_INVAL_ENTRY: i32 = 3;
const EXPIRE_ONLY: u32 = 1;

/// Stands for "attributes alone" where a first byte is expected.
const NO_PAGES: i64 = -1;

/// How the kernel forgets a cached name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    /// It is removed. Descriptors that were opened by it show it as deleted.
    Dropped,
    /// The kernel asks for it at its next use.
    Expired,
}

/// The connection to the kernel.
pub(crate) struct Kernel {
    device: OwnedFd,
    notifiers: io::Result<Notifiers>,
    waits_for_lookups: bool,
}

/// Notifications to send, in order.
pub(crate) struct Forgetting<'a> {
    kernel: &'a Kernel,
    notifications: Vec<u8>,
}

impl Kernel {
    /// For a descriptor of the connection.
    pub(crate) fn new(device: OwnedFd) -> Kernel {
        Kernel {
            notifiers: Notifiers::start(device.as_fd()),
            device,
            waits_for_lookups: waits_for_lookups(),
        }
    }

    /// Whether a request is there to be read, or the connection has ended.
    pub(crate) fn has_request(&self) -> bool {
        self.has(PollFlags::IN | PollFlags::ERR | PollFlags::HUP)
    }

    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has(PollFlags::ERR | PollFlags::HUP)
    }

    fn has(&self, flags: PollFlags) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut device = [PollFd::new(&self.device, PollFlags::IN)];
        poll(&mut device, Some(&now)).is_ok() && device[0].revents().intersects(flags)
    }

    /// The mount answers no more requests.
    pub(crate) fn end(&self) {
        if let Ok(notifiers) = &self.notifiers {
            notifiers.end();
        }
    }

    /// Check the notifiers; called from time to time.
    pub(crate) fn look_after_notifiers(&self) {
        if let Ok(notifiers) = &self.notifiers {
            notifiers.look_after();
        }
    }

    /// Whether the kernel can be notified to forget names.
    pub(crate) fn can_forget_names(&self) -> bool {
        self.notifiers.is_ok()
    }

    /// Whether the kernel searches the directory for a name it does not know only when no look-up holds the directory.
    pub(crate) fn waits_for_lookups(&self) -> bool {
        self.waits_for_lookups
    }

    /// Forget the attributes of an inode; false when the kernel has no such inode (yet). Waits for nothing.
    pub(crate) fn forget_attributes(&self, ino: InodeNumber) -> bool {
        let notification = about_inode(ino, NO_PAGES);
        rustix::io::write(&self.device, &notification) != Err(Errno::NOENT)
    }

    /// Forget the listing of a directory. Waits for nothing: no request is made while a page of it is locked.
    pub(crate) fn forget_listing(&self, directory: InodeNumber) {
        let notification = about_inode(directory, 0);
        let _ = rustix::io::write(&self.device, &notification);
    }

    /// Forget the attributes of an inode, and its pages from an offset on; length 0: to the end. Waits until pages
    /// that are being read are there, and those that are being written have been taken.
    pub(crate) fn forget_pages(&self, ino: InodeNumber, offset_bytes: i64, length_bytes: i64) {
        let notification = about_range(ino, offset_bytes, length_bytes);
        match &self.notifiers {
            Ok(notifiers) => _ = notifiers.send(&notification),
            // If the mount is killed during this write, programs stay blocked on its answers.
            Err(_) => _ = rustix::io::write(&self.device, &notification),
        }
    }

    /// Begin to collect notifications.
    pub(crate) fn forgetting(&self) -> Forgetting<'_> {
        Forgetting {
            kernel: self,
            notifications: Vec::new(),
        }
    }

    fn send(&self, notifications: &[u8]) -> i32 {
        match &self.notifiers {
            Ok(notifiers) => notifiers.send(notifications),
            // In this case the kernel never got names.
            Err(_) => libc::ENOENT,
        }
    }
}

impl Forgetting<'_> {
    /// Forget a name in a directory.
    pub(crate) fn name(&mut self, directory: InodeNumber, name: &[u8], how: Name) {
        let flags = match how {
            Name::Dropped => 0,
            Name::Expired => EXPIRE_ONLY,
        };
        let mut body = Vec::with_capacity(17 + name.len());
        body.extend(directory.0.to_ne_bytes());
        body.extend((name.len() as u32).to_ne_bytes());
        body.extend(flags.to_ne_bytes());
        body.extend(name);
        body.push(0);
        let notification = notification(NOTIFY_INVAL_ENTRY, &body);
        if self.notifications.len() + notification.len() > MAX_BATCH_BYTES {
            self.send();
        }
        self.notifications.extend(notification);
    }

    /// Send the kernel the collected notifications. Waits until no look-up and no change in their directories is under
    /// way, if the kernel has the first name or [`Kernel::waits_for_lookups`]. Errors mean that there is nothing to
    /// forget.
    pub(crate) fn send(&mut self) {
        if !self.notifications.is_empty() {
            self.kernel.send(&self.notifications);
            self.notifications.clear();
        }
    }

    /// Forget the attributes of an inode and its pages or listing as well; false when the kernel has no such inode
    /// (yet). Waits until pages that are being read are there.
    pub(crate) fn contents(&mut self, ino: InodeNumber) -> bool {
        let notification = about_inode(ino, 0);
        if self.notifications.len() + notification.len() > MAX_BATCH_BYTES {
            self.send();
        }
        // In one batch, because it must follow the other notifications at once.
        self.notifications.extend(notification);
        let error = self.kernel.send(&self.notifications);
        self.notifications.clear();
        error != libc::ENOENT
    }
}

fn about_inode(ino: InodeNumber, offset_bytes: i64) -> Vec<u8> {
    about_range(ino, offset_bytes, 0)
}

fn about_range(ino: InodeNumber, offset_bytes: i64, length_bytes: i64) -> Vec<u8> {
    let mut body = [0; 24];
    body[..8].copy_from_slice(&ino.0.to_ne_bytes());
    body[8..16].copy_from_slice(&offset_bytes.to_ne_bytes());
    body[16..].copy_from_slice(&length_bytes.to_ne_bytes());
    notification(NOTIFY_INVAL_INODE, &body)
}

/// Adds the header: length, code, and 0 where a reply names its request.
fn notification(code: i32, body: &[u8]) -> Vec<u8> {
    const HEADER_BYTES: usize = 16;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    bytes.extend(code.to_ne_bytes());
    bytes.extend(0u64.to_ne_bytes());
    bytes.extend(body);
    bytes
}

/// Linux 6.19 looks for the name before it locks the directory.
fn waits_for_lookups() -> bool {
    let release = rustix::system::uname();
    let mut numbers = release
        .release()
        .to_str()
        .unwrap_or_default()
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next(), numbers.next());
    version < (Some(6), Some(19))
}
