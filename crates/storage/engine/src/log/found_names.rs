//! Names that were found in a directory, in its table or in its log.

use crate::format::LogPosition;
use crate::session::walks::Walk;
use crate::types::*;

/// A name found in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FoundName {
    pub(crate) ino: u64,
    pub(crate) kind: FileKind,
    pub(crate) position: LogPosition,
}

/// Range of cookies for the wanted names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieRange {
    pub(crate) after: u64,
    pub(crate) end: u64,
}

impl CookieRange {
    pub(crate) fn holds(self, cookie: u64) -> bool {
        cookie > self.after && cookie < self.end
    }
}

/// A few entries of a directory, in the order of their cookies.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) list: Vec<Name>,
    pub(crate) bytes: Vec<u8>,
    /// The directory has others after them.
    pub(crate) more: bool,
    pub(crate) walk: Option<Walk>,
}

pub(crate) struct Name {
    ino: u64,
    kind: FileKind,
    pub(crate) cookie: u64,
    from: usize,
    to: usize,
}

impl Names {
    /// Entries read in one pass: the fewer, the less often something changes during the pass.
    pub(crate) const MAX: usize = 128;
    pub(crate) const MAX_BUT_DOTS: u64 = Names::MAX as u64 - 2;

    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= Names::MAX
    }

    pub(crate) fn add(&mut self, ino: u64, kind: FileKind, cookie: u64, name: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(name);
        let to = self.bytes.len();
        self.list.push(Name {
            ino,
            kind,
            cookie,
            from,
            to,
        });
    }

    pub(crate) fn add_dots(&mut self, ino: u64, parent: u64, range: CookieRange) {
        for (cookie, ino, name) in [(1, ino, b".".as_slice()), (2, parent, b"..")] {
            if cookie > range.after {
                self.add(ino, FileKind::Directory, cookie, name);
            }
        }
    }

    pub(crate) fn entry(&self, name: &Name) -> DirectoryEntry<'_> {
        DirectoryEntry {
            ino: InodeNumber(name.ino),
            kind: name.kind,
            cookie: name.cookie,
            name: &self.bytes[name.from..name.to],
        }
    }
}

/// The kind of inode recorded with a name in a log.
pub(crate) fn kind_of(kind: u8) -> Option<FileKind> {
    use FileKind::*;
    [
        Regular,
        Directory,
        Symlink,
        Fifo,
        Socket,
        CharacterDevice,
        BlockDevice,
    ]
    .into_iter()
    .find(|known| *known as u8 == kind)
}
