//! Attributes, truncation, extended attributes.

use crate::data::write::MAX_FILE_BYTES;
use crate::data::write_rules::WriteRules;
use crate::format::*;
use crate::log::checksums::{ATTRIBUTE, NewSums};
use crate::log::mapping::Mapping;
use crate::log::staging::Staged;
use crate::rights::SETID;
use crate::session::inode::Locked;
use crate::session::layout::LOADED;
use crate::session::volume::{FileReference, Volume};
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::space::striping;
use crate::types::*;
use std::sync::atomic::Ordering;

/// Namespaces of extended attributes that are kept.
const XATTR_NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// The attribute that gives a program capabilities.
const CAPABILITY: &[u8] = b"security.capability";
/// `SessionInode::has_xattr`: attributes changed and have not been searched for [`CAPABILITY`] since.
const XATTRS_UNKNOWN: u8 = 1;
/// `SessionInode::has_xattr`: they were searched, and it is not among them.
const NO_CAPABILITY: u8 = 2;

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
        self.change_attributes(inode.into(), change, WriteRules::default())
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
        self.change_attributes(inode.into(), change, WriteRules::DIRECT)
            .map(drop)
    }

    fn change_attributes(
        &self,
        inode: InodeHandle,
        change: &AttributeChange,
        rules: WriteRules,
    ) -> Outcome<Attributes> {
        self.writable()?;
        let has_new_owner = change.uid.is_some() || change.gid.is_some();
        let locked = if has_new_owner {
            self.lock_to_change_owner(inode.ino.0)?
        } else {
            self.lock(inode.ino.0)?
        };
        let locked = locked.same(inode)?;
        let is_of_owner = change.permissions.is_some() || has_new_owner;
        if is_of_owner && locked.kind() == FileKind::Directory {
            // Before it changes a directory, the kernel checks the owner that it has cached.
            self.check_left_to_kernel(inode.ino.0)?;
        }
        if let Some(size_bytes) = change.size_bytes {
            match locked.kind() {
                FileKind::Regular if size_bytes > MAX_FILE_BYTES => return Err(Errno(libc::EFBIG)),
                FileKind::Regular => {}
                FileKind::Directory => return Err(Errno(libc::EISDIR)),
                _ => return Err(Errno(libc::EINVAL)),
            }
        }
        let time_ns = self.stamp_ns(locked.inode);
        let state = changed_state(&locked, change, time_ns);
        let mut operation = Operation::new(self, locked.me);
        self.compact_if_due(&locked, &mut operation);
        let size = locked.size_bytes();
        if locked.kind() == FileKind::Regular && state.size_bytes > size {
            self.zero_behind_end(&locked, size, state.size_bytes)?;
        }
        let shrinks = state.size_bytes < size;
        let mut staged = Staged::begin(
            &locked,
            if shrinks {
                Need::Freeing
            } else {
                Need::Ordinary
            },
        )?;
        let entry = Entry::Attributes(state);
        let position = staged.add(&mut operation, &entry, time_ns)?;
        let mut sums = NewSums::new(shrinks && locked.has_sums());
        let tail = self.cut_tail(&locked, &mut operation, &mut sums, state.size_bytes)?;
        let tail = tail.map(|tail| entry_of_tail(tail, &sums, state.size_bytes));
        if let Some(tail) = &tail {
            staged.add(&mut operation, tail, time_ns)?;
        }
        let _committing = rules.begin_commit(locked.inode)?;
        operation.commit(&[&staged])?;
        self.apply_commit(&locked, &staged, || {
            for entry in [Some(entry), tail].iter().flatten() {
                self.apply_entry(&locked, &mut operation, position, entry, time_ns, false)?;
            }
            Ok(())
        })?;
        operation.finish();
        Ok(locked.attributes())
    }

    /// In a file with checksums: write the block of the new end again, with zeros behind that end.
    fn cut_tail(
        &self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        sums: &mut NewSums,
        size_bytes: u64,
    ) -> Outcome<Option<Mapping>> {
        let (file_block, within) = (size_bytes / BLOCK as u64, size_bytes % BLOCK as u64);
        let word = locked.index().load(file_block);
        if !sums.wanted || within == 0 || !word.has_data() {
            return Ok(None);
        }
        let mut bytes = [0u8; BLOCK];
        self.old_block(locked, file_block, word, &mut bytes)?;
        bytes[within as usize..].fill(0);
        let prefer = self
            .placement(operation.me, locked.inode)
            .pool_for(locked.ino, file_block);
        let taken = operation.take(locked.ino, file_block, 1, prefer, Need::Freeing)?;
        sums.store_block(self, (taken.pool, taken.block), &bytes)?;
        Ok(Some(Mapping::to(taken, file_block, 0)))
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
        let inode = inode.into();
        let locked = self.lock(inode.ino.0)?.same(inode)?;
        if name == ATTRIBUTE && self.check_checksum_attribute(&locked, value)? {
            return match mode {
                XattrMode::Create => Err(Errno(libc::EEXIST)),
                _ => Ok(()),
            };
        }
        if name == striping::ATTRIBUTE {
            self.check_layout_attribute(&locked, value)?;
        }
        if mode != XattrMode::Any {
            let exists = self.has_attribute(&locked, name)?;
            match mode {
                XattrMode::Create if exists => return Err(Errno(libc::EEXIST)),
                XattrMode::Replace if !exists => return Err(Errno(libc::ENODATA)),
                _ => {}
            }
        }
        self.commit_xattr(&locked, &Entry::XattrSet { name, value }, Need::Ordinary)
    }

    /// Remove an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` when it is absent; `ERANGE`, `EOPNOTSUPP` for the name; what [every change](crate::Errno) can fail
    /// with.
    pub fn remove_xattr(&self, inode: impl Into<InodeHandle>, name: &[u8]) -> Outcome<()> {
        self.writable()?;
        check_xattr_name(name)?;
        let inode = inode.into();
        let locked = self.lock(inode.ino.0)?.same(inode)?;
        if name == ATTRIBUTE && locked.has_sums() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if !self.has_attribute(&locked, name)? {
            return Err(Errno(libc::ENODATA));
        }
        if name == striping::ATTRIBUTE {
            self.check_layout_may_change(&locked)?;
        }
        self.commit_xattr(&locked, &Entry::XattrRemove { name }, Need::Freeing)
    }

    fn has_attribute(&self, locked: &Locked<'_>, name: &[u8]) -> Outcome<bool> {
        if name == striping::ATTRIBUTE && locked.kind() != FileKind::Directory {
            Ok(locked.layout() != LayoutWord::UNSET)
        } else {
            Ok(self
                .xattrs(locked.inode, locked.log_place())?
                .contains_key(name))
        }
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
        if self
            .xattrs(locked.inode, locked.log_place())?
            .contains_key(CAPABILITY)
        {
            self.writable()?;
            let entry = Entry::XattrRemove { name: CAPABILITY };
            self.commit_xattr(&locked, &entry, Need::Freeing)?;
        }
        // Under the lock, after applied entries have updated it.
        let known = &locked.inode.has_xattr;
        if known.load(Ordering::Relaxed) == XATTRS_UNKNOWN {
            known.store(NO_CAPABILITY, Ordering::Release);
        }
        Ok(())
    }

    fn commit_xattr(&self, locked: &Locked<'_>, entry: &Entry<'_>, need: Need) -> Outcome<()> {
        let mut operation = Operation::new(self, locked.me);
        self.compact_if_due(locked, &mut operation);
        let time_ns = self.stamp_ns(locked.inode);
        let mut staged = Staged::begin(locked, need)?;
        let position = staged.add(&mut operation, entry, time_ns)?;
        operation.commit(&[&staged])?;
        self.apply_commit(locked, &staged, || {
            self.apply_entry(locked, &mut operation, position, entry, time_ns, false)
        })?;
        operation.finish();
        Ok(())
    }
}

