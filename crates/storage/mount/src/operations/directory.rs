//! Listing directories, and the space of the volume.
//!
//! The kernel may keep the listing of a directory that has a lease.

use crate::replies::convert;
use crate::state::adapter::Adapter;
use egeria_engine::{DirectoryEntry, Outcome};
use fuser::{INodeNo, ReplyDirectory};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

impl Adapter {
    /// Fill the reply with entries after the cookie. A stream ends at the entries that existed when it began, or was
    /// rewound. Otherwise a program that renames entries while reading would never finish.
    pub(crate) fn list(&self, handle: u64, cookie: u64, reply: &mut ReplyDirectory) -> Outcome<()> {
        let directory = self.files.get(handle)?;
        if directory.keeps_listing {
            let (ino, is_beginning) = (directory.ino, cookie == 0);
            let is_covered = self.leases.cover_listing(ino, is_beginning);
            self.leases
                .read_listing(ino, (handle, is_beginning), is_covered, &self.kernel);
        }
        if cookie == 0 {
            let end = self.volume.directory_end(directory.ino)?;
            directory.end_cookie.store(end, Ordering::Relaxed);
        }
        let end = directory.end_cookie.load(Ordering::Relaxed);
        let mut is_at_end = true;
        let mut add = |entry: &DirectoryEntry<'_>| {
            is_at_end = false;
            let kind = convert::file_type(entry.kind);
            let name = OsStr::from_bytes(entry.name);
            !reply.add(INodeNo(entry.ino.0), entry.cookie, kind, name)
        };
        self.volume
            .read_directory_until(directory.ino, cookie, end, &mut add)?;
        if directory.keeps_listing && is_at_end {
            self.leases.end_listing(directory.ino, handle, &self.kernel);
        }
        Ok(())
    }
}
