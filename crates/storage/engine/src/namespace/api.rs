//! What callers ask about names and attributes.

use crate::data::write_rules::WriteRules;
use crate::format::*;
use crate::log::checksums::ATTRIBUTE;
use crate::log::found_names::CookieRange;
use crate::log::staging::Staged;
use crate::log::unlocked::read_unlocked_once;
use crate::log::{Log, checksums};
use crate::namespace::attributes::{CAPABILITY, NO_CAPABILITY, XATTRS_UNKNOWN, check_xattr_name};
use crate::namespace::named::BELOW_TRIES;
use crate::namespace::names::{Birth, check_new_name, check_old_name, newborn};
use crate::namespace::path::MAX_LONG_PATH_BYTES;
use crate::namespace::quotas::is_of_quotas;
use crate::namespace::rename::{Request, Tried};
use crate::namespace::unlocked::living_directory;
use crate::namespace::{Lookups, Metadata, Naming, Renaming};
use crate::rights::SETID;
use crate::session::layout::{LOADED, SessionInode};
use crate::session::seqlock::OPTIMISTIC_TRIES;
use crate::session::volume::{FileReference, Volume};
use crate::session::{Leases, Quotas, Uses, Waits};
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::space::{InodeNumbers, striping};
use crate::types::*;
use std::sync::atomic::{Ordering, fence};

impl Volume {
    /// Change attributes in one commit. The caller decides which mode bits a change of owner or size clears.
    ///
    /// # Errors
    /// For a size: `EFBIG` beyond the largest file, `EISDIR` and `EINVAL` for other kinds of inodes; what [every
    /// change](crate::Errno) can fail with.
    pub fn set_attributes(
        &self,
        inode: impl Into<InodeHandle>,
        change: &AttributeChange,
    ) -> Outcome<Attributes> {
        Metadata::of(self).change_attributes(inode.into(), change, WriteRules::default())
    }

    /// Change attributes in one commit, by a process that bypasses the kernel.
    ///
    /// # Errors
    /// As `set_attributes`; `EAGAIN` when the kernel holds pages of the inode: the kernel must make the change itself.
    pub fn set_attributes_direct(
        &self,
        inode: impl Into<InodeHandle>,
        change: &AttributeChange,
    ) -> Outcome<()> {
        Metadata::of(self)
            .change_attributes(inode.into(), change, WriteRules::DIRECT)
            .map(drop)
    }

