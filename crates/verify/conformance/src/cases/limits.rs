//! The largest, the longest and the most: names, paths, links, offsets, files, counts.

use super::words::*;
use crate::call;
use crate::mapping::Map;
use std::ffi::CStr;

cases!("limits":
    loops_are_eloop, forty_links_are_followed, names_to_255_bytes, paths_to_4095_bytes,
    too_many_descriptors, offsets_around_2_gib_and_4_gib, up_to_the_largest_offset, file_size_limit_signals,
    file_size_limit_shortens, huge_counts_are_bounded,
);

fn loops_are_eloop() {
    symlink(c"b", c"a").unwrap();
    symlink(c"a", c"b").unwrap();
    for path in [c"a", c"a/f", c"b/"] {
        fails(ELOOP, open(path, O_RDONLY, 0));
        fails(ELOOP, stat(path));
        fails(ELOOP, truncate(path, 0));
        fails(ELOOP, chmod(path, 0o600));
        fails(ELOOP, access(path, F_OK));
    }
    fails(ELOOP, open(c"a", O_RDWR | O_CREAT, 0o644));
    file(c"f", b"");
    symlink(c"f", c"link").unwrap();
    fails(ELOOP, open(c"link", O_RDONLY | O_NOFOLLOW, 0));
    fails(ELOOP, open(c"link", O_WRONLY | O_NOFOLLOW | O_CREAT, 0o644));
}

fn forty_links_are_followed() {
    file(c"l0", b"far");
    for at in 1..=41 {
        symlink(&name(format!("l{}", at - 1)), &name(format!("l{at}"))).unwrap();
    }
    holds(c"l40", b"far");
    fails(ELOOP, open(c"l41", O_RDONLY, 0));
}

/// A call that takes a name which is too long.
type Refused = (&'static str, fn(&CStr) -> Answer<()>);

const REFUSED: [Refused; 14] = [
    ("open", |path| open(path, O_RDONLY, 0).map(drop)),
    ("creat", |path| creat(path, 0o644).map(drop)),
    ("stat", |path| stat(path).map(drop)),
    ("lstat", |path| lstat(path).map(drop)),
    ("access", |path| access(path, F_OK)),
    ("mkdir", |path| mkdir(path, 0o755)),
    ("rmdir", rmdir),
    ("unlink", unlink),
    ("mknod", |path| mknod(path, S_IFIFO | 0o644, 0)),
    ("symlink", |path| symlink(c"x", path)),
    ("link", |path| link(c"f", path)),
    ("rename to", |path| rename(c"f", path)),
    ("rename from", |path| rename(path, c"f")),
    ("chdir", chdir),
];

fn refused_everywhere(path: &CStr) {
    file(c"f", b"");
    for (call, refused) in REFUSED {
        assert_eq!(refused(path), Err(Errno(ENAMETOOLONG)), "{call}");
    }
    fails(ENAMETOOLONG, readlink(path, 10));
    fails(ENAMETOOLONG, chmod(path, 0o600));
    fails(ENAMETOOLONG, chown(path, 0, 0));
    fails(ENAMETOOLONG, truncate(path, 0));
    fails(ENAMETOOLONG, utimensat(AT_FDCWD, path, None, 0));
    fails(ENAMETOOLONG, statfs(path));
    fails(ENAMETOOLONG, set_xattr(path, c"user.a", b"", 0));
    fails(
        ENAMETOOLONG,
        open(&name([path.to_bytes(), b"/f"].concat()), O_RDONLY, 0),
    );
}

fn names_to_255_bytes() {
    let longest = name("n".repeat(255));
    file(&longest, b"long");
    holds(&longest, b"long");
    rename(&longest, c"short").unwrap();
    link(c"short", &longest).unwrap();
    unlink(&longest).unwrap();
    mkdir(&longest, 0o755).unwrap();
    rmdir(&longest).unwrap();
    symlink(c"short", &longest).unwrap();
    holds(&longest, b"long");
    refused_everywhere(&name("n".repeat(256)));
}

fn paths_to_4095_bytes() {
    let path = |bytes: usize| name([&b"./".repeat(bytes)[..bytes - 1], b"f"].concat());
    // An odd number of bytes ends in "./f".
    file(&path(4095), b"far");
    holds(c"f", b"far");
    refused_everywhere(&name("./".repeat(2048)));
    fails(ENAMETOOLONG, open(&name("x/".repeat(4000)), O_RDONLY, 0));
}

fn too_many_descriptors() {
    file(c"f", b"");
    call::setrlimit(RLIMIT_NOFILE, 64, 64).unwrap();
    let mut held = Vec::new();
    let refused = loop {
        match open(c"f", O_RDONLY, 0) {
            Ok(fd) => held.push(fd),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Errno(EMFILE));
    assert!(held.iter().all(|fd| fd.0 < 64));
    fails(EMFILE, dup(held[0].0));
    held.pop();
    drop(open(c"f", O_RDONLY, 0).unwrap());
}

fn offsets_around_2_gib_and_4_gib() {
    let f = make(c"f");
    for edge in [1i64 << 31, 1 << 32, 1 << 33, 1 << 40] {
        let data = pattern(edge as u8, 10_000);
        assert_eq!(pwrite(f.0, &data, edge - 5_000), Ok(10_000));
        assert_eq!(fstat(f.0).unwrap().st_size, edge + 5_000);
        let mut found = vec![0; 10_000];
        assert_eq!(pread(f.0, &mut found, edge - 5_000), Ok(10_000));
        assert_same(&found, &data);
        assert_eq!(lseek(f.0, edge - 1, SEEK_SET), Ok(edge - 1));
        put(f.0, b"ab");
        assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(edge + 1));
        assert_eq!(pread(f.0, &mut found[..4], edge - 2), Ok(4));
        assert_same(&found[1..3], b"ab");
        assert_eq!(lseek(f.0, 0, SEEK_END), Ok(edge + 5_000));
    }
    ftruncate(f.0, (1 << 32) + 1).unwrap();
    assert_eq!(stat(c"f").unwrap().st_size, (1 << 32) + 1);
    ftruncate(f.0, (1 << 31) - 1).unwrap();
    assert_eq!(stat(c"f").unwrap().st_size, (1 << 31) - 1);
}

fn up_to_the_largest_offset() {
    let f = make(c"f");
    assert_eq!(pwrite(f.0, b"x", i64::MAX - 1), Ok(1));
    assert_eq!(fstat(f.0).unwrap().st_size, i64::MAX);
    fails(EINVAL, pwrite(f.0, b"x", i64::MAX));
    fails(EINVAL, pwrite(f.0, b"xy", i64::MAX - 1));
    let mut room = [0; 4];
    assert_eq!(pread(f.0, &mut room[..1], i64::MAX - 1), Ok(1));
    assert_eq!(room[0], b'x');
    fails(EINVAL, pread(f.0, &mut room, i64::MAX - 1));
    lseek(f.0, -1, SEEK_END).unwrap();
    fails(EINVAL, read(f.0, &mut room));
    fails(EINVAL, write(f.0, b"xy"));
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(i64::MAX - 1));
    ftruncate(f.0, 0).unwrap();
    ftruncate(f.0, i64::MAX).unwrap();
    assert_eq!(lseek(f.0, 0, SEEK_END), Ok(i64::MAX));
    fails(EINVAL, lseek(f.0, 1, SEEK_CUR));
    fails(EINVAL, write(f.0, b"x"));
}

