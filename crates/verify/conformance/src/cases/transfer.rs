//! `read`, `write` and their forms with offsets, vectors and flags.

use super::words::*;
use egeria_stats::rng::Rng;
use std::ptr;

cases!("transfer":
    what_is_written_is_read, reads_end_at_the_end, offsets_leave_the_position, negative_offsets_are_einval,
    appends_land_at_the_end, pwrite_appends_on_append_descriptors, vectors_keep_their_order,
    vectors_that_make_no_sense, vectors_with_flags, bad_buffers_are_efault, bad_descriptors_are_ebadf,
    gaps_read_as_zeros, large_writes_arrive_whole, nothing_written_changes_nothing, many_processes_append,
    forked_writers_share_the_position, random_operations_match_a_model, a_writer_is_seen_by_all,
    pipes_have_no_offsets,
);

fn what_is_written_is_read() {
    let f = make(c"f");
    for bytes in [1, 7, 63, 64, 4095, 4096, 4097, 100_000] {
        let data = pattern(bytes as u8, bytes);
        assert_eq!(lseek(f.0, 0, SEEK_SET), Ok(0));
        put(f.0, &data);
        assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(bytes as i64));
        ftruncate(f.0, bytes as i64).unwrap();
        assert_eq!(lseek(f.0, 0, SEEK_SET), Ok(0));
        let mut found = vec![0; bytes];
        assert_eq!(read(f.0, &mut found), Ok(bytes));
        assert_same(&found, &data);
        holds(c"f", &data);
    }
}

fn reads_end_at_the_end() {
    let f = make(c"f");
    put(f.0, b"0123456789");
    let mut room = [b'-'; 8];
    assert_eq!(pread(f.0, &mut room, 6), Ok(4));
    assert_same(&room, b"6789----");
    assert_eq!(pread(f.0, &mut room, 10), Ok(0));
    assert_eq!(pread(f.0, &mut room, 1 << 40), Ok(0));
    assert_eq!(read(f.0, &mut room), Ok(0));
    lseek(f.0, 1000, SEEK_SET).unwrap();
    assert_eq!(read(f.0, &mut room), Ok(0));
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(1000));
    assert_eq!(pread(f.0, &mut [], 0), Ok(0));
    assert_same(&room, b"6789----");
}

fn offsets_leave_the_position() {
    let f = make(c"f");
    put(f.0, b"0123456789");
    lseek(f.0, 3, SEEK_SET).unwrap();
    let mut room = [0; 2];
    pread(f.0, &mut room, 7).unwrap();
    pwrite(f.0, b"xx", 5).unwrap();
    preadv(f.0, &mut [&mut room], 1).unwrap();
    pwritev(f.0, &[b"y"], 9).unwrap();
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(3));
    assert_eq!(read(f.0, &mut room), Ok(2));
    assert_same(&room, b"34");
    holds(c"f", b"01234xx78y");
}

fn negative_offsets_are_einval() {
    let f = make(c"f");
    for at in [-1, -4096, i64::MIN] {
        fails(EINVAL, pread(f.0, &mut [0; 4], at));
        fails(EINVAL, pwrite(f.0, b"x", at));
        fails(EINVAL, preadv(f.0, &mut [&mut [0; 4]], at));
        fails(EINVAL, pwritev(f.0, &[b"x"], at));
    }
    fails(EINVAL, preadv2(f.0, &mut [&mut [0; 4]], -2, 0));
    fails(EINVAL, pwritev2(f.0, &[b"x"], -2, 0));
}

fn appends_land_at_the_end() {
    let append = open(c"f", O_CREAT | O_RDWR | O_APPEND, 0o644).unwrap();
    let other = open(c"f", O_WRONLY, 0).unwrap();
    put(append.0, b"one ");
    assert_eq!(lseek(append.0, 0, SEEK_CUR), Ok(4));
    pwrite(other.0, b"two ", 4).unwrap();
    lseek(append.0, 0, SEEK_SET).unwrap();
    put(append.0, b"three ");
    assert_eq!(lseek(append.0, 0, SEEK_CUR), Ok(14));
    ftruncate(other.0, 4).unwrap();
    assert_eq!(writev(append.0, &[b"fo", b"ur"]), Ok(4));
    fcntl(append.0, F_SETFL, 0).unwrap();
    lseek(append.0, 0, SEEK_SET).unwrap();
    put(append.0, b"ONE");
    fcntl(other.0, F_SETFL, O_APPEND).unwrap();
    put(other.0, b" end");
    holds(c"f", b"ONE four end");
}

