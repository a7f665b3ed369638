//! Calls that change whose rights the process has, where its paths lead, or which calls it may make: before
//! them the volumes are left (see `withdraw`), unless it is plain that they change nothing.

use super::dup_close::unshare;
use crate::files::withdraw;
use crate::system::{raw, real};
use libc::{c_char, c_int, c_long, c_uint, c_void, size_t};

/// "As it is", in the calls that set several.
const KEEP: u32 = u32::MAX;
const SECCOMP_MODE_STRICT: usize = 1;
const SECCOMP_MODE_FILTER: usize = 2;
const SECCOMP_SET_MODE_STRICT: usize = 0;
const SECCOMP_SET_MODE_FILTER: usize = 1;

/// Real, effective and saved user or group, and the one for files.
type Four = [u32; 4];

fn users() -> Four {
    let [mut own, mut effective, mut saved] = [KEEP; 3];
    raw::getresuid(&raw mut own, &raw mut effective, &raw mut saved);
    // There is no user -1: nothing is set.
    [own, effective, saved, raw::setfsuid(KEEP) as u32]
}

fn groups() -> Four {
    let [mut own, mut effective, mut saved] = [KEEP; 3];
    raw::getresgid(&raw mut own, &raw mut effective, &raw mut saved);
    [own, effective, saved, raw::setfsgid(KEEP) as u32]
}

/// Run a call that sets these, [`KEEP`] for those it leaves.
fn setting<T>(wanted: Four, current: fn() -> Four, call: impl FnOnce() -> T) -> T {
    if !withdraw::is_attached() {
        return withdraw::around(call);
    }
    let differs = |(wanted, now): (&u32, &u32)| *wanted != KEEP && wanted != now;
    if wanted.iter().zip(&current()).any(differs) {
        withdraw::around(call)
    } else {
        call()
    }
}

/// What `setreuid` and `setregid` set: what is saved and counts for files follows the effective one.
fn two(own: u32, effective: u32, current: fn() -> Four) -> Four {
    let effective = match effective {
        KEEP => current()[1],
        _ => effective,
    };
    [own, effective, effective, effective]
}

fn setuid(user: c_uint) -> c_int {
    setting([user; 4], users, || real::setuid(user))
}

fn setgid(group: c_uint) -> c_int {
    setting([group; 4], groups, || real::setgid(group))
}

fn seteuid(user: c_uint) -> c_int {
    setting([KEEP, user, KEEP, user], users, || real::seteuid(user))
}

fn setegid(group: c_uint) -> c_int {
    setting([KEEP, group, KEEP, group], groups, || real::setegid(group))
}

fn setreuid(own: c_uint, effective: c_uint) -> c_int {
    let wanted = two(own, effective, users);
    setting(wanted, users, || real::setreuid(own, effective))
}

fn setregid(own: c_uint, effective: c_uint) -> c_int {
    let wanted = two(own, effective, groups);
    setting(wanted, groups, || real::setregid(own, effective))
}

fn setresuid(own: c_uint, effective: c_uint, saved: c_uint) -> c_int {
    let wanted = [own, effective, saved, effective];
    setting(wanted, users, || real::setresuid(own, effective, saved))
}

fn setresgid(own: c_uint, effective: c_uint, saved: c_uint) -> c_int {
    let wanted = [own, effective, saved, effective];
    setting(wanted, groups, || real::setresgid(own, effective, saved))
}

fn setfsuid(user: c_uint) -> c_int {
    setting([KEEP, KEEP, KEEP, user], users, || real::setfsuid(user))
}

fn setfsgid(group: c_uint) -> c_int {
    setting([KEEP, KEEP, KEEP, group], groups, || real::setfsgid(group))
}

fn setgroups(count: size_t, groups: *const c_uint) -> c_int {
    withdraw::around(|| real::setgroups(count, groups))
}

fn initgroups(name: *const c_char, group: c_uint) -> c_int {
    withdraw::around(|| real::initgroups(name, group))
}

