//! `open`, `openat`, `creat` and all their flags.

use super::words::*;
use crate::call;

cases!("open":
    what_was_created_is_told, creates_with_the_mode_less_the_umask, what_is_missing_is_enoent, exclusively_makes_or_fails,
    creates_through_a_dangling_link, needs_directories_on_the_way, directories_are_not_written,
    truncates_when_asked, fifos_and_sockets_without_partner, device_nodes_without_driver, o_path_only_names,
    unnamed_files_get_names, unnamed_files_that_must_stay_so, direct_is_accepted, noatime_is_for_owners,
    access_modes_are_kept, relative_to_a_directory, relative_to_a_moved_directory, creat_is_open,
    mode_is_for_later_opens, in_a_removed_directory, close_on_exec, flags_are_told, a_slash_at_the_end,
    sync_flags_write, in_a_directory_without_rights, relative_to_a_directory_that_moves,
    unnamed_files_have_group_bits, unnamed_files_beside_watches,
);

fn creates_with_the_mode_less_the_umask() {
    for (mask, asked, found) in [
        (0o022, 0o666, 0o644),
        (0, 0o7777, 0o7777),
        (0o777, 0o777, 0),
        (0o027, 0o755, 0o750),
    ] {
        call::umask(mask);
        drop(open(c"f", O_CREAT | O_RDWR, asked).unwrap());
        assert_eq!(mode(c"f"), found);
        unlink(c"f").unwrap();
    }
}

fn what_is_missing_is_enoent() {
    for path in [c"none", c"none/f", c""] {
        fails(ENOENT, open(path, O_RDONLY, 0));
    }
    for path in [c"none/f", c""] {
        fails(ENOENT, open(path, O_RDWR | O_CREAT, 0o644));
    }
    symlink(c"none", c"dangling").unwrap();
    fails(ENOENT, open(c"dangling", O_RDONLY, 0));
}

fn exclusively_makes_or_fails() {
    let exclusive = O_CREAT | O_EXCL | O_RDWR;
    drop(open(c"f", exclusive, 0o644).unwrap());
    symlink(c"none", c"dangling").unwrap();
    mkdir(c"d", 0o755).unwrap();
    for path in [c"f", c"dangling", c"d", c"."] {
        fails(EEXIST, open(path, exclusive, 0o644));
    }
    fails(ENOENT, stat(c"none"));
}

fn creates_through_a_dangling_link() {
    symlink(c"made", c"link").unwrap();
    drop(open(c"link", O_CREAT | O_WRONLY, 0o600).unwrap());
    assert_eq!(mode(c"made"), 0o600);
    symlink(c"none/f", c"lost").unwrap();
    fails(ENOENT, open(c"lost", O_CREAT | O_WRONLY, 0o600));
}

fn needs_directories_on_the_way() {
    file(c"f", b"");
    symlink(c"f", c"link").unwrap();
    for path in [c"f/g", c"link/g", c"f/."] {
        fails(ENOTDIR, open(path, O_RDONLY, 0));
        fails(ENOTDIR, stat(path));
    }
    fails(ENOTDIR, open(c"f/g", O_RDWR | O_CREAT, 0o644));
    for path in [c"f", c"link"] {
        fails(ENOTDIR, open(path, O_RDONLY | O_DIRECTORY, 0));
    }
    mkdir(c"d", 0o755).unwrap();
    symlink(c"d", c"to-d").unwrap();
    drop(open(c"to-d", O_RDONLY | O_DIRECTORY, 0).unwrap());
    fails(
        ENOTDIR,
        open(c"to-d", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0),
    );
}

fn directories_are_not_written() {
    mkdir(c"d", 0o755).unwrap();
    for flags in [
        O_WRONLY,
        O_RDWR,
        O_RDONLY | O_TRUNC,
        O_RDONLY | O_CREAT,
        O_WRONLY | O_APPEND,
    ] {
        fails(EISDIR, open(c"d", flags, 0o644));
    }
    let d = open(c"d", O_RDONLY, 0).unwrap();
    fails(EISDIR, read(d.0, &mut [0; 8]));
    fails(EISDIR, pread(d.0, &mut [0; 8], 0));
    fails(EBADF, write(d.0, b"x"));
    fails(EINVAL, ftruncate(d.0, 0));
}

