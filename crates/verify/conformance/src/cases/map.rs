//! `mmap`: shared and private, together with every other way to the same bytes.

use super::words::*;
use crate::call;
use crate::mapping::Map;
use crate::process::signal_of;

cases!("map":
    shared_stores_are_read_by_all, writes_are_seen_through_shared_mappings, truncation_is_seen,
    growth_is_seen, private_stores_stay_private, private_mappings_begin_with_the_file,
    behind_the_end_is_sigbus, the_last_page_ends_in_zeros, mappings_outlive_descriptors_and_names,
    mapping_refusals, mappings_are_shared_with_children, holes_map_as_zeros, synced_stores_are_durable,
    a_file_is_written_from_its_own_mapping, far_offsets_are_mapped, punched_holes_are_seen,
    protection_counts, mapped_stores_move_times, copies_see_stores, mappings_are_moved_and_advised, synchronous_mappings_are_refused,
);

const PAGE: usize = 4096;

fn filled(bytes: usize) -> Fd {
    let f = make(c"f");
    put(f.0, &pattern(1, bytes));
    f
}

fn shared_stores_are_read_by_all() {
    let f = filled(3 * PAGE);
    let map = Map::shared(f.0, 3 * PAGE);
    assert_same(&map.all(3 * PAGE), &pattern(1, 3 * PAGE));
    let mut expected = pattern(1, 3 * PAGE);
    for (at, data) in [
        (0, b"start"),
        (PAGE - 2, b"cross"),
        (3 * PAGE - 5, b"final"),
    ] {
        map.store(at, data);
        expected[at..at + 5].copy_from_slice(data);
        assert_same(&content(f.0), &expected);
        holds(c"f", &expected);
        apart(|| holds(c"f", &expected));
        assert_same(&Map::shared(f.0, 3 * PAGE).all(3 * PAGE), &expected);
    }
}

fn writes_are_seen_through_shared_mappings() {
    let f = filled(3 * PAGE);
    let map = Map::shared(f.0, 3 * PAGE);
    assert_eq!(map.get(0), pattern(1, 1)[0]);
    for round in 0..20u8 {
        let data = pattern(round, PAGE + 100);
        let at = usize::from(round) * 97;
        match round % 4 {
            0 => assert_eq!(pwrite(f.0, &data, at as i64), Ok(data.len())),
            1 => apart(|| {
                assert_eq!(
                    pwrite(open(c"f", O_WRONLY, 0).unwrap().0, &data, at as i64),
                    Ok(data.len())
                )
            }),
            2 => assert_eq!(
                pwritev(f.0, &[&data[..7], &data[7..]], at as i64),
                Ok(data.len() as i64)
            ),
            _ => {
                lseek(f.0, at as i64, SEEK_SET).unwrap();
                put(f.0, &data);
            }
        }
        assert_same(&map.all(3 * PAGE)[at..at + data.len()], &data);
    }
}

fn truncation_is_seen() {
    let f = filled(2 * PAGE);
    let map = Map::shared(f.0, 2 * PAGE);
    assert_ne!(map.all(2 * PAGE)[PAGE..], [0; PAGE]);
    ftruncate(f.0, 100).unwrap();
    ftruncate(f.0, 2 * PAGE as i64).unwrap();
    let expected = [&pattern(1, 100)[..], &[0; 2 * PAGE - 100]].concat();
    assert_same(&map.all(2 * PAGE), &expected);
    holds(c"f", &expected);
    drop(open(c"f", O_WRONLY | O_TRUNC, 0).unwrap());
    ftruncate(f.0, 2 * PAGE as i64).unwrap();
    assert_same(&map.all(2 * PAGE), &[0; 2 * PAGE]);
}

