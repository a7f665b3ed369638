//! What the kernel permits a thread to do with an inode: the rules of Linux's `inode_permission`, `may_delete` and
//! `may_follow_link` for a file system without access control lists. Used for lookups that bypass the kernel; through
//! the mount the kernel checks.

use crate::types::{Attributes, FileKind};

/// Permission to read.
pub const READ: u32 = 4;
/// Permission to write.
pub const WRITE: u32 = 2;
/// Permission to execute a file, or to search a directory.
pub const EXECUTE: u32 = 1;

/// `CAP_CHOWN`
const CAP_CHOWN: u32 = 0;
/// `CAP_DAC_OVERRIDE`
const CAP_DAC_OVERRIDE: u32 = 1;
/// `CAP_DAC_READ_SEARCH`
const CAP_DAC_READ_SEARCH: u32 = 2;
/// `CAP_FOWNER`
const CAP_FOWNER: u32 = 3;
/// `CAP_FSETID`
const CAP_FSETID: u32 = 4;

/// Set-user-id and set-group-id.
pub const SETID: u32 = libc::S_ISUID | libc::S_ISGID;

/// Mode bits of a file that are cleared when its owner changes, or when a thread without `CAP_FSETID` changes its
/// content: set-user-id; and set-group-id if the group may execute the file, or if the thread is not in the file's
/// group. As Linux does since 6.2 (`setattr_should_drop_suidgid`).
pub fn cleared_setid(mode: u32, is_member: impl FnOnce() -> bool) -> u32 {
    let set = mode & SETID;
    let keeps_group = set & libc::S_ISGID == 0 || (mode & libc::S_IXGRP == 0 && is_member());
    if keeps_group {
        set & !libc::S_ISGID
    } else {
        set
    }
}

/// The credentials of a thread for file systems, in the user namespace of the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// User (`fsuid`).
    pub uid: u32,
    /// Group (`fsgid`).
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Effective capabilities, bit `n` for capability `n`.
    pub capabilities: u64,
}

impl Credentials {
    /// The credentials of the calling thread: its effective user and group, which file systems use unless `setfsuid`
    /// changed them.
    pub fn of_thread() -> Credentials {
        let sets = rustix::thread::capabilities(None);
        let groups = rustix::process::getgroups().unwrap_or_default();
        Credentials {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: groups.iter().map(|group| group.as_raw()).collect(),
            capabilities: sets.map_or(0, |sets| sets.effective.bits()),
        }
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities & (1 << capability) != 0
    }

    /// Whether the thread is in a group.
    pub fn is_member(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }

    /// Whether all of `wanted` ([`READ`], [`WRITE`], [`EXECUTE`]) is permitted.
    #[inline]
    pub fn may(&self, attributes: &Attributes, wanted: u32) -> bool {
        let granted = if self.uid == attributes.uid {
            attributes.mode >> 6
        } else if self.is_member(attributes.gid) {
            attributes.mode >> 3
        } else {
            attributes.mode
        };
        wanted & !granted == 0 || self.may_override(attributes, wanted)
    }

    fn may_override(&self, attributes: &Attributes, wanted: u32) -> bool {
        let is_directory = attributes.kind() == FileKind::Directory;
        let only_reads = if is_directory {
            wanted & WRITE == 0
        } else {
            wanted == READ
        };
        let is_executable = attributes.mode & 0o111 != 0;
        (only_reads && self.has(CAP_DAC_READ_SEARCH))
            || ((is_directory || wanted & EXECUTE == 0 || is_executable)
                && self.has(CAP_DAC_OVERRIDE))
    }

    /// Whether the thread owns the inode, or may act as its owner.
    pub fn is_owner(&self, attributes: &Attributes) -> bool {
        self.uid == attributes.uid || self.has(CAP_FOWNER)
    }

    /// Whether names may be added to a directory.
    pub fn may_add(&self, directory: &Attributes) -> bool {
        self.may(directory, WRITE | EXECUTE)
    }

    /// Whether a name may be removed from a directory; from a sticky one only by the owner of the directory or of the
    /// inode.
    pub fn may_remove(&self, directory: &Attributes, named: &Attributes) -> bool {
        let is_held = directory.mode & libc::S_ISVTX != 0
            && self.uid != named.uid
            && self.uid != directory.uid
            && !self.has(CAP_FOWNER);
        self.may_add(directory) && !is_held
    }