fn truncates_when_asked() {
    for flags in [O_WRONLY, O_RDWR, O_RDONLY, O_WRONLY | O_CREAT] {
        file(c"f", b"old");
        changes(&[(c"f", "mc")], || {
            drop(open(c"f", flags | O_TRUNC, 0o644).unwrap())
        });
        assert_eq!(stat(c"f").unwrap().st_size, 0, "flags {flags:#o}");
    }
    file(c"f", b"old");
    changes(&[(c"f", "")], || {
        drop(open(c"f", O_RDWR | O_CREAT, 0o644).unwrap())
    });
    holds(c"f", b"old");
}

fn fifos_and_sockets_without_partner() {
    mknod(c"fifo", S_IFIFO | 0o644, 0).unwrap();
    fails(ENXIO, open(c"fifo", O_WRONLY | O_NONBLOCK, 0));
    let reader = open(c"fifo", O_RDONLY | O_NONBLOCK, 0).unwrap();
    let writer = open(c"fifo", O_WRONLY | O_NONBLOCK, 0).unwrap();
    put(writer.0, b"through");
    let mut found = [0; 16];
    assert_eq!(read(reader.0, &mut found), Ok(7));
    fails(ESPIPE, lseek(reader.0, 0, SEEK_SET));
    fails(ESPIPE, pread(reader.0, &mut found, 0));
    fails(ESPIPE, pwrite(writer.0, b"x", 0));
    mknod(c"socket", S_IFSOCK | 0o644, 0).unwrap();
    fails(ENXIO, open(c"socket", O_RDWR, 0));
}

fn device_nodes_without_driver() {
    needs_root();
    mknod(c"null", S_IFCHR | 0o666, makedev(1, 3)).unwrap();
    mknod(c"no-driver", S_IFCHR | 0o666, makedev(4095, 1)).unwrap();
    put(open(c"null", O_WRONLY, 0).unwrap().0, b"gone");
    fails(ENXIO, open(c"no-driver", O_RDONLY, 0));
}

fn o_path_only_names() {
    file(c"f", b"data");
    symlink(c"f", c"link").unwrap();
    let f = open(c"f", O_PATH, 0).unwrap();
    fails(EBADF, read(f.0, &mut [0; 4]));
    fails(EBADF, write(f.0, b"x"));
    fails(EBADF, lseek(f.0, 0, SEEK_SET));
    fails(EBADF, fchmod(f.0, 0o600));
    fails(EBADF, fchown(f.0, 0, 0));
    fails(EBADF, ftruncate(f.0, 0));
    fails(EBADF, with_fd(libc::fsync, f.0));
    assert_eq!(fstat(f.0).unwrap().st_size, 4);
    let link = open(c"link", O_PATH | O_NOFOLLOW, 0).unwrap();
    assert_eq!(fstat(link.0).unwrap().st_mode & S_IFMT, S_IFLNK);
    let again = open(&name(format!("/proc/self/fd/{}", f.0)), O_RDONLY, 0).unwrap();
    assert_same(&content(again.0), b"data");
}

fn unnamed_files_get_names() {
    fails(EINVAL, open(c".", O_TMPFILE | O_RDONLY, 0o600));
    let unnamed = open(c".", O_TMPFILE | O_RDWR, 0o600).unwrap();
    put(unnamed.0, b"here");
    assert_eq!(fstat(unnamed.0).unwrap().st_nlink, 0);
    let path = name(format!("/proc/self/fd/{}", unnamed.0));
    linkat((AT_FDCWD, &path), (AT_FDCWD, c"named"), AT_SYMLINK_FOLLOW).unwrap();
    holds(c"named", b"here");
    assert_eq!(fstat(unnamed.0).unwrap().st_nlink, 1);
}

fn unnamed_files_that_must_stay_so() {
    let unnamed = open(c".", O_TMPFILE | O_RDWR | O_EXCL, 0o600).unwrap();
    let path = name(format!("/proc/self/fd/{}", unnamed.0));
    fails(
        ENOENT,
        linkat((AT_FDCWD, &path), (AT_FDCWD, c"named"), AT_SYMLINK_FOLLOW),
    );
}

fn unnamed_files_have_group_bits() {
    for asked in [0o2640, 0o2750, 0o6755] {
        let unnamed = open(c".", O_TMPFILE | O_RDWR, asked).unwrap();
        assert_eq!(fstat(unnamed.0).unwrap().st_mode & 0o7777, asked);
    }
    mkdir(c"d", 0o755).unwrap();
    chmod(c"d", 0o2777).unwrap();
    let unnamed = open(c"d", O_TMPFILE | O_RDWR, 0o2640).unwrap();
    assert_eq!(fstat(unnamed.0).unwrap().st_mode & 0o7777, 0o2640);
}

