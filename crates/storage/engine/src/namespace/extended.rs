//! Extended attributes, read without waiting for a thread that changes the inode.

use crate::format::LayoutWord;
use crate::log::Log;
use crate::log::xattrs::Xattrs;
use crate::namespace::Lookups;
use crate::space::striping;
use crate::types::*;
use std::sync::atomic::Ordering;

/// A file's values for Egeria's own attributes; a directory stores them like other attributes.
pub(super) struct OfFile {
    pub(super) has_sums: bool,
    pub(super) layout: Option<Vec<u8>>,
}

impl Lookups<'_> {
    pub(super) fn look_at_xattrs(self, ino: InodeNumber) -> Outcome<(Xattrs, Option<OfFile>)> {
        let is_directory = |mode| FileKind::from_mode(mode) == Some(FileKind::Directory);
        Log::of(self.volume).read_unlocked(
            ino.0,
            |inode, place| {
                let of_file = OfFile {
                    has_sums: inode.checksums.load(Ordering::Relaxed) != 0,
                    layout: striping::value_of(LayoutWord(inode.layout.load(Ordering::Relaxed))),
                };
                let is_directory = is_directory(inode.mode.load(Ordering::Relaxed));
                let all = Log::of(self.volume).xattrs(inode, place)?;
                Ok((all, (!is_directory).then_some(of_file)))
            },
            || {
                let (all, born) = Log::of(self.volume).committed_xattrs(ino.0)?;
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
