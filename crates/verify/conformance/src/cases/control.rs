//! `fsync` and its kin, advice, `ioctl`, `poll`.

use super::words::*;
use crate::call;

cases!("control":
    ready_at_any_time, epoll_refuses_files, asynchronous_calls_agree, opened_in_the_newest_way, calls_by_number_agree, unread_bytes_are_told, ioctls_of_files, sync_calls_succeed, sync_refusals,
    advice_is_taken, temporary_names, changes_are_watched, direct_changes_are_watched, watches_by_number_count,
    watched_directories_tell_of_data, files_that_are_open_already_are_watched,
);

fn ready_at_any_time() {
    let f = make(c"f");
    assert_eq!(call::poll(f.0, POLLIN | POLLOUT), Ok(POLLIN | POLLOUT));
}

/// Files are always ready; there is nothing to wait for.
fn epoll_refuses_files() {
    let f = make(c"f");
    let set = call::epoll_create().unwrap();
    fails(EPERM, call::epoll_add(set.0, f.0, EPOLLIN));
}

fn ioctls_of_files() {
    let f = make(c"f");
    fails(ENOTTY, call::window_size(f.0).map(drop));
    assert_eq!(call::isatty(f.0), 0);
    assert_eq!(errno(), Errno(ENOTTY));
}

fn sync_calls_succeed() {
    let f = make(c"f");
    put(f.0, b"data");
    let reader = open(c"f", O_RDONLY, 0).unwrap();
    let directory = open(c".", O_RDONLY, 0).unwrap();
    for fd in [f.0, reader.0, directory.0] {
        for sync in [libc::fsync, libc::fdatasync, libc::syncfs] {
            with_fd(sync, fd).unwrap();
        }
    }
    let all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    for (at, bytes, flags) in [(0, 0, all), (0, 4, SYNC_FILE_RANGE_WRITE), (1 << 40, 10, 0)] {
        call::sync_file_range(f.0, at, bytes, flags).unwrap();
    }
    call::sync();
    holds(c"f", b"data");
}

fn sync_refusals() {
    let f = make(c"f");
    let (reader, writer) = pipe().unwrap();
    for fd in [reader.0, writer.0] {
        fails(EINVAL, with_fd(libc::fsync, fd));
        fails(EINVAL, with_fd(libc::fdatasync, fd));
    }
    for (fd, at, bytes, flags, expected) in [
        (f.0, -1, 4, 0, EINVAL),
        (f.0, 0, -1, 0, EINVAL),
        (f.0, 0, 4, 64, EINVAL),
        (reader.0, 0, 4, 0, ESPIPE),
        (-1, 0, 4, 0, EBADF),
    ] {
        fails(expected, call::sync_file_range(fd, at, bytes, flags));
    }
}

fn advice_is_taken() {
    let f = make(c"f");
    put(f.0, &[1; 10_000]);
    for advice in [
        POSIX_FADV_NORMAL,
        POSIX_FADV_SEQUENTIAL,
        POSIX_FADV_RANDOM,
        POSIX_FADV_WILLNEED,
        POSIX_FADV_DONTNEED,
        POSIX_FADV_NOREUSE,
    ] {
        assert_eq!(call::posix_fadvise(f.0, advice), 0);
    }
    assert_eq!(call::posix_fadvise(f.0, 99), EINVAL);
    assert_eq!(call::posix_fadvise(-1, POSIX_FADV_NORMAL), EBADF);
    call::readahead(f.0, 0, 5_000).unwrap();
    holds(c"f", &[1; 10_000]);
}

fn temporary_names() {
    let mut names = std::collections::BTreeSet::new();
    for round in 0..20u8 {
        let mut template = *b"temporary-XXXXXX\0";
        let f = call::mkstemp(&mut template).unwrap();
        put(f.0, &[round]);
        let path = name(&template[..16]);
        assert_eq!(mode(&path), 0o600);
        holds(&path, &[round]);
        assert!(names.insert(path));
    }
}

/// Events of a watch: what is there now.
fn events(watch: &Fd) -> Vec<u32> {
    let mut room = [0u8; 4096];
    let bytes = read(watch.0, &mut room).unwrap_or(0);
    let (mut at, mut masks) = (0, Vec::new());
    while at < bytes {
        let word =
            |from: usize| u32::from_ne_bytes(room[from..from + 4].try_into().expect("four bytes"));
        masks.push(word(at + 4) & IN_ALL_EVENTS);
        at += 16 + word(at + 12) as usize;
    }
    masks
}

fn changes_are_watched() {
    let watch = call::inotify(
        c".",
        IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB,
    )
    .unwrap();
    file(c"f", b"");
    chmod(c"f", 0o600).unwrap();
    rename(c"f", c"g").unwrap();
    unlink(c"g").unwrap();
    let expected = [IN_CREATE, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_DELETE];
    let mut seen = events(&watch);
    // The last name also changes the file's attributes.
    seen.dedup();
    assert_eq!(seen, expected);
}

