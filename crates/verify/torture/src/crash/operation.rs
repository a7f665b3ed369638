//! The grammar: one call of the file API on a small tree, in a form that can be saved and run again.

use egeria_engine::*;
use egeria_media::PoolIndex;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// One operation, by path.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[allow(missing_docs)]
pub enum Operation {
    /// A new regular file.
    Create { path: String },
    /// A new directory.
    Mkdir { path: String },
    /// A symbolic link whose target has so many bytes.
    Symlink { path: String, bytes: usize },
    /// One more name.
    Link { from: String, to: String },
    /// One name less.
    Unlink { path: String },
    /// An empty directory less.
    Rmdir { path: String },
    /// A name moves, over what has the new name.
    Rename { from: String, to: String },
    /// A name moves, unless the new name is taken.
    RenameNew { from: String, to: String },
    /// Two names change places.
    Exchange { from: String, to: String },
    /// Bytes at an offset.
    Write { path: String, at: u64, bytes: usize },
    /// Bytes at the end.
    Append { path: String, bytes: usize },
    /// Another size.
    Truncate { path: String, bytes: u64 },
    /// Blocks reserved, the file grows.
    Reserve { path: String, at: u64, bytes: u64 },
    /// Blocks reserved, the size stays.
    ReserveBehind { path: String, at: u64, bytes: u64 },
    /// A hole.
    Punch { path: String, at: u64, bytes: u64 },
    /// Zeros, the file may grow.
    Zero { path: String, at: u64, bytes: u64 },
    /// Other permissions.
    Chmod { path: String, mode: u32 },
    /// Another owner.
    Chown { path: String, uid: u32 },
    /// Permissions, owner, size and times at once.
    Attributes { path: String },
    /// Other times.
    Utimens { path: String, time_ns: i64 },
    /// An extended attribute of so many bytes.
    SetXattr {
        path: String,
        name: String,
        bytes: usize,
    },
    /// An extended attribute less.
    RemoveXattr { path: String, name: String },
    /// Checksums for what is made in a directory from now on, or none.
    Checksums { path: String, value: String },
    /// Where the data goes of a file, or of what is made in a directory from now on.
    Layout { path: String, value: String },
    /// What of a file lies on one pool goes to another.
    Relocate { path: String, from: u8, to: u8 },
    /// The last name of a file goes while it is open; it stays open.
    UnlinkOpen { path: String },
    /// A write to the file that [`Operation::UnlinkOpen`] left.
    WriteOpen { at: u64, bytes: usize },
    /// The last close of that file.
    CloseOpen,
}

/// As [`Operation::from_str`] reads it.
impl fmt::Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Operation::*;
        match self {
            Create { path } => write!(out, "create {path}"),
            Mkdir { path } => write!(out, "mkdir {path}"),
            Symlink { path, bytes } => write!(out, "symlink {path} {bytes}"),
            Link { from, to } => write!(out, "link {from} {to}"),
            Unlink { path } => write!(out, "unlink {path}"),
            Rmdir { path } => write!(out, "rmdir {path}"),
            Rename { from, to } => write!(out, "rename {from} {to}"),
            RenameNew { from, to } => write!(out, "rename-new {from} {to}"),
            Exchange { from, to } => write!(out, "exchange {from} {to}"),
            Write { path, at, bytes } => write!(out, "write {path} {at} {bytes}"),
            Append { path, bytes } => write!(out, "append {path} {bytes}"),
            Truncate { path, bytes } => write!(out, "truncate {path} {bytes}"),
            Reserve { path, at, bytes } => write!(out, "reserve {path} {at} {bytes}"),
            ReserveBehind { path, at, bytes } => write!(out, "reserve-behind {path} {at} {bytes}"),
            Punch { path, at, bytes } => write!(out, "punch {path} {at} {bytes}"),
            Zero { path, at, bytes } => write!(out, "zero {path} {at} {bytes}"),
            Chmod { path, mode } => write!(out, "chmod {path} {mode:o}"),
            Chown { path, uid } => write!(out, "chown {path} {uid}"),
            Attributes { path } => write!(out, "attributes {path}"),
            Utimens { path, time_ns } => write!(out, "utimens {path} {time_ns}"),
            SetXattr { path, name, bytes } => write!(out, "setxattr {path} {name} {bytes}"),
            RemoveXattr { path, name } => write!(out, "removexattr {path} {name}"),
            Checksums { path, value } => write!(out, "checksums {path} {value}"),
            Layout { path, value } => write!(out, "layout {path} {value}"),
            Relocate { path, from, to } => write!(out, "relocate {path} {from} {to}"),
            UnlinkOpen { path } => write!(out, "unlink-open {path}"),
            WriteOpen { at, bytes } => write!(out, "write-open {at} {bytes}"),
            CloseOpen => write!(out, "close-open"),
        }
    }
}

