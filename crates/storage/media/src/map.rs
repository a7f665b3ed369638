//! Opening a pool's file or device and mapping it, huge-page friendly.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr;

use crate::address::{BLOCK_BYTES, HUGE_PAGE_BYTES};
use crate::error::{MediaError, Result};
use crate::protection;

/// How a pool is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Loads and stores.
    ReadWrite,
    /// Loads only; stores answer an error.
    ReadOnly,
}

/// Failures that a flushed and fenced store to the pool survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// Power loss: mapped straight onto persistent memory.
    Dax,
    /// The death of processes, not power loss: tmpfs, hugetlbfs, anonymous memory.
    Volatile,
    /// The death of processes; after a power loss only what the kernel had written back.
    PageCache,
}

/// The kind of file at a pool's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Regular,
    BlockDevice,
    DeviceDax,
}

/// A mapping, with reserved addresses before and behind it; unmapped when dropped.
pub(crate) struct Mapping {
    pub(crate) base: *mut u8,
    pub(crate) bytes: u64,
    reserved: *mut u8,
    reserved_bytes: usize,
    pub(crate) persistence: Persistence,
}

impl Mapping {
    /// Makes the mapping writable; true when threads must also open it by a protection key.
    ///
    /// # Errors
    /// What the system says: the file was not opened for writing.
    pub(crate) fn make_writable(&self) -> io::Result<bool> {
        let bytes = (self.bytes as usize).next_multiple_of(HUGE_PAGE_BYTES as usize);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        if let Some(key) = protection::key() {
            // SAFETY: the range this value mapped; a concurrent reader goes on, at worst after a fault.
            let answer =
                unsafe { libc::syscall(libc::SYS_pkey_mprotect, self.base, bytes, access, key) };
            if answer == 0 {
                return Ok(true);
            }
        }
        // SAFETY: the range this value mapped; a concurrent reader goes on reading.
        match unsafe { libc::mprotect(self.base.cast(), bytes, access) } {
            0 => Ok(false),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is one this value mapped; no other code unmaps it.
        unsafe { libc::munmap(self.reserved.cast(), self.reserved_bytes) };
    }
}

/// Opens a pool's file close-on-exec, without creating it.
pub(crate) fn open_file(path: &Path, access: Access) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(access == Access::ReadWrite)
        .custom_flags(libc::O_CLOEXEC)
        .open(path)
        .map_err(|error| MediaError::io(path, "cannot open the pool", error))
}

/// The kind of a file; an error when it cannot be a pool.
pub(crate) fn kind_of(path: &Path, metadata: &Metadata) -> Result<Kind> {
    let kind = metadata.file_type();
    let not_a_pool = |kind| {
        Err(MediaError::NotAPool {
            path: path.to_owned(),
            kind,
        })
    };
    if kind.is_file() {
        Ok(Kind::Regular)
    } else if kind.is_block_device() {
        Ok(Kind::BlockDevice)
    } else if kind.is_char_device() {
        match device_dax_bytes(metadata) {
            Some(_) => Ok(Kind::DeviceDax),
            None => not_a_pool("character device"),
        }
    } else if kind.is_dir() {
        not_a_pool("directory")
    } else {
        not_a_pool("special file")
    }
}

/// Bytes of the file or device.
pub(crate) fn size_of(path: &Path, file: &File, metadata: &Metadata, kind: Kind) -> Result<u64> {
    match kind {
        Kind::Regular => Ok(metadata.len()),
        Kind::DeviceDax => Ok(device_dax_bytes(metadata).unwrap_or(0)),
        Kind::BlockDevice => block_device_bytes(file)
            .map_err(|error| MediaError::io(path, "cannot ask the device's size", error)),
    }
}

/// Size of a device-DAX device from sysfs; `None` when the device is no such device.
fn device_dax_bytes(metadata: &Metadata) -> Option<u64> {
    let device = metadata.rdev();
    let folder = format!(
        "/sys/dev/char/{}:{}",
        libc::major(device),
        libc::minor(device)
    );
    let subsystem = std::fs::read_link(format!("{folder}/subsystem")).ok()?;
    if subsystem.file_name()? != "dax" {
        return None;
    }
    let size = std::fs::read_to_string(format!("{folder}/size")).ok()?;
    size.trim().parse().ok()
}