fn unnamed_files_beside_watches() {
    let watch = call::inotify(c".", IN_CREATE).unwrap();
    for round in 0..2 {
        let unnamed = open(c".", O_TMPFILE | O_RDWR, 0o600).unwrap();
        put(unnamed.0, b"here");
        let path = name(format!("/proc/self/fd/{}", unnamed.0));
        let to = name(format!("named{round}"));
        linkat((AT_FDCWD, &path), (AT_FDCWD, &to), AT_SYMLINK_FOLLOW).unwrap();
        holds(&to, b"here");
    }
    drop(watch);
    drop(open(c".", O_TMPFILE | O_RDWR, 0o600).unwrap());
}

/// `F_CREATED_QUERY`, of Linux 6.12.
fn what_was_created_is_told() {
    const CREATED_QUERY: i32 = 1024 + 4;
    let flags = O_RDWR | O_CREAT;
    let [made, again] = [(); 2].map(|()| open(c"f", flags, 0o644).unwrap());
    if let Err(answer) = fcntl(made.0, CREATED_QUERY, 0) {
        fails(EINVAL, Err::<(), _>(answer));
        skip("no F_CREATED_QUERY here");
    }
    let copy = dup(made.0).unwrap();
    for (fd, expected) in [(&made, 1), (&again, 0), (&copy, 1)] {
        assert_eq!(fcntl(fd.0, CREATED_QUERY, 0), Ok(expected));
    }
    // Also when the kernel was asked for more.
    flock(made.0, LOCK_EX).unwrap();
    assert_eq!(fcntl(made.0, CREATED_QUERY, 0), Ok(1));
    let by_number = |path: &std::ffi::CStr| {
        let (path, flags) = (path.as_ptr().expose_provenance(), O_RDWR | O_CREAT);
        call::by_number(
            SYS_openat,
            [AT_FDCWD as usize, path, flags as usize, 0o600, 0, 0],
        )
    };
    for (path, expected) in [(c"g", 1), (c"g", 0)] {
        let fd = by_number(path).unwrap() as i32;
        assert_eq!(fcntl(fd, CREATED_QUERY, 0), Ok(expected));
        close(fd).unwrap();
    }
}

/// Another process renames it all the time.
fn relative_to_a_directory_that_moves() {
    const ROUNDS: usize = 1500;
    mkdir(c"d", 0o755).unwrap();
    mkdir(c"d/below", 0o755).unwrap();
    file(c"d/below/f", b"data");
    let mover = Child::begin(|| {
        loop {
            rename(c"d", c"e").unwrap();
            rename(c"e", c"d").unwrap();
        }
    });
    let mut done = 0;
    while done < ROUNDS {
        // It has another name by now.
        let Ok(below) = open(c"d/below", O_RDONLY | O_DIRECTORY, 0) else {
            continue;
        };
        let found = match done % 3 {
            0 => openat(below.0, c"f", O_RDWR | O_CREAT, 0o644),
            1 => {
                let path = c"f".as_ptr().expose_provenance();
                let arguments = [below.0 as usize, path, O_RDONLY as usize, 0, 0, 0];
                call::by_number(SYS_openat, arguments).map(|fd| Fd(fd as i32))
            }
            _ => call::openat2(below.0, c"f", [O_RDONLY as u64, 0, 0]),
        };
        assert_same(&content(found.unwrap().0), b"data");
        let facts = fstatat(below.0, c"f", 0).unwrap();
        assert_eq!((facts.st_size, facts.st_nlink), (4, 1));
        call::mknodat(below.0, c"p", S_IFIFO | 0o644).unwrap();
        unlinkat(below.0, c"p", 0).unwrap();
        done += 1;
    }
    mover.kill();
    mover.end(std::time::Duration::from_secs(5));
}

