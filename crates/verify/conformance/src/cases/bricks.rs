//! What servers of distributed file systems ask of the file system below: a second name of each file in a tree by
//! identity, marks in `trusted.` attributes of every kind of file, files made as other users, direct transfers.

use super::words::*;
use std::ffi::CStr;

cases!("bricks":
    names_by_identity_follow_their_files, many_names_are_renamed_over_each_other, symlinks_have_names_by_identity,
    marks_of_every_kind_are_listed_and_removed, marks_through_descriptors, marks_follow_symlinks_nowhere, files_that_point_elsewhere,
    files_are_made_as_other_users, removed_files_wait_in_a_directory, direct_transfers, reserved_and_punched_direct_files,
    directories_are_synced, large_marks_of_directories,
);

/// A tree of names by identity, two levels deep.
fn make_tree() {
    for path in [c".ids", c".ids/ab", c".ids/ab/cd"] {
        mkdir(path, 0o700).unwrap();
    }
}

const ID: &CStr = c".ids/ab/cd/abcd-0001";

fn names_by_identity_follow_their_files() {
    make_tree();
    mkdir(c"d", 0o755).unwrap();
    file(c"f", b"first");
    link(c"f", ID).unwrap();
    rename(c"f", c"d/g").unwrap();
    let by_id = open(ID, O_RDWR, 0).unwrap();
    assert_eq!(pwrite(by_id.0, b"FIRST", 0), Ok(5));
    holds(c"d/g", b"FIRST");
    assert_eq!(lstat(ID).unwrap().st_ino, lstat(c"d/g").unwrap().st_ino);
    // The name is replaced, and comes back from the identity.
    file(c"h", b"second");
    rename(c"h", c"d/g").unwrap();
    assert_eq!(fstat(by_id.0).unwrap().st_nlink, 1);
    linkat((AT_FDCWD, ID), (AT_FDCWD, c"d/again"), 0).unwrap();
    holds(c"d/again", b"FIRST");
    unlink(ID).unwrap();
    assert_eq!(fstat(by_id.0).unwrap().st_nlink, 1);
    holds(c"d/again", b"FIRST");
}

fn many_names_are_renamed_over_each_other() {
    const NAMES: u64 = 300;
    mkdir(c"from", 0o755).unwrap();
    mkdir(c"to", 0o755).unwrap();
    file(c"one", b"one");
    file(c"other", b"other");
    let of = |directory: &str, at: u64| name(format!("{directory}/name-{at:03}"));
    for at in 0..NAMES {
        link(c"one", &of("from", at)).unwrap();
        link(c"other", &of("to", at)).unwrap();
    }
    let links = |path| lstat(path).unwrap().st_nlink;
    assert_eq!((links(c"one"), links(c"other")), (NAMES + 1, NAMES + 1));
    for at in 0..NAMES {
        rename(&of("from", at), &of("to", at)).unwrap();
        assert_eq!((links(c"one"), links(c"other")), (NAMES + 1, NAMES - at));
    }
    // Of two names of one file, neither goes.
    rename(&of("to", 0), &of("to", 1)).unwrap();
    assert_eq!(links(c"one"), NAMES + 1);
    for at in 0..NAMES {
        holds(&of("to", at), b"one");
        unlink(&of("to", at)).unwrap();
    }
    assert_eq!((links(c"one"), links(c"other")), (1, 1));
    rmdir(c"to").unwrap();
    rmdir(c"from").unwrap();
}

