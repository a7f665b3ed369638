//! Snapshots: what they show while programs change everything, and that they give all space back.

use crate::common::*;
use egeria_engine::*;
use egeria_stats::rng::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ROOT: InodeNumber = InodeNumber::ROOT;
const MIB: u64 = 1 << 20;

/// What a program sees of one inode.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    ino: u64,
    mode: u32,
    owner: (u32, u32),
    nlink: u32,
    mtime_ns: i64,
    ctime_ns: i64,
    content: Vec<u8>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Everything below the root, by path.
type Tree = BTreeMap<String, Seen>;

fn seen(attributes: &Attributes, content: Vec<u8>, mut xattrs: Vec<(Vec<u8>, Vec<u8>)>) -> Seen {
    xattrs.retain(|(name, _)| !name.starts_with(b"user.egeria."));
    xattrs.sort();
    Seen {
        ino: attributes.ino.0,
        mode: attributes.mode,
        owner: (attributes.uid, attributes.gid),
        nlink: attributes.nlink,
        mtime_ns: attributes.mtime_ns,
        ctime_ns: attributes.ctime_ns,
        content,
        xattrs,
    }
}

fn path_of(directory: &str, name: &[u8]) -> String {
    format!("{directory}/{}", String::from_utf8_lossy(name))
}

fn is_written_in_place(volume: &Volume, ino: InodeNumber) -> bool {
    let is = |name: &[u8], value: &[u8]| {
        let found = volume.get_xattr(ino, name);
        found.is_ok_and(|found| found.starts_with(value))
    };
    is(b"user.egeria.layout", b"striped") && !is(b"user.egeria.checksum", b"crc32c")
}

/// As programs see it now.
fn tree_now(volume: &Volume) -> Tree {
    let mut tree = Tree::new();
    let mut queue = vec![(String::new(), ROOT)];
    while let Some((path, directory)) = queue.pop() {
        let mut entries = Vec::new();
        volume
            .read_directory(directory, 0, &mut |entry| {
                if entry.name != b"." && entry.name != b".." {
                    entries.push((path_of(&path, entry.name), entry.ino, entry.kind));
                }
                true
            })
            .unwrap();
        for (path, ino, kind) in entries {
            let attributes = volume.attributes(ino).unwrap();
            let content = match kind {
                FileKind::Regular => content_now(volume, ino),
                FileKind::Symlink => volume.read_link(ino).unwrap(),
                _ => Vec::new(),
            };
            let names = volume.list_xattr(ino).unwrap();
            let xattrs = names.into_iter().map(|name| {
                let value = volume.get_xattr(ino, &name).unwrap();
                (name, value)
            });
            let mut seen = seen(&attributes, content, xattrs.collect());
            if is_written_in_place(volume, ino) {
                // The log has its times only once in a second.
                (seen.mtime_ns, seen.ctime_ns) = (0, 0);
            }
            tree.insert(path.clone(), seen);
            if kind == FileKind::Directory {
                queue.push((path, ino));
            }
        }
    }
    tree
}

fn content_now(volume: &Volume, ino: InodeNumber) -> Vec<u8> {
    let file = volume.open(ino, None).unwrap();
    let mut bytes = vec![0; volume.size_bytes(file).unwrap() as usize];
    assert_eq!(volume.read(file, 0, &mut bytes), Ok(bytes.len()));
    volume.close(ino);
    bytes
}

/// As a snapshot shows it.
fn tree_of(snapshot: &Snapshot) -> Outcome<Tree> {
    let mut tree = Tree::new();
    let mut queue = vec![(String::new(), ROOT)];
    while let Some((path, directory)) = queue.pop() {
        for entry in snapshot.names(directory)? {
            let path = path_of(&path, &entry.name);
            let attributes = snapshot.attributes(entry.ino)?;
            let content = match entry.kind {
                FileKind::Regular | FileKind::Symlink => content_of(snapshot, entry.ino)?,
                _ => Vec::new(),
            };
            let xattrs = snapshot.xattrs(entry.ino)?;
            tree.insert(path.clone(), seen(&attributes, content, xattrs));
            if entry.kind == FileKind::Directory {
                queue.push((path, entry.ino));
            }
        }
    }
    Ok(tree)
}