    /// Whether a symbolic link at the end of a path may be followed where `fs.protected_symlinks` is set.
    pub fn may_follow(&self, directory: &Attributes, link: &Attributes) -> bool {
        const SHARED: u32 = libc::S_ISVTX | libc::S_IWOTH;
        self.uid == link.uid || directory.mode & SHARED != SHARED || directory.uid == link.uid
    }

    /// Whether another name may be made for a file where `fs.protected_hardlinks` is set.
    pub fn may_link(&self, file: &Attributes) -> bool {
        const SETGID_PROGRAM: u32 = libc::S_ISGID | libc::S_IXGRP;
        let is_safe = file.kind() == FileKind::Regular
            && file.mode & libc::S_ISUID == 0
            && file.mode & SETGID_PROGRAM != SETGID_PROGRAM
            && self.may(file, READ | WRITE);
        is_safe || self.is_owner(file)
    }

    /// The permissions that `chmod` sets for this request; `None` when it is refused.
    pub fn permissions_to_set(&self, attributes: &Attributes, permissions: u32) -> Option<u32> {
        if !self.is_owner(attributes) {
            return None;
        }
        let keeps_setgid = self.is_member(attributes.gid) || self.has(CAP_FSETID);
        Some(if keeps_setgid {
            permissions & 0o7777
        } else {
            permissions & 0o7777 & !libc::S_ISGID
        })
    }

    /// Whether `chown` to this user and group is permitted; `None` leaves one unchanged.
    pub fn may_give(&self, attributes: &Attributes, uid: Option<u32>, gid: Option<u32>) -> bool {
        let is_owner = self.uid == attributes.uid;
        let keeps_user = uid.is_none_or(|uid| is_owner && uid == attributes.uid);
        let own_group = |gid| is_owner && (gid == attributes.gid || self.is_member(gid));
        let may_user = keeps_user || self.has(CAP_CHOWN);
        may_user && (gid.is_none_or(own_group) || self.has(CAP_CHOWN))
    }

    /// Mode bits of a file that are cleared when the thread changes its content.
    pub fn clears(&self, attributes: &Attributes) -> u32 {
        if self.has(CAP_FSETID) {
            0
        } else {
            cleared_setid(attributes.mode, || self.is_member(attributes.gid))
        }
    }