fn pwrite_appends_on_append_descriptors() {
    let append = open(c"f", O_CREAT | O_RDWR | O_APPEND, 0o644).unwrap();
    put(append.0, b"first ");
    assert_eq!(pwrite(append.0, b"second", 0), Ok(6));
    assert_eq!(pwritev(append.0, &[b" ", b"third"], 2), Ok(6));
    holds(c"f", b"first second third");
    assert_eq!(lseek(append.0, 0, SEEK_CUR), Ok(6));
}

fn vectors_keep_their_order() {
    let f = make(c"f");
    let large = pattern(3, 10_000);
    assert_eq!(writev(f.0, &[b"a", b"", b"bc", &large, b"d"]), Ok(10_004));
    lseek(f.0, 0, SEEK_SET).unwrap();
    let (mut head, mut none, mut middle, mut tail) = ([0; 3], [], vec![0; 10_000], [0; 8]);
    let parts: &mut [&mut [u8]] = &mut [&mut head, &mut none, &mut middle, &mut tail];
    assert_eq!(readv(f.0, parts), Ok(10_004));
    assert_same(&head, b"abc");
    assert_same(&middle, &large);
    assert_same(&tail, b"d\0\0\0\0\0\0\0");
    let one: Vec<&[u8]> = vec![b"x"; 1024];
    assert_eq!(pwritev(f.0, &one, 0), Ok(1024));
    assert_same(
        &content(f.0)[..1025],
        &[&[b'x'; 1024], &large[1021..1022]].concat(),
    );
    assert_eq!(writev(f.0, &[]), Ok(0));
}

fn vectors_that_make_no_sense() {
    let f = make(c"f");
    put(f.0, b"kept");
    let part = |iov_len| iovec {
        iov_base: ptr::null_mut(),
        iov_len,
    };
    let many = [part(0); 1025];
    let excessive = [part(isize::MAX as usize + 1)];
    for writes in [false, true] {
        fails(EINVAL, vector_raw(writes, f.0, &many, 1025));
        fails(EINVAL, vector_raw(writes, f.0, &many, -1));
        fails(EINVAL, vector_raw(writes, f.0, &excessive, 1));
        assert_eq!(vector_raw(writes, f.0, &many, 1024), Ok(0));
        fails(EBADF, vector_raw(writes, -1, &many, 1));
    }
    holds(c"f", b"kept");
}

fn vectors_with_flags() {
    let f = make(c"f");
    assert_eq!(pwritev2(f.0, &[b"0123", b"4567"], -1, 0), Ok(8));
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(8));
    lseek(f.0, 2, SEEK_SET).unwrap();
    let mut room = [0; 4];
    assert_eq!(preadv2(f.0, &mut [&mut room], -1, 0), Ok(4));
    assert_same(&room, b"2345");
    assert_eq!(preadv2(f.0, &mut [&mut room], 0, RWF_HIPRI), Ok(4));
    assert_eq!(pwritev2(f.0, &[b"AB"], 0, RWF_DSYNC), Ok(2));
    assert_eq!(pwritev2(f.0, &[b"CD"], 2, RWF_SYNC), Ok(2));
    assert_eq!(pwritev2(f.0, &[b"end"], 0, RWF_APPEND), Ok(3));
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(6));
    assert_eq!(pwritev2(f.0, &[b"!"], -1, RWF_APPEND), Ok(1));
    holds(c"f", b"ABCD4567end!");
    fails(EOPNOTSUPP, preadv2(f.0, &mut [&mut room], 0, 1 << 30));
    fails(EOPNOTSUPP, pwritev2(f.0, &[b"x"], 0, 1 << 30));
    fails(EBADF, preadv2(-1, &mut [&mut room], 0, 0));
}

