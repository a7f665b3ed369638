//! Where a killed operation happens: two directories, some files, and what they must hold.

use crate::common::{DIRECTORY, FILE, set_checksums};
use egeria_engine::*;
use std::sync::Arc;

/// Directories `a` and `b` of one volume, emptied after every round.
pub struct Scene {
    pub volume: Arc<Volume>,
    pub a: InodeNumber,
    pub b: InodeNumber,
    /// Files that stay, to use up inode numbers.
    pub filler: InodeNumber,
    pub fillers: u64,
}

/// Bytes that tell where they belong.
pub fn pattern(tag: u8, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| tag.wrapping_add((at % 251) as u8))
        .collect()
}

impl Scene {
    pub fn new(volume: Arc<Volume>) -> Scene {
        let make = |name: &[u8]| {
            volume
                .create(InodeNumber::ROOT, name, &DIRECTORY)
                .expect("directory")
                .ino
        };
        let (a, b, filler) = (make(b"a"), make(b"b"), make(b"filler"));
        Scene {
            volume,
            a,
            b,
            filler,
            fillers: 0,
        }
    }

    /// What is made in the directories from now on has checksums of data.
    pub fn set_checksums(&self) {
        for directory in [self.a, self.b] {
            set_checksums(&self.volume, directory, b"crc32c").expect("checksums");
        }
    }

    /// The whole volume has limits that are not reached.
    pub fn limit(&self) {
        let limits = QuotaLimits {
            bytes: Some(1 << 40),
            inodes: Some(1 << 40),
        };
        let limited = self.volume.set_quota(InodeNumber::ROOT, limits);
        limited.expect("limits");
    }

    /// What is used is what is there.
    pub fn check_usage(&self, what: &str) {
        let root = InodeNumber::ROOT;
        let quota = self.volume.quota_of(root).expect("limits");
        let used = (quota.used_bytes, quota.used_inodes);
        assert_eq!(self.volume.recount_quota(root), Ok(used), "{what}");
    }

    /// A file with these bytes.
    pub fn file(&self, parent: InodeNumber, name: &[u8], bytes: &[u8]) -> InodeNumber {
        let ino = self.volume.create(parent, name, &FILE).expect("file").ino;
        self.write(ino, 0, bytes);
        ino
    }

    pub fn write(&self, ino: InodeNumber, offset: u64, bytes: &[u8]) {
        write_in(&self.volume, ino, offset, bytes);
    }

    /// Everything in a file.
    pub fn read(&self, ino: InodeNumber) -> Vec<u8> {
        let file = self.volume.open(ino, None).expect("open");
        let size = self.volume.size_bytes(file).expect("size") as usize;
        let mut bytes = vec![0xEE; size];
        assert_eq!(self.volume.read(file, 0, &mut bytes), Ok(size));
        self.volume.close(ino);
        bytes
    }

    /// The inode of a name, if it is there.
    pub fn find(&self, parent: InodeNumber, name: &[u8]) -> Option<InodeNumber> {
        match self.volume.lookup(parent, name) {
            Ok(found) => Some(found.ino),
            Err(Errno(libc::ENOENT)) => None,
            Err(errno) => panic!("lookup of {}: {errno}", String::from_utf8_lossy(name)),
        }
    }

    /// What is in a directory: kind and name.
    pub fn list(&self, parent: InodeNumber) -> Vec<(FileKind, Vec<u8>)> {
        let mut all = Vec::new();
        self.volume
            .read_directory(parent, 0, &mut |entry| {
                if !matches!(entry.name, b"." | b"..") {
                    all.push((entry.kind, entry.name.to_vec()));
                }
                true
            })
            .expect("read directory");
        all
    }

    /// Use up numbers until the next new inode needs a block for its record.
    pub fn exhaust_inode_block(&mut self) {
        loop {
            let name = format!("{}", self.fillers);
            self.fillers += 1;
            let made = self
                .volume
                .create(self.filler, name.as_bytes(), &FILE)
                .expect("filler");
            let index = (made.ino.0 - 1) / format::MAX_POOLS as u64;
            if index % format::INODES_PER_BLOCK == format::INODES_PER_BLOCK - 1 {
                return;
            }
        }
    }

    /// Every name can be used; then all go.
    pub fn use_and_empty(&self, parent: InodeNumber) {
        for (kind, name) in self.list(parent) {
            let found = self.find(parent, &name).expect("a listed name");
            if kind == FileKind::Directory {
                self.use_and_empty(found);
                self.volume
                    .remove_directory(parent, &name)
                    .expect("remove directory");
                continue;
            }
            if kind == FileKind::Regular {
                self.write(found, 10_000, b"still writable");
                assert_eq!(&self.read(found)[10_000..10_014], b"still writable");
            }
            self.volume.unlink(parent, &name).expect("unlink");
        }
    }
}

/// As [`Scene::write`], for a child.
pub fn write_in(volume: &Volume, ino: InodeNumber, offset: u64, bytes: &[u8]) {
    let file = volume.open(ino, None).expect("open");
    assert_eq!(volume.write(file, offset, bytes), Ok(bytes.len()));
    volume.close(ino);
}
