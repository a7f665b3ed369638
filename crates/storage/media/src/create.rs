//! Creating pools: a new file of the right size, or an existing device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::PoolOffset;
use crate::address::BLOCK_BYTES;
use crate::error::{MediaError, Result};
use crate::map::{self, Access, FileSystem, Kind};
use crate::pool::Pool;

/// Bytes at the beginning of a device that must be zero unless it may be overwritten.
const PROBE_BYTES: usize = 64 << 10;

impl Pool {
    /// Makes a pool file of `bytes` (a multiple of [`BLOCK_BYTES`]), mode 0600, or checks that a device can hold one.
    /// Refused when the file or device holds data already.
    ///
    /// # Errors
    /// [`MediaError::Exists`] when it holds data; [`MediaError::BadSize`]; [`MediaError::NotAPool`]; what the
    /// system says.
    pub fn create(path: &Path, bytes: u64) -> Result<()> {
        create(path, bytes, false)
    }

    /// As [`Pool::create`], but existing content may be overwritten.
    ///
    /// # Errors
    /// As [`Pool::create`], but [`MediaError::Exists`].
    pub fn create_forced(path: &Path, bytes: u64) -> Result<()> {
        create(path, bytes, true)
    }
}

fn create(path: &Path, bytes: u64, overwrite: bool) -> Result<()> {
    if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) || bytes > i64::MAX as u64 {
        let hint = "give a multiple of 4096 bytes";
        return Err(MediaError::BadSize {
            path: path.to_owned(),
            bytes,
            hint,
        });
    }
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.file_type().is_file() => {
            existing(path, bytes, metadata.len(), overwrite)
        }
        Ok(metadata) => {
            map::kind_of(path, &metadata)?;
            device(
                path,
                bytes,
                overwrite,
                metadata.file_type().is_block_device(),
            )
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => fresh(path, bytes),
        Err(error) => Err(MediaError::io(path, "cannot inspect the pool", error)),
    }
}

/// A new file; removed again when it cannot be given its size.
fn fresh(path: &Path, bytes: u64) -> Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_CLOEXEC)
        .open(path)
        .map_err(|error| MediaError::io(path, "cannot create the pool", error))?;
    give_size(&file, path, bytes).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}

/// An existing file: empty, or to be overwritten.
fn existing(path: &Path, bytes: u64, present_bytes: u64, overwrite: bool) -> Result<()> {
    if present_bytes > 0 && !overwrite {
        return Err(MediaError::Exists {
            path: path.to_owned(),
        });
    }
    let file = map::open_file(path, Access::ReadWrite)?;
    // Truncated first: no old byte may be taken for pool content.
    file.set_len(0)
        .map_err(|error| MediaError::io(path, "cannot empty the old pool", error))?;
    give_size(&file, path, bytes)
}

fn give_size(file: &File, path: &Path, bytes: u64) -> Result<()> {
    let failed = |error| MediaError::io(path, "cannot give the pool its size", error);
    match map::file_system(file) {
        FileSystem::HugePages(page_bytes) if !bytes.is_multiple_of(page_bytes) => {
            let hint = "on hugetlbfs give a multiple of its page size";
            return Err(MediaError::BadSize {
                path: path.to_owned(),
                bytes,
                hint,
            });
        }
        FileSystem::HugePages(_) => file.set_len(bytes).map_err(failed)?,
        FileSystem::Memory => {
            memory_has_room(file, bytes).map_err(failed)?;
            file.set_len(bytes).map_err(failed)?;
        }
        // Reserved now, because a full file system would later raise SIGBUS.
        FileSystem::Device => {
            // SAFETY: a plain call on an open descriptor.
            match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as i64) } {
                0 => {}
                code => return Err(failed(io::Error::from_raw_os_error(code))),
            }
        }
    }
    // Mapping it shows now whether huge pages can be reserved and the address space suffices.
    map::map_file(file, path).map(drop)
}

/// tmpfs keeps the pool sparse, but a pool that could never be filled is refused now.
fn memory_has_room(file: &File, bytes: u64) -> io::Result<()> {
    let facts = rustix::fs::fstatvfs(file)?;
    // No block count: the file system has no limit.
    if facts.f_blocks > 0 && facts.f_bavail.saturating_mul(facts.f_frsize) < bytes {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    Ok(())
}

/// A device keeps its size; it must be large enough for the pool, and empty.
fn device(path: &Path, bytes: u64, overwrite: bool, block_device: bool) -> Result<()> {
    let file = map::open_file(path, Access::ReadWrite)?;
    let metadata = file
        .metadata()
        .map_err(|error| MediaError::io(path, "cannot inspect the pool", error))?;
    let kind = if block_device {
        Kind::BlockDevice
    } else {
        Kind::DeviceDax
    };
    if map::size_of(path, &file, &metadata, kind)? < bytes {
        let hint = "the device is smaller; ask for less";
        return Err(MediaError::BadSize {
            path: path.to_owned(),
            bytes,
            hint,
        });
    }
    let pool = Pool::open_with_file(file, path, Access::ReadWrite)?;
    let mut head = vec![0u8; PROBE_BYTES.min(pool.bytes() as usize)];
    pool.read_bytes(PoolOffset(0), &mut head)?;
    if !overwrite && head.iter().any(|&byte| byte != 0) {
        return Err(MediaError::Exists {
            path: path.to_owned(),
        });
    }
    Ok(())
}