    /// Permissions of a new file in a directory. A process outside the directory's group cannot create programs that
    /// run as that group.
    pub fn mode_of_new(&self, directory: &Attributes, mode: u32) -> u32 {
        const RUNS_AS_GROUP: u32 = libc::S_ISGID | libc::S_IXGRP;
        let is_refused = mode & RUNS_AS_GROUP == RUNS_AS_GROUP
            && directory.mode & libc::S_ISGID != 0
            && !self.is_member(directory.gid)
            && !self.has(CAP_FSETID);
        if is_refused {
            mode & !libc::S_ISGID
        } else {
            mode
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::InodeNumber;

    fn inode(mode: u32, uid: u32, gid: u32) -> Attributes {
        Attributes {
            ino: InodeNumber(7),
            generation: 1,
            mode,
            nlink: 1,
            uid,
            gid,
            ..Attributes::NONE
        }
    }

    fn user(uid: u32, groups: &[u32], capabilities: &[u32]) -> Credentials {
        Credentials {
            uid,
            gid: uid,
            groups: groups.to_vec(),
            capabilities: capabilities.iter().fold(0, |set, bit| set | 1 << bit),
        }
    }

    #[test]
    fn set_ids_go_as_in_linux() {
        let clears =
            |mode, thread: Credentials| thread.clears(&inode(libc::S_IFREG | mode, 10, 20));
        let (member, other) = (|| user(1, &[20], &[]), || user(1, &[], &[]));
        assert_eq!(clears(0o666, other()), 0);
        assert_eq!(clears(0o6777, member()), 0o6000);
        assert_eq!(clears(0o6767, member()), 0o4000, "no program's bit");
        assert_eq!(clears(0o6767, other()), 0o6000);
        assert_eq!(clears(0o2666, other()), 0o2000);
        assert_eq!(clears(0o6777, user(1, &[], &[CAP_FSETID])), 0);
        assert_eq!(
            clears(0o6777, user(0, &[], &[])),
            0o6000,
            "root without the capability"
        );
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let file = inode(libc::S_IFREG | 0o047, 10, 20);
        assert!(!user(10, &[20], &[]).may(&file, READ), "owner: nothing");
        assert!(user(11, &[20], &[]).may(&file, READ));
        assert!(!user(11, &[20], &[]).may(&file, WRITE));
        assert!(user(12, &[], &[]).may(&file, READ | WRITE | EXECUTE));
    }

    #[test]
    fn capabilities_override_what_they_say_and_no_more() {
        let file = inode(libc::S_IFREG, 10, 10);
        let directory = inode(libc::S_IFDIR, 10, 10);
        let searching = user(1, &[], &[CAP_DAC_READ_SEARCH]);
        assert!(searching.may(&file, READ) && searching.may(&directory, READ | EXECUTE));
        assert!(!searching.may(&file, WRITE) && !searching.may(&directory, WRITE));
        let overriding = user(1, &[], &[CAP_DAC_OVERRIDE]);
        assert!(overriding.may(&file, READ | WRITE) && overriding.may(&directory, 7));
        assert!(!overriding.may(&file, EXECUTE), "no program");
        assert!(overriding.may(&inode(libc::S_IFREG | 0o001, 10, 10), EXECUTE));
    }

    #[test]
    fn in_a_sticky_directory_owners_remove() {
        let directory = inode(libc::S_IFDIR | 0o1777, 1, 1);
        let file = inode(libc::S_IFREG | 0o777, 2, 2);
        assert!(user(1, &[], &[]).may_remove(&directory, &file));
        assert!(user(2, &[], &[]).may_remove(&directory, &file));
        assert!(!user(3, &[], &[]).may_remove(&directory, &file));
        assert!(user(3, &[], &[CAP_FOWNER]).may_remove(&directory, &file));
        let plain = inode(libc::S_IFDIR | 0o777, 1, 1);
        assert!(user(3, &[], &[]).may_remove(&plain, &file));
        assert!(!user(3, &[], &[]).may_remove(&inode(libc::S_IFDIR | 0o755, 1, 1), &file));
    }

    #[test]
    fn links_of_others_in_shared_directories_are_not_followed() {
        let shared = inode(libc::S_IFDIR | 0o1777, 1, 1);
        let link = |uid| inode(libc::S_IFLNK | 0o777, uid, uid);
        assert!(user(3, &[], &[]).may_follow(&shared, &link(3)));
        assert!(user(3, &[], &[]).may_follow(&shared, &link(1)));
        assert!(!user(3, &[], &[]).may_follow(&shared, &link(2)));
        assert!(user(3, &[], &[]).may_follow(&inode(libc::S_IFDIR | 0o777, 1, 1), &link(2)));
    }

    #[test]
    fn owners_and_members_change_permissions_and_groups() {
        let file = inode(libc::S_IFREG | 0o600, 10, 20);
        assert_eq!(user(11, &[], &[]).permissions_to_set(&file, 0o777), None);
        let owner = user(10, &[], &[]);
        assert_eq!(owner.permissions_to_set(&file, 0o2755), Some(0o755));
        let member = user(10, &[20], &[]);
        assert_eq!(member.permissions_to_set(&file, 0o2755), Some(0o2755));
        assert!(member.may_give(&file, Some(10), Some(20)));
        assert!(owner.may_give(&file, None, Some(10)) && !owner.may_give(&file, None, Some(30)));
        assert!(!owner.may_give(&file, Some(11), None));
        assert!(user(1, &[], &[CAP_CHOWN]).may_give(&file, Some(11), Some(12)));
        assert!(user(11, &[], &[]).may_give(&file, None, None));
    }

    #[test]
    fn other_names_are_for_owners_and_safe_files() {
        let safe = inode(libc::S_IFREG | 0o666, 10, 10);
        let (owner, other) = (user(10, &[], &[]), user(11, &[], &[]));
        assert!(other.may_link(&safe));
        for mode in [0o644, 0o4666, 0o2676] {
            let file = inode(libc::S_IFREG | mode, 10, 10);
            assert!(!other.may_link(&file) && owner.may_link(&file), "{mode:o}");
        }
        assert!(!other.may_link(&inode(libc::S_IFIFO | 0o666, 10, 10)));
    }
}
