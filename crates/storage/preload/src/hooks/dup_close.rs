//! `dup`, `close`, `fcntl` and their kin: what keeps the table of descriptors true.

use super::{lease, watching};
use crate::description::record::{Origin, Record, may_any_be_deferred};
use crate::descriptors::table::{self, Tag};
use crate::descriptors::{offset, reclaim};
use crate::files::{forks, numbers, range_locks, withdraw};
use crate::serve::{self, guarded, ownership, path};
use crate::system::{errno, libc_threads, raw, real};
use crate::thread;
use crate::trust::settings;
use crate::volumes::identity;
use libc::{c_int, c_uint};
use std::mem::MaybeUninit;
use std::ptr;

/// What a copy of a descriptor is in the table, with a reference of its own.
struct Copied {
    tag: Tag,
    record: *mut Record,
}

impl Copied {
    const UNKNOWN: Copied = Copied {
        tag: Tag::Unknown,
        record: ptr::null_mut(),
    };

    /// Prepare to copy `fd`, to a number that is a standard stream or not.
    fn of(fd: c_int, standard: bool) -> Copied {
        let word = table::load(fd);
        match word.tag() {
            Tag::NotOurs => Copied {
                tag: Tag::NotOurs,
                record: ptr::null_mut(),
            },
            // Two descriptors, each unknown: both must use the kernel's position.
            Tag::Fresh => {
                serve::publish(fd);
                Copied::UNKNOWN
            }
            Tag::Ours if ownership::owns_tables() => {
                if !libc_threads::alone() {
                    // The file could be opened between the copy and its word.
                    serve::open_in_kernel(fd);
                }
                if standard {
                    serve::publish(fd);
                }
                Copied::of_record(fd)
            }
            _ => Copied::UNKNOWN,
        }
    }

    fn of_record(fd: c_int) -> Copied {
        // Two numbers name it from now on.
        let word = table::load(fd);
        if word.is_sole() {
            table::share(fd, word);
        }
        let mut copied = Copied::UNKNOWN;
        serve::quietly(fd, |record| {
            if record.add_reference() {
                copied = Copied {
                    tag: Tag::Ours,
                    record: ptr::from_ref(record).cast_mut(),
                };
            }
        });
        if copied.tag != Tag::Ours {
            // Somebody else's description by now, or no way in: the copy finds out for itself.
            serve::publish(fd);
        }
        copied
    }

    fn give_back(self) {
        if self.tag == Tag::Ours {
            // SAFETY: our reference keeps it alive.
            if unsafe { (*self.record).drop_reference() } {
                reclaim::retire(self.record);
            }
        }
    }

    /// The copy has a number that was free before.
    fn settle(self, fd: c_int) {
        if fd < 0 || settings::is_off() {
            return self.give_back();
        }
        if self.tag == Tag::Ours && fd <= 2 {
            // SAFETY: our reference keeps it alive.
            let record = unsafe { &*self.record };
            thread::inside(|| offset::publish_record(record, fd));
        }
        loop {
            let before = table::load(fd);
            let none = settings::is_off() || table::place(fd).is_none();
            if none || !ownership::owns_tables() {
                return self.give_back();
            }
            let after = before.renewed(self.tag, self.record as u64);
            if table::replace(fd, before, after) {
                return reclaim::drop_reference(before);
            }
        }
    }
}

/// Of Linux 6.12.
const CREATED_QUERY: c_int = 1024 + 4;
/// Every open of a 64-bit program has it.
const O_LARGEFILE_OF_KERNEL: c_int = 0o100_000;

fn is_idle() -> bool {
    thread::current().has(thread::INSIDE)
}

/// `dup`.
pub(super) fn dup(fd: c_int) -> c_int {
    copy_with(fd, || real::dup(fd))
}

fn copy_with(fd: c_int, copy: impl FnOnce() -> c_int) -> c_int {
    if is_idle() {
        return copy();
    }
    let copied = Copied::of(fd, false);
    let made = copy();
    copied.settle(made);
    made
}