fn limit_file_size(bytes: u64) {
    call::setrlimit(RLIMIT_FSIZE, bytes, RLIM_INFINITY).unwrap();
}

fn file_size_limit_signals() {
    let f = make(c"f");
    type Grow = (&'static str, fn(i32) -> Answer<()>);
    let ways: [Grow; 4] = [
        ("pwrite", |fd| pwrite(fd, b"x", 1000).map(drop)),
        ("ftruncate", |fd| ftruncate(fd, 1001)),
        ("truncate", |_| truncate(c"f", 1001)),
        ("fallocate", |fd| fallocate(fd, 0, 0, 1001)),
    ];
    for (way, grow) in ways {
        let signalled = Child::begin(|| {
            limit_file_size(1000);
            let _ = grow(f.0);
        });
        let (_, status) = signalled.end(std::time::Duration::from_secs(20));
        assert!(
            WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ,
            "{way}: status {status:#x}"
        );
        apart(|| {
            call::ignore(SIGXFSZ);
            limit_file_size(1000);
            assert_eq!(grow(f.0), Err(Errno(EFBIG)), "{way}");
        });
    }
    assert_eq!(fstat(f.0).unwrap().st_size, 0);
}

fn file_size_limit_shortens() {
    let f = make(c"f");
    put(f.0, &[b'a'; 600]);
    limit_file_size(1000);
    assert_eq!(write(f.0, &[b'b'; 600]), Ok(400));
    assert_eq!(pwrite(f.0, &[b'c'; 10], 0), Ok(10));
    limit_file_size(RLIM_INFINITY);
    put(f.0, b"more");
    assert_eq!(fstat(f.0).unwrap().st_size, 1004);
}

fn huge_counts_are_bounded() {
    const HUGE: usize = 3 << 30;
    let f = make(c"f");
    put(f.0, b"data");
    lseek(f.0, 0, SEEK_SET).unwrap();
    // Room that costs nothing until touched.
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    let room = Map::make(-1, HUGE, PROT_READ | PROT_WRITE, flags, 0).unwrap();
    assert_eq!(transfer_raw(false, f.0, room.address(0), HUGE), Ok(4));
    assert_same(&room.all(4), b"data");
}
