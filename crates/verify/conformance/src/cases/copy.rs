//! `copy_file_range`, `sendfile`, `splice`: data that moves inside the kernel.

use super::words::*;
use crate::call;
use std::ffi::CString;

cases!("copy":
    ranges_are_copied, copies_move_positions, copies_end_at_the_end, copies_beyond_the_end_make_gaps,
    copies_that_make_no_sense, copies_move_times, copies_to_other_file_systems, sendfile_to_files_and_pipes,
    sendfile_refusals, splice_to_and_from_pipes, splice_refusals, counts_that_overflow,
    bad_offsets_are_efault, sendfile_moves_all_at_once,
);

/// A directory on another file system that can be written, made for this case; removed when dropped.
pub(super) struct Elsewhere(pub CString);

impl Elsewhere {
    pub(super) fn find() -> Elsewhere {
        let here = stat(c".").unwrap().st_dev;
        for root in ["/dev/shm", "/tmp", "/var/tmp"] {
            let path = name(format!("{root}/conformance-{}", std::process::id()));
            let differs = stat(&name(root)).is_ok_and(|facts| facts.st_dev != here);
            if differs && mkdir(&path, 0o755).is_ok() {
                return Elsewhere(path);
            }
        }
        skip("needs another file system that can be written")
    }

    pub(super) fn path(&self, name: &str) -> CString {
        super::super::check::name([self.0.to_bytes(), b"/", name.as_bytes()].concat())
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.to_str().expect("a plain path"));
    }
}

fn copy(from: (i32, i64), to: (i32, i64), bytes: usize) -> Answer {
    let (mut from_at, mut to_at) = (from.1, to.1);
    let copied = copy_file_range(
        (from.0, Some(&mut from_at)),
        (to.0, Some(&mut to_at)),
        bytes,
        0,
    )?;
    assert_eq!((from_at, to_at), (from.1 + copied, to.1 + copied));
    Ok(copied)
}

fn ranges_are_copied() {
    let (from, to) = (make(c"from"), make(c"to"));
    let data = pattern(1, 300_000);
    put(from.0, &data);
    for (source, target, bytes) in [
        (0, 0, 300_000),
        (5, 4_096, 10_000),
        (4_096, 3, 8_192),
        (299_990, 7, 10),
    ] {
        ftruncate(to.0, 0).unwrap();
        assert_eq!(
            copy((from.0, source), (to.0, target), bytes),
            Ok(bytes as i64)
        );
        let start = source as usize;
        let expected = [&vec![0; target as usize], &data[start..start + bytes]].concat();
        assert_same(&content(to.0), &expected);
    }
    assert_eq!(lseek(from.0, 0, SEEK_CUR), Ok(300_000));
    // Inside one file, where nothing overlaps.
    assert_eq!(copy((from.0, 0), (from.0, 100_000), 50_000), Ok(50_000));
    let expected = [&data[..100_000], &data[..50_000], &data[150_000..]].concat();
    assert_same(&content(from.0), &expected);
}

fn copies_move_positions() {
    let (from, to) = (make(c"from"), make(c"to"));
    put(from.0, b"0123456789");
    lseek(from.0, 2, SEEK_SET).unwrap();
    put(to.0, b"<");
    assert_eq!(copy_file_range((from.0, None), (to.0, None), 5, 0), Ok(5));
    assert_eq!(lseek(from.0, 0, SEEK_CUR), Ok(7));
    put(to.0, b">");
    holds(c"to", b"<23456>");
    let mut at = 0;
    assert_eq!(
        copy_file_range((from.0, Some(&mut at)), (to.0, None), 2, 0),
        Ok(2)
    );
    assert_eq!((at, lseek(from.0, 0, SEEK_CUR)), (2, Ok(7)));
    holds(c"to", b"<23456>01");
}

