//! Files that the engine opened without the kernel. Their number is a placeholder, on which the kernel refuses every
//! call with data. Before the kernel must see the file, it is opened through the mount and takes the number, and all
//! copies of it.

use super::{placeholder, table};
use crate::description::record::{OPENINGS, Origin, Record};
use crate::sync::pause;
use crate::system::raw::{self, number};
use crate::trust::control_call::ask_mount;
use crate::trust::{Place, settings};
use crate::{bare_calls, thread};
use egeria_engine::control::{NO_DESCRIPTION_SLOT, NumberTicket, TICKET_REQUEST};
use egeria_engine::{InodeNumber, MAX_PATH_BYTES};
use libc::c_int;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};

/// Status flags that an open gives to a description, of those that `direct_open` admits.
pub const STATUS: c_int =
    libc::O_ACCMODE | libc::O_APPEND | libc::O_NONBLOCK | libc::O_SYNC | libc::O_DIRECT;
/// The same of a directory.
pub const DIRECTORY_STATUS: c_int = STATUS | libc::O_DIRECTORY | libc::O_NOFOLLOW;
/// The same of a directory for paths alone.
pub const PATH_STATUS: c_int = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;

const DIRECTORY: c_int = libc::O_DIRECTORY | libc::O_CLOEXEC;

/// Something uses descriptors where nobody can be asked: all opens go to the kernel from now on.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// From now on no open is deferred.
pub fn end() {
    IS_OVER.store(true, Ordering::Relaxed);
}

/// Whether opens may be deferred at all.
pub fn is_possible() -> bool {
    !IS_OVER.load(Ordering::Relaxed) && !settings::opens_in_kernel()
}

/// A number was taken out of the table and is about to be closed: wait for who may give it a file.
pub fn wait_for_opener() {
    thread::inside(|| OPENINGS.wait_for_opener());
}

/// In a fork child: whoever was opening is not here.
pub fn reset_in_child() {
    OPENINGS.reset_in_child();
}

/// Have the kernel open a record's file under `fd`, and under every other number that the record has. By a thread
/// that uses the record, inside.
///
/// # Errors
/// The errno of the open.
#[cold]
pub fn open_in_kernel(record: &Record, fd: c_int) -> Result<(), c_int> {
    let Some(origin) = record.origin() else {
        return Ok(());
    };
    OPENINGS.open(&record.deferral, || {
        let (opened, slot) = open(record, origin)?;
        replace(opened, fd);
        table::for_each_ours(|other, word| {
            if other != fd && std::ptr::eq(word.record(), record) {
                replace(opened, other);
            }
        });
        raw::close(opened);
        Ok(slot)
    })
}

/// The number means the opened file from now on, and stays closed by `exec` or not as it was.
fn replace(opened: c_int, fd: c_int) {
    let flags = raw::fcntl(fd, libc::F_GETFD, 0);
    // Closed and opened again past the library, it is another file of the program's.
    let is_own = || raw::facts_here(fd).is_some_and(|facts| bare_calls::is_placeholder(&facts));
    if flags >= 0 && is_own() {
        let cloexec = match flags as c_int & libc::FD_CLOEXEC {
            0 => 0,
            _ => libc::O_CLOEXEC,
        };
        if placeholder::is_among(fd, fd) {
            placeholder::forget(fd, fd);
        }
        raw::dup3(opened, fd, cloexec);
    }
}

/// In the mount that it was opened in, and in no other that took its place: without it, calls on open files fail.
fn open(record: &Record, origin: &Origin) -> Result<(c_int, u32), c_int> {
    let point = origin.point.as_ptr();
    let root = number(raw::openat(
        libc::AT_FDCWD,
        point,
        libc::O_PATH | DIRECTORY,
        0,
    ))?;
    let is_same = Place::of_directory(root).is_some_and(|at| at.mount() == Some(origin.mount));
    let opened = if is_same {
        open_below(root, record, origin)
    } else {
        Err(libc::ENOTCONN)
    };
    raw::close(root);
    opened
}

/// By its name, so that the kernel knows its path; by its number when it has no name, or no right to it, any more.
fn open_below(root: c_int, record: &Record, origin: &Origin) -> Result<(c_int, u32), c_int> {
    let flags = record.status() & STATUS | libc::O_CLOEXEC | libc::O_LARGEFILE;
    if record.is_directory() {
        return open_directory_below(root, record, origin, flags);
    }
    let named = record
        .volume()
        .path_to(origin.parent, &origin.name, record.ino());
    if let Some(path) = named.and_then(|path| CString::new(path).ok()) {
        // Without flags that `F_GETFL` would show.
        if let Ok(opened) = open_plain(root, &path, flags | libc::O_NOCTTY) {
            if let Some(slot) = slot_of(record, origin, opened) {
                return Ok((opened, slot));
            }
            raw::close(opened);
        }
    }
    open_by_number(root, record, origin, flags)
}

/// Open what should be a regular file below the root. The name may mean something else by now, which another user put there:
/// links and mounts are not followed, and a pipe is not waited for. `ENOSYS` before Linux 5.6.
fn open_plain(root: c_int, path: &CStr, flags: c_int) -> Result<c_int, c_int> {
    let how = raw::OpenHow {
        flags: (flags | libc::O_NONBLOCK | libc::O_NOFOLLOW) as u64,
        mode: 0,
        resolve: libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV,
    };
    let path = path.as_ptr();
    let opened = number(raw::openat2(root, path, &raw const how, size_of_val(&how)))?;
    if flags & libc::O_NONBLOCK == 0 {
        raw::fcntl(opened, libc::F_SETFL, (flags & STATUS) as usize);
    }
    Ok(opened)
}

