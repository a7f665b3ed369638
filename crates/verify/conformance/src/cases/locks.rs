//! `flock`, `fcntl` byte ranges, locks of open file descriptions.

use super::words::*;
use crate::call;

cases!("locks":
    flock_excludes_others, flock_belongs_to_the_description, flock_changes_kind,
    ranges_exclude_other_processes, ranges_are_told, ranges_go_at_any_close, ranges_do_not_pass_to_children,
    ranges_split_and_join, ranges_refused, ranges_relative_to_position_and_end,
    description_locks_exclude_each_other, description_locks_pass_to_children, waiting_ends_when_released,
    deadlocks_are_noticed, locks_go_with_their_process, ranges_far_out, read_locks_need_readers, signals_end_the_waiting, leases_are_broken_or_refused, leases_need_a_file_that_is_not_open_elsewhere,
);

fn range(kind: i32, start: i64, bytes: i64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: SEEK_SET as i16,
        l_start: start,
        l_len: bytes,
        l_pid: 0,
    }
}

fn set(fd: i32, kind: i32, start: i64, bytes: i64) -> Answer<()> {
    fcntl_lock(fd, F_SETLK, &mut range(kind, start, bytes))
}

fn set_description(fd: i32, kind: i32, start: i64, bytes: i64) -> Answer<()> {
    fcntl_lock(fd, F_OFD_SETLK, &mut range(kind, start, bytes))
}

fn reopened() -> Fd {
    open(c"f", O_RDWR, 0).unwrap()
}

#[track_caller]
fn refused(answer: Answer<()>) {
    assert!(matches!(answer, Err(Errno(EAGAIN | EACCES))), "{answer:?}");
}

/// What another process would get for a range.
fn elsewhere(kind: i32, start: i64, bytes: i64, expected: bool) {
    apart(move || {
        if expected {
            set(reopened().0, kind, start, bytes).unwrap()
        } else {
            refused(set(reopened().0, kind, start, bytes))
        }
    });
}

fn flock_excludes_others() {
    let (one, other) = (make(c"f"), reopened());
    flock(one.0, LOCK_EX).unwrap();
    fails(EAGAIN, flock(other.0, LOCK_EX | LOCK_NB));
    fails(EAGAIN, flock(other.0, LOCK_SH | LOCK_NB));
    apart(|| fails(EAGAIN, flock(reopened().0, LOCK_SH | LOCK_NB)));
    flock(one.0, LOCK_UN).unwrap();
    flock(other.0, LOCK_SH | LOCK_NB).unwrap();
    flock(one.0, LOCK_SH | LOCK_NB).unwrap();
    fails(EAGAIN, flock(one.0, LOCK_EX | LOCK_NB));
    fails(EINVAL, flock(one.0, 0));
    fails(EINVAL, flock(one.0, LOCK_SH | LOCK_UN));
    // Locks on directories, too; and no mode is needed.
    let (d, again) = (
        open(c".", O_RDONLY, 0).unwrap(),
        open(c".", O_RDONLY, 0).unwrap(),
    );
    flock(d.0, LOCK_EX).unwrap();
    fails(EAGAIN, flock(again.0, LOCK_EX | LOCK_NB));
}

fn flock_belongs_to_the_description() {
    let f = make(c"f");
    let copy = dup(f.0).unwrap();
    flock(f.0, LOCK_EX).unwrap();
    flock(copy.0, LOCK_EX | LOCK_NB).unwrap();
    drop(f);
    fails(EAGAIN, flock(reopened().0, LOCK_SH | LOCK_NB));
    let fd = copy.0;
    // A child's unlock is everybody's.
    apart(move || flock(fd, LOCK_UN).unwrap());
    flock(reopened().0, LOCK_EX | LOCK_NB).unwrap();
    flock(copy.0, LOCK_EX | LOCK_NB).unwrap();
    drop(copy);
    flock(reopened().0, LOCK_EX | LOCK_NB).unwrap();
}

fn flock_changes_kind() {
    let (one, other) = (make(c"f"), reopened());
    flock(one.0, LOCK_EX).unwrap();
    flock(one.0, LOCK_SH).unwrap();
    flock(other.0, LOCK_SH | LOCK_NB).unwrap();
    drop(other);
    flock(one.0, LOCK_EX | LOCK_NB).unwrap();
}

