//! Volumes the engine made, read by the reader that knows docs/reference/format.md only, and the other way round.

use super::reader::{Inode, Reader, crc32c, seal};
use crate::common::*;
use egeria_engine::*;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

const ROOT: InodeNumber = InodeNumber::ROOT;

fn images(scratch: &Scratch) -> Vec<Vec<u8>> {
    let read = |path| std::fs::read(path).unwrap();
    scratch.pools.iter().map(read).collect()
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + seed) as u8).collect()
}

/// Files of every kind, and logs with history: overwritten, truncated, punched, renamed, compacted.
fn fill(volume: &Volume) {
    let make = |parent, name: &[u8], new: &NewInode| volume.create(parent, name, new).unwrap().ino;
    let directory = make(ROOT, b"directory", &DIRECTORY);
    let file = make(directory, b"file", &FILE);
    let open = volume.open(file, None).unwrap();
    volume.write(open, 5000, &pattern(200_000, 1)).unwrap();
    volume.write(open, 100_000, &pattern(3, 2)).unwrap();
    volume.append(open, b"the end").unwrap();
    let mode = AllocateMode::PunchHole;
    volume.allocate(open, 20_000, 30_000, mode).unwrap();
    let mode = AllocateMode::KeepSize;
    volume.allocate(open, 300_000, 50_000, mode).unwrap();
    volume.write(open, 330_000, b"in reserved space").unwrap();
    volume.close(file);

    let cut = make(ROOT, b"cut", &FILE);
    let open = volume.open(cut, None).unwrap();
    volume.write(open, 0, &pattern(50_000, 3)).unwrap();
    for size_bytes in [9_000, 30_000] {
        let change = AttributeChange {
            size_bytes: Some(size_bytes),
            mtime: Some(TimeChange::At(-1)),
            ..AttributeChange::default()
        };
        volume.set_attributes(cut, &change).unwrap();
    }
    volume.close(cut);

    volume
        .symlink(ROOT, b"link", b"directory/file", 3, 4)
        .unwrap();
    volume.link(file, ROOT, b"second name").unwrap();
    let mut device = FILE;
    (device.mode, device.rdev) = (libc::S_IFCHR | 0o600, 0x103);
    make(ROOT, b"device", &device);
    let any = XattrMode::Any;
    volume.set_xattr(file, b"user.a", b"1", any).unwrap();
    volume.set_xattr(file, b"user.a", &[9; 3757], any).unwrap();
    volume.set_xattr(file, b"user.b", b"2", any).unwrap();
    volume.remove_xattr(file, b"user.b").unwrap();

    let many = make(ROOT, b"many", &DIRECTORY);
    for at in 0..3000 {
        volume
            .link(cut, many, format!("{at:0>30}").as_bytes())
            .unwrap();
        if at % 3 > 0 {
            volume
                .unlink(many, format!("{at:0>30}").as_bytes())
                .unwrap();
        }
    }
    make(directory, b"moves", &DIRECTORY);
    let replace = RenameMode::Replace;
    volume
        .rename(directory, b"moves", many, b"moved", replace)
        .unwrap();
    // Files with a log and without, which are changed afterwards or not.
    let often = make(directory, b"often", &DIRECTORY);
    for name in [b"one", b"two", b"six"] {
        let file = make(often, name, &FILE);
        let touch = || volume.set_attributes(file, &AttributeChange::default());
        if name == b"two" {
            touch().unwrap();
        }
        volume.rename(often, name, many, name, replace).unwrap();
        if name == b"six" {
            touch().unwrap();
        }
    }
    let exchange = RenameMode::Exchange;
    volume.rename(many, b"one", many, b"two", exchange).unwrap();
    fill_checked(volume, make(ROOT, b"checked", &DIRECTORY));
    fill_striped(volume, make(ROOT, b"striped", &DIRECTORY));
    make(ROOT, b"gone", &FILE);
    volume.unlink(ROOT, b"gone").unwrap();
}

