//! Directory streams of libc.

use super::{Answer, answer, errno};
use libc::{DIR, c_char, c_int, dirent};
use std::ffi::{CStr, CString};
use std::os::fd::RawFd;
use std::ptr::null_mut;

/// A directory stream, closed when dropped.
pub struct Stream(*mut DIR);

impl Stream {
    /// `opendir(3)`.
    pub fn open(path: &CStr) -> Answer<Stream> {
        Stream::from(plain!(libc::opendir(path.as_ptr())))
    }

    /// `fdopendir(3)` of a copy of the descriptor.
    pub fn on(fd: RawFd) -> Answer<Stream> {
        let copy = call!(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3))?;
        Stream::from(plain!(libc::fdopendir(copy as RawFd)))
    }

    fn from(stream: *mut DIR) -> Answer<Stream> {
        if stream.is_null() {
            Err(errno())
        } else {
            Ok(Stream(stream))
        }
    }

    /// `readdir(3)`: name, number and kind of the next entry.
    pub fn next(&self) -> Option<(CString, u64, u8)> {
        plain!(*libc::__errno_location() = 0);
        let entry = plain!(libc::readdir(self.0));
        assert_eq!(errno().0, 0, "readdir failed");
        (!entry.is_null()).then(|| described(entry))
    }

    /// `readdir_r(3)`: whether there was an entry.
    #[allow(deprecated)]
    pub fn next_copied(&self) -> bool {
        let mut entry = zeros!(dirent);
        let (place, mut next) = (&raw mut entry, null_mut());
        assert_eq!(plain!(libc::readdir_r(self.0, place, &raw mut next)), 0);
        assert!(next.is_null() || next == place);
        !next.is_null()
    }

    /// Names of all entries that are left.
    pub fn rest(&self) -> Vec<CString> {
        std::iter::from_fn(|| self.next())
            .map(|(name, ..)| name)
            .collect()
    }

    /// `dirfd(3)`.
    pub fn fd(&self) -> RawFd {
        plain!(libc::dirfd(self.0))
    }

    /// `telldir(3)`.
    pub fn place(&self) -> i64 {
        plain!(libc::telldir(self.0))
    }

    /// `seekdir(3)`.
    pub fn go_to(&self, place: i64) {
        plain!(libc::seekdir(self.0, place))
    }

    /// `rewinddir(3)`.
    pub fn rewind(&self) {
        plain!(libc::rewinddir(self.0))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        plain!(libc::closedir(self.0));
    }
}

/// Which entries [`scandir`] is to return.
pub(crate) type Select = extern "C" fn(*const dirent) -> c_int;
type Compare = unsafe extern "C" fn(*mut *const dirent, *mut *const dirent) -> c_int;

unsafe extern "C" {
    #[link_name = "scandir"]
    fn scandir_of_libc(
        path: *const c_char,
        into: *mut *mut *mut dirent,
        select: Option<Select>,
        compare: Option<Compare>,
    ) -> c_int;
    fn alphasort(one: *mut *const dirent, other: *mut *const dirent) -> c_int;
}

/// `scandir(3)`, sorted by `alphasort`: the names.
pub(crate) fn scandir(path: &CStr, select: Option<Select>) -> Answer<Vec<CString>> {
    let mut list: *mut *mut dirent = null_mut();
    let place = &raw mut list;
    let sorted = Some(alphasort as Compare);
    let count = call!(scandir_of_libc(path.as_ptr(), place, select, sorted))? as usize;
    let taken = (0..count).map(|at| {
        let entry = plain!(*list.add(at));
        let name = name_of(entry);
        plain!(libc::free(entry.cast()));
        name
    });
    let names = taken.collect();
    plain!(libc::free(list.cast()));
    Ok(names)
}

/// The name in an entry that libc shows.
pub(crate) fn name_of(entry: *const dirent) -> CString {
    plain!(CStr::from_ptr((*entry).d_name.as_ptr())).to_owned()
}

fn described(entry: *const dirent) -> (CString, u64, u8) {
    let name = name_of(entry);
    (name, plain!((*entry).d_ino), plain!((*entry).d_type))
}
