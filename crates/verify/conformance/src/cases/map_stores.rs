//! Stores through shared mappings that no call has announced: what else is asked of the file counts them.

use super::words::*;
use crate::mapping::Map;

cases!("map_stores":
    stores_are_data_at_once, stores_are_data_for_other_processes, copies_take_stores, punching_beside_stores_keeps_them,
    stores_behind_the_end_are_no_data, stores_to_written_pages_survive_on_a_full_volume,
);

const PAGE: usize = 4096;

/// A file of holes, with the fourth page stored to through a mapping.
fn stored_in_a_hole() -> (Fd, Map) {
    let f = make(c"f");
    ftruncate(f.0, 16 * PAGE as i64).unwrap();
    let map = Map::shared(f.0, 16 * PAGE);
    map.store(4 * PAGE, &pattern(3, PAGE));
    (f, map)
}

/// Where data begins and ends, and how much there is.
#[track_caller]
fn has_one_page_of_data(f: i32, page: usize) {
    let (from, to) = ((page * PAGE) as i64, ((page + 1) * PAGE) as i64);
    assert_eq!(lseek(f, 0, SEEK_DATA), Ok(from));
    assert_eq!(lseek(f, from, SEEK_HOLE), Ok(to));
    assert_eq!(lseek(f, to, SEEK_DATA), Err(Errno(ENXIO)));
    assert_eq!(fstat(f).unwrap().st_blocks, PAGE as i64 / 512);
}

fn stores_are_data_at_once() {
    let (f, map) = stored_in_a_hole();
    has_one_page_of_data(f.0, 4);
    // Again, by a page that is there, and one that is not yet.
    map.store(4 * PAGE, b"again");
    has_one_page_of_data(f.0, 4);
    map.store(5 * PAGE, b"next");
    assert_eq!(stat(c"f").unwrap().st_blocks, 2 * PAGE as i64 / 512);
    assert_eq!(lseek(f.0, 4 * PAGE as i64, SEEK_HOLE), Ok(6 * PAGE as i64));
}

fn stores_are_data_for_other_processes() {
    let (_f, map) = stored_in_a_hole();
    fn look() {
        let f = open(c"f", O_RDONLY, 0).unwrap();
        has_one_page_of_data(f.0, 4);
    }
    apart(look);
    map.store(4 * PAGE + 1, b"again");
    apart(look);
    map.store(9 * PAGE, b"more");
    apart(|| assert_eq!(stat(c"f").unwrap().st_blocks, 2 * PAGE as i64 / 512));
}

fn copies_take_stores() {
    let (f, map) = stored_in_a_hole();
    let to = make(c"to");
    let (mut from, mut at) = (0, 0);
    while from < 16 * PAGE as i64 {
        let (from, at) = (Some(&mut from), Some(&mut at));
        let copied = copy_file_range((f.0, from), (to.0, at), 16 * PAGE, 0);
        assert!(copied.unwrap() > 0);
    }
    holds(c"to", &map.all(16 * PAGE));
}

fn punching_beside_stores_keeps_them() {
    file(c"f", &pattern(1, 16 * PAGE));
    let f = open(c"f", O_RDWR, 0).unwrap();
    let map = Map::shared(f.0, 16 * PAGE);
    for page in 0..16 {
        map.store(page * PAGE, &[page as u8; 100]);
    }
    let mut expected = map.all(16 * PAGE);
    let (from, bytes) = (3 * PAGE + 50, 4 * PAGE);
    let mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    fallocate(f.0, mode, from as i64, bytes as i64).unwrap();
    expected[from..from + bytes].fill(0);
    assert_eq!(lseek(f.0, 0, SEEK_HOLE), Ok(4 * PAGE as i64));
    assert_eq!(lseek(f.0, 4 * PAGE as i64, SEEK_DATA), Ok(7 * PAGE as i64));
    assert_same(&map.all(16 * PAGE), &expected);
    holds(c"f", &expected);
}

/// Every way to grow a file whose last page has bytes behind the end.
fn stores_behind_the_end_are_no_data() {
    type Growth = (&'static str, fn(i32));
    let ways: [Growth; 6] = [
        ("ftruncate", |f| ftruncate(f, 2 * PAGE as i64).unwrap()),
        ("truncate", |_| truncate(c"f", 2 * PAGE as i64).unwrap()),
        ("ftruncate within the page", |f| ftruncate(f, 100).unwrap()),
        ("a write behind the page", |f| {
            assert_eq!(pwrite(f, b"x", 2 * PAGE as i64 - 1), Ok(1));
        }),
        ("a write within the page", |f| {
            assert_eq!(pwrite(f, b"x", 99), Ok(1));
        }),
        ("fallocate", |f| {
            fallocate(f, 0, 0, 2 * PAGE as i64).unwrap()
        }),
    ];
    for (way, grow) in ways {
        for is_elsewhere in [false, true] {
            file(c"f", b"0123456789");
            let f = open(c"f", O_RDWR, 0).unwrap();
            let map = Map::shared(f.0, PAGE);
            map.store(10, &[b'j'; PAGE - 10]);
            if is_elsewhere {
                apart(|| grow(open(c"f", O_RDWR, 0).unwrap().0))
            } else {
                grow(f.0)
            }
            let size = fstat(f.0).unwrap().st_size as usize;
            let mut expected = vec![0; size];
            expected[..10].copy_from_slice(b"0123456789");
            if way.starts_with("a write") {
                expected[size - 1] = b'x';
            }
            assert_same(&map.all(PAGE.min(size)), &expected[..PAGE.min(size)]);
            // What is stored now is part of it.
            map.store(50, b"stored");
            expected[50..56].copy_from_slice(b"stored");
            map.sync().unwrap();
            assert_same(&content(f.0), &expected);
            drop((map, f));
            holds(c"f", &expected);
            unlink(c"f").unwrap();
        }
    }
}

/// Fill the volume that the directory is in, to the last block. Blocks of files that earlier cases removed may
/// still be given back at that time: the volume is full when a write is refused, whatever came of the write before.
fn fill(f: i32) {
    for bytes in [1 << 20, PAGE] {
        let data = pattern(7, bytes);
        let refused = loop {
            match write(f, &data) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(refused, Errno(ENOSPC));
    }
}

fn stores_to_written_pages_survive_on_a_full_volume() {
    const STORED: usize = 200;
    if fstatfs(open(c".", O_RDONLY, 0).unwrap().0)
        .unwrap()
        .f_bavail
        > (1 << 30) / PAGE as u64
    {
        skip("it would fill a large file system");
    }
    apart(|| file(c"f", &pattern(1, STORED * PAGE)));
    let filler = make(c"filler");
    fill(filler.0);
    let mut expected = pattern(1, STORED * PAGE);
    for round in 0..3u8 {
        apart(|| {
            let f = open(c"f", O_RDWR, 0).unwrap();
            let map = Map::shared(f.0, STORED * PAGE);
            for page in 0..STORED {
                map.store(page * PAGE + 7, &[round; 50]);
            }
        });
        for page in 0..STORED {
            expected[page * PAGE + 7..][..50].fill(round);
        }
        let f = open(c"f", O_RDONLY, 0).unwrap();
        with_fd(libc::fsync, f.0).unwrap();
        assert_same(&content(f.0), &expected);
    }
    drop(filler);
    unlink(c"filler").unwrap();
    holds(c"f", &expected);
}