/// Files with checksums, with a history that a compaction cut short and without.
fn fill_checked(volume: &Volume, directory: InodeNumber) {
    let any = XattrMode::Any;
    let on = b"crc32c";
    volume
        .set_xattr(directory, b"user.egeria.checksum", on, any)
        .unwrap();
    for (name, rounds) in [(b"short", 1), (b"often", 3000)] {
        let file = volume.create(directory, name, &FILE).unwrap().ino;
        let open = volume.open(file, None).unwrap();
        volume.write(open, 5000, &pattern(2_500_000, 1)).unwrap();
        for round in 0..rounds {
            volume.write(open, 100_000 + round, &pattern(5, 2)).unwrap();
        }
        volume.append(open, b"the end").unwrap();
        for (mode, at) in [
            (AllocateMode::PunchHole, 20_001),
            (AllocateMode::KeepSize, 2_600_000),
        ] {
            volume.allocate(open, at, 50_000, mode).unwrap();
        }
        for size_bytes in [2_000_001, 2_100_000] {
            let size_bytes = Some(size_bytes);
            let change = AttributeChange {
                size_bytes,
                ..AttributeChange::default()
            };
            volume.set_attributes(file, &change).unwrap();
        }
        volume.close(file);
    }
    volume.symlink(directory, b"link", b"often", 3, 4).unwrap();
    for name in [b"on", b"no"] {
        let inner = volume.create(directory, name, &DIRECTORY).unwrap().ino;
        volume.create(inner, b"fifo", &FIFO).unwrap();
        if name == b"no" {
            volume.remove_xattr(inner, b"user.egeria.checksum").unwrap();
        }
        let file = volume.create(inner, b"file", &FILE).unwrap().ino;
        let open = volume.open(file, None).unwrap();
        volume.write(open, 0, &pattern(9_000, 1)).unwrap();
        volume.close(file);
        // So often that its log is compacted.
        for _ in 0..3000 {
            volume.create(inner, b"name", &FILE).unwrap();
            volume.unlink(inner, b"name").unwrap();
        }
    }
}

/// Files that got their layout in each of the ways there are, with long logs and short.
fn fill_striped(volume: &Volume, directory: InodeNumber) {
    let name = b"user.egeria.layout".as_slice();
    let set = |ino, value: &[u8]| volume.set_xattr(ino, name, value, XattrMode::Any).unwrap();
    set(directory, b"striped:8192");
    for rounds in [1, 3000] {
        let make = |kind: &str, new| {
            let name = format!("{kind} {rounds}");
            volume.create(directory, name.as_bytes(), new).unwrap().ino
        };
        let (own, born, lost) = (make("own", &FILE), make("born", &FILE), make("lost", &FILE));
        set(own, b"striped");
        volume.remove_xattr(lost, name).unwrap();
        for ino in [own, born, lost] {
            let open = volume.open(ino, None).unwrap();
            volume.write(open, 5000, &pattern(200_000, 1)).unwrap();
            for round in 0..rounds {
                volume.write(open, 10_000 + round, &pattern(5, 2)).unwrap();
            }
            volume.close(ino);
        }
        let local = make("local", &DIRECTORY);
        set(local, b"local");
        volume.create(local, b"file", &FILE).unwrap();
        volume
            .create(make("inner", &DIRECTORY), b"fifo", &FIFO)
            .unwrap();
    }
}

const FIFO: NewInode = NewInode::of_root(libc::S_IFIFO | 0o644);

/// What `stat`, `readdir`, `read` and `getxattr` say of an inode, whoever reads it.
type Seen = (Inode, BTreeMap<Vec<u8>, (u64, u8)>, Vec<u8>);

