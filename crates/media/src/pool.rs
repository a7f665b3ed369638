//! A mapped pool: bounds-checked loads, stores, copies, flushes and fences.

use std::arch::asm;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::address::{BLOCK_BYTES, CACHE_LINE_BYTES, PoolOffset};
use crate::cpu::{self, FlushInstruction};
use crate::create;
use crate::error::{AccessFault, MediaError, Result};
use crate::map::{self, Access, Mapping, Persistence};

/// One pool, mapped into this process.
///
/// Other processes and threads store to the same memory at any time, so no Rust
/// reference to it is ever made; all access goes through the methods here.
pub struct Pool {
    base: *mut u8,
    bytes: u64,
    access: Access,
    mapping: Mapping,
    path: PathBuf,
}

// SAFETY: the mapping is shared memory that is only touched through raw pointers
// by routines that tolerate concurrent change.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Makes a pool file of `bytes` (a multiple of [`BLOCK_BYTES`]), mode 0600, or
    /// checks that a device can hold one. What holds data already is refused.
    pub fn create(path: &Path, bytes: u64) -> Result<()> {
        create::create(path, bytes, false)
    }

    /// As [`Pool::create`], but what is there may be overwritten.
    pub fn create_forced(path: &Path, bytes: u64) -> Result<()> {
        create::create(path, bytes, true)
    }

    /// Opens and maps a pool; no file descriptor stays open.
    pub fn open(path: &Path, access: Access) -> Result<Pool> {
        Pool::open_with_file(map::open_file(path, access)?, path, access)
    }

    /// Maps a file that is open already and closes it. The mapping keeps the open
    /// file description alive, and with it every OFD lock the caller took on it.
    pub fn open_with_file(file: File, path: &Path, access: Access) -> Result<Pool> {
        let mapping = map::map_file(&file, path, access)?;
        Ok(Pool::from_mapping(mapping, path, access))
    }

    /// A pool in memory of this process only (and children it forks).
    ///
    /// # Panics
    /// When `bytes` is no positive multiple of [`BLOCK_BYTES`] or memory is exhausted.
    pub fn anonymous(bytes: u64) -> Pool {
        assert!(
            bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES),
            "whole blocks, please"
        );
        let mapping = map::map_anonymous(bytes).expect("no memory for an anonymous pool");
        Pool::from_mapping(mapping, Path::new("(memory)"), Access::ReadWrite)
    }

    fn from_mapping(mapping: Mapping, path: &Path, access: Access) -> Pool {
        Pool {
            base: mapping.base,
            bytes: mapping.bytes,
            access,
            mapping,
            path: path.to_owned(),
        }
    }

    /// Bytes of the pool, a multiple of [`BLOCK_BYTES`].
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Blocks of the pool.
    #[inline]
    pub fn blocks(&self) -> u64 {
        self.bytes / BLOCK_BYTES
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What its durable stores survive.
    pub fn persistence(&self) -> Persistence {
        self.mapping.persistence
    }

    /// Whether stores are refused.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }

    /// First byte of the mapping. Only for measuring a bare copy of the same
    /// mapping: accesses through it are neither checked, guarded nor recorded.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Loads an aligned word; what other threads stored before it is visible too.
    #[inline]
    pub fn load_u64(&self, at: PoolOffset) -> Result<u64> {
        self.check_word(at)?;
        // SAFETY: inside the mapping and aligned.
        Ok(unsafe {
            (*self
                .base
                .add(at.0 as usize)
                .cast::<std::sync::atomic::AtomicU64>())
            .load(std::sync::atomic::Ordering::Acquire)
        })
    }

    /// Copies bytes out of the pool.
    #[inline]
    pub fn read_bytes(&self, at: PoolOffset, into: &mut [u8]) -> Result<()> {
        self.check(at, into.len() as u64)?;
        // SAFETY: inside the mapping; the slice is valid.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.base.add(at.0 as usize),
                into.as_mut_ptr(),
                into.len(),
            )
        };
        Ok(())
    }

    /// Copies bytes out of the pool to memory of unknown quality.
    ///
    /// # Safety
    /// `destination` may be invalid (that answers [`AccessFault::Caller`]), but if it
    /// is mapped, the caller must own those bytes.
    #[inline]
    pub unsafe fn copy_out(
        &self,
        at: PoolOffset,
        destination: *mut u8,
        bytes: usize,
    ) -> Result<(), AccessFault> {
        self.check(at, bytes as u64)
            .map_err(|_| AccessFault::Pool)?;
        // SAFETY: inside the mapping; destination by contract.
        unsafe { std::ptr::copy(self.base.add(at.0 as usize), destination, bytes) };
        Ok(())
    }

    /// Copies bytes of unknown quality into the pool; durable after the next [`Pool::fence`].
    ///
    /// # Safety
    /// `source` may be invalid (that answers [`AccessFault::Caller`]), but if it is
    /// mapped, those bytes must be the caller's to read.
    #[inline]
    pub unsafe fn copy_in(
        &self,
        at: PoolOffset,
        source: *const u8,
        bytes: usize,
    ) -> Result<(), AccessFault> {
        self.check_store(at, bytes as u64)
            .map_err(|_| AccessFault::Pool)?;
        // SAFETY: inside the mapping; source by contract.
        unsafe { std::ptr::copy(source, self.base.add(at.0 as usize), bytes) };
        self.flush(at, bytes as u64);
        Ok(())
    }

    /// Stores zeros; durable after the next [`Pool::fence`].
    pub fn zero(&self, at: PoolOffset, bytes: usize) -> Result<(), AccessFault> {
        self.check_store(at, bytes as u64)
            .map_err(|_| AccessFault::Pool)?;
        // SAFETY: inside the mapping.
        unsafe { std::ptr::write_bytes(self.base.add(at.0 as usize), 0, bytes) };
        self.flush(at, bytes as u64);
        Ok(())
    }

    /// Stores an aligned word, visible after all earlier stores; durable only after flush + fence.
    #[inline]
    pub fn store_u64(&self, at: PoolOffset, value: u64) -> Result<()> {
        self.check_word(at)?;
        self.check_store(at, 8)?;
        // SAFETY: inside the mapping and aligned.
        unsafe {
            (*self
                .base
                .add(at.0 as usize)
                .cast::<std::sync::atomic::AtomicU64>())
            .store(value, std::sync::atomic::Ordering::Release)
        };
        Ok(())
    }

    /// Stores bytes; durable only after flush + fence.
    #[inline]
    pub fn write_bytes(&self, at: PoolOffset, from: &[u8]) -> Result<()> {
        self.check_store(at, from.len() as u64)?;
        // SAFETY: inside the mapping; the slice is valid.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), self.base.add(at.0 as usize), from.len())
        };
        Ok(())
    }

    /// Writes back every cache line the range touches; durable after the next [`Pool::fence`].
    /// Parts outside the pool are ignored.
    #[inline]
    pub fn flush(&self, at: PoolOffset, bytes: u64) {
        let end = at.0.saturating_add(bytes).min(self.bytes);
        let mut line = at.0 & !(CACHE_LINE_BYTES - 1);
        while line < end {
            // SAFETY: inside the mapping.
            unsafe {
                let address = self.base.add(line as usize);
                match cpu::flush_instruction() {
                    FlushInstruction::Clwb => {
                        asm!("clwb [{}]", in(reg) address, options(nostack, preserves_flags))
                    }
                    FlushInstruction::ClflushOpt => {
                        asm!("clflushopt [{}]", in(reg) address, options(nostack, preserves_flags))
                    }
                    FlushInstruction::Clflush => {
                        asm!("clflush [{}]", in(reg) address, options(nostack, preserves_flags))
                    }
                }
            }
            line += CACHE_LINE_BYTES;
        }
    }

    /// Makes everything this thread flushed before durable.
    #[inline]
    pub fn fence(&self) {
        cpu::store_fence();
    }

    /// Stores an aligned word and makes it durable: the commit.
    #[inline]
    pub fn commit_u64(&self, at: PoolOffset, value: u64) -> Result<()> {
        self.store_u64(at, value)?;
        self.flush(at, 8);
        self.fence();
        Ok(())
    }

    #[inline]
    fn check(&self, at: PoolOffset, bytes: u64) -> Result<()> {
        if at.0 <= self.bytes && bytes <= self.bytes - at.0 {
            return Ok(());
        }
        Err(MediaError::OutOfBounds {
            offset: at.0,
            bytes,
            pool_bytes: self.bytes,
        })
    }

    #[inline]
    fn check_word(&self, at: PoolOffset) -> Result<()> {
        self.check(at, 8)?;
        if at.0.is_multiple_of(8) {
            Ok(())
        } else {
            Err(MediaError::Misaligned { offset: at.0 })
        }
    }

    #[inline]
    fn check_store(&self, at: PoolOffset, bytes: u64) -> Result<()> {
        self.check(at, bytes)?;
        if self.is_read_only() {
            Err(MediaError::ReadOnly { offset: at.0 })
        } else {
            Ok(())
        }
    }
}
