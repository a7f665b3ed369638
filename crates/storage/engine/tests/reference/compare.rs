//! Comparing everything: attributes, contents, block maps, names, extended attributes.

use super::content::{BLOCK, Block, Content};
use super::harness::Harness;
use super::model::{Body, CHECKSUM, Directory, LAYOUT};
use egeria_engine::*;
use std::collections::BTreeMap;

/// Files up to this size are read as a whole.
const READ_WHOLE_BYTES: u64 = 3 << 20;

pub fn errno<T>(outcome: Outcome<T>) -> Result<T, i32> {
    outcome.map_err(|errno| errno.0)
}

impl Harness {
    pub fn compare_everything(&mut self) {
        let inos: Vec<u64> = self.model.nodes.keys().copied().collect();
        for ino in inos {
            self.compare_attributes(ino);
            self.compare_xattrs(ino);
            match &self.model.nodes[&ino].body {
                Body::File(content) => self.compare_file(ino, content),
                Body::Symlink(target) => {
                    assert_eq!(
                        self.volume().read_link(InodeNumber(ino)).as_ref(),
                        Ok(target)
                    );
                }
                Body::Directory(directory) => self.compare_directory(ino, directory),
                Body::Special => {}
            }
        }
        self.compare_space();
    }

    pub fn compare_attributes(&self, ino: u64) {
        let node = &self.model.nodes[&ino];
        let found = self.volume().attributes(InodeNumber(ino));
        let found = found.unwrap_or_else(|errno| panic!("inode {ino}: {errno:?}"));
        let (size_bytes, blocks) = match &node.body {
            Body::File(content) => (content.size, content.blocks.len() as u64),
            Body::Symlink(target) => (target.len() as u64, 1),
            Body::Directory(_) => (found.size_bytes, found.blocks),
            Body::Special => (0, 0),
        };
        let expected = Attributes {
            ino: InodeNumber(ino),
            generation: node.generation,
            mode: node.mode,
            nlink: self.model.nlink(ino),
            uid: node.uid,
            gid: node.gid,
            rdev: node.rdev,
            size_bytes,
            blocks,
            atime_ns: node.times_ns[0],
            mtime_ns: node.times_ns[1],
            ctime_ns: node.times_ns[2],
        };
        assert_eq!(found, expected);
    }

    fn compare_xattrs(&self, ino: u64) {
        let expected = &self.model.nodes[&ino].xattrs;
        let volume = self.volume();
        let names = volume.list_xattr(InodeNumber(ino)).expect("names");
        assert_eq!(names, expected.keys().cloned().collect::<Vec<_>>());
        for (name, value) in expected {
            assert_eq!(volume.get_xattr(InodeNumber(ino), name).as_ref(), Ok(value));
        }
        for unlisted in [CHECKSUM, LAYOUT] {
            let found = volume.get_xattr(InodeNumber(ino), unlisted);
            assert_eq!(errno(found), self.model.get_xattr(ino, unlisted));
        }
    }

    fn compare_directory(&self, ino: u64, directory: &Directory) {
        let mut found = BTreeMap::new();
        let listed = self
            .volume()
            .read_directory(InodeNumber(ino), 0, &mut |entry| {
                let old = found.insert(entry.name.to_vec(), (entry.ino.0, entry.kind));
                assert!(old.is_none(), "{:?} is listed twice", entry.name);
                true
            });
        assert_eq!(listed, Ok(()));
        let mut expected = BTreeMap::new();
        for (name, (child, _)) in &directory.names {
            let kind = FileKind::from_mode(self.model.nodes[child].mode).expect("a kind");
            expected.insert(name.clone(), (*child, kind));
        }
        if !directory.removed {
            expected.insert(b".".to_vec(), (ino, FileKind::Directory));
            expected.insert(b"..".to_vec(), (directory.parent, FileKind::Directory));
        }
        assert_eq!(found, expected, "names of directory {ino}");
    }

    fn compare_file(&self, ino: u64, content: &Content) {
        let volume = self.volume();
        let mut mapped = BTreeMap::new();
        for extent in volume.extents(InodeNumber(ino)).expect("extents") {
            let first = extent.file_offset_bytes / BLOCK;
            for block in first..first + extent.length_bytes / BLOCK {
                mapped.insert(block, extent.unwritten);
            }
        }
        let expected = content.blocks.iter();
        let expected: BTreeMap<u64, bool> = expected
            .map(|(block, held)| (*block, *held == Block::Unwritten))
            .collect();
        assert_eq!(mapped, expected, "block map of inode {ino}");
        let file = volume.open(InodeNumber(ino), None).expect("open");
        for (at, length) in telling_ranges(content) {
            let mut bytes = vec![0xEE; length];
            let count = volume.read(file, at, &mut bytes).expect("read");
            assert!(
                bytes[..count] == content.read(at, length),
                "inode {ino}: {length} bytes at {at}"
            );
        }
        volume.close(InodeNumber(ino));
    }

    pub fn compare_space(&self) {
        let space = self.volume().space(None);
        assert!(space.free_blocks <= space.blocks, "{space:?}");
        let used = space.inodes - space.free_inodes;
        assert_eq!(used, self.model.nodes.len() as u64, "inodes in use");
        let bodies = self.model.nodes.values().map(|node| &node.body);
        let blocks: u64 = bodies
            .map(|body| match body {
                Body::File(content) => content.blocks.len() as u64,
                Body::Symlink(_) => 1,
                _ => 0,
            })
            .sum();
        assert!(
            space.blocks - space.free_blocks >= blocks,
            "{space:?} with {blocks} in files"
        );
    }
}

/// Ranges that cover every mapped block with its neighbourhood, and the end of file.
fn telling_ranges(content: &Content) -> Vec<(u64, usize)> {
    if content.size <= READ_WHOLE_BYTES {
        return vec![(0, content.size as usize + 10)];
    }
    let mut ranges = vec![(0, 5000), (content.size - 5000, 6000)];
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for block in content.blocks.keys() {
        match runs.last_mut() {
            Some((_, end)) if *end == *block => *end += 1,
            _ => runs.push((*block, block + 1)),
        }
    }
    for (first, end) in runs {
        let from = (first * BLOCK).saturating_sub(100);
        ranges.push((from, ((end - first) * BLOCK) as usize + 200));
    }
    ranges
}
