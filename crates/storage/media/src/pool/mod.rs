//! A mapped pool: bounds-checked loads, stores, copies, flushes and fences.

mod durable;
mod stores;

use std::fs::File;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use crate::address::{BLOCK_BYTES, CACHE_LINE_BYTES, PoolOffset};
use crate::caller::{CallerDestination, CallerSource};
use crate::error::{AccessFault, MediaError, Result};
use crate::failures;
use crate::guard::lines;
use crate::guard::routines::{self, Routines};
use crate::map::{self, Access, Mapping, Persistence};
use crate::mapped_pieces::MappedPieces;
use crate::protection::{self, Open};
use crate::recorder::Attachment;

/// Stores are refused.
const NO_STORES: u8 = 0;
/// Stores are allowed; the memory becomes writable at the first store. So a faulty program that only reads cannot
/// damage a pool.
const SEALED: u8 = 1;
/// The memory is writable.
const STORES: u8 = 2;

/// In `hooks`: a recorder is attached.
const RECORDED: u8 = 1;
/// In `hooks`: a thread opens the memory for each store (see [`protection`]).
const PROTECTED: u8 = 2;

/// For media without durability: copies of at least this size bypass the caches, because that is faster. They do not
/// read lines before they overwrite them (16 KiB in uncached memory: a fifth faster).
const MIN_STREAMED_BYTES: usize = 16 << 10;

/// This process has mapped a pool with lines that must reach their medium.
static IS_ANY_DURABLE: AtomicBool = AtomicBool::new(false);

/// Whether lines of such a pool must reach their medium. If memory is lost on a power failure, lines in caches are as
/// safe as in memory, and nothing is flushed.
fn note_durable(persistence: Persistence) -> bool {
    let is_durable = persistence != Persistence::Volatile;
    IS_ANY_DURABLE.fetch_or(is_durable, Ordering::Relaxed);
    is_durable
}

/// One pool, mapped into this process.
///
/// Other processes and threads store to the same memory at any time, so no Rust
/// reference to it is ever made; all access goes through the methods here, and
/// those through the guarded routines (see [`crate::guard`]).
pub struct Pool {
    base: *mut u8,
    bytes: u64,
    /// Lines have to be written back.
    is_durable: bool,
    routines: Routines,
    /// [`RECORDED`], [`PROTECTED`]: one branch covers both when they are off.
    hooks: AtomicU8,
    /// [`NO_STORES`], [`SEALED`] or [`STORES`].
    stores: AtomicU8,
    attachment: Attachment,
    mapping: Mapping,
    path: PathBuf,
    /// The file behind a private mapping.
    backing: Option<Arc<File>>,
    failure_handler: OnceLock<FailureHandler>,
    pub(crate) mapped_pieces: MappedPieces,
}

/// Called with each position in a pool at which an access found failed memory, on the accessing thread.
pub type FailureHandler = Box<dyn Fn(PoolOffset) + Send + Sync>;

// SAFETY: the mapping is shared memory that is only touched through raw pointers
// by routines that tolerate concurrent change.
unsafe impl Send for Pool {}
// SAFETY: its methods go through the same routines from any thread; `attachment` has a lock of its own.
unsafe impl Sync for Pool {}

impl Pool {
    /// Opens and maps a pool; no file descriptor stays open.
    ///
    /// # Errors
    /// [`MediaError::NotAPool`]; [`MediaError::BadSize`] when the size is no whole number of blocks; errors of the
    /// system.
    pub fn open(path: &Path, access: Access) -> Result<Pool> {
        Pool::open_with_file(map::open_file(path, access)?, path, access)
    }

    /// Maps a file that is open already and closes it. The mapping keeps the open
    /// file description alive, and with it every OFD lock the caller took on it.
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn open_with_file(file: File, path: &Path, access: Access) -> Result<Pool> {
        let mapping = map::map_file(&file, path)?;
        let stores = match access {
            Access::ReadWrite => SEALED,
            Access::ReadOnly => NO_STORES,
        };
        Ok(Pool::from_mapping(mapping, path, stores, None))
    }