fn growth_is_seen() {
    let f = filled(100);
    let map = Map::shared(f.0, 2 * PAGE);
    assert_eq!(map.get(99), pattern(1, 100)[99]);
    pwrite(f.0, &pattern(2, PAGE), 100).unwrap();
    assert_same(&map.all(PAGE + 100)[100..], &pattern(2, PAGE));
    ftruncate(f.0, 2 * PAGE as i64).unwrap();
    assert_eq!(map.get(2 * PAGE - 1), 0);
    map.store(2 * PAGE - 1, b"!");
    assert_eq!(content(f.0)[2 * PAGE - 1], b'!');
}

fn private_stores_stay_private() {
    let f = filled(2 * PAGE);
    let reader = open(c"f", O_RDONLY, 0).unwrap();
    // A reader may map privately what it may not write.
    let map = Map::private(reader.0, 2 * PAGE);
    map.store(10, b"mine");
    assert_same(&map.all(20)[10..14], b"mine");
    let _ = map.sync();
    holds(c"f", &pattern(1, 2 * PAGE));
    let other = Map::private(f.0, 2 * PAGE);
    assert_same(&other.all(2 * PAGE), &pattern(1, 2 * PAGE));
    pwrite(f.0, &[7; 100], 0).unwrap();
    assert_same(&map.all(20)[10..14], b"mine");
    drop(map);
    assert_same(
        &content(f.0)[..200],
        &[&[7; 100], &pattern(1, 200)[100..]].concat(),
    );
}

fn private_mappings_begin_with_the_file() {
    let f = filled(2 * PAGE);
    pwrite(f.0, b"latest", 0).unwrap();
    let map = Map::private(f.0, 2 * PAGE);
    assert_same(&map.all(6), b"latest");
    let fd = f.0;
    apart(|| {
        map.store(0, b"CHILD!");
        assert_same(&content(fd)[..6], b"latest");
    });
    assert_same(&map.all(6), b"latest");
}

fn behind_the_end_is_sigbus() {
    let f = filled(PAGE + 10);
    let map = Map::shared(f.0, 4 * PAGE);
    assert_eq!(signal_of(|| _ = map.get(PAGE + 10)), None);
    assert_eq!(signal_of(|| _ = map.get(2 * PAGE)), Some(SIGBUS));
    assert_eq!(signal_of(|| map.store(3 * PAGE, b"x")), Some(SIGBUS));
    ftruncate(f.0, 5).unwrap();
    assert_eq!(signal_of(|| _ = map.get(PAGE)), Some(SIGBUS));
    assert_eq!(signal_of(|| _ = map.get(4)), None);
    ftruncate(f.0, 4 * PAGE as i64).unwrap();
    assert_eq!(signal_of(|| _ = map.get(4 * PAGE - 1)), None);
}

fn the_last_page_ends_in_zeros() {
    let f = filled(PAGE + 10);
    let map = Map::shared(f.0, 2 * PAGE);
    assert!(map.all(2 * PAGE)[PAGE + 10..].iter().all(|&byte| byte == 0));
    // Stores behind the end do not reach the file.
    map.store(PAGE + 50, b"lost");
    map.sync().unwrap();
    assert_eq!(fstat(f.0).unwrap().st_size, PAGE as i64 + 10);
    drop(map);
    holds(c"f", &pattern(1, PAGE + 10));
}

fn mappings_outlive_descriptors_and_names() {
    let f = filled(PAGE);
    let map = Map::shared(f.0, PAGE);
    drop(f);
    map.store(0, b"still");
    assert_same(&content_of(c"f")[..5], b"still");
    let other = open(c"f", O_RDWR, 0).unwrap();
    unlink(c"f").unwrap();
    map.store(0, b"there");
    assert_same(&content(other.0)[..5], b"there");
    drop(other);
    assert_same(&map.all(5), b"there");
    map.store(100, b"on");
    map.sync().unwrap();
    assert_same(&map.all(102)[100..], b"on");
}

