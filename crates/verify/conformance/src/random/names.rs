//! Steps on names, and whole files by their names.

use super::outcome::{Outcome, done, hash, nothing_there, outcome};
use super::program::{Action, FILES};
use super::touch;
use crate::call::{self, Answer, Errno};
use std::ffi::{CStr, CString};

/// The name with this number.
pub(super) fn name(file: usize) -> &'static CStr {
    [c"f0", c"f1", c"f2"][file]
}

/// Size and number of names.
pub(super) fn facts(answer: Answer<libc::stat>) -> Outcome {
    outcome(answer.map(|facts| facts.st_size << 8 | facts.st_nlink as i64))
}

pub(super) fn of_names(action: Action) -> Outcome {
    match action {
        Action::Truncate { file, size } => done(call::truncate(name(file), size as i64)),
        Action::Rename { from, to } => done(call::rename(name(from), name(to))),
        Action::Link { from, to } => done(call::link(name(from), name(to))),
        Action::Unlink { file } => done(call::unlink(name(file))),
        Action::Size { file } => facts(call::stat(name(file))),
        Action::List => list(),
        Action::Content { file } => content(name(file)),
        Action::ContentPastLibraries { file } => content_past_libraries(name(file)),
        _ => nothing_there(),
    }
}

fn list() -> Outcome {
    let names = std::fs::read_dir(".").and_then(|names| {
        names
            .map(|entry| Ok(entry?.file_name().into_encoded_bytes()))
            .collect::<std::io::Result<Vec<_>>>()
    });
    match names {
        Ok(mut names) => {
            names.sort();
            let mut found = outcome(Ok(names.len() as i64));
            found.hash = hash(&names.join(&b'/'));
            found
        }
        Err(error) => outcome(Err(Errno(error.raw_os_error().unwrap_or(0)))),
    }
}

fn content(name: &CStr) -> Outcome {
    let read = || {
        let fd = call::open(name, libc::O_RDONLY, 0)?;
        let mut all = vec![0; call::fstat(fd.0)?.st_size as usize + 10];
        let bytes = call::pread(fd.0, &mut all, 0)?;
        all.truncate(bytes);
        Ok(all)
    };
    of_content(read())
}

fn of_content(read: Answer<Vec<u8>>) -> Outcome {
    match read {
        Ok(all) => Outcome {
            hash: hash(&all),
            ..outcome(Ok(all.len() as i64))
        },
        Err(error) => outcome(Err(error)),
    }
}

fn content_past_libraries(name: &CStr) -> Outcome {
    let kernel = |number, arguments| match touch::past_libraries(number, arguments) {
        error @ -4095..0 => Err(Errno(-error as i32)),
        value => Ok(value as usize),
    };
    let path = name.as_ptr().expose_provenance();
    let read = || {
        let fd = kernel(libc::SYS_open, [path, libc::O_RDONLY as usize, 0, 0])?;
        let mut all = vec![0u8; 4 << 20];
        let address = all.as_mut_ptr().expose_provenance();
        let read = kernel(libc::SYS_read, [fd, address, all.len(), 0]);
        // Code that closes by an instruction would have the preload library look at each number before it is used.
        call::close(fd as i32)?;
        all.truncate(read?);
        Ok(all)
    };
    of_content(read())
}

/// Remove every name that there can be.
pub fn remove_all() {
    for file in 0..FILES {
        let _ = call::unlink(name(file));
    }
}

/// A path, as calls take it.
pub fn path(text: &std::path::Path) -> CString {
    use std::os::unix::ffi::OsStrExt;
    CString::new(text.as_os_str().as_bytes()).expect("a path without NUL")
}
