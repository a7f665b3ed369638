//! Extended attributes.

use super::words::*;
use std::ffi::CStr;

cases!("xattr":
    set_read_listed_removed, creation_and_replacement, sizes_and_room, absent_is_enodata,
    names_and_values_have_limits, flags_that_make_no_sense, values_are_bytes, many_attributes,
    on_every_kind, through_descriptors_and_links, survive_rename_and_link,
    permissions_are_those_of_the_file, trusted_ones_are_roots, unknown_namespaces, of_missing_files,
    go_with_the_file, values_to_64_kib,
);

fn set_read_listed_removed() {
    file(c"f", b"");
    assert_eq!(list_xattr(c"f", 0), Ok((0, vec![])));
    set_xattr(c"f", c"user.one", b"1", 0).unwrap();
    set_xattr(c"f", c"user.two", b"", 0).unwrap();
    assert_eq!(get_xattr(c"f", c"user.one", 10), Ok((1, b"1".to_vec())));
    assert_eq!(get_xattr(c"f", c"user.two", 10), Ok((0, vec![])));
    set_xattr(c"f", c"user.one", b"longer than before", 0).unwrap();
    assert_eq!(
        get_xattr(c"f", c"user.one", 100).unwrap().1,
        b"longer than before"
    );
    let mut names = list_xattr(c"f", 100).unwrap().1;
    names.sort();
    assert_eq!(names, [c"user.one".to_owned(), c"user.two".to_owned()]);
    remove_xattr(c"f", c"user.one").unwrap();
    fails(ENODATA, get_xattr(c"f", c"user.one", 10));
    assert_eq!(list_xattr(c"f", 100).unwrap().1, [c"user.two".to_owned()]);
}

fn creation_and_replacement() {
    file(c"f", b"");
    fails(ENODATA, set_xattr(c"f", c"user.a", b"1", XATTR_REPLACE));
    set_xattr(c"f", c"user.a", b"1", XATTR_CREATE).unwrap();
    fails(EEXIST, set_xattr(c"f", c"user.a", b"2", XATTR_CREATE));
    assert_eq!(get_xattr(c"f", c"user.a", 10).unwrap().1, b"1");
    set_xattr(c"f", c"user.a", b"3", XATTR_REPLACE).unwrap();
    assert_eq!(get_xattr(c"f", c"user.a", 10).unwrap().1, b"3");
}

fn sizes_and_room() {
    file(c"f", b"");
    set_xattr(c"f", c"user.abc", b"0123456789", 0).unwrap();
    assert_eq!(get_xattr(c"f", c"user.abc", 0).unwrap().0, 10);
    fails(ERANGE, get_xattr(c"f", c"user.abc", 9));
    assert_eq!(get_xattr(c"f", c"user.abc", 10).unwrap().0, 10);
    assert_eq!(list_xattr(c"f", 0).unwrap().0, 9);
    fails(ERANGE, list_xattr(c"f", 8));
    assert_eq!(list_xattr(c"f", 9).unwrap().0, 9);
}

fn absent_is_enodata() {
    file(c"f", b"");
    for space in [c"user.none", c"trusted.none", c"security.none"] {
        fails(ENODATA, get_xattr(c"f", space, 10));
        fails(ENODATA, get_xattr(c"f", space, 0));
    }
    fails(ENODATA, remove_xattr(c"f", c"user.none"));
    needs_root();
    for space in [c"trusted.none", c"security.none"] {
        fails(ENODATA, remove_xattr(c"f", space));
    }
}

fn names_and_values_have_limits() {
    file(c"f", b"");
    let longest = name(format!("user.{}", "n".repeat(250)));
    set_xattr(c"f", &longest, b"1", 0).unwrap();
    assert_eq!(get_xattr(c"f", &longest, 10).unwrap().1, b"1");
    let longer = name(format!("user.{}", "n".repeat(251)));
    fails(ERANGE, set_xattr(c"f", &longer, b"1", 0));
    fails(ERANGE, get_xattr(c"f", &longer, 10));
    fails(ERANGE, remove_xattr(c"f", &longer));
    fails(ERANGE, set_xattr(c"f", c"", b"1", 0));
    fails(E2BIG, set_xattr(c"f", c"user.a", &[1; 65_537], 0));
    set_xattr(c"f", c"user.a", &[7; 3_000], 0).unwrap();
    assert_eq!(get_xattr(c"f", c"user.a", 4_000).unwrap().1, [7; 3_000]);
}

