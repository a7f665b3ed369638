//! The three things measured: files through system calls, twice, and bare copies.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use egeria_media::{Access, Pool};

use super::plan::{Files, Operation};

/// Bytes of a write that fills a file.
const FILL_BYTES: u64 = 64 << 10;

/// One of the three, opened; thread `i` uses the `i`-th file.
pub(super) enum Subject {
    /// Files on a file system.
    Files(Vec<DataFile>),
    /// Files mapped as pools are.
    Memory(Vec<Pool>),
}

/// A file of a thread, and beside it the one it appends to.
pub(super) struct DataFile {
    data: File,
    appended_path: PathBuf,
}

impl Subject {
    /// Makes the files, fills them with `bytes` each and touches every page once more.
    pub(super) fn files(paths: &[PathBuf], bytes: u64) -> io::Result<Subject> {
        let files = paths.iter().map(|path| DataFile::fill(path, bytes));
        Ok(Subject::Files(files.collect::<io::Result<_>>()?))
    }

    /// Makes the files and maps them; [`prefault`] then gives them their pages.
    pub(super) fn memory(paths: &[PathBuf], bytes: u64) -> io::Result<Subject> {
        let map = |path: &PathBuf| {
            Pool::create(path, bytes)
                .and_then(|()| Pool::open(path, Access::ReadWrite))
                .map_err(io::Error::other)
        };
        let pools: Vec<Pool> = paths.iter().map(map).collect::<io::Result<_>>()?;
        for path in paths {
            prefault(path)?;
        }
        Ok(Subject::Memory(pools))
    }

    /// Gets thread `thread` ready for calls of one operation.
    pub(super) fn open(
        &self,
        thread: usize,
        operation: Operation,
        files: Files,
    ) -> io::Result<Opened<'_>> {
        let thread = match files {
            Files::Shared | Files::One => 0,
            Files::Own | Files::Striped => thread,
        };
        match self {
            Subject::Memory(pools) => Ok(Opened::Memory(&pools[thread])),
            Subject::Files(files) if operation == Operation::Append => {
                let mut options = OpenOptions::new();
                options
                    .append(true)
                    .create(true)
                    .custom_flags(libc::O_CLOEXEC);
                let file = options.open(&files[thread].appended_path)?;
                file.set_len(0)?;
                Ok(Opened::Appending(file))
            }
            Subject::Files(files) => Ok(Opened::File(&files[thread].data)),
        }
    }
}

impl DataFile {
    fn fill(path: &Path, bytes: u64) -> io::Result<DataFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let data = options.open(path)?;
        let mut block = vec![0u8; FILL_BYTES as usize];
        for offset in (0..bytes).step_by(block.len()) {
            block.fill((offset / FILL_BYTES) as u8 | 1);
            data.write_all_at(&block, offset)?;
        }
        for offset in (0..bytes).step_by(block.len()) {
            data.read_exact_at(&mut block, offset)?;
            if block
                .iter()
                .any(|byte| *byte != (offset / FILL_BYTES) as u8 | 1)
            {
                let text = format!(
                    "{}: read back other bytes than were written",
                    path.display()
                );
                return Err(io::Error::other(text));
            }
        }
        Ok(DataFile {
            data,
            appended_path: path.with_extension("appended"),
        })
    }
}

/// What one thread calls.
pub(super) enum Opened<'a> {
    File(&'a File),
    Appending(File),
    Memory(&'a Pool),
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if let Opened::Appending(file) = self {
            // Room for the next run; a failure shows there.
            let _ = file.set_len(0);
        }
    }
}

/// A page-aligned buffer of one call.
pub(super) struct Buffer(Box<[Page]>);

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

impl Buffer {
    /// At least `bytes`, every page touched.
    pub(super) fn new(bytes: u64) -> Buffer {
        Buffer(vec![Page([0x5a; 4096]); (bytes as usize).div_ceil(4096)].into_boxed_slice())
    }

