//! `lseek`, `truncate`, `ftruncate`, `fallocate`.

use super::words::*;
use crate::call;

cases!("size":
    seeks_from_start_here_and_end, seeks_that_make_no_sense, data_and_holes_are_found,
    data_and_holes_far_out, the_end_is_a_hole, truncation_cuts_and_grows, what_was_cut_off_stays_away,
    truncation_refusals, truncation_moves_times, allocation_grows_or_keeps, allocated_space_counts,
    holes_are_punched, ranges_are_zeroed, allocation_refusals, allocation_moves_times,
    ranges_collapse_and_make_room, allocation_of_other_kinds, posix_fallocate_answers_errors,
    all_that_is_free_can_be_allocated, space_of_ended_processes_is_free_at_once,
);

const KEEP: i32 = FALLOC_FL_KEEP_SIZE;
const PUNCH: i32 = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

fn seeks_from_start_here_and_end() {
    let f = make(c"f");
    put(f.0, b"0123456789");
    for (offset, whence, expected) in [
        (3, SEEK_SET, 3),
        (4, SEEK_CUR, 7),
        (-7, SEEK_CUR, 0),
        (-2, SEEK_END, 8),
        (0, SEEK_END, 10),
        (1 << 33, SEEK_END, (1 << 33) + 10),
        (i64::MAX, SEEK_SET, i64::MAX),
    ] {
        assert_eq!(lseek(f.0, offset, whence), Ok(expected));
        assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(expected));
    }
    assert_eq!(fstat(f.0).unwrap().st_size, 10);
}

fn seeks_that_make_no_sense() {
    let f = make(c"f");
    put(f.0, b"0123456789");
    for (offset, whence) in [
        (-1, SEEK_SET),
        (-11, SEEK_CUR),
        (-11, SEEK_END),
        (0, 99),
        (0, -1),
        (i64::MIN, SEEK_SET),
    ] {
        fails(EINVAL, lseek(f.0, offset, whence));
    }
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(10));
    mkdir(c"d", 0o755).unwrap();
    let d = open(c"d", O_RDONLY, 0).unwrap();
    fails(EINVAL, lseek(d.0, -1, SEEK_SET));
}

fn data_and_holes_are_found() {
    let f = make(c"f");
    // Far enough apart for blocks of 64 KiB.
    let step = 1 << 20;
    ftruncate(f.0, 4 * step).unwrap();
    pwrite(f.0, b"one", step).unwrap();
    pwrite(f.0, b"two", 3 * step).unwrap();
    let data = |at| lseek(f.0, at, SEEK_DATA);
    let hole = |at| lseek(f.0, at, SEEK_HOLE);
    assert_eq!(
        (data(0), data(step), data(step + 1)),
        (Ok(step), Ok(step), Ok(step + 1))
    );
    assert_eq!(hole(0), Ok(0));
    let end = hole(step).unwrap();
    assert!(end > step && end <= 2 * step);
    assert_eq!(data(end), Ok(3 * step));
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(3 * step));
    let last = hole(3 * step).unwrap();
    fails(ENXIO, data(last));
    fallocate(f.0, PUNCH, step, step).unwrap();
    assert_eq!(data(0), Ok(3 * step));
}

fn data_and_holes_far_out() {
    let f = make(c"f");
    for edge in [1i64 << 31, 1 << 32, 1 << 42] {
        pwrite(f.0, &[1; 1 << 16], edge).unwrap();
        assert_eq!(lseek(f.0, edge - (1 << 20), SEEK_DATA), Ok(edge));
        assert_eq!(lseek(f.0, edge, SEEK_HOLE), Ok(edge + (1 << 16)));
    }
}

