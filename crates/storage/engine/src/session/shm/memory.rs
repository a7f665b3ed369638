//! The memory of a session: mapped between guard pages, and given pages before they are touched.

use crate::format::BLOCK;
use crate::session::memory_group;
use crate::types::{Errno, Outcome};
use std::io;

/// Reserved bytes before and behind a session, so that nothing else is mapped there.
const GUARD_BYTES: usize = BLOCK;

/// Memory of a session, between guard pages; unmapped when its last user is dropped.
pub struct SessionMemory {
    pub(in crate::session) base: Address,
    pub(in crate::session) bytes: usize,
}

/// Where a session lies.
#[derive(Clone, Copy)]
pub(in crate::session) struct Address(pub(in crate::session) *mut u8);

// SAFETY: an address alone; what lies there is atomics and robust locks.
unsafe impl Send for Address {}
// SAFETY: the address never changes, and what lies there is made for all threads.
unsafe impl Sync for Address {}

impl SessionMemory {
    /// Zeroed memory that no other process sees.
    ///
    /// # Errors
    /// What `mmap` fails with.
    pub fn private(bytes: usize) -> io::Result<SessionMemory> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        SessionMemory::map(bytes, flags, -1)
    }

    pub(in crate::session) fn map(
        bytes: usize,
        flags: i32,
        descriptor: i32,
    ) -> io::Result<SessionMemory> {
        let reserve = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let all = bytes + 2 * GUARD_BYTES;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let guarded =
            unsafe { libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, reserve, -1, 0) };
        if guarded == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = guarded.wrapping_byte_add(GUARD_BYTES);
        let memory = SessionMemory {
            base: Address(base.cast()),
            bytes,
        };
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_FIXED);
        // SAFETY: MAP_FIXED replaces a part of the range just reserved, by anonymous memory or a segment of at
        // least this size, of which the advice is.
        unsafe {
            if libc::mmap(base, bytes, access, flags, descriptor, 0) == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            // A refusal only costs core dump size.
            libc::madvise(base, bytes, libc::MADV_DONTDUMP);
        }
        Ok(memory)
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Zero private memory that is not used any more.
    ///
    /// # Errors
    /// What `madvise` fails with.
    pub fn clear(&mut self) -> io::Result<()> {
        // SAFETY: our own anonymous mapping; `&mut` makes this the only access.
        match unsafe { libc::madvise(self.base.0.cast(), self.bytes, libc::MADV_DONTNEED) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for SessionMemory {
    fn drop(&mut self) {
        let guarded = self.base.0.wrapping_sub(GUARD_BYTES);
        // SAFETY: mapped in `map`; there are no references, because they borrow from owners of this value.
        unsafe { libc::munmap(guarded.cast(), self.bytes + 2 * GUARD_BYTES) };
    }
}

/// Give pages of the segment memory; `ENOMEM` if there is none, or if the control group is nearly full. A kernel
/// without this call (before Linux 5.14) allocates pages when they are touched.
pub(in crate::session) fn populate(at: *mut u8, bytes: usize) -> Outcome<()> {
    if !memory_group::has_room(bytes as u64) {
        return Err(Errno(libc::ENOMEM));
    }
    // SAFETY: whole pages of the caller's mapping; changes no byte.
    let done = unsafe { libc::madvise(at.cast(), bytes, libc::MADV_POPULATE_WRITE) } == 0;
    let errno = || io::Error::last_os_error().raw_os_error();
    if done || errno() == Some(libc::EINVAL) {
        Ok(())
    } else {
        Err(Errno(libc::ENOMEM))
    }
}
