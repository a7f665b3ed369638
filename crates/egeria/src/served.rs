//! The mounts of Egeria as the kernel lists them, with the user who serves each. All else in an entry is what
//! that user wrote there.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const OUR_KIND: &[u8] = b"fuse.egeria";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Where it is.
    pub directory: PathBuf,
    /// What is mounted, as its user says.
    pub source: PathBuf,
    /// Who serves it.
    pub user: u32,
    number: u64,
}

impl Served {
    /// Whether this user or root serves it: what others' mounts say leads where those others like.
    pub fn is_believed(&self) -> bool {
        self.user == 0 || self.user == rustix::process::geteuid().as_raw()
    }
}

/// The mounts of Egeria that this process can see.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn all() -> io::Result<Vec<Served>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// The mount of Egeria that an open file is on: the number is no other mount's as long as the file is open.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn of_open(file: &File) -> io::Result<Option<Served>> {
    let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let number = facts.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    let number = number.and_then(|number| number.trim().parse().ok());
    Ok(all()?
        .into_iter()
        .find(|mount| Some(mount.number) == number))
}

/// The mount on exactly this directory (the topmost), without asking whoever serves it.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn at(directory: &Path) -> io::Result<Option<Served>> {
    Ok(all()?
        .into_iter()
        .rfind(|mount| mount.directory == directory))
}

fn parse(text: &[u8]) -> Vec<Served> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(parse_line).collect()
}

/// `number parent device root directory options [tags…] - kind source options`.
fn parse_line(line: &[u8]) -> Option<Served> {
    let mut words = line.split(|byte| *byte == b' ');
    let number = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let directory = path(words.nth(3)?);
    let mut words = words.skip_while(|word| *word != b"-").skip(1);
    let _ours = words.next().filter(|kind| *kind == OUR_KIND)?;
    let source = path(words.next()?);
    let mut options = words.next()?.split(|byte| *byte == b',');
    let user = options.find_map(|option| option.strip_prefix(b"user_id="))?;
    Some(Served {
        directory,
        source,
        user: std::str::from_utf8(user).ok()?.parse().ok()?,
        number,
    })
}

/// The kernel writes bytes that would end a word as `\040`.
fn path(word: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(plain))
}

/// A path from such an entry as it may be shown.
pub fn shown(path: &Path) -> String {
    crate::output::printable(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_names_the_user_and_whoever_mounts_cannot() {
        let text = b"22 1 0:20 / /proc rw,nosuid - proc proc rw\n\
            36 22 0:33 / /mnt/a\\040b rw shared:1 - fuse.egeria /x,user_id=0\\040rw,user_id=0 rw,user_id=7,group_id=0\n\
            37 22 0:34 / /mnt/user_id=0 rw - fuse.sshfs x rw,user_id=0\n\
            1 2 3 / \\04\nrubbish\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 1);
        assert_eq!((mounts[0].user, mounts[0].number), (7, 36));
        assert_eq!(mounts[0].directory, Path::new("/mnt/a b"));
        assert_eq!(mounts[0].source, Path::new("/x,user_id=0 rw,user_id=0"));
    }

    #[test]
    fn a_file_that_is_on_no_mount_of_egeria_is_told_so() {
        assert_eq!(of_open(&File::open("/proc").unwrap()).unwrap(), None);
    }
}