fn symlinks_have_names_by_identity() {
    make_tree();
    symlink(c"no/such/place", c"l").unwrap();
    linkat((AT_FDCWD, c"l"), (AT_FDCWD, ID), 0).unwrap();
    assert_eq!(readlink(ID, 100), Ok(b"no/such/place".to_vec()));
    rename(c"l", c"moved").unwrap();
    assert_eq!(lstat(ID).unwrap().st_ino, lstat(c"moved").unwrap().st_ino);
    assert_eq!(lstat(ID).unwrap().st_nlink, 2);
    utimensat(
        AT_FDCWD,
        ID,
        Some([super::times::time(5, 7); 2]),
        AT_SYMLINK_NOFOLLOW,
    )
    .unwrap();
    lchown(ID, u32::MAX, u32::MAX).unwrap();
    assert_eq!(times(&lstat(c"moved").unwrap())[1], 5_000_000_007);
    unlink(c"moved").unwrap();
    assert_eq!(lstat(ID).unwrap().st_nlink, 1);
    // Directories have no second name, but a link that leads to them.
    mkdir(c"d", 0o755).unwrap();
    file(c"d/f", b"in d");
    symlink(c"../../../d", c".ids/ab/cd/abcd-0002").unwrap();
    holds(c".ids/ab/cd/abcd-0002/f", b"in d");
    rename(c"d/f", c".ids/ab/cd/abcd-0002/g").unwrap();
    holds(c"d/g", b"in d");
}

/// A path for every kind of file.
const KINDS: [&CStr; 7] = [c"f", c"d", c"l", c"p", c"s", c"b", c"c"];

fn make_every_kind() {
    file(c"f", b"");
    mkdir(c"d", 0o755).unwrap();
    symlink(c"nowhere", c"l").unwrap();
    mknod(c"p", S_IFIFO | 0o600, 0).unwrap();
    mknod(c"s", S_IFSOCK | 0o600, 0).unwrap();
    mknod(c"b", S_IFBLK | 0o600, makedev(7, 0)).unwrap();
    mknod(c"c", S_IFCHR | 0o600, makedev(1, 3)).unwrap();
}

fn marks_of_every_kind_are_listed_and_removed() {
    needs_root();
    make_every_kind();
    let id: Vec<u8> = (0..16).map(|byte| byte * 17).collect();
    for path in KINDS {
        set_xattr(path, c"trusted.gfid", &id, XATTR_CREATE).unwrap();
        fails(EEXIST, set_xattr(path, c"trusted.gfid", b"x", XATTR_CREATE));
        set_xattr(path, c"trusted.pending", &[0; 12], 0).unwrap();
        assert_eq!(get_xattr(path, c"trusted.gfid", 16).unwrap().1, id);
        let mut names = list_xattr(path, 200).unwrap().1;
        names.retain(|name| name.to_bytes().starts_with(b"trusted."));
        names.sort();
        assert_eq!(
            names,
            [c"trusted.gfid".to_owned(), c"trusted.pending".to_owned()]
        );
        remove_xattr(path, c"trusted.pending").unwrap();
        fails(ENODATA, get_xattr(path, c"trusted.pending", 16));
        fails(ENODATA, remove_xattr(path, c"trusted.pending"));
        let moved = name([path.to_bytes(), b"-moved".as_slice()].concat());
        rename(path, &moved).unwrap();
        assert_eq!(get_xattr(&moved, c"trusted.gfid", 16).unwrap().1, id);
    }
}

fn marks_through_descriptors() {
    needs_root();
    file(c"f", b"");
    chmod(c"f", 0o400).unwrap();
    mkdir(c"d", 0o755).unwrap();
    for path in [c"f", c"d"] {
        let fd = open(path, O_RDONLY, 0).unwrap();
        fset_xattr(fd.0, c"trusted.mark", b"12345").unwrap();
        assert_eq!(fget_xattr_bytes(fd.0, c"trusted.mark"), Ok(5));
        assert_eq!(get_xattr(path, c"trusted.mark", 10).unwrap().1, b"12345");
        if path == c"f" {
            unlink(c"f").unwrap();
        } else {
            rmdir(c"d").unwrap();
        }
        // What has lost its name keeps its marks while it is open.
        assert_eq!(fget_xattr_bytes(fd.0, c"trusted.mark"), Ok(5));
        fremove_xattr(fd.0, c"trusted.mark").unwrap();
        fails(ENODATA, fget_xattr_bytes(fd.0, c"trusted.mark"));
    }
}