/// The attribute that gives what is made in a directory checksums.
pub(super) const CHECKSUMS: &[u8] = b"user.egeria.checksum";
/// The attribute that says where data goes.
pub(super) const LAYOUT: &[u8] = b"user.egeria.layout";
/// Most bytes that one operation writes.
const MAX_BYTES: usize = 1 << 20;

/// The words of an operation's text.
struct Words<'t>(std::str::SplitWhitespace<'t>);

impl Words<'_> {
    fn text(&mut self) -> Result<String, String> {
        self.0
            .next()
            .map(str::to_owned)
            .ok_or_else(|| "a word is missing".into())
    }

    fn number<T: FromStr>(&mut self) -> Result<T, String> {
        let word = self.text()?;
        word.parse()
            .map_err(|_| format!("{word} is no number here"))
    }

    /// Bytes that are made up in memory.
    fn bytes(&mut self) -> Result<usize, String> {
        match self.number()? {
            bytes if bytes <= MAX_BYTES => Ok(bytes),
            bytes => Err(format!(
                "{bytes} bytes are too many, the most is {MAX_BYTES}"
            )),
        }
    }

    fn octal(&mut self) -> Result<u32, String> {
        let word = self.text()?;
        u32::from_str_radix(&word, 8).map_err(|_| format!("{word} is no octal number"))
    }
}

impl FromStr for Operation {
    type Err = String;

    /// A verb and what it is about, as `write d/x 4000 100`.
    fn from_str(text: &str) -> Result<Operation, String> {
        use Operation::*;
        let mut words = Words(text.split_whitespace());
        let w = &mut words;
        let verb = w.text()?;
        let operation = match verb.as_str() {
            "create" => Create { path: w.text()? },
            "mkdir" => Mkdir { path: w.text()? },
            "symlink" => Symlink {
                path: w.text()?,
                bytes: w.bytes()?,
            },
            "link" => Link {
                from: w.text()?,
                to: w.text()?,
            },
            "unlink" => Unlink { path: w.text()? },
            "rmdir" => Rmdir { path: w.text()? },
            "rename" => Rename {
                from: w.text()?,
                to: w.text()?,
            },
            "rename-new" => RenameNew {
                from: w.text()?,
                to: w.text()?,
            },
            "exchange" => Exchange {
                from: w.text()?,
                to: w.text()?,
            },
            "write" => Write {
                path: w.text()?,
                at: w.number()?,
                bytes: w.bytes()?,
            },
            "append" => Append {
                path: w.text()?,
                bytes: w.bytes()?,
            },
            "truncate" => Truncate {
                path: w.text()?,
                bytes: w.number()?,
            },
            "reserve" => Reserve {
                path: w.text()?,
                at: w.number()?,
                bytes: w.number()?,
            },
            "reserve-behind" => ReserveBehind {
                path: w.text()?,
                at: w.number()?,
                bytes: w.number()?,
            },
            "punch" => Punch {
                path: w.text()?,
                at: w.number()?,
                bytes: w.number()?,
            },
            "zero" => Zero {
                path: w.text()?,
                at: w.number()?,
                bytes: w.number()?,
            },
            "chmod" => Chmod {
                path: w.text()?,
                mode: w.octal()?,
            },
            "chown" => Chown {
                path: w.text()?,
                uid: w.number()?,
            },
            "attributes" => Attributes { path: w.text()? },
            "utimens" => Utimens {
                path: w.text()?,
                time_ns: w.number()?,
            },
            "setxattr" => SetXattr {
                path: w.text()?,
                name: w.text()?,
                bytes: w.bytes()?,
            },
            "removexattr" => RemoveXattr {
                path: w.text()?,
                name: w.text()?,
            },
            "checksums" => Checksums {
                path: w.text()?,
                value: w.text()?,
            },
            "layout" => Layout {
                path: w.text()?,
                value: w.text()?,
            },
            "relocate" => Relocate {
                path: w.text()?,
                from: w.number()?,
                to: w.number()?,
            },
            "unlink-open" => UnlinkOpen { path: w.text()? },
            "write-open" => WriteOpen {
                at: w.number()?,
                bytes: w.bytes()?,
            },
            "close-open" => CloseOpen,
            _ => return Err(format!("{verb} is no operation")),
        };
        match words.0.next() {
            None => Ok(operation),
            Some(word) => Err(format!("{word} is too much")),
        }
    }
}

impl TryFrom<String> for Operation {
    type Error = String;

    fn try_from(text: String) -> Result<Operation, String> {
        text.parse()
            .map_err(|why| format!("operation \"{text}\": {why}"))
    }
}

