//! Checksums of data through the mount: what is damaged on media is `EIO` for every call that needs it, and `SIGBUS`
//! through a mapping, whatever way the kernel takes.

mod common;

use common::*;
use egeria_engine::{InodeNumber, Volume};
use egeria_harness::fork::Forked;
use egeria_media::{BlockNumber, PoolIndex};
use egeria_mount::MountOptions;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

const ATTRIBUTE: &str = "user.egeria.checksum";
const BLOCK: usize = 4096;
const BYTES: usize = 100_000;
/// The block that is damaged, in the midst of others.
const BAD: usize = 11;

/// Flip one bit of a file's block on media, past the engine; again, and it is as before.
fn flip(volume: &Volume, path: &Path, file_block: usize) {
    let ino = InodeNumber(fs::metadata(path).unwrap().ino());
    let at = (file_block * BLOCK) as u64;
    let extents = volume.extents(ino).unwrap();
    let (pool, block) = extents
        .iter()
        .find(|extent| {
            (extent.file_offset_bytes..extent.file_offset_bytes + extent.length_bytes).contains(&at)
        })
        .map(|extent| {
            let within = (at - extent.file_offset_bytes) / BLOCK as u64;
            (PoolIndex(extent.pool), BlockNumber(extent.block + within))
        })
        .expect("a block is there");
    let pool = &volume.pools()[pool.0 as usize];
    let mut byte = [0];
    pool.read_bytes(block.offset() + 77, &mut byte).unwrap();
    pool.write_bytes(block.offset() + 77, &[byte[0] ^ 2])
        .unwrap();
}

/// A mount with a file that has checksums and one damaged block.
fn damaged() -> Option<(Mounted, File)> {
    // Without pages in the kernel, which hide damage that came later.
    let mount = Mounted::with(&MountOptions {
        allow_other: true,
        page_cache_bytes: Some(0),
        ..MountOptions::default()
    })?;
    fs::create_dir(mount.path("checked")).unwrap();
    set_xattr(&mount.path("checked"), ATTRIBUTE, b"crc32c", 0).unwrap();
    let path = mount.path("checked/file");
    fs::write(&path, pattern(1, BYTES)).unwrap();
    flip(&mount.volume, &path, BAD);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    Some((mount, file))
}

#[test]
fn reads_of_damaged_data_are_eio_and_others_are_not() {
    let Some((mount, file)) = damaged() else {
        return;
    };
    let expected = pattern(1, BYTES);
    let mut found = vec![0; BYTES];
    assert_eq!(errno(fs::read(mount.path("checked/file"))), libc::EIO);
    assert_eq!(errno(file.read_at(&mut found, 0)), libc::EIO);
    assert_eq!(errno(file.read_at(&mut found[..1], 11 * 4096)), libc::EIO);
    file.read_exact_at(&mut found[..BAD * BLOCK], 0).unwrap();
    assert!(found[..BAD * BLOCK] == expected[..BAD * BLOCK]);
    let rest = (BAD + 1) * BLOCK;
    file.read_exact_at(&mut found[rest..], rest as u64).unwrap();
    assert!(found[rest..] == expected[rest..]);
    // What keeps a part of it is refused, what keeps nothing repairs.
    assert_eq!(errno(file.write_at(b"x", 11 * 4096 + 5)), libc::EIO);
    assert_eq!(errno(file.set_len(11 * 4096 + 5)), libc::EIO);
    file.write_all_at(&[7; BLOCK], (BAD * BLOCK) as u64)
        .unwrap();
    file.read_exact_at(&mut found, 0).unwrap();
    let repaired = BAD * BLOCK..rest;
    assert!(found[..repaired.start] == expected[..repaired.start]);
    assert!(found[repaired.clone()].iter().all(|byte| *byte == 7));
    assert!(found[rest..] == expected[rest..]);
}

