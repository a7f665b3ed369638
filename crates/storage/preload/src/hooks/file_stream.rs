//! Streams of libc over files that the kernel has not opened.

use super::dup_close::close_within;
use super::open::open_directly;
use super::position::lseek;
use super::read::{read, read_uncancelled};
use super::status::fstat;
use super::write::{write, write_uncancelled};
use crate::descriptors::table::{self, Tag};
use crate::serve;
use crate::system::libc_streams::{
    self, APPENDS, Functions, HAS_FAILED, NO_READS, NO_WRITES, NOT_CANCELLED, Stream,
};
use crate::system::{caller, errno, real};
use libc::{FILE, c_char, c_int, c_void, off64_t, ssize_t};

/// How a file is opened for a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// For `open`.
    flags: c_int,
    stream_flags: c_int,
}

/// Longest mode that libc reads.
const MAX_MODE_BYTES: usize = 7;

impl Mode {
    /// What libc makes of a mode, a string of the program; `None` for what it may take in a way of its own (`m`, `c`,
    /// `,ccs=`), and what it refuses.
    pub fn of(text: *const c_char) -> Option<Mode> {
        let mut bytes = [0; MAX_MODE_BYTES];
        let mut length = 0;
        loop {
            // It ends: the bytes before this one are not the end.
            let byte = caller::read(text.wrapping_add(length).cast::<u8>())?;
            if byte == 0 {
                return Mode::of_bytes(&bytes[..length]);
            }
            *bytes.get_mut(length)? = byte;
            length += 1;
        }
    }

    fn of_bytes(bytes: &[u8]) -> Option<Mode> {
        let (first, rest) = bytes.split_first()?;
        if !rest.iter().all(|byte| b"+bex".contains(byte)) {
            return None;
        }
        let has = |wanted: u8| rest.contains(&wanted);
        let (access, barred) = match (first, has(b'+')) {
            (_, true) => (libc::O_RDWR, 0),
            (b'r', false) => (libc::O_RDONLY, NO_WRITES),
            _ => (libc::O_WRONLY, NO_READS),
        };
        let (creates, appends) = match first {
            b'r' => (0, 0),
            b'w' => (libc::O_CREAT | libc::O_TRUNC, 0),
            b'a' => (libc::O_CREAT | libc::O_APPEND, APPENDS),
            _ => return None,
        };
        let exclusive = match has(b'x') {
            // Without `O_CREAT` it means nothing that is known.
            true if creates == 0 => return None,
            true => libc::O_EXCL,
            false => 0,
        };
        let closes = if has(b'e') { libc::O_CLOEXEC } else { 0 };
        Some(Mode {
            flags: access | creates | exclusive | closes,
            stream_flags: barred | appends,
        })
    }

    /// Whether a file that is open with these status flags can have such a stream as it is.
    pub fn fits(self, status: c_int) -> bool {
        let (wanted, access) = (self.flags & libc::O_ACCMODE, status & libc::O_ACCMODE);
        let appends = self.flags & libc::O_APPEND == 0 || status & libc::O_APPEND != 0;
        appends && (wanted == access || access == libc::O_RDWR)
    }
}

/// Open a file and a stream over it; `None` when libc is to do it.
pub fn open(path: *const c_char, text: *const c_char) -> Option<*mut FILE> {
    let mode = Mode::of(text)?;
    let fd = open_directly(libc::AT_FDCWD, path, mode.flags, 0o666)?;
    if fd < 0 {
        return Some(std::ptr::null_mut());
    }
    let only_appends = APPENDS | NO_READS;
    let stream = over(fd, mode, text);
    match stream.is_null() {
        true => _ = close_within(fd),
        false if mode.stream_flags == only_appends => _ = lseek(fd, 0, libc::SEEK_END),
        false => {}
    }
    Some(stream)
}

/// A stream of this mode, also as a text, over an open number of ours; null with `errno`.
pub fn over(fd: c_int, mode: Mode, text: *const c_char) -> *mut FILE {
    const BARS: c_int = NO_READS | NO_WRITES | APPENDS;
    if libc_streams::use_functions() {
        // As libc sees a placeholder, it may be read alone. A file that the kernel has opened may not even be that.
        let error = errno::get();
        let stream = real::fdopen(fd, c"r".as_ptr());
        // SAFETY: an open stream that nobody else has yet.
        if let Some(inner) = unsafe { stream.cast::<Stream>().as_mut() } {
            inner.flags = inner.flags & !BARS | mode.stream_flags;
            return stream;
        }
        errno::set(error);
    }
    serve::share(fd);
    real::fdopen(fd, text)
}

