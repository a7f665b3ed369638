//! The file system that an open file is on.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use egeria_proc::living;

use crate::kernel::numa_maps::unescaped;

/// The name of its type, as `ext4`; `None` when the kernel does not say.
pub fn file_system(file: &File) -> Option<String> {
    let facts = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let mount = facts
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?;
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    type_of(&mounts, mount.trim())
}

/// Whether a file of this device, which a process has open, can be asked for its pages without a wait for a file
/// system that another user serves. The server of that user may never answer. A device that is not mounted is not
/// asked.
pub(crate) fn answers(process_id: u32, (major, minor): (u32, u32)) -> bool {
    let device = format!("{major}:{minor}");
    let own = rustix::process::geteuid().as_raw();
    let places: [fn(u32) -> PathBuf; 2] = [
        |_| PathBuf::from("/proc/self/mountinfo"),
        |process_id| living::path(process_id, "mountinfo"),
    ];
    let found = places.into_iter().find_map(|place| {
        let mounts = fs::read(place(process_id)).ok()?;
        is_another_s(&mounts, DEVICE, &device, own)
    });
    found == Some(false)
}

/// The mounts that a process sees, and those that this one sees. A process in a `chroot` has files open of mounts that it
/// does not see, as the one that its root is on. The kernel numbers the mounts of all processes together.
pub(crate) struct Mounts(Vec<u8>);

impl Mounts {
    /// The present mounts; none if this process may not look.
    pub(crate) fn of(process_id: u32) -> Mounts {
        let Ok(mut all) = fs::read(living::path(process_id, "mountinfo")) else {
            return Mounts(Vec::new());
        };
        all.extend(fs::read("/proc/self/mountinfo").unwrap_or_default());
        Mounts(all)
    }

    /// Whether a file that a process has open by a descriptor can be asked for its pages without a wait (see
    /// [`answers`]). A mount that is not listed is not asked, except the kernel's own mount of anonymous files.
    pub(crate) fn answer(&self, process_id: u32, descriptor: u32) -> bool {
        let own = rustix::process::geteuid().as_raw();
        let mount = mount_of(process_id, descriptor);
        let is_another_s = mount.and_then(|mount| is_another_s(&self.0, NUMBER, &mount, own));
        is_another_s.map_or_else(|| is_anonymous(process_id, descriptor), |it| !it)
    }

    /// Whether what a process has open by a descriptor is on this device.
    pub(crate) fn is_on(&self, process_id: u32, descriptor: u32, device: u64) -> bool {
        let device = format!("{}:{}", libc::major(device), libc::minor(device));
        let mount = mount_of(process_id, descriptor).unwrap_or_default();
        let is_it = |line: &[u8]| {
            let mut words = line.split(|byte| *byte == b' ');
            words.next() == Some(mount.as_bytes()) && words.nth(1) == Some(device.as_bytes())
        };
        self.0.split(|byte| *byte == b'\n').any(is_it)
    }
}

/// The id of the mount that an open file of a process is on.
fn mount_of(process_id: u32, descriptor: u32) -> Option<String> {
    let facts =
        fs::read_to_string(living::path(process_id, &format!("fdinfo/{descriptor}"))).ok()?;
    let mount = facts
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?;
    Some(mount.trim().to_owned())
}

/// Whether it is a file of `memfd_create`.
fn is_anonymous(process_id: u32, descriptor: u32) -> bool {
    let link = living::path(process_id, &format!("fd/{descriptor}"));
    let target = fs::read_link(link).unwrap_or_default();
    target.as_os_str().as_bytes().starts_with(b"/memfd:")
}

/// The words of a line that identify a file system.
const NUMBER: usize = 0;
const DEVICE: usize = 2;

/// Whether the file system of the mount with this word in its line is served by another user than root and this one;
/// `None` where there is none.
fn is_another_s(mounts: &[u8], place: usize, named: &str, own: u32) -> Option<bool> {
    let lines = mounts.split(|byte| *byte == b'\n');
    let mut lines = lines.map(|line| line.split(|byte| *byte == b' '));
    let mut words = lines.find_map(|mut words| {
        let is_it = words.nth(place) == Some(named.as_bytes());
        is_it.then_some(words)
    })?;
    words.find(|word| *word == b"-")?;
    if !words.next()?.starts_with(b"fuse") {
        return Some(false);
    }
    let options = std::str::from_utf8(words.nth(1)?).ok()?;
    let user = options
        .split(',')
        .find_map(|option| option.strip_prefix("user_id="));
    let user: Option<u32> = user.and_then(|user| user.parse().ok());
    Some(!user.is_some_and(|user| user == 0 || user == own))
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
    fn file_systems_that_another_user_serves_are_not_asked() {
        let mounts = b"21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw,user_id=7\n\
            22 21 0:40 / /a rw - fuse.sshfs b rw,user_id=1000,group_id=1000,allow_other\n\
            23 21 0:41 / /b rw shared:2 - fuse.egeria a rw,user_id=0,group_id=0\n24 21 0:42 / /c rw - fuse c rw\n";
        let found = |device, own| is_another_s(mounts, DEVICE, device, own);
        assert_eq!(found("8:1", 0), Some(false));
        assert_eq!(found("0:40", 0), Some(true));
        assert_eq!(found("0:40", 1000), Some(false));
        assert_eq!(found("0:41", 1000), Some(false));
        assert_eq!(found("0:42", 0), Some(true), "nobody says who serves it");
        assert_eq!(found("0:4", 0), None);
        assert_eq!(is_another_s(mounts, NUMBER, "22", 0), Some(true));
        assert_eq!(is_another_s(mounts, NUMBER, "21", 0), Some(false));
    }

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