    fn pointer(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Calls that a measured loop makes; `offset` is in bytes and block-aligned.
pub(super) trait Call {
    /// Makes the call at `offset`.
    fn call(&mut self, offset: u64) -> io::Result<()>;
}

/// The call of an operation on what a thread opened.
///
/// The match on the operation is one well-predicted branch of a call, the same for all subjects.
pub(super) struct Calls<'a> {
    pub(super) opened: &'a Opened<'a>,
    pub(super) operation: Operation,
    pub(super) buffer: &'a mut Buffer,
    pub(super) bytes: usize,
}

impl Call for Calls<'_> {
    #[inline]
    fn call(&mut self, offset: u64) -> io::Result<()> {
        let buffer = self.buffer.pointer();
        let reads = matches!(
            self.operation,
            Operation::RandomPread | Operation::SequentialPread
        );
        let (bytes, at) = (self.bytes, offset as libc::off_t);
        // SAFETY: the buffer holds `bytes` bytes, see `Buffer::new`.
        let done = unsafe {
            match self.opened {
                Opened::Memory(pool) if self.operation == Operation::RandomPwritev => {
                    let half = bytes / 2;
                    bare_copy(pool, offset, buffer, half, reads);
                    let (offset, rest) = (offset + half as u64, buffer.wrapping_add(half));
                    bare_copy(pool, offset, rest, half, reads);
                    return Ok(());
                }
                Opened::Memory(pool) => {
                    bare_copy(pool, offset, buffer, bytes, reads);
                    return Ok(());
                }
                Opened::File(file) if self.operation == Operation::RandomPwritev => {
                    let halves = [0, bytes / 2].map(|first| libc::iovec {
                        iov_base: buffer.wrapping_add(first).cast(),
                        iov_len: bytes / 2,
                    });
                    libc::pwritev(file.as_raw_fd(), halves.as_ptr(), 2, at)
                }
                Opened::File(file) if reads => {
                    libc::pread(file.as_raw_fd(), buffer.cast(), bytes, at)
                }
                Opened::File(file) => libc::pwrite(file.as_raw_fd(), buffer.cast(), bytes, at),
                Opened::Appending(file) => libc::write(file.as_raw_fd(), buffer.cast(), bytes),
            }
        };
        match done {
            done if done == self.bytes as isize => Ok(()),
            ..0 => Err(io::Error::last_os_error()),
            _ => Err(io::Error::other("a call did less than it was asked for")),
        }
    }
}

#[inline]
fn bare_copy(pool: &Pool, offset: u64, buffer: *mut u8, bytes: usize, reads: bool) {
    assert!(
        offset + bytes as u64 <= pool.bytes(),
        "offsets lie inside the file"
    );
    // SAFETY: inside the mapping, just asserted; the buffer holds `bytes` bytes.
    unsafe {
        let media = pool.base().add(offset as usize);
        if reads {
            libc::memcpy(buffer.cast(), media.cast(), bytes)
        } else {
            libc::memcpy(media.cast(), buffer.cast(), bytes)
        };
    }
    // Nobody looks at the copy: say that somebody might.
    std::hint::black_box(buffer);
}

/// Gives every page of every mapping of `path` in this process its page-table entry, so that first
/// touches are not measured. Returns the bytes of those mappings.
pub(super) fn prefault(path: &Path) -> io::Result<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut total = 0;
    for line in maps.lines().filter(|line| maps_file(line, path)) {
        let Some((start, end)) = line.split(' ').next().and_then(address_range) else {
            continue;
        };
        // SAFETY: populating changes no content; the range is a live mapping of this process.
        unsafe {
            libc::madvise(
                start as *mut libc::c_void,
                end - start,
                libc::MADV_POPULATE_WRITE,
            )
        };
        total += (end - start) as u64;
    }
    Ok(total)
}

/// Whether this line of `/proc/self/maps` is a mapping of `path`.
fn maps_file(line: &str, path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    line.find('/')
        .is_some_and(|at| line.as_bytes()[at..] == *name.as_bytes())
}

fn address_range(text: &str) -> Option<(usize, usize)> {
    let (start, end) = text.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}
