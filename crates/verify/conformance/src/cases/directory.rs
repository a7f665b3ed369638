//! Reading directories: `readdir`, `seekdir`, `telldir`, also while they change.

use super::words::*;
use crate::call;
use egeria_stats::rng::Rng;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

cases!("directory":
    everything_is_listed_once, kinds_and_numbers_are_told, empty_ones_have_dots, places_can_be_gone_back_to,
    what_stays_is_listed_once_among_changes, what_stays_is_listed_once_among_renames,
    rewinding_sees_what_is_new, reading_while_removing_all, removed_ones_list_nothing_that_was, large_ones,
    long_names_are_listed, two_readers_at_once, reading_needs_a_directory, small_rooms_are_einval,
    positions_are_seekable,
);

pub(super) fn list(path: &CStr) -> Vec<CString> {
    let mut names = Stream::open(path).unwrap().rest();
    names.retain(|name| !matches!(name.to_bytes(), b"." | b".."));
    names.sort();
    names
}

pub(super) fn numbered(prefix: &str, count: usize) -> Vec<CString> {
    let mut names: Vec<_> = (0..count)
        .map(|at| name(format!("{prefix}{at:05}")))
        .collect();
    names.sort();
    names
}

fn fill(directory: &str, names: &[CString]) {
    for each in names {
        file(
            &name([directory.as_bytes(), b"/", each.to_bytes()].concat()),
            b"",
        );
    }
}

/// How often each name with the prefix is among these.
fn counts(listed: &[CString], prefix: &str) -> BTreeMap<CString, usize> {
    let mut counts = BTreeMap::new();
    for name in listed
        .iter()
        .filter(|name| name.to_bytes().starts_with(prefix.as_bytes()))
    {
        *counts.entry(name.clone()).or_default() += 1;
    }
    counts
}

#[track_caller]
pub(super) fn each_once(listed: &[CString], prefix: &str, expected: &[CString]) {
    let counts = counts(listed, prefix);
    assert!(
        counts.values().all(|count| *count == 1),
        "listed more than once"
    );
    assert_eq!(counts.len(), expected.len());
    assert!(expected.iter().all(|name| counts.contains_key(name)));
}

fn everything_is_listed_once() {
    mkdir(c"d", 0o755).unwrap();
    for count in [1, 10, 100, 700] {
        let names = numbered("n", count);
        fill("d", &names);
        assert_eq!(list(c"d"), names);
    }
    for each in numbered("n", 350) {
        unlink(&name([b"d/", each.to_bytes()].concat())).unwrap();
    }
    assert_eq!(list(c"d"), numbered("n", 700)[350..]);
}

fn kinds_and_numbers_are_told() {
    file(c"f", b"");
    mkdir(c"d", 0o755).unwrap();
    symlink(c"f", c"l").unwrap();
    mknod(c"p", S_IFIFO | 0o644, 0).unwrap();
    mknod(c"s", S_IFSOCK | 0o644, 0).unwrap();
    let stream = Stream::open(c".").unwrap();
    let mut seen = 0;
    while let Some((name, number, kind)) = stream.next() {
        seen += 1;
        let facts = lstat(&name).unwrap();
        if name.as_c_str() != c".." {
            assert_eq!(number, facts.st_ino, "{name:?}");
        }
        if kind != DT_UNKNOWN {
            assert_eq!(u32::from(kind) << 12, facts.st_mode & S_IFMT, "{name:?}");
        }
    }
    assert_eq!(seen, 7);
}

fn empty_ones_have_dots() {
    mkdir(c"d", 0o755).unwrap();
    let mut names = Stream::open(c"d").unwrap().rest();
    names.sort();
    assert_eq!(names, [c".".to_owned(), c"..".to_owned()]);
}

fn places_can_be_gone_back_to() {
    mkdir(c"d", 0o755).unwrap();
    fill("d", &numbered("n", 500));
    let stream = Stream::open(c"d").unwrap();
    let mut places = vec![(stream.place(), None)];
    while let Some((name, ..)) = stream.next() {
        if let Some(last) = places.last_mut() {
            last.1 = Some(name);
        }
        places.push((stream.place(), None));
    }
    let mut rng = Rng::new(5);
    for _ in 0..200 {
        let (place, next) = &places[rng.index(places.len())];
        stream.go_to(*place);
        assert_eq!(stream.next().map(|(name, ..)| name), *next);
    }
}

fn what_stays_is_listed_once_among_changes() {
    mkdir(c"d", 0o755).unwrap();
    let (stay, leave) = (numbered("stay", 600), numbered("leave", 600));
    fill("d", &leave[..300]);
    fill("d", &stay);
    fill("d", &leave[300..]);
    let stream = Stream::open(c"d").unwrap();
    let (mut listed, mut gone) = (Vec::new(), leave.iter());
    let mut made = 0;
    while let Some((name, ..)) = stream.next() {
        listed.push(name);
        if listed.len() % 2 == 0 {
            if let Some(leave) = gone.next() {
                unlink(&super::words::name([b"d/", leave.to_bytes()].concat())).unwrap();
            }
            if made < 400 {
                file(&super::words::name(format!("d/new{made:05}")), b"");
                made += 1;
            }
        }
    }
    each_once(&listed, "stay", &stay);
    assert!(counts(&listed, "leave").values().all(|count| *count == 1));
    assert!(counts(&listed, "new").values().all(|count| *count == 1));
}

