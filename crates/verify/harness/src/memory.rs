//! Mappings that end with their guard: bytes that others change meanwhile, and values that processes share.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_SHARED, PROT_READ, PROT_WRITE, c_int, off_t};

/// A mapping, removed when dropped. Its bytes are loaded and stored one by one, as memory that others change; to touch
/// what may not be touched ends the process by a signal.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it is memory of the process, not of a thread.
unsafe impl Send for Mapping {}
// SAFETY: every access is volatile and of a byte or a word.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `mmap(2)` where the kernel likes, by libc's function, which a preloaded library may have replaced.
    ///
    /// # Errors
    /// As of the call; `EINVAL` for `MAP_FIXED`, which could replace memory in use.
    pub fn new(
        file: RawFd,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        at: off_t,
    ) -> io::Result<Mapping> {
        if flags & MAP_FIXED != 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: new memory, so nothing that exists is changed.
        match unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file, at) } {
            MAP_FAILED => Err(io::Error::last_os_error()),
            start => Ok(Mapping {
                start: start.cast(),
                bytes,
            }),
        }
    }

    /// The start of a file, shared with all who map it.
    ///
    /// # Errors
    /// As of [`Mapping::new`].
    pub fn of_file(file: &File, bytes: usize, is_writable: bool) -> io::Result<Mapping> {
        let protection = PROT_READ | if is_writable { PROT_WRITE } else { 0 };
        Mapping::new(file.as_raw_fd(), bytes, protection, MAP_SHARED, 0)
    }

    /// Zeros, shared with children.
    ///
    /// # Errors
    /// As of [`Mapping::new`].
    pub fn of_zeros(bytes: usize) -> io::Result<Mapping> {
        let access = PROT_READ | PROT_WRITE;
        Mapping::new(-1, bytes, access, MAP_SHARED | MAP_ANONYMOUS, 0)
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where this byte is in memory, for calls that take addresses; nothing is touched.
    #[track_caller]
    pub fn address(&self, at: usize) -> *mut u8 {
        assert!(at <= self.bytes);
        self.start.wrapping_add(at)
    }

    /// Where a byte or a word is.
    #[track_caller]
    fn place<T>(&self, at: usize) -> *mut T {
        assert!(at.is_multiple_of(size_of::<T>()) && at + size_of::<T>() <= self.bytes);
        self.start.wrapping_add(at).cast()
    }

    #[track_caller]
    fn load_one<T: Integer>(&self, at: usize) -> T {
        // SAFETY: inside the mapping, and aligned; any bytes are an integer.
        unsafe { self.place::<T>(at).read_volatile() }
    }

    #[track_caller]
    fn store_one<T: Integer>(&self, at: usize, value: T) {
        // SAFETY: inside the mapping, and aligned.
        unsafe { self.place::<T>(at).write_volatile(value) }
    }

    /// Loads a byte.
    #[track_caller]
    pub fn get(&self, at: usize) -> u8 {
        self.load_one(at)
    }

    /// Stores a byte.
    #[track_caller]
    pub fn set(&self, at: usize, value: u8) {
        self.store_one(at, value);
    }

    /// Stores, byte by byte.
    #[track_caller]
    pub fn store(&self, at: usize, data: &[u8]) {
        for (index, byte) in data.iter().enumerate() {
            self.set(at + index, *byte);
        }
    }

    /// Loads this many bytes from the start.
    #[track_caller]
    pub fn load(&self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| self.get(at)).collect()
    }

    /// Loads eight bytes at once.
    #[track_caller]
    pub fn load_word(&self, at: usize) -> u64 {
        self.load_one(at)
    }

    /// Stores eight bytes at once.
    #[track_caller]
    pub fn store_word(&self, at: usize, value: u64) {
        self.store_one(at, value);
    }

    /// `msync(2)`, all of it, waiting.
    ///
    /// # Errors
    /// As of the call.
    pub fn sync(&self) -> io::Result<()> {
        // SAFETY: the mapping's own range.
        done(unsafe { libc::msync(self.start.cast(), self.bytes, libc::MS_SYNC) })
    }

    /// `madvise(2)`, all of it.
    ///
    /// # Errors
    /// As of the call.
    pub fn advise(&self, advice: c_int) -> io::Result<()> {
        // SAFETY: the mapping's own range, of which nobody has a reference.
        done(unsafe { libc::madvise(self.start.cast(), self.bytes, advice) })
    }

    /// `mremap(2)` to another length, wherever there is room.
    ///
    /// # Errors
    /// As of the call.
    pub fn moved(self, bytes: usize) -> io::Result<Mapping> {
        let how = libc::MREMAP_MAYMOVE;
        // SAFETY: the mapping's own range, of which nobody has a reference, and which is replaced by what is answered.
        match unsafe { libc::mremap(self.start.cast(), self.bytes, bytes, how) } {
            MAP_FAILED => Err(io::Error::last_os_error()),
            start => {
                std::mem::forget(self);
                Ok(Mapping {
                    start: start.cast(),
                    bytes,
                })
            }
        }
    }

    /// `mprotect(2)` from here on.
    ///
    /// # Errors
    /// As of the call.
    #[track_caller]
    pub fn protect_from(&self, at: usize, protection: c_int) -> io::Result<()> {
        let start = self.address(at);
        // SAFETY: the mapping's own range, of which nobody has a reference.
        done(unsafe { libc::mprotect(start.cast(), self.bytes - at, protection) })
    }
}

/// What is loaded and stored at once.
trait Integer {}
impl Integer for u8 {}
impl Integer for u64 {}

