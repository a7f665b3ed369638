//! The harness: each operation is done by the engine and by the model, and the answers compared.

use super::compare::errno;
use super::content::{BLOCK, Content};
use super::generate::*;
use super::model::{
    Answer, Body, CHECKSUM, CRC32C, Directory, LAYOUT, Model, NO_LAYOUTS, Node, ROOT,
};
use super::walks::Walk;
use crate::common::Scratch;
use crate::common::clock::coarse_now_ns;
use egeria_engine::*;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Harness {
    volume: Option<Arc<Volume>>,
    /// After the volume: its pools must be there when it is let go.
    scratch: Scratch,
    pub model: Model,
    pub handles: Vec<(u64, FileReference)>,
    walks: BTreeMap<u64, Walk>,
    /// Every inode number ever seen, the living and the dead.
    known: Vec<u64>,
}

pub fn pick<T: Clone>(from: &[T], pick: Pick) -> Option<T> {
    (!from.is_empty()).then(|| from[pick as usize % from.len()].clone())
}

fn xattr_name(pick: u8) -> Vec<u8> {
    match pick {
        0 => b"system.refused".to_vec(),
        1 => b"user.".to_vec(),
        2 => [b"user.".as_slice(), &[b'x'; 250]].concat(),
        3 => [b"user.".as_slice(), &[b'x'; 251]].concat(),
        8 => CHECKSUM.to_vec(),
        9 => LAYOUT.to_vec(),
        pick => format!("user.{pick}").into_bytes(),
    }
}

fn xattr_value(name: &[u8], length: u16) -> Vec<u8> {
    match length % 3 {
        0 if name == CHECKSUM => CRC32C.to_vec(),
        1 if name == CHECKSUM => b"off".to_vec(),
        _ if name == LAYOUT => match length % 7 {
            0 => b"local".to_vec(),
            1 => b"striped:4096".to_vec(),
            2 => b"striped:20480".to_vec(),
            3 => b"striped:32768".to_vec(),
            nonsense => NO_LAYOUTS[nonsense as usize - 4].to_vec(),
        },
        _ => pattern(length as u8, length as usize),
    }
}

impl Harness {
    pub fn new(pools: usize, pool_bytes: u64) -> Harness {
        let scratch = Scratch::new(pools, pool_bytes);
        let volume = scratch.attach();
        let root = volume.attributes(InodeNumber::ROOT).expect("root");
        let model = Model::new(Node {
            generation: root.generation,
            mode: root.mode,
            uid: root.uid,
            gid: root.gid,
            rdev: 0,
            names: 1,
            opens: 0,
            body: Body::Directory(Directory {
                parent: ROOT,
                names: BTreeMap::new(),
                removed: false,
            }),
            xattrs: BTreeMap::new(),
            checked: false,
            layout: None,
            times_ns: [root.atime_ns, root.mtime_ns, root.ctime_ns],
        });
        Harness {
            scratch,
            volume: Some(volume),
            model,
            handles: Vec::new(),
            walks: BTreeMap::new(),
            known: vec![ROOT],
        }
    }

    /// Everything made from now on has checksums, unless a directory says otherwise.
    pub fn with_checksums(mut self) -> Harness {
        let root = InodeNumber::ROOT;
        let set = self
            .volume()
            .set_xattr(root, CHECKSUM, CRC32C, XattrMode::Any);
        assert_eq!(set, Ok(()));
        let model = &mut self.model;
        assert_eq!(
            model.set_xattr(ROOT, CHECKSUM, CRC32C, XattrMode::Any),
            Ok(())
        );
        model.take_touched();
        let root = self.volume().attributes(root).expect("root");
        self.model.node_mut(ROOT).times_ns = [root.atime_ns, root.mtime_ns, root.ctime_ns];
        self
    }

    pub fn volume(&self) -> &Volume {
        self.volume.as_ref().expect("attached")
    }

