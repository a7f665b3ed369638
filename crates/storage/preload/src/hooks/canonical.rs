//! `realpath`: a path without links, `.` and `..`.

use crate::description::reply::Reply;
use crate::serve::path::{CallerPlace, on_path};
use crate::system::real;
use libc::{c_char, size_t};
use std::ptr::null_mut;

/// Room for a path and its end, as the caller's place must have it.
const ROOM_BYTES: usize = libc::PATH_MAX as usize;

/// Write the canonical path to `into`. `None`: libc is to do it; it also knows the errors.
fn canonical_into(path: *const c_char, into: *mut c_char) -> Option<()> {
    let answer = on_path(libc::AT_FDCWD, path, |way| {
        let mut canonical = way.canonical_path()?;
        canonical.push(0);
        Ok(if canonical.len() <= ROOM_BYTES {
            match CallerPlace(into.cast::<u8>()).fill(&canonical) {
                Reply::Done(done) => Reply::Done(done),
                _ => Reply::Pass,
            }
        } else {
            Reply::Pass
        })
    });
    (answer == Some(0)).then_some(())
}

fn realpath(path: *const c_char, into: *mut c_char) -> *mut c_char {
    if into.is_null() {
        return canonicalize_file_name(path);
    }
    match canonical_into(path, into) {
        Some(()) => into,
        None => real::realpath(path, into),
    }
}

fn realpath_chk(path: *const c_char, into: *mut c_char, has: size_t) -> *mut c_char {
    if has >= ROOM_BYTES {
        realpath(path, into)
    } else {
        real::__realpath_chk(path, into, has)
    }
}

fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // The program frees it with the allocator that it uses, as what libc gives.
    // SAFETY: as libc's own allocation would be.
    let room: *mut c_char = unsafe { libc::malloc(ROOM_BYTES) }.cast();
    if !room.is_null() && canonical_into(path, room).is_some() {
        return room;
    }
    // SAFETY: from `malloc`, or null.
    unsafe { libc::free(room.cast()) };
    real::realpath(path, null_mut())
}

export! {
    realpath => realpath(path: *const c_char, into: *mut c_char) -> *mut c_char;
    __realpath_chk => realpath_chk(path: *const c_char, into: *mut c_char, has: size_t) -> *mut c_char;
    canonicalize_file_name => canonicalize_file_name(path: *const c_char) -> *mut c_char;
}