fn the_end_is_a_hole() {
    let f = make(c"f");
    put(f.0, &[1; 10_000]);
    assert_eq!(lseek(f.0, 0, SEEK_DATA), Ok(0));
    assert_eq!(lseek(f.0, 9_999, SEEK_DATA), Ok(9_999));
    assert_eq!(lseek(f.0, 0, SEEK_HOLE), Ok(10_000));
    for whence in [SEEK_DATA, SEEK_HOLE] {
        fails(ENXIO, lseek(f.0, 10_000, whence));
        fails(ENXIO, lseek(f.0, 1 << 40, whence));
        fails(ENXIO, lseek(f.0, -1, whence));
    }
    let empty = make(c"empty");
    fails(ENXIO, lseek(empty.0, 0, SEEK_DATA));
    fails(ENXIO, lseek(empty.0, 0, SEEK_HOLE));
}

fn truncation_cuts_and_grows() {
    let f = make(c"f");
    let data = pattern(1, 10_000);
    put(f.0, &data);
    for bytes in [9_999, 8_192, 4_097, 100, 0, 5, 4_096, 70_000, 3] {
        match bytes % 2 {
            0 => truncate(c"f", bytes).unwrap(),
            _ => ftruncate(f.0, bytes).unwrap(),
        }
        assert_eq!(fstat(f.0).unwrap().st_size, bytes);
        assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(10_000));
    }
    pwrite(f.0, &data, 0).unwrap();
    ftruncate(f.0, 5_000).unwrap();
    ftruncate(f.0, 10_000).unwrap();
    holds(c"f", &[&data[..5_000], &[0; 5_000]].concat());
}

/// Whatever the cut and the way the file grows again: zeros.
fn what_was_cut_off_stays_away() {
    let f = make(c"f");
    for cut in [1, 4_095, 4_096, 4_097, 6_000] {
        let ways: [&dyn Fn(); 4] = [
            &|| ftruncate(f.0, 20_000).unwrap(),
            &|| assert_eq!(pwrite(f.0, &[0], 19_999), Ok(1)),
            &|| fallocate(f.0, 0, 0, 20_000).unwrap(),
            &|| {
                fallocate(f.0, KEEP, 0, 30_000).unwrap();
                ftruncate(f.0, 20_000).unwrap();
            },
        ];
        for grow in ways {
            pwrite(f.0, &[b'x'; 20_000], 0).unwrap();
            ftruncate(f.0, cut).unwrap();
            grow();
            let all = content(f.0);
            assert_eq!(all.len(), 20_000);
            assert!(
                all[cut as usize..].iter().all(|&byte| byte == 0),
                "cut at {cut}"
            );
        }
    }
}

fn truncation_refusals() {
    file(c"f", b"data");
    mkdir(c"d", 0o755).unwrap();
    mknod(c"fifo", S_IFIFO | 0o644, 0).unwrap();
    fails(ENOENT, truncate(c"none", 0));
    fails(ENOENT, truncate(c"", 0));
    fails(ENOTDIR, truncate(c"f/g", 0));
    fails(EISDIR, truncate(c"d", 0));
    fails(EINVAL, truncate(c"fifo", 0));
    fails(EINVAL, truncate(c"f", -1));
    let f = open(c"f", O_RDWR, 0).unwrap();
    fails(EINVAL, ftruncate(f.0, -1));
    fails(EINVAL, ftruncate(open(c"f", O_RDONLY, 0).unwrap().0, 0));
    holds(c"f", b"data");
    let sleeping = super::programs::Running::begin(c"p");
    fails(ETXTBSY, truncate(c"p", 0));
    fails(ETXTBSY, open(c"p", O_WRONLY, 0));
    drop(sleeping);
    truncate(c"p", 0).unwrap();
}

fn truncation_moves_times() {
    let f = make(c"f");
    put(f.0, b"data");
    changes(&[(c"f", "mc")], || ftruncate(f.0, 2).unwrap());
    changes(&[(c"f", "mc")], || ftruncate(f.0, 9).unwrap());
    changes(&[(c"f", "mc")], || ftruncate(f.0, 9).unwrap());
    changes(&[(c"f", "mc")], || truncate(c"f", 3).unwrap());
    changes(&[(c"f", "")], || fails(EINVAL, ftruncate(f.0, -1)));
    changes(&[(c"f", "mc")], || truncate(c"f", 7).unwrap());
}