fn marks_follow_symlinks_nowhere() {
    needs_root();
    file(c"f", b"");
    symlink(c"f", c"l").unwrap();
    set_xattr(c"l", c"trusted.of-the-link", b"1", 0).unwrap();
    set_xattr_of_target(c"l", c"trusted.of-the-file", b"12").unwrap();
    assert_eq!(
        get_xattr(c"f", c"trusted.of-the-file", 10).unwrap().1,
        b"12"
    );
    fails(ENODATA, get_xattr(c"f", c"trusted.of-the-link", 10));
    fails(ENODATA, get_xattr(c"l", c"trusted.of-the-file", 10));
    fails(ENODATA, remove_xattr(c"l", c"trusted.of-the-file"));
    remove_xattr(c"l", c"trusted.of-the-link").unwrap();
    assert_eq!(readlink(c"l", 10), Ok(b"f".to_vec()));
}

/// An empty file with the sticky bit and no other says in an attribute on which server its content is.
fn files_that_point_elsewhere() {
    needs_root();
    make_tree();
    mknod(c"t", S_IFREG | S_ISVTX, 0).unwrap();
    link(c"t", ID).unwrap();
    set_xattr(c"t", c"trusted.linkto", b"server-2\0", 0).unwrap();
    let facts = lstat(c"t").unwrap();
    assert_eq!((facts.st_mode, facts.st_size), (S_IFREG | S_ISVTX, 0));
    // The content comes, then the file is one like any other.
    let t = open(c"t", O_RDWR, 0).unwrap();
    fchmod(t.0, S_ISVTX | S_ISGID | 0o644).unwrap();
    assert_eq!(pwrite(t.0, b"content", 0), Ok(7));
    assert_eq!(mode(c"t"), S_ISVTX | S_ISGID | 0o644);
    fchmod(t.0, 0o644).unwrap();
    remove_xattr(c"t", c"trusted.linkto").unwrap();
    holds(ID, b"content");
    assert_eq!(mode(ID), 0o644);
}

fn files_are_made_as_other_users() {
    needs_root();
    chmod(c".", 0o777).unwrap();
    apart(|| {
        set_file_user(ALICE, TEAM);
        drop(make(c"f"));
        mkdir(c"d", 0o755).unwrap();
        symlink(c"x", c"l").unwrap();
        mknod(c"p", S_IFIFO | 0o644, 0).unwrap();
        // Files are made for the user, but the process may still mark them.
        set_xattr(c"f", c"trusted.mark", b"1", 0).unwrap();
        set_file_user(0, 0);
        for path in [c"f", c"d", c"l", c"p"] {
            let facts = lstat(path).unwrap();
            assert_eq!((facts.st_uid, facts.st_gid), (ALICE, TEAM), "{path:?}");
        }
        drop(make(c"own"));
        assert_eq!(lstat(c"own").unwrap().st_uid, 0);
        file(c"closed", b"");
        chmod(c"closed", 0o600).unwrap();
        set_file_user(ALICE, TEAM);
        fails(EACCES, open(c"closed", O_RDONLY, 0));
        set_file_user(0, 0);
        drop(open(c"closed", O_RDONLY, 0).unwrap());
    });
}

fn removed_files_wait_in_a_directory() {
    mkdir(c"removed", 0o700).unwrap();
    file(c"f", b"still open");
    link(c"f", c"second").unwrap();
    let open_file = open(c"f", O_RDWR, 0).unwrap();
    rename(c"f", c"removed/id").unwrap();
    unlink(c"second").unwrap();
    file(c"f", b"new");
    put(open_file.0, b"STILL");
    holds(c"removed/id", b"STILL open");
    unlink(c"removed/id").unwrap();
    assert_eq!(fstat(open_file.0).unwrap().st_nlink, 0);
    assert_same(&content(open_file.0), b"STILL open");
    holds(c"f", b"new");
    rmdir(c"removed").unwrap();
}

/// Memory of two pages that begins at the border of one, and what is before it.
fn page_aligned(memory: &mut [u8]) -> &mut [u8] {
    let begin = memory.as_ptr().align_offset(4096);
    &mut memory[begin..begin + 8192]
}

