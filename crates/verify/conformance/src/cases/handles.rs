//! Handles of files, which outlive names and descriptors: `name_to_handle_at`, `open_by_handle_at`.

use super::words::*;
use crate::call::{self, Handle};
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// How long a file system may take for a close.
const PATIENCE: Duration = Duration::from_secs(2);

cases!("handles":
    handles_open_their_files, a_handle_means_one_file_whatever_its_name, handles_of_removed_files_are_stale, open_files_have_handles_without_a_name,
    handles_are_equal_for_one_file_alone, directories_opened_by_handle_lead_on, links_are_not_followed, handles_need_room,
    short_and_long_handles_are_refused, handles_are_for_root,
);

fn handle(path: &CStr) -> Handle {
    let mut handle = Handle::EMPTY;
    call::name_to_handle(path, &mut handle).unwrap();
    handle
}

/// Open in the file system of the working directory.
#[track_caller]
fn open_handle(handle: &Handle, flags: i32) -> Answer<Fd> {
    needs_root();
    let directory = open(c".", O_RDONLY, 0).unwrap();
    call::open_by_handle(directory.0, handle, flags)
}

fn handles_open_their_files() {
    file(c"f", b"by handle");
    let f = handle(c"f");
    let reader = open_handle(&f, O_RDONLY).unwrap();
    assert_same(&content(reader.0), b"by handle");
    fails(EBADF, write(reader.0, b"x"));
    let writer = open_handle(&f, O_RDWR).unwrap();
    assert_eq!(pwrite(writer.0, b"BY", 0), Ok(2));
    let end = open_handle(&f, O_WRONLY | O_APPEND).unwrap();
    put(end.0, b", appended");
    holds(c"f", b"BY handle, appended");
    fchmod(writer.0, 0o640).unwrap();
    assert_eq!(mode(c"f"), 0o640);
    ftruncate(writer.0, 2).unwrap();
    assert_same(&content(reader.0), b"BY");
    drop(open_handle(&f, O_WRONLY | O_TRUNC).unwrap());
    holds(c"f", b"");
}

fn a_handle_means_one_file_whatever_its_name() {
    file(c"f", b"first");
    mkdir(c"d", 0o755).unwrap();
    let f = handle(c"f");
    rename(c"f", c"d/g").unwrap();
    assert_same(&content(open_handle(&f, O_RDONLY).unwrap().0), b"first");
    link(c"d/g", c"h").unwrap();
    unlink(c"d/g").unwrap();
    file(c"f", b"another");
    assert_same(&content(open_handle(&f, O_RDONLY).unwrap().0), b"first");
    rename(c"f", c"h").unwrap();
    fails(ESTALE, open_handle(&f, O_RDONLY));
}

/// An inode stays in memory until its file system has dealt with the last close, and longer if its name was removed past the
/// kernel in that moment. Until then the kernel itself finds the inode by its handle, without a name.
#[track_caller]
fn leads_nowhere(handle: &Handle) {
    let begin = Instant::now();
    let open = || open_handle(handle, O_PATH | O_NOFOLLOW);
    while open().is_ok() && begin.elapsed() < PATIENCE {
        tick();
    }
    match open() {
        Ok(opened) => match call::fstat(opened.0) {
            Ok(facts) => assert_eq!(facts.st_nlink, 0),
            gone => fails(ESTALE, gone.map(drop)),
        },
        gone => fails(ESTALE, gone),
    }
}

fn handles_of_removed_files_are_stale() {
    file(c"f", b"removed");
    mkdir(c"d", 0o755).unwrap();
    symlink(c"target", c"l").unwrap();
    let handles = [c"f", c"d", c"l"].map(handle);
    unlink(c"f").unwrap();
    rmdir(c"d").unwrap();
    unlink(c"l").unwrap();
    for gone in &handles {
        leads_nowhere(gone);
    }
    // The same names, and perhaps the same numbers.
    file(c"f", b"new");
    mkdir(c"d", 0o755).unwrap();
    symlink(c"target", c"l").unwrap();
    for gone in &handles {
        leads_nowhere(gone);
    }
}

