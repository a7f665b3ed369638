//! `syscall`: what programs do past the other hooks. Calls on descriptors and processes go the way
//! of their hook; all others pass. The engine's own calls (futexes) go straight to the kernel.

use super::map::hand_over;
use super::{
    arrivals, asynchronous, directory, dup_close, open, process, read, rights, signal, waiting,
    watching, whereabouts, write,
};
use crate::description::record;
use crate::files::forks;
use crate::serve::path::{by_kernel, by_kernel_at};
use crate::system::{errno, raw, real};
use crate::{signals, thread};
use libc::{c_char, c_int, c_long, c_uint};

fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    if thread::current().has(thread::INSIDE) {
        // SAFETY: what the engine asked for, with its arguments.
        return errno::from_kernel(unsafe { raw::call(number, [a, b, c, d, e, f]) }) as c_long;
    }
    let fd = a as c_int;
    let real = || real::syscall(number, a, b, c, d, e, f);
    match number {
        libc::SYS_read => read::read(fd, b as *mut _, c) as c_long,
        libc::SYS_write => write::write(fd, b as *const _, c) as c_long,
        libc::SYS_pread64 => read::pread(fd, b as *mut _, c, d as i64) as c_long,
        libc::SYS_pwrite64 => write::pwrite(fd, b as *const _, c, d as i64) as c_long,
        libc::SYS_close => dup_close::close(fd).into(),
        libc::SYS_close_range => {
            dup_close::close_range(a as c_uint, b as c_uint, c as c_int).into()
        }
        libc::SYS_dup => dup_close::dup(fd).into(),
        libc::SYS_dup2 => dup_close::dup2(fd, b as c_int).into(),
        libc::SYS_dup3 => dup_close::dup3(fd, b as c_int, c as c_int).into(),
        libc::SYS_fcntl => dup_close::fcntl(fd, b as c_int, c).into(),
        libc::SYS_getdents64 => directory::entries_or(fd, b as *mut _, c, real),
        libc::SYS_open => open::opened_by_number(real() as isize, b) as c_long,
        libc::SYS_openat => by_kernel_at(fd, b as *const c_char)
            .unwrap_or_else(|| open::opened_by_number(real() as isize, c) as c_long),
        libc::SYS_openat2 => by_kernel_at(fd, b as *const c_char)
            .unwrap_or_else(|| arrivals::arrived(real() as c_int).into()),
        libc::SYS_memfd_create | libc::SYS_pidfd_getfd => {
            crate::serve::open_in_kernel(fd);
            arrivals::arrived(real() as c_int).into()
        }
        libc::SYS_sigaltstack => signal::sigaltstack_by_number(a, b),
        libc::SYS_fork => process::fork().into(),
        libc::SYS_chdir => whereabouts::directory_changed(real()),
        libc::SYS_fchdir => whereabouts::directory_changed(by_kernel(fd).unwrap_or_else(real)),
        libc::SYS_inotify_add_watch => {
            watching::inotify_add_watch(fd, b as *const c_char, c as u32).into()
        }
        libc::SYS_fanotify_mark => {
            let path = e as *const c_char;
            watching::fanotify_mark(fd, b as c_uint, c as u64, d as c_int, path).into()
        }
        libc::SYS_umask => whereabouts::umask_set(a as u32, real()),
        libc::SYS_io_submit => {
            asynchronous::tell_sizes(b as c_long, c as *const _);
            real()
        }
        libc::SYS_mmap => {
            // The kernel maps up to the size it knows.
            handed_over(e as c_int).unwrap_or_else(real)
        }
        libc::SYS_lseek
        | libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_preadv2
        | libc::SYS_pwritev2
        | libc::SYS_sendfile
        | libc::SYS_splice
        | libc::SYS_copy_file_range => {
            let other = match number {
                libc::SYS_sendfile => Some(b as c_int),
                libc::SYS_splice | libc::SYS_copy_file_range => Some(c as c_int),
                _ => None,
            };
            handed_over(fd)
                .or_else(|| other.and_then(handed_over))
                .unwrap_or_else(real)
        }
        libc::SYS_io_uring_setup => {
            // What is opened later is used past libc.
            crate::serve::expect_bare_calls();
            real()
        }
        libc::SYS_execve | libc::SYS_execveat | libc::SYS_sendmsg | libc::SYS_sendmmsg => {
            forks::share_descriptors();
            real()
        }
        libc::SYS_poll | libc::SYS_ppoll => {
            waiting::open_of_list(a as *const _, b as u64);
            sleeping(real)
        }
        libc::SYS_select | libc::SYS_pselect6 => {
            waiting::open_of_sets(fd, [b, c, d].map(|set| set as *mut _));
            sleeping(real)
        }
        libc::SYS_landlock_add_rule => {
            // The rule names a descriptor.
            crate::serve::open_all_in_kernel();
            real()
        }
        libc::SYS_clone | libc::SYS_clone3 => around_clone(number, a, real),
        libc::SYS_unshare => dup_close::unshare(a as c_int).into(),
        _ => {
            open_in_kernel([a, b, c, d, e, f]);
            signals::before_sleep();
            rights::around_number(number, [a, b, c], real)
        }
    }
}

/// The kernel's position counts for calls that the kernel makes. The call's answer where it cannot have the file open.
fn handed_over(fd: c_int) -> Option<c_long> {
    let refused = by_kernel(fd);
    if refused.is_none() {
        hand_over(fd);
    }
    refused
}

fn sleeping(call: impl FnOnce() -> c_long) -> c_long {
    signals::before_sleep();
    call()
}

/// Any argument may be a descriptor.
fn open_in_kernel(arguments: [usize; 6]) {
    if record::may_any_be_deferred() {
        let numbers = arguments.into_iter().map(c_int::try_from);
        numbers.flatten().for_each(crate::serve::open_in_kernel);
    }
}

fn around_clone(number: c_long, flags: usize, clone: impl FnOnce() -> c_long) -> c_long {
    if number == libc::SYS_clone && flags as c_int & libc::CLONE_VM != 0 {
        // A thread, or a child in this memory that returns on a stack of its own.
        if flags as c_int & libc::CLONE_THREAD == 0 {
            forks::note_borrower();
        }
        return clone();
    }
    forks::around_bare_fork(|| clone() as isize) as c_long
}

export! {
    syscall => syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;
}