fn direct_changes_are_watched() {
    let f = make(c"f");
    let watch = call::inotify(c"f", IN_MODIFY | IN_ACCESS).unwrap();
    put(f.0, b"data");
    assert_eq!(events(&watch), [IN_MODIFY]);
    assert_eq!(pread(f.0, &mut [0; 4], 0), Ok(4));
    assert_eq!(events(&watch), [IN_ACCESS]);
}

fn watches_by_number_count() {
    let init = call::by_number(SYS_inotify_init1, [IN_NONBLOCK as usize, 0, 0, 0, 0, 0]);
    let watch = Fd(init.unwrap() as i32);
    let f = make(c"f");
    let add = |path: &std::ffi::CStr, mask: u32| {
        let path = path.as_ptr().expose_provenance();
        let arguments = [watch.0 as usize, path, mask as usize, 0, 0, 0];
        call::by_number(SYS_inotify_add_watch, arguments).unwrap();
    };
    add(c".", IN_CREATE | IN_DELETE);
    add(c"f", IN_MODIFY | IN_ACCESS);
    put(f.0, b"data");
    mkdir(c"d", 0o755).unwrap();
    assert_eq!(pread(f.0, &mut [0; 4], 0), Ok(4));
    rmdir(c"d").unwrap();
    assert_eq!(events(&watch), [IN_MODIFY, IN_CREATE, IN_ACCESS, IN_DELETE]);
}

fn watched_directories_tell_of_data() {
    mkdir(c"d", 0o755).unwrap();
    file(c"d/old", b"old");
    let mask = IN_OPEN | IN_ACCESS | IN_MODIFY | IN_CLOSE_WRITE | IN_CLOSE_NOWRITE | IN_CREATE;
    let watch = call::inotify(c"d", mask).unwrap();
    let new = open(c"d/new", O_RDWR | O_CREAT, 0o644).unwrap();
    assert_eq!(write(new.0, b"data"), Ok(4));
    assert_eq!(pread(new.0, &mut [0; 4], 0), Ok(4));
    drop(new);
    let expected = [IN_CREATE, IN_OPEN, IN_MODIFY, IN_ACCESS, IN_CLOSE_WRITE];
    assert_eq!(events(&watch), expected);
    let old = open(c"d/old", O_RDONLY, 0).unwrap();
    assert_eq!(read(old.0, &mut [0; 3]), Ok(3));
    drop(old);
    assert_eq!(events(&watch), [IN_OPEN, IN_ACCESS, IN_CLOSE_NOWRITE]);
}

/// Also those of another process, of which the watched one is its child.
fn files_that_are_open_already_are_watched() {
    mkdir(c"d", 0o755).unwrap();
    let own = make(c"d/own");
    put(own.0, b"own");
    let (go, tell_go) = pipe().unwrap();
    let (done, tell) = pipe().unwrap();
    let other = Child::begin(|| {
        let other = make(c"d/other");
        put(other.0, b"other");
        assert_eq!(write(tell.0, b"o"), Ok(1));
        assert_eq!(read(go.0, &mut [0]), Ok(1));
        assert_eq!(pread(other.0, &mut [0; 5], 0), Ok(5));
        assert_eq!(write(tell.0, b"o"), Ok(1));
        assert_eq!(read(go.0, &mut [0]), Ok(1));
    });
    assert_eq!(read(done.0, &mut [0]), Ok(1));
    let watch = call::inotify(c"d", IN_ACCESS | IN_MODIFY).unwrap();
    assert_eq!(pwrite(own.0, b"x", 1), Ok(1));
    assert_eq!(events(&watch), [IN_MODIFY]);
    assert_eq!(write(tell_go.0, b"g"), Ok(1));
    assert_eq!(read(done.0, &mut [0]), Ok(1));
    assert_eq!(events(&watch), [IN_ACCESS]);
    assert_eq!(write(tell_go.0, b"g"), Ok(1));
    other.join();
}

/// The kernel's own asynchronous calls, beside ordinary ones.
fn asynchronous_calls_agree() {
    let f = make(c"f");
    put(f.0, &pattern(1, 10_000));
    let mut context = 0usize;
    let place = (&raw mut context).expose_provenance();
    if call::by_number(SYS_io_setup, [4, place, 0, 0, 0, 0]).is_err() {
        skip("no io_setup here");
    }
    let done_of = |operation: u16, buffer: usize, bytes: u64, at: i64| {
        let mut block = [0u64; 8];
        block[2] = u64::from(operation);
        block[2] |= (f.0 as u64) << 32;
        (block[3], block[4], block[5]) = (buffer as u64, bytes, at as u64);
        let list = [block.as_ptr().expose_provenance()];
        let mut done = [0i64; 4];
        let (list, place) = (list.as_ptr(), done.as_mut_ptr().expose_provenance());
        let list = list.expose_provenance();
        let submitted = call::by_number(SYS_io_submit, [context, 1, list, 0, 0, 0]);
        assert_eq!(submitted, Ok(1));
        let ended = call::by_number(SYS_io_getevents, [context, 1, 1, place, 0, 0]);
        assert_eq!(ended, Ok(1));
        done[2]
    };
    let mut room = [0u8; 5_000];
    assert_eq!(
        done_of(0, room.as_mut_ptr().expose_provenance(), 5_000, 2_000),
        5_000
    );
    assert_same(&room, &pattern(1, 10_000)[2_000..7_000]);
    assert_eq!(
        done_of(1, b"asynchronous".as_ptr().expose_provenance(), 12, 9_995),
        12
    );
    assert_same(&content(f.0)[9_995..], b"asynchronous");
    assert_eq!(fstat(f.0).unwrap().st_size, 10_007);
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(10_000));
}

