//! The model: inodes in a map, errnos as the engine documents them. It follows the engine only in the
//! numbers it gives to new inodes.

use super::content::Content;
use egeria_engine::{NewInode, RenameMode, XattrMode};
use std::collections::BTreeMap;

pub type Answer<T> = Result<T, i32>;
pub const ROOT: u64 = 1;
pub const CHECKSUM: &[u8] = b"user.egeria.checksum";
pub const CRC32C: &[u8] = b"crc32c";
pub const LAYOUT: &[u8] = b"user.egeria.layout";
/// Its values that are none.
pub const NO_LAYOUTS: [&[u8]; 3] = [b"", b"striped:5000", b"everywhere"];

pub enum Body {
    File(Content),
    Symlink(Vec<u8>),
    Directory(Directory),
    Special,
}

pub struct Directory {
    pub parent: u64,
    /// Name to inode, and a number that tells two entries of the same name apart.
    pub names: BTreeMap<Vec<u8>, (u64, u64)>,
    pub removed: bool,
}

pub struct Node {
    pub generation: u32,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    /// Names of what is not a directory.
    pub names: u32,
    pub opens: u32,
    pub body: Body,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Its data has checksums.
    pub checked: bool,
    /// Where a file's data goes: the attribute, which is not listed.
    pub layout: Option<Vec<u8>>,
    /// Access, modification, change: as the engine showed or was told.
    pub times_ns: [i64; 3],
}

/// Which times an operation sets to now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touched {
    pub ino: u64,
    pub times: [bool; 3],
}

#[derive(Default)]
pub struct Model {
    pub nodes: BTreeMap<u64, Node>,
    entries_made: u64,
    touched: Vec<Touched>,
}

fn check_new_name(name: &[u8]) -> Answer<()> {
    match name {
        _ if name.len() > 255 => Err(libc::ENAMETOOLONG),
        b"" => Err(libc::ENOENT),
        b"." | b".." => Err(libc::EEXIST),
        _ if name.contains(&b'/') || name.contains(&0) => Err(libc::EINVAL),
        _ => Ok(()),
    }
}

impl Node {
    pub fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    pub fn directory(&self) -> Answer<&Directory> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(libc::ENOTDIR),
        }
    }

    pub fn content(&self) -> Answer<&Content> {
        match &self.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(libc::EISDIR),
            _ => Err(libc::EINVAL),
        }
    }
}

impl Model {
    pub fn new(root: Node) -> Model {
        Model {
            nodes: BTreeMap::from([(ROOT, root)]),
            ..Model::default()
        }
    }

    pub fn take_touched(&mut self) -> Vec<Touched> {
        std::mem::take(&mut self.touched)
    }

    pub fn touch(&mut self, ino: u64, modified: bool) {
        let times = [false, modified, true];
        self.touched.push(Touched { ino, times });
    }

    pub fn touch_times(&mut self, ino: u64, times: [bool; 3]) {
        self.touched.push(Touched { ino, times });
    }

    pub fn node(&self, ino: u64) -> Answer<&Node> {
        self.nodes.get(&ino).ok_or(libc::ESTALE)
    }

    pub fn node_mut(&mut self, ino: u64) -> &mut Node {
        self.nodes.get_mut(&ino).expect("a node the model has")
    }

    /// A directory that still has its name.
    pub fn living(&self, ino: u64) -> Answer<&Directory> {
        let directory = self.node(ino)?.directory()?;
        if directory.removed {
            Err(libc::ENOENT)
        } else {
            Ok(directory)
        }
    }

    fn directory_mut(&mut self, ino: u64) -> &mut Directory {
        match &mut self.node_mut(ino).body {
            Body::Directory(directory) => directory,
            _ => panic!("a directory was looked at before"),
        }
    }

    pub fn content_mut(&mut self, ino: u64) -> &mut Content {
        match &mut self.node_mut(ino).body {
            Body::File(content) => content,
            _ => panic!("a regular file was looked at before"),
        }
    }

    pub fn subdirectories(&self, directory: &Directory) -> u32 {
        let inos = directory.names.values();
        inos.filter(|(ino, _)| self.nodes[ino].is_directory())
            .count() as u32
    }

    pub fn nlink(&self, ino: u64) -> u32 {
        match &self.nodes[&ino].body {
            Body::Directory(directory) if directory.removed => 0,
            Body::Directory(directory) => 2 + self.subdirectories(directory),
            _ => self.nodes[&ino].names,
        }
    }

    pub fn lookup(&self, parent: u64, name: &[u8]) -> Answer<u64> {
        if name.len() > 255 {
            return Err(libc::ENAMETOOLONG);
        }
        let directory = self.living(parent)?;
        match name {
            b"." => Ok(parent),
            b".." => Ok(directory.parent),
            _ => directory
                .names
                .get(name)
                .map(|(ino, _)| *ino)
                .ok_or(libc::ENOENT),
        }
    }

    fn put_name(&mut self, parent: u64, name: &[u8], ino: u64) {
        self.entries_made += 1;
        let entry = (ino, self.entries_made);
        self.directory_mut(parent)
            .names
            .insert(name.to_vec(), entry);
        if let Body::Directory(directory) = &mut self.node_mut(ino).body {
            directory.parent = parent;
        }
    }