fn seen_by_engine(volume: &Volume, ino: InodeNumber) -> Seen {
    let attributes = volume.attributes(ino).unwrap();
    let mut inode = Inode {
        generation: attributes.generation,
        mode: attributes.mode,
        uid: attributes.uid,
        gid: attributes.gid,
        nlink: attributes.nlink,
        rdev: attributes.rdev,
        size_bytes: attributes.size_bytes,
        times_ns: [
            attributes.atime_ns,
            attributes.mtime_ns,
            attributes.ctime_ns,
        ],
        ..Inode::default()
    };
    let layout = b"user.egeria.layout".to_vec();
    if let Ok(value) = volume.get_xattr(ino, &layout) {
        inode.xattrs.insert(layout, value);
    }
    for name in volume.list_xattr(ino).unwrap() {
        let value = volume.get_xattr(ino, &name).unwrap();
        inode.xattrs.insert(name, value);
    }
    let (mut names, mut content) = (BTreeMap::new(), Vec::new());
    match attributes.kind() {
        FileKind::Directory => {
            (inode.nlink, inode.size_bytes) = (1, 0);
            let mut emit = |entry: &DirectoryEntry<'_>| {
                match entry.name {
                    b"." => {}
                    b".." => inode.parent = entry.ino.0,
                    name => {
                        names.insert(name.to_vec(), (entry.ino.0, entry.kind as u8));
                    }
                }
                true
            };
            volume.read_directory(ino, 0, &mut emit).unwrap();
        }
        FileKind::Symlink => content = volume.read_link(ino).unwrap(),
        FileKind::Regular => {
            let file = volume.open(ino, None).unwrap();
            content = vec![1; attributes.size_bytes as usize];
            assert_eq!(volume.read(file, 0, &mut content).unwrap(), content.len());
            volume.close(ino);
        }
        _ => {}
    }
    for extent in volume.extents(ino).unwrap() {
        let pool = extent.pool as usize;
        for at in 0..extent.length_bytes / 4096 {
            let place = (pool, extent.block + at, extent.unwritten);
            inode
                .blocks
                .insert(extent.file_offset_bytes / 4096 + at, place);
        }
    }
    (inode, names, content)
}

fn seen_by_reader(reader: &Reader, ino: u64) -> Seen {
    let mut inode = reader.inode(ino).expect("an inode in use");
    let names = std::mem::take(&mut inode.names);
    let names = names
        .into_values()
        .map(|(name, ino, kind)| (name, (ino, kind)));
    let names = names.collect();
    let content = reader.content(&inode);
    if inode.mode & libc::S_IFMT != libc::S_IFDIR {
        inode.parent = 0;
        for value in inode.xattrs.get_mut(&b"user.egeria.layout"[..]).into_iter() {
            if value == b"striped" {
                *value = b"striped:32768".to_vec();
            }
        }
    }
    inode.log_pages = 0;
    inode.sums.clear();
    inode.checksums = false;
    (inode, names, content)
}

#[test]
fn a_reader_of_the_document_sees_what_the_engine_sees() {
    let scratch = Scratch::new(2, 32 << 20);
    let volume = scratch.attach();
    fill(&volume);
    drop(volume);
    let reader = Reader::new(images(&scratch));
    let volume = scratch.attach();
    let mut queue = vec![ROOT.0];
    let mut visited = 0;
    let mut xattrs = 0;
    while let Some(ino) = queue.pop() {
        let seen = seen_by_reader(&reader, ino);
        let engine = seen_by_engine(&volume, InodeNumber(ino));
        assert!(
            seen == engine,
            "inode {ino}: {:#?}\n{:#?}",
            seen.0,
            engine.0
        );
        if seen.0.mode & libc::S_IFMT == libc::S_IFDIR {
            queue.extend(seen.1.values().map(|(ino, _)| ino));
        }
        visited += 1;
        xattrs += seen.0.xattrs.len();
    }
    assert!(visited > 1000 && xattrs >= 1, "{visited} {xattrs}");
    assert!(reader.inode(16 * 63 + 1).is_none(), "a number not in use");
    drop(volume);
    scratch.assert_clean();
}

