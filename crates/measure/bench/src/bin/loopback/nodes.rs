//! The inodes the kernel knows, and where they are in the source directory.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

/// The kernel's number of the root; every other inode has that of its source.
pub const ROOT: u64 = 1;

/// A directory of the source, and a name in it.
pub struct Place {
    pub parent: Arc<OwnedFd>,
    /// The name in it; `.` of the directory itself.
    pub name: OsString,
}

pub struct Nodes {
    nodes: RwLock<HashMap<u64, Node>>,
}

struct Node {
    /// Lookups answered with it that the kernel has not forgotten.
    lookups: u64,
    /// Parents and names it is known by; none once all of those are removed.
    names: Vec<(u64, OsString)>,
    /// Of a directory: itself.
    directory: Option<Arc<OwnedFd>>,
}

impl Nodes {
    pub fn of(source: &Path) -> io::Result<Nodes> {
        let root = openat(CWD, source, directory_flags(), Mode::empty())?;
        let node = Node {
            lookups: 1,
            names: Vec::new(),
            directory: Some(Arc::new(root)),
        };
        Ok(Nodes {
            nodes: RwLock::new(HashMap::from([(ROOT, node)])),
        })
    }

    /// A name in a directory the kernel knows.
    pub fn below(&self, parent: u64, name: &OsStr) -> Result<Place, Errno> {
        Ok(Place {
            parent: self.directory(parent)?,
            name: name.to_owned(),
        })
    }

    /// Where an inode the kernel knows is.
    pub fn place(&self, ino: u64) -> Result<Place, Errno> {
        let nodes = self.read();
        let node = nodes.get(&ino).ok_or(Errno::STALE)?;
        if let Some(directory) = &node.directory {
            return Ok(Place {
                parent: Arc::clone(directory),
                name: ".".into(),
            });
        }
        let (parent, name) = node.names.last().ok_or(Errno::NOENT)?;
        let parent = nodes.get(parent).and_then(|node| node.directory.as_ref());
        Ok(Place {
            parent: Arc::clone(parent.ok_or(Errno::NOENT)?),
            name: name.clone(),
        })
    }

    /// Looks a name up, and counts the lookup.
    pub fn look_up(&self, parent: u64, name: &OsStr) -> Result<Stat, Errno> {
        let place = self.below(parent, name)?;
        let facts = statat(&place.parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_directory = FileType::from_raw_mode(facts.st_mode).is_dir();
        if let Some(node) = self.write().get_mut(&facts.st_ino) {
            node.lookups += 1;
            node.add_name(parent, name);
            return Ok(facts);
        }
        let directory = if is_directory {
            Some(openat(
                &place.parent,
                name,
                directory_flags(),
                Mode::empty(),
            )?)
        } else {
            None
        };
        let mut nodes = self.write();
        let node = nodes.entry(facts.st_ino).or_insert_with(|| Node {
            lookups: 0,
            names: Vec::new(),
            directory: directory.map(Arc::new),
        });
        node.lookups += 1;
        node.add_name(parent, name);
        Ok(facts)
    }

    /// The kernel forgot this many lookups of it.
    pub fn forget(&self, ino: u64, times: u64) {
        let mut nodes = self.write();
        if let Some(node) = nodes.get_mut(&ino).filter(|_| ino != ROOT) {
            node.lookups = node.lookups.saturating_sub(times);
            if node.lookups == 0 {
                nodes.remove(&ino);
            }
        }
    }

    /// The known inode with this name in the source.
    pub fn named(&self, place: &Place) -> Option<u64> {
        let facts = statat(&place.parent, &place.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(facts.st_ino)
    }

    /// An inode lost a name.
    pub fn unnamed(&self, ino: u64, parent: u64, name: &OsStr) {
        if let Some(node) = self.write().get_mut(&ino) {
            node.names
                .retain(|(at, known)| *at != parent || known != name);
        }
    }

    /// An inode got a name.
    pub fn renamed(&self, ino: u64, parent: u64, name: &OsStr) {
        if let Some(node) = self.write().get_mut(&ino) {
            node.add_name(parent, name);
        }
    }

    fn directory(&self, ino: u64) -> Result<Arc<OwnedFd>, Errno> {
        let nodes = self.read();
        let node = nodes.get(&ino).ok_or(Errno::STALE)?;
        node.directory.clone().ok_or(Errno::NOTDIR)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<u64, Node>> {
        self.nodes
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<u64, Node>> {
        self.nodes
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Node {
    fn add_name(&mut self, parent: u64, name: &OsStr) {
        if !self
            .names
            .iter()
            .any(|(at, known)| *at == parent && known == name)
        {
            self.names.push((parent, name.to_owned()));
        }
    }
}

fn directory_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}