impl From<Operation> for String {
    fn from(operation: Operation) -> String {
        operation.to_string()
    }
}

/// The clock of one step and of the next are so far apart.
const STEP_NS: i64 = 1_000_000;

/// Who runs operations: an attachment, and the unlinked file it holds open.
pub(crate) struct Actor<'v> {
    pub(super) volume: &'v Volume,
    held: Option<InodeNumber>,
}

impl<'v> Actor<'v> {
    pub(crate) fn new(volume: &'v Volume) -> Actor<'v> {
        Actor { volume, held: None }
    }

    /// Run one; `step` tells contents and times of the steps of a sequence apart.
    pub(crate) fn run(&mut self, operation: &Operation, step: usize) -> Outcome<()> {
        use Operation::*;
        let volume = self.volume;
        volume.set_clock((step as i64 + 1) * STEP_NS);
        volume.set_home_pool((step % volume.pools().len()) as u8);
        let seed = step as u8;
        match operation {
            Create { path } => made(volume, path, libc::S_IFREG | 0o644),
            Mkdir { path } => made(volume, path, libc::S_IFDIR | 0o755),
            Symlink { path, bytes } => {
                let (parent, name) = place(volume, path)?;
                let target = vec![b'/'; *bytes];
                volume.symlink(parent, name, &target, 0, 0).map(drop)
            }
            Link { from, to } => {
                let (parent, name) = place(volume, to)?;
                volume.link(ino(volume, from)?, parent, name).map(drop)
            }
            Unlink { path } => {
                let (parent, name) = place(volume, path)?;
                volume.unlink(parent, name)
            }
            Rmdir { path } => {
                let (parent, name) = place(volume, path)?;
                volume.remove_directory(parent, name)
            }
            Rename { from, to } => renamed(volume, from, to, RenameMode::Replace),
            RenameNew { from, to } => renamed(volume, from, to, RenameMode::NoReplace),
            Exchange { from, to } => renamed(volume, from, to, RenameMode::Exchange),
            UnlinkOpen { path } => self.unlink_open(path),
            WriteOpen { at, bytes } => {
                let held = self.held.ok_or(Errno(libc::EBADF))?;
                written(volume, held, *at, &content(seed, *bytes))
            }
            CloseOpen => {
                volume.close(self.held.take().ok_or(Errno(libc::EBADF))?);
                Ok(())
            }
            change => changed(volume, change, seed),
        }
    }

    fn unlink_open(&mut self, path: &str) -> Outcome<()> {
        if self.held.is_some() {
            return Err(Errno(libc::EBUSY));
        }
        let (parent, name) = place(self.volume, path)?;
        let ino = ino(self.volume, path)?;
        self.volume.open(ino, None)?;
        match self.volume.unlink(parent, name) {
            Ok(()) => self.held = Some(ino),
            Err(errno) => {
                self.volume.close(ino);
                return Err(errno);
            }
        }
        Ok(())
    }
}

/// Operations that change one file.
fn changed(volume: &Volume, operation: &Operation, seed: u8) -> Outcome<()> {
    use Operation::*;
    let attributes = |path: &str, change: AttributeChange| {
        let ino = ino(volume, path)?;
        volume.set_attributes(ino, &change).map(drop)
    };
    let allocated = |path: &str, at, bytes, mode| {
        opened(volume, ino(volume, path)?, |file| {
            volume.allocate(file, at, bytes, mode)
        })
    };
    let change = AttributeChange::default();
    match operation {
        Write { path, at, bytes } => {
            written(volume, ino(volume, path)?, *at, &content(seed, *bytes))
        }
        Append { path, bytes } => opened(volume, ino(volume, path)?, |file| {
            volume.append(file, &content(seed, *bytes)).map(drop)
        }),
        Truncate { path, bytes } => {
            let size_bytes = Some(*bytes);
            attributes(
                path,
                AttributeChange {
                    size_bytes,
                    ..change
                },
            )
        }
        Chmod { path, mode } => {
            let permissions = Some(*mode);
            attributes(
                path,
                AttributeChange {
                    permissions,
                    ..change
                },
            )
        }
        Chown { path, uid } => {
            let uid = Some(*uid);
            attributes(path, AttributeChange { uid, ..change })
        }
        Attributes { path } => attributes(
            path,
            AttributeChange {
                clears: 0,
                permissions: Some(0o6755),
                uid: Some(7),
                gid: Some(8),
                size_bytes: Some(777),
                atime: Some(TimeChange::At(1)),
                mtime: Some(TimeChange::At(2)),
            },
        ),
        Utimens { path, time_ns } => {
            let (atime, mtime) = (Some(TimeChange::At(*time_ns)), Some(TimeChange::Now));
            attributes(
                path,
                AttributeChange {
                    atime,
                    mtime,
                    ..change
                },
            )
        }
        Reserve { path, at, bytes } => allocated(path, *at, *bytes, AllocateMode::Extend),
        ReserveBehind { path, at, bytes } => allocated(path, *at, *bytes, AllocateMode::KeepSize),
        Punch { path, at, bytes } => allocated(path, *at, *bytes, AllocateMode::PunchHole),
        Zero { path, at, bytes } => allocated(path, *at, *bytes, AllocateMode::ZeroRange),
        SetXattr { path, name, bytes } => {
            let (ino, value) = (ino(volume, path)?, content(seed, *bytes));
            volume.set_xattr(ino, name.as_bytes(), &value, XattrMode::Any)
        }
        RemoveXattr { path, name } => volume.remove_xattr(ino(volume, path)?, name.as_bytes()),
        Checksums { path, value } => {
            let (ino, value) = (ino(volume, path)?, value.as_bytes());
            volume.set_xattr(ino, CHECKSUMS, value, XattrMode::Any)
        }
        Relocate { path, from, to } => opened(volume, ino(volume, path)?, |file| {
            let ends = (PoolIndex(*from), PoolIndex(*to));
            let mut block = 0;
            loop {
                let part = volume.relocate(file, block..u64::MAX, ends)?;
                if part.next_block <= block || part.moved_bytes == 0 {
                    return Ok(());
                }
                block = part.next_block;
            }
        }),
        Layout { path, value } => {
            let (ino, value) = (ino(volume, path)?, value.as_bytes());
            volume.set_xattr(ino, LAYOUT, value, XattrMode::Any)
        }
        _ => Err(Errno(libc::ENOSYS)),
    }
}

thread_local! {
    /// What paths meant when they were looked up, for operations that go on with that.
    static LOOKED_UP: RefCell<HashMap<String, InodeNumber>> = RefCell::default();
}

/// What the paths of an operation, and those above them, mean now.
pub(super) fn look_up(volume: &Volume, operation: &Operation) -> HashMap<String, InodeNumber> {
    let text = operation.to_string();
    let paths = text.split(' ').skip(1).flat_map(|path| {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        above.chain([path])
    });
    paths
        .filter_map(|path| Some((path.to_owned(), ino(volume, path).ok()?)))
        .collect()
}

/// Run `body`, in which paths mean what they meant when they were looked up.
pub(super) fn as_looked_up<T>(known: HashMap<String, InodeNumber>, body: impl FnOnce() -> T) -> T {
    LOOKED_UP.set(known);
    let result = body();
    LOOKED_UP.take();
    result
}

/// The inode at a path; the empty path is the root.
pub(super) fn ino(volume: &Volume, path: &str) -> Outcome<InodeNumber> {
    if let Some(known) = LOOKED_UP.with_borrow(|known| known.get(path).copied()) {
        return Ok(known);
    }
    let parts = path.split('/').filter(|part| !part.is_empty());
    let mut at = InodeNumber::ROOT;
    for part in parts {
        at = volume.lookup(at, part.as_bytes())?.ino;
    }
    Ok(at)
}

fn place<'p>(volume: &Volume, path: &'p str) -> Outcome<(InodeNumber, &'p [u8])> {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok((ino(volume, above)?, name.as_bytes()))
}