fn opened_in_the_newest_way() {
    file(c"f", b"data");
    symlink(c"f", c"l").unwrap();
    mkdir(c"d", 0o755).unwrap();
    let d = open(c"d", O_RDONLY, 0).unwrap();
    let openat2 = |directory: i32, path: &std::ffi::CStr, flags: i32, resolve: u64| -> Answer<Fd> {
        let how = [
            flags as u64,
            if flags & O_CREAT == 0 { 0 } else { 0o644 },
            resolve,
        ];
        call::openat2(directory, path, how)
    };
    assert_same(
        &content(openat2(AT_FDCWD, c"l", O_RDONLY, 0).unwrap().0),
        b"data",
    );
    fails(
        ELOOP,
        openat2(AT_FDCWD, c"l", O_RDONLY, RESOLVE_NO_SYMLINKS),
    );
    fails(EXDEV, openat2(d.0, c"../f", O_RDONLY, RESOLVE_BENEATH));
    fails(EXDEV, openat2(d.0, c"/f", O_RDONLY, RESOLVE_BENEATH));
    fails(EINVAL, openat2(AT_FDCWD, c"f", 1 << 30, 0));
    let made = openat2(d.0, c"g", O_CREAT | O_RDWR | O_APPEND, RESOLVE_BENEATH).unwrap();
    put(made.0, b"one ");
    put(made.0, b"two");
    holds(c"d/g", b"one two");
}

/// `syscall` and the functions for the same calls act on one file and one position.
fn calls_by_number_agree() {
    let f = make(c"f");
    let mut room = [0u8; 4];
    let number = f.0 as usize;
    let by_number = |call, [a, b, c, d]: [usize; 4]| call::by_number(call, [a, b, c, d, 0, 0]);
    let address = |text: &std::ffi::CStr| text.as_ptr().expose_provenance();
    put(f.0, b"0123456789");
    assert_eq!(by_number(SYS_lseek, [number, 2, 0, 0]), Ok(2));
    assert_eq!(read(f.0, &mut room), Ok(4));
    assert_same(&room, b"2345");
    let place = room.as_mut_ptr().expose_provenance();
    assert_eq!(by_number(SYS_read, [number, place, 4, 0]), Ok(4));
    assert_same(&room, b"6789");
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(10));
    assert_eq!(by_number(SYS_write, [number, address(c"ab"), 2, 0]), Ok(2));
    put(f.0, b"cd");
    let parts = [iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: 4,
    }];
    assert_eq!(by_number(SYS_lseek, [number, 10, 0, 0]), Ok(10));
    let list = parts.as_ptr().expose_provenance();
    assert_eq!(by_number(SYS_readv, [number, list, 1, 0]), Ok(4));
    assert_same(&room, b"abcd");
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(14));
    assert_eq!(
        by_number(SYS_pwrite64, [number, address(c"X"), 1, 0]),
        Ok(1)
    );
    assert_eq!(by_number(SYS_ftruncate, [number, 12, 0, 0]), Ok(0));
    let copy = by_number(SYS_dup, [number, 0, 0, 0]).unwrap() as i32;
    put(copy, b"!");
    assert_eq!(by_number(SYS_close, [copy as usize, 0, 0, 0]), Ok(0));
    fails(EBADF, write(copy, b"x"));
    let other = make(c"g");
    assert_eq!(other.0, copy);
    put(other.0, b"new");
    let (access, sharing) = (PROT_READ as usize, MAP_SHARED as usize);
    let mapped = [0, 4096, access, sharing, other.0 as usize, 0];
    let map = call::by_number(SYS_mmap, mapped).unwrap() as usize;
    assert_eq!(call::byte_at(map), b'n');
    assert_eq!(by_number(SYS_munmap, [map, 4096, 0, 0]), Ok(0));
    holds(c"f", b"X123456789ab\0\0!");
    holds(c"g", b"new");
}

fn unread_bytes_are_told() {
    let f = make(c"f");
    put(f.0, b"0123456789");
    lseek(f.0, 4, SEEK_SET).unwrap();
    match call::unread_bytes(f.0) {
        Ok(left) => assert_eq!(left, 6),
        refused => fails(ENOTTY, refused),
    }
}