fn capset(header: *mut c_void, sets: *const c_void) -> c_int {
    withdraw::around(|| real::capset(header, sets))
}

fn chroot(path: *const c_char) -> c_int {
    withdraw::around(|| real::chroot(path))
}

fn pivot_root(root: *const c_char, old: *const c_char) -> c_int {
    withdraw::around(|| real::pivot_root(root, old))
}

/// Of a network or a host name, too: the descriptor alone tells which, if it does.
fn setns(fd: c_int, kind: c_int) -> c_int {
    withdraw::around(|| real::setns(fd, kind))
}

fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    if is_confining_prctl(option, a, b) {
        withdraw::for_good();
    }
    real::prctl(option, a, b, c, d)
}

/// From its return on, a call that the program does not make itself may end it. Without a filter it only asks.
fn is_confining_prctl(option: c_int, mode: usize, filter: usize) -> bool {
    let sets = mode == SECCOMP_MODE_STRICT || (mode == SECCOMP_MODE_FILTER && filter != 0);
    option == libc::PR_SET_SECCOMP && sets
}

fn is_confining(operation: usize, filter: usize) -> bool {
    operation == SECCOMP_SET_MODE_STRICT || (operation == SECCOMP_SET_MODE_FILTER && filter != 0)
}

/// The same calls, by number.
pub(super) fn around_number(
    number: c_long,
    [a, b, c]: [usize; 3],
    call: impl FnOnce() -> c_long,
) -> c_long {
    let (one, other, last) = (a as u32, b as u32, c as u32);
    match number {
        libc::SYS_setuid => setting([one; 4], users, call),
        libc::SYS_setgid => setting([one; 4], groups, call),
        libc::SYS_setreuid => setting(two(one, other, users), users, call),
        libc::SYS_setregid => setting(two(one, other, groups), groups, call),
        libc::SYS_setresuid => setting([one, other, last, other], users, call),
        libc::SYS_setresgid => setting([one, other, last, other], groups, call),
        libc::SYS_setfsuid => setting([KEEP, KEEP, KEEP, one], users, call),
        libc::SYS_setfsgid => setting([KEEP, KEEP, KEEP, one], groups, call),
        libc::SYS_setgroups
        | libc::SYS_capset
        | libc::SYS_chroot
        | libc::SYS_pivot_root
        | libc::SYS_setns
        | libc::SYS_landlock_restrict_self => withdraw::around(call),
        libc::SYS_prctl if is_confining_prctl(a as c_int, b, c) => confined(call),
        libc::SYS_seccomp if is_confining(a, c) => confined(call),
        _ => call(),
    }
}

fn confined(call: impl FnOnce() -> c_long) -> c_long {
    withdraw::for_good();
    call()
}

export! {
    setuid => setuid(user: c_uint) -> c_int;
    setgid => setgid(group: c_uint) -> c_int;
    seteuid => seteuid(user: c_uint) -> c_int;
    setegid => setegid(group: c_uint) -> c_int;
    setreuid => setreuid(own: c_uint, effective: c_uint) -> c_int;
    setregid => setregid(own: c_uint, effective: c_uint) -> c_int;
    setresuid => setresuid(own: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    setresgid => setresgid(own: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    setfsuid => setfsuid(user: c_uint) -> c_int;
    setfsgid => setfsgid(group: c_uint) -> c_int;
    setgroups => setgroups(count: size_t, groups: *const c_uint) -> c_int;
    initgroups => initgroups(name: *const c_char, group: c_uint) -> c_int;
    capset => capset(header: *mut c_void, sets: *const c_void) -> c_int;
    chroot => chroot(path: *const c_char) -> c_int;
    pivot_root => pivot_root(root: *const c_char, old: *const c_char) -> c_int;
    setns => setns(fd: c_int, kind: c_int) -> c_int;
    unshare => unshare(flags: c_int) -> c_int;
    prctl => prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int;
}
