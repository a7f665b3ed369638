//! Receiving a tree into a new directory. The stream is not trusted: it makes nothing outside that directory, and the directory has
//! its name only when all of the stream was read.

mod place;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::{Outcome, TransferError};
use crate::stream::{Begin, Entry, Frame, Inode, LeadsTo, StreamReader};
use place::{Base, Kind, Staging};

/// Longest target of a symbolic link.
const MAX_TARGET_BYTES: u64 = 4095;
/// Largest file of any file system that is used here.
const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// What was received.
#[derive(Debug)]
pub struct Received {
    /// Of the stream.
    pub id: Uuid,
    pub base: Option<Uuid>,
    /// Files, directories, symbolic links and the like.
    pub inodes: u64,
    /// That came with the stream.
    pub data_bytes: u64,
    /// That were copied from the base.
    pub copied_bytes: u64,
    /// Owners, extended attributes and devices that cannot be set or made here.
    pub left_out: u64,
    /// Whether a stream of what changes later can be received on top.
    pub can_be_base: bool,
}

/// Receive a stream into a directory that is made for it. `base`: what an earlier stream was received into, for a stream that has
/// only what changed since. It stays as it is. `progress` gets the number of inodes so far.
///
/// # Errors
/// What stopped it; nothing is left then.
pub fn receive(
    from: impl Read,
    directory: &Path,
    base: Option<&Path>,
    progress: &mut dyn FnMut(u64),
) -> Outcome<Received> {
    let (mut reader, begin) = StreamReader::begin(from)?;
    let base = base_of(&begin, base)?;
    let mut receiver = Receiver {
        staging: Staging::next_to(directory)?,
        base,
        places: HashMap::new(),
        directories: Vec::new(),
        parent: None,
        current: None,
        received: Received {
            id: Uuid::from_bytes(begin.id),
            base: begin.base.map(Uuid::from_bytes),
            inodes: 0,
            data_bytes: 0,
            copied_bytes: 0,
            left_out: 0,
            can_be_base: false,
        },
    };
    loop {
        match reader.frame()? {
            Frame::Entry(entry) => {
                receiver.finish_current()?;
                receiver.entry(entry)?;
                progress(receiver.received.inodes);
            }
            Frame::Data {
                offset_bytes,
                bytes,
            } => receiver.data(offset_bytes, &bytes)?,
            Frame::Hole {
                offset_bytes,
                length_bytes,
            } => receiver.hole(offset_bytes, length_bytes)?,
            Frame::End => break,
            Frame::Begin(_) | Frame::Known(_) => {
                return Err(TransferError::Damaged("it is no stream of a tree"));
            }
        }
    }
    reader.check_end()?;
    receiver.end(directory)
}

fn base_of(begin: &Begin, base: Option<&Path>) -> Outcome<Option<Base>> {
    match (begin.base.map(Uuid::from_bytes), base) {
        (None, _) => Ok(None),
        (Some(id), None) => Err(TransferError::NeedsBase(id)),
        (Some(id), Some(path)) => Base::open(path, id).map(Some),
    }
}

/// An inode that has got its first name.
#[derive(Clone)]
struct Placed {
    /// From the top on; empty: the top.
    path: PathBuf,
    is_directory: bool,
}

/// The entry that the next data belongs to.
enum Current {
    File {
        file: File,
        path: PathBuf,
        inode: Inode,
    },
    Symlink {
        parent: u64,
        name: Vec<u8>,
        path: PathBuf,
        target: Vec<u8>,
        inode: Inode,
    },
}

struct Receiver {
    staging: Staging,
    base: Option<Base>,
    /// `None`: it cannot be made here.
    places: HashMap<u64, Option<Placed>>,
    /// In the order in which they were made: their times are set last.
    directories: Vec<(PathBuf, Inode)>,
    /// The directory that the last name went to.
    parent: Option<(u64, OwnedFd)>,
    current: Option<Current>,
    received: Received,
}

impl Receiver {
    fn entry(&mut self, entry: Entry) -> Outcome<()> {
        if self.places.is_empty() {
            return self.top(entry);
        }
        check_name(&entry.name)?;
        let Entry {
            parent,
            name,
            ino,
            leads_to,
        } = entry;
        let path = self.directory(parent)?.path.join(place::name_of(&name));
        if let LeadsTo::Link = leads_to {
            return self.link(parent, &name, &path, ino);
        }
        if self.places.contains_key(&ino) {
            return Err(TransferError::Damaged("an inode comes twice"));
        }
        self.received.inodes += 1;
        let (inode, base_file) = match leads_to {
            LeadsTo::Inode(inode) => (inode, None),
            LeadsTo::Changed { inode, base } => (inode, Some(base)),
            LeadsTo::Link => return Ok(()),
        };
        let kind =
            Kind::of(inode.mode).ok_or(TransferError::Damaged("a kind of file is unknown"))?;
        let mut is_made = true;
        match (kind, base_file) {
            (Kind::File, base_file) => {
                if inode.size_bytes > MAX_FILE_BYTES {
                    return Err(TransferError::Damaged("a file is too large"));
                }
                self.open_parent(parent)?;
                let file = self.staging.make_file(self.parent_fd()?, &name, &path)?;
                self.received.left_out += self.staging.set_xattrs(&file, &inode)?;
                if let Some(base_file) = base_file {
                    let base = self.base.as_ref();
                    let base = base.ok_or(TransferError::Damaged("it needs no base"))?;
                    self.received.copied_bytes += base.copy(&base_file, &file)?;
                }
                self.current = Some(Current::File {
                    file,
                    path: path.clone(),
                    inode,
                });
            }
            (_, Some(_)) => return Err(TransferError::Damaged("what is no file has a base")),
            (Kind::Symlink, None) => {
                if inode.size_bytes > MAX_TARGET_BYTES {
                    return Err(TransferError::Damaged("a symbolic link is too long"));
                }
                self.current = Some(Current::Symlink {
                    parent,
                    name,
                    path: path.clone(),
                    target: Vec::new(),
                    inode,
                });
            }
            (Kind::Directory, None) => {
                self.open_parent(parent)?;
                let made = self
                    .staging
                    .make_directory(self.parent_fd()?, &name, &path)?;
                self.received.left_out += self.staging.set_xattrs(&made, &inode)?;
                self.directories.push((path.clone(), inode));
            }
            (Kind::Other, None) => {
                self.open_parent(parent)?;
                let parent = self.parent_fd()?;
                is_made = self.staging.make_node(parent, &name, &path, &inode)?;
                self.received.left_out += if is_made {
                    self.staging.finish_node(&path, &inode)?
                } else {
                    1
                };
            }
        }
        let placed = Placed {
            path,
            is_directory: kind == Kind::Directory,
        };
        self.places.insert(ino, is_made.then_some(placed));
        Ok(())
    }

