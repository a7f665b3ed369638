//! Mappings and writes of the same file at once: neither may hang, fail, or lose what the other did.

use super::words::*;
use crate::mapping::Map;
use crate::process::in_time;

cases!("map_beside_write":
    pwrite_takes_an_untouched_mapping, writev_takes_an_untouched_mapping, append_takes_an_untouched_mapping,
    reads_fill_an_untouched_mapping, two_files_are_written_from_each_others_mappings,
    untouched_pages_behind_the_end_can_be_read_after_growth, untouched_pages_behind_the_end_can_be_written_after_growth,
    untouched_pages_behind_the_end_can_be_both_after_growth, grown_pages_are_sources_of_writes,
    writes_and_stores_of_two_threads_share_pages, writes_and_stores_of_two_processes_share_pages,
    appends_and_stores_share_the_last_page,
);

const PAGE: usize = 4096;
/// Pages of the files that are written from their own mappings.
const PAGES: usize = 16;

/// A file that nobody has open, and whose descriptors nobody has used yet.
fn closed_file(path: &std::ffi::CStr, bytes: usize) {
    apart(|| file(path, &pattern(1, bytes)));
}

fn memory(map: &Map, at: usize, bytes: usize) -> iovec {
    iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(map.address(at)),
        iov_len: bytes,
    }
}

const KINDS: [(&str, i32); 2] = [("shared", MAP_SHARED), ("private", MAP_PRIVATE)];

/// Map right after `open`, then write a page from another page of the mapping that nobody touched.
#[track_caller]
fn written_from_itself(flags: i32, write: fn(i32, iovec) -> Answer, at: usize) {
    for (kind, sharing) in KINDS {
        for protection in [PROT_READ, PROT_READ | PROT_WRITE] {
            closed_file(c"f", PAGES * PAGE);
            in_time(&format!("from a {kind} mapping"), || {
                let f = open(c"f", O_RDWR | flags, 0).unwrap();
                let map = Map::make(f.0, PAGES * PAGE, protection, sharing, 0).unwrap();
                let from = (PAGES - 1) * PAGE;
                assert_eq!(write(f.0, memory(&map, from, PAGE)), Ok(PAGE as i64));
            });
            in_time("what others see", || {
                let mut expected = pattern(1, PAGES * PAGE);
                let last = expected[(PAGES - 1) * PAGE..].to_vec();
                expected.resize(expected.len().max(at + PAGE), 0);
                expected[at..at + PAGE].copy_from_slice(&last);
                holds(c"f", &expected);
            });
        }
    }
}

fn pwrite_takes_an_untouched_mapping() {
    let write = |fd, part: iovec| {
        let address = part.iov_base.expose_provenance();
        transfer_raw_at(true, fd, address, part.iov_len, 0)
    };
    written_from_itself(0, write, 0);
}

fn writev_takes_an_untouched_mapping() {
    written_from_itself(0, |fd, part| vector_raw(true, fd, &[part], 1), 0);
    let in_halves = |fd, part: iovec| {
        let half = part.iov_len / 2;
        let second = iovec {
            iov_base: part.iov_base.wrapping_byte_add(half),
            iov_len: half,
        };
        let first = iovec {
            iov_len: half,
            ..part
        };
        vector_raw(true, fd, &[first, second], 2)
    };
    written_from_itself(0, in_halves, 0);
}

fn append_takes_an_untouched_mapping() {
    let write = |fd, part: iovec| {
        let address = part.iov_base.expose_provenance();
        transfer_raw(true, fd, address, part.iov_len)
    };
    written_from_itself(O_APPEND, write, PAGES * PAGE);
}

fn reads_fill_an_untouched_mapping() {
    for (kind, sharing) in KINDS {
        closed_file(c"f", PAGES * PAGE);
        in_time(&format!("into a {kind} mapping"), || {
            let f = open(c"f", O_RDWR, 0).unwrap();
            let map = Map::make(f.0, PAGES * PAGE, PROT_READ | PROT_WRITE, sharing, 0).unwrap();
            let to = (PAGES - 1) * PAGE;
            assert_eq!(
                transfer_raw(false, f.0, map.address(to), PAGE),
                Ok(PAGE as i64)
            );
            assert_same(&map.all(PAGES * PAGE)[to..], &pattern(1, PAGE));
        });
    }
}

/// Each of two processes writes one file from a mapping of the other.
fn two_files_are_written_from_each_others_mappings() {
    in_time("two processes", || {
        for _ in 0..20 {
            closed_file(c"one", PAGES * PAGE);
            closed_file(c"two", PAGES * PAGE);
            let work = |from, to| {
                let (from, to) = (open(from, O_RDONLY, 0), open(to, O_WRONLY, 0));
                let (from, to) = (from.unwrap(), to.unwrap());
                let map = Map::make(from.0, PAGES * PAGE, PROT_READ, MAP_SHARED, 0).unwrap();
                for page in 0..PAGES {
                    let address = map.address(page * PAGE);
                    assert_eq!(transfer_raw(true, to.0, address, PAGE), Ok(PAGE as i64));
                }
            };
            let other = Child::begin(|| work(c"one", c"two"));
            work(c"two", c"one");
            other.join();
        }
    });
}