fn made(volume: &Volume, path: &str, mode: u32) -> Outcome<()> {
    let (parent, name) = place(volume, path)?;
    let new = NewInode {
        mode,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    volume.create(parent, name, &new).map(drop)
}

fn renamed(volume: &Volume, from: &str, to: &str, mode: RenameMode) -> Outcome<()> {
    let ((parent, name), (new_parent, new_name)) = (place(volume, from)?, place(volume, to)?);
    volume
        .rename(parent, name, new_parent, new_name, mode)
        .map(drop)
}

fn opened(
    volume: &Volume,
    ino: InodeNumber,
    body: impl FnOnce(FileReference) -> Outcome<()>,
) -> Outcome<()> {
    let file = volume.open(ino, None)?;
    let outcome = body(file);
    volume.close(ino);
    outcome
}

fn written(volume: &Volume, ino: InodeNumber, at: u64, bytes: &[u8]) -> Outcome<()> {
    opened(volume, ino, |file| match volume.write(file, at, bytes)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(Errno(libc::ENOSPC)),
    })
}

/// Bytes that differ from place to place and from step to step, none of them zero.
pub(super) fn content(seed: u8, count: usize) -> Vec<u8> {
    let byte = |at: usize| (at / 7) as u8 ^ (at as u8).wrapping_mul(31) ^ seed.wrapping_mul(97);
    (0..count).map(|at| byte(at).max(1)).collect()
}
