//! Reading a directory while every name in it changes: it ends, and tells of what stays.

use super::directory::{each_once, list, numbered};
use super::words::*;
use crate::process::in_time;
use std::ffi::CString;

cases!("directory_changes":
    reading_ends_when_each_name_is_renamed, reading_ends_when_each_name_brings_another,
    reading_ends_beside_another_process_that_renames, rewinding_sees_what_was_renamed, many_names_are_deleted,
);

const NAMES: usize = 2_500;

fn inside(name: &std::ffi::CStr) -> CString {
    super::words::name([b"d/", name.to_bytes()].concat())
}

fn is_dots(name: &std::ffi::CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

fn fill(names: &[CString]) {
    mkdir(c"d", 0o755).unwrap();
    for name in names {
        mknod(&inside(name), S_IFREG | 0o644, 0).unwrap();
    }
}

/// What a stream tells until its end, doing something after each; an end there must be.
#[track_caller]
fn read_to_the_end(limit: usize, mut after: impl FnMut(&CString)) -> Vec<CString> {
    let stream = Stream::open(c"d").unwrap();
    let mut listed = Vec::new();
    while let Some((name, ..)) = stream.next() {
        if !is_dots(&name) {
            after(&name);
        }
        listed.push(name);
        assert!(
            listed.len() <= limit,
            "no end after {limit} names, of which there are {NAMES}"
        );
    }
    listed
}

fn reading_ends_when_each_name_is_renamed() {
    fill(&numbered("n", NAMES));
    let mut count = 0;
    let listed = in_time_with("readdir beside rename", || {
        read_to_the_end(3 * NAMES, |each| {
            count += 1;
            rename(&inside(each), &name(format!("d/renamed{count:06}"))).unwrap();
        })
    });
    assert!(listed >= NAMES + 2, "{listed} names listed");
    assert_eq!(list(c"d").len(), NAMES);
}

/// In a child, for its time is limited; how many were listed.
#[track_caller]
fn in_time_with(what: &str, body: impl FnOnce() -> Vec<CString>) -> usize {
    let (read_end, write_end) = pipe().unwrap();
    in_time(what, || put(write_end.0, &body().len().to_ne_bytes()));
    let mut count = [0; 8];
    assert_eq!(read(read_end.0, &mut count), Ok(8));
    usize::from_ne_bytes(count)
}

fn reading_ends_when_each_name_brings_another() {
    let names = numbered("n", NAMES);
    fill(&names);
    in_time("readdir beside creation", || {
        let mut count = 0;
        let listed = read_to_the_end(3 * NAMES, |_| {
            count += 1;
            mknod(&name(format!("d/new{count:06}")), S_IFREG | 0o644, 0).unwrap();
        });
        each_once(&only(&listed, "n0"), "n0", &names);
    });
}

fn only(listed: &[CString], prefix: &str) -> Vec<CString> {
    let mut those = listed.to_vec();
    those.retain(|name| name.to_bytes().starts_with(prefix.as_bytes()));
    those
}

/// One in ten is renamed there and back, without a pause, by somebody else.
fn reading_ends_beside_another_process_that_renames() {
    let (stay, moved) = (
        numbered("stay", NAMES * 9 / 10),
        numbered("moved", NAMES / 10),
    );
    fill(&[&moved[..], &stay].concat());
    in_time("readdir beside rename", || {
        let other = Child::begin(|| {
            loop {
                for each in &moved {
                    let away = name([b"d/away-", each.to_bytes()].concat());
                    rename(&inside(each), &away).unwrap();
                    rename(&away, &inside(each)).unwrap();
                }
            }
        });
        for _ in 0..10 {
            let listed = read_to_the_end(3 * NAMES, |_| {});
            each_once(&listed, "stay", &stay);
        }
        other.kill();
    });
}

fn rewinding_sees_what_was_renamed() {
    fill(&numbered("n", 300));
    let stream = Stream::open(c"d").unwrap();
    assert_eq!(stream.rest().len(), 302);
    let mut count = 0;
    for each in numbered("n", 300) {
        count += 1;
        rename(&inside(&each), &name(format!("d/m{count:05}"))).unwrap();
    }
    stream.rewind();
    let listed = stream.rest();
    assert_eq!(listed.len(), 302);
    assert_eq!(only(&listed, "m").len(), 300);
}

/// As `rm -r` does it, and nobody else is held up.
fn many_names_are_deleted() {
    fill(&numbered("n", 8_000));
    let remove = Child::begin(|| {
        let stream = Stream::open(c"d").unwrap();
        while let Some((each, ..)) = stream.next() {
            if !is_dots(&each) {
                unlink(&inside(&each)).unwrap();
            }
        }
    });
    for count in 0..100 {
        let own = name(format!("beside{count}"));
        file(&own, b"x");
        stat(c"d").unwrap();
        unlink(&own).unwrap();
    }
    remove.join();
    rmdir(c"d").unwrap();
}
