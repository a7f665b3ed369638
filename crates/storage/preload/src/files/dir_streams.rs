//! The library's own `DIR`: places of one region, so that an address tells whose a stream is without being looked at.
//! No function of libc gets one of them.

use super::dir_entries::{self, ROOM_BYTES};
use crate::sync::Lock;
use crate::system::{errno, libc_threads, raw};
use libc::{DIR, c_int, c_long, dirent};
use std::alloc::{Layout, alloc, dealloc};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Streams that can be open at once; more are libc's.
const STREAMS: usize = 16 << 10;
const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// The kernel's numbers of entries are below it.
const NO_END: u64 = u64::MAX;

static REGION: AtomicPtr<Stream> = AtomicPtr::new(null_mut());
/// Below it most places are taken.
static FIRST_FREE: AtomicUsize = AtomicUsize::new(0);

/// An open stream.
#[repr(C, align(128))]
pub struct Stream {
    state: AtomicU32,
    lock: Lock,
    inner: UnsafeCell<Inner>,
}

/// What the lock guards.
struct Inner {
    fd: c_int,
    buffer: *mut u8,
    filled: usize,
    next: usize,
    /// Where the stream is: the cookie of the last entry returned.
    position: i64,
    /// It ends before this cookie, whoever goes on reading.
    end: u64,
}

const BUFFER: Layout = match Layout::from_size_align(ROOM_BYTES, align_of::<dirent>()) {
    Ok(layout) => layout,
    Err(_) => panic!("a size and an alignment"),
};

/// Whose stream this is.
pub enum Owner {
    Libc,
    Ours(&'static Stream),
    /// Ours, but closed.
    Closed,
}

/// Whose stream an address is. Looks at nothing but the library's own memory.
#[inline(always)]
pub fn owner(stream: *mut DIR) -> Owner {
    let first = REGION.load(Ordering::Acquire);
    let offset = (stream as usize).wrapping_sub(first as usize);
    if first.is_null() || offset >= STREAMS * size_of::<Stream>() {
        return Owner::Libc;
    }
    let place = place(first, offset / size_of::<Stream>());
    if offset.is_multiple_of(size_of::<Stream>()) && place.state.load(Ordering::Acquire) == TAKEN {
        Owner::Ours(place)
    } else {
        Owner::Closed
    }
}

/// A stream on a descriptor; `None` when there is no place or memory for one.
pub fn open(fd: c_int) -> Option<*mut DIR> {
    let stream = take_place()?;
    // SAFETY: a layout of some bytes; the place was just taken, and is known to nobody else.
    unsafe {
        let buffer = alloc(BUFFER);
        if buffer.is_null() {
            give_back(stream);
            return None;
        }
        *stream.inner.get() = Inner {
            fd,
            buffer,
            filled: 0,
            next: 0,
            position: 0,
            end: NO_END,
        };
    }
    Some(std::ptr::from_ref(stream).cast_mut().cast())
}

fn region() -> Option<*mut Stream> {
    let first = REGION.load(Ordering::Acquire);
    if !first.is_null() {
        return Some(first);
    }
    let bytes = STREAMS * size_of::<Stream>();
    let fresh = raw::map(bytes)?;
    let mapped = REGION.compare_exchange(
        null_mut(),
        fresh.cast(),
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    match mapped {
        Ok(_) => Some(fresh.cast()),
        Err(first) => {
            raw::munmap(fresh, bytes);
            Some(first)
        }
    }
}

/// One of the [`STREAMS`] places of the region.
#[inline(always)]
fn place(first: *mut Stream, index: usize) -> &'static Stream {
    // SAFETY: in the region, mapped for ever, of which all-zero is a valid place.
    unsafe { &*first.wrapping_add(index) }
}

fn take_place() -> Option<&'static Stream> {
    let first = region()?;
    let from = FIRST_FREE.load(Ordering::Relaxed);
    (from..STREAMS).chain(0..from).find_map(|index| {
        let stream = place(first, index);
        let state = &stream.state;
        let taken = state.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed);
        taken.ok()?;
        let _ = FIRST_FREE.compare_exchange(from, index + 1, Ordering::Relaxed, Ordering::Relaxed);
        Some(stream)
    })
}

