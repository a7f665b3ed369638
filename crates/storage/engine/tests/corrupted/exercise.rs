//! Everything there is to do with a volume, on one that may be damaged in any way. Only answers matter,
//! not which.

use super::steps::*;
use crate::common::*;
use egeria_engine::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// Far above what any case takes, also on a busy machine: only a hang is longer.
const HANG: Duration = Duration::from_secs(60);
/// More names than the sample has: a walk that gives more runs in a circle.
const MANY: usize = 100_000;

/// A small volume with some of everything, as bytes.
pub struct Sample {
    scratch: Scratch,
    pub images: Vec<Vec<u8>>,
}

impl Sample {
    pub fn new(pools: usize) -> Sample {
        let scratch = Scratch::new(pools, 8 << 20);
        let volume = scratch.attach();
        small_tree(&volume);
        for number in 0..150 {
            create(&volume, &format!("d/file-{number}"));
        }
        for number in (0..150).step_by(3) {
            unlink(&volume, &format!("d/file-{number}"));
        }
        lengthen_log(&volume, "small");
        chmod(&volume, "small", 0o600);
        for block in 0..40 {
            write(&volume, "e/y", block * 9000, &bytes(block as u8, 5000));
        }
        allocate(&volume, "e/y", 20_000, 40_000, AllocateMode::PunchHole);
        rename(&volume, "d/sub", "e/sub", RenameMode::Replace);
        drop(volume);
        let images = scratch
            .pools
            .iter()
            .map(|pool| std::fs::read(pool).expect("read"))
            .collect();
        Sample { scratch, images }
    }
}

/// Put these images in place, and do everything with them in a thread of its own.
pub fn exercise(sample: &Sample, images: &[Vec<u8>], what: &str) {
    for (pool, image) in sample.scratch.pools.iter().zip(images) {
        write_sparse(pool, image);
    }
    let pools = sample.scratch.pools.clone();
    let (done, finished) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        use_and_check(&pools);
        let _ = done.send(());
    });
    match finished.recv_timeout(HANG) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: hangs"),
        _ => assert!(thread.join().is_ok(), "{what}: panicked"),
    }
}

fn write_sparse(path: &PathBuf, image: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).expect("create");
    file.set_len(image.len() as u64).expect("size");
    for (number, chunk) in image.chunks(64 << 10).enumerate() {
        if chunk.iter().any(|byte| *byte != 0) {
            file.write_all_at(chunk, (number * (64 << 10)) as u64)
                .expect("write");
        }
    }
}

fn use_and_check(pools: &[PathBuf]) {
    let attach = || {
        Volume::attach(
            &pools[0],
            AttachMode::CreateOrJoin,
            &AttachOptions::default(),
        )
    };
    if let Ok(volume) = attach() {
        answers(&volume);
    }
    let repaired = check_volume(&pools[0], true, &mut |_, _| {});
    if let Ok(repaired) = repaired {
        let left = check_volume(&pools[0], false, &mut |_, _| {});
        let left = left.expect("what was checked can be checked again");
        let left: Vec<_> = left
            .findings
            .iter()
            .filter(|finding| finding.repairable)
            .collect();
        assert!(left.is_empty(), "not repaired: {left:#?}\nof {repaired:#?}");
    }
    if let Ok(volume) = attach() {
        answers(&volume);
    }
}

/// Read and change everything that can be reached.
pub fn answers(volume: &Arc<Volume>) {
    let mut queue = vec![InodeNumber::ROOT];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(ino) = queue.pop() {
        if !seen.insert(ino) {
            continue;
        }
        let mut names = Vec::new();
        let _ = volume.read_directory(ino, 0, &mut |entry| {
            names.push((entry.name.to_vec(), entry.ino));
            assert!(names.len() < MANY, "a directory without end");
            true
        });
        for (name, child) in names {
            let _ = volume.lookup(ino, &name);
            queue.push(child);
        }
        read_inode(volume, ino);
    }
    let _ = volume.space(None);
    for ino in seen.iter().rev() {
        change_inode(volume, *ino);
    }
    remove_names(volume, InodeNumber::ROOT);
    volume.reap();
}

fn read_inode(volume: &Volume, ino: InodeNumber) {
    let attributes = volume.attributes(ino);
    let _ = volume.read_link(ino);
    for name in volume.list_xattr(ino).unwrap_or_default() {
        let _ = volume.get_xattr(ino, &name);
    }
    let _ = volume.extents(ino);
    let Ok(file) = volume.open(ino, None) else {
        return;
    };
    let size = attributes.map_or(0, |attributes| attributes.size_bytes);
    let mut buffer = vec![0; 70_000];
    for at in [0, 5000, 300_000, size.saturating_sub(100), size] {
        let _ = volume.read(file, at, &mut buffer);
        let _ = volume.seek_data(file, at);
    }
    volume.close(ino);
}

fn change_inode(volume: &Volume, ino: InodeNumber) {
    let _ = volume.set_xattr(ino, b"user.new", b"value", XattrMode::Any);
    let _ = volume.create(ino, b"made", &FILE);
    let _ = volume.create(ino, b"made-directory", &DIRECTORY);
    let _ = volume.rename(
        ino,
        b"made",
        InodeNumber::ROOT,
        b"moved",
        RenameMode::Replace,
    );
    let _ = volume.rename(
        ino,
        b"made-directory",
        InodeNumber::ROOT,
        b"exchanged",
        RenameMode::Replace,
    );
    let _ = volume.link(ino, InodeNumber::ROOT, b"linked");
    let _ = volume.unlink(InodeNumber::ROOT, b"linked");
    let Ok(file) = volume.open(ino, None) else {
        return;
    };
    let _ = volume.write(file, 100, &[1; 9000]);
    let _ = volume.append(file, &[2; 5000]);
    let _ = volume.allocate(file, 3000, 10_000, AllocateMode::PunchHole);
    let _ = volume.allocate(file, 3000, 10_000, AllocateMode::KeepSize);
    for size_bytes in [Some(5000), Some(1 << 40), Some(0)] {
        let change = AttributeChange {
            size_bytes,
            clears: u32::MAX,
            ..Default::default()
        };
        let _ = volume.set_attributes(ino, &change);
    }
    volume.close(ino);
}

fn remove_names(volume: &Volume, directory: InodeNumber) {
    let mut names = Vec::new();
    let _ = volume.read_directory(directory, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        names.len() < MANY
    });
    for name in names {
        let _ = volume.unlink(directory, &name);
        let _ = volume.remove_directory(directory, &name);
    }
}
