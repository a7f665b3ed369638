//! Which processes have a file open or mapped.
//!
//! A file system that may not answer is never asked. Descriptors are compared by `/proc/PID/fdinfo`, mappings by their
//! lines.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use egeria_proc::{living, task};

use crate::kernel::borrowed;
use crate::kernel::mount::Mounts;

/// Descriptors and mappings looked at, of all processes together.
const MAX_LOOKED_AT: u64 = 2_000_000;

/// The file or directory to find users of.
pub enum Used {
    /// One file, by any of its names.
    File {
        /// Its path from the root.
        path: PathBuf,
        /// Its device, as `stat` says.
        device: u64,
        inode: u64,
    },
    /// All files below this directory, by their paths.
    Below(PathBuf),
}

/// A process that uses files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub process_id: u32,
    pub open: u64,
    pub mapped: u64,
}

/// Users of files, as far as this process may see them.
#[derive(Default, Debug)]
pub struct Users {
    pub found: Vec<User>,
    /// Processes of other users that may not be looked at.
    pub hidden: u64,
    /// There was more than the limit.
    pub is_cut: bool,
}

/// Looks at all processes but this one.
pub fn of(used: &Used) -> Users {
    let mut users = Users::default();
    let mut left = MAX_LOOKED_AT;
    for process_id in task::processes() {
        if process_id == std::process::id() {
            continue;
        }
        if left == 0 {
            users.is_cut = true;
            break;
        }
        match look(process_id, used, &mut left) {
            Ok(user) if user.open + user.mapped > 0 => users.found.push(user),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => users.hidden += 1,
            _ => (),
        }
    }
    users
}

fn look(process_id: u32, used: &Used, left: &mut u64) -> io::Result<User> {
    let mut user = User {
        process_id,
        open: 0,
        mapped: 0,
    };
    for entry in fs::read_dir(living::path(process_id, "fd"))?.flatten() {
        if *left == 0 {
            return Ok(user);
        }
        *left -= 1;
        user.open += u64::from(used.is_open_as(process_id, &entry.path()));
    }
    let maps = File::open(living::path(process_id, "maps"))?;
    for line in BufReader::new(maps).split(b'\n').map_while(Result::ok) {
        if *left == 0 {
            return Ok(user);
        }
        *left -= 1;
        user.mapped += u64::from(used.is_mapped_as(&line));
    }
    Ok(user)
}

impl Used {
    fn is_open_as(&self, process_id: u32, link: &Path) -> bool {
        match self {
            Used::Below(directory) => {
                fs::read_link(link).is_ok_and(|path| path.starts_with(directory))
            }
            Used::File {
                path,
                device,
                inode,
            } => {
                let number = link.file_name().unwrap_or_default().to_string_lossy();
                let told = inode_of(&living::path(process_id, &format!("fdinfo/{number}")));
                match told {
                    Some(told) if told != *inode => false,
                    // Another file system may have the same inode number: it is asked, if it is known to answer.
                    Some(_) => {
                        answers(process_id, link, *device)
                            && fs::metadata(link)
                                .is_ok_and(|found| (found.dev(), found.ino()) == (*device, *inode))
                    }
                    // Before Linux 5.14.
                    None => fs::read_link(link).is_ok_and(|found| found == *path),
                }
            }
        }
    }

    /// A line is `range access offset device inode path`.
    fn is_mapped_as(&self, line: &[u8]) -> bool {
        let Some(mapped) = Mapped::of(line) else {
            return false;
        };
        match self {
            Used::Below(directory) => {
                Path::new(std::ffi::OsStr::from_bytes(&mapped.path)).starts_with(directory)
            }
            Used::File {
                path,
                device,
                inode,
            } => {
                // Some file systems show another device here than `stat` does.
                mapped.inode == *inode
                    && (mapped.device == *device || mapped.path == path.as_os_str().as_bytes())
            }
        }
    }
}

/// Whether the file system of an open file may be asked: it does not wait for another user, or is the one that was
/// asked already.
fn answers(process_id: u32, link: &Path, device: u64) -> bool {
    borrowed::number(link).is_some_and(|descriptor| {
        let mounts = Mounts::of(process_id);
        mounts.is_on(process_id, descriptor, device) || mounts.answer(process_id, descriptor)
    })
}

struct Mapped {
    device: u64,
    inode: u64,
    path: Vec<u8>,
}

impl Mapped {
    fn of(line: &[u8]) -> Option<Mapped> {
        let slash = line.iter().position(|byte| *byte == b'/')?;
        let (facts, path) = line.split_at(slash);
        let facts = std::str::from_utf8(facts).ok()?;
        let mut facts = facts.split_ascii_whitespace().skip(3);
        let (major, minor) = facts.next()?.split_once(':')?;
        let hexadecimal = |text| u32::from_str_radix(text, 16).ok();
        Some(Mapped {
            device: libc::makedev(hexadecimal(major)?, hexadecimal(minor)?),
            inode: facts.next()?.parse().ok()?,
            path: crate::kernel::numa_maps::unescaped(path),
        })
    }
}

fn inode_of(fdinfo: &Path) -> Option<u64> {
    let facts = fs::read_to_string(fdinfo).ok()?;
    value(&facts, "ino:")?.parse().ok()
}

fn value<'a>(facts: &'a str, name: &str) -> Option<&'a str> {
    let value = facts.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim())
}

/// The file of a descriptor.
pub(crate) struct Open {
    pub(crate) inode: u64,
    /// Past the page cache (`O_DIRECT`).
    pub(crate) is_direct: bool,
}

/// The file that a process has open by a descriptor; `None` when it is gone, and before Linux 5.14.
pub(crate) fn open_as(process_id: u32, descriptor: u32) -> Option<Open> {
    let facts =
        fs::read_to_string(living::path(process_id, &format!("fdinfo/{descriptor}"))).ok()?;
    let flags = i32::from_str_radix(value(&facts, "flags:")?, 8).ok()?;
    Some(Open {
        inode: value(&facts, "ino:")?.parse().ok()?,
        is_direct: flags & libc::O_DIRECT != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_compared_by_inode_and_device_or_path() {
        let used = Used::File {
            path: "/data/a b".into(),
            device: libc::makedev(8, 1),
            inode: 77,
        };
        let is = |line: &str| used.is_mapped_as(line.as_bytes());
        assert!(is("7f0-7f1 r--s 00000000 08:01 77   /other/name"));
        assert!(is("7f0-7f1 r--s 00000000 00:2c 77   /data/a b"));
        assert!(!is("7f0-7f1 r--s 00000000 00:2c 77   /data/a"));
        assert!(!is("7f0-7f1 r--s 00000000 08:01 78   /data/a b"));
        assert!(!is("7f0-7f1 rw-p 00000000 00:00 0"));
        assert!(!is("nonsense / 77"));
        let below = Used::Below("/data".into());
        assert!(below.is_mapped_as(b"7f0-7f1 r--s 0 08:01 77 /data/x/y"));
        assert!(!below.is_mapped_as(b"7f0-7f1 r--s 0 08:01 77 /database"));
    }
}