fn ranges_exclude_other_processes() {
    let f = make(c"f");
    set(f.0, F_WRLCK, 10, 10).unwrap();
    // Not in the same process, whatever the descriptor.
    set(reopened().0, F_RDLCK, 0, 0).unwrap_or_else(|error| panic!("{error:?}"));
    let f = make(c"f");
    set(f.0, F_WRLCK, 10, 10).unwrap();
    for (start, bytes, free) in [
        (0, 10, true),
        (0, 11, false),
        (19, 1, false),
        (20, 5, true),
        (0, 0, false),
        (15, 1, false),
    ] {
        elsewhere(F_WRLCK, start, bytes, free);
        elsewhere(F_RDLCK, start, bytes, free);
    }
    set(f.0, F_RDLCK, 10, 10).unwrap();
    elsewhere(F_RDLCK, 0, 0, true);
    elsewhere(F_WRLCK, 12, 2, false);
    set(f.0, F_UNLCK, 0, 0).unwrap();
    elsewhere(F_WRLCK, 0, 0, true);
}

fn ranges_are_told() {
    let f = make(c"f");
    set(f.0, F_WRLCK, 100, 50).unwrap();
    let holder = std::process::id() as i32;
    apart(move || {
        let other = reopened();
        let mut found = range(F_RDLCK, 0, 0);
        fcntl_lock(other.0, F_GETLK, &mut found).unwrap();
        assert_eq!(
            (
                i32::from(found.l_type),
                found.l_start,
                found.l_len,
                found.l_pid
            ),
            (F_WRLCK, 100, 50, holder)
        );
        let mut free = range(F_WRLCK, 0, 100);
        fcntl_lock(other.0, F_GETLK, &mut free).unwrap();
        assert_eq!(i32::from(free.l_type), F_UNLCK);
    });
    let mut own = range(F_WRLCK, 100, 1);
    fcntl_lock(f.0, F_GETLK, &mut own).unwrap();
    assert_eq!(i32::from(own.l_type), F_UNLCK);
}

fn ranges_go_at_any_close() {
    let f = make(c"f");
    set(f.0, F_WRLCK, 0, 0).unwrap();
    elsewhere(F_WRLCK, 0, 1, false);
    drop(reopened());
    elsewhere(F_WRLCK, 0, 1, true);
    set(f.0, F_WRLCK, 0, 0).unwrap();
    drop(dup(f.0).unwrap());
    elsewhere(F_WRLCK, 0, 1, true);
}

fn ranges_do_not_pass_to_children() {
    let f = make(c"f");
    set(f.0, F_WRLCK, 0, 0).unwrap();
    let fd = f.0;
    apart(move || {
        refused(set(fd, F_WRLCK, 0, 0));
        close(fd).unwrap();
    });
    elsewhere(F_WRLCK, 0, 0, false);
}

fn ranges_split_and_join() {
    let f = make(c"f");
    set(f.0, F_WRLCK, 0, 100).unwrap();
    set(f.0, F_UNLCK, 40, 20).unwrap();
    set(f.0, F_RDLCK, 80, 20).unwrap();
    for (start, writable, readable) in [
        (0, false, false),
        (39, false, false),
        (40, true, true),
        (59, true, true),
        (60, false, false),
        (80, false, true),
    ] {
        elsewhere(F_WRLCK, start, 1, writable);
        elsewhere(F_RDLCK, start, 1, readable);
    }
    set(f.0, F_WRLCK, 40, 60).unwrap();
    elsewhere(F_RDLCK, 0, 100, false);
    apart(|| {
        let mut found = range(F_RDLCK, 50, 1);
        fcntl_lock(reopened().0, F_GETLK, &mut found).unwrap();
        assert_eq!((found.l_start, found.l_len), (0, 100));
    });
}

fn ranges_refused() {
    let f = make(c"f");
    fails(EINVAL, set(f.0, F_WRLCK, -1, 10));
    fails(EINVAL, set(f.0, F_WRLCK, 5, -6));
    fails(EINVAL, set(f.0, 99, 0, 1));
    fails(EBADF, set(-1, F_WRLCK, 0, 1));
    fails(EOVERFLOW, set(f.0, F_WRLCK, i64::MAX, 2));
    set(f.0, F_WRLCK, 10, -5).unwrap();
    elsewhere(F_WRLCK, 4, 1, true);
    elsewhere(F_WRLCK, 5, 1, false);
    elsewhere(F_WRLCK, 10, 1, true);
}

fn ranges_relative_to_position_and_end() {
    let f = make(c"f");
    put(f.0, &[0; 100]);
    lseek(f.0, 30, SEEK_SET).unwrap();
    let mut here = range(F_WRLCK, 5, 5);
    here.l_whence = SEEK_CUR as i16;
    fcntl_lock(f.0, F_SETLK, &mut here).unwrap();
    let mut end = range(F_WRLCK, -10, 5);
    end.l_whence = SEEK_END as i16;
    fcntl_lock(f.0, F_SETLK, &mut end).unwrap();
    for (start, free) in [
        (34, true),
        (35, false),
        (39, false),
        (40, true),
        (89, true),
        (90, false),
        (94, false),
        (95, true),
    ] {
        elsewhere(F_WRLCK, start, 1, free);
    }
}

