//! Streams and the descriptors under them: positions, children, limits, rights.

use super::directory::numbered;
use super::words::*;
use crate::call;
use std::ffi::CString;

cases!("directory_streams":
    a_stream_begins_where_its_descriptor_is, copies_share_the_position, children_go_on_reading,
    paths_begin_at_a_stream, removed_ones_can_be_asked, too_many_streams, reading_needs_permission,
    scandir_selects_and_sorts, entries_are_copied, a_stream_closes_its_descriptor, both_read_until_the_end,
);

fn fill(count: usize) -> Vec<CString> {
    let names = numbered("n", count);
    mkdir(c"d", 0o755).unwrap();
    for each in &names {
        file(&name([b"d/", each.to_bytes()].concat()), b"");
    }
    names
}

fn on(fd: &Fd) -> Answer<Stream> {
    Stream::on(fd.0)
}

fn a_stream_begins_where_its_descriptor_is() {
    fill(200);
    let stream = Stream::open(c"d").unwrap();
    for _ in 0..50 {
        stream.next().unwrap();
    }
    let place = stream.place();
    let left = stream.rest();
    let d = open(c"d", O_RDONLY | O_DIRECTORY, 0).unwrap();
    assert_eq!(lseek(d.0, place, SEEK_SET), Ok(place));
    assert_eq!(on(&d).unwrap().rest(), left);
    assert_eq!(lseek(d.0, 0, SEEK_SET), Ok(0));
    assert_eq!(on(&d).unwrap().rest().len(), 202);
    // The copy of a descriptor has its position, which is the end now.
    assert_eq!(on(&d).unwrap().rest().len(), 0);
}

fn copies_share_the_position() {
    fill(20);
    let stream = Stream::open(c"d").unwrap();
    let copy = dup(stream.fd()).unwrap();
    assert_eq!(lseek(copy.0, 0, SEEK_CUR), Ok(0));
    assert_eq!(stream.rest().len(), 22);
    assert!(lseek(copy.0, 0, SEEK_CUR).unwrap() > 0);
    stream.rewind();
    assert_eq!(lseek(copy.0, 0, SEEK_CUR), Ok(0));
    drop(stream);
    assert_eq!(on(&copy).unwrap().rest().len(), 22);
}

fn children_go_on_reading() {
    fill(3_000);
    let [untouched, begun, ended] = [(); 3].map(|()| Stream::open(c"d").unwrap());
    let first: Vec<_> = (0..1_000).map_while(|_| begun.next()).collect();
    assert_eq!(ended.rest().len(), 3_002);
    apart(|| {
        assert_eq!(untouched.rest().len(), 3_002);
        assert_eq!(first.len() + begun.rest().len(), 3_002);
        assert_eq!(ended.rest().len(), 0);
        begun.rewind();
        assert_eq!(begun.rest().len(), 3_002);
    });
}

fn paths_begin_at_a_stream() {
    fill(1);
    let stream = Stream::open(c"d").unwrap();
    let d = stream.fd();
    assert_eq!(fstat(d).unwrap().st_ino, stat(c"d").unwrap().st_ino);
    drop(openat(d, c"n00000", O_RDONLY, 0).unwrap());
    drop(openat(d, c"new", O_RDWR | O_CREAT | O_EXCL, 0o600).unwrap());
    mkdirat(d, c"e", 0o755).unwrap();
    drop(openat(d, c"e/..", O_RDONLY | O_DIRECTORY, 0).unwrap());
    linkat((d, c"new"), (d, c"linked"), 0).unwrap();
    rename(c"d", c"moved").unwrap();
    unlinkat(d, c"linked", 0).unwrap();
    unlinkat(d, c"e", AT_REMOVEDIR).unwrap();
    fails(ENOENT, fstatat(d, c"e", 0));
    fails(ENOTDIR, openat(d, c"new/x", O_RDONLY, 0));
    with_fd(fchdir, d).unwrap();
    stat(c"new").unwrap();
    assert_eq!(stream.rest().len(), 4);
}

