//! The calls of each operation, in batches: what they need is made before and removed after the clock runs.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::names::plan::{Case, Operation};

/// Calls of a batch.
const BATCH: usize = 64;
/// Names read of a directory at a time: of a large one a part, or slow ones would take seconds.
const LISTED: usize = 4096;
/// Bytes appended by a call.
const BLOCK_BYTES: usize = 4096;
/// Where `open_deep` opens files, below a directory.
const DEEP: &str = "one/two/three/four/five";
const DEEP_FILES: usize = 10;

/// Calls made, and the time they took.
#[derive(Clone, Copy, Default)]
pub(super) struct Pace {
    pub(super) calls: u64,
    pub(super) time: Duration,
}

/// The directory of a thread's own.
pub(super) fn directory(root: &Path, thread: usize) -> PathBuf {
    root.join(format!("d{thread}"))
}

/// Makes a directory, or fills it up to this many names, and the ones below it.
pub(super) fn fill(directory: &Path, entries: usize) -> io::Result<()> {
    let deep = directory.join(DEEP);
    std::fs::create_dir_all(&deep)?;
    for number in 0..DEEP_FILES {
        std::fs::File::create(entry(&deep, number))?;
    }
    // The deep directories are one of the names.
    for number in (0..entries.saturating_sub(1)).rev() {
        if std::fs::exists(entry(directory, number))? {
            break;
        }
        std::fs::File::create(entry(directory, number))?;
    }
    Ok(())
}

fn entry(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("entry{number:06}"))
}

/// What one thread calls.
pub(super) struct Calls {
    operation: Operation,
    directory: CString,
    /// What is opened, looked at, renamed, made or removed, in the order of the calls.
    names: Vec<CString>,
    /// New names of the same.
    others: Vec<CString>,
    block: Vec<u8>,
    /// Whether the files of a batch have their other names, or are long.
    is_turned: bool,
}

impl Calls {
    /// Gets ready, with the files that all batches need.
    pub(super) fn begin(case: &Case, directory: &Path, thread: usize) -> io::Result<Calls> {
        let own = |kind: &str| -> io::Result<Vec<CString>> {
            let name = |number| directory.join(format!("{kind}{thread}-{number:03}"));
            (0..BATCH).map(|number| path(&name(number))).collect()
        };
        let names = match case.operation {
            Operation::Open | Operation::Stat => existing(directory, case.entries - 1, thread)?,
            Operation::OpenDeep => existing(&directory.join(DEEP), DEEP_FILES, thread)?,
            _ => own("name")?,
        };
        let calls = Calls {
            operation: case.operation,
            directory: path(directory)?,
            names,
            others: own("other")?,
            block: vec![0x5a; BLOCK_BYTES],
            is_turned: false,
        };
        if let Operation::Rename | Operation::Truncate = case.operation {
            calls.names.iter().try_for_each(create)?;
        }
        if case.operation == Operation::Link {
            create(&calls.names[0])?;
        }
        Ok(calls)
    }

    /// Removes what it made.
    pub(super) fn end(self) -> io::Result<()> {
        match self.operation {
            Operation::Rename if self.is_turned => self.others.iter().try_for_each(unlink),
            Operation::Rename | Operation::Truncate => self.names.iter().try_for_each(unlink),
            Operation::Link => unlink(&self.names[0]),
            _ => Ok(()),
        }
    }

    /// One batch.
    pub(super) fn batch(&mut self) -> io::Result<Pace> {
        let (names, others) = (&self.names, &self.others);
        match self.operation {
            Operation::Create => {
                let pace = timed(names, create)?;
                names.iter().try_for_each(unlink)?;
                Ok(pace)
            }
            Operation::Open | Operation::OpenDeep => {
                timed(names, |name| close(open(name, libc::O_RDONLY)?))
            }
            Operation::Stat => timed(names, stat),
            Operation::Readdir => list(&self.directory),
            Operation::Rename => {
                let (from, to) = if self.is_turned {
                    (others, names)
                } else {
                    (names, others)
                };
                let mut to = to.iter();
                let pace = timed(from, |from| to.next().map_or(Ok(()), |to| rename(from, to)))?;
                self.is_turned = !self.is_turned;
                Ok(pace)
            }
            Operation::Link => {
                let pace = timed(others, |other| link(&names[0], other))?;
                others.iter().try_for_each(unlink)?;
                Ok(pace)
            }
            Operation::Unlink => {
                names.iter().try_for_each(create)?;
                timed(names, unlink)
            }
            Operation::Mkdir => {
                let pace = timed(names, mkdir)?;
                names.iter().try_for_each(rmdir)?;
                Ok(pace)
            }
            Operation::Truncate => {
                let bytes = if self.is_turned {
                    0
                } else {
                    BLOCK_BYTES as i64
                };
                self.is_turned = !self.is_turned;
                timed(names, |name| truncate(name, bytes))
            }
            Operation::Append => self.append(),
        }
    }