fn copies_end_at_the_end() {
    let (from, to) = (make(c"from"), make(c"to"));
    put(from.0, b"0123456789");
    assert_eq!(copy((from.0, 6), (to.0, 0), 100), Ok(4));
    assert_eq!(copy((from.0, 10), (to.0, 0), 100), Ok(0));
    assert_eq!(copy((from.0, 1 << 40), (to.0, 0), 100), Ok(0));
    assert_eq!(copy((from.0, 0), (to.0, 0), 0), Ok(0));
    holds(c"to", b"6789");
}

fn copies_beyond_the_end_make_gaps() {
    let (from, to) = (make(c"from"), make(c"to"));
    put(from.0, b"data");
    assert_eq!(copy((from.0, 0), (to.0, 1 << 32), 4), Ok(4));
    assert_eq!(fstat(to.0).unwrap().st_size, (1 << 32) + 4);
    let mut room = [1; 8];
    assert_eq!(pread(to.0, &mut room, (1 << 32) - 4), Ok(8));
    assert_same(&room, b"\0\0\0\0data");
}

fn copies_that_make_no_sense() {
    let (from, to) = (make(c"from"), make(c"to"));
    put(from.0, &[1; 10_000]);
    fails(EINVAL, copy((from.0, 0), (from.0, 5_000), 5_001));
    fails(
        EINVAL,
        copy_file_range((from.0, None), (to.0, None), 5, 1 << 5),
    );
    fails(
        EBADF,
        copy((from.0, 0), (open(c"to", O_RDONLY, 0).unwrap().0, 0), 5),
    );
    fails(
        EBADF,
        copy((open(c"from", O_WRONLY, 0).unwrap().0, 0), (to.0, 0), 5),
    );
    fails(
        EBADF,
        copy(
            (from.0, 0),
            (open(c"to", O_WRONLY | O_APPEND, 0).unwrap().0, 0),
            5,
        ),
    );
    fails(EBADF, copy((-1, 0), (to.0, 0), 5));
    let directory = open(c".", O_RDONLY, 0).unwrap();
    fails(EISDIR, copy((directory.0, 0), (to.0, 0), 5));
    let (reader, _writer) = pipe().unwrap();
    fails(
        EINVAL,
        copy_file_range((reader.0, None), (to.0, None), 5, 0),
    );
    assert_eq!(fstat(to.0).unwrap().st_size, 0);
}

fn copies_move_times() {
    let (from, to) = (make(c"from"), make(c"to"));
    put(from.0, b"data");
    changes(&[(c"to", "mc"), (c"from", "")], || {
        copy((from.0, 0), (to.0, 0), 4).unwrap()
    });
}

fn copies_to_other_file_systems() {
    let elsewhere = Elsewhere::find();
    let (from, to) = (make(c"from"), make(&elsewhere.path("to")));
    put(from.0, b"data");
    // Either is allowed: programs copy by themselves then.
    match copy((from.0, 0), (to.0, 0), 4) {
        Err(Errno(EXDEV)) => assert_eq!(fstat(to.0).unwrap().st_size, 0),
        answer => {
            assert_eq!(answer, Ok(4));
            assert_same(&content(to.0), b"data");
        }
    }
    let data = pattern(7, 100_000);
    let plain = "plain";
    std::fs::write(plain, &data).unwrap();
    let target = elsewhere.path("copied");
    let path = target.to_str().expect("a plain path");
    assert_eq!(std::fs::copy(plain, path).unwrap(), 100_000);
    assert_eq!(std::fs::copy(path, "back").unwrap(), 100_000);
    holds(c"back", &data);
}

