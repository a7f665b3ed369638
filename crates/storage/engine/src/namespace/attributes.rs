//! Attributes, truncation, extended attributes.

use crate::data::write::MAX_FILE_BYTES;
use crate::data::write_rules::WriteRules;
use crate::data::{Reading, Writing};
use crate::format::*;
use crate::log::Log;
use crate::log::checksums::NewSums;
use crate::log::mapping::Mapping;
use crate::log::staging::Staged;
use crate::namespace::Metadata;
use crate::rights::SETID;
use crate::session::inode::Locked;
use crate::session::{Leases, Stamps};
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::space::{Placing, striping};
use crate::types::*;

/// Namespaces of extended attributes that are kept.
const XATTR_NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// The attribute that gives a program capabilities.
pub(super) const CAPABILITY: &[u8] = b"security.capability";
/// `SessionInode::has_xattr`: attributes changed and have not been searched for [`CAPABILITY`] since.
pub(super) const XATTRS_UNKNOWN: u8 = 1;
/// `SessionInode::has_xattr`: they were searched, and it is not among them.
pub(super) const NO_CAPABILITY: u8 = 2;

impl Metadata<'_> {
    pub(super) fn change_attributes(
        self,
        inode: InodeHandle,
        change: &AttributeChange,
        rules: WriteRules,
    ) -> Outcome<Attributes> {
        self.volume.writable()?;
        let has_new_owner = change.uid.is_some() || change.gid.is_some();
        let locked = if has_new_owner {
            Leases::of(self.volume).lock_to_change_owner(inode.ino.0)?
        } else {
            self.volume.lock(inode.ino.0)?
        };
        let locked = locked.same(inode)?;
        let is_of_owner = change.permissions.is_some() || has_new_owner;
        if is_of_owner && locked.kind() == FileKind::Directory {
            // Before it changes a directory, the kernel checks the owner that it has cached.
            Leases::of(self.volume).check_left_to_kernel(inode.ino.0)?;
        }
        if let Some(size_bytes) = change.size_bytes {
            match locked.kind() {
                FileKind::Regular if size_bytes > MAX_FILE_BYTES => return Err(Errno(libc::EFBIG)),
                FileKind::Regular => {}
                FileKind::Directory => return Err(Errno(libc::EISDIR)),
                _ => return Err(Errno(libc::EINVAL)),
            }
        }
        let time_ns = Stamps::of(self.volume).stamp_ns(locked.inode);
        let state = changed_state(&locked, change, time_ns);
        let mut operation = Operation::new(self.volume, locked.me);
        Log::of(self.volume).compact_if_due(&locked, &mut operation);
        let size = locked.size_bytes();
        if locked.kind() == FileKind::Regular && state.size_bytes > size {
            Writing::of(self.volume).zero_behind_end(&locked, size, state.size_bytes)?;
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
        let in_snapshot = staged.is_in_snapshot();
        let tail = (state.size_bytes, in_snapshot);
        let tail = self.cut_tail(&locked, &mut operation, &mut sums, tail)?;
        let tail = tail.map(|tail| entry_of_tail(tail, &sums, state.size_bytes));
        if let Some(tail) = &tail {
            staged.add(&mut operation, tail, time_ns)?;
        }
        let _committing = rules.begin_commit(locked.inode)?;
        operation.commit(&[&staged])?;
        Log::of(self.volume).apply_commit(&locked, &staged, || {
            for entry in [Some(entry), tail].iter().flatten() {
                Log::of(self.volume).apply_entry(
                    &locked,
                    &mut operation,
                    position,
                    entry,
                    time_ns,
                    false,
                )?;
            }
            Ok(())
        })?;
        operation.finish();
        Ok(locked.attributes())
    }

    /// In a file with checksums: write the block of the new end again, with zeros behind that end. During a snapshot, in every file:
    /// what is behind the end will be written in place.
    fn cut_tail(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        sums: &mut NewSums,
        (size_bytes, in_snapshot): (u64, bool),
    ) -> Outcome<Option<Mapping>> {
        let (file_block, within) = (size_bytes / BLOCK as u64, size_bytes % BLOCK as u64);
        let word = locked.index().load(file_block);
        let is_written_again = sums.wanted || in_snapshot;
        if size_bytes >= locked.size_bytes() || !is_written_again || within == 0 || !word.has_data()
        {
            return Ok(None);
        }
        let mut bytes = [0u8; BLOCK];
        Reading::of(self.volume).old_block(locked, file_block, word, &mut bytes)?;
        bytes[within as usize..].fill(0);
        let prefer = Placing::of(self.volume)
            .placement(operation.me, locked.inode)
            .pool_for(locked.ino, file_block);
        let taken = operation.take(locked.ino, file_block, 1, prefer, Need::Freeing)?;
        sums.store_block(self.volume, (taken.pool, taken.block), &bytes)?;
        Ok(Some(Mapping::to(taken, file_block, 0)))
    }

    pub(super) fn has_attribute(self, locked: &Locked<'_>, name: &[u8]) -> Outcome<bool> {
        if name == striping::ATTRIBUTE && locked.kind() != FileKind::Directory {
            Ok(locked.layout() != LayoutWord::UNSET)
        } else {
            Ok(Log::of(self.volume)
                .xattrs(locked.inode, locked.log_place())?
                .contains_key(name))
        }
    }

    pub(super) fn commit_xattr(
        self,
        locked: &Locked<'_>,
        entry: &Entry<'_>,
        need: Need,
    ) -> Outcome<()> {
        let mut operation = Operation::new(self.volume, locked.me);
        Log::of(self.volume).compact_if_due(locked, &mut operation);
        let time_ns = Stamps::of(self.volume).stamp_ns(locked.inode);
        let mut staged = Staged::begin(locked, need)?;
        let position = staged.add(&mut operation, entry, time_ns)?;
        operation.commit(&[&staged])?;
        Log::of(self.volume).apply_commit(locked, &staged, || {
            Log::of(self.volume).apply_entry(
                locked,
                &mut operation,
                position,
                entry,
                time_ns,
                false,
            )
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

pub(super) fn check_xattr_name(name: &[u8]) -> Outcome<()> {
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