fn description_locks_exclude_each_other() {
    let (one, other) = (make(c"f"), reopened());
    set_description(one.0, F_WRLCK, 0, 10).unwrap();
    refused(set_description(other.0, F_RDLCK, 5, 1));
    set_description(other.0, F_WRLCK, 10, 10).unwrap();
    refused(set(one.0, F_WRLCK, 15, 1));
    let mut found = range(F_WRLCK, 0, 1);
    fcntl_lock(other.0, F_OFD_GETLK, &mut found).unwrap();
    assert_eq!((i32::from(found.l_type), found.l_pid), (F_WRLCK, -1));
    // Not gone when another description of the file is closed.
    drop(reopened());
    refused(set_description(other.0, F_WRLCK, 0, 1));
    drop(one);
    set_description(other.0, F_WRLCK, 0, 10).unwrap();
    let mut wrong = range(F_WRLCK, 0, 1);
    wrong.l_pid = 1;
    fails(EINVAL, fcntl_lock(other.0, F_OFD_SETLK, &mut wrong));
}

fn description_locks_pass_to_children() {
    let f = make(c"f");
    set_description(f.0, F_WRLCK, 0, 0).unwrap();
    let fd = f.0;
    apart(move || {
        set_description(fd, F_WRLCK, 0, 0).unwrap();
        refused(set_description(reopened().0, F_WRLCK, 0, 0));
    });
    refused(set_description(reopened().0, F_WRLCK, 0, 0));
}

fn waiting_ends_when_released() {
    let f = make(c"f");
    for wait in [F_SETLKW, F_OFD_SETLKW, 0] {
        let (told, tell) = pipe().unwrap();
        let (locked, release) = pipe().unwrap();
        let lock = move |fd: i32, wait: i32, kind: i32| match wait {
            0 => flock(fd, if kind == F_UNLCK { LOCK_UN } else { LOCK_EX }),
            _ => fcntl_lock(fd, wait, &mut range(kind, 0, 0)),
        };
        let holder = Child::begin(|| {
            let own = reopened();
            lock(own.0, wait, F_WRLCK).unwrap();
            put(tell.0, b"!");
            assert_eq!(read(locked.0, &mut [0; 1]), Ok(1));
            tick();
            assert_eq!(pwrite(own.0, b"done", 0), Ok(4));
            lock(own.0, wait, F_UNLCK).unwrap();
        });
        ftruncate(f.0, 0).unwrap();
        assert_eq!(read(told.0, &mut [0; 1]), Ok(1));
        put(release.0, b"!");
        lock(f.0, wait, F_WRLCK).unwrap();
        assert_same(&content(f.0), b"done");
        lock(f.0, wait, F_UNLCK).unwrap();
        holder.join();
    }
}

fn deadlocks_are_noticed() {
    let f = make(c"f");
    let ((told, tell), (goes, go)) = (pipe().unwrap(), pipe().unwrap());
    set(f.0, F_WRLCK, 0, 1).unwrap();
    let other = Child::begin(|| {
        let own = reopened();
        set(own.0, F_WRLCK, 1, 1).unwrap();
        put(tell.0, b"!");
        fcntl_lock(own.0, F_SETLKW, &mut range(F_WRLCK, 0, 1)).unwrap();
        put(tell.0, b"!");
        let _ = read(goes.0, &mut [0; 1]);
    });
    assert_eq!(read(told.0, &mut [0; 1]), Ok(1));
    // Until it waits: asking sooner would wait ourselves, until it is killed by its own wait's end.
    let path = format!("/proc/{}/wchan", other.pid());
    for _ in 0..500 {
        let waits = std::fs::read_to_string(&path).is_ok_and(|place| place.contains("lock"));
        if waits {
            break;
        }
        tick();
    }
    fails(
        EDEADLK,
        fcntl_lock(f.0, F_SETLKW, &mut range(F_WRLCK, 1, 1)),
    );
    set(f.0, F_UNLCK, 0, 0).unwrap();
    assert_eq!(read(told.0, &mut [0; 1]), Ok(1));
    put(go.0, b"!");
    other.join();
}

/// A process that holds all locks of `f`, until it is killed.
fn holder() -> Child {
    let (told, tell) = pipe().unwrap();
    let holder = Child::begin(|| {
        let own = reopened();
        set(own.0, F_WRLCK, 0, 0).unwrap();
        flock(own.0, LOCK_EX).unwrap();
        put(tell.0, b"!");
        call::pause();
    });
    assert_eq!(read(told.0, &mut [0; 1]), Ok(1));
    holder
}

