//! The file system that an open file is on.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use crate::numa_maps::unescaped;

/// The name of its type, as `ext4`; `None` when the kernel does not say.
pub fn file_system(file: &File) -> Option<String> {
    let facts = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let mount = facts
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?;
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    type_of(&mounts, mount.trim())
}

/// A line is `ID PARENT DEVICE ROOT POINT OPTIONS [TAGS] - TYPE SOURCE OPTIONS`.
fn type_of(mounts: &[u8], mount: &str) -> Option<String> {
    let lines = mounts.split(|byte| *byte == b'\n');
    let mut lines = lines.map(|line| line.split(|byte| *byte == b' '));
    let mut words = lines.find_map(|mut words| {
        let is_it = words.next() == Some(mount.as_bytes());
        is_it.then_some(words)
    })?;
    words.find(|word| *word == b"-")?;
    let name = String::from_utf8(unescaped(words.next()?)).ok()?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    name.chars().all(is_plain).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_found_behind_any_number_of_tags() {
        let mounts = b"21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
            22 21 0:5 / /a\\040- rw,x - tmpfs \xff rw\n23 21 0:6 / /b rw shared:2 master:3 - fuse.a b rw\n";
        let found = |mount| type_of(mounts, mount);
        assert_eq!(found("21").as_deref(), Some("ext4"));
        assert_eq!(found("22").as_deref(), Some("tmpfs"));
        assert_eq!(found("23").as_deref(), Some("fuse.a"));
        assert_eq!(found("2"), None);
    }
}