/// Its data alone, with zeros between.
fn content_of(snapshot: &Snapshot, ino: InodeNumber) -> Outcome<Vec<u8>> {
    let file = snapshot.file(ino)?;
    let mut bytes = vec![0; file.size_bytes() as usize];
    let mut at = 0;
    while let Some(range) = file.data_from(at) {
        let part = &mut bytes[range.start as usize..range.end as usize];
        let length = part.len();
        assert_eq!(snapshot.read(&file, range.start, part)?, length);
        at = range.end;
    }
    Ok(bytes)
}

fn compare(expected: &Tree, found: &Tree) {
    let names = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected));
    for (path, expected) in expected {
        let found = &found[path];
        assert!(found.content == expected.content, "content of {path}");
        let mut found = found.clone();
        if expected.mtime_ns == 0 {
            (found.mtime_ns, found.ctime_ns) = (0, 0);
        }
        // The content would fill the screen.
        let rest = |seen: &Seen| Seen {
            content: Vec::new(),
            ..seen.clone()
        };
        assert_eq!(rest(&found), rest(expected), "{path}");
    }
}

/// Changes of everything that files and directories have, which a seed chooses.
struct Changes {
    rng: Rng,
    made: u64,
}

impl Changes {
    fn new(seed: u64) -> Changes {
        Changes {
            rng: Rng::new(seed),
            made: 0,
        }
    }

    fn directory(&mut self, volume: &Volume) -> InodeNumber {
        let name = format!("d{}", self.rng.below(3));
        let found = volume.lookup(ROOT, name.as_bytes());
        let made = found.or_else(|_| volume.create(ROOT, name.as_bytes(), &DIRECTORY));
        let ino = made.unwrap().ino;
        if name == "d2" {
            set_checksums(volume, ino, b"crc32c").unwrap();
        }
        ino
    }

    fn file(&mut self, volume: &Volume) -> (InodeNumber, Vec<u8>, InodeNumber) {
        let directory = self.directory(volume);
        let name = format!("f{}", self.rng.below(6)).into_bytes();
        let ino = match volume.lookup(directory, &name) {
            Ok(found) => found.ino,
            Err(_) => {
                let ino = volume.create(directory, &name, &FILE).unwrap().ino;
                if self.rng.below(4) == 0 {
                    let layout = b"user.egeria.layout";
                    let _ = volume.set_xattr(ino, layout, b"striped:4096", XattrMode::Any);
                }
                ino
            }
        };
        (directory, name, ino)
    }

    fn one(&mut self, volume: &Volume) {
        let (directory, name, ino) = self.file(volume);
        let at = self.rng.below(60_000);
        let bytes = match self.rng.below(3) {
            0 => 1 + self.rng.below(100),
            1 => 4096,
            _ => 1 + self.rng.below(30_000),
        };
        let at = if bytes == 4096 { at / 4096 * 4096 } else { at };
        self.made += 1;
        let data = vec![self.made as u8; bytes as usize];
        let file = volume.open(ino, None).unwrap();
        match self.rng.below(13) {
            0..5 => assert_eq!(volume.write(file, at, &data), Ok(data.len())),
            5 => {
                volume.append(file, &data).unwrap();
            }
            6 | 7 => truncate(volume, ino, at),
            8 => {
                let modes = [
                    AllocateMode::PunchHole,
                    AllocateMode::ZeroRange,
                    AllocateMode::KeepSize,
                ];
                let mode = modes[self.rng.below(3) as usize];
                volume.allocate(file, at, bytes, mode).unwrap();
            }
            9 => {
                let value = &data[..data.len().min(2000)];
                let set = volume.set_xattr(ino, b"user.value", value, XattrMode::Any);
                set.unwrap();
            }
            10 => volume.unlink(directory, &name).unwrap(),
            11 => {
                let to = self.directory(volume);
                let new = format!("f{}", self.rng.below(6)).into_bytes();
                let moved = volume.rename(directory, &name, to, &new, RenameMode::Replace);
                moved.unwrap();
            }
            _ => {
                let new = format!("l{}", self.rng.below(6)).into_bytes();
                let _ = volume.unlink(directory, &new);
                match self.rng.below(2) {
                    0 => volume.symlink(directory, &new, &data[..data.len().min(300)], 0, 0),
                    _ => volume.link(ino, directory, &new),
                }
                .unwrap();
            }
        }
        volume.close(ino);
    }
}

