//! Listing directories, and the space of the volume.
//!
//! READDIRPLUS is not offered: attributes that are stale at once would only be asked for again.

use crate::convert;
use crate::filesystem::Adapter;
use egeria_fs::Outcome;
use fuser::{INodeNo, ReplyDirectory};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

impl Adapter {
    /// Fill the reply with entries after the cookie.
    pub(crate) fn list(&self, handle: u64, cookie: u64, reply: &mut ReplyDirectory) -> Outcome<()> {
        let directory = self.files.get(handle)?;
        self.volume
            .read_directory(directory.ino, cookie, &mut |entry| {
                let kind = convert::file_type(entry.kind);
                let name = OsStr::from_bytes(entry.name);
                !reply.add(INodeNo(entry.ino.0), entry.cookie, kind, name)
            })
    }
}