    /// Whether a name can be made here.
    pub fn may_create(&self, parent: u64, name: &[u8]) -> Answer<()> {
        check_new_name(name)?;
        if self.living(parent)?.names.contains_key(name) {
            return Err(libc::EEXIST);
        }
        Ok(())
    }

    /// The new inode has this number and generation.
    pub fn created(
        &mut self,
        parent: u64,
        name: Option<&[u8]>,
        new: &NewInode,
        made: (u64, u32),
        body: Body,
    ) {
        let setgid = self.nodes[&parent].mode & libc::S_ISGID != 0;
        let is_directory = matches!(body, Body::Directory(_));
        let inherited = self.nodes[&parent].xattrs.get_key_value(CHECKSUM);
        let inherited = inherited.filter(|(_, value)| *value == CRC32C);
        let layout = self.nodes[&parent].xattrs.get_key_value(LAYOUT);
        let node = Node {
            generation: made.1,
            mode: new.mode
                | if setgid && is_directory {
                    libc::S_ISGID
                } else {
                    0
                },
            uid: new.uid,
            gid: if setgid {
                self.nodes[&parent].gid
            } else {
                new.gid
            },
            rdev: new.rdev,
            names: name.is_some() as u32,
            opens: 0,
            checked: inherited.is_some() && matches!(body, Body::File(_) | Body::Symlink(_)),
            layout: layout
                .filter(|_| matches!(body, Body::File(_)))
                .map(|(_, value)| value.clone()),
            xattrs: inherited
                .into_iter()
                .chain(layout)
                .filter(|_| is_directory)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            body,
            times_ns: [0; 3],
        };
        let old = self.nodes.insert(made.0, node);
        assert!(old.is_none(), "inode {} was given out twice", made.0);
        self.touch_times(made.0, [true; 3]);
        if let Some(name) = name {
            self.put_name(parent, name, made.0);
            self.touch(parent, true);
        }
    }

    pub fn link(&mut self, ino: u64, parent: u64, name: &[u8]) -> Answer<()> {
        self.may_create(parent, name)?;
        if self.node(ino)?.is_directory() {
            return Err(libc::EPERM);
        }
        self.put_name(parent, name, ino);
        self.node_mut(ino).names += 1;
        self.touch(parent, true);
        self.touch(ino, false);
        Ok(())
    }

    pub fn unlink(&mut self, parent: u64, name: &[u8]) -> Answer<()> {
        match name {
            b"." | b".." => return Err(libc::EISDIR),
            _ if name.len() > 255 => return Err(libc::ENAMETOOLONG),
            _ => {}
        }
        let ino = self.lookup(parent, name)?;
        if self.node(ino)?.is_directory() {
            return Err(libc::EISDIR);
        }
        self.directory_mut(parent).names.remove(name);
        self.touch(parent, true);
        self.drop_name(ino);
        Ok(())
    }

    pub fn remove_directory(&mut self, parent: u64, name: &[u8]) -> Answer<()> {
        match name {
            b"." => return Err(libc::EINVAL),
            b".." => return Err(libc::ENOTEMPTY),
            _ => {}
        }
        let ino = self.lookup(parent, name)?;
        if !self.node(ino)?.directory()?.names.is_empty() {
            return Err(libc::ENOTEMPTY);
        }
        self.directory_mut(parent).names.remove(name);
        self.touch(parent, true);
        self.drop_name(ino);
        Ok(())
    }

    /// One name fewer; the inode goes when it was the last and nobody has it open.
    fn drop_name(&mut self, ino: u64) {
        self.touch(ino, false);
        let node = self.node_mut(ino);
        match &mut node.body {
            Body::Directory(directory) => directory.removed = true,
            _ => node.names -= 1,
        }
        self.forget_if_unused(ino);
    }

    pub fn forget_if_unused(&mut self, ino: u64) {
        if self.nlink(ino) == 0 && self.nodes[&ino].opens == 0 {
            self.nodes.remove(&ino);
        }
    }

    fn is_above(&self, above: u64, mut directory: u64) -> bool {
        loop {
            if directory == above {
                return true;
            }
            if directory == ROOT {
                return false;
            }
            directory = self.nodes[&directory]
                .directory()
                .expect("directories above")
                .parent;
        }
    }