fn sendfile_to_files_and_pipes() {
    let (from, to) = (make(c"from"), make(c"to"));
    let data = pattern(3, 200_000);
    put(from.0, &data);
    let mut at = 1_000;
    let mut left = 150_000;
    while left > 0 {
        left -= sendfile(to.0, from.0, Some(&mut at), left).unwrap() as usize;
    }
    assert_eq!((at, lseek(from.0, 0, SEEK_CUR)), (151_000, Ok(200_000)));
    assert_same(&content(to.0), &data[1_000..151_000]);
    lseek(from.0, 199_000, SEEK_SET).unwrap();
    let (reader, writer) = pipe().unwrap();
    assert_eq!(sendfile(writer.0, from.0, None, 5_000), Ok(1_000));
    assert_eq!(lseek(from.0, 0, SEEK_CUR), Ok(200_000));
    assert_eq!(sendfile(writer.0, from.0, None, 5_000), Ok(0));
    let mut room = vec![0; 2_000];
    assert_eq!(read(reader.0, &mut room), Ok(1_000));
    assert_same(&room[..1_000], &data[199_000..]);
    // What was written in the meantime is sent, not what was there.
    pwrite(from.0, b"fresh", 0).unwrap();
    assert_eq!(sendfile(writer.0, from.0, Some(&mut 0), 5), Ok(5));
    assert_eq!(read(reader.0, &mut room), Ok(5));
    assert_same(&room[..5], b"fresh");
}

/// One call, however much: only what is larger than 2 GiB is cut.
fn sendfile_moves_all_at_once() {
    const BYTES: usize = 80 << 20;
    let from = make(c"from");
    ftruncate(from.0, BYTES as i64).unwrap();
    pwrite(from.0, b"end", BYTES as i64 - 3).unwrap();
    let memory = call::memfd_create(c"memory").unwrap();
    let to = make(c"to");
    // Free for the next case, however this one ends.
    unlink(c"to").unwrap();
    for (what, to) in [("memory", &memory), ("a file", &to)] {
        let moved = sendfile(to.0, from.0, Some(&mut 0), BYTES);
        assert_eq!(moved, Ok(BYTES as i64), "to {what}");
        let mut last = [0; 5];
        assert_eq!(pread(to.0, &mut last, BYTES as i64 - 5), Ok(5));
        assert_same(&last, b"\0\0end");
    }
}

fn sendfile_refusals() {
    let (from, to) = (make(c"from"), make(c"to"));
    put(from.0, b"data");
    fails(
        EBADF,
        sendfile(open(c"to", O_RDONLY, 0).unwrap().0, from.0, None, 4),
    );
    fails(
        EBADF,
        sendfile(to.0, open(c"from", O_WRONLY, 0).unwrap().0, None, 4),
    );
    fails(EBADF, sendfile(to.0, -1, None, 4));
    fails(EINVAL, sendfile(to.0, from.0, Some(&mut -1), 4));
    let (reader, _writer) = pipe().unwrap();
    fails(ESPIPE, sendfile(to.0, reader.0, Some(&mut 0), 4));
    assert_eq!(fstat(to.0).unwrap().st_size, 0);
}

fn splice_to_and_from_pipes() {
    let (from, to) = (make(c"from"), make(c"to"));
    let data = pattern(5, 50_000);
    put(from.0, &data);
    let (reader, writer) = pipe().unwrap();
    let (mut from_at, mut to_at) = (100, 7);
    let mut moved = 0;
    while moved < 40_000 {
        let here = splice(
            (from.0, Some(&mut from_at)),
            (writer.0, None),
            16_384.min(40_000 - moved),
        )
        .unwrap();
        let mut left = here;
        while left > 0 {
            left -= splice((reader.0, None), (to.0, Some(&mut to_at)), left as usize).unwrap();
        }
        moved += here as usize;
    }
    assert_eq!((from_at, to_at), (40_100, 40_007));
    assert_same(&content(to.0), &[&[0; 7], &data[100..40_100]].concat());
    lseek(from.0, 49_990, SEEK_SET).unwrap();
    assert_eq!(splice((from.0, None), (writer.0, None), 100), Ok(10));
    assert_eq!(lseek(from.0, 0, SEEK_CUR), Ok(50_000));
    lseek(to.0, 0, SEEK_SET).unwrap();
    assert_eq!(splice((reader.0, None), (to.0, None), 100), Ok(10));
    assert_eq!(lseek(to.0, 0, SEEK_CUR), Ok(10));
    assert_same(&content(to.0)[..10], &data[49_990..]);
}