    pub fn finish(mut self) {
        self.compare_everything();
        self.reattach(true);
    }

    fn reattach(&mut self, check: bool) {
        self.compare_everything();
        self.handles.clear();
        self.volume = None;
        self.model.reattach();
        if check {
            self.scratch.assert_clean();
        }
        self.volume = Some(self.scratch.attach());
        self.learn_logged_times();
        self.compare_everything();
    }

    /// Striped files are overwritten in place, and the log has the time of that only once in 1.07 s.
    fn learn_logged_times(&mut self) {
        let volume = self.volume.as_ref().expect("attached");
        for (ino, node) in &mut self.model.nodes {
            let layout = node.layout.as_deref().unwrap_or_default();
            if node.checked || !layout.starts_with(b"striped") {
                continue;
            }
            let found = volume.attributes(InodeNumber(*ino)).expect("attributes");
            let found = [found.atime_ns, found.mtime_ns, found.ctime_ns];
            let lags = node
                .times_ns
                .iter()
                .zip(found)
                .map(|(known, found)| known - found);
            let lags: Vec<i64> = lags.collect();
            let is_lag = |lag: &i64| (0..1_100_000_000).contains(lag);
            assert!(
                lags[0] == 0 && lags.iter().all(is_lag),
                "{ino}: {lags:?} ns"
            );
            node.times_ns = found;
        }
    }

    /// One operation, done twice.
    pub fn step(&mut self, operation: &Operation) {
        let before_ns = coarse_now_ns();
        self.apply(operation);
        // A change after a look has a time to the nanosecond.
        let after_ns = egeria_media::clock::now_ns(libc::CLOCK_REALTIME);
        for touched in self.model.take_touched() {
            if !self.model.nodes.contains_key(&touched.ino) {
                continue;
            }
            let found = self
                .volume()
                .attributes(InodeNumber(touched.ino))
                .expect("attributes");
            let found = [found.atime_ns, found.mtime_ns, found.ctime_ns];
            for (at, time_ns) in found
                .into_iter()
                .enumerate()
                .filter(|(at, _)| touched.times[*at])
            {
                assert!(
                    (before_ns..=after_ns).contains(&time_ns),
                    "time {at} of {}: {operation:?}",
                    touched.ino
                );
                self.model.node_mut(touched.ino).times_ns[at] = time_ns;
            }
            self.compare_attributes(touched.ino);
        }
        let model = &self.model;
        self.walks
            .retain(|directory, _| model.living(*directory).is_ok());
        self.walks
            .iter_mut()
            .for_each(|(directory, walk)| walk.update(model, *directory));
    }