fn flags_that_make_no_sense() {
    file(c"f", b"");
    fails(EINVAL, set_xattr(c"f", c"user.a", b"1", 1 << 10));
    match set_xattr(c"f", c"user.a", b"1", XATTR_CREATE | XATTR_REPLACE) {
        Err(Errno(EINVAL | ENODATA | EEXIST)) => {}
        answer => panic!("{answer:?}"),
    }
    fails(ENODATA, get_xattr(c"f", c"user.a", 10));
}

fn values_are_bytes() {
    file(c"f", b"");
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [1, 2, 63, 64, 65, 255, 256] {
        set_xattr(c"f", c"user.a", &all[..bytes], 0).unwrap();
        assert_eq!(get_xattr(c"f", c"user.a", 300).unwrap().1, &all[..bytes]);
    }
    set_xattr(c"f", c"user.\xff \n", b"odd", 0).unwrap();
    assert_eq!(get_xattr(c"f", c"user.\xff \n", 10).unwrap().1, b"odd");
    fails(ENODATA, get_xattr(c"f", c"user.A", 10));
}

fn many_attributes() {
    file(c"f", b"");
    let names: Vec<_> = (0..60)
        .map(|at| name(format!("user.attribute-{at:03}")))
        .collect();
    for (at, each) in names.iter().enumerate() {
        set_xattr(c"f", each, &pattern(at as u8, 100), 0).unwrap();
    }
    let mut listed = list_xattr(c"f", 10_000).unwrap().1;
    listed.sort();
    assert_eq!(listed, names);
    for (at, each) in names.iter().enumerate() {
        assert_same(
            &get_xattr(c"f", each, 200).unwrap().1,
            &pattern(at as u8, 100),
        );
        remove_xattr(c"f", each).unwrap();
    }
    assert_eq!(list_xattr(c"f", 0), Ok((0, vec![])));
}

fn on_every_kind() {
    mkdir(c"d", 0o755).unwrap();
    symlink(c"d", c"l").unwrap();
    mknod(c"p", S_IFIFO | 0o644, 0).unwrap();
    set_xattr(c"d", c"user.a", b"1", 0).unwrap();
    fails(EPERM, set_xattr(c"l", c"user.a", b"1", 0));
    fails(EPERM, set_xattr(c"p", c"user.a", b"1", 0));
    fails(ENODATA, get_xattr(c"p", c"user.a", 10));
    needs_root();
    for path in [c"d", c"l", c"p"] {
        set_xattr(path, c"trusted.a", b"t", 0).unwrap();
        assert_eq!(get_xattr(path, c"trusted.a", 10).unwrap().1, b"t");
    }
}

fn through_descriptors_and_links() {
    let f = make(c"f");
    symlink(c"f", c"l").unwrap();
    fset_xattr(f.0, c"user.a", b"12").unwrap();
    assert_eq!(xattr_bytes_of_target(c"l", c"user.a"), Ok(2));
    assert_eq!(flist_xattr_bytes(f.0), Ok(7));
    set_xattr_of_target(c"l", c"user.b", b"3").unwrap();
    fremove_xattr(f.0, c"user.a").unwrap();
    fails(EBADF, fget_xattr_bytes(-1, c"user.a"));
    assert_eq!(list_xattr(c"f", 100).unwrap().1, [c"user.b".to_owned()]);
}

