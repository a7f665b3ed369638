//! Directory streams and `getdents64`. Every function that takes a `DIR` is here: one of ours is for none of libc's.

use super::{arrivals, dup_close, position};
use crate::files::dir_entries::{ROOM_BYTES, fill, read_with};
use crate::files::dir_streams::{self, Owner, Stream};
use crate::files::{direct_open, numbers};
use crate::serve;
use crate::system::guarded_copy::copy;
use crate::system::{caller, errno, real};
use libc::{DIR, c_char, c_int, c_long, c_void, dirent, size_t, ssize_t};
use std::ptr::null_mut;

/// As `opendir` of libc opens.
const OPENING: c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// Run `ours` on a stream of ours, `libc` for one of libc's.
fn on<T>(
    stream: *mut DIR,
    closed: T,
    ours: impl FnOnce(&'static Stream) -> T,
    libc: impl FnOnce() -> T,
) -> T {
    match dir_streams::owner(stream) {
        Owner::Libc => libc(),
        Owner::Ours(stream) => ours(stream),
        Owner::Closed => {
            errno::set(libc::EBADF);
            closed
        }
    }
}

/// A stream of ours on a directory of a volume; `None`: libc is to open it.
fn open_ours(directory: c_int, path: *const c_char) -> Option<*mut DIR> {
    let fd = direct_open::open(directory, path, OPENING, 0)?;
    if fd < 0 {
        return Some(null_mut());
    }
    let stream = dir_streams::open(fd);
    if stream.is_none() {
        dup_close::close(fd);
    }
    stream
}

fn opendir(path: *const c_char) -> *mut DIR {
    open_ours(libc::AT_FDCWD, path).unwrap_or_else(|| {
        let stream = real::opendir(path);
        if !stream.is_null() {
            arrivals::arrived(real::dirfd(stream));
        }
        stream
    })
}

fn fdopendir(fd: c_int) -> *mut DIR {
    let mut is_ours = false;
    serve::quietly(fd, |record| {
        is_ours = record.is_directory() && !record.is_path();
    });
    if is_ours && let Some(stream) = dir_streams::open(fd) {
        return stream;
    }
    serve::open_in_kernel(fd);
    serve::publish(fd);
    numbers::arrived(fd);
    real::fdopendir(fd)
}

fn closedir(stream: *mut DIR) -> c_int {
    let ours = |stream: &'static Stream| dup_close::close_within(stream.close());
    on(stream, -1, ours, || {
        if stream.is_null() {
            real::closedir(stream)
        } else {
            dup_close::closing(real::dirfd(stream), || real::closedir(stream))
        }
    })
}

fn readdir(stream: *mut DIR) -> *mut dirent {
    on(stream, null_mut(), Stream::next, || real::readdir(stream))
}

fn readdir_r(stream: *mut DIR, into: *mut dirent, next: *mut *mut dirent) -> c_int {
    let ours = |stream: &'static Stream| {
        let (entry, answer) = match stream.next_into(into) {
            Ok(entry) => (entry, 0),
            Err(errno) => (null_mut(), errno),
        };
        caller::write(next, entry);
        answer
    };
    on(stream, libc::EBADF, ours, || {
        real::readdir_r(stream, into, next)
    })
}

fn go_to(stream: &'static Stream, place: c_long) {
    stream.go_to(place, |fd| {
        position::lseek(fd, place, libc::SEEK_SET);
    });
}

fn rewinddir(stream: *mut DIR) {
    on(
        stream,
        (),
        |stream| go_to(stream, 0),
        || real::rewinddir(stream),
    );
}

fn seekdir(stream: *mut DIR, place: c_long) {
    on(
        stream,
        (),
        |stream| go_to(stream, place),
        || real::seekdir(stream, place),
    );
}

fn telldir(stream: *mut DIR) -> c_long {
    on(stream, -1, Stream::position, || real::telldir(stream))
}

fn dirfd(stream: *mut DIR) -> c_int {
    on(stream, -1, Stream::fd, || real::dirfd(stream))
}

/// `getdents64`, for a program's own buffer.
fn entries(fd: c_int, into: *mut c_void, room: size_t) -> Option<isize> {
    read_with(fd, |record, place| {
        let mut entries = vec![0; room.min(ROOM_BYTES)];
        let before = *place;
        let filled = fill(record, place, &mut entries);
        // SAFETY: the program gave the address to be written; a bad one answers false.
        if filled > 0 && !unsafe { copy(into.cast(), entries.as_ptr(), filled as usize) } {
            *place = before;
            return -libc::EFAULT as isize;
        }
        filled
    })
}

/// The system call, for `syscall`; `kernel` makes it.
pub(super) fn entries_or(
    fd: c_int,
    into: *mut c_void,
    room: size_t,
    kernel: impl FnOnce() -> c_long,
) -> c_long {
    match entries(fd, into, room) {
        Some(filled) => errno::from_kernel(filled) as c_long,
        None => kernel(),
    }
}

