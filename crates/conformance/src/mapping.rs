//! Mappings of files.

use crate::call::{Answer, errno};
use libc::{MAP_FAILED, MAP_PRIVATE, MAP_SHARED, MS_SYNC, PROT_READ, PROT_WRITE};
use std::ptr;

/// A mapping, removed when dropped.
pub struct Map {
    /// Where it begins.
    pub start: *mut u8,
    /// How long it is.
    pub bytes: usize,
}

// SAFETY: it is memory that belongs to the process, not to a thread.
unsafe impl Send for Map {}
// SAFETY: its bytes are read and written one by one, as memory that others change.
unsafe impl Sync for Map {}

impl Map {
    /// `mmap(2)`.
    pub fn make(fd: i32, bytes: usize, protection: i32, flags: i32, at: i64) -> Answer<Map> {
        // SAFETY: a new mapping where the kernel likes.
        match unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, fd, at) } {
            MAP_FAILED => Err(errno()),
            start => Ok(Map {
                start: start.cast(),
                bytes,
            }),
        }
    }

    /// The start of a file, shared, for reading and writing.
    #[track_caller]
    pub fn shared(fd: i32, bytes: usize) -> Map {
        Map::make(fd, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0).unwrap()
    }

    /// The same, private.
    #[track_caller]
    pub fn private(fd: i32, bytes: usize) -> Map {
        Map::make(fd, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0).unwrap()
    }

    /// Load a byte.
    #[track_caller]
    pub fn get(&self, at: usize) -> u8 {
        assert!(at < self.bytes);
        // SAFETY: inside the mapping.
        unsafe { self.start.add(at).read_volatile() }
    }

    /// Load all up to here.
    #[track_caller]
    pub fn all(&self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| self.get(at)).collect()
    }

    /// Store, byte by byte.
    #[track_caller]
    pub fn store(&self, at: usize, data: &[u8]) {
        assert!(at + data.len() <= self.bytes);
        for (index, byte) in data.iter().enumerate() {
            // SAFETY: inside the mapping, which the case made writable.
            unsafe { self.start.add(at + index).write_volatile(*byte) }
        }
    }

    fn word(&self, at: usize) -> *mut u64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes);
        // SAFETY: inside the mapping.
        unsafe { self.start.add(at).cast() }
    }

    /// Load eight bytes at once.
    pub fn load_word(&self, at: usize) -> u64 {
        // SAFETY: inside the mapping, and aligned.
        unsafe { self.word(at).read_volatile() }
    }

    /// Store eight bytes at once.
    pub fn store_word(&self, at: usize, value: u64) {
        // SAFETY: inside the mapping, which the case made writable, and aligned.
        unsafe { self.word(at).write_volatile(value) }
    }

    /// Where this byte is in memory, for calls that take addresses; nothing is touched.
    pub fn address(&self, at: usize) -> usize {
        assert!(at <= self.bytes);
        self.start.expose_provenance() + at
    }

    /// `msync(2)`, all of it, waiting.
    pub fn sync(&self) -> Answer<()> {
        // SAFETY: the mapping's own range.
        match unsafe { libc::msync(self.start.cast(), self.bytes, MS_SYNC) } {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping's own range, not used again.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