#[test]
fn copies_by_the_kernel_of_damaged_data_are_eio() {
    let Some((_mount, file)) = damaged() else {
        return;
    };
    let to = tempfile::tempfile().unwrap();
    for (offset, expected) in [(0, Ok(8192)), (11 * 4096, Err(libc::EIO))] {
        let mut at = offset;
        let sent = rustix::fs::sendfile(&to, &file, Some(&mut at), 8192);
        assert_eq!(sys(sent), expected, "sendfile at {offset}");
    }
}

#[test]
fn a_copy_within_the_mount_of_damaged_data_is_eio() {
    let Some((mount, file)) = damaged() else {
        return;
    };
    let to = File::create(mount.path("copy")).unwrap();
    for (offset, expected) in [(0, Ok(8192)), (11 * 4096, Err(libc::EIO))] {
        let mut at = offset;
        let copied = rustix::fs::copy_file_range(&file, Some(&mut at), &to, None, 8192);
        assert_eq!(sys(copied), expected, "copy_file_range at {offset}");
    }
}

/// The signal that ends a child process which maps a file and reads this byte; none: the byte.
fn touched(file: &File, at: usize) -> Result<u8, i32> {
    let child = Forked::run(|| map(file, BYTES, false).get(at).into());
    let status = child.unwrap().wait();
    status
        .code()
        .map(|byte| byte as u8)
        .ok_or(status.signal().unwrap_or_default())
}

#[test]
fn a_mapping_of_damaged_data_is_sigbus_there_and_nowhere_else() {
    let Some((_mount, file)) = damaged() else {
        return;
    };
    let expected = pattern(1, BYTES);
    for at in [0, BAD * BLOCK - 1, (BAD + 1) * BLOCK, BYTES - 1] {
        assert_eq!(touched(&file, at), Ok(expected[at]), "byte {at}");
    }
    for at in [BAD * BLOCK, BAD * BLOCK + 4095] {
        assert_eq!(touched(&file, at), Err(libc::SIGBUS), "byte {at}");
    }
}

/// What is stored through a mapping is written back with checksums of its own.
#[test]
fn stores_through_a_mapping_have_checksums() {
    let Some((mount, file)) = damaged() else {
        return;
    };
    let path = mount.path("checked/file");
    flip(&mount.volume, &path, BAD);
    {
        let mapping = map(&file, BYTES, true);
        (0..BYTES).step_by(1000).for_each(|at| mapping.set(at, 9));
        mapping.sync().unwrap();
    }
    let mut expected = pattern(1, BYTES);
    expected.iter_mut().step_by(1000).for_each(|byte| *byte = 9);
    drop(file);
    assert!(fs::read(&path).unwrap() == expected);
    flip(&mount.volume, &path, 3);
    assert_eq!(errno(fs::read(&path)), libc::EIO);
    assert!(mount.volume.counters().checksum_failures > 0);
}

#[test]
fn the_attribute_is_set_and_read_like_any_other() {
    let Some((mount, _file)) = damaged() else {
        return;
    };
    let directory = mount.path("checked");
    let value = |path: &Path| get_xattr(path, ATTRIBUTE, 100).map(|(_, value)| value);
    assert_eq!(value(&directory), Ok(b"crc32c".to_vec()));
    assert_eq!(value(&directory.join("file")), Ok(b"crc32c".to_vec()));
    assert_eq!(value(&mount.path("")), Err(libc::ENODATA));
    let refused = set_xattr(&directory, ATTRIBUTE, b"md5", 0);
    assert_eq!(refused, Err(libc::EINVAL));
    let refused = set_xattr(&directory.join("file"), ATTRIBUTE, b"off", 0);
    assert_eq!(refused, Err(libc::EOPNOTSUPP));
    set_xattr(&directory, ATTRIBUTE, b"off", 0).unwrap();
    fs::write(directory.join("later"), b"x").unwrap();
    assert_eq!(value(&directory.join("later")), Err(libc::ENODATA));
    // Of others' directories the kernel refuses it.
    let refused = as_user(NOBODY, NOBODY, || {
        set_xattr(&directory, ATTRIBUTE, b"crc32c", 0)
    });
    assert_eq!(refused, Err(libc::EACCES));
}