fn open_files_have_handles_without_a_name() {
    let f = make(c"f");
    put(f.0, b"nameless");
    let by_handle = handle(c"f");
    unlink(c"f").unwrap();
    let opened = open_handle(&by_handle, O_RDWR).unwrap();
    assert_same(&content(opened.0), b"nameless");
    assert_eq!(pwrite(opened.0, b"NAME", 0), Ok(4));
    drop(opened);
    assert_same(&content(f.0), b"NAMEless");
}

fn handles_are_equal_for_one_file_alone() {
    file(c"f", b"");
    link(c"f", c"same").unwrap();
    file(c"other", b"");
    let f = handle(c"f");
    assert!(f == handle(c"same") && f == handle(c"f"));
    assert!(f != handle(c"other") && f != handle(c"."));
}

fn directories_opened_by_handle_lead_on() {
    mkdir(c"d", 0o755).unwrap();
    mkdir(c"d/e", 0o755).unwrap();
    file(c"d/beside", b"above");
    file(c"d/e/f", b"below");
    let e = handle(c"d/e");
    rename(c"d", c"moved").unwrap();
    let opened = open_handle(&e, O_RDONLY | O_DIRECTORY).unwrap();
    let at = |path: &CStr| content(openat(opened.0, path, O_RDONLY, 0).unwrap().0);
    assert_same(&at(c"f"), b"below");
    assert_same(&at(c"../beside"), b"above");
    drop(openat(opened.0, c"new", O_CREAT | O_WRONLY, 0o644).unwrap());
    assert!(stat(c"moved/e/new").is_ok());
    assert_eq!(
        fstat(opened.0).unwrap().st_ino,
        stat(c"moved/e").unwrap().st_ino
    );
}

fn links_are_not_followed() {
    file(c"f", b"");
    symlink(c"f", c"l").unwrap();
    symlink(c"nowhere", c"dangling").unwrap();
    let [link, dangling] = [c"l", c"dangling"].map(handle);
    assert!(link != handle(c"f"));
    for (handle, target) in [(&link, "f"), (&dangling, "nowhere")] {
        fails(ELOOP, open_handle(handle, O_RDONLY | O_NOFOLLOW));
        let opened = open_handle(handle, O_PATH | O_NOFOLLOW).unwrap();
        let found = fstat(opened.0).unwrap();
        assert_eq!(found.st_mode & S_IFMT, S_IFLNK);
        assert_eq!(found.st_size as usize, target.len());
    }
}

fn handles_need_room() {
    file(c"f", b"");
    let full = handle(c"f");
    let mut small = Handle::EMPTY;
    small.bytes = 1;
    fails(EOVERFLOW, call::name_to_handle(c"f", &mut small));
    assert_eq!(small.bytes, full.bytes, "the room that it needs");
    call::name_to_handle(c"f", &mut small).unwrap();
    assert!(small == full);
    fails(ENOENT, call::name_to_handle(c"missing", &mut small));
}

fn short_and_long_handles_are_refused() {
    file(c"f", b"");
    for (bytes, expected) in [(0, EINVAL), (1, ESTALE), (129, EINVAL)] {
        let mut cut = handle(c"f");
        cut.bytes = bytes;
        fails(expected, open_handle(&cut, O_RDONLY));
    }
}

/// A handle needs no search permission on the way to its file.
fn handles_are_for_root() {
    needs_root();
    file(c"f", b"");
    chmod(c"f", 0o666).unwrap();
    let f = handle(c"f");
    as_user(ALICE, TEAM, &[], || {
        assert!(f == handle(c"f"), "anybody can make one");
        fails(EPERM, open_handle_as_is(&f));
    });
}

fn open_handle_as_is(handle: &Handle) -> Answer<Fd> {
    let directory = open(c".", O_RDONLY, 0).unwrap();
    call::open_by_handle(directory.0, handle, O_RDONLY)
}
