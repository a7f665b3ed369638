//! Directories by descriptor. Root may mount or unmount below a directory of another user. It finds the way step by
//! step and keeps the descriptor, because that user could change a path between two look-ups.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, readlinkat, statx};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Links on the way to a directory, as for the kernel.
const MAX_LINKS: usize = 40;

/// An open directory, and the path that leads there without links.
pub(crate) struct Place {
    descriptor: OwnedFd,
    pub(crate) path: PathBuf,
}

impl Place {
    /// Open a directory without asking the file system mounted there, whose server may hang. Root follows no links
    /// of other users.
    ///
    /// # Errors
    /// Those of the kernel, and `PermissionDenied` that names the link.
    pub(crate) fn open(path: &Path) -> io::Result<Place> {
        let absolute = std::path::absolute(path)?;
        let top = || open_step(CWD, OsStr::new("/"), OFlags::DIRECTORY);
        let mut here = top()?;
        let mut links = 0;
        let mut names: VecDeque<OsString> = names_of(&absolute).collect();
        while let Some(name) = names.pop_front() {
            // Only this is asked of a directory: the file system mounted there may not answer.
            match open_step(&here, &name, OFlags::DIRECTORY) {
                Ok(next) => {
                    here = next;
                    continue;
                }
                Err(rustix::io::Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            let target = link_target(&here, &name)?;
            if target.is_absolute() {
                here = top()?;
            }
            for name in names_of(&target).rev() {
                names.push_front(name);
            }
        }
        let path = std::fs::read_link(path_of(&here))?;
        Ok(Place {
            descriptor: here,
            path,
        })
    }

    /// A path that leads to this directory and to no other, as long as this lives.
    pub(crate) fn fixed_path(&self) -> PathBuf {
        path_of(&self.descriptor)
    }
}

fn path_of(descriptor: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into()
}

fn names_of(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let named = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let parts = path.components().filter(named);
    parts.map(|part| part.as_os_str().to_owned())
}

fn open_step(at: impl AsFd, name: &OsStr, more: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags | more, Mode::empty())
}

/// Where a link leads that this user may follow.
fn link_target(at: &OwnedFd, name: &OsStr) -> io::Result<PathBuf> {
    let link = open_step(at, name, OFlags::empty())?;
    let found = statx(
        &link,
        c"",
        AtFlags::EMPTY_PATH,
        StatxFlags::TYPE | StatxFlags::UID,
    )?;
    if u32::from(found.stx_mode) & libc::S_IFMT != libc::S_IFLNK {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    if rustix::process::geteuid().is_root() && found.stx_uid != 0 {
        return Err(of_another_user(name, found.stx_uid));
    }
    let target = readlinkat(&link, c"", Vec::new())?.into_bytes();
    Ok(OsString::from_vec(target).into())
}

fn of_another_user(name: &OsStr, user: u32) -> io::Error {
    let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
    let text = format!("{name:?} on the way there is a link of another user (uid {user})");
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}
