//! `fsync` and its kin, advice, handles, `ioctl`, `poll`.

use super::words::*;

cases!("control":
    ready_at_any_time, epoll_refuses_files, ioctls_of_files, sync_calls_succeed, sync_refusals, handles_open_or_are_refused,
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