    /// A pool in memory of this process only (and children it forks).
    ///
    /// # Panics
    /// When `bytes` is no positive multiple of [`BLOCK_BYTES`] or memory is exhausted.
    pub fn anonymous(bytes: u64) -> Pool {
        assert!(
            bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES),
            "a pool is whole blocks"
        );
        let mapping = map::map_anonymous(bytes).expect("no memory for an anonymous pool");
        Pool::from_mapping(mapping, Path::new("(memory)"), STORES, None)
    }

    /// Of memory that only this process changes.
    pub(crate) fn of_private(mapping: Mapping, path: &Path, backing: Arc<File>) -> Pool {
        Pool::from_mapping(mapping, path, STORES, Some(backing))
    }

    fn from_mapping(mapping: Mapping, path: &Path, stores: u8, backing: Option<Arc<File>>) -> Pool {
        Pool {
            base: mapping.base,
            bytes: mapping.bytes,
            is_durable: note_durable(mapping.persistence),
            routines: routines::routines(),
            hooks: AtomicU8::new(0),
            stores: AtomicU8::new(stores),
            attachment: Attachment::default(),
            mapping,
            path: path.to_owned(),
            backing,
            failure_handler: OnceLock::new(),
            mapped_pieces: MappedPieces::default(),
        }
    }

    /// The file behind a private mapping.
    pub(crate) fn backing(&self) -> Option<&File> {
        self.backing.as_deref()
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

    /// Set the function to call, outside of signal handlers, when the pool's memory fails; can be set once.
    pub fn set_failure_handler(&self, handler: FailureHandler) {
        let _ = self.failure_handler.set(handler);
    }

    /// Where this pool's memory failed last under this thread, since [`crate::forget_failure`].
    pub fn failure(&self) -> Option<PoolOffset> {
        let address = failures::last()? as u64;
        let offset = address.wrapping_sub(self.base as u64);
        (offset < self.bytes).then_some(PoolOffset(offset))
    }

    /// What its durable stores survive.
    pub fn persistence(&self) -> Persistence {
        self.mapping.persistence
    }

    /// Whether stores are refused.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.stores.load(Ordering::Relaxed) == NO_STORES
    }

    /// Whether stores are allowed; from then on the memory is writable.
    #[inline(always)]
    pub(crate) fn takes_stores(&self) -> bool {
        // Acquires `hooks` with it.
        self.stores.load(Ordering::Acquire) == STORES || self.unseal()
    }

    #[cold]
    #[inline(never)]
    fn unseal(&self) -> bool {
        if self.is_read_only() {
            return false;
        }
        match self.mapping.make_writable() {
            Ok(true) => self.hooks.fetch_or(PROTECTED, Ordering::Relaxed),
            Ok(false) => 0,
            Err(_) => return false,
        };
        self.stores.store(STORES, Ordering::Release);
        true
    }

    /// Where the mapping begins.
    #[cfg(test)]
    pub(crate) fn start(&self) -> usize {
        self.base as usize
    }

    /// First byte of the mapping. Only for measuring a bare copy of the same
    /// mapping: accesses through it are neither checked, guarded nor recorded, and fault where stores are protected.
    pub fn base(&self) -> *mut u8 {
        self.takes_stores();
        self.base
    }

    /// Loads an aligned word; what was stored before it in program order is visible too.
    ///
    /// # Errors
    /// [`MediaError::OutOfBounds`]; [`MediaError::Misaligned`]; [`MediaError::Fault`] when the medium fails.
    #[inline]
    pub fn load_u64(&self, at: PoolOffset) -> Result<u64> {
        self.check_word(at)?;
        // SAFETY: inside the mapping. x86-64 loads are acquire, and the call is opaque.
        let loaded = unsafe { routines::egeria_media_guard_load(self.address(at)) };
        if loaded.fault == 0 {
            Ok(loaded.value)
        } else {
            self.load_again(at, loaded.fault)
        }
    }

    #[cold]
    #[inline(never)]
    fn load_again(&self, at: PoolOffset, fault: usize) -> Result<u64> {
        if !protection::allow_loads() {
            return Err(self.fault(at, fault));
        }
        // SAFETY: inside the mapping, as before.
        let loaded = unsafe { routines::egeria_media_guard_load(self.address(at)) };
        match loaded.fault {
            0 => Ok(loaded.value),
            address => Err(self.fault(at, address)),
        }
    }

    /// Copies bytes out of the pool.
    ///
    /// # Errors
    /// [`MediaError::OutOfBounds`]; [`MediaError::Fault`] when the medium fails.
    #[inline]
    pub fn read_bytes(&self, at: PoolOffset, into: &mut [u8]) -> Result<()> {
        self.check(at, into.len() as u64)?;
        // SAFETY: inside the mapping; the slice is valid and, being a unique borrow, elsewhere.
        match unsafe { self.copy(into.as_mut_ptr(), self.address(at), into.len()) } {
            0 => Ok(()),
            address => Err(self.fault(at, address)),
        }
    }

    /// Prefetches the lines of a range that will be read soon. Only a hint: does nothing outside the pool.
    #[inline]
    pub fn prefetch(&self, at: PoolOffset, bytes: usize) {
        if self.contains(at, bytes as u64) {
            lines::prefetch_lines_to_read(self.address(at), bytes);
        }
    }

    /// Copies bytes out of the pool, as many as the destination has. On a fault, part of them may
    /// have been copied.
    ///
    /// # Errors
    /// [`AccessFault::Pool`] when the range is not in the pool or its medium fails,
    /// [`AccessFault::Caller`] when the destination cannot be written.
    #[inline(always)]
    pub fn copy_out(
        &self,
        at: PoolOffset,
        destination: CallerDestination<'_>,
    ) -> Result<(), AccessFault> {
        let bytes = destination.bytes();
        if !self.contains(at, bytes as u64) {
            return Err(AccessFault::Pool);
        }
        // SAFETY: inside the mapping; the destination may be overwritten, as its maker promised.
        match unsafe { self.copy(destination.start(), self.address(at), bytes) } {
            0 => Ok(()),
            address => Err(self.whose(address)),
        }
    }

    /// Copies bytes into the pool, as many as the source has; durable after the next
    /// [`Pool::fence`] of this thread. On a fault, part of the bytes may have been stored.
    ///
    /// # Errors
    /// [`AccessFault::Pool`] when the range is not in the pool, stores are refused or its medium fails,
    /// [`AccessFault::Caller`] when the source cannot be read.
    // Inlined for pwrite: as a call it takes 3 % more instructions.
    #[inline(always)]
    #[track_caller]
    pub fn copy_in(&self, at: PoolOffset, source: CallerSource<'_>) -> Result<(), AccessFault> {
        let bytes = source.bytes();
        // The first store of a process may assign the protection key to the pool, and with it the hook.
        if !self.contains(at, bytes as u64) || !self.takes_stores() {
            return Err(AccessFault::Pool);
        }
        if self.is_hooked() {
            self.copy_in_hooked(at, source, Location::caller())
        } else {
            self.stream_in(at, source)
        }
    }

    /// As [`Pool::copy_in`], for a range directly after the last one, as in a sequentially written file: prefetches
    /// the lines first. For scattered blocks that costs more than it gains.
    ///
    /// # Errors
    /// As [`Pool::copy_in`].
    #[inline(always)]
    #[track_caller]
    pub fn copy_in_order(
        &self,
        at: PoolOffset,
        source: CallerSource<'_>,
    ) -> Result<(), AccessFault> {
        let is_usual = self.contains(at, source.bytes() as u64)
            && self.takes_stores()
            && !self.is_hooked()
            && self.goes_through_cache(source.bytes());
        if is_usual {
            self.store_in_order(at, source)
        } else {
            self.copy_in(at, source)
        }
    }

    #[cold]
    #[inline(never)]
    fn copy_in_hooked(
        &self,
        at: PoolOffset,
        source: CallerSource<'_>,
        caller: &'static Location<'static>,
    ) -> Result<(), AccessFault> {
        let bytes = source.bytes();
        self.hooked(at, bytes, Some(caller), || self.stream_in(at, source))
    }

    /// Stores a whole line, given as words; durable after the next [`Pool::fence`] of this thread.
    ///
    /// # Errors
    /// [`AccessFault::Pool`] when there is no such line in the pool, stores are refused or the medium fails.
    #[inline(always)]
    #[track_caller]
    pub fn store_line(&self, at: PoolOffset, words: [u64; 8]) -> Result<(), AccessFault> {
        let [first, second, third, fourth, fifth, sixth, seventh, last] = words;
        let is_line = at.0.is_multiple_of(CACHE_LINE_BYTES) && self.contains(at, CACHE_LINE_BYTES);
        if !is_line || !self.takes_stores() {
            return Err(AccessFault::Pool);
        }
        let words = || [first, second, third, fourth, fifth, sixth, seventh, last];
        if self.is_hooked() {
            // With a copy, so that the words of the usual way stay in registers.
            self.store_hooked_line(at, words(), Location::caller())
        } else {
            self.stream_line(at, words())
        }
    }

    #[cold]
    #[inline(never)]
    fn store_hooked_line(
        &self,
        at: PoolOffset,
        words: [u64; 8],
        caller: &'static Location<'static>,
    ) -> Result<(), AccessFault> {
        let bytes = CACHE_LINE_BYTES as usize;
        self.hooked(at, bytes, Some(caller), || self.stream_line(at, words))
    }

    /// Stores zeros; durable after the next [`Pool::fence`] of this thread.
    ///
    /// # Errors
    /// [`AccessFault::Pool`] when the range is not in the pool, stores are refused or the medium fails.
    #[track_caller]
    pub fn zero(&self, at: PoolOffset, bytes: usize) -> Result<(), AccessFault> {
        if !self.contains(at, bytes as u64) || !self.takes_stores() {
            return Err(AccessFault::Pool);
        }
        if self.is_hooked() {
            let caller = Some(Location::caller());
            return self.hooked(at, bytes, caller, || self.stream_zeros(at, bytes));
        }
        self.stream_zeros(at, bytes)
    }

    /// Stores an aligned word, visible after all earlier stores; durable only after flush + fence.
    ///
    /// # Errors
    /// [`MediaError::OutOfBounds`]; [`MediaError::Misaligned`]; [`MediaError::ReadOnly`]; [`MediaError::Fault`]
    /// when the medium fails.
    #[inline]
    pub fn store_u64(&self, at: PoolOffset, value: u64) -> Result<()> {
        self.check_word(at)?;
        self.check_writable(at)?;
        if self.is_hooked() {
            return self.hooked(at, 8, None, || self.store_word(at, value));
        }
        self.store_word(at, value)
    }

    /// Stores bytes; durable only after flush + fence.
    ///
    /// # Errors
    /// [`MediaError::OutOfBounds`]; [`MediaError::ReadOnly`]; [`MediaError::Fault`] when the medium fails.
    #[inline]
    pub fn write_bytes(&self, at: PoolOffset, from: &[u8]) -> Result<()> {
        self.check(at, from.len() as u64)?;
        self.check_writable(at)?;
        if self.is_hooked() {
            return self.hooked(at, from.len(), None, || self.store_bytes(at, from));
        }
        self.store_bytes(at, from)
    }

    pub(crate) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    pub(crate) fn set_recorded(&self, is_recorded: bool) {
        if is_recorded {
            self.hooks.fetch_or(RECORDED, Ordering::Release)
        } else {
            self.hooks.fetch_and(!RECORDED, Ordering::Release)
        };
    }

    #[inline(always)]
    fn has_hook(&self, hook: u8) -> bool {
        self.hooks.load(Ordering::Relaxed) & hook != 0
    }

    /// Whether threads open the memory for their stores.
    pub(crate) fn is_protected(&self) -> bool {
        self.has_hook(PROTECTED)
    }

    /// Whether a store is not just a store: it is recorded, or the thread opens the memory for it alone. A thread that
    /// may leave the memory open opens it here.
    #[inline(always)]
    fn is_hooked(&self) -> bool {
        match self.hooks.load(Ordering::Relaxed) {
            0 => false,
            PROTECTED => !protection::opens_until_close(),
            _ => true,
        }
    }

    #[cold]
    #[inline(never)]
    fn hooked<E>(
        &self,
        at: PoolOffset,
        bytes: usize,
        flushed_by: Option<&'static Location<'static>>,
        store: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let _open = self.has_hook(PROTECTED).then(Open::begin);
        if self.has_hook(RECORDED) {
            self.attachment.stored(self, at, bytes, flushed_by, store)
        } else {
            store()
        }
    }

    /// Stores bytes past any recorder.
    pub(crate) fn store_unseen(&self, at: PoolOffset, from: &[u8]) -> Result<()> {
        self.check(at, from.len() as u64)?;
        let _open = self.has_hook(PROTECTED).then(Open::begin);
        self.store_bytes(at, from)
    }

    /// `at` is inside the pool or one past its end.
    #[inline(always)]
    pub(crate) fn address(&self, at: PoolOffset) -> *mut u8 {
        // SAFETY: every caller has checked the bounds.
        unsafe { self.base.add(at.0 as usize) }
    }

    /// # Safety
    /// The side in the pool was checked; the other is the caller's or invalid.
    #[inline(always)]
    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> usize {
        let large = bytes >= self.routines.string_bytes;
        let copy = if large {
            self.routines.copy_large
        } else {
            self.routines.copy
        };
        // SAFETY: a guarded routine, which answers for invalid memory; the other side was checked.
        match unsafe { routines::call_copy(copy, to, from, bytes) } {
            0 => 0,
            // SAFETY: as in the first call above.
            _ if protection::allow_loads() => unsafe { routines::call_copy(copy, to, from, bytes) },
            fault => fault,
        }
    }

    /// Tells which memory a faulting address belongs to.
    #[cold]
    #[inline(never)]
    fn whose(&self, address: usize) -> AccessFault {
        if self.note_failure(address) {
            AccessFault::Pool
        } else {
            AccessFault::Caller
        }
    }

    /// The error of an access from an offset that failed at an address.
    #[cold]
    #[inline(never)]
    fn fault(&self, at: PoolOffset, address: usize) -> MediaError {
        self.note_failure(address);
        MediaError::Fault { offset: at.0 }
    }

    /// Note a faulting address, if it is this pool's.
    #[cold]
    #[inline(never)]
    fn note_failure(&self, address: usize) -> bool {
        let offset = (address as u64).wrapping_sub(self.base as u64);
        if offset >= self.bytes {
            return false;
        }
        failures::note(address);
        if let Some(handler) = self.failure_handler.get() {
            handler(PoolOffset(offset));
        }
        true
    }

    #[inline(always)]
    fn contains(&self, at: PoolOffset, bytes: u64) -> bool {
        at.0 <= self.bytes && bytes <= self.bytes - at.0
    }

    #[inline(always)]
    fn check(&self, at: PoolOffset, bytes: u64) -> Result<()> {
        if self.contains(at, bytes) {
            return Ok(());
        }
        Err(MediaError::OutOfBounds {
            offset: at.0,
            bytes,
            pool_bytes: self.bytes,
        })
    }

    #[inline(always)]
    fn check_word(&self, at: PoolOffset) -> Result<()> {
        self.check(at, 8)?;
        if at.0.is_multiple_of(8) {
            Ok(())
        } else {
            Err(MediaError::Misaligned { offset: at.0 })
        }
    }

    #[inline(always)]
    fn check_writable(&self, at: PoolOffset) -> Result<()> {
        if self.takes_stores() {
            Ok(())
        } else {
            Err(MediaError::ReadOnly { offset: at.0 })
        }
    }
}
