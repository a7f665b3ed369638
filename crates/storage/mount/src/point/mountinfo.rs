//! What is mounted where, from `/proc/self/mountinfo`.

use crate::point::error::MountError;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Type under which the kernel lists our mounts.
pub(crate) const OUR_KIND: &str = "fuse.egeria";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The kernel's number of it, which no other mount has as long as a file on it is open.
    pub number: u64,
    /// Number of the device, as `major:minor`.
    pub device: String,
    /// The user that serves the mount, as the kernel reports it; only for FUSE mounts. That user wrote all the other
    /// fields.
    pub user: Option<u32>,
    pub directory: PathBuf,
    /// File system type.
    pub kind: String,
    /// What is mounted; of ours, the path of the volume's first pool.
    pub source: PathBuf,
}

/// The mounts of Egeria this process can see, in the order they were made.
///
/// # Errors
/// [`MountError::System`] with what `open` or `read` of `/proc/self/mountinfo` failed with (`ENOENT` without `/proc`,
/// `EACCES`, `EMFILE`).
pub fn mounts() -> Result<Vec<Mounted>, MountError> {
    let mut mounts = mounted().map_err(unreadable)?;
    mounts.retain(|mount| mount.kind == OUR_KIND);
    Ok(mounts)
}

pub(crate) fn unreadable(source: io::Error) -> MountError {
    MountError::System {
        what: "cannot read /proc/self/mountinfo".to_owned(),
        hint: "mount /proc",
        source,
    }
}

/// All mounts this process can see, later ones last.
pub(crate) fn mounted() -> io::Result<Vec<Mounted>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// What is mounted on exactly this directory, if anything (the topmost).
pub(crate) fn mounted_at(directory: &Path) -> io::Result<Option<Mounted>> {
    Ok(mounted()?
        .into_iter()
        .rfind(|mount| mount.directory == directory))
}

fn parse(text: &[u8]) -> Vec<Mounted> {
    text.split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

/// `id parent major:minor root mount-point options [tags…] - type source options`.
fn parse_line(line: &[u8]) -> Option<Mounted> {
    let mut words = line.split(|byte| *byte == b' ');
    let path = |word| PathBuf::from(OsString::from_vec(unescape(word)));
    let number = |word| std::str::from_utf8(word).ok()?.parse().ok();
    let mount = number(words.next()?)?;
    let device = String::from_utf8(words.nth(1)?.to_vec()).ok()?;
    let directory = words.nth(1)?;
    let mut words = words.skip_while(|word| *word != b"-").skip(1);
    let kind = words.next()?;
    let source = path(words.next()?);
    let mut options = words.next()?.split(|byte| *byte == b',');
    let user = options.find_map(|option| option.strip_prefix(b"user_id="));
    Some(Mounted {
        number: mount,
        device,
        user: user
            .and_then(number)
            .and_then(|user| u32::try_from(user).ok()),
        directory: path(directory),
        kind: String::from_utf8_lossy(kind).into_owned(),
        source,
    })
}

/// Undo the kernel's `\040` for bytes that would end a word.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_read() {
        let text = b"22 1 0:20 / /proc rw,nosuid - proc proc rw\n\
            36 22 0:33 / /mnt/a\\040b rw,noatime shared:1 master:2 - fuse.egeria /pm\\0110/pool rw\n\
            1 2 3 / \\04\nrubbish\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[1].directory, Path::new("/mnt/a b"));
        assert_eq!(mounts[1].kind, OUR_KIND);
        assert_eq!(mounts[1].device, "0:33");
        assert_eq!(mounts[1].source, Path::new("/pm\t0/pool"));
    }

    #[test]
    fn the_kernel_names_the_user_and_the_one_who_mounts_cannot() {
        let text = b"36 22 0:33 / /mnt/a rw shared:1 - fuse.egeria /x,user_id=0\\040rw,user_id=0 rw,user_id=7,group_id=0\n\
            37 22 0:34 / /mnt/user_id=0 rw - tmpfs x rw\n";
        let mounts = parse(text);
        assert_eq!((mounts[0].user, mounts[0].number), (Some(7), 36));
        assert_eq!(mounts[0].source, Path::new("/x,user_id=0 rw,user_id=0"));
        assert_eq!((mounts[1].user, mounts[1].number), (None, 37));
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(unescape(b"a\\b\\09x\\134"), b"a\\b\\09x\\");
    }
}