fn direct_is_accepted() {
    let direct = open(c"f", O_RDWR | O_CREAT | O_DIRECT, 0o644).unwrap();
    // Aligned as strict file systems want it.
    let mut room = vec![0u8; 3 * 4096];
    let at = room.as_ptr().align_offset(4096);
    room[at..at + 4096].copy_from_slice(&pattern(1, 4096));
    assert_eq!(pwrite(direct.0, &room[at..at + 4096], 4096), Ok(4096));
    holds(c"f", &[vec![0; 4096], pattern(1, 4096)].concat());
    room.fill(0);
    assert_eq!(pread(direct.0, &mut room[at..at + 4096], 4096), Ok(4096));
    assert_same(&room[at..at + 4096], &pattern(1, 4096));
    let again = open(c"f", O_RDONLY | O_DIRECT, 0).unwrap();
    assert_eq!(pread(again.0, &mut room[at..at + 4096], 0), Ok(4096));
    assert_eq!(room[at..at + 4096], [0; 4096]);
    let status = |fd: &Fd| fcntl(fd.0, F_GETFL, 0).unwrap() as i32;
    for fd in [&direct, &again] {
        assert_eq!(status(fd) & O_DIRECT, O_DIRECT);
    }
    fcntl(again.0, F_SETFL, status(&again) & !O_DIRECT).unwrap();
    assert_eq!(status(&again) & O_DIRECT, 0);
}

fn noatime_is_for_owners() {
    file(c"f", b"");
    drop(open(c"f", O_RDONLY | O_NOATIME, 0).unwrap());
    chmod(c".", 0o755).unwrap();
    as_user(ALICE, ALICE, &[], || {
        fails(EPERM, open(c"f", O_RDONLY | O_NOATIME, 0));
        drop(open(c"f", O_RDONLY, 0).unwrap());
    });
}

fn access_modes_are_kept() {
    file(c"f", b"data");
    let reader = open(c"f", O_RDONLY, 0).unwrap();
    let writer = open(c"f", O_WRONLY, 0).unwrap();
    fails(EBADF, write(reader.0, b"x"));
    fails(EBADF, pwrite(reader.0, b"x", 0));
    fails(EBADF, writev(reader.0, &[b"x"]));
    fails(EINVAL, ftruncate(reader.0, 0));
    fails(EBADF, fallocate(reader.0, 0, 0, 10));
    fails(EBADF, read(writer.0, &mut [0; 4]));
    fails(EBADF, pread(writer.0, &mut [0; 4], 0));
    fails(EBADF, readv(writer.0, &mut [&mut [0; 4]]));
    // Zero bytes make no difference.
    fails(EBADF, read(writer.0, &mut []));
    fails(EBADF, write(reader.0, &[]));
    fails(EBADF, pread(writer.0, &mut [], 0));
    fails(EBADF, pwrite(reader.0, &[], 0));
    let neither = open(c"f", O_ACCMODE, 0).unwrap();
    fails(EBADF, read(neither.0, &mut [0; 4]));
    fails(EBADF, write(neither.0, b"x"));
    holds(c"f", b"data");
}

fn relative_to_a_directory() {
    mkdir(c"d", 0o755).unwrap();
    file(c"f", b"outside");
    let d = open(c"d", O_RDONLY | O_DIRECTORY, 0).unwrap();
    put(
        openat(d.0, c"f", O_CREAT | O_WRONLY, 0o644).unwrap().0,
        b"inside",
    );
    holds(c"d/f", b"inside");
    holds(c"f", b"outside");
    assert_same(
        &content(openat(d.0, c"../f", O_RDONLY, 0).unwrap().0),
        b"outside",
    );
    assert_same(
        &content(openat(AT_FDCWD, c"f", O_RDONLY, 0).unwrap().0),
        b"outside",
    );
    drop(openat(-1, c"/dev/null", O_RDONLY, 0).unwrap());
    fails(EBADF, openat(-1, c"f", O_RDONLY, 0));
    let f = open(c"f", O_RDONLY, 0).unwrap();
    fails(ENOTDIR, openat(f.0, c"f", O_RDONLY, 0));
    fails(ENOENT, openat(d.0, c"", O_RDONLY, 0));
}

fn relative_to_a_moved_directory() {
    mkdir(c"d", 0o755).unwrap();
    mkdir(c"e", 0o755).unwrap();
    let d = open(c"d", O_RDONLY | O_DIRECTORY, 0).unwrap();
    rename(c"d", c"e/moved").unwrap();
    drop(openat(d.0, c"f", O_CREAT | O_WRONLY, 0o644).unwrap());
    stat(c"e/moved/f").unwrap();
    let parent = openat(d.0, c"..", O_RDONLY, 0).unwrap();
    assert_eq!(fstat(parent.0).unwrap().st_ino, stat(c"e").unwrap().st_ino);
}