fn done(answer: c_int) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping's own range, not used again.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Atomics and nothing else, which any bytes are a value of; [`shared_values`](crate::shared_values) makes structures of
/// them.
///
/// # Safety
/// Every byte of the type lies in an atomic, or between them.
pub unsafe trait Atomics: Sync + 'static {}

macro_rules! atomics {
    ($($atomic:ty)*) => {
        $(
            // SAFETY: an atomic that any bytes are a value of.
            unsafe impl Atomics for $atomic {}
        )*
    };
}

atomics!(AtomicU8 AtomicI32 AtomicU32 AtomicU64);

// SAFETY: nothing but its elements.
unsafe impl<T: Atomics, const N: usize> Atomics for [T; N] {}

/// Structures of atomics, laid out alike in all processes, that [`Shared`](crate::memory::Shared) can map.
#[macro_export]
macro_rules! shared_values {
    ($(
        $(#[$about:meta])*
        $access:vis struct $name:ident {
            $($(#[$about_field:meta])* $field_access:vis $field:ident: $type:ty,)*
        }
    )*) => {
        $(
            $(#[$about])*
            #[repr(C)]
            $access struct $name {
                $($(#[$about_field])* $field_access $field: $type,)*
            }

            // SAFETY: nothing but its fields, which are atomics.
            unsafe impl $crate::memory::Atomics for $name where $($type: $crate::memory::Atomics,)* {}
        )*
    };
}

/// A value that processes share, which begins as zeros.
#[derive(Debug)]
pub struct Shared<T> {
    mapping: Mapping,
    value: PhantomData<T>,
}

impl<T: Atomics> Shared<T> {
    /// With children alone.
    ///
    /// # Errors
    /// `ENOMEM` when there is no memory for it.
    pub fn with_children() -> io::Result<Shared<T>> {
        Mapping::of_zeros(size_of::<T>()).map(Shared::over)
    }

    /// With all who map this file, which must be as long as the value.
    ///
    /// # Errors
    /// `EINVAL` for a file of another size, else as of [`Mapping::new`].
    pub fn of_file(file: &File) -> io::Result<Shared<T>> {
        if file.metadata()?.len() == size_of::<T>() as u64 {
            Mapping::of_file(file, size_of::<T>(), true).map(Shared::over)
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }

    /// With all who open this path; the file is made, or given the size, that it lacks.
    ///
    /// # Errors
    /// When it cannot be opened, be given its size, or be mapped.
    pub fn open(path: &Path) -> io::Result<Shared<T>> {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false);
        let file = file.open(path)?;
        file.set_len(size_of::<T>() as u64)?;
        Shared::of_file(&file)
    }

    fn over(mapping: Mapping) -> Shared<T> {
        Shared {
            mapping,
            value: PhantomData,
        }
    }

    /// The value, mapped until the process ends.
    pub fn leak(self) -> &'static T {
        Box::leak(Box::new(self))
    }
}

impl<T: Atomics> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        const { assert!(align_of::<T>() <= 4096) };
        // SAFETY: mapped as long as `self`, aligned to pages and long enough; any bytes are a value of atomics, which
        // others may change.
        unsafe { &*self.mapping.start.cast() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::Forked;
    use std::sync::atomic::Ordering;

    crate::shared_values! {
        struct Words {
            first: AtomicU64,
            others: [AtomicU64; 1000],
        }
    }

    #[test]
    fn children_and_openers_share_a_value() {
        let shared: Shared<Words> = Shared::with_children().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("words");
        let words: &Words = Shared::<Words>::open(&path).unwrap().leak();
        let child = Forked::run_well(|| {
            shared.others[999].store(3, Ordering::Release);
            let again: Shared<Words> = Shared::open(&path).unwrap();
            again.first.store(4, Ordering::Release);
            true
        });
        assert!(child.unwrap().wait().success());
        assert_eq!(shared.others[999].load(Ordering::Acquire), 3);
        assert_eq!(words.first.load(Ordering::Acquire), 4);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.set_len(8).unwrap();
        let error = Shared::<Words>::of_file(&file).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_mapping_stores_into_its_file_and_ends_where_it_ends() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mapping = Mapping::of_file(&file, 8192, true).unwrap();
        mapping.store(4095, b"ab");
        mapping.store_word(8, 5);
        mapping.sync().unwrap();
        let read = |at, room: &mut [u8]| {
            std::os::unix::fs::FileExt::read_exact_at(&file, room, at).unwrap();
        };
        let (mut bytes, mut word) = ([0; 2], [0; 8]);
        read(4095, &mut bytes);
        read(8, &mut word);
        assert_eq!((&bytes, u64::from_ne_bytes(word)), (b"ab", 5));
        assert_eq!((mapping.load_word(8), mapping.load(9)[8]), (5, 5));
        assert!(std::panic::catch_unwind(|| mapping.get(8192)).is_err());
        assert!(std::panic::catch_unwind(|| mapping.load_word(8192)).is_err());
        assert!(std::panic::catch_unwind(|| mapping.load_word(4)).is_err());
    }

    #[test]
    fn what_may_not_be_touched_ends_who_touches_it() {
        let mapping = Mapping::of_zeros(8192).unwrap();
        mapping.protect_from(4096, libc::PROT_NONE).unwrap();
        let touch = |at| Forked::run(|| mapping.get(at).into()).unwrap().wait();
        assert_eq!(touch(4095).code(), Some(0));
        let signal = std::os::unix::process::ExitStatusExt::signal(&touch(4096));
        assert_eq!(signal, Some(libc::SIGSEGV));
        let flags = MAP_FIXED | MAP_SHARED | MAP_ANONYMOUS;
        let fixed = Mapping::new(-1, 4096, PROT_READ, flags, 0);
        assert_eq!(fixed.err().unwrap().kind(), io::ErrorKind::InvalidInput);
    }
}
