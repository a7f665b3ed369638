//! Mappings of files.

use crate::call::{Answer, Errno};
use egeria_harness::memory::Mapping;
use libc::{MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE};
use std::io;

/// A mapping, removed when dropped.
pub struct Map(Mapping);

fn answered<T>(outcome: io::Result<T>) -> Answer<T> {
    outcome.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EINVAL)))
}

impl Map {
    /// `mmap(2)`.
    pub fn make(fd: i32, bytes: usize, protection: i32, flags: i32, at: i64) -> Answer<Map> {
        answered(Mapping::new(fd, bytes, protection, flags, at)).map(Map)
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

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Load a byte.
    #[track_caller]
    pub fn get(&self, at: usize) -> u8 {
        self.0.get(at)
    }

    /// Load all up to here.
    #[track_caller]
    pub fn all(&self, bytes: usize) -> Vec<u8> {
        self.0.load(bytes)
    }

    /// Store, byte by byte.
    #[track_caller]
    pub fn store(&self, at: usize, data: &[u8]) {
        self.0.store(at, data);
    }

    /// Load eight bytes at once.
    pub fn load_word(&self, at: usize) -> u64 {
        self.0.load_word(at)
    }

    /// Store eight bytes at once.
    pub fn store_word(&self, at: usize, value: u64) {
        self.0.store_word(at, value);
    }

    /// Where this byte is in memory, for calls that take addresses; nothing is touched.
    #[track_caller]
    pub fn address(&self, at: usize) -> usize {
        self.0.address(at).expose_provenance()
    }

    /// `msync(2)`, all of it, waiting.
    pub fn sync(&self) -> Answer<()> {
        answered(self.0.sync())
    }

    /// `madvise(2)`, all of it.
    pub fn advise(&self, advice: i32) -> Answer<()> {
        answered(self.0.advise(advice))
    }

    /// `mremap(2)` to another length, wherever there is room.
    pub fn moved(self, bytes: usize) -> Answer<Map> {
        answered(self.0.moved(bytes)).map(Map)
    }
}