fn give_back(stream: &'static Stream) {
    let first = REGION.load(Ordering::Acquire);
    let offset = std::ptr::from_ref(stream) as usize - first as usize;
    stream.state.store(FREE, Ordering::Release);
    FIRST_FREE.fetch_min(offset / size_of::<Stream>(), Ordering::Relaxed);
}

impl Stream {
    fn with<T>(&self, body: impl FnOnce(&mut Inner) -> T) -> T {
        // SAFETY: under the lock, or there is nobody else.
        let body = || body(unsafe { &mut *self.inner.get() });
        if libc_threads::alone() {
            body()
        } else {
            self.lock.with(body)
        }
    }

    /// Its descriptor.
    pub fn fd(&self) -> c_int {
        self.with(|inner| inner.fd)
    }

    pub fn position(&self) -> c_long {
        self.with(|inner| inner.position)
    }

    /// The next entry, which stays valid until the next call; null at the end, and with `errno` for an error.
    pub fn next(&self) -> *mut dirent {
        self.with(Inner::next)
    }

    /// Copy the next entry to where the program has room for one: null at the end; or an errno.
    ///
    /// # Errors
    /// What reading the directory answers.
    pub fn next_into(&self, into: *mut dirent) -> Result<*mut dirent, c_int> {
        let error = errno::get();
        errno::set(0);
        let outcome = self.with(|inner| {
            let entry = inner.next();
            if entry.is_null() {
                return match errno::get() {
                    0 => Ok(null_mut()),
                    failed => Err(failed),
                };
            }
            // SAFETY: an entry is as long as it says, and fits where the program has room for one.
            unsafe {
                let bytes = usize::from((*entry).d_reclen);
                std::ptr::copy_nonoverlapping(entry.cast::<u8>(), into.cast(), bytes);
            }
            Ok(into)
        });
        errno::set(error);
        outcome
    }

    /// Go on from this cookie; `seek` moves the descriptor's position.
    pub fn go_to(&self, position: c_long, seek: impl FnOnce(c_int)) {
        self.with(|inner| {
            seek(inner.fd);
            inner.filled = 0;
            inner.next = 0;
            inner.position = position;
            if position == 0 {
                inner.end = NO_END;
            }
        });
    }

    /// Close the stream; its descriptor, which stays open.
    pub fn close(&'static self) -> c_int {
        let (fd, buffer) = self.with(|inner| (inner.fd, inner.buffer));
        give_back(self);
        // SAFETY: allocated with this layout, and nobody uses a closed stream.
        unsafe { dealloc(buffer, BUFFER) };
        fd
    }
}

impl Inner {
    fn next(&mut self) -> *mut dirent {
        if self.next >= self.filled && !self.refill() {
            return null_mut();
        }
        let entry = self.buffer.wrapping_add(self.next).cast::<dirent>();
        // SAFETY: within what was filled, aligned, and whole as all entries are.
        let (bytes, cookie) = unsafe { ((*entry).d_reclen, (*entry).d_off) };
        if cookie as u64 >= self.end {
            return null_mut();
        }
        self.next += usize::from(bytes);
        self.position = cookie;
        entry
    }

    /// False at the end, and for an error.
    #[cold]
    fn refill(&mut self) -> bool {
        // SAFETY: the stream's own buffer, as long as this.
        let room = unsafe { std::slice::from_raw_parts_mut(self.buffer, ROOM_BYTES) };
        let (filled, end) = dir_entries::read(self.fd, room);
        if let Some(end) = end {
            self.end = end;
        }
        match usize::try_from(filled) {
            Ok(filled) => {
                (self.filled, self.next) = (filled, 0);
                filled > 0
            }
            Err(_) => {
                let failed = -filled as c_int;
                // A removed directory has no more names.
                let is_gone = failed == libc::ENOENT || self.is_placeholder(failed);
                if !is_gone {
                    errno::set(failed);
                }
                false
            }
        }
    }

    /// Whether the kernel could not open the directory when it had to, because it was removed.
    fn is_placeholder(&self, failed: c_int) -> bool {
        let status = || raw::fcntl(self.fd, libc::F_GETFL, 0);
        failed == libc::EBADF
            && matches!(status(), status @ 0.. if status as c_int & libc::O_PATH != 0)
    }
}
