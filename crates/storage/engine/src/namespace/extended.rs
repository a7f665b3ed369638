//! Extended attributes, read without waiting for a thread that changes the inode.

use crate::format::LayoutWord;
use crate::log::checksums;
use crate::log::xattrs::Xattrs;
use crate::session::volume::Volume;
use crate::space::striping;
use crate::types::*;
use std::sync::atomic::Ordering;

/// A file's values for Egeria's own attributes; a directory stores them like other attributes.
struct OfFile {
    has_sums: bool,
    layout: Option<Vec<u8>>,
}

impl Volume {
    /// Extended attribute (`user.*`, also `trusted.*` and `security.*` as opaque bytes). Does not wait for other
    /// threads.
    ///
    /// # Errors
    /// `ENODATA` when it is absent; what [every operation](crate::Errno) can fail with.
    pub fn get_xattr(&self, ino: InodeNumber, name: &[u8]) -> Outcome<Vec<u8>> {
        let (mut all, of_file) = self.look_at_xattrs(ino)?;
        let value = match (name, of_file) {
            (checksums::ATTRIBUTE, Some(file)) => file.has_sums.then(|| checksums::ON.to_vec()),
            (striping::ATTRIBUTE, Some(file)) => file.layout,
            _ => all.remove(name),
        };
        value.ok_or(Errno(libc::ENODATA))
    }

    /// Names of all extended attributes. Does not wait for other threads.
    ///
    /// # Errors
    /// What [every operation](crate::Errno) can fail with.
    pub fn list_xattr(&self, ino: InodeNumber) -> Outcome<Vec<Vec<u8>>> {
        let (mut all, of_file) = self.look_at_xattrs(ino)?;
        if of_file.is_some() {
            // As for the checksum attribute: a copy made elsewhere should not try to set it.
            all.remove(striping::ATTRIBUTE);
        }
        Ok(all.into_keys().collect())
    }

    fn look_at_xattrs(&self, ino: InodeNumber) -> Outcome<(Xattrs, Option<OfFile>)> {
        let is_directory = |mode| FileKind::from_mode(mode) == Some(FileKind::Directory);
        self.read_unlocked(
            ino.0,
            |inode, place| {
                let of_file = OfFile {
                    has_sums: inode.checksums.load(Ordering::Relaxed) != 0,
                    layout: striping::value_of(LayoutWord(inode.layout.load(Ordering::Relaxed))),
                };
                let is_directory = is_directory(inode.mode.load(Ordering::Relaxed));
                let all = self.xattrs(inode, place)?;
                Ok((all, (!is_directory).then_some(of_file)))
            },
            || {
                let (all, born) = self.committed_xattrs(ino.0)?;
                let said = all.get(striping::ATTRIBUTE).cloned();
                let of_file = OfFile {
                    has_sums: born.checksums,
                    layout: said.or_else(|| striping::value_of(born.layout)),
                };
                Ok((all, (!is_directory(born.mode)).then_some(of_file)))
            },
        )
    }
}