    fn apply(&mut self, operation: &Operation) {
        use Operation::*;
        match operation {
            Create {
                directory,
                name,
                kind,
                permissions,
                owner,
                open,
            } => {
                let new = new_inode(*kind, *permissions, *owner);
                self.create(directory, name, &new, *open);
            }
            Unnamed { directory } => self.create_unnamed(directory),
            Symlink {
                directory,
                name,
                length,
            } => self.symlink(directory, name, *length as usize),
            Link {
                node,
                directory,
                name,
            } => {
                let (ino, parent) = (self.any_node(*node), self.directory(directory));
                let name = self.name(parent, name);
                let done = self
                    .volume()
                    .link(InodeNumber(ino), InodeNumber(parent), &name);
                if !self.is_full(&done, 5) {
                    let expected = self.model.link(ino, parent, &name);
                    assert_eq!(
                        errno(done.map(drop)),
                        expected,
                        "link {ino} at {parent} {name:?}"
                    );
                }
            }
            Unlink { directory, name } => {
                let parent = self.directory(directory);
                let name = self.name(parent, name);
                let done = self.volume().unlink(InodeNumber(parent), &name);
                assert_eq!(
                    errno(done),
                    self.model.unlink(parent, &name),
                    "unlink {parent} {name:?}"
                );
            }
            RemoveDirectory { directory, name } => {
                let parent = self.directory(directory);
                let name = self.name(parent, name);
                let done = self.volume().remove_directory(InodeNumber(parent), &name);
                assert_eq!(
                    errno(done),
                    self.model.remove_directory(parent, &name),
                    "rmdir {parent} {name:?}"
                );
            }
            Rename { from, to, mode } => self.rename(from, to, *mode),
            Lookup { directory, name } => {
                let parent = self.directory(directory);
                let name = self.name(parent, name);
                let found = self.volume().lookup(InodeNumber(parent), &name);
                let found = errno(found.map(|attributes| attributes.ino.0));
                assert_eq!(
                    found,
                    self.model.lookup(parent, &name),
                    "lookup {parent} {name:?}"
                );
            }
            ReadLink { node } => {
                let ino = self.any_node(*node);
                let expected = self.model.node(ino).and_then(|node| match &node.body {
                    Body::Symlink(target) => Ok(target.clone()),
                    _ => Err(libc::EINVAL),
                });
                assert_eq!(errno(self.volume().read_link(InodeNumber(ino))), expected);
            }
            Walk { directory, entries } => self.walk(directory, *entries),
            Open { node, generation } => self.open(*node, *generation),
            Close { handle } => self.close(*handle),
            Write {
                handle,
                place,
                length,
                seed,
            } => self.write(*handle, place, *length, *seed),
            Append {
                handle,
                length,
                seed,
            } => self.append(*handle, *length, *seed),
            Read {
                handle,
                place,
                length,
            } => self.read(*handle, place, *length as usize),
            Truncate { node, place } => self.truncate(*node, place),
            Allocate {
                handle,
                place,
                length,
                mode,
            } => self.allocate(*handle, place, *length as u64, *mode),
            Seek { handle, place } => self.seek(*handle, place),
            Attributes { .. } => self.set_attributes(operation),
            SetXattr {
                node,
                name,
                length,
                mode,
            } => {
                let (ino, name) = (self.any_node(*node), xattr_name(*name));
                let value = xattr_value(&name, *length);
                let done = self
                    .volume()
                    .set_xattr(InodeNumber(ino), &name, &value, *mode);
                let allowed = value.len() <= 3757;
                if !(allowed && self.is_full(&done, 3)) {
                    assert_eq!(errno(done), self.model.set_xattr(ino, &name, &value, *mode));
                }
            }
            GetXattr { node, name } => {
                let (ino, name) = (self.any_node(*node), xattr_name(*name));
                let expected = self.model.get_xattr(ino, &name);
                assert_eq!(
                    errno(self.volume().get_xattr(InodeNumber(ino), &name)),
                    expected
                );
            }
            RemoveXattr { node, name } => {
                let (ino, name) = (self.any_node(*node), xattr_name(*name));
                let done = self.volume().remove_xattr(InodeNumber(ino), &name);
                assert_eq!(errno(done), self.model.remove_xattr(ino, &name));
            }
            Space => self.compare_space(),
            Reattach { check } => self.reattach(*check),
        }
    }

    /// Whether the engine refused for want of space, and there really is none for so many blocks.
    pub fn is_full<T>(&self, done: &Outcome<T>, blocks: u64) -> bool {
        let full = matches!(done, Err(Errno(libc::ENOSPC)));
        full && self.volume().space(None).free_blocks < blocks
    }

    pub fn any_node(&self, node: Pick) -> u64 {
        pick(&self.known, node).expect("the root is known")
    }

    fn directory(&self, choice: &DirectoryPick) -> u64 {
        match choice {
            DirectoryPick::Any(node) => self.any_node(*node),
            DirectoryPick::Living(choice) => {
                let nodes = self
                    .model
                    .nodes
                    .iter()
                    .filter(|(_, node)| node.is_directory());
                pick(&nodes.map(|(ino, _)| *ino).collect::<Vec<_>>(), *choice).expect("the root")
            }
        }
    }

