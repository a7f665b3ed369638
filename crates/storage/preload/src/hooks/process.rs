//! Calls that make processes, or become another program: descriptors become shared.

use super::dup_close::{closing, closing_range};
use crate::files::{forks, numbers};
use crate::system::{caller, real};
use libc::{c_char, c_int, c_void, pid_t};

/// `fork`.
pub(super) fn fork() -> pid_t {
    forks::around_fork(|| real::fork() as isize) as pid_t
}

fn fork_bare() -> pid_t {
    forks::around_bare_fork(|| real::_Fork() as isize) as pid_t
}

fn clone(
    run: *mut c_void,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent: *mut c_void,
    tls: *mut c_void,
    child: *mut c_void,
) -> c_int {
    if flags & libc::CLONE_THREAD == 0 {
        forks::share_descriptors();
        if flags & libc::CLONE_VM != 0 {
            forks::note_borrower();
        }
    }
    real::clone(run, stack, flags, argument, parent, tls, child)
}

fn forkpty(
    one: *mut c_int,
    name: *mut c_char,
    settings: *const c_void,
    size: *const c_void,
) -> pid_t {
    let child = forks::around_fork(|| real::forkpty(one, name, settings, size) as isize) as pid_t;
    if child == 0 {
        (0..3).for_each(numbers::arrived);
    } else if child > 0 {
        // Libc filled it in.
        caller::read(one).into_iter().for_each(numbers::arrived);
    }
    child
}

fn login_tty(fd: c_int) -> c_int {
    closing(fd, || {
        closing_range(0, 2, || {
            let answer = real::login_tty(fd);
            (answer, answer == 0)
        })
    })
}

/// Forks inside libc, ends the parent there, and replaces the standard streams.
fn daemon(keep_directory: c_int, keep_streams: c_int) -> c_int {
    let answer =
        forks::around_fork(|| real::daemon(keep_directory, keep_streams) as isize) as c_int;
    if answer == 0 && keep_streams == 0 {
        (0..3).for_each(numbers::arrived);
    }
    answer
}

/// Functions that start another program, which then shares our descriptors.
macro_rules! starting {
    ($($name:ident($($argument:ident: $type:ty),*);)+) => {
        $(fn $name($($argument: $type),*) -> c_int {
            forks::share_descriptors();
            real::$name($($argument),*)
        })+
    };
}

starting! {
    execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char);
    execv(path: *const c_char, arguments: *const *const c_char);
    execvp(file: *const c_char, arguments: *const *const c_char);
    execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char);
    execveat(directory: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int);
    fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char);
    posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char);
    posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char);
    system(command: *const c_char);
}

export! {
    fork, __fork => fork() -> pid_t;
    _Fork => fork_bare() -> pid_t;
    clone, __clone => clone(run: *mut c_void, stack: *mut c_void, flags: c_int, argument: *mut c_void, parent: *mut c_void, tls: *mut c_void, child: *mut c_void) -> c_int;
    forkpty => forkpty(one: *mut c_int, name: *mut c_char, settings: *const c_void, size: *const c_void) -> pid_t;
    login_tty => login_tty(fd: c_int) -> c_int;
    daemon => daemon(keep_directory: c_int, keep_streams: c_int) -> c_int;
    execve => execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    execv => execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    execvp => execvp(file: *const c_char, arguments: *const *const c_char) -> c_int;
    execvpe => execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    execveat => execveat(directory: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int;
    fexecve => fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    posix_spawn => posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    posix_spawnp => posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    system => system(command: *const c_char) -> c_int;
}