fn mapping_refusals() {
    let f = filled(PAGE);
    let (reader, writer) = (
        open(c"f", O_RDONLY, 0).unwrap(),
        open(c"f", O_WRONLY, 0).unwrap(),
    );
    let attempt = |fd: i32, bytes, protection, flags, at| {
        Map::make(fd, bytes, protection, flags, at).map(drop)
    };
    fails(
        EACCES,
        attempt(reader.0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0),
    );
    fails(EACCES, attempt(writer.0, PAGE, PROT_READ, MAP_SHARED, 0));
    fails(EACCES, attempt(writer.0, PAGE, PROT_WRITE, MAP_PRIVATE, 0));
    fails(EINVAL, attempt(f.0, 0, PROT_READ, MAP_SHARED, 0));
    fails(EINVAL, attempt(f.0, PAGE, PROT_READ, MAP_SHARED, 100));
    fails(EINVAL, attempt(f.0, PAGE, PROT_READ, 0, 0));
    fails(EBADF, attempt(-1, PAGE, PROT_READ, MAP_SHARED, 0));
    let directory = open(c".", O_RDONLY, 0).unwrap();
    fails(ENODEV, attempt(directory.0, PAGE, PROT_READ, MAP_SHARED, 0));
    let append = open(c"f", O_RDWR | O_APPEND, 0).unwrap();
    attempt(append.0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0).unwrap();
}

fn mappings_are_shared_with_children() {
    let f = filled(PAGE);
    let map = Map::shared(f.0, PAGE);
    apart(|| map.store(0, b"child"));
    assert_same(&map.all(5), b"child");
    assert_same(&content(f.0)[..5], b"child");
    // And between processes that mapped it on their own.
    apart(|| {
        let own = open(c"f", O_RDWR, 0).unwrap();
        Map::shared(own.0, PAGE).store(7, b"strange");
    });
    assert_same(&map.all(14)[7..], b"strange");
}

fn holes_map_as_zeros() {
    let f = make(c"f");
    ftruncate(f.0, 64 * PAGE as i64).unwrap();
    let map = Map::shared(f.0, 64 * PAGE);
    assert!(map.all(64 * PAGE).iter().all(|&byte| byte == 0));
    map.store(40 * PAGE + 7, b"filled");
    map.sync().unwrap();
    let mut expected = vec![0; 64 * PAGE];
    expected[40 * PAGE + 7..40 * PAGE + 13].copy_from_slice(b"filled");
    holds(c"f", &expected);
}

fn synced_stores_are_durable() {
    let f = filled(2 * PAGE);
    let map = Map::shared(f.0, 2 * PAGE);
    map.store(5, b"one");
    map.sync().unwrap();
    map.store(PAGE + 5, b"two");
    with_fd(libc::fsync, f.0).unwrap();
    drop(map);
    drop(f);
    let all = content_of(c"f");
    assert_same(&all[5..8], b"one");
    assert_same(&all[PAGE + 5..PAGE + 8], b"two");
    fails(ENOMEM, call::msync_raw(PAGE, PAGE));
}

fn a_file_is_written_from_its_own_mapping() {
    let f = filled(4 * PAGE);
    let map = Map::shared(f.0, 4 * PAGE);
    for (from, to) in [(0, 2 * PAGE), (100, 3 * PAGE + 7), (PAGE, 0)] {
        let data = map.all(from + 500)[from..].to_vec();
        let address = map.address(from);
        lseek(f.0, to as i64, SEEK_SET).unwrap();
        assert_eq!(transfer_raw(true, f.0, address, 500), Ok(500));
        assert_same(&map.all(to + 500)[to..], &data);
    }
    lseek(f.0, 0, SEEK_SET).unwrap();
    let start = content(f.0)[..500].to_vec();
    assert_eq!(transfer_raw(false, f.0, map.address(PAGE), 500), Ok(500));
    assert_same(&map.all(PAGE + 500)[PAGE..], &start);
}