fn free_blocks(volume: &Volume) -> u64 {
    volume.space(None).free_blocks
}

/// What is free is free again in the next session: nothing was lost.
fn nothing_is_lost(scratch: &Scratch, volume: Arc<Volume>) {
    let before = free_blocks(&volume);
    drop(volume);
    scratch.assert_clean();
    assert_eq!(free_blocks(&scratch.attach()), before);
}

#[test]
fn a_snapshot_shows_the_instant_it_was_taken() {
    for seed in 0..40 {
        let scratch = Scratch::new(2, 32 * MIB);
        let volume = scratch.attach();
        let mut changes = Changes::new(seed);
        for _ in 0..80 {
            changes.one(&volume);
        }
        for _ in 0..3 {
            let expected = tree_now(&volume);
            let snapshot = volume.snapshot().unwrap();
            for _ in 0..60 {
                changes.one(&volume);
            }
            // Read in part before other changes, as a slow reader does.
            let _ = snapshot.names(ROOT).unwrap();
            for _ in 0..60 {
                changes.one(&volume);
            }
            compare(&expected, &tree_of(&snapshot).unwrap());
            compare(&expected, &tree_of(&snapshot).unwrap());
        }
        let now = tree_now(&volume);
        drop(volume);
        let volume = scratch.attach();
        compare(&now, &tree_now(&volume));
        nothing_is_lost(&scratch, volume);
    }
}

#[test]
fn a_write_in_place_after_a_snapshot_shows_in_the_log() {
    let scratch = Scratch::new(2, 16 * MIB);
    let volume = scratch.attach();
    let ino = volume.create(ROOT, b"striped", &FILE).unwrap().ino;
    let layout = b"user.egeria.layout";
    volume
        .set_xattr(ino, layout, b"striped:4096", XattrMode::Any)
        .unwrap();
    let file = volume.open(ino, None).unwrap();
    volume.write(file, 0, &[1; 4 * 4096]).unwrap();
    let mut known = Vec::new();
    for round in 2..6 {
        // The second one is in place, without a new time.
        volume.write(file, 0, &[round; 4096]).unwrap();
        volume.write(file, 4096, &[round; 4096]).unwrap();
        let snapshot = volume.snapshot().unwrap();
        let end = snapshot.log_end(ino).unwrap();
        assert!(!known.contains(&end), "round {round}: {end:?}");
        // What was written in place is not in the log.
        for before in &known {
            assert_eq!(snapshot.changes_since(ino, *before), Ok(None));
        }
        assert_eq!(snapshot.changes_since(ino, end), Ok(Some(Vec::new())));
        known.push(end);
    }
    volume.close(ino);
}

/// Regular files by number and generation: where the log ends, and the content.
type Files = BTreeMap<(u64, u32), (LogEnd, Vec<u8>)>;

fn files_of(snapshot: &Snapshot, tree: &Tree) -> Files {
    let files = tree
        .values()
        .filter(|seen| seen.mode & libc::S_IFMT == libc::S_IFREG);
    let of = |seen: &Seen| {
        let ino = InodeNumber(seen.ino);
        let generation = snapshot.attributes(ino).unwrap().generation;
        let end = snapshot.log_end(ino).unwrap();
        ((seen.ino, generation), (end, seen.content.clone()))
    };
    files.map(of).collect()
}