/// `dup2`.
pub(super) fn dup2(fd: c_int, to: c_int) -> c_int {
    copy_over(fd, to, || real::dup2(fd, to))
}

/// `dup3`.
pub(super) fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    copy_over(fd, to, || real::dup3(fd, to, flags))
}

fn copy_over(fd: c_int, to: c_int, copy: impl FnOnce() -> c_int) -> c_int {
    if is_idle() || fd == to || to < 0 {
        return copy();
    }
    let copied = Copied::of(fd, to <= 2);
    let closing = numbers::begin_close(to);
    let made = copy();
    if made < 0 {
        closing.undo();
        copied.give_back();
    } else if closing.is_marked() {
        let Copied { tag, record } = copied;
        if !closing.become_tag(tag, record) {
            Copied { tag, record }.give_back();
        }
    } else {
        copied.settle(made);
    }
    made
}

/// `close`.
pub(super) fn close(fd: c_int) -> c_int {
    if thread::is_inside() {
        // The engine's own are no cancellation points.
        return close_within(fd);
    }
    if is_idle() {
        return real::close(fd);
    }
    if !table::load(fd).is_ours() {
        return closing(fd, || real::close(fd));
    }
    // Once marked, the close must come to its end: cancelled before it, not within.
    libc_threads::end_if_cancelled();
    closing(fd, || errno::from_kernel(raw::close(fd)) as c_int)
}

/// `close` where nobody is cancelled.
pub(super) fn close_within(fd: c_int) -> c_int {
    let close = || errno::from_kernel(raw::close(fd)) as c_int;
    if is_idle() {
        close()
    } else {
        closing(fd, close)
    }
}

/// Close `fd` with `close`, which closes it in any case.
pub(super) fn closing<T>(fd: c_int, close: impl FnOnce() -> T) -> T {
    let closing = numbers::begin_close(fd);
    let outcome = close();
    let error = errno::get();
    closing.done();
    errno::set(error);
    outcome
}

/// Close a range with `close`; `true` from it when the numbers are closed.
pub(super) fn closing_range<T>(first: u32, last: u32, close: impl FnOnce() -> (T, bool)) -> T {
    const BATCH: usize = 16;
    // Numbers are marked a batch at a time, so that nothing is allocated: what is beyond the first
    // batch becomes unknown before the call, and again after it.
    let mut marked: [Option<numbers::Closing>; BATCH] = [const { None }; BATCH];
    let mut free = marked.iter_mut();
    table::for_each_known(first, last, |fd| match free.next() {
        Some(place) => *place = Some(numbers::begin_close(fd)),
        None => {
            table::wait_while_handed_over(fd);
            serve::publish(fd);
            numbers::arrived(fd);
        }
    });
    let (outcome, closed) = close();
    let error = errno::get();
    if closed {
        let number = |bound: u32| c_int::try_from(bound).unwrap_or(c_int::MAX);
        numbers::note_closed(number(first), number(last));
    }
    for closing in marked.into_iter().flatten() {
        if closed {
            closing.done()
        } else {
            closing.undo()
        }
    }
    errno::set(error);
    outcome
}

const CLOSE_RANGE_UNSHARE: c_int = 2;
const CLOSE_RANGE_CLOEXEC: c_int = 4;

/// `close_range`.
pub(super) fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if is_idle() || flags & CLOSE_RANGE_CLOEXEC != 0 || first > last {
        return real::close_range(first, last, flags);
    }
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        leave_shared_table();
    }
    closing_range(first, last, || {
        let answer = real::close_range(first, last, flags);
        (answer, answer == 0)
    })
}

fn closefrom(first: c_int) {
    if is_idle() {
        return real::closefrom(first);
    }
    closing_range(first.max(0) as u32, u32::MAX, || {
        (real::closefrom(first), true)
    });
}

/// What changes users and rights, or where paths lead.
const MOVING: c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;

