//! `fsync` and its kin, advice, handles, `ioctl`, `poll`.

use super::words::*;

cases!("control":
    ready_at_any_time, epoll_refuses_files, changes_are_watched, direct_changes_are_watched, asynchronous_calls_agree, opened_in_the_newest_way, calls_by_number_agree, unread_bytes_are_told, ioctls_of_files, sync_calls_succeed, sync_refusals, handles_open_or_are_refused,
    advice_is_taken, temporary_names,
);

fn ready_at_any_time() {
    let f = make(c"f");
    let mut wanted = pollfd {
        fd: f.0,
        events: POLLIN | POLLOUT,
        revents: 0,
    };
    // SAFETY: one entry, which lives.
    assert_eq!(unsafe { poll(&raw mut wanted, 1, 0) }, 1);
    assert_eq!(wanted.revents, POLLIN | POLLOUT);
}

/// Files are always ready; there is nothing to wait for.
fn epoll_refuses_files() {
    let f = make(c"f");
    // SAFETY: no memory is passed; the set is closed below.
    let set = Fd(unsafe { epoll_create1(0) });
    let mut event = epoll_event {
        events: EPOLLIN as u32,
        u64: 0,
    };
    // SAFETY: the event lives.
    let answer = unsafe { epoll_ctl(set.0, EPOLL_CTL_ADD, f.0, &raw mut event) };
    assert_eq!(answer, -1);
    assert_eq!(errno(), Errno(EPERM));
}

fn ioctls_of_files() {
    let f = make(c"f");
    // SAFETY: the calls write no more than a window size.
    unsafe {
        let mut size: winsize = std::mem::zeroed();
        assert_eq!(ioctl(f.0, TIOCGWINSZ, &raw mut size), -1);
        assert_eq!(errno(), Errno(ENOTTY));
        assert_eq!(isatty(f.0), 0);
        assert_eq!(errno(), Errno(ENOTTY));
    }
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
        // SAFETY: no memory is passed.
        assert_eq!(unsafe { sync_file_range(f.0, at, bytes, flags) }, 0);
    }
    // SAFETY: no arguments.
    unsafe { sync() };
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
        // SAFETY: no memory is passed.
        assert_eq!(unsafe { sync_file_range(fd, at, bytes, flags) }, -1);
        assert_eq!(errno(), Errno(expected));
    }
}

/// Either handles can be made and opened, or they are refused as documented.
fn handles_open_or_are_refused() {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        data: [u8; 128],
    }
    file(c"f", b"by handle");
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        data: [0; 128],
    };
    let mut mount = 0;
    // SAFETY: terminated path; the handle has the room it claims.
    let made = unsafe {
        name_to_handle_at(
            AT_FDCWD,
            c"f".as_ptr(),
            (&raw mut handle).cast(),
            &raw mut mount,
            0,
        )
    };
    if made == -1 {
        assert_eq!(errno(), Errno(EOPNOTSUPP));
        return;
    }
    needs_root();
    let directory = open(c".", O_RDONLY, 0).unwrap();
    // SAFETY: the handle the kernel filled in.
    let opened = unsafe { open_by_handle_at(directory.0, (&raw mut handle).cast(), O_RDONLY) };
    assert!(opened >= 0, "{:?}", errno());
    assert_same(&content(Fd(opened).0), b"by handle");
    handle.bytes = 1;
    // SAFETY: as above; too little room is claimed.
    let small = unsafe {
        name_to_handle_at(
            AT_FDCWD,
            c"f".as_ptr(),
            (&raw mut handle).cast(),
            &raw mut mount,
            0,
        )
    };
    assert_eq!((small, errno()), (-1, Errno(EOVERFLOW)));
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
        // SAFETY: no memory is passed.
        assert_eq!(unsafe { posix_fadvise(f.0, 0, 0, advice) }, 0);
    }
    // SAFETY: no memory is passed.
    unsafe {
        assert_eq!(posix_fadvise(f.0, 0, 0, 99), EINVAL);
        assert_eq!(posix_fadvise(-1, 0, 0, POSIX_FADV_NORMAL), EBADF);
        assert_eq!(readahead(f.0, 0, 5_000), 0);
    }
    holds(c"f", &[1; 10_000]);
}