fn bad_buffers_are_efault() {
    let f = make(c"f");
    put(f.0, b"kept");
    let nowhere = 8;
    fails(EFAULT, transfer_raw(true, f.0, nowhere, 4));
    lseek(f.0, 0, SEEK_SET).unwrap();
    fails(EFAULT, transfer_raw(false, f.0, nowhere, 4));
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(0));
    assert_eq!(transfer_raw(false, f.0, nowhere, 0), Ok(0));
    holds(c"f", b"kept");
}

fn bad_descriptors_are_ebadf() {
    let closed = make(c"f");
    let number = closed.0;
    drop(closed);
    for fd in [-1, number, 1 << 20] {
        fails(EBADF, read(fd, &mut [0; 4]));
        fails(EBADF, write(fd, b"x"));
        fails(EBADF, pread(fd, &mut [0; 4], 0));
        fails(EBADF, pwrite(fd, b"x", 0));
        fails(EBADF, readv(fd, &mut [&mut [0; 4]]));
        fails(EBADF, writev(fd, &[b"x"]));
        fails(EBADF, lseek(fd, 0, SEEK_SET));
        fails(EBADF, ftruncate(fd, 0));
        fails(EBADF, fallocate(fd, 0, 0, 1));
        fails(EBADF, fstat(fd));
        fails(EBADF, close(fd));
        fails(EBADF, with_fd(libc::fsync, fd));
        fails(EBADF, with_fd(libc::fdatasync, fd));
        fails(EBADF, with_fd(libc::syncfs, fd));
        fails(EBADF, dup(fd));
        fails(EBADF, fcntl(fd, F_GETFL, 0));
        fails(EBADF, fchmod(fd, 0o600));
        fails(EBADF, fchown(fd, 0, 0));
        fails(EBADF, fstatfs(fd));
        fails(EBADF, flock(fd, LOCK_SH));
    }
}

fn gaps_read_as_zeros() {
    let f = make(c"f");
    pwrite(f.0, b"end", 10_000).unwrap();
    assert_same(&content(f.0), &[&[0; 10_000][..], b"end"].concat());
    lseek(f.0, 20_000, SEEK_SET).unwrap();
    put(f.0, b"!");
    assert_eq!(fstat(f.0).unwrap().st_size, 20_001);
    let mut room = [1; 9_997];
    assert_eq!(pread(f.0, &mut room, 10_003), Ok(9_997));
    assert!(room.iter().all(|&byte| byte == 0));
    assert!(fstat(f.0).unwrap().st_blocks * 512 < 20_001);
}

fn large_writes_arrive_whole() {
    let f = make(c"f");
    let data = pattern(9, 5 << 20);
    put(f.0, &data);
    assert_same(&content(f.0), &data);
    assert_eq!(pwrite(f.0, &data[..3 << 20], 4_000_001), Ok(3 << 20));
    let expected = [&data[..4_000_001], &data[..3 << 20]].concat();
    holds(c"f", &expected);
}

fn nothing_written_changes_nothing() {
    let f = make(c"f");
    put(f.0, b"data");
    changes(&[(c"f", "")], || {
        assert_eq!(write(f.0, &[]), Ok(0));
        assert_eq!(pwrite(f.0, &[], 1 << 30), Ok(0));
        assert_eq!(writev(f.0, &[&[], &[]]), Ok(0));
        assert_eq!(pread(f.0, &mut [0; 2], 0), Ok(2));
    });
    assert_eq!(fstat(f.0).unwrap().st_size, 4);
}