fn locks_go_with_their_process() {
    let f = make(c"f");
    let holder = holder();
    refused(set(f.0, F_WRLCK, 0, 0));
    fails(EAGAIN, flock(f.0, LOCK_SH | LOCK_NB));
    holder.kill();
    let _ = holder.end(std::time::Duration::from_secs(20));
    set(f.0, F_WRLCK, 0, 0).unwrap();
    flock(f.0, LOCK_EX | LOCK_NB).unwrap();
}

fn ranges_far_out() {
    let f = make(c"f");
    for start in [1i64 << 31, 1 << 32, i64::MAX - 10] {
        set(f.0, F_WRLCK, start, 5).unwrap();
        elsewhere(F_WRLCK, start - 1, 1, true);
        elsewhere(F_WRLCK, start + 4, 1, false);
        elsewhere(F_WRLCK, start + 5, 1, true);
        set(f.0, F_UNLCK, 0, 0).unwrap();
    }
}

fn read_locks_need_readers() {
    file(c"f", b"");
    let (reader, writer) = (
        open(c"f", O_RDONLY, 0).unwrap(),
        open(c"f", O_WRONLY, 0).unwrap(),
    );
    fails(EBADF, set(reader.0, F_WRLCK, 0, 1));
    fails(EBADF, set(writer.0, F_RDLCK, 0, 1));
    fails(EBADF, set_description(reader.0, F_WRLCK, 0, 1));
    set(reader.0, F_RDLCK, 0, 1).unwrap();
    set(writer.0, F_WRLCK, 0, 1).unwrap();
}

fn signals_end_the_waiting() {
    extern "C" fn wake(_: i32) {}
    let f = make(c"f");
    let holder = holder();
    let waits: [&dyn Fn() -> Answer<()>; 2] = [
        &|| fcntl_lock(f.0, F_SETLKW, &mut range(F_WRLCK, 0, 1)),
        &|| flock(f.0, LOCK_SH),
    ];
    for wait in waits {
        // Again and again, until one comes while it waits.
        call::interrupt_by(SIGALRM, wake).unwrap();
        let often = timeval {
            tv_sec: 0,
            tv_usec: 20_000,
        };
        call::alarm_every(often).unwrap();
        fails(EINTR, wait());
    }
    holder.kill();
    let _ = holder.end(std::time::Duration::from_secs(20));
}

/// A lease is told, and the next one to open breaks it; or there are none.
fn leases_are_broken_or_refused() {
    // The signal would end this process.
    call::ignore(SIGIO);
    file(c"f", b"");
    let f = open(c"f", O_RDONLY, 0).unwrap();
    match fcntl(f.0, F_SETLEASE, F_RDLCK) {
        Ok(_) => {
            assert_eq!(fcntl(f.0, F_GETLEASE, 0), Ok(F_RDLCK.into()));
            fails(EAGAIN, open(c"f", O_WRONLY | O_NONBLOCK, 0));
            fcntl(f.0, F_SETLEASE, F_UNLCK).unwrap();
        }
        answer => fails(EINVAL, answer),
    }
    drop(open(c"f", O_WRONLY | O_NONBLOCK, 0).unwrap());
}

fn leases_need_a_file_that_is_not_open_elsewhere() {
    call::ignore(SIGIO);
    let f = make(c"f");
    put(f.0, b"data");
    if let Err(errno) = fcntl(f.0, F_SETLEASE, F_WRLCK) {
        fails(EINVAL, Err::<(), _>(errno));
        skip("no leases here");
    }
    fcntl(f.0, F_SETLEASE, F_UNLCK).unwrap();
    let again = open(c"f", O_RDONLY, 0).unwrap();
    assert_eq!(pread(again.0, &mut [0; 4], 0), Ok(4));
    fails(EAGAIN, fcntl(f.0, F_SETLEASE, F_WRLCK));
    drop(again);
    let (done, tell) = pipe().unwrap();
    let (go, tell_go) = pipe().unwrap();
    drop(f);
    let other = Child::begin(|| {
        let f = open(c"f", O_RDWR, 0).unwrap();
        assert_eq!(pread(f.0, &mut [0; 4], 0), Ok(4));
        assert_eq!(write(tell.0, b"o"), Ok(1));
        assert_eq!(read(go.0, &mut [0]), Ok(1));
    });
    assert_eq!(read(done.0, &mut [0]), Ok(1));
    let f = open(c"f", O_RDONLY, 0).unwrap();
    for kind in [F_WRLCK, F_RDLCK] {
        fails(EAGAIN, fcntl(f.0, F_SETLEASE, kind));
    }
    assert_eq!(write(tell_go.0, b"g"), Ok(1));
    other.join();
    fcntl(f.0, F_SETLEASE, F_WRLCK).unwrap();
}