    fn append(&self) -> io::Result<Pace> {
        let name = &self.names[0];
        let file = open(
            name,
            libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_APPEND,
        )?;
        let pace = timed(&self.names, |_| append(file, &self.block));
        close(file).and_then(|()| unlink(name))?;
        pace
    }
}

/// Names that are there, spread over the directory, others for each thread.
fn existing(directory: &Path, entries: usize, thread: usize) -> io::Result<Vec<CString>> {
    let number = |call: usize| (call * 7919 + thread * 31) % entries.max(1);
    let names = (0..BATCH).map(|call| entry(directory, number(call)));
    names.map(|name| path(&name)).collect()
}

pub(super) fn path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

pub(super) fn timed(
    names: &[CString],
    mut call: impl FnMut(&CString) -> io::Result<()>,
) -> io::Result<Pace> {
    let start = Instant::now();
    for name in names {
        call(name)?;
    }
    Ok(Pace {
        calls: names.len() as u64,
        time: start.elapsed(),
    })
}

/// A call, and what it returned.
macro_rules! plain {
    ($call:expr) => {{
        // SAFETY: names end with a zero byte; blocks and places for answers have the sizes passed; descriptors and
        // streams are open, and nobody uses them once they are closed.
        unsafe { $call }
    }};
}

fn done(status: libc::c_int, what: &str, name: &CString) -> io::Result<libc::c_int> {
    match status {
        -1 => {
            let error = io::Error::last_os_error();
            let text = format!("{what} {}: {error}", name.to_string_lossy());
            Err(io::Error::new(error.kind(), text))
        }
        status => Ok(status),
    }
}

fn open(name: &CString, flags: libc::c_int) -> io::Result<libc::c_int> {
    let mode: libc::c_uint = 0o644;
    let file = plain!(libc::open(name.as_ptr(), flags | libc::O_CLOEXEC, mode));
    done(file, "open", name)
}

fn close(file: libc::c_int) -> io::Result<()> {
    match plain!(libc::close(file)) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(super) fn create(name: &CString) -> io::Result<()> {
    close(open(name, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL)?)
}

fn stat(name: &CString) -> io::Result<()> {
    let mut facts = std::mem::MaybeUninit::<libc::stat>::uninit();
    let status = plain!(libc::stat(name.as_ptr(), facts.as_mut_ptr()));
    done(status, "stat", name).map(|_| ())
}

pub(super) fn rename(from: &CString, to: &CString) -> io::Result<()> {
    done(
        plain!(libc::rename(from.as_ptr(), to.as_ptr())),
        "rename",
        from,
    )
    .map(|_| ())
}

fn link(from: &CString, to: &CString) -> io::Result<()> {
    done(plain!(libc::link(from.as_ptr(), to.as_ptr())), "link", to).map(|_| ())
}

pub(super) fn unlink(name: &CString) -> io::Result<()> {
    done(plain!(libc::unlink(name.as_ptr())), "unlink", name).map(|_| ())
}

fn mkdir(name: &CString) -> io::Result<()> {
    done(plain!(libc::mkdir(name.as_ptr(), 0o755)), "mkdir", name).map(|_| ())
}

fn rmdir(name: &CString) -> io::Result<()> {
    done(plain!(libc::rmdir(name.as_ptr())), "rmdir", name).map(|_| ())
}

fn truncate(name: &CString, bytes: i64) -> io::Result<()> {
    done(
        plain!(libc::truncate(name.as_ptr(), bytes)),
        "truncate",
        name,
    )
    .map(|_| ())
}

fn append(file: libc::c_int, block: &[u8]) -> io::Result<()> {
    let written = plain!(libc::write(file, block.as_ptr().cast(), block.len()));
    match written {
        -1 => Err(io::Error::last_os_error()),
        bytes if bytes as usize == block.len() => Ok(()),
        _ => Err(io::Error::other("a write did less than it was asked for")),
    }
}

/// Reads names of a directory from its beginning, opens and closes it.
fn list(directory: &CString) -> io::Result<Pace> {
    let start = Instant::now();
    let stream = plain!(libc::opendir(directory.as_ptr()));
    if stream.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut calls = 0;
    while calls < LISTED && !plain!(libc::readdir(stream)).is_null() {
        calls += 1;
    }
    plain!(libc::closedir(stream));
    Ok(Pace {
        calls: calls as u64,
        time: start.elapsed(),
    })
}
