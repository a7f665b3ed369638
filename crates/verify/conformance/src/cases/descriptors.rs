//! `dup` and its kin, positions that are shared, streams, what passes to children and programs.

use super::words::*;
use crate::call;

cases!("descriptors":
    copies_share_position_and_flags, dup2_closes_what_was_there, dup3_refusals, fcntl_copies_from_a_number,
    children_share_the_position, passed_through_a_socket, own_opens_have_own_positions,
    closing_twice_is_ebadf, streams_and_descriptors_agree, proc_names_the_file, numbers_are_reused,
);

fn copies_share_position_and_flags() {
    let f = make(c"f");
    let copy = dup(f.0).unwrap();
    put(f.0, b"one");
    put(copy.0, b"two");
    assert_eq!(lseek(f.0, 0, SEEK_CUR), Ok(6));
    lseek(copy.0, 1, SEEK_SET).unwrap();
    put(f.0, b"N");
    fcntl(copy.0, F_SETFL, O_APPEND).unwrap();
    put(f.0, b"!");
    holds(c"f", b"oNetwo!");
    // The flag of the descriptor is its own.
    fcntl(f.0, F_SETFD, FD_CLOEXEC).unwrap();
    assert_eq!(fcntl(copy.0, F_GETFD, 0), Ok(0));
    drop(f);
    put(copy.0, b"?");
    holds(c"f", b"oNetwo!?");
}

fn dup2_closes_what_was_there() {
    file(c"f", b"f");
    file(c"g", b"g");
    let (f, g) = (
        open(c"f", O_RDONLY, 0).unwrap(),
        open(c"g", O_RDONLY, 0).unwrap(),
    );
    assert_same(&content(g.0), b"g");
    assert_eq!(dup2(f.0, g.0), Ok(g.0.into()));
    assert_same(&content(g.0), b"f");
    assert_eq!(dup2(f.0, f.0), Ok(f.0.into()));
    fails(EBADF, dup2(-1, g.0));
    fails(EBADF, dup2(f.0, -1));
    assert_same(&content(g.0), b"f");
    fails(EBADF, dup2(999, 999));
}

fn dup3_refusals() {
    let f = make(c"f");
    fails(EINVAL, dup3(f.0, f.0, 0));
    fails(EINVAL, dup3(f.0, 100, O_RDWR));
    fails(EBADF, dup3(-1, 100, 0));
    assert_eq!(dup3(f.0, 100, O_CLOEXEC), Ok(100));
    assert_eq!(fcntl(100, F_GETFD, 0), Ok(FD_CLOEXEC.into()));
    put(100, b"through");
    close(100).unwrap();
    holds(c"f", b"through");
}

fn fcntl_copies_from_a_number() {
    let f = make(c"f");
    let high = fcntl(f.0, F_DUPFD, 200).unwrap() as i32;
    assert_eq!(high, 200);
    let next = fcntl(f.0, F_DUPFD_CLOEXEC, 200).unwrap() as i32;
    assert_eq!(
        (next, fcntl(next, F_GETFD, 0)),
        (201, Ok(FD_CLOEXEC.into()))
    );
    put(high, b"a");
    put(next, b"b");
    put(f.0, b"c");
    holds(c"f", b"abc");
    fails(EINVAL, fcntl(f.0, F_DUPFD, -1));
    fails(EBADF, fcntl(-1, F_DUPFD, 0));
    fails(EINVAL, fcntl(f.0, 9_999, 0));
    close(high).unwrap();
    close(next).unwrap();
}

fn children_share_the_position() {
    let f = make(c"f");
    put(f.0, b"0123456789");
    let fd = f.0;
    apart(move || {
        assert_eq!(lseek(fd, 4, SEEK_SET), Ok(4));
        assert_eq!(read(fd, &mut [0; 2]), Ok(2));
    });
    put(f.0, b"x");
    apart(move || put(fd, b"y"));
    put(f.0, b"z");
    apart(move || fcntl(fd, F_SETFL, O_APPEND).map(drop).unwrap());
    put(f.0, b"!");
    holds(c"f", b"012345xyz9!");
}

fn passed_through_a_socket() {
    let [here, there] = call::socketpair().unwrap();
    let f = make(c"f");
    put(f.0, b"before ");
    assert_eq!(call::send_number(here.0, f.0), Ok(1));
    apart(|| {
        let got = call::receive_number(there.0).unwrap();
        assert_eq!(lseek(got.0, 0, SEEK_CUR), Ok(7));
        put(got.0, b"there ");
    });
    put(f.0, b"after");
    holds(c"f", b"before there after");
}

fn own_opens_have_own_positions() {
    let (one, other) = (make(c"f"), open(c"f", O_RDWR, 0).unwrap());
    put(one.0, b"aaaa");
    put(other.0, b"bb");
    assert_eq!(
        (lseek(one.0, 0, SEEK_CUR), lseek(other.0, 0, SEEK_CUR)),
        (Ok(4), Ok(2))
    );
    holds(c"f", b"bbaa");
}

fn closing_twice_is_ebadf() {
    let f = make(c"f");
    let number = f.0;
    f.close().unwrap();
    fails(EBADF, close(number));
    fails(EBADF, read(number, &mut [0; 1]));
    let again = make(c"g");
    assert_eq!(again.0, number);
    put(again.0, b"new");
    holds(c"f", b"");
}

fn streams_and_descriptors_agree() {
    let f = make(c"f");
    // SAFETY: a stream of its own on a copy; closed before the end.
    unsafe {
        let copy = libc::dup(f.0);
        let stream = fdopen(copy, c"r+".as_ptr());
        assert!(!stream.is_null());
        assert!(fputs(c"stream ".as_ptr(), stream) >= 0);
        assert_eq!(fflush(stream), 0);
        put(f.0, b"descriptor ");
        assert_eq!(fseek(stream, 0, SEEK_END), 0);
        assert!(fputs(c"stream".as_ptr(), stream) >= 0);
        assert_eq!(ftell(stream), 24);
        assert_eq!(fclose(stream), 0);
    }
    holds(c"f", b"stream descriptor stream");
}

fn proc_names_the_file() {
    let f = make(c"f");
    put(f.0, b"data");
    let path = format!("/proc/self/fd/{}", f.0);
    let target = std::fs::read_link(&path).unwrap();
    assert_eq!(target, std::env::current_dir().unwrap().join("f"));
    assert_eq!(std::fs::read(&path).unwrap(), b"data");
    let information = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", f.0)).unwrap();
    assert!(information.contains("flags:"), "{information}");
}

fn numbers_are_reused() {
    for round in 0..200u32 {
        let path = name(format!("f{}", round % 7));
        let f = make(&path);
        put(f.0, &round.to_ne_bytes());
        assert_same(&content(f.0), &round.to_ne_bytes());
        drop(f);
        holds(&path, &round.to_ne_bytes());
    }
}