/// `unshare`.
pub(super) fn unshare(flags: c_int) -> c_int {
    if flags & libc::CLONE_FILES != 0 {
        leave_shared_table();
    }
    if flags & (libc::CLONE_FS | MOVING) != 0 && !libc_threads::alone() {
        identity::note_umasks_of_threads();
    }
    if flags & MOVING != 0 {
        withdraw::around(|| real::unshare(flags))
    } else {
        real::unshare(flags)
    }
}

/// Threads are about to have different descriptor tables: ours cannot be all of them.
fn leave_shared_table() {
    if !settings::is_off() && !libc_threads::alone() && ownership::owns_tables() {
        forks::share_descriptors();
        settings::switch_off();
        table::forget_records();
    }
}

/// `fcntl`.
pub(super) fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            copy_with(fd, || real::fcntl(fd, command, argument))
        }
        libc::F_GETFL => {
            status_of_deferred(fd).unwrap_or_else(|| real::fcntl(fd, command, argument))
        }
        // Of the number, not of the file.
        libc::F_GETFD | libc::F_SETFD => real::fcntl(fd, command, argument),
        libc::F_SETFL => {
            if let Err(errno) = serve::try_open_in_kernel(fd) {
                errno::set(errno);
                return -1;
            }
            let answer = real::fcntl(fd, command, argument);
            if answer == 0 && !is_idle() {
                serve::quietly(fd, |record| record.set_status(argument as c_int));
            }
            answer
        }
        libc::F_GETLK
        | libc::F_SETLK
        | libc::F_SETLKW
        | libc::F_OFD_GETLK
        | libc::F_OFD_SETLK
        | libc::F_OFD_SETLKW => {
            if !is_idle() && [libc::F_SETLK, libc::F_SETLKW].contains(&command) {
                range_locks::note(fd);
            }
            if let Err(errno) = serve::try_open_in_kernel(fd) {
                errno::set(errno);
                return -1;
            }
            // What is not ours has nothing to hide, but may be ours unknown to us.
            match guarded::fetch(fd, argument as *const libc::flock) {
                None => serve::publish(fd),
                Some(lock) => match lock.l_whence.into() {
                    libc::SEEK_CUR => serve::publish(fd),
                    libc::SEEK_END => tell_size(fd),
                    _ => {}
                },
            }
            real::fcntl(fd, command, argument)
        }
        libc::F_NOTIFY => watching::notify(fd, argument),
        CREATED_QUERY => created_query(fd),
        libc::F_SETLEASE if argument as c_int != libc::F_UNLCK => lease::set(fd, argument),
        _ => path::by_kernel(fd).unwrap_or_else(|| real::fcntl(fd, command, argument)),
    }
}

/// Whether this open created the file. The kernel knows it of those that it made itself.
fn created_query(fd: c_int) -> c_int {
    let answer = real::fcntl(fd, CREATED_QUERY, 0);
    let mut created = None;
    if answer >= 0 && !is_idle() {
        serve::quietly(fd, |record| {
            created = record.origin().map(Origin::was_created)
        });
    }
    created.map_or(answer, c_int::from)
}

/// What `F_GETFL` says of a file that the kernel has not opened.
pub(super) fn status_of_deferred(fd: c_int) -> Option<c_int> {
    let mut status = None;
    if may_any_be_deferred() && !is_idle() {
        serve::quietly(fd, |record| {
            let large = if record.is_path() {
                0
            } else {
                O_LARGEFILE_OF_KERNEL
            };
            status = record.is_deferred().then(|| record.status() | large);
        });
    }
    status
}

/// The kernel learns the size of a file that was changed past it.
fn tell_size(fd: c_int) {
    let mut facts = MaybeUninit::<libc::stat>::uninit();
    raw::fstat(fd, facts.as_mut_ptr());
}

export! {
    dup => dup(fd: c_int) -> c_int;
    dup2, __dup2 => dup2(fd: c_int, to: c_int) -> c_int;
    dup3 => dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    close, __close => close(fd: c_int) -> c_int;
    close_range => close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    closefrom => closefrom(first: c_int) -> ();
    fcntl, fcntl64, __fcntl => fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
}