fn block_device_bytes(file: &File) -> io::Result<u64> {
    /// `BLKGETSIZE64` of the kernel's `linux/fs.h`.
    const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
    let mut bytes = 0u64;
    // SAFETY: the call writes one u64 to the given place.
    match unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &mut bytes) } {
        0 => Ok(bytes),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maps the whole blocks of an open file or device, for loads until [`Mapping::make_writable`].
pub(crate) fn map_file(file: &File, path: &Path) -> Result<Mapping> {
    let metadata = file
        .metadata()
        .map_err(|error| MediaError::io(path, "cannot inspect the pool", error))?;
    let kind = kind_of(path, &metadata)?;
    let bytes = size_of(path, file, &metadata, kind)? / BLOCK_BYTES * BLOCK_BYTES;
    if bytes == 0 || bytes > isize::MAX as u64 - 2 * HUGE_PAGE_BYTES {
        let hint = "it needs at least one block of 4096 bytes; is it truncated?";
        return Err(MediaError::BadSize {
            path: path.to_owned(),
            bytes: metadata.len(),
            hint,
        });
    }
    let failed = |error| MediaError::io(path, "cannot map the pool", error);
    let spot = Spot::reserve(bytes).map_err(failed)?;
    // MAP_SYNC first: only DAX grants it, and then flushed data needs no fsync.
    let dax = spot.map(
        file.as_raw_fd(),
        libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
        false,
    );
    let persistence = match dax {
        Ok(()) => Persistence::Dax,
        Err(_) => {
            spot.map(file.as_raw_fd(), libc::MAP_SHARED, false)
                .map_err(failed)?;
            fallback_persistence(file, kind)
        }
    };
    Ok(spot.finish(bytes, persistence))
}

/// Maps memory no file stands behind.
pub(crate) fn map_anonymous(bytes: u64) -> io::Result<Mapping> {
    let spot = Spot::reserve(bytes)?;
    spot.map(-1, libc::MAP_SHARED | libc::MAP_ANONYMOUS, true)?;
    Ok(spot.finish(bytes, Persistence::Volatile))
}

/// Maps a file's present content for this process alone; stores never reach the file.
pub(crate) fn map_private(file: &File, bytes: u64) -> io::Result<Mapping> {
    let spot = Spot::reserve(bytes)?;
    // No memory is reserved for copies of pages that are never stored to.
    let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
    spot.map(file.as_raw_fd(), flags, true)?;
    Ok(spot.finish(bytes, Persistence::Volatile))
}

fn fallback_persistence(file: &File, kind: Kind) -> Persistence {
    match (kind, file_system(file)) {
        (Kind::DeviceDax, _) => Persistence::Dax,
        (Kind::Regular, FileSystem::Memory | FileSystem::HugePages(_)) => Persistence::Volatile,
        _ => Persistence::PageCache,
    }
}

/// Kinds of file systems that matter to pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileSystem {
    Memory,
    /// hugetlbfs, with the bytes of its pages
    HugePages(u64),
    /// anything on a device
    Device,
}

/// The kind of file system an open file lies on.
pub(crate) fn file_system(file: &File) -> FileSystem {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    const HUGETLBFS: i64 = 0x9584_58f6;
    match rustix::fs::fstatfs(file) {
        Ok(facts) if matches!(facts.f_type, TMPFS | RAMFS) => FileSystem::Memory,
        Ok(facts) if facts.f_type == HUGETLBFS => FileSystem::HugePages(facts.f_bsize as u64),
        _ => FileSystem::Device,
    }
}

/// A reserved address range that begins at a multiple of a huge page, inside a larger inaccessible range: an overrun
/// of a program's own memory, or of a pool, faults there and does not reach a pool.
struct Spot {
    base: *mut u8,
    bytes: usize,
    reserved: *mut u8,
    reserved_bytes: usize,
}

impl Spot {
    /// Reserves `bytes`, rounded up to huge pages, so that the rest of a last huge page is never used for another
    /// mapping.
    fn reserve(bytes: u64) -> io::Result<Spot> {
        let huge = HUGE_PAGE_BYTES as usize;
        let bytes = (bytes as usize).next_multiple_of(huge);
        let reserved_bytes = bytes + 2 * huge;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                reserved_bytes,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let reserved: *mut u8 = start.cast();
        // At least one page before it and, because the kernel aligns to pages, at least one behind it.
        let first = reserved.wrapping_add(BLOCK_BYTES as usize);
        let base = first.wrapping_add(first.align_offset(huge));
        Ok(Spot {
            base,
            bytes,
            reserved,
            reserved_bytes,
        })
    }

    /// Maps `fd` (or nothing, -1) over the reserved range.
    fn map(&self, fd: i32, flags: i32, writable: bool) -> io::Result<()> {
        let protection = if writable {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        // SAFETY: MAP_FIXED replaces only the range this value reserved.
        let at = unsafe {
            libc::mmap(
                self.base.cast(),
                self.bytes,
                protection,
                flags | libc::MAP_FIXED,
                fd,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    fn finish(self, bytes: u64, persistence: Persistence) -> Mapping {
        // Advice only: huge pages if available, and no pool in a core dump.
        // SAFETY: the range is mapped and ours.
        unsafe {
            libc::madvise(self.base.cast(), self.bytes, libc::MADV_HUGEPAGE);
            libc::madvise(self.base.cast(), self.bytes, libc::MADV_DONTDUMP);
        }
        let mapping = Mapping {
            base: self.base,
            bytes,
            reserved: self.reserved,
            reserved_bytes: self.reserved_bytes,
            persistence,
        };
        std::mem::forget(self);
        mapping
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        // SAFETY: the range was reserved by this value and is used by no other.
        unsafe { libc::munmap(self.reserved.cast(), self.reserved_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use crate::{Access, Pool, PoolOffset};

    /// The protection of the page at an address, as in /proc/self/maps.
    fn protection(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            let inside = (number(from)?..number(to)?).contains(&address);
            inside.then(|| rest[..4].to_owned())
        })
    }

    #[test]
    fn a_pool_is_writable_from_the_first_store_on() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = directory.path().join("pool");
        Pool::create(&path, 16 << 20).expect("a pool");
        let pool = Pool::open(&path, Access::ReadWrite).expect("open");
        pool.load_u64(PoolOffset(0)).expect("a load");
        let base = pool.start();
        assert_eq!(protection(base).as_deref(), Some("r--s"));
        pool.store_u64(PoolOffset(64), 7).expect("a store");
        assert_eq!(protection(base).as_deref(), Some("rw-s"));
        assert_eq!(pool.load_u64(PoolOffset(64)).expect("a load"), 7);
        let pool = Pool::open(&path, Access::ReadOnly).expect("open");
        assert!(pool.store_u64(PoolOffset(64), 8).is_err());
        assert_eq!(protection(pool.start()).as_deref(), Some("r--s"));
    }
}