    pub fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), mode: RenameMode) -> Answer<()> {
        for name in [from.1, to.1] {
            match name {
                b"." | b".." => return Err(libc::EBUSY),
                _ => check_new_name(name)?,
            }
        }
        self.node(from.0)?.directory()?;
        self.node(to.0)?.directory()?;
        self.living(from.0)?;
        self.living(to.0)?;
        let source = self.lookup(from.0, from.1)?;
        let target = self.lookup(to.0, to.1).ok();
        match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(libc::EEXIST),
            (RenameMode::Exchange, None) => return Err(libc::ENOENT),
            (_, Some(target)) if target == source => return Ok(()),
            _ => {}
        }
        if self.is_above(source, to.0) {
            return Err(libc::EINVAL);
        }
        if target.is_some_and(|target| self.is_above(target, from.0)) {
            return Err(if mode == RenameMode::Exchange {
                libc::EINVAL
            } else {
                libc::ENOTEMPTY
            });
        }
        match target {
            Some(target) if mode != RenameMode::Exchange => {
                let directories = (
                    self.nodes[&source].is_directory(),
                    self.nodes[&target].directory(),
                );
                match directories {
                    (false, Ok(_)) => return Err(libc::EISDIR),
                    (true, Err(_)) => return Err(libc::ENOTDIR),
                    (true, Ok(replaced)) if !replaced.names.is_empty() => {
                        return Err(libc::ENOTEMPTY);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        self.move_name(from, to, source, target, mode);
        Ok(())
    }

    fn move_name(
        &mut self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        source: u64,
        target: Option<u64>,
        mode: RenameMode,
    ) {
        self.directory_mut(from.0).names.remove(from.1);
        self.directory_mut(to.0).names.remove(to.1);
        self.touch(from.0, true);
        self.touch(to.0, true);
        self.touch(source, false);
        self.put_name(to.0, to.1, source);
        match target {
            Some(target) if mode == RenameMode::Exchange => {
                self.put_name(from.0, from.1, target);
                self.touch(target, false);
            }
            Some(target) => self.drop_name(target),
            None => {}
        }
    }

    pub fn set_xattr(
        &mut self,
        ino: u64,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Answer<()> {
        check_xattr_name(name)?;
        if value.len() > 63 * 64 - 20 - 255 {
            return Err(libc::ENOSPC);
        }
        let node = self.node(ino)?;
        let exists = node.xattrs.contains_key(name);
        if name == CHECKSUM && !node.is_directory() {
            return match (node.checked && value == CRC32C, mode) {
                (false, _) => Err(libc::EOPNOTSUPP),
                (true, XattrMode::Create) => Err(libc::EEXIST),
                (true, _) => Ok(()),
            };
        }
        if name == CHECKSUM && value != CRC32C && value != b"off" {
            return Err(libc::EINVAL);
        }
        if name == LAYOUT {
            self.check_layout(node, Some(value))?;
        }
        let exists = exists || (name == LAYOUT && node.layout.is_some());
        match mode {
            XattrMode::Create if exists => return Err(libc::EEXIST),
            XattrMode::Replace if !exists => return Err(libc::ENODATA),
            _ => {}
        }
        let node = self.node_mut(ino);
        if name == LAYOUT && !node.is_directory() {
            node.layout = Some(value.to_vec())
        } else {
            drop(node.xattrs.insert(name.to_vec(), value.to_vec()))
        }
        self.touch(ino, false);
        Ok(())
    }

    /// Whether a node may be given this layout, or lose the one it has.
    fn check_layout(&self, node: &Node, value: Option<&[u8]>) -> Answer<()> {
        if value.is_some_and(|value| NO_LAYOUTS.contains(&value)) {
            return Err(libc::EINVAL);
        }
        match &node.body {
            Body::Directory(_) => Ok(()),
            Body::File(_) if value.is_some() && node.layout.as_deref() == value => Ok(()),
            Body::File(content) if content.size == 0 && content.blocks.is_empty() => Ok(()),
            _ => Err(libc::EOPNOTSUPP),
        }
    }

    pub fn get_xattr(&self, ino: u64, name: &[u8]) -> Answer<Vec<u8>> {
        let node = self.node(ino)?;
        let unlisted = (name == CHECKSUM && node.checked).then(|| CRC32C.to_vec());
        let layout = node.layout.clone().filter(|_| name == LAYOUT);
        unlisted
            .or(layout)
            .or_else(|| node.xattrs.get(name).cloned())
            .ok_or(libc::ENODATA)
    }

    pub fn remove_xattr(&mut self, ino: u64, name: &[u8]) -> Answer<()> {
        check_xattr_name(name)?;
        if name == CHECKSUM && self.node(ino)?.checked {
            return Err(libc::EOPNOTSUPP);
        }
        let node = self.node(ino)?;
        if name == LAYOUT && node.layout.is_some() {
            self.check_layout(node, None)?;
            self.node_mut(ino).layout = None;
        } else {
            let removed = self.node_mut(ino).xattrs.remove(name);
            removed.ok_or(libc::ENODATA)?;
        }
        self.touch(ino, false);
        Ok(())
    }

    /// A new session: nothing is open, what had no name is gone.
    pub fn reattach(&mut self) {
        for node in self.nodes.values_mut() {
            node.opens = 0;
        }
        let inos: Vec<u64> = self.nodes.keys().copied().collect();
        inos.into_iter().for_each(|ino| self.forget_if_unused(ino));
    }
}

fn check_xattr_name(name: &[u8]) -> Answer<()> {
    let kept = [b"user.".as_slice(), b"trusted.", b"security."];
    if name.len() > 255 {
        return Err(libc::ERANGE);
    }
    let known = kept
        .iter()
        .any(|space| name.len() > space.len() && name.starts_with(space));
    if known { Ok(()) } else { Err(libc::EOPNOTSUPP) }
}