fn splice_refusals() {
    let (from, to) = (make(c"from"), make(c"to"));
    put(from.0, b"data");
    let (reader, writer) = pipe().unwrap();
    put(writer.0, b"words");
    fails(EINVAL, splice((from.0, None), (to.0, None), 4));
    fails(ESPIPE, splice((from.0, None), (writer.0, Some(&mut 0)), 4));
    fails(ESPIPE, splice((reader.0, Some(&mut 0)), (to.0, None), 4));
    fails(
        EBADF,
        splice(
            (reader.0, None),
            (open(c"to", O_RDONLY, 0).unwrap().0, None),
            4,
        ),
    );
    fails(EBADF, splice((reader.0, None), (-1, None), 4));
    fails(
        EINVAL,
        splice(
            (reader.0, None),
            (open(c"to", O_WRONLY | O_APPEND, 0).unwrap().0, None),
            4,
        ),
    );
    assert_eq!(fstat(to.0).unwrap().st_size, 0);
}

fn counts_that_overflow() {
    let (from, to) = (make(c"from"), make(c"to"));
    put(from.0, b"data");
    assert_eq!(copy((from.0, 0), (to.0, 0), 1 << 40), Ok(4));
    assert_eq!(sendfile(to.0, from.0, Some(&mut 0), 1 << 40), Ok(4));
    assert_eq!(copy((from.0, 1), (to.0, 0), i64::MAX as usize), Ok(3));
    fails(EOVERFLOW, copy((from.0, 1), (to.0, 0), usize::MAX));
    fails(EINVAL, copy((from.0, -10), (to.0, 0), 4));
    fails(EINVAL, sendfile(to.0, from.0, Some(&mut 0), usize::MAX));
}

fn bad_offsets_are_efault() {
    let (from, to) = (make(c"from"), make(c"to"));
    put(from.0, &[1; 100]);
    // The first read makes libraries know the file.
    assert_eq!(pread(from.0, &mut [0; 4], 0), Ok(4));
    assert_eq!(pwrite(to.0, b"x", 0), Ok(1));
    let nowhere = std::ptr::without_provenance_mut(8);
    let none = std::ptr::null_mut();
    // SAFETY: the kernel, or the library, answers for bad addresses: that is what is tested.
    unsafe {
        for (from_at, to_at) in [(nowhere, none), (none, nowhere)] {
            lseek(from.0, 0, SEEK_SET).unwrap();
            assert_eq!(
                libc::copy_file_range(from.0, from_at, to.0, to_at, 4, 0),
                -1
            );
            assert_eq!(errno(), Errno(EFAULT));
        }
        assert_eq!(libc::sendfile(to.0, from.0, nowhere, 4), -1);
        assert_eq!(errno(), Errno(EFAULT));
        assert_eq!(libc::fcntl(from.0, F_SETLK, nowhere), -1);
        assert_eq!(errno(), Errno(EFAULT));
        assert_eq!(libc::fcntl(from.0, F_OFD_GETLK, nowhere), -1);
        assert_eq!(errno(), Errno(EFAULT));
        assert_eq!(libc::ioctl(from.0, FIONREAD, nowhere), -1);
        assert_eq!(errno(), Errno(EFAULT));
        assert_eq!(libc::preadv(from.0, nowhere.cast(), 1, 0), -1);
        assert_eq!(errno(), Errno(EFAULT));
        assert_eq!(libc::pwritev(to.0, nowhere.cast(), 1, 0), -1);
        assert_eq!(errno(), Errno(EFAULT));
    }
    assert_eq!(content(from.0), [1; 100]);
}