fn direct_transfers() {
    let Ok(f) = open(c"f", O_RDWR | O_CREAT | O_DIRECT, 0o644) else {
        skip("direct transfers are refused here");
    };
    let (mut memory, mut room) = (vec![0; 12_288], vec![0; 12_288]);
    let data = page_aligned(&mut memory);
    data.copy_from_slice(&pattern(1, 8192));
    assert_eq!(pwrite(f.0, data, 0), Ok(8192));
    assert_eq!(pwrite(f.0, data, 1 << 20), Ok(8192));
    assert_eq!(fstat(f.0).unwrap().st_size, (1 << 20) + 8192);
    let room = page_aligned(&mut room);
    assert_eq!(pread(f.0, room, 4096), Ok(8192));
    assert_same(&room[..4096], &pattern(1, 8192)[4096..]);
    assert_same(&room[4096..], &[0; 4096]);
    // Both ways see one file.
    let plain = open(c"f", O_RDWR, 0).unwrap();
    assert_eq!(pwrite(plain.0, b"plain", 100), Ok(5));
    assert_eq!(pread(f.0, room, 0), Ok(8192));
    assert_same(&room[100..105], b"plain");
    data.copy_from_slice(&pattern(2, 8192));
    assert_eq!(pwrite(f.0, &data[..4096], 0), Ok(4096));
    assert_same(&content(plain.0)[..4096], &pattern(2, 8192)[..4096]);
    // The last block is not whole.
    ftruncate(f.0, 4096 + 10).unwrap();
    assert_eq!(pread(f.0, room, 4096), Ok(10));
    assert_same(&room[..10], &pattern(1, 8192)[4096..4106]);
    assert_eq!(pread(f.0, room, 8192), Ok(0));
}

fn reserved_and_punched_direct_files() {
    let Ok(f) = open(c"f", O_RDWR | O_CREAT | O_DIRECT, 0o644) else {
        skip("direct transfers are refused here");
    };
    let mut memory = vec![0; 12_288];
    let data = page_aligned(&mut memory);
    data.fill(7);
    fallocate(f.0, FALLOC_FL_KEEP_SIZE, 0, 65_536).unwrap();
    assert_eq!(fstat(f.0).unwrap().st_size, 0);
    assert!(fstat(f.0).unwrap().st_blocks >= 128);
    assert_eq!(pwrite(f.0, data, 32_768), Ok(8192));
    fallocate(
        f.0,
        FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
        32_768,
        4096,
    )
    .unwrap();
    assert_eq!(lseek(f.0, 0, SEEK_DATA), Ok(36_864));
    assert_eq!(lseek(f.0, 36_864, SEEK_HOLE), Ok(40_960));
    let mut expected = vec![0; 40_960];
    expected[36_864..].fill(7);
    holds(c"f", &expected);
}

fn directories_are_synced() {
    mkdir(c"d", 0o755).unwrap();
    file(c"d/f", b"");
    let d = open(c"d", O_RDONLY | O_DIRECTORY, 0).unwrap();
    with_fd(fsync, d.0).unwrap();
    with_fd(fdatasync, d.0).unwrap();
    with_fd(syncfs, d.0).unwrap();
    unlink(c"d/f").unwrap();
    with_fd(fsync, d.0).unwrap();
}

fn large_marks_of_directories() {
    needs_root();
    mkdir(c"d", 0o755).unwrap();
    for round in 0..20 {
        for (mark, bytes) in [
            (c"trusted.layout", 16),
            (c"trusted.dirty", 12),
            (c"trusted.list", 3_000),
        ] {
            set_xattr(c"d", mark, &pattern(round, bytes), 0).unwrap();
        }
        file(&name(format!("d/{round}")), b"");
    }
    assert_same(
        &get_xattr(c"d", c"trusted.list", 3_000).unwrap().1,
        &pattern(19, 3_000),
    );
    assert_same(
        &get_xattr(c"d", c"trusted.layout", 16).unwrap().1,
        &pattern(19, 16),
    );
    assert_eq!(std::fs::read_dir("d").unwrap().count(), 20);
}