/// A way to make a file of this many pages, and what to call it.
type Growth = (&'static str, fn(i32, usize));

fn grow_by_pwrite(fd: i32, pages: usize) {
    let data = pattern(9, PAGE);
    for page in 0..pages {
        assert_eq!(pwrite(fd, &data, (page * PAGE) as i64), Ok(PAGE));
    }
}

const GROWTHS: [Growth; 8] = [
    ("pwrite through the descriptor", grow_by_pwrite),
    ("write through the descriptor", |fd, pages| {
        put(fd, &pattern(9, PAGE).repeat(pages));
    }),
    ("writev through the descriptor", |fd, pages| {
        let data = pattern(9, PAGE);
        for _ in 0..pages {
            assert_eq!(writev(fd, &[&data[..5], &data[5..]]), Ok(PAGE as i64));
        }
    }),
    ("pwrite through another open", |_, pages| {
        grow_by_pwrite(open(c"f", O_WRONLY, 0).unwrap().0, pages);
    }),
    ("pwrite in another process", |_, pages| {
        apart(|| grow_by_pwrite(open(c"f", O_WRONLY, 0).unwrap().0, pages));
    }),
    ("append in another process", |_, pages| {
        apart(|| {
            truncate(c"f", 0).unwrap();
            let f = open(c"f", O_WRONLY | O_APPEND, 0).unwrap();
            (0..pages).for_each(|_| put(f.0, &pattern(9, PAGE)));
        });
    }),
    ("ftruncate", |fd, pages| {
        ftruncate(fd, (pages * PAGE) as i64).unwrap();
    }),
    ("fallocate", |fd, pages| {
        fallocate(fd, 0, 0, (pages * PAGE) as i64).unwrap();
    }),
];

/// Map what is not there yet, let the file grow, and only then touch the mapping.
#[track_caller]
fn after_growth(protection: i32, touch: fn(&Map)) {
    for (how, grow) in GROWTHS {
        for bytes in [0, 100, PAGE] {
            for (kind, sharing) in KINDS {
                closed_file(c"f", bytes);
                let what = format!("{kind} mapping of {bytes} bytes, grown by {how}");
                in_time(&what, || {
                    let f = open(c"f", O_RDWR, 0).unwrap();
                    let map = Map::make(f.0, 4 * PAGE, protection, sharing, 0).unwrap();
                    grow(f.0, 4);
                    touch(&map);
                });
            }
        }
    }
}

/// Either what was written, or what is there when a file grows without data.
#[track_caller]
fn assert_grown(map: &Map) {
    let all = map.all(4 * PAGE);
    let is_written = all[PAGE..] == pattern(9, PAGE).repeat(3);
    assert!(is_written || all[PAGE..].iter().all(|&byte| byte == 0));
}

fn untouched_pages_behind_the_end_can_be_read_after_growth() {
    after_growth(PROT_READ, assert_grown);
}

fn untouched_pages_behind_the_end_can_be_written_after_growth() {
    after_growth(PROT_WRITE, |map| map.store(4 * PAGE - 1, b"!"));
}

fn untouched_pages_behind_the_end_can_be_both_after_growth() {
    after_growth(PROT_READ | PROT_WRITE, |map| {
        map.store(4 * PAGE - 1, &pattern(9, PAGE)[PAGE - 1..]);
        assert_eq!(map.get(4 * PAGE - 1), pattern(9, PAGE)[PAGE - 1]);
        assert_eq!(map.get(2 * PAGE), map.get(3 * PAGE));
    });
}

/// The kernel answers `EFAULT` where a program of its own would get SIGBUS.
fn grown_pages_are_sources_of_writes() {
    for (how, grow) in GROWTHS {
        for (to, path) in [("a pipe", None), ("another file", Some(c"g"))] {
            closed_file(c"f", 0);
            in_time(&format!("grown by {how}, written to {to}"), || {
                let f = open(c"f", O_RDWR, 0).unwrap();
                let map = Map::make(f.0, 4 * PAGE, PROT_READ, MAP_SHARED, 0).unwrap();
                grow(f.0, 4);
                let (_read, write) = pipe().unwrap();
                let other = path.map(make);
                let to = other.as_ref().unwrap_or(&write).0;
                assert_eq!(
                    transfer_raw(true, to, map.address(3 * PAGE), PAGE),
                    Ok(PAGE as i64)
                );
            });
        }
    }
}

/// Where writes go in a page, and where stores do.
const WRITTEN: usize = 0;
const STORED: usize = 2048;
/// Pages and rounds of those who share pages.
const SHARED_PAGES: usize = 64;
const ROUNDS: u64 = 100;

/// Write the number of each round at the start of each page, a round for each byte that arrives.
fn write_rounds(f: i32, begin: Fd, done: Fd) {
    for round in 1..=ROUNDS {
        if read(begin.0, &mut [0]) != Ok(1) {
            // The other one has failed, and says why.
            return;
        }
        for page in 0..SHARED_PAGES {
            let at = (page * PAGE + WRITTEN) as i64;
            assert_eq!(pwrite(f, &round.to_ne_bytes(), at), Ok(8));
        }
        put(done.0, b"!");
    }
}

/// Store into the middle of each page until the round of writes is over; what was stored last.
fn store_until_done(map: &Map, before: u64, done: &Fd) -> u64 {
    for count in before + 1.. {
        for page in 0..SHARED_PAGES {
            map.store_word(page * PAGE + STORED, count);
        }
        match read(done.0, &mut [0]) {
            Ok(1) => return count,
            answer => assert_eq!(answer, Err(Errno(EAGAIN)), "the writer ended"),
        }
    }
    before
}

/// Neither the mapping nor the file lost anything.
fn nothing_is_lost(f: i32, map: &Map, round: u64, expected: [(&str, usize, u64); 2]) {
    let mut all = vec![0; SHARED_PAGES * PAGE];
    assert_eq!(pread(f, &mut all, 0), Ok(all.len()));
    for (what, at, value) in expected {
        let places = || (0..SHARED_PAGES).map(|page| page * PAGE + at);
        let lost = places().filter(|at| map.load_word(*at) != value).count();
        assert_eq!(lost, 0, "{what}s lost in the mapping, round {round}");
        let is_lost = |at: &usize| all[*at..*at + 8] != value.to_ne_bytes();
        let lost = places().filter(is_lost).count();
        assert_eq!(lost, 0, "{what}s lost in the file, round {round}");
    }
}

/// Store beside rounds of writes; what was stored last.
fn store_rounds(f: i32, begin: Fd, done: Fd) -> u64 {
    let map = Map::shared(f, SHARED_PAGES * PAGE);
    fcntl(done.0, F_SETFL, O_NONBLOCK).unwrap();
    let mut stored = 0;
    for round in 1..=ROUNDS {
        put(begin.0, b"!");
        stored = store_until_done(&map, stored, &done);
        let expected = [("write", WRITTEN, round), ("store", STORED, stored)];
        nothing_is_lost(f, &map, round, expected);
    }
    map.sync().unwrap();
    stored
}

fn share_pages(in_two_processes: bool) {
    closed_file(c"f", SHARED_PAGES * PAGE);
    let f = open(c"f", O_RDWR, 0).unwrap();
    let (hears_begin, begin) = pipe().unwrap();
    let (hears_done, done) = pipe().unwrap();
    let stored;
    if in_two_processes {
        let writer = Child::begin(|| {
            let own = open(c"f", O_RDWR, 0).unwrap();
            write_rounds(own.0, dup(hears_begin.0).unwrap(), dup(done.0).unwrap());
        });
        drop(done);
        stored = store_rounds(f.0, begin, hears_done);
        writer.join();
    } else {
        let fd = f.0;
        stored = std::thread::scope(move |scope| {
            scope.spawn(move || write_rounds(fd, hears_begin, done));
            store_rounds(fd, begin, hears_done)
        });
    }
    drop(f);
    let all = content_of(c"f");
    for page in all.chunks(PAGE) {
        assert_eq!(page[WRITTEN..WRITTEN + 8], ROUNDS.to_ne_bytes());
        assert_eq!(page[STORED..STORED + 8], stored.to_ne_bytes());
    }
}

fn writes_and_stores_of_two_threads_share_pages() {
    in_time("two threads", || share_pages(false));
}

fn writes_and_stores_of_two_processes_share_pages() {
    in_time("two processes", || share_pages(true));
}

/// Records are appended while the records before them are marked through a mapping.
fn appends_and_stores_share_the_last_page() {
    const RECORDS: usize = 4_000;
    in_time("two processes", || {
        closed_file(c"f", 0);
        let (ready, tell) = pipe().unwrap();
        let writer = Child::begin(|| {
            let f = open(c"f", O_WRONLY | O_APPEND, 0).unwrap();
            for record in 1..=RECORDS as u64 {
                let data = [record, 0].map(u64::to_ne_bytes).concat();
                put(f.0, &data);
                put(tell.0, b"!");
            }
        });
        let f = open(c"f", O_RDWR, 0).unwrap();
        let map = Map::shared(f.0, RECORDS * 16);
        for record in 0..RECORDS {
            assert_eq!(read(ready.0, &mut [0]), Ok(1));
            map.store_word(record * 16 + 8, record as u64 + 1);
        }
        writer.join();
        for bytes in [content(f.0), map.all(RECORDS * 16), content_of(c"f")] {
            let (words, _) = bytes.as_chunks::<8>();
            for (at, word) in words.iter().enumerate() {
                let what = if at % 2 == 0 { "append" } else { "store" };
                assert_eq!(u64::from_ne_bytes(*word), at as u64 / 2 + 1, "{what} lost");
            }
        }
    });
}