/// What streams use in place of libc's functions.
pub static FUNCTIONS: Functions = Functions {
    read: read_from,
    write: write_to,
    seek: seek_in,
    close: close_under,
    stat: stat_of,
};

/// Who makes the calls on a stream.
enum Caller {
    Libc,
    Hooks,
    /// A hook that is no cancellation point.
    Uncancelled,
}

/// The hooks find out whether a number is ours. Streams that libc uses itself, in the middle of things, are not cancelled.
fn caller_for(stream: &Stream) -> Caller {
    let is_cancelled = stream.other_flags & NOT_CANCELLED == 0;
    match (table::load(stream.number).tag(), is_cancelled) {
        (Tag::NotOurs | Tag::Closing, _) => Caller::Libc,
        (_, true) => Caller::Hooks,
        (Tag::Ours, false) => Caller::Uncancelled,
        _ => Caller::Libc,
    }
}

fn libcs(stream: &mut Stream) -> *mut FILE {
    std::ptr::from_mut(stream).cast()
}

extern "C-unwind" fn read_from(stream: &mut Stream, into: *mut c_void, bytes: ssize_t) -> ssize_t {
    match caller_for(stream) {
        Caller::Libc => real::_IO_file_read(libcs(stream), into, bytes),
        Caller::Hooks => read(stream.number, into, bytes as usize),
        Caller::Uncancelled => read_uncancelled(stream.number, into, bytes as usize),
    }
}

/// What could be written: all of it, or the stream has failed.
extern "C-unwind" fn write_to(stream: &mut Stream, from: *const c_void, bytes: ssize_t) -> ssize_t {
    let write: fn(c_int, *const c_void, usize) -> ssize_t = match caller_for(stream) {
        Caller::Libc => return real::_IO_file_write(libcs(stream), from, bytes),
        Caller::Hooks => write,
        Caller::Uncancelled => write_uncancelled,
    };
    let mut done = 0;
    while done < bytes {
        let rest = from.wrapping_byte_offset(done);
        match write(stream.number, rest, (bytes - done) as usize) {
            written @ 0.. => done += written,
            _ => {
                stream.flags |= HAS_FAILED;
                break;
            }
        }
    }
    if stream.offset_bytes >= 0 {
        stream.offset_bytes += done as off64_t;
    }
    done
}

extern "C-unwind" fn seek_in(stream: &mut Stream, offset: off64_t, whence: c_int) -> off64_t {
    match caller_for(stream) {
        Caller::Libc => real::_IO_file_seek(libcs(stream), offset, whence),
        _ => lseek(stream.number, offset, whence),
    }
}

extern "C-unwind" fn close_under(stream: &mut Stream) -> c_int {
    close_within(stream.number)
}

extern "C-unwind" fn stat_of(stream: &mut Stream, into: *mut libc::stat) -> c_int {
    match caller_for(stream) {
        Caller::Libc => real::_IO_file_stat(libcs(stream), into.cast()),
        _ => fstat(stream.number, into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn modes_are_those_of_libc() {
        let flags =
            |text: &CStr| Mode::of(text.as_ptr()).map(|mode| (mode.flags, mode.stream_flags));
        let made = libc::O_CREAT | libc::O_TRUNC;
        let exclusive = libc::O_EXCL | libc::O_CLOEXEC;
        let appends = libc::O_CREAT | libc::O_APPEND;
        assert_eq!(flags(c"r"), Some((libc::O_RDONLY, NO_WRITES)));
        assert_eq!(flags(c"rb+"), Some((libc::O_RDWR, 0)));
        assert_eq!(
            flags(c"wxe"),
            Some((libc::O_WRONLY | made | exclusive, NO_READS))
        );
        assert_eq!(flags(c"a+b"), Some((libc::O_RDWR | appends, APPENDS)));
        for other in [
            c"",
            c"q",
            c"rm",
            c"rc",
            c"r,ccs=UTF-8",
            c"rx",
            c"r+++++++++",
        ] {
            assert_eq!(flags(other), None, "{other:?}");
        }
    }
}
