//! Operations by path, for scenarios: each panics when the engine refuses it.
#![allow(dead_code)]

use crate::common::*;
use egeria_engine::*;

pub const ROOT: InodeNumber = InodeNumber::ROOT;

pub fn ino(volume: &Volume, path: &str) -> InodeNumber {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.fold(ROOT, |at, part| {
        let found = volume.lookup(at, part.as_bytes());
        found
            .unwrap_or_else(|errno| panic!("{path}: {errno:?}"))
            .ino
    })
}

fn place<'p>(volume: &Volume, path: &'p str) -> (InodeNumber, &'p [u8]) {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    (ino(volume, above), name.as_bytes())
}

pub fn create(volume: &Volume, path: &str) {
    let (parent, name) = place(volume, path);
    volume.create(parent, name, &FILE).expect(path);
}

pub fn mkdir(volume: &Volume, path: &str) {
    let (parent, name) = place(volume, path);
    volume.create(parent, name, &DIRECTORY).expect(path);
}

pub fn symlink(volume: &Volume, path: &str, target: &[u8]) {
    let (parent, name) = place(volume, path);
    volume.symlink(parent, name, target, 0, 0).expect(path);
}

pub fn link(volume: &Volume, old: &str, path: &str) {
    let (parent, name) = place(volume, path);
    volume.link(ino(volume, old), parent, name).expect(path);
}

pub fn unlink(volume: &Volume, path: &str) {
    let (parent, name) = place(volume, path);
    volume.unlink(parent, name).expect(path);
}

pub fn rename(volume: &Volume, old: &str, new: &str, mode: RenameMode) {
    let ((parent, name), (new_parent, new_name)) = (place(volume, old), place(volume, new));
    volume
        .rename(parent, name, new_parent, new_name, mode)
        .expect(new);
}

/// Run `body` with the file open.
pub fn opened<T>(volume: &Volume, path: &str, body: impl FnOnce(FileReference) -> Outcome<T>) -> T {
    let ino = ino(volume, path);
    let file = volume.open(ino, None).expect(path);
    let result = body(file).expect(path);
    volume.close(ino);
    result
}

pub fn write(volume: &Volume, path: &str, at: u64, bytes: &[u8]) {
    assert_eq!(
        opened(volume, path, |file| volume.write(file, at, bytes)),
        bytes.len()
    );
}

pub fn append(volume: &Volume, path: &str, bytes: &[u8]) {
    assert_eq!(
        opened(volume, path, |file| volume.append(file, bytes)).1,
        bytes.len()
    );
}

pub fn allocate(volume: &Volume, path: &str, at: u64, bytes: u64, mode: AllocateMode) {
    opened(volume, path, |file| volume.allocate(file, at, bytes, mode));
}

pub fn change(volume: &Volume, path: &str, change: AttributeChange) {
    volume
        .set_attributes(ino(volume, path), &change)
        .expect(path);
}

pub fn truncate(volume: &Volume, path: &str, size_bytes: u64) {
    let size_bytes = Some(size_bytes);
    change(
        volume,
        path,
        AttributeChange {
            size_bytes,
            ..Default::default()
        },
    );
}

pub fn chmod(volume: &Volume, path: &str, permissions: u32) {
    let permissions = Some(permissions);
    change(
        volume,
        path,
        AttributeChange {
            permissions,
            ..Default::default()
        },
    );
}

pub fn set_xattr(volume: &Volume, path: &str, name: &str, value: &[u8]) {
    volume
        .set_xattr(ino(volume, path), name.as_bytes(), value, XattrMode::Any)
        .expect(path);
}

/// Bytes that differ from place to place.
pub fn bytes(seed: u8, count: usize) -> Vec<u8> {
    (0..count)
        .map(|at| (at / 7) as u8 ^ (at as u8).wrapping_mul(31) ^ seed)
        .collect()
}

/// Directories `d` and `e` with children, files of several sizes, a hard link, an extended attribute.
pub fn small_tree(volume: &Volume) {
    for path in ["d", "e", "d/sub", "empty"] {
        mkdir(volume, path);
    }
    for (path, size) in [
        ("small", 100),
        ("big", 50_000),
        ("d/x", 5000),
        ("e/y", 7001),
    ] {
        create(volume, path);
        write(volume, path, 0, &bytes(size as u8, size));
    }
    create(volume, "d/sub/deep");
    link(volume, "small", "twin");
    symlink(volume, "symlink", b"d/x");
    set_xattr(volume, "big", "user.old", b"value");
}

/// Fill the log of a file until the next change compacts it.
pub fn lengthen_log(volume: &Volume, path: &str) {
    for round in 0..63 * 16 {
        chmod(volume, path, round & 0o777);
    }
}
