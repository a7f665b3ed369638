//! Calls made as any program makes them, below the current directory: through a mount, and past it
//! where the preload library is loaded.

use super::files::{Attribute, Files};
use egeria_engine::{Errno, Outcome};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

/// What a call of libc answered: rustix does not call libc, which the library hooks.
macro_rules! answered {
    ($call:expr) => {{
        // SAFETY: descriptors are open, strings end with NUL, values and places for answers live.
        let answer = unsafe { $call } as i64;
        u64::try_from(answer).map_err(|_| errno(io::Error::last_os_error()))
    }};
}

/// The current directory. Where its mount goes, calls fail instead of meeting what lies below.
pub struct Posix;

/// How long a mount takes to be gone that died before a call failed.
const DEATH: Duration = Duration::from_secs(2);

/// Where the mount is dead, what other calls say then: reads through its page cache fail with `EIO`, and so does a
/// request that it was killed in the middle of taking from the kernel, a moment before the mount is gone.
fn errno(error: io::Error) -> Errno {
    let said = Errno(error.raw_os_error().unwrap_or(libc::EIO));
    let failed = Instant::now();
    while said == Errno(libc::EIO) && failed.elapsed() < DEATH {
        match rustix::fs::statfs(".") {
            Err(of_mount) if of_mount != rustix::io::Errno::IO => {
                return Errno(of_mount.raw_os_error());
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    said
}

impl Files for Posix {
    type File = File;
    /// `ESTALE` is the kernel's: it finds a directory elsewhere than it knew, because somebody moved it past the
    /// mount, and cannot take the locks to believe it.
    const LOST_RACE: &'static [i32] = &[libc::ENOENT, libc::EEXIST, libc::ESTALE];

    fn access_path(&self) -> &'static str {
        match std::env::var_os("LD_PRELOAD") {
            Some(_) => "the preload library",
            None => "the mount",
        }
    }

    /// Through its page cache, before a page that it has not read.
    fn splits_writes(&self) -> bool {
        std::env::var_os("LD_PRELOAD").is_none()
    }

    fn create(&self, path: &str) -> Outcome<()> {
        File::create_new(path).map(drop).map_err(errno)
    }

    fn open(&self, path: &str, append: bool) -> Outcome<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).append(append);
        options.open(path).map_err(errno)
    }

    /// Past the page cache: through it, the kernel sends a write in parts, and others may write between them.
    fn open_for_whole_writes(&self, path: &str) -> Outcome<File> {
        if !self.splits_writes() {
            return self.open(path, false);
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        options.open(path).map_err(errno)
    }

    fn close(&self, file: File) {
        drop(file);
    }

    fn append(&self, mut file: &File, data: &[u8]) -> Outcome<usize> {
        file.write(data).map_err(errno)
    }

    fn write_at(&self, file: &File, offset: u64, data: &[u8]) -> Outcome<usize> {
        let written = FileExt::write_at(file, data, offset).map_err(errno)?;
        if written < data.len() && self.splits_writes() {
            // A write that the kernel splits is short if the mount dies between two requests. As a program would,
            // ask for the rest: only a mount that lives makes a short write a fault.
            let rest = FileExt::write_at(file, &data[written..], offset + written as u64);
            rest.map_err(errno)?;
        }
        Ok(written)
    }

    fn read_at(&self, file: &File, offset: u64, data: &mut [u8]) -> Outcome<usize> {
        FileExt::read_at(file, data, offset).map_err(errno)
    }

    fn read_all(&self, mut file: &File) -> Outcome<Vec<u8>> {
        let mut data = Vec::new();
        file.rewind()
            .and_then(|()| file.read_to_end(&mut data))
            .map_err(errno)?;
        Ok(data)
    }

    fn resize(&self, file: &File, bytes: u64) -> Outcome<()> {
        file.set_len(bytes).map_err(errno)
    }

    fn punch(&self, file: &File, offset: u64, bytes: u64) -> Outcome<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        answered!(libc::fallocate(
            file.as_raw_fd(),
            mode,
            offset as i64,
            bytes as i64
        ))
        .map(drop)
    }

    fn sync(&self, file: &File) -> Outcome<()> {
        file.sync_all().map_err(errno)
    }

    fn link(&self, from: &str, to: &str) -> Outcome<()> {
        fs::hard_link(from, to).map_err(errno)
    }

    fn unlink(&self, path: &str) -> Outcome<()> {
        fs::remove_file(path).map_err(errno)
    }

    fn rename(&self, from: &str, to: &str) -> Outcome<()> {
        fs::rename(from, to).map_err(errno)
    }

    fn rename_to_free(&self, from: &str, to: &str) -> Outcome<()> {
        let path = |text: &str| CString::new(text).map_err(|_| Errno(libc::EINVAL));
        let (from, to) = (path(from)?, path(to)?);
        let here = libc::AT_FDCWD;
        let flags = libc::RENAME_NOREPLACE;
        answered!(libc::renameat2(
            here,
            from.as_ptr(),
            here,
            to.as_ptr(),
            flags
        ))
        .map(drop)
    }

    fn make_directory(&self, path: &str) -> Outcome<()> {
        fs::create_dir(path).map_err(errno)
    }

    fn remove_directory(&self, path: &str) -> Outcome<()> {
        fs::remove_dir(path).map_err(errno)
    }

    fn set_attribute(&self, path: &str, (name, value): Attribute) -> Outcome<()> {
        let path = CString::new(path).map_err(|_| Errno(libc::EINVAL))?;
        let bytes = value.as_ptr().cast();
        answered!(libc::setxattr(
            path.as_ptr(),
            name.as_ptr(),
            bytes,
            value.len(),
            0
        ))
        .map(drop)
    }

    fn stat(&self, path: &str) -> Outcome<()> {
        fs::symlink_metadata(path).map(drop).map_err(errno)
    }

    fn list_attributes(&self, path: &str) -> Outcome<()> {
        let path = CString::new(path).map_err(|_| Errno(libc::EINVAL))?;
        answered!(libc::llistxattr(path.as_ptr(), std::ptr::null_mut(), 0)).map(drop)
    }

    fn find_hole(&self, file: &File) -> Outcome<u64> {
        answered!(libc::lseek(file.as_raw_fd(), 0, libc::SEEK_HOLE))
    }

    fn stat_file_system(&self) -> Outcome<()> {
        let mut facts = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        answered!(libc::statvfs(c".".as_ptr(), facts.as_mut_ptr())).map(drop)
    }

    fn list(&self, path: &str) -> Outcome<Vec<String>> {
        let entries = fs::read_dir(path).map_err(errno)?;
        entries
            .map(|entry| Ok(entry.map_err(errno)?.file_name().to_string_lossy().into()))
            .collect()
    }
}
