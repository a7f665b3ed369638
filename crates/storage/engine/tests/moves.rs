//! Renames of files: what they cost, and that their times last.

use crate::common::*;
use egeria_engine::format::*;
use egeria_engine::*;
use egeria_media::PoolOffset;

const ROOT: InodeNumber = InodeNumber::ROOT;
const FILES: u64 = 300;

fn name(at: u64) -> Vec<u8> {
    format!("file{at}").into_bytes()
}

fn make_all(volume: &Volume) -> Vec<InodeNumber> {
    let make = |at| volume.create(ROOT, &name(at), &FILE).unwrap().ino;
    (0..FILES).map(make).collect()
}

fn rename_all(volume: &Volume) {
    for at in 0..FILES {
        let to = [b"moved ", &name(at)[..]].concat();
        let replace = RenameMode::Replace;
        volume.rename(ROOT, &name(at), ROOT, &to, replace).unwrap();
    }
}

fn ctime_ns(volume: &Volume, ino: InodeNumber) -> i64 {
    volume.attributes(ino).unwrap().ctime_ns
}

/// The move of a record in pool 0.
fn move_of(volume: &Volume, ino: InodeNumber) -> u64 {
    let pool = &volume.pools()[0];
    let geometry = Geometry::new(0, pool.blocks());
    let (_, index) = inode_place(ino.0).unwrap();
    let chunk = index / INODES_PER_BLOCK;
    let pointer = pool.load_u64(inode_pointer(&geometry, chunk)).unwrap();
    let block = decode_inode_pointer(chunk, pointer).unwrap().unwrap();
    let record = block.offset() + index % INODES_PER_BLOCK * INODE_BYTES;
    pool.load_u64(PoolOffset(record.0 + MOVED_AT)).unwrap()
}

#[test]
fn a_rename_takes_no_log_page_of_the_file() {
    for (version, most) in [(FORMAT_VERSION, FILES / 10), (4, 2 * FILES)] {
        let scratch = Scratch::new(1, 16 << 20);
        if version < FORMAT_VERSION {
            scratch.age(version);
        }
        let volume = scratch.attach();
        // It advances with each read, so that a lost time is seen.
        volume.set_clock(1 << 60);
        let files = make_all(&volume);
        let before = volume.space(None).free_blocks;
        rename_all(&volume);
        let taken = before - volume.space(None).free_blocks;
        assert!(taken < most, "version {version}: {taken} blocks");
        let is_new = version == FORMAT_VERSION;
        assert!(is_new || taken >= FILES, "older programs read logs alone");
        assert_eq!(move_of(&volume, files[0]) != 0, is_new);
        let times = files.iter().map(|ino| ctime_ns(&volume, *ino));
        let times: Vec<i64> = times.collect();
        drop(volume);
        let volume = scratch.attach();
        let again = files.iter().map(|ino| ctime_ns(&volume, *ino));
        assert!(again.eq(times), "version {version}");
        drop(volume);
        scratch.assert_clean();
    }
}

#[test]
fn the_later_of_a_move_and_a_change_is_the_change_time() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    // It advances with each read.
    volume.set_clock(1 << 60);
    let replace = RenameMode::Replace;
    let file = volume.create(ROOT, b"a", &FILE).unwrap();
    let change = AttributeChange::default();
    let mut last_ns = file.ctime_ns;
    for (from, to) in [(b"a", b"b"), (b"b", b"c")] {
        volume.rename(ROOT, from, ROOT, to, replace).unwrap();
        let moved_ns = ctime_ns(&volume, file.ino);
        assert!(moved_ns > last_ns);
        last_ns = volume.set_attributes(file.ino, &change).unwrap().ctime_ns;
        assert!(last_ns > moved_ns);
    }
    drop(volume);
    let volume = scratch.attach();
    assert_eq!(ctime_ns(&volume, file.ino), last_ns);
    volume.set_clock((1 << 60) + (1 << 40));
    volume.rename(ROOT, b"c", ROOT, b"d", replace).unwrap();
    let moved_ns = ctime_ns(&volume, file.ino);
    drop(volume);
    let volume = scratch.attach();
    assert_eq!(ctime_ns(&volume, file.ino), moved_ns);
    assert!(moved_ns > last_ns);
}

#[test]
fn a_new_inode_has_no_move_of_an_earlier_one() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let files = make_all(&volume);
    rename_all(&volume);
    assert!(files.iter().all(|ino| move_of(&volume, *ino) != 0));
    for at in 0..FILES {
        let to = [b"moved ", &name(at)[..]].concat();
        volume.unlink(ROOT, &to).unwrap();
    }
    drop(volume);
    // A new session takes the numbers from the beginning.
    let volume = scratch.attach();
    let again = make_all(&volume);
    let reused: Vec<_> = again.iter().filter(|ino| files.contains(ino)).collect();
    assert!(reused.len() > 100, "{}", reused.len());
    assert!(again.iter().all(|ino| move_of(&volume, *ino) == 0));
}