#[test]
fn what_changed_leads_from_one_snapshot_to_the_next() {
    let (mut told, mut all, mut changed_bytes, mut all_bytes) = (0, 0, 0, 0);
    for seed in 100..140 {
        let scratch = Scratch::new(2, 32 * MIB);
        let volume = scratch.attach();
        let mut changes = Changes::new(seed);
        let mut before = Files::new();
        for round in 0..6 {
            for _ in 0..if round % 2 == 0 { 60 } else { 8 } {
                changes.one(&volume);
            }
            let snapshot = volume.snapshot().unwrap();
            let tree = tree_of(&snapshot).unwrap();
            let now = files_of(&snapshot, &tree);
            for (file, (end, old)) in &before {
                let Some((_, content)) = now.get(file) else {
                    continue;
                };
                all += 1;
                let changed = snapshot.changes_since(InodeNumber(file.0), *end).unwrap();
                let Some(ranges) = changed else { continue };
                told += 1;
                all_bytes += content.len();
                let mut made: Vec<u8> = old.clone();
                made.resize(content.len(), 0);
                for range in ranges {
                    let range = range.start as usize..range.end as usize;
                    changed_bytes += range.len();
                    made[range.clone()].copy_from_slice(&content[range]);
                }
                assert!(made == *content, "seed {seed}, round {round}, {file:?}");
            }
            before = now;
        }
    }
    // Most files are not striped, and logs are rarely compacted.
    assert!(told > all / 2, "{told} of {all}");
    assert!(
        changed_bytes < all_bytes * 3 / 4,
        "{changed_bytes} of {all_bytes}"
    );
}

#[test]
fn a_log_that_was_compacted_does_not_tell_what_changed() {
    let scratch = Scratch::new(1, 16 * MIB);
    let volume = scratch.attach();
    let file = filled_file(&volume, 10);
    let ino = file.ino();
    let mut known = Vec::new();
    let mut untold = 0;
    for round in 0..60u64 {
        let snapshot = volume.snapshot().unwrap();
        known.push((
            snapshot.log_end(ino).unwrap(),
            content_of(&snapshot, ino).unwrap(),
        ));
        drop(snapshot);
        for write in 0..200 {
            let at = (round * 7 + write) % 10 * 4096;
            volume
                .write(file, at, &[(round + write) as u8; 4096])
                .unwrap();
        }
        let snapshot = volume.snapshot().unwrap();
        let content = content_of(&snapshot, ino).unwrap();
        for (end, old) in &known {
            match snapshot.changes_since(ino, *end).unwrap() {
                None => untold += 1,
                Some(ranges) => {
                    let mut made = old.clone();
                    for range in ranges {
                        let range = range.start as usize..range.end as usize;
                        made[range.clone()].copy_from_slice(&content[range]);
                    }
                    assert!(made == content, "round {round}");
                }
            }
        }
    }
    assert!(untold > 500, "{untold}");
    volume.close(ino);
}

#[test]
fn space_that_a_snapshot_held_is_free_after_it() {
    let scratch = Scratch::new(1, 64 * MIB);
    let volume = scratch.attach();
    let file = filled_file(&volume, 2000);
    let before = free_blocks(&volume);
    let snapshot = volume.snapshot().unwrap();
    for _ in 0..2 {
        for block in 0..2000 {
            volume.write(file, block * 4096, &[8; 4096]).unwrap();
        }
    }
    assert!(free_blocks(&volume) + 3990 < before);
    drop(snapshot);
    assert!(free_blocks(&volume) + 10 > before);
    volume.close(file.ino());
    nothing_is_lost(&scratch, volume);
}

#[test]
fn one_snapshot_is_read_at_a_time() {
    let scratch = Scratch::new(1, 16 * MIB);
    let volume = scratch.attach();
    let snapshot = volume.snapshot().unwrap();
    let refused = volume.snapshot().err().unwrap();
    assert_eq!(refused.errno, libc::EBUSY);
    assert!(refused.to_string().contains("; wait until"), "{refused}");
    drop(snapshot);
    drop(volume.snapshot().unwrap());
}

