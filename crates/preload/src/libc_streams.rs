//! Streams of libc (`FILE`). Inside itself libc reads and writes past the hooks, through tables of functions that streams
//! point to. In the tables of streams over files the functions that call the kernel are replaced by ours, which answer for
//! numbers that may be ours and call libc's for all others: so a file under a stream need not be open in the kernel, and the stream
//! stays one of libc in all else (buffers, wide characters, `freopen`).
//!
//! It is done once, when the first file of a volume gets a stream, and only if the tables hold what they are known to
//! hold: libc exports both them and the functions. Else files under streams are the kernel's.

use crate::{raw, real};
use libc::{FILE, c_int, c_void, off64_t, ssize_t};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// A `FILE` (glibc's `bits/types/struct_FILE.h`, part of its binary interface), and the table that libc keeps behind it.
#[repr(C)]
pub struct Stream {
    /// What it may do, and has met.
    pub flags: c_int,
    pointers: [*mut c_void; 13],
    /// The number that it is over.
    pub number: c_int,
    other_flags: c_int,
    old_offset_bytes: off64_t,
    column: [u8; 8],
    lock: *mut c_void,
    /// Where the number is, if that is not negative.
    pub offset_bytes: off64_t,
    rest: [*mut c_void; 8],
    table: *mut c_void,
}

const _: () = assert!(size_of::<Stream>() == 224 && std::mem::offset_of!(Stream, table) == 216);

/// In [`Stream::flags`]: it may not be read.
pub const NO_READS: c_int = 0x4;
/// It may not be written.
pub const NO_WRITES: c_int = 0x8;
/// A call failed.
pub const HAS_FAILED: c_int = 0x20;
/// Writes go to the end.
pub const APPENDS: c_int = 0x1000;

/// What is in place of libc's functions.
pub struct Functions {
    /// Read so many bytes.
    pub read: unsafe extern "C-unwind" fn(*mut Stream, *mut c_void, ssize_t) -> ssize_t,
    /// Write all of these bytes.
    pub write: unsafe extern "C-unwind" fn(*mut Stream, *const c_void, ssize_t) -> ssize_t,
    /// Move the position.
    pub seek: unsafe extern "C-unwind" fn(*mut Stream, off64_t, c_int) -> off64_t,
    /// Close the number.
    pub close: unsafe extern "C-unwind" fn(*mut Stream) -> c_int,
    /// What the number is.
    pub stat: unsafe extern "C-unwind" fn(*mut Stream, *mut libc::stat) -> c_int,
}

/// A table: the first function that calls the kernel is this one, and so many follow.
const FIRST: usize = 14;
const COUNT: usize = 5;
type Words = [*mut c_void; COUNT];

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const UNDER_WAY: u8 = 1;
const REPLACED: u8 = 2;
const LEFT: u8 = 3;

/// Whether streams over files use these functions, from now on; `false`, too, while another thread sees to it.
pub fn use_functions(functions: &Functions) -> bool {
    let (begun, order) = (UNDER_WAY, Ordering::Acquire);
    match STATE.compare_exchange(UNKNOWN, begun, order, order) {
        Ok(_) => {}
        Err(state) => return state == REPLACED,
    }
    let ours = [
        functions.read as *mut c_void,
        functions.write as *mut c_void,
        functions.seek as *mut c_void,
        functions.close as *mut c_void,
        functions.stat as *mut c_void,
    ];
    let is_done = tables().iter().all(|table| holds_libcs(*table))
        && tables().iter().all(|table| replace(*table, &ours));
    let state = if is_done { REPLACED } else { LEFT };
    STATE.store(state, Ordering::Release);
    is_done
}

/// In a fork child: whoever was at it is not here.
pub fn reset_in_child() {
    let (begun, order) = (UNDER_WAY, Ordering::Relaxed);
    let _ = STATE.compare_exchange(begun, LEFT, order, order);
}

/// Whether this stream uses them.
pub fn is_served(stream: *mut FILE) -> bool {
    if STATE.load(Ordering::Relaxed) != REPLACED || stream.is_null() {
        return false;
    }
    // SAFETY: an open stream, as the hooked function of libc demands of its caller.
    let table = unsafe { (*stream.cast::<Stream>()).table };
    tables().contains(&table)
}

/// Of streams over files: of bytes, and of wide characters.
fn tables() -> [*mut c_void; 2] {
    [
        real::address::_IO_file_jumps.address(),
        real::address::_IO_wfile_jumps.address(),
    ]
}

fn functions_at(table: *mut c_void) -> *mut *mut c_void {
    table.cast::<*mut c_void>().wrapping_add(FIRST)
}

/// Whether a table is as it is known to be.
fn holds_libcs(table: *mut c_void) -> bool {
    let libcs = [
        real::address::_IO_file_read.address(),
        real::address::_IO_file_write.address(),
        real::address::_IO_file_seek.address(),
        real::address::_IO_file_close.address(),
        real::address::_IO_file_stat.address(),
    ];
    if real::is_absent(table) || !table.cast::<*mut c_void>().is_aligned() {
        return false;
    }
    // SAFETY: libc exports its tables; each has more words than these.
    let found = unsafe { functions_at(table).cast::<Words>().read() };
    found == libcs
}

fn replace(table: *mut c_void, ours: &Words) -> bool {
    const PAGE_BYTES: usize = 4096;
    let first = functions_at(table);
    let offset = first.addr() % PAGE_BYTES;
    let page = first.cast::<u8>().wrapping_sub(offset);
    let bytes = (offset + size_of::<Words>()).next_multiple_of(PAGE_BYTES);
    let both = libc::PROT_READ | libc::PROT_WRITE;
    // The dynamic linker has made them read-only, unless somebody told it not to.
    let is_protected = !is_writable(first);
    if is_protected && raw::mprotect(page, bytes, both) != 0 {
        return false;
    }
    for (index, ours) in ours.iter().enumerate() {
        // SAFETY: a word of the table, which may be written; streams in use read one function at a time.
        let word = unsafe { &*first.add(index).cast::<AtomicPtr<c_void>>() };
        word.store(*ours, Ordering::Release);
    }
    if is_protected {
        raw::mprotect(page, bytes, libc::PROT_READ);
    }
    true
}

/// Whether a word may be written: the kernel is asked to write what it holds.
fn is_writable(word: *mut *mut c_void) -> bool {
    let mut pipe = [-1; 2];
    if raw::pipe2(&raw mut pipe, libc::O_CLOEXEC) != 0 {
        return false;
    }
    let bytes = size_of::<*mut c_void>();
    let is_written = raw::write(pipe[1], word.cast(), bytes) == bytes as isize
        && raw::read(pipe[0], word.cast(), bytes) == bytes as isize;
    pipe.into_iter().for_each(|end| _ = raw::close(end));
    is_written
}