    fn name(&self, parent: u64, name: &NamePick) -> Vec<u8> {
        match name {
            NamePick::Common(at) => vec![b'a' + at],
            NamePick::Long(at) => vec![b'n'; [30, 31, 94, 255][*at as usize]],
            NamePick::Odd(at) => {
                let odd: [&[u8]; 6] = [b"", b".", b"..", &[b'l'; 256], b"a/b", b"nul\0"];
                odd[*at as usize].to_vec()
            }
            NamePick::Existing(at) => {
                let there = self
                    .model
                    .living(parent)
                    .map(|directory| directory.names.keys().cloned().collect::<Vec<_>>());
                pick(&there.unwrap_or_default(), *at).unwrap_or(b"none".to_vec())
            }
        }
    }

    fn create(&mut self, directory: &DirectoryPick, name: &NamePick, new: &NewInode, open: bool) {
        let parent = self.directory(directory);
        let name = self.name(parent, name);
        let done = if open {
            self.volume().create_open(InodeNumber(parent), &name, new)
        } else {
            self.volume().create(InodeNumber(parent), &name, new)
        };
        if self.is_full(&done, 5) {
            return;
        }
        let body = match FileKind::from_mode(new.mode) {
            Some(FileKind::Regular) => Body::File(Content::default()),
            Some(FileKind::Directory) => Body::Directory(Directory {
                parent,
                names: BTreeMap::new(),
                removed: false,
            }),
            _ => Body::Special,
        };
        let expected = self.model.may_create(parent, &name);
        if let Some(ino) = self.born(parent, Some(&name), new, done, expected, body)
            && open
        {
            let file = self.volume().open(InodeNumber(ino), None).expect("open");
            self.volume().close(InodeNumber(ino));
            self.model.node_mut(ino).opens += 1;
            self.handles.push((ino, file));
        }
    }

    fn born(
        &mut self,
        parent: u64,
        name: Option<&[u8]>,
        new: &NewInode,
        done: Outcome<egeria_engine::Attributes>,
        expected: Answer<()>,
        body: Body,
    ) -> Option<u64> {
        assert_eq!(errno(done.map(drop)), expected, "make {name:?} in {parent}");
        let made = done.ok()?;
        assert_eq!(
            self.volume().attributes(made.ino),
            Ok(made),
            "attributes of a new inode"
        );
        self.model
            .created(parent, name, new, (made.ino.0, made.generation), body);
        self.known.push(made.ino.0);
        Some(made.ino.0)
    }

    fn create_unnamed(&mut self, directory: &DirectoryPick) {
        let parent = self.directory(directory);
        let new = new_inode(0, 0o600, 1);
        let done = self.volume().create_unnamed(InodeNumber(parent), &new);
        if self.is_full(&done, 5) {
            return;
        }
        let expected = self.model.living(parent).map(drop);
        if let Some(ino) = self.born(
            parent,
            None,
            &new,
            done,
            expected,
            Body::File(Content::default()),
        ) {
            self.model.node_mut(ino).opens = 1;
            let file = self.volume().open(InodeNumber(ino), None).expect("open");
            self.volume().close(InodeNumber(ino));
            self.handles.push((ino, file));
        }
    }

    fn symlink(&mut self, directory: &DirectoryPick, name: &NamePick, length: usize) {
        let parent = self.directory(directory);
        let name = self.name(parent, name);
        let target = pattern(7, length);
        let done = self
            .volume()
            .symlink(InodeNumber(parent), &name, &target, 1, 2);
        if self.is_full(&done, 5) {
            return;
        }
        let expected = match length {
            0 => Err(libc::ENOENT),
            4096.. => Err(libc::ENAMETOOLONG),
            _ => self.model.may_create(parent, &name),
        };
        let new = NewInode {
            mode: libc::S_IFLNK | 0o777,
            uid: 1,
            gid: 2,
            rdev: 0,
        };
        self.born(
            parent,
            Some(&name),
            &new,
            done,
            expected,
            Body::Symlink(target),
        );
    }