fn allocation_grows_or_keeps() {
    let f = make(c"f");
    put(f.0, b"data");
    fallocate(f.0, KEEP, 0, 100_000).unwrap();
    assert_eq!(fstat(f.0).unwrap().st_size, 4);
    holds(c"f", b"data");
    fallocate(f.0, 0, 2, 9_998).unwrap();
    assert_eq!(fstat(f.0).unwrap().st_size, 10_000);
    fallocate(f.0, 0, 0, 5).unwrap();
    holds(c"f", &[&b"data"[..], &[0; 9_996]].concat());
    fallocate(f.0, 0, 1 << 32, 5).unwrap();
    assert_eq!(fstat(f.0).unwrap().st_size, (1 << 32) + 5);
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(4));
}

fn allocated_space_counts() {
    let f = make(c"f");
    let blocks = || fstat(f.0).unwrap().st_blocks * 512;
    fallocate(f.0, KEEP, 0, 1 << 20).unwrap();
    assert!(blocks() >= 1 << 20);
    fallocate(f.0, PUNCH, 0, 1 << 19).unwrap();
    assert!(blocks() <= (1 << 19) + (1 << 16));
    ftruncate(f.0, 10).unwrap();
    ftruncate(f.0, 0).unwrap();
    assert!(blocks() <= 1 << 16);
}

fn holes_are_punched() {
    let f = make(c"f");
    let data = pattern(2, 50_000);
    for (at, bytes) in [
        (0, 1),
        (4_095, 2),
        (5_000, 10),
        (4_096, 4_096),
        (10_000, 20_000),
        (49_000, 9_000),
        (60_000, 10),
    ] {
        pwrite(f.0, &data, 0).unwrap();
        fallocate(f.0, PUNCH, at, bytes).unwrap();
        let (at, end) = (at as usize, 50_000.min((at + bytes) as usize));
        let mut expected = data.clone();
        expected[at.min(end)..end].fill(0);
        assert_same(&content(f.0), &expected);
    }
}

fn ranges_are_zeroed() {
    let f = make(c"f");
    let data = pattern(4, 20_000);
    put(f.0, &data);
    match fallocate(f.0, FALLOC_FL_ZERO_RANGE | KEEP, 19_000, 9_000) {
        Err(Errno(EOPNOTSUPP)) => skip("no FALLOC_FL_ZERO_RANGE here"),
        answer => answer.unwrap(),
    }
    assert_same(&content(f.0), &[&data[..19_000], &[0; 1_000]].concat());
    fallocate(f.0, FALLOC_FL_ZERO_RANGE, 4_000, 10_000).unwrap();
    assert_same(
        &content(f.0)[3_999..14_001],
        &[&data[3_999..4_000], &[0; 10_000], &data[14_000..14_001]].concat(),
    );
    fallocate(f.0, FALLOC_FL_ZERO_RANGE, 19_000, 11_000).unwrap();
    assert_eq!(fstat(f.0).unwrap().st_size, 30_000);
}

fn allocation_refusals() {
    let f = make(c"f");
    put(f.0, b"data");
    for mode in [0, KEEP, PUNCH] {
        for (at, bytes) in [(-1, 10), (0, 0), (0, -1), (-10, -10)] {
            fails(EINVAL, fallocate(f.0, mode, at, bytes));
        }
        fails(EFBIG, fallocate(f.0, mode, i64::MAX - 5, 10));
        fails(
            EBADF,
            fallocate(open(c"f", O_RDONLY, 0).unwrap().0, mode, 0, 1),
        );
    }
    fails(EOPNOTSUPP, fallocate(f.0, FALLOC_FL_PUNCH_HOLE, 0, 10));
    fails(EOPNOTSUPP, fallocate(f.0, 1 << 20, 0, 10));
    holds(c"f", b"data");
}

fn allocation_moves_times() {
    let f = make(c"f");
    put(f.0, &[1; 10_000]);
    // Linux leaves it to file systems which times move when bytes stay; the content's must when they do not.
    let moved = |mode, at, bytes| {
        let before = times(&fstat(f.0).unwrap());
        tick();
        fallocate(f.0, mode, at, bytes).unwrap();
        let after = times(&fstat(f.0).unwrap());
        assert!(after[2] > before[2], "mode {mode}");
        after[1] > before[1]
    };
    assert!(moved(PUNCH, 0, 4_096));
    moved(0, 0, 20_000);
}

