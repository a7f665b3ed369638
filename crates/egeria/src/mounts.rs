//! The mounts of Egeria there are, as the kernel lists them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};

/// File system type in the kernel's list.
const TYPE: &str = "fuse.egeria";

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounted {
    /// Where.
    pub directory: PathBuf,
    /// Path of the volume's first pool.
    pub pool: PathBuf,
}

/// The mounts of Egeria, in the order they were made.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn all() -> Outcome<Vec<Mounted>> {
    let list = std::fs::read("/proc/self/mountinfo").map_err(|error| {
        Failure::new(format!(
            "cannot read /proc/self/mountinfo: {error}; mount /proc"
        ))
    })?;
    Ok(list
        .split(|&byte| byte == b'\n')
        .filter_map(mounted)
        .collect())
}

/// The mount in a line, when it is one of ours: `… root DIR options … - type source options`.
fn mounted(line: &[u8]) -> Option<Mounted> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let separator = fields.iter().position(|&field| field == b"-")?;
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescape(field)));
    let ours = fields.get(separator + 1) == Some(&TYPE.as_bytes());
    let directory = fields.get(4).filter(|_| ours)?;
    let pool = fields.get(separator + 2)?;
    Some(Mounted {
        directory: path(directory),
        pool: path(pool),
    })
}

/// Undoes the kernel's `\040` for blanks.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let code = (first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(octal);
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_of_egeria_are_listed_and_blanks_come_back() {
        let ours = br"36 35 0:31 / /mnt/a\040b rw,nosuid shared:1 - fuse.egeria /pm\0110/pool rw,user_id=0";
        let other = b"37 35 0:32 / /mnt/c rw - fuse.sshfs host: rw";
        let expected = Mounted {
            directory: PathBuf::from("/mnt/a b"),
            pool: PathBuf::from("/pm\t0/pool"),
        };
        assert_eq!(mounted(ours), Some(expected));
        assert_eq!(mounted(other), None);
        assert_eq!(mounted(b""), None);
        assert_eq!(mounted(br"1 2 3 / \04"), None);
    }
}