    fn top(&mut self, entry: Entry) -> Outcome<()> {
        let LeadsTo::Inode(inode) = entry.leads_to else {
            return Err(TransferError::Damaged("its top is no directory"));
        };
        if Kind::of(inode.mode) != Some(Kind::Directory) || !entry.name.is_empty() {
            return Err(TransferError::Damaged("its top is no directory"));
        }
        self.received.inodes += 1;
        let top = self.staging.directory(Path::new(""))?;
        self.received.left_out += self.staging.set_xattrs(&top, &inode)?;
        self.directories.push((PathBuf::new(), inode));
        let placed = Placed {
            path: PathBuf::new(),
            is_directory: true,
        };
        self.places.insert(entry.ino, Some(placed));
        Ok(())
    }

    fn link(&mut self, parent: u64, name: &[u8], path: &Path, ino: u64) -> Outcome<()> {
        match self.places.get(&ino) {
            Some(Some(placed)) if !placed.is_directory => {
                let existing = placed.path.clone();
                self.open_parent(parent)?;
                self.staging.link(&existing, self.parent_fd()?, name, path)
            }
            Some(None) => Ok(()),
            _ => Err(TransferError::Damaged("a link leads to nothing")),
        }
    }

    fn directory(&self, ino: u64) -> Outcome<&Placed> {
        let placed = self.places.get(&ino).and_then(Option::as_ref);
        placed
            .filter(|placed| placed.is_directory)
            .ok_or(TransferError::Damaged("a name is in no directory"))
    }

    fn open_parent(&mut self, ino: u64) -> Outcome<()> {
        if self.parent.as_ref().is_none_or(|(open, _)| *open != ino) {
            let path = self.directory(ino)?.path.clone();
            self.parent = Some((ino, self.staging.directory(&path)?));
        }
        Ok(())
    }

    fn parent_fd(&self) -> Outcome<&OwnedFd> {
        let parent = self.parent.as_ref();
        Ok(&parent
            .ok_or(TransferError::Damaged("a name is in no directory"))?
            .1)
    }

    fn data(&mut self, offset_bytes: u64, bytes: &[u8]) -> Outcome<()> {
        let end = offset_bytes.checked_add(bytes.len() as u64);
        let fits = |inode: &Inode| end.is_some_and(|end| end <= inode.size_bytes);
        match &mut self.current {
            Some(Current::File { file, path, inode }) if fits(inode) => {
                self.received.data_bytes += bytes.len() as u64;
                self.staging.write(file, path, offset_bytes, bytes)
            }
            Some(Current::Symlink { target, inode, .. })
                if fits(inode) && offset_bytes == target.len() as u64 =>
            {
                target.extend(bytes);
                Ok(())
            }
            _ => Err(TransferError::Damaged("data belongs to no file")),
        }
    }

    fn hole(&mut self, offset_bytes: u64, length_bytes: u64) -> Outcome<()> {
        let end = offset_bytes.checked_add(length_bytes);
        match &self.current {
            Some(Current::File { file, path, inode })
                if end.is_some_and(|end| end <= inode.size_bytes) && length_bytes > 0 =>
            {
                (self.staging).write_zeros(file, path, offset_bytes, length_bytes)
            }
            _ => Err(TransferError::Damaged("a hole belongs to no file")),
        }
    }

    fn finish_current(&mut self) -> Outcome<()> {
        match self.current.take() {
            None => Ok(()),
            Some(Current::File { file, path, inode }) => {
                self.received.left_out += self.staging.finish_file(&file, &path, &inode)?;
                Ok(())
            }
            Some(Current::Symlink {
                parent,
                name,
                path,
                target,
                inode,
            }) => {
                self.open_parent(parent)?;
                let parent = self.parent_fd()?;
                self.staging.make_symlink(parent, &name, &path, &target)?;
                self.received.left_out += self.staging.finish_node(&path, &inode)?;
                Ok(())
            }
        }
    }

    fn end(mut self, directory: &Path) -> Outcome<Received> {
        self.finish_current()?;
        if self.places.is_empty() {
            return Err(TransferError::Damaged("it has no tree"));
        }
        for (path, inode) in self.directories.iter().rev() {
            self.received.left_out += self.staging.finish_directory(path, inode)?;
        }
        self.received.can_be_base = self.staging.mark(self.received.id);
        self.staging.publish(directory)?;
        Ok(self.received)
    }
}

/// A name that leads to nothing but an entry of its directory.
fn check_name(name: &[u8]) -> Outcome<()> {
    let is_plain = !name.is_empty()
        && name.len() <= 255
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, 0 | b'/'));
    if is_plain {
        Ok(())
    } else {
        Err(TransferError::Damaged("a name is none"))
    }
}