fn ranges_collapse_and_make_room() {
    let f = make(c"f");
    put(f.0, &[[1; 65_536], [2; 65_536], [3; 65_536]].concat());
    match fallocate(f.0, FALLOC_FL_COLLAPSE_RANGE, 65_536, 65_536) {
        Err(Errno(EOPNOTSUPP)) => skip("no FALLOC_FL_COLLAPSE_RANGE here"),
        answer => answer.unwrap(),
    }
    holds(c"f", &[[1; 65_536], [3; 65_536]].concat());
    fallocate(f.0, FALLOC_FL_INSERT_RANGE, 65_536, 65_536).unwrap();
    holds(c"f", &[[1; 65_536], [0; 65_536], [3; 65_536]].concat());
}

fn allocation_of_other_kinds() {
    mkdir(c"d", 0o755).unwrap();
    let d = open(c"d", O_RDONLY, 0).unwrap();
    fails(EBADF, fallocate(d.0, 0, 0, 10));
    mknod(c"fifo", S_IFIFO | 0o644, 0).unwrap();
    let fifo = open(c"fifo", O_RDWR, 0).unwrap();
    fails(ESPIPE, fallocate(fifo.0, 0, 0, 10));
}

fn posix_fallocate_answers_errors() {
    let f = make(c"f");
    let allocate = |at, bytes| call::posix_fallocate(f.0, at, bytes);
    assert_eq!(allocate(10, 90), 0);
    assert_eq!(fstat(f.0).unwrap().st_size, 100);
    assert_eq!(allocate(0, 10), 0);
    assert_eq!(fstat(f.0).unwrap().st_size, 100);
    assert_eq!((allocate(0, 0), allocate(-1, 5)), (EINVAL, EINVAL));
}

/// Only where that is little: it takes the memory or the disk of everybody.
fn all_that_is_free_can_be_allocated() {
    let f = make(c"f");
    // Free for the next case, however this one ends.
    unlink(c"f").unwrap();
    let free = || {
        let facts = statfs(c".").unwrap();
        facts.f_bavail as i64 * facts.f_bsize
    };
    let bytes = free();
    if bytes > 1 << 30 {
        skip("needs a file system with less than 1 GiB free");
    }
    fallocate(f.0, 0, 0, bytes).unwrap();
    assert_eq!(fstat(f.0).unwrap().st_size, bytes);
    ftruncate(f.0, 0).unwrap();
    // It is free again, but for what the file system notes about it.
    assert!(free() > bytes / 10 * 9, "{} of {bytes} free", free());
}

/// Fill most of the file system and end with the file open; its name goes, and the next does the same.
fn space_of_ended_processes_is_free_at_once() {
    const ROUNDS: usize = 10;
    let facts = statfs(c".").unwrap();
    let bytes = facts.f_bavail as i64 * facts.f_bsize / 10 * 8;
    if bytes > 1 << 30 {
        skip("needs a file system with less than 1 GiB free");
    }
    let allocate = |f: i32| fallocate(f, 0, 0, bytes).unwrap();
    let fill = |f: i32| {
        let data = vec![7; 1 << 20];
        for _ in 0..bytes >> 20 {
            assert_eq!(write(f, &data), Ok(data.len()));
        }
    };
    let ways: [(&str, &dyn Fn(i32)); 2] = [("fallocate", &allocate), ("write", &fill)];
    for (way, take) in ways {
        for round in 0..ROUNDS {
            let taken = Child::begin(|| {
                let f = make(c"f");
                take(f.0);
                std::mem::forget(f);
            });
            let ending = taken.ending(std::time::Duration::from_secs(20));
            unlink(c"f").unwrap();
            let expected = crate::process::Ending::Well;
            assert_eq!(ending, expected, "{way}, round {round}");
        }
    }
}
