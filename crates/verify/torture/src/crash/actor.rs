//! Operations, run on a volume.

use super::operation::Operation;
use egeria_engine::*;
use egeria_media::PoolIndex;
use std::cell::RefCell;
use std::collections::HashMap;

/// The attribute that gives what is made in a directory checksums.
pub(super) const CHECKSUMS: &[u8] = b"user.egeria.checksum";
/// The attribute that says where data goes.
pub(super) const LAYOUT: &[u8] = b"user.egeria.layout";
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
    if let Some((path, change)) = attribute_change(operation) {
        let ino = ino(volume, path)?;
        return volume.set_attributes(ino, &change).map(drop);
    }
    let allocated = |path: &str, at, bytes, mode| {
        opened(volume, ino(volume, path)?, |file| {
            volume.allocate(file, at, bytes, mode)
        })
    };
    let set = |path: &str, name: &[u8], value: &[u8]| {
        volume.set_xattr(ino(volume, path)?, name, value, XattrMode::Any)
    };
    match operation {
        Write { path, at, bytes } => {
            written(volume, ino(volume, path)?, *at, &content(seed, *bytes))
        }
        Append { path, bytes } => opened(volume, ino(volume, path)?, |file| {
            volume.append(file, &content(seed, *bytes)).map(drop)
        }),
        Reserve { path, at, bytes } => allocated(path, *at, *bytes, AllocateMode::Extend),
        ReserveBehind { path, at, bytes } => allocated(path, *at, *bytes, AllocateMode::KeepSize),
        Punch { path, at, bytes } => allocated(path, *at, *bytes, AllocateMode::PunchHole),
        Zero { path, at, bytes } => allocated(path, *at, *bytes, AllocateMode::ZeroRange),
        SetXattr { path, name, bytes } => set(path, name.as_bytes(), &content(seed, *bytes)),
        RemoveXattr { path, name } => volume.remove_xattr(ino(volume, path)?, name.as_bytes()),
        Checksums { path, value } => set(path, CHECKSUMS, value.as_bytes()),
        Layout { path, value } => set(path, LAYOUT, value.as_bytes()),
        Limit {
            path,
            bytes,
            inodes,
        } => {
            let given = |limit: u64| (limit != 0).then_some(limit);
            let limits = QuotaLimits {
                bytes: given(*bytes),
                inodes: given(*inodes),
            };
            let set = volume.set_quota(ino(volume, path)?, limits);
            set.map_err(|error| Errno(error.errno))
        }
        Unlimit { path } => {
            let removed = volume.remove_quota(ino(volume, path)?);
            removed.map_err(|error| Errno(error.errno))
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
        _ => Err(Errno(libc::ENOSYS)),
    }
}

/// What an operation changes of a file's attributes.
fn attribute_change(operation: &Operation) -> Option<(&str, AttributeChange)> {
    use Operation::*;
    let mut change = AttributeChange::default();
    let path = match operation {
        Truncate { path, bytes } => {
            change.size_bytes = Some(*bytes);
            path
        }
        Chmod { path, mode } => {
            change.permissions = Some(mode.0);
            path
        }
        Chown { path, uid } => {
            change.uid = Some(*uid);
            path
        }
        Utimens { path, time_ns } => {
            change.atime = Some(TimeChange::At(*time_ns));
            change.mtime = Some(TimeChange::Now);
            path
        }
        Attributes { path } => {
            change = AttributeChange {
                clears: 0,
                permissions: Some(0o6755),
                uid: Some(7),
                gid: Some(8),
                size_bytes: Some(777),
                atime: Some(TimeChange::At(1)),
                mtime: Some(TimeChange::At(2)),
            };
            path
        }
        _ => return None,
    };
    Some((path, change))
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