fn survive_rename_and_link() {
    file(c"f", b"");
    set_xattr(c"f", c"user.a", b"kept", 0).unwrap();
    link(c"f", c"g").unwrap();
    rename(c"f", c"h").unwrap();
    unlink(c"g").unwrap();
    truncate(c"h", 10_000).unwrap();
    chmod(c"h", 0o600).unwrap();
    assert_eq!(get_xattr(c"h", c"user.a", 10).unwrap().1, b"kept");
}

fn permissions_are_those_of_the_file() {
    let make = |path: &CStr, bits| {
        file(path, b"");
        chmod(path, bits).unwrap();
        set_xattr(path, c"user.a", b"1", 0).unwrap();
    };
    make(c"readable", 0o644);
    make(c"writable", 0o646);
    make(c"closed", 0o600);
    mkdir(c"sticky", 0o1777).unwrap();
    as_user(ALICE, ALICE, &[], || {
        assert_eq!(get_xattr(c"readable", c"user.a", 10).unwrap().1, b"1");
        fails(EACCES, set_xattr(c"readable", c"user.a", b"2", 0));
        fails(EACCES, remove_xattr(c"readable", c"user.a"));
        set_xattr(c"writable", c"user.a", b"2", 0).unwrap();
        fails(EACCES, get_xattr(c"closed", c"user.a", 10));
        fails(EPERM, set_xattr(c"sticky", c"user.a", b"2", 0));
    });
}

fn trusted_ones_are_roots() {
    file(c"f", b"");
    chmod(c"f", 0o666).unwrap();
    needs_root();
    set_xattr(c"f", c"trusted.a", b"1", 0).unwrap();
    set_xattr(c"f", c"security.a", b"1", 0).unwrap();
    set_xattr(c"f", c"user.a", b"1", 0).unwrap();
    assert_eq!(list_xattr(c"f", 100).unwrap().1.len(), 3);
    as_user(ALICE, ALICE, &[], || {
        fails(ENODATA, get_xattr(c"f", c"trusted.a", 10));
        fails(EPERM, set_xattr(c"f", c"trusted.a", b"2", 0));
        fails(EPERM, set_xattr(c"f", c"security.a", b"2", 0));
        assert!(
            !list_xattr(c"f", 100)
                .unwrap()
                .1
                .contains(&c"trusted.a".to_owned())
        );
        assert_eq!(get_xattr(c"f", c"security.a", 10).unwrap().1, b"1");
    });
}

fn unknown_namespaces() {
    file(c"f", b"");
    for unknown in [c"bogus.a", c"a", c"system.bogus", c"USER.a"] {
        fails(EOPNOTSUPP, set_xattr(c"f", unknown, b"1", 0));
        fails(EOPNOTSUPP, get_xattr(c"f", unknown, 10));
        fails(EOPNOTSUPP, remove_xattr(c"f", unknown));
    }
}

fn of_missing_files() {
    file(c"f", b"");
    fails(ENOENT, get_xattr(c"none", c"user.a", 10));
    fails(ENOENT, set_xattr(c"none", c"user.a", b"1", 0));
    fails(ENOENT, remove_xattr(c"none", c"user.a"));
    fails(ENOENT, list_xattr(c"none", 10));
    fails(ENOTDIR, get_xattr(c"f/x", c"user.a", 10));
}

fn go_with_the_file() {
    file(c"f", b"");
    set_xattr(c"f", c"user.a", b"1", 0).unwrap();
    unlink(c"f").unwrap();
    file(c"f", b"");
    fails(ENODATA, get_xattr(c"f", c"user.a", 10));
    set_xattr(c"f", c"user.b", b"1", 0).unwrap();
    file(c"g", b"");
    rename(c"g", c"f").unwrap();
    assert_eq!(list_xattr(c"f", 0), Ok((0, vec![])));
}

fn values_to_64_kib() {
    file(c"f", b"");
    for bytes in [4_096, 65_536, 10_000] {
        let value = pattern(bytes as u8, bytes);
        set_xattr(c"f", c"user.large", &value, 0).unwrap();
        let (found, read) = get_xattr(c"f", c"user.large", 65_536).unwrap();
        assert_eq!(found, bytes);
        assert_same(&read, &value);
    }
}