    fn rename(
        &mut self,
        from: &(DirectoryPick, NamePick),
        to: &(DirectoryPick, NamePick),
        mode: RenameMode,
    ) {
        let ends = [from, to].map(|(directory, name)| {
            let parent = self.directory(directory);
            (parent, self.name(parent, name))
        });
        let [(parent, name), (new_parent, new_name)] = &ends;
        let done = self.volume().rename(
            InodeNumber(*parent),
            name,
            InodeNumber(*new_parent),
            new_name,
            mode,
        );
        if !self.is_full(&done, 9) {
            let expected = self
                .model
                .rename((*parent, name), (*new_parent, new_name), mode);
            assert_eq!(errno(done), expected, "rename {ends:?} {mode:?}");
        }
    }

    fn walk(&mut self, directory: &DirectoryPick, entries: u8) {
        let ino = self.directory(directory);
        if self.model.living(ino).is_err() {
            let expected = match self
                .model
                .node(ino)
                .and_then(|node| node.directory().map(drop))
            {
                Ok(()) => Ok(()),
                Err(errno) => Err(errno),
            };
            let listed = self
                .volume()
                .read_directory(InodeNumber(ino), 0, &mut |_| panic!("an entry"));
            return assert_eq!(errno(listed), expected);
        }
        let mut walk = self
            .walks
            .remove(&ino)
            .unwrap_or_else(|| Walk::begin(&self.model, ino));
        let mut left = entries;
        let mut ended = true;
        let cookie = walk.cookie;
        let listed = self
            .volume()
            .read_directory(InodeNumber(ino), cookie, &mut |entry| {
                if left == 0 {
                    ended = false;
                    return false;
                }
                left -= 1;
                walk.saw(&self.model, ino, entry.ino.0, entry.cookie, entry.name);
                true
            });
        assert_eq!(listed, Ok(()));
        if ended {
            walk.end()
        } else {
            drop(self.walks.insert(ino, walk))
        }
    }

    fn open(&mut self, node: Pick, generation: Option<bool>) {
        let ino = self.any_node(node);
        let current = self.model.node(ino).map(|node| node.generation);
        let asked = generation.map(|right| current.unwrap_or(1).wrapping_add(!right as u32));
        let expected = match (current, generation) {
            (Ok(_), Some(false)) => Err(libc::ESTALE),
            (current, _) => current.map(drop),
        };
        let done = self.volume().open(InodeNumber(ino), asked);
        assert_eq!(errno(done.map(drop)), expected);
        if let Ok(file) = done {
            self.model.node_mut(ino).opens += 1;
            self.handles.push((ino, file));
        }
    }

    fn close(&mut self, handle: Pick) {
        if self.handles.is_empty() {
            return;
        }
        let (ino, _) = self
            .handles
            .swap_remove(handle as usize % self.handles.len());
        self.volume().close(InodeNumber(ino));
        self.model.node_mut(ino).opens -= 1;
        self.model.forget_if_unused(ino);
        if !self.model.nodes.contains_key(&ino) {
            assert_eq!(
                self.volume().attributes(InodeNumber(ino)),
                Err(Errno(libc::ESTALE))
            );
        }
    }
}

fn new_inode(kind: u8, permissions: u16, owner: u8) -> NewInode {
    let (kind, rdev) = match kind {
        0..=4 => (libc::S_IFREG, 0),
        5..=7 => (libc::S_IFDIR, 0),
        8 => (libc::S_IFIFO, 0),
        _ => (libc::S_IFCHR, 0x103),
    };
    NewInode {
        mode: kind | permissions as u32,
        uid: owner as u32,
        gid: owner as u32 + 10,
        rdev,
    }
}

/// Blocks that a transfer of so many bytes may need, its log and its edges too.
pub fn blocks_needed(bytes: u64) -> u64 {
    bytes / BLOCK + 5
}