fn what_stays_is_listed_once_among_renames() {
    mkdir(c"d", 0o755).unwrap();
    let (stay, moved) = (numbered("stay", 400), numbered("moved", 200));
    fill("d", &moved);
    fill("d", &stay);
    let stream = Stream::open(c"d").unwrap();
    let (mut listed, mut next) = (Vec::new(), moved.iter());
    while let Some((name, ..)) = stream.next() {
        listed.push(name);
        if let Some(from) = next.next() {
            let [from, to] = [&b"d/"[..], b"d/away-"]
                .map(|prefix| super::words::name([prefix, from.to_bytes()].concat()));
            rename(&from, &to).unwrap();
        }
    }
    each_once(&listed, "stay", &stay);
}

fn rewinding_sees_what_is_new() {
    mkdir(c"d", 0o755).unwrap();
    fill("d", &numbered("n", 20));
    let stream = Stream::open(c"d").unwrap();
    assert_eq!(stream.rest().len(), 22);
    fill("d", &numbered("m", 5));
    stream.rewind();
    assert_eq!(stream.rest().len(), 27);
    for each in numbered("n", 20) {
        unlink(&name([b"d/", each.to_bytes()].concat())).unwrap();
    }
    stream.rewind();
    each_once(
        &stream.rest(),
        "",
        &[numbered("m", 5), vec![c".".into(), c"..".into()]].concat(),
    );
}

/// As `rm -r` does it.
fn reading_while_removing_all() {
    mkdir(c"d", 0o755).unwrap();
    fill("d", &numbered("n", 1_000));
    let stream = Stream::open(c"d").unwrap();
    while let Some((each, ..)) = stream.next() {
        if !matches!(each.to_bytes(), b"." | b"..") {
            unlink(&name([b"d/", each.to_bytes()].concat())).unwrap();
        }
    }
    rmdir(c"d").unwrap();
}

fn removed_ones_list_nothing_that_was() {
    mkdir(c"d", 0o755).unwrap();
    file(c"d/f", b"");
    let stream = Stream::open(c"d").unwrap();
    unlink(c"d/f").unwrap();
    rmdir(c"d").unwrap();
    let left = stream.rest();
    assert!(
        left.iter()
            .all(|name| matches!(name.to_bytes(), b"." | b"..")),
        "{left:?}"
    );
    mkdir(c"d", 0o755).unwrap();
    file(c"d/g", b"");
    stream.rewind();
    assert!(!stream.rest().contains(&c"g".to_owned()));
}

fn large_ones() {
    mkdir(c"d", 0o755).unwrap();
    let names = numbered("a-rather-long-name-for-a-file-in-a-large-directory-", 5_000);
    fill("d", &names);
    assert_eq!(list(c"d"), names);
    for each in names.iter().step_by(97) {
        stat(&name([b"d/", each.to_bytes()].concat())).unwrap();
    }
    fails(ENOENT, stat(c"d/none"));
}

fn long_names_are_listed() {
    mkdir(c"d", 0o755).unwrap();
    let mut names: Vec<_> = (1..=255).map(|bytes| name("n".repeat(bytes))).collect();
    fill("d", &names);
    names.sort();
    assert_eq!(list(c"d"), names);
}

fn two_readers_at_once() {
    mkdir(c"d", 0o755).unwrap();
    fill("d", &numbered("n", 300));
    let (one, other) = (Stream::open(c"d").unwrap(), Stream::open(c"d").unwrap());
    let first: Vec<_> = (0..150).map_while(|_| one.next()).collect();
    assert_eq!(other.rest().len(), 302);
    assert_eq!(first.len() + one.rest().len(), 302);
    apart(|| assert_eq!(list(c"d"), numbered("n", 300)));
}

fn reading_needs_a_directory() {
    file(c"f", b"");
    fails(ENOTDIR, Stream::open(c"f").map(drop));
    fails(ENOENT, Stream::open(c"none").map(drop));
    fails(ENOENT, Stream::open(c"").map(drop));
    let f = open(c"f", O_RDONLY, 0).unwrap();
    fails(ENOTDIR, entries(f.0, 4096));
    fails(EBADF, entries(-1, 4096));
}

/// `getdents64` into so much room: bytes filled in.
fn entries(fd: i32, room: usize) -> Answer {
    call::getdents64(fd, &mut vec![0; room])
}

fn small_rooms_are_einval() {
    mkdir(c"d", 0o755).unwrap();
    fill("d", &[name("n".repeat(200))]);
    let d = open(c"d", O_RDONLY, 0).unwrap();
    fails(EINVAL, entries(d.0, 8));
    assert!(entries(d.0, 4096).unwrap() > 200);
    assert_eq!(entries(d.0, 4096), Ok(0));
    let gone = open(c"d", O_RDONLY, 0).unwrap();
    let mut sum = 0;
    // Room for one of them at a time.
    while let Ok(bytes @ 1..) = entries(gone.0, 224) {
        sum += bytes;
    }
    assert_eq!(sum, 24 + 24 + 224);
}

fn positions_are_seekable() {
    mkdir(c"d", 0o755).unwrap();
    fill("d", &numbered("n", 50));
    let d = open(c"d", O_RDONLY, 0).unwrap();
    let all = entries(d.0, 1 << 16).unwrap();
    assert_eq!(lseek(d.0, 0, SEEK_SET), Ok(0));
    assert_eq!(entries(d.0, 1 << 16), Ok(all));
    let end = lseek(d.0, 0, SEEK_CUR).unwrap();
    assert!(end > 0);
    assert_eq!(entries(d.0, 1 << 16), Ok(0));
    assert_eq!(lseek(d.0, end, SEEK_SET), Ok(end));
    assert_eq!(entries(d.0, 1 << 16), Ok(0));
}