fn entry_of_tail(tail: Mapping, sums: &NewSums, size_bytes: u64) -> Entry<'_> {
    Entry::Write(WriteEntry {
        sums: sums.of(&tail),
        ..tail.written(size_bytes, false)
    })
}

fn check_xattr_name(name: &[u8]) -> Outcome<()> {
    if name.len() > MAX_NAME_BYTES {
        return Err(Errno(libc::ERANGE));
    }
    if XATTR_NAMESPACES
        .iter()
        .any(|space| name.len() > space.len() && name.starts_with(space))
    {
        Ok(())
    } else {
        Err(Errno(libc::EOPNOTSUPP))
    }
}

fn changed_state(locked: &Locked<'_>, change: &AttributeChange, now_ns: i64) -> AttributeState {
    let mut state = locked.attribute_state();
    if let Some(permissions) = change.permissions {
        state.mode = (state.mode & libc::S_IFMT) | (permissions & 0o7777);
    }
    state.mode &= !(change.clears & SETID);
    state.uid = change.uid.unwrap_or(state.uid);
    state.gid = change.gid.unwrap_or(state.gid);
    if let Some(size_bytes) = change.size_bytes {
        state.size_bytes = size_bytes;
        state.mtime_ns = now_ns;
    }
    let time = |change: TimeChange| match change {
        TimeChange::Now => now_ns,
        TimeChange::At(time_ns) => time_ns,
    };
    state.atime_ns = change.atime.map_or(state.atime_ns, time);
    state.mtime_ns = change.mtime.map_or(state.mtime_ns, time);
    state
}