fn far_offsets_are_mapped() {
    let f = make(c"f");
    for edge in [1i64 << 31, 1 << 32, 1 << 40] {
        let at = edge - PAGE as i64;
        pwrite(f.0, &pattern(3, 2 * PAGE), at).unwrap();
        let map = Map::make(f.0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, at).unwrap();
        assert_same(&map.all(2 * PAGE), &pattern(3, 2 * PAGE));
        map.store(PAGE - 2, b"edge");
        let mut found = [0; 4];
        assert_eq!(pread(f.0, &mut found, edge - 2), Ok(4));
        assert_same(&found, b"edge");
    }
}

fn punched_holes_are_seen() {
    let f = filled(4 * PAGE);
    let map = Map::shared(f.0, 4 * PAGE);
    map.store(PAGE + 9, b"x");
    fallocate(
        f.0,
        FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
        PAGE as i64,
        PAGE as i64 + 100,
    )
    .unwrap();
    let mut expected = pattern(1, 4 * PAGE);
    expected[PAGE..2 * PAGE + 100].fill(0);
    assert_same(&map.all(4 * PAGE), &expected);
    holds(c"f", &expected);
}

fn protection_counts() {
    let f = filled(PAGE);
    let map = Map::make(f.0, PAGE, PROT_READ, MAP_SHARED, 0).unwrap();
    assert_eq!(signal_of(|| map.store(0, b"x")), Some(SIGSEGV));
    holds(c"f", &pattern(1, PAGE));
}

fn mapped_stores_move_times() {
    let f = filled(PAGE);
    let map = Map::shared(f.0, PAGE);
    assert_eq!(map.get(0), pattern(1, 1)[0]);
    changes(&[(c"f", "mc")], || {
        map.store(0, b"x");
        map.sync().unwrap();
    });
}

fn copies_see_stores() {
    let f = filled(PAGE);
    let to = make(c"to");
    let map = Map::shared(f.0, PAGE);
    map.store(0, b"stored");
    assert_eq!(
        copy_file_range((f.0, Some(&mut 0)), (to.0, None), PAGE, 0),
        Ok(PAGE as i64)
    );
    assert_same(&content(to.0)[..6], b"stored");
    map.store(0, b"STORED");
    assert_eq!(sendfile(to.0, f.0, Some(&mut 0), 6), Ok(6));
    assert_same(&content(to.0)[PAGE..], b"STORED");
    // Into what is mapped.
    pwrite(to.0, b"copied", 0).unwrap();
    assert_eq!(
        copy_file_range((to.0, Some(&mut 0)), (f.0, Some(&mut 100)), 6, 0),
        Ok(6)
    );
    assert_same(&map.all(106)[100..], b"copied");
}

fn mappings_are_moved_and_advised() {
    let f = filled(8 * PAGE);
    let mut map = Map::shared(f.0, 2 * PAGE);
    map.store(0, b"stored");
    map = map.moved(8 * PAGE).unwrap();
    for advice in [
        MADV_RANDOM,
        MADV_SEQUENTIAL,
        MADV_WILLNEED,
        MADV_DONTNEED,
        MADV_NORMAL,
    ] {
        map.advise(advice).unwrap();
    }
    assert_same(&map.all(6), b"stored");
    assert_same(&map.all(8 * PAGE)[6..], &pattern(1, 8 * PAGE)[6..]);
    map.store(7 * PAGE, b"far");
    assert_same(&content(f.0)[7 * PAGE..7 * PAGE + 3], b"far");
    // Private changes go with this advice, shared ones stay.
    let private = Map::private(f.0, PAGE);
    private.store(0, b"mine!!");
    private.advise(MADV_DONTNEED).unwrap();
    assert_same(&private.all(6), b"stored");
}

fn synchronous_mappings_are_refused() {
    let f = filled(PAGE);
    match Map::make(
        f.0,
        PAGE,
        PROT_READ | PROT_WRITE,
        MAP_SHARED_VALIDATE | MAP_SYNC,
        0,
    ) {
        Ok(map) => map.store(0, b"x"),
        answer => fails(EOPNOTSUPP, answer.map(drop)),
    }
    Map::make(f.0, PAGE, PROT_READ, MAP_SHARED_VALIDATE | MAP_POPULATE, 0).unwrap();
}
