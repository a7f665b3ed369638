//! Handles of files (`name_to_handle_at`), which NFS servers give to their clients.
//!
//! A handle is a number and a generation. It stays valid when the kernel forgets the inode, and when the volume is
//! mounted again. The kernel finds its inode in two ways, and both are look-ups without a name in a directory:
//!
//! - `.` of an inode that it may have forgotten. The request has the number alone, and the kernel compares the
//!   generation in the answer.
//! - `..` of a directory, for the path to the directory.

use crate::leases::{self, Asker};
use crate::operations::names::Found;
use crate::replies::convert;
use crate::state::adapter::Adapter;
use crate::state::known::Held;
use egeria_engine::{Attributes, Errno, InodeNumber, Outcome};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

impl Adapter {
    /// `None`: it is the look-up of a name.
    pub(crate) fn look_up_for_handle(
        &self,
        ino: InodeNumber,
        name: &OsStr,
        asker: Asker,
    ) -> Option<Outcome<Found>> {
        match name.as_bytes() {
            b"." => Some(self.look_up_number(ino, asker)),
            b".." => Some(self.look_up_parent(ino, asker)),
            _ => None,
        }
    }

    /// `ESTALE` also for a file without a name, unless a process past the kernel has it open: the kernel finds what it
    /// has open itself.
    fn look_up_number(&self, ino: InodeNumber, asker: Asker) -> Outcome<Found> {
        let held = Held::of_number(&self.volume, ino)?;
        let found = self.volume.attributes(held.ino)?;
        // The mount may have it open a moment longer than its kernel.
        if found.nlink == 0 && !self.volume.is_open_past_kernel(held.ino) {
            return Err(Errno(libc::ESTALE));
        }
        self.unnamed(&found, asker)
    }

    fn look_up_parent(&self, directory: InodeNumber, asker: Asker) -> Outcome<Found> {
        let held = self.known.hold(&self.volume, directory)?;
        let found = self.volume.lookup(held.ino, b"..")?;
        self.unnamed(&found, asker)
    }

    /// The answer about an inode that the kernel finds without a name.
    fn unnamed(&self, found: &Attributes, asker: Asker) -> Outcome<Found> {
        if found.ino == InodeNumber::ROOT {
            // The kernel never forgets it, so it is not counted either.
            return Ok(Found::once(&self.volume, found));
        }
        let is_new = self.known.add_lookup(&self.volume, found)?;
        let shown = self.leased_attributes(found.ino, is_new, asker);
        let shown = shown.inspect_err(|_| self.known.forget(&self.volume, found.ino, 1));
        let (attributes, granted) = shown?;
        Ok(Found {
            entry: convert::entry(&self.volume, &attributes),
            name_validity: Duration::ZERO,
            attribute_validity: leases::attribute_validity(granted.is_some(), &attributes),
        })
    }
}