    /// Set an extended attribute.
    ///
    /// # Errors
    /// `EEXIST` and `ENODATA` by the mode; `ERANGE` for the length of the name, `EOPNOTSUPP` for its namespace;
    /// `E2BIG` and `ENOSPC` for a long value; `EINVAL` for an invalid value of an Egeria attribute, `EOPNOTSUPP` for a
    /// value that the inode can no longer have; what [every change](crate::Errno) can fail with.
    pub fn set_xattr(
        &self,
        inode: impl Into<InodeHandle>,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Outcome<()> {
        self.writable()?;
        check_xattr_name(name)?;
        if value.len() > MAX_XATTR_VALUE_BYTES {
            return Err(Errno(if value.len() > 65_536 {
                libc::E2BIG
            } else {
                libc::ENOSPC
            }));
        }
        if is_of_quotas(name) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let inode = inode.into();
        let locked = self.lock(inode.ino.0)?.same(inode)?;
        if name == ATTRIBUTE && Log::of(self).check_checksum_attribute(&locked, value)? {
            return match mode {
                XattrMode::Create => Err(Errno(libc::EEXIST)),
                _ => Ok(()),
            };
        }
        if name == striping::ATTRIBUTE {
            Log::of(self).check_layout_attribute(&locked, value)?;
        }
        if mode != XattrMode::Any {
            let exists = Metadata::of(self).has_attribute(&locked, name)?;
            match mode {
                XattrMode::Create if exists => return Err(Errno(libc::EEXIST)),
                XattrMode::Replace if !exists => return Err(Errno(libc::ENODATA)),
                _ => {}
            }
        }
        Metadata::of(self).commit_xattr(&locked, &Entry::XattrSet { name, value }, Need::Ordinary)
    }

    /// Remove an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` when it is absent; `ERANGE`, `EOPNOTSUPP` for the name; what [every change](crate::Errno) can fail
    /// with.
    pub fn remove_xattr(&self, inode: impl Into<InodeHandle>, name: &[u8]) -> Outcome<()> {
        self.writable()?;
        check_xattr_name(name)?;
        if is_of_quotas(name) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let inode = inode.into();
        let locked = self.lock(inode.ino.0)?.same(inode)?;
        if name == ATTRIBUTE && locked.has_sums() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if !Metadata::of(self).has_attribute(&locked, name)? {
            return Err(Errno(libc::ENODATA));
        }
        if name == striping::ATTRIBUTE {
            Log::of(self).check_layout_may_change(&locked)?;
        }
        Metadata::of(self).commit_xattr(&locked, &Entry::XattrRemove { name }, Need::Freeing)
    }

    /// Whether a change of content by a process without `CAP_FSETID` may first have to clear set-user-id or
    /// set-group-id bits or capabilities ([`Volume::drop_capability`]). Two loads.
    #[inline(always)]
    pub fn may_have_privileges(&self, file: FileReference) -> bool {
        let inode = file.inode();
        inode.mode.load(Ordering::Relaxed) & SETID != 0
            || inode.has_xattr.load(Ordering::Acquire) == XATTRS_UNKNOWN
    }

    /// Remove a file's capabilities (`security.capability`), as local file systems do after any change of its content
    /// or owner. Nearly free for inodes without capabilities.
    ///
    /// # Errors
    /// What [every change](crate::Errno) can fail with.
    pub fn drop_capability(&self, file: impl Into<InodeHandle>) -> Outcome<()> {
        let file = file.into();
        let inode = self.inode(file.ino.0)?;
        if inode.state.load(Ordering::Acquire) == LOADED
            && inode.has_xattr.load(Ordering::Acquire) != XATTRS_UNKNOWN
        {
            return Ok(());
        }
        let locked = self.lock(file.ino.0)?.same(file)?;
        if locked.kind() == FileKind::Directory {
            return Ok(());
        }
        if Log::of(self)
            .xattrs(locked.inode, locked.log_place())?
            .contains_key(CAPABILITY)
        {
            self.writable()?;
            let entry = Entry::XattrRemove { name: CAPABILITY };
            Metadata::of(self).commit_xattr(&locked, &entry, Need::Freeing)?;
        }
        // Under the lock, after applied entries have updated it.
        let known = &locked.inode.has_xattr;
        if known.load(Ordering::Relaxed) == XATTRS_UNKNOWN {
            known.store(NO_CAPABILITY, Ordering::Release);
        }
        Ok(())
    }

    /// Extended attribute (`user.*`, also `trusted.*` and `security.*` as opaque bytes). Does not wait for other
    /// threads.
    ///
    /// # Errors
    /// `ENODATA` when it is absent; what [every operation](crate::Errno) can fail with.
    pub fn get_xattr(&self, ino: InodeNumber, name: &[u8]) -> Outcome<Vec<u8>> {
        let (mut all, of_file) = Lookups::of(self).look_at_xattrs(ino)?;
        let value = match (name, of_file) {
            (checksums::ATTRIBUTE, Some(file)) => file.has_sums.then(|| checksums::ON.to_vec()),
            (striping::ATTRIBUTE, Some(file)) => file.layout,
            _ => all.remove(name),
        };
        value.ok_or(Errno(libc::ENODATA))
    }

    /// Names of all extended attributes. Does not wait for other threads.
    ///
    /// # Errors
    /// What [every operation](crate::Errno) can fail with.
    pub fn list_xattr(&self, ino: InodeNumber) -> Outcome<Vec<Vec<u8>>> {
        let (mut all, of_file) = Lookups::of(self).look_at_xattrs(ino)?;
        if of_file.is_some() {
            // As for the checksum attribute: a copy made elsewhere should not try to set it.
            all.remove(striping::ATTRIBUTE);
        }
        // A copy of the root made elsewhere should not have them.
        all.retain(|name, _| !is_of_quotas(name));
        Ok(all.into_keys().collect())
    }

    /// Entries after `cookie` (0: from the start; `.` and `..` first), until `emit` returns false (that entry is then
    /// not consumed). Does not wait for other threads.
    ///
    /// # Errors
    /// `ENOTDIR`; `ESTALE` when there is no such inode; `EIO` for damage.
    pub fn read_directory(
        &self,
        ino: InodeNumber,
        cookie: u64,
        emit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Outcome<()> {
        self.read_directory_until(ino, cookie, u64::MAX, emit)
    }

    /// As `read_directory`, of names with cookies below `end`: those that existed when [`Volume::directory_end`]
    /// returned it.
    ///
    /// # Errors
    /// As `read_directory`.
    pub fn read_directory_until(
        &self,
        ino: InodeNumber,
        cookie: u64,
        end: u64,
        emit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Outcome<()> {
        let mut range = CookieRange { after: cookie, end };
        loop {
            let names = Lookups::of(self).names_of(ino.0, range)?;
            for name in &names.list {
                if !emit(&names.entry(name)) {
                    return Ok(());
                }
                range.after = name.cookie;
            }
            if !names.more {
                return Ok(());
            }
        }
    }

    /// A path from the root to an inode that had this name in a directory; `None` when the name is gone, or the path
    /// is longer than a MiB. It may be longer than [`MAX_PATH_BYTES`].
    pub fn path_to(
        &self,
        mut directory: InodeNumber,
        name: &[u8],
        ino: InodeNumber,
    ) -> Option<Vec<u8>> {
        let is_there = |found: Attributes| found.ino == ino;
        let name = if self.lookup(directory, name).is_ok_and(is_there) {
            name.to_vec()
        } else {
            Lookups::of(self).name_in(directory, ino)?
        };
        let mut bytes = name.len();
        let mut names = vec![name];
        while directory != InodeNumber::ROOT {
            let above = self.lookup(directory, b"..").ok()?.ino;
            let name = Lookups::of(self).name_in(above, directory)?;
            bytes += name.len() + 1;
            if bytes > MAX_LONG_PATH_BYTES {
                return None;
            }
            names.push(name);
            directory = above;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// Current attributes, without waiting for other threads.
    ///
    /// # Errors
    /// `ESTALE` when there is no such inode; `EIO` for damage.
    pub fn attributes(&self, ino: InodeNumber) -> Outcome<Attributes> {
        let mut found = Attributes::NONE;
        Lookups::of(self).attributes_into(ino, &mut found)?;
        Ok(found)
    }

    /// Whether a number still has this generation. Then all that was found by the number before belongs to this inode.
    pub fn has_generation(&self, ino: InodeNumber, generation: u32) -> bool {
        // All reads by the number must come before this check.
        fence(Ordering::Acquire);
        let inode = self.inode(ino.0);
        inode.is_ok_and(|inode| inode.generation.load(Ordering::Acquire) == generation)
    }

    /// Find a name, without waiting for other threads. `.` and `..` work.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`; `ESTALE` when there is no such directory; `EIO` for damage.
    pub fn lookup(&self, parent: InodeNumber, name: &[u8]) -> Outcome<Attributes> {
        let mut found = Attributes::NONE;
        Lookups::of(self).lookup_into(parent, name, &mut found)?;
        Ok(found)
    }

    /// The cookie after all names that a directory has now.
    ///
    /// # Errors
    /// `ENOTDIR`; `ESTALE` when there is no such inode; `EIO` for damage.
    pub fn directory_end(&self, ino: InodeNumber) -> Outcome<u64> {
        let end = |inode: &SessionInode| match living_directory(inode) {
            Ok(()) | Err(Errno(libc::ENOENT)) => Ok(inode.next_cookie()),
            Err(errno) => Err(errno),
        };
        // While the directory is being changed, the session's word is still valid: it moves in one store. While the
        // directory is being loaded, as after the death of its last writer, the word starts from 0: then there is no
        // end yet.
        let known = || {
            let inode = self.inode(ino.0)?;
            let now = || {
                // Loading changes the epoch before the state.
                let state = inode.state.load(Ordering::Acquire);
                (state, inode.epoch.load(Ordering::Acquire))
            };
            let before = now();
            let end = end(inode)?;
            let is_loaded = before.0 == LOADED && before == now();
            Ok(if is_loaded { end } else { u64::MAX })
        };
        Log::of(self).read_unlocked(ino.0, |inode, _| end(inode), known)
    }

    /// Target of a symbolic link, which never changes. Does not wait for other threads.
    ///
    /// # Errors
    /// `EINVAL` for other kinds; `ESTALE` when there is no such inode; `EIO` for damage.
    pub fn read_link(&self, ino: InodeNumber) -> Outcome<Vec<u8>> {
        let inode = self.inode(ino.0)?;
        for _ in 0..OPTIMISTIC_TRIES {
            let seen = read_unlocked_once(inode, ino.0, &|inode, _| {
                Lookups::of(self).plain_target(inode)
            });
            if let Some(Ok(Some(target))) = seen {
                return Ok(target);
            }
        }
        Naming::of(self).read_link_locked(ino)
    }

    /// Make a file, directory, pipe, socket or device. `EEXIST` when the name is there. In a setgid
    /// directory the group, and for directories the bit, is the directory's.
    ///
    /// # Errors
    /// `EEXIST`; `ENOTDIR`; `ENOENT` when the directory was removed; `ENAMETOOLONG`; `EINVAL` for a bad name or
    /// kind; `EMLINK`; what [every change](crate::Errno) can fail with.
    pub fn create(
        &self,
        parent: impl Into<InodeHandle>,
        name: &[u8],
        new: &NewInode,
    ) -> Outcome<Attributes> {
        Naming::of(self).create_named(parent.into(), name, new, Birth::Closed)
    }

    /// As `create`, but the inode is also opened (see `open`), in one step, so that it cannot vanish between.
    ///
    /// # Errors
    /// As `create`.
    pub fn create_open(
        &self,
        parent: impl Into<InodeHandle>,
        name: &[u8],
        new: &NewInode,
    ) -> Outcome<Attributes> {
        Naming::of(self).create_named(parent.into(), name, new, Birth::Open)
    }

    /// Make a symbolic link.
    ///
    /// # Errors
    /// As `create`; `ENOENT` and `ENAMETOOLONG` for the target.
    pub fn symlink(
        &self,
        parent: impl Into<InodeHandle>,
        name: &[u8],
        target: &[u8],
        uid: u32,
        gid: u32,
    ) -> Outcome<Attributes> {
        if target.is_empty() {
            return Err(Errno(libc::ENOENT));
        }
        if target.len() > MAX_TARGET_BYTES {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        let new = NewInode {
            mode: libc::S_IFLNK | 0o777,
            uid,
            gid,
            rdev: 0,
        };
        Naming::of(self).create_named(parent.into(), name, &new, Birth::Symlink(target))
    }

    /// Make a regular file without a name, opened (`O_TMPFILE`).
    ///
    /// # Errors
    /// `ENOTDIR`; `ENOENT` when the directory was removed; `EINVAL` for another kind of inode; what [every
    /// change](crate::Errno) can fail with.
    pub fn create_unnamed(
        &self,
        parent: impl Into<InodeHandle>,
        new: &NewInode,
    ) -> Outcome<Attributes> {
        self.writable()?;
        let directory = Naming::of(self).lock_directory(parent)?;
        let mut operation = Operation::new(self, directory.me);
        let born = Naming::of(self).certify(&mut operation, &directory, new)?;
        let certificate = Certificate { nlink: 0, ..born };
        let commit = CommitWord {
            tail: LogPosition::NONE,
            head_index: 0,
            orphan: true,
        };
        let done = Quotas::of(self)
            .count_new(&directory, certificate.ino, 0)
            .and_then(|()| InodeNumbers::of(self).write_certificate(&certificate))
            .and_then(|()| Uses::of(self).note_open(certificate.ino))
            .and_then(|()| {
                let staged = Staged::fresh(self, certificate.ino, certificate.generation, commit)?;
                Log::of(self).commit_one(&staged)
            });
        match done {
            Ok(()) => {
                directory.me.inode_settled();
                operation.finish();
                Ok(newborn(&certificate, 0))
            }
            Err(errno) => {
                Uses::of(self).note_close(certificate.ino);
                self.free_inode(directory.me.slot, certificate.ino);
                Err(errno)
            }
        }
    }

    /// Make another name.
    ///
    /// # Errors
    /// `EEXIST`; `ENOTDIR`; `ENOENT` when the directory or the last name was removed; `ENAMETOOLONG`; `EINVAL` for
    /// a bad name; `EPERM` for directories; `EMLINK`; `EXDEV` between trees with different limits; what [every
    /// change](crate::Errno) can fail with.
    pub fn link(
        &self,
        inode: impl Into<InodeHandle>,
        parent: impl Into<InodeHandle>,
        name: &[u8],
    ) -> Outcome<Attributes> {
        let (inode, parent) = (inode.into(), parent.into());
        self.writable()?;
        check_new_name(name)?;
        Waits::of(self).holding_up_nobody(|| Naming::of(self).link_once(inode, parent, name))
    }

    /// Remove a name that is not a directory.
    ///
    /// # Errors
    /// `ENOENT`; `ENOTDIR`; `EISDIR`; `ENAMETOOLONG`; what [every change](crate::Errno) can fail with.
    pub fn unlink(&self, parent: impl Into<InodeHandle>, name: &[u8]) -> Outcome<()> {
        let parent = parent.into();
        self.writable()?;
        check_old_name(name).map_err(|errno| {
            if name == b"." || name == b".." {
                Errno(libc::EISDIR)
            } else {
                errno
            }
        })?;
        Waits::of(self).holding_up_nobody(|| {
            let lock = || Naming::of(self).lock_for_change(parent);
            let (directory, found, child) =
                Naming::of(self).lock_named(lock, name, |directory, found| match found.kind {
                    FileKind::Directory => Err(Errno(libc::EISDIR)),
                    kind => Leases::of(self).check_remembered_name(directory, (found.ino, kind)),
                })?;
            Leases::of(self).check_remembered_name(&directory, (found.ino, found.kind))?;
            Naming::of(self).remove_name(&directory, &child, found.position)
        })
    }

    /// Remove an empty directory.
    ///
    /// # Errors
    /// `ENOENT`; `ENOTDIR`; `ENOTEMPTY`; `EINVAL` for `.`; `ENAMETOOLONG`; what [every change](crate::Errno) can
    /// fail with.
    pub fn remove_directory(&self, parent: impl Into<InodeHandle>, name: &[u8]) -> Outcome<()> {
        let parent = parent.into();
        self.writable()?;
        check_old_name(name)?;
        Waits::of(self).holding_up_nobody(|| {
            let lock = || Naming::of(self).lock_for_change(parent);
            let (directory, found, child) =
                Naming::of(self).lock_named(lock, name, |_, found| match found.kind {
                    FileKind::Directory => Ok(()),
                    _ => Err(Errno(libc::ENOTDIR)),
                })?;
            Leases::of(self).check_remembered_name(&directory, (found.ino, found.kind))?;
            if child.name_count() > 0 {
                return Err(Errno(libc::ENOTEMPTY));
            }
            Naming::of(self).remove_name(&directory, &child, found.position)
        })
    }

    /// Rename.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG` for names; `EEXIST` with [`RenameMode::NoReplace`]; `EISDIR`, `ENOTDIR`
    /// and `ENOTEMPTY` for a target that cannot be replaced; `EINVAL` for a directory below itself; `EBUSY` for `.`
    /// and `..`; `EMLINK`; `EXDEV` between trees with different limits; what [every change](crate::Errno) can fail
    /// with.
    pub fn rename(
        &self,
        parent: impl Into<InodeHandle>,
        name: &[u8],
        new_parent: impl Into<InodeHandle>,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Outcome<()> {
        let (parent, new_parent) = (parent.into(), new_parent.into());
        self.writable()?;
        for name in [name, new_name] {
            check_old_name(name).map_err(|errno| {
                if errno.0 == libc::ENAMETOOLONG {
                    errno
                } else {
                    Errno(libc::EBUSY)
                }
            })?;
            if !is_name(name) {
                return Err(Errno(if name.is_empty() {
                    libc::ENOENT
                } else {
                    libc::EINVAL
                }));
            }
        }
        let request = Request {
            name,
            new_name,
            mode,
        };
        let mut moves_directories = false;
        for _ in 0..=BELOW_TRIES {
            let tried = Waits::of(self).holding_up_nobody(|| match parent.ino == new_parent.ino {
                true => Renaming::of(self).rename_within(parent, &request),
                false if moves_directories => {
                    Renaming::of(self).move_directories(parent, new_parent, &request)
                }
                false => Renaming::of(self).move_files(parent, new_parent, &request),
            });
            match tried? {
                Tried::Renamed => return Ok(()),
                Tried::IsOfDirectories => moves_directories = true,
                Tried::IsNotKnown => {
                    // The inode of a name must be known before it can be locked; see `is_below`.
                    let _ = self.lookup(parent.ino, name);
                    let _ = self.lookup(new_parent.ino, new_name);
                }
            }
        }
        Err(self.damaged(parent.ino.0, "a directory in it with another parent"))
    }
}
