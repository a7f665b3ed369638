//! Streams of libc (`FILE`). Inside itself libc reads and writes past the hooks, through tables of functions that streams
//! point to. In the tables of streams over files the functions that call the kernel are replaced by ours, which answer for
//! numbers that may be ours and call libc's for all others: so a file under a stream need not be open in the kernel, and the
//! stream stays one of libc in all else (buffers, wide characters, `freopen`).
//!
//! It is done once, before the first file of a volume is open without the kernel (an older stream may get its number), and
//! only if the tables hold what they are known to hold: libc exports both them and the functions. Else files under streams
//! are the kernel's.

use super::{libc_threads, raw, real};
use libc::{FILE, c_int, c_void, off64_t, ssize_t};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// A `FILE` (glibc's `bits/types/struct_FILE.h`, part of its binary interface), and the table that libc keeps behind it.
#[repr(C)]
pub struct Stream {
    /// What it may do, and has met.
    pub flags: c_int,
    pointers: [*mut c_void; 13],
    /// The number that it is over.
    pub number: c_int,
    pub other_flags: c_int,
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
pub const HAS_FAILED: c_int = 0x20;
/// Writes go to the end.
pub const APPENDS: c_int = 0x1000;

/// In [`Stream::other_flags`]: no call on it is a cancellation point.
pub const NOT_CANCELLED: c_int = 0x2;

/// What is in place of libc's functions. libc hands them an open stream that its thread has locked.
pub struct Functions {
    /// Read so many bytes.
    pub read: extern "C-unwind" fn(&mut Stream, *mut c_void, ssize_t) -> ssize_t,
    /// Write all of these bytes.
    pub write: extern "C-unwind" fn(&mut Stream, *const c_void, ssize_t) -> ssize_t,
    /// Move the position.
    pub seek: extern "C-unwind" fn(&mut Stream, off64_t, c_int) -> off64_t,
    /// Close the number.
    pub close: extern "C-unwind" fn(&mut Stream) -> c_int,
    /// What the number is.
    pub stat: extern "C-unwind" fn(&mut Stream, *mut libc::stat) -> c_int,
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

/// The functions, once the library is initialised.
static FUNCTIONS: OnceLock<&'static Functions> = OnceLock::new();

/// What [`use_functions`] has streams use.
pub fn prepare(functions: &'static Functions) {
    let _ = FUNCTIONS.set(functions);
}

/// Whether streams over files use our functions, from now on; `false`, too, while another thread sees to it.
#[inline]
pub fn use_functions() -> bool {
    match STATE.load(Ordering::Acquire) {
        REPLACED => true,
        UNKNOWN => begin_to_use(),
        _ => false,
    }
}

#[cold]
fn begin_to_use() -> bool {
    let (begun, order) = (UNDER_WAY, Ordering::Acquire);
    let Some(functions) = FUNCTIONS.get() else {
        return false;
    };
    match STATE.compare_exchange(UNKNOWN, begun, order, order) {
        Ok(_) => {}
        Err(state) => return state == REPLACED,
    }
    let state = replace_all(functions);
    STATE.store(state, Ordering::Release);
    state == REPLACED
}

/// The state after it.
fn replace_all(functions: &Functions) -> u8 {
    let ours = [
        functions.read as *mut c_void,
        functions.write as *mut c_void,
        functions.seek as *mut c_void,
        functions.close as *mut c_void,
        functions.stat as *mut c_void,
    ];
    let locks = [
        real::address::_IO_list_lock.address(),
        real::address::_IO_list_unlock.address(),
        real::address::_IO_list_resetlock.address(),
    ];
    let [bytes, wide] = tables();
    if locks.into_iter().any(real::is_absent) || !holds_libcs(bytes) || !holds_libcs(wide) {
        return LEFT;
    }
    let (Some(bytes_protected), Some(wide_protected)) = (is_protected(bytes), is_protected(wide))
    else {
        // Another time there may be a free number to ask with.
        return UNKNOWN;
    };
    if replace(bytes, &ours, bytes_protected) && replace(wide, &ours, wide_protected) {
        REPLACED
    } else {
        LEFT
    }
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

fn replace(table: *mut c_void, ours: &Words, is_protected: bool) -> bool {
    const PAGE_BYTES: usize = 4096;
    let first = functions_at(table);
    let offset = first.addr() % PAGE_BYTES;
    let page = first.cast::<u8>().wrapping_sub(offset);
    let bytes = (offset + size_of::<Words>()).next_multiple_of(PAGE_BYTES);
    let both = libc::PROT_READ | libc::PROT_WRITE;
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

/// Whether the dynamic linker has made a table read-only, as it does where it can: the kernel is asked to write what
/// the table holds. `None`: it could not be asked.
fn is_protected(table: *mut c_void) -> Option<bool> {
    let mut pipe = [-1; 2];
    if raw::pipe2(&raw mut pipe, libc::O_CLOEXEC) != 0 {
        return None;
    }
    let (word, bytes) = (functions_at(table), size_of::<*mut c_void>());
    let answer = match raw::write(pipe[1], word.cast(), bytes) {
        written if written == bytes as isize => raw::read(pipe[0], word.cast(), bytes),
        _ => 0,
    };
    pipe.into_iter().for_each(|end| _ = raw::close(end));
    match answer {
        read if read == bytes as isize => Some(false),
        fault if fault == -libc::EFAULT as isize => Some(true),
        _ => None,
    }
}

/// Take the lock of libc's list of streams, under which it may write them: before all of ours, as whoever writes
/// streams does. `false`: there is no need.
pub fn lock_list() -> bool {
    let is_needed = STATE.load(Ordering::Relaxed) == REPLACED && !libc_threads::alone();
    if is_needed {
        // A thread may take it several times.
        real::_IO_list_lock();
    }
    is_needed
}

/// Let it go, after [`lock_list`] by the same thread.
pub fn unlock_list() {
    real::_IO_list_unlock();
}

/// In a fork child whose parent took it: nobody holds it.
pub fn free_list_in_child() {
    real::_IO_list_resetlock();
}