fn temporary_names() {
    let mut names = std::collections::BTreeSet::new();
    for round in 0..20u8 {
        let mut template = *b"temporary-XXXXXX\0";
        // SAFETY: a terminated template that may be written.
        let f = Fd(unsafe { mkstemp(template.as_mut_ptr().cast()) });
        assert!(f.0 >= 0, "{:?}", errno());
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

fn watch(path: &std::ffi::CStr, mask: u32) -> Fd {
    // SAFETY: a terminated path.
    unsafe {
        let watch = Fd(inotify_init1(IN_NONBLOCK));
        assert!(
            inotify_add_watch(watch.0, path.as_ptr(), mask) >= 0,
            "{:?}",
            errno()
        );
        watch
    }
}

fn changes_are_watched() {
    let watch = watch(
        c".",
        IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB,
    );
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
    let watch = watch(c"f", IN_MODIFY | IN_ACCESS);
    put(f.0, b"data");
    assert_eq!(events(&watch), [IN_MODIFY]);
    assert_eq!(pread(f.0, &mut [0; 4], 0), Ok(4));
    assert_eq!(events(&watch), [IN_ACCESS]);
}

/// The kernel's own asynchronous calls, beside ordinary ones.
fn asynchronous_calls_agree() {
    let f = make(c"f");
    put(f.0, &pattern(1, 10_000));
    let mut context = 0usize;
    // SAFETY: room for the context.
    if unsafe { syscall(SYS_io_setup, 4, &raw mut context) } != 0 {
        skip("no io_setup here");
    }
    let call = |operation: u16, buffer: usize, bytes: u64, at: i64| {
        let mut block = [0u64; 8];
        block[2] = u64::from(operation);
        block[2] |= (f.0 as u64) << 32;
        (block[3], block[4], block[5]) = (buffer as u64, bytes, at as u64);
        let mut list = [block.as_ptr()];
        let mut done = [0i64; 4];
        // SAFETY: one block, one event; both live until it is over.
        unsafe {
            assert_eq!(
                syscall(SYS_io_submit, context, 1, list.as_mut_ptr()),
                1,
                "{:?}",
                errno()
            );
            assert_eq!(
                syscall(SYS_io_getevents, context, 1, 1, done.as_mut_ptr(), 0),
                1
            );
        }
        done[2]
    };
    let mut room = [0u8; 5_000];
    assert_eq!(
        call(0, room.as_mut_ptr().expose_provenance(), 5_000, 2_000),
        5_000
    );
    assert_same(&room, &pattern(1, 10_000)[2_000..7_000]);
    assert_eq!(
        call(1, b"asynchronous".as_ptr().expose_provenance(), 12, 9_995),
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
        // SAFETY: a terminated path, and the structure with its size.
        match unsafe { syscall(SYS_openat2, directory, path.as_ptr(), how.as_ptr(), 24) } {
            -1 => Err(errno()),
            number => Ok(Fd(number as i32)),
        }
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
    // SAFETY: buffers of the sizes passed; numbers that this case owns.
    unsafe {
        put(f.0, b"0123456789");
        assert_eq!(syscall(SYS_lseek, f.0, 2i64, SEEK_SET), 2);
        assert_eq!(read(f.0, &mut room), Ok(4));
        assert_same(&room, b"2345");
        assert_eq!(syscall(SYS_read, f.0, room.as_mut_ptr(), 4i64), 4);
        assert_same(&room, b"6789");
        assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(10));
        assert_eq!(syscall(SYS_write, f.0, c"ab".as_ptr(), 2i64), 2);
        put(f.0, b"cd");
        let parts = [iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: 4,
        }];
        assert_eq!(syscall(SYS_lseek, f.0, 10i64, SEEK_SET), 10);
        assert_eq!(syscall(SYS_readv, f.0, parts.as_ptr(), 1), 4);
        assert_same(&room, b"abcd");
        assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(14));
        assert_eq!(syscall(SYS_pwrite64, f.0, c"X".as_ptr(), 1i64, 0i64), 1);
        assert_eq!(syscall(SYS_ftruncate, f.0, 12i64), 0);
        let copy = syscall(SYS_dup, f.0) as i32;
        put(copy, b"!");
        assert_eq!(syscall(SYS_close, copy), 0);
        fails(EBADF, write(copy, b"x"));
        let other = make(c"g");
        assert_eq!(other.0, copy);
        put(other.0, b"new");
        let map = syscall(
            SYS_mmap, 0i64, 4096i64, PROT_READ, MAP_SHARED, other.0, 0i64,
        );
        assert!(map > 0);
        let mapped: *const u8 = std::ptr::with_exposed_provenance(map as usize);
        assert_eq!(mapped.read_volatile(), b'n');
        assert_eq!(syscall(SYS_munmap, map, 4096i64), 0);
    }
    holds(c"f", b"X123456789ab\0\0!");
    holds(c"g", b"new");
}

fn unread_bytes_are_told() {
    let f = make(c"f");
    put(f.0, b"0123456789");
    lseek(f.0, 4, SEEK_SET).unwrap();
    let mut left = 0i32;
    // SAFETY: room for a number.
    match unsafe { ioctl(f.0, FIONREAD, &raw mut left) } {
        0 => assert_eq!(left, 6),
        _ => assert_eq!(errno(), Errno(ENOTTY)),
    }
}