/// A journal slot written from the document is completed by the engine: as the crash left it between
/// the slot's commit and the words it names.
#[test]
fn a_journal_written_from_the_document_is_completed() {
    let scratch = Scratch::new(2, 32 << 20);
    let volume = scratch.attach();
    volume.create(ROOT, b"before", &FILE).unwrap();
    let word = |at: (usize, usize)| {
        let pool = &volume.pools()[at.0];
        pool.load_u64(egeria_media::PoolOffset(at.1 as u64))
            .unwrap()
    };
    let root = Reader::new(images(&scratch)).record(1).unwrap();
    let old = word(root);
    let ino = volume.create(ROOT, b"made", &FILE).unwrap().ino.0;
    let child = Reader::new(images(&scratch)).record(ino).unwrap();
    let pairs: Vec<u8> = [root, child]
        .into_iter()
        .flat_map(|at| [(at.0 as u64) << 56 | at.1 as u64, word(at)])
        .flat_map(u64::to_le_bytes)
        .collect();
    drop(volume);

    let store = |at: (usize, usize), bytes: &[u8]| {
        let file = std::fs::File::options()
            .write(true)
            .open(&scratch.pools[at.0]);
        file.unwrap().write_all_at(bytes, at.1 as u64).unwrap();
    };
    store(root, &old.to_le_bytes());
    store(child, &[0; 8]);
    let slot = 4095;
    let at = 5 * 4096 + slot * 256;
    store((0, at + 16), &pairs);
    let commit = 0xE6E8 << 48 | 2 << 32 | u64::from(crc32c(slot as u32, &pairs));
    // With any bit of the seal wrong the operation never was.
    store((0, at), &(commit ^ 1).to_le_bytes());
    let volume = scratch.attach();
    assert_eq!(volume.lookup(ROOT, b"made"), Err(Errno(libc::ENOENT)));
    drop(volume);
    store((0, at), &commit.to_le_bytes());
    let reader = Reader::new(images(&scratch));
    assert!(reader.inode(ino).is_some(), "the reader completes it");
    let volume = scratch.attach();
    assert_eq!(volume.lookup(ROOT, b"made").unwrap().ino.0, ino);
    drop(volume);
    let slot = &images(&scratch)[0][at..at + 8];
    assert_eq!(slot, [0; 8], "and is forgotten");
    scratch.assert_clean();
}

/// An orphan is an inode whose record says so, whatever its log; the next attach frees it.
#[test]
fn an_orphan_made_from_the_document_is_dropped() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let ino = volume.create_unnamed(ROOT, &FILE).unwrap().ino.0;
    let reader = Reader::new(images(&scratch));
    let (_, at) = reader.record(ino).unwrap();
    let word = u64::from_le_bytes(reader.pools[0][at..at + 8].try_into().unwrap());
    assert_eq!(word, seal(b"COMT", ino, 1 << 52 | 1 << 53));
    volume.close(InodeNumber(ino));
    drop(volume);
    let file = std::fs::File::options().write(true).open(&scratch.pools[0]);
    file.unwrap()
        .write_all_at(&word.to_le_bytes(), at as u64)
        .unwrap();
    let volume = scratch.attach();
    let gone = volume.attributes(InodeNumber(ino));
    assert_eq!(gone, Err(Errno(libc::ESTALE)));
    drop(volume);
    assert!(Reader::new(images(&scratch)).inode(ino).is_none());
}

#[test]
fn the_session_line_names_boot_and_session() {
    let scratch = Scratch::new(1, 16 << 20);
    assert_eq!(images(&scratch)[0][4 * 4096..5 * 4096], [0; 4096]);
    let volume = scratch.attach();
    let line = images(&scratch)[0][4 * 4096..][..64].to_vec();
    assert_eq!(&line[..8], b"EGLINE01");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(hex(&line[8..24]), boot.trim().replace('-', ""));
    let segment = format!(
        "{}/{}-{}",
        sessions().display(),
        volume.uuid().simple(),
        hex(&line[24..40])
    );
    assert!(std::path::Path::new(&segment).exists(), "{segment}");
    assert_eq!(line[40..60], [0; 20]);
    assert_eq!(line[60..], crc32c(0, &line[..60]).to_le_bytes());
    drop(volume);
    assert!(
        !std::path::Path::new(&segment).exists(),
        "the last one removes it"
    );
}