fn removed_ones_can_be_asked() {
    fill(0);
    let stream = Stream::open(c"d").unwrap();
    rmdir(c"d").unwrap();
    let d = stream.fd();
    assert!(fstat(d).unwrap().st_nlink < 2);
    fails(ENOENT, openat(d, c"f", O_RDWR | O_CREAT, 0o600));
    fails(ENOENT, mkdirat(d, c"e", 0o755));
    fails(ENOENT, fstatat(d, c"f", 0));
    with_fd(fchdir, d).unwrap();
    let copy = dup(d).unwrap();
    apart(|| {
        assert!(stream.rest().len() <= 2);
        assert!(fstat(copy.0).unwrap().st_nlink < 2);
    });
}

fn too_many_streams() {
    fill(1);
    call::setrlimit(RLIMIT_NOFILE, 64, 64).unwrap();
    let mut held = Vec::new();
    let refused = loop {
        match Stream::open(c"d") {
            Ok(stream) => held.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Errno(EMFILE));
    assert!(held.iter().all(|stream| (3..64).contains(&stream.fd())));
    held.pop();
    held.push(Stream::open(c"d").unwrap());
    assert!(held.iter().all(|stream| stream.rest().len() == 3));
}

fn reading_needs_permission() {
    needs_root();
    for (path, permissions) in [(c"closed", 0o711), (c"listed", 0o744), (c"open", 0o755)] {
        mkdir(path, 0o755).unwrap();
        mkdir(&name([path.to_bytes(), b"/inner"].concat()), 0o755).unwrap();
        chmod(path, permissions).unwrap();
    }
    chmod(c".", 0o755).unwrap();
    as_user(ALICE, ALICE, &[], || {
        fails(EACCES, Stream::open(c"closed").map(drop));
        fails(EACCES, open(c"closed", O_RDONLY | O_DIRECTORY, 0).map(drop));
        assert_eq!(Stream::open(c"closed/inner").unwrap().rest().len(), 2);
        let stream = Stream::open(c"listed").unwrap();
        assert_eq!(stream.rest().len(), 3);
        fails(EACCES, fstatat(stream.fd(), c"inner", 0));
        fails(EACCES, Stream::open(c"listed/inner").map(drop));
        assert_eq!(Stream::open(c"open/inner").unwrap().rest().len(), 2);
    });
}

extern "C" fn is_even(entry: *const dirent) -> i32 {
    let name = call::name_of(entry);
    let last = name.to_bytes().last().copied().unwrap_or(0);
    i32::from(last.is_ascii_digit() && last.is_multiple_of(2))
}

fn scandir_selects_and_sorts() {
    let names = fill(500);
    let listed = call::scandir(c"d", Some(is_even)).unwrap();
    assert!(listed.iter().eq(names.iter().step_by(2)));
    fails(ENOENT, call::scandir(c"none", None));
}

fn entries_are_copied() {
    fill(300);
    let stream = Stream::open(c"d").unwrap();
    let count = std::iter::repeat_with(|| stream.next_copied())
        .take_while(|&is_there| is_there)
        .count();
    assert_eq!(count, 302);
}

fn a_stream_closes_its_descriptor() {
    fill(1);
    let stream = Stream::open(c"d").unwrap();
    let fd = stream.fd();
    assert_eq!(call::fcntl_bare(fd, F_GETFD), Ok(FD_CLOEXEC.into()));
    drop(stream);
    fails(EBADF, fstat(fd));
    file(c"f", b"");
    let f = open(c"f", O_RDONLY, 0).unwrap();
    fails(ENOTDIR, on(&f).map(drop));
    holds(c"f", b"");
}

/// The position is of the description: what one process has read the other does not read.
fn both_read_until_the_end() {
    fill(10);
    let d = open(c"d", O_RDONLY | O_DIRECTORY, 0).unwrap();
    apart(|| assert_eq!(on(&d).unwrap().rest().len(), 12));
    assert_eq!(on(&d).unwrap().rest().len(), 0);
    assert_eq!(lseek(d.0, 0, SEEK_SET), Ok(0));
    assert_eq!(on(&d).unwrap().rest().len(), 12);
}