/// By a name that the mount makes up for the inode, and that means it once.
fn open_by_number(
    root: c_int,
    record: &Record,
    origin: &Origin,
    flags: c_int,
) -> Result<(c_int, u32), c_int> {
    // The mount answers for open directories alone, not for places of paths.
    let directory = number(raw::openat(
        root,
        c".".as_ptr(),
        libc::O_RDONLY | DIRECTORY,
        0,
    ))?;
    let opened = open_with_ticket(directory, record, origin, flags);
    raw::close(directory);
    let opened = opened?;
    slot_of(record, origin, opened)
        .map(|slot| (opened, slot))
        .ok_or_else(|| {
            raw::close(opened);
            // The mount has ended since.
            libc::ENOTCONN
        })
}

fn open_with_ticket(
    directory: c_int,
    record: &Record,
    origin: &Origin,
    flags: c_int,
) -> Result<c_int, c_int> {
    let mut ticket = NumberTicket::asking(record.ino().0, origin.generation);
    let request = u64::from(TICKET_REQUEST);
    number(raw::ioctl(directory, request, (&raw mut ticket).cast()))?;
    let name = ticket.name().ok_or(libc::EIO)?;
    let flags = flags | libc::O_CREAT | libc::O_EXCL;
    let opened = number(raw::openat(directory, name.as_ptr(), flags, 0))?;
    if raw::facts_of(opened).is_some_and(|facts| facts.st_nlink == 0) {
        // The kernel learns that nothing has the name by which it was opened, and shows it as deleted.
        raw::facts_at(directory, name);
    }
    Ok(opened)
}

/// By the one name it has now, which may change at any time. A process that may not read it any more can
/// still begin paths there.
fn open_directory_below(
    root: c_int,
    record: &Record,
    origin: &Origin,
    flags: c_int,
) -> Result<(c_int, u32), c_int> {
    // About a second: also a loop of renames leaves gaps.
    const ROUNDS: u32 = 10_000;
    let mut round = 0;
    loop {
        match open_directory_at_its_path(root, record, origin, flags) {
            Err(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)
                if is_there(record) && round < ROUNDS =>
            {
                pause(&mut round);
            }
            outcome => return outcome,
        }
    }
}

/// Whether the directory has not been removed.
fn is_there(record: &Record) -> bool {
    let found = record.volume().attributes(record.ino());
    found.is_ok_and(|found| found.nlink > 0)
}

/// `ENOENT` also when another directory is there by now.
fn open_directory_at_its_path(
    root: c_int,
    record: &Record,
    origin: &Origin,
    flags: c_int,
) -> Result<(c_int, u32), c_int> {
    let path = &directory_path(record).ok_or(libc::ENOENT)?;
    let flags = flags | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = if record.is_path() {
        -libc::EACCES as isize
    } else {
        open_in_steps(root, path, flags)
    };
    if opened == -libc::EACCES as isize {
        return open_bare_directory(root, record, path);
    }
    if opened < 0 {
        return Err(-opened as c_int);
    }
    let opened = opened as c_int;
    slot_of(record, origin, opened)
        .map(|slot| (opened, slot))
        .ok_or_else(|| {
            raw::close(opened);
            libc::ENOENT
        })
}

/// For paths alone.
fn open_bare_directory(root: c_int, record: &Record, path: &[u8]) -> Result<(c_int, u32), c_int> {
    let opened = open_in_steps(root, path, PATH_STATUS | libc::O_CLOEXEC);
    if opened < 0 {
        return Err(-opened as c_int);
    }
    let opened = opened as c_int;
    // The number means no other inode, for the record holds it open.
    if raw::facts_of(opened).is_some_and(|facts| facts.st_ino == record.ino().0) {
        return Ok((opened, NO_DESCRIPTION_SLOT));
    }
    raw::close(opened);
    Err(libc::ENOENT)
}

/// Where the directory is now, below the root; `None` when it was removed.
fn directory_path(record: &Record) -> Option<Vec<u8>> {
    let (volume, ino) = (record.volume(), record.ino());
    if ino == InodeNumber::ROOT {
        return Some(b".".into());
    }
    let above = volume.lookup(ino, b"..").ok()?.ino;
    volume.path_to(above, b"", ino)
}

/// Open a directory by a path that may be longer than the kernel follows in one call.
fn open_in_steps(root: c_int, path: &[u8], flags: c_int) -> isize {
    let close = |directory: c_int| {
        if directory != root {
            raw::close(directory);
        }
    };
    let (mut directory, mut rest) = (root, path);
    loop {
        let (step, after) = first_step(rest);
        let Ok(step) = CString::new(step) else {
            close(directory);
            return -libc::ENOENT as isize;
        };
        let flags = match after {
            Some(_) => PATH_STATUS | libc::O_CLOEXEC,
            None => flags,
        };
        let opened = raw::openat(directory, step.as_ptr(), flags, 0);
        close(directory);
        match after {
            Some(after) if opened >= 0 => (directory, rest) = (opened as c_int, after),
            _ => return opened,
        }
    }
}

/// As many names as the kernel follows at once, and the rest.
fn first_step(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    let start = path.get(..=MAX_PATH_BYTES);
    match start.and_then(|start| start.iter().rposition(|byte| *byte == b'/')) {
        Some(end) => (&path[..end], Some(&path[end + 1..])),
        None => (path, None),
    }
}

/// The slot of the description, when it is of this very file.
fn slot_of(record: &Record, origin: &Origin, opened: c_int) -> Option<u32> {
    let place = if record.is_directory() {
        Place::of_directory(opened)?
    } else {
        Place::of_regular_file(opened)?
    };
    let reply = ask_mount(opened, place)?;
    let is_same = reply.ino == record.ino().0
        && reply.generation == origin.generation
        && reply.volume == *record.volume().uuid().as_bytes();
    is_same.then_some(reply.description_slot)
}