fn getdents64(fd: c_int, into: *mut c_void, room: size_t) -> ssize_t {
    entries_or(fd, into, room, || {
        real::getdents64(fd, into, room) as c_long
    }) as ssize_t
}

/// What libc does with two system calls of its own.
fn getdirentries(fd: c_int, into: *mut c_char, room: size_t, base: *mut i64) -> ssize_t {
    serve::publish(fd);
    real::getdirentries(fd, into, room, base)
}

type Select = Option<extern "C-unwind" fn(*const dirent) -> c_int>;
type Compare = Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>;

/// Entries in the program's own memory, given back when they are not handed over.
struct List {
    entries: *mut *mut dirent,
    count: usize,
    room: usize,
}

impl List {
    const EMPTY: List = List {
        entries: null_mut(),
        count: 0,
        room: 0,
    };

    /// Add a copy of what a stream returned last; false when there is no memory.
    fn add(&mut self, entry: *const dirent) -> bool {
        // SAFETY: the addresses are null, or from here; an entry is as long as it says; there is room for one more
        // address.
        unsafe {
            if self.count == self.room {
                let room = (2 * self.room).max(16);
                let bytes = room * size_of::<*mut dirent>();
                let entries = libc::realloc(self.entries.cast(), bytes);
                if entries.is_null() {
                    return false;
                }
                (self.entries, self.room) = (entries.cast(), room);
            }
            let bytes = usize::from((*entry).d_reclen);
            let copied = libc::malloc(bytes).cast::<u8>();
            if copied.is_null() {
                return false;
            }
            std::ptr::copy_nonoverlapping(entry.cast::<u8>(), copied, bytes);
            *self.entries.add(self.count) = copied.cast();
        }
        self.count += 1;
        true
    }

    fn sort(&mut self, compare: Compare) {
        if compare.is_some() && self.count > 0 {
            let bytes = size_of::<*mut dirent>();
            // SAFETY: so many addresses; the program's function compares what is at two of them.
            unsafe { libc::qsort(self.entries.cast(), self.count, bytes, compare) };
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: filled by `add`, and handed to nobody.
        unsafe {
            for index in 0..self.count {
                libc::free((*self.entries.add(index)).cast());
            }
            libc::free(self.entries.cast());
        }
    }
}

/// What `scandir` does with a stream that is open.
fn scan(stream: &'static Stream, select: Select) -> Option<List> {
    let mut list = List::EMPTY;
    loop {
        errno::set(0);
        let entry = stream.next();
        if entry.is_null() {
            return (errno::get() == 0).then_some(list);
        }
        let is_wanted = select.is_none_or(|select| select(entry) != 0);
        if is_wanted && !list.add(entry) {
            errno::set(libc::ENOMEM);
            return None;
        }
    }
}

fn scandirat(
    directory: c_int,
    path: *const c_char,
    into: *mut *mut *mut dirent,
    select: Select,
    compare: Compare,
) -> c_int {
    let error = errno::get();
    let Some(stream) = open_ours(directory, path) else {
        return real::scandirat(directory, path, into, select, compare);
    };
    let Owner::Ours(open) = dir_streams::owner(stream) else {
        return -1;
    };
    let list = scan(open, select);
    let failed = errno::get();
    closedir(stream);
    let Some(mut list) = list else {
        errno::set(failed);
        return -1;
    };
    list.sort(compare);
    caller::write(into, list.entries);
    let count = list.count as c_int;
    std::mem::forget(list);
    errno::set(error);
    count
}

fn scandir(
    path: *const c_char,
    into: *mut *mut *mut dirent,
    select: Select,
    compare: Compare,
) -> c_int {
    scandirat(libc::AT_FDCWD, path, into, select, compare)
}

export! {
    opendir => opendir(path: *const c_char) -> *mut DIR;
    fdopendir => fdopendir(fd: c_int) -> *mut DIR;
    closedir => closedir(stream: *mut DIR) -> c_int;
    readdir, readdir64 => readdir(stream: *mut DIR) -> *mut dirent;
    readdir_r, readdir64_r => readdir_r(stream: *mut DIR, into: *mut dirent, next: *mut *mut dirent) -> c_int;
    rewinddir => rewinddir(stream: *mut DIR) -> ();
    seekdir => seekdir(stream: *mut DIR, place: c_long) -> ();
    telldir => telldir(stream: *mut DIR) -> c_long;
    dirfd => dirfd(stream: *mut DIR) -> c_int;
    getdents64 => getdents64(fd: c_int, into: *mut c_void, room: size_t) -> ssize_t;
    getdirentries, getdirentries64 => getdirentries(fd: c_int, into: *mut c_char, room: size_t, base: *mut i64) -> ssize_t;
    scandir, scandir64 => scandir(path: *const c_char, into: *mut *mut *mut dirent, select: Select, compare: Compare) -> c_int;
    scandirat, scandirat64 => scandirat(directory: c_int, path: *const c_char, into: *mut *mut *mut dirent, select: Select, compare: Compare) -> c_int;
}