#[test]
fn programs_that_need_the_space_end_a_snapshot() {
    let scratch = Scratch::new(1, 16 * MIB);
    let volume = scratch.attach();
    let file = filled_file(&volume, 1500);
    let snapshot = volume.snapshot().unwrap();
    let of_snapshot = snapshot.file(file.ino()).unwrap();
    for round in 0..4 {
        for block in 0..1500 {
            let written = volume.write(file, block * 4096, &[round; 4096]);
            assert_eq!(written, Ok(4096), "round {round}, block {block}");
        }
    }
    let mut bytes = [0; 4096];
    let stale = Err(Errno(libc::ESTALE));
    assert_eq!(snapshot.check(), stale.map(drop));
    assert_eq!(snapshot.read(&of_snapshot, 0, &mut bytes), stale);
    assert_eq!(snapshot.names(ROOT).err(), stale.err());
    drop(snapshot);
    volume.close(file.ino());
    nothing_is_lost(&scratch, volume);
}

/// Ends the other threads, also after a failure.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each thread writes a number to one file after it has written it to another, and moves a name between two directories.
#[test]
fn an_operation_is_in_it_only_with_those_before_it() {
    let scratch = Scratch::new(2, 64 * MIB);
    let volume = scratch.attach();
    let rooms = [b"a", b"b"].map(|name| volume.create(ROOT, name, &DIRECTORY).unwrap().ino);
    let is_over = AtomicBool::new(false);
    let files: Vec<[InodeNumber; 2]> = (0..3)
        .map(|thread| {
            let make = |name: String| volume.create(ROOT, name.as_bytes(), &FILE).unwrap().ino;
            let file = format!("moved{thread}");
            volume.create(rooms[0], file.as_bytes(), &FILE).unwrap();
            [
                make(format!("first{thread}")),
                make(format!("second{thread}")),
            ]
        })
        .collect();
    let number_in = |snapshot: &Snapshot, ino: InodeNumber| {
        let bytes = content_of(snapshot, ino).unwrap();
        bytes
            .get(..8)
            .map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
    };
    let mut seen = 0;
    std::thread::scope(|scope| {
        for (thread, inodes) in files.iter().enumerate() {
            let (volume, is_over) = (&volume, &is_over);
            scope.spawn(move || {
                let open = |ino: &InodeNumber| volume.open(*ino, None).unwrap();
                let [first, second] = [open(&inodes[0]), open(&inodes[1])];
                let name = format!("moved{thread}").into_bytes();
                let mut number = 0u64;
                while !is_over.load(Ordering::Relaxed) {
                    number += 1;
                    volume.write(first, 0, &number.to_le_bytes()).unwrap();
                    volume.write(second, 0, &number.to_le_bytes()).unwrap();
                    let (from, to) = (number as usize % 2, (number as usize + 1) % 2);
                    let moved =
                        volume.rename(rooms[to], &name, rooms[from], &name, RenameMode::Replace);
                    moved.unwrap();
                }
                inodes.iter().for_each(|ino| volume.close(*ino));
            });
        }
        let _end = Ending(&is_over);
        let begun = std::time::Instant::now();
        let mut taken = 0;
        while taken < 200 || seen < 100 && begun.elapsed().as_secs() < 60 {
            taken += 1;
            let snapshot = volume.snapshot().unwrap();
            for inodes in &files {
                // The later one first: a snapshot that is no instant would then have too much in it.
                let second = number_in(&snapshot, inodes[1]);
                let first = number_in(&snapshot, inodes[0]);
                assert!(first == second || first == second + 1, "{first} {second}");
                seen = seen.max(first);
            }
            let listed = |room: InodeNumber| snapshot.names(room).unwrap();
            let mut names = listed(rooms[0]);
            names.extend(listed(rooms[1]));
            assert_eq!(names.len(), files.len(), "{names:?}");
        }
    });
    assert!(seen >= 100, "{seen}");
    nothing_is_lost(&scratch, volume);
}
