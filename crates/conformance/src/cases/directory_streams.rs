//! Streams and the descriptors under them: positions, children, limits, rights.

use super::directory::{Stream, numbered};
use super::words::*;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

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
    // SAFETY: a number; the stream gets a copy, which is its own.
    let copy = unsafe { libc::fcntl(fd.0, F_DUPFD_CLOEXEC, 3) };
    // SAFETY: as above.
    Stream::from(unsafe { fdopendir(copy) })
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
    let limit = rlimit {
        rlim_cur: 64,
        rlim_max: 64,
    };
    // SAFETY: the limit lives.
    assert_eq!(unsafe { setrlimit(RLIMIT_NOFILE, &raw const limit) }, 0);
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

unsafe extern "C" {
    fn scandir(
        path: *const c_char,
        into: *mut *mut *mut dirent,
        select: Option<extern "C" fn(*const dirent) -> i32>,
        compare: Option<unsafe extern "C" fn(*mut *const dirent, *mut *const dirent) -> i32>,
    ) -> i32;
    fn alphasort(one: *mut *const dirent, other: *mut *const dirent) -> i32;
}

extern "C" fn is_even(entry: *const dirent) -> i32 {
    // SAFETY: an entry that scandir shows.
    let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) };
    let last = name.to_bytes().last().copied().unwrap_or(0);
    i32::from(last.is_ascii_digit() && last.is_multiple_of(2))
}

fn scandir_selects_and_sorts() {
    let names = fill(500);
    let mut list: *mut *mut dirent = null_mut();
    // SAFETY: the path is terminated, the place lives; what is handed over is given back.
    let listed: Vec<CString> = unsafe {
        let count = scandir(c"d".as_ptr(), &raw mut list, Some(is_even), Some(alphasort));
        let entries = std::slice::from_raw_parts(list, usize::try_from(count).unwrap());
        let listed = entries.iter().map(|entry| {
            let name = CStr::from_ptr((**entry).d_name.as_ptr()).to_owned();
            free(entry.cast());
            name
        });
        let listed = listed.collect();
        free(list.cast());
        listed
    };
    assert!(listed.iter().eq(names.iter().step_by(2)));
    // SAFETY: as above; nothing is handed over.
    let none = unsafe { scandir(c"none".as_ptr(), &raw mut list, None, None) };
    assert_eq!((none, errno()), (-1, Errno(ENOENT)));
}

fn entries_are_copied() {
    fill(300);
    let stream = Stream::open(c"d").unwrap();
    let mut count = 0;
    loop {
        // SAFETY: all-zero is a valid entry.
        let mut entry: dirent = unsafe { std::mem::zeroed() };
        let mut next = null_mut();
        // SAFETY: the stream is open, the places live.
        #[allow(deprecated)]
        let failed = unsafe { readdir_r(stream.raw(), &raw mut entry, &raw mut next) };
        assert_eq!(failed, 0);
        if next.is_null() {
            break;
        }
        assert_eq!(next, &raw mut entry);
        count += 1;
    }
    assert_eq!(count, 302);
}

fn a_stream_closes_its_descriptor() {
    fill(1);
    let stream = Stream::open(c"d").unwrap();
    let fd = stream.fd();
    // SAFETY: a number.
    let flags = unsafe { libc::fcntl(fd, F_GETFD) };
    assert_eq!(flags, FD_CLOEXEC);
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