fn creat_is_open() {
    file(c"f", b"old");
    let f = creat(c"f", 0o600).unwrap();
    assert_eq!(fstat(f.0).unwrap().st_size, 0);
    fails(EBADF, read(f.0, &mut [0; 1]));
    put(f.0, b"new");
    mkdir(c"d", 0o755).unwrap();
    fails(EISDIR, creat(c"d", 0o644));
    fails(ENOTDIR, creat(c"f/g", 0o644));
    fails(ENOENT, creat(c"none/g", 0o644));
    holds(c"f", b"new");
}

fn mode_is_for_later_opens() {
    chmod(c".", 0o777).unwrap();
    as_user(ALICE, ALICE, &[], || {
        let f = open(c"f", O_CREAT | O_RDWR, 0).unwrap();
        put(f.0, b"mine");
        assert_same(&content(f.0), b"mine");
        fails(EACCES, open(c"f", O_RDONLY, 0));
    });
}

fn in_a_removed_directory() {
    mkdir(c"d", 0o755).unwrap();
    chdir(c"d").unwrap();
    rmdir(c"../d").unwrap_or_else(|_| panic!("a directory in use can be removed"));
    fails(ENOENT, open(c"f", O_CREAT | O_RDWR, 0o644));
    fails(ENOENT, mkdir(c"e", 0o755));
    fails(ENOENT, symlink(c"x", c"l"));
    fails(ENOENT, mknod(c"p", S_IFIFO | 0o644, 0));
    assert_eq!(stat(c".").unwrap().st_nlink, 0);
}

fn close_on_exec() {
    let f = open(c"f", O_CREAT | O_RDWR | O_CLOEXEC, 0o644).unwrap();
    assert_eq!(fcntl(f.0, F_GETFD, 0), Ok(FD_CLOEXEC.into()));
    let kept = open(c"f", O_RDWR, 0).unwrap();
    assert_eq!(fcntl(kept.0, F_GETFD, 0), Ok(0));
}

fn flags_are_told() {
    let f = open(c"f", O_CREAT | O_RDWR | O_APPEND | O_EXCL, 0o644).unwrap();
    let flags = fcntl(f.0, F_GETFL, 0).unwrap() as i32;
    assert_eq!(
        flags & (O_ACCMODE | O_APPEND | O_CREAT | O_EXCL),
        O_RDWR | O_APPEND
    );
    fcntl(f.0, F_SETFL, O_NONBLOCK).unwrap();
    let flags = fcntl(f.0, F_GETFL, 0).unwrap() as i32;
    assert_eq!(
        flags & (O_ACCMODE | O_APPEND | O_NONBLOCK),
        O_RDWR | O_NONBLOCK
    );
}

fn a_slash_at_the_end() {
    file(c"f", b"");
    mkdir(c"d", 0o755).unwrap();
    fails(ENOTDIR, open(c"f/", O_RDONLY, 0));
    fails(EISDIR, open(c"new/", O_CREAT | O_RDWR, 0o644));
    fails(ENOENT, open(c"new/", O_RDONLY, 0));
    drop(open(c"d/", O_RDONLY, 0).unwrap());
    fails(ENOTDIR, unlink(c"f/"));
    fails(ENOTDIR, rename(c"f", c"g/"));
    mkdir(c"e/", 0o755).unwrap();
    rename(c"e/", c"g/").unwrap();
    rmdir(c"g/").unwrap();
    fails(ENOENT, stat(c"new"));
}

fn sync_flags_write() {
    for flags in [O_SYNC, O_DSYNC, O_SYNC | O_APPEND] {
        let f = open(c"f", O_CREAT | O_TRUNC | O_RDWR | flags, 0o644).unwrap();
        put(f.0, b"synced");
        assert_same(&content(f.0), b"synced");
    }
}

fn in_a_directory_without_rights() {
    mkdir(c"closed", 0o700).unwrap();
    mkdir(c"read-only", 0o755).unwrap();
    file(c"closed/f", b"");
    file(c"read-only/f", b"");
    as_user(ALICE, ALICE, &[], || {
        fails(EACCES, open(c"closed/f", O_RDONLY, 0));
        fails(EACCES, open(c"closed/none", O_RDONLY, 0));
        fails(EACCES, open(c"read-only/new", O_CREAT | O_RDWR, 0o644));
        fails(EACCES, open(c"read-only/f", O_WRONLY, 0));
        fails(EACCES, open(c"read-only/f", O_RDONLY | O_TRUNC, 0));
        drop(open(c"read-only/f", O_RDONLY | O_CREAT, 0o644).unwrap());
    });
}