fn many_processes_append() {
    const RECORDS: usize = 200;
    let record = |writer: u8, at: usize| pattern(writer ^ at as u8, 100 + 37 * (at % 5));
    file(c"f", b"");
    let children: Vec<Child> = (0..4u8)
        .map(|writer| {
            Child::begin(move || {
                let f = open(c"f", O_WRONLY | O_APPEND, 0).unwrap();
                for at in 0..RECORDS {
                    let body = record(writer, at);
                    let head = [b'<', writer, body.len() as u8, (body.len() >> 8) as u8];
                    put(f.0, &[&head[..], &body].concat());
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::join);
    let all = content_of(c"f");
    let (mut at, mut next) = (0, [0usize; 4]);
    while at < all.len() {
        let [b'<', writer, low, high] = all[at..at + 4] else {
            panic!("a record is torn at {at}");
        };
        let bytes = usize::from(low) | usize::from(high) << 8;
        let number = &mut next[usize::from(writer)];
        assert_same(&all[at + 4..at + 4 + bytes], &record(writer, *number));
        *number += 1;
        at += 4 + bytes;
    }
    assert_eq!(next, [RECORDS; 4]);
}

fn forked_writers_share_the_position() {
    let f = make(c"f");
    let children: Vec<Child> = (0..3u8)
        .map(|writer| {
            let fd = f.0;
            Child::begin(move || (0..100).for_each(|_| put(fd, &[b'a' + writer; 8])))
        })
        .collect();
    children.into_iter().for_each(Child::join);
    let all = content(f.0);
    assert_eq!(all.len(), 3 * 100 * 8);
    assert!(
        all.chunks(8)
            .all(|chunk| chunk.iter().all(|byte| *byte == chunk[0]))
    );
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(all.len() as i64));
}

/// Writes, truncations, holes and reads at odd places do what they do to bytes in memory.
fn random_operations_match_a_model() {
    let (f, other) = (make(c"f"), open(c"f", O_RDWR, 0).unwrap());
    let (mut model, mut rng) = (Vec::new(), Rng::new(0x9e37_79b9));
    for step in 0..600 {
        let (at, bytes) = (rng.index(60_000), 1 + rng.index(9_000));
        let fd = [f.0, other.0][rng.index(2)];
        match rng.index(10) {
            0..4 => {
                let data = pattern(step as u8, bytes);
                assert_eq!(pwrite(fd, &data, at as i64), Ok(bytes));
                model.resize(model.len().max(at + bytes), 0);
                model[at..at + bytes].copy_from_slice(&data);
            }
            4 => {
                ftruncate(fd, at as i64).unwrap();
                model.resize(at, 0);
            }
            5 => {
                let punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
                fallocate(fd, punch, at as i64, bytes as i64).unwrap();
                let end = model.len().min(at + bytes);
                model[at.min(end)..end].fill(0);
            }
            6 => {
                fallocate(fd, 0, at as i64, bytes as i64).unwrap();
                model.resize(model.len().max(at + bytes), 0);
            }
            _ => {
                let mut found = vec![0; bytes];
                let got = pread(fd, &mut found, at as i64).unwrap();
                let end = model.len().min(at + bytes);
                assert_same(&found[..got], &model[at.min(end)..end]);
            }
        }
        assert_eq!(
            fstat(fd).unwrap().st_size as usize,
            model.len(),
            "step {step}"
        );
    }
    holds(c"f", &model);
}

fn a_writer_is_seen_by_all() {
    let f = make(c"f");
    let ((asks, asked), (answers, answered)) = (pipe().unwrap(), pipe().unwrap());
    let reader = Child::begin(|| {
        let own = open(c"f", O_RDONLY, 0).unwrap();
        let mut round = [0; 1];
        while read(asks.0, &mut round) == Ok(1) && round[0] != 0 {
            assert_same(
                &content(own.0),
                &pattern(round[0], 5_000 + usize::from(round[0])),
            );
            put(answered.0, &round);
        }
    });
    for round in 1..=50u8 {
        let data = pattern(round, 5_000 + usize::from(round));
        assert_eq!(pwrite(f.0, &data, 0), Ok(data.len()));
        put(asked.0, &[round]);
        assert_eq!(read(answers.0, &mut [0; 1]), Ok(1));
    }
    put(asked.0, &[0]);
    reader.join();
}

fn pipes_have_no_offsets() {
    let (reader, writer) = pipe().unwrap();
    fails(ESPIPE, pread(reader.0, &mut [0; 4], 0));
    fails(ESPIPE, pwrite(writer.0, b"x", 0));
    fails(ESPIPE, preadv(reader.0, &mut [&mut [0; 4]], 0));
    fails(ESPIPE, pwritev(writer.0, &[b"x"], 0));
    fails(ESPIPE, lseek(reader.0, 0, SEEK_CUR));
    fails(EINVAL, ftruncate(writer.0, 0));
    fails(ESPIPE, fallocate(writer.0, 0, 0, 1));
}
