//! Attributes, names and listings without locks: read under the inode's sequence, as data is. A read never waits for a
//! thread stopped in the middle of a change: after a short time it reads the log instead (`committed`).

use crate::format::*;
use crate::log::Log;
use crate::log::NameTable;
use crate::log::found_names::{CookieRange, FoundName, Names};
use crate::log::unlocked::{begin_look, unlocked_place};
use crate::namespace::Lookups;
use crate::namespace::Naming;
use crate::session::layout::SessionInode;
use crate::session::patience::{self, LOOKING_PATIENCE};
use crate::session::seqlock::Snapshot;
use crate::types::*;
use std::sync::atomic::Ordering;

impl Lookups<'_> {
    /// Write the attributes into `into`, because each copy of them would wait for the stores of the previous copy.
    /// After an error the content of `into` is undefined.
    pub(crate) fn attributes_into(self, ino: InodeNumber, into: &mut Attributes) -> Outcome<()> {
        let inode = self.volume.inode(ino.0)?;
        if let Some(look) = begin_look(inode) {
            *into = inode.attributes(ino.0);
            if look.is_unchanged_after_copy(inode) {
                return Ok(());
            }
        }
        *into = Log::of(self.volume).read_unlocked(
            ino.0,
            |inode, _| Ok(inode.attributes(ino.0)),
            || Log::of(self.volume).committed_attributes(ino.0),
        )?;
        Ok(())
    }

    /// Find a name and write its attributes into a place.
    pub(crate) fn lookup_into(
        self,
        parent: InodeNumber,
        name: &[u8],
        into: &mut Attributes,
    ) -> Outcome<()> {
        if name.len() > MAX_NAME_BYTES {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        if name == b"." || name == b".." {
            let up = Log::of(self.volume).read_unlocked(
                parent.0,
                |inode, _| living_directory(inode).map(|()| inode.parent.load(Ordering::Relaxed)),
                || self.committed_parent(parent.0),
            )?;
            let up = InodeNumber(up);
            let ino = if name == b"." { parent } else { up };
            return self.attributes_into(ino, into);
        }
        loop {
            let (found, look) = self
                .name_and_look(parent.0, name)?
                .ok_or(Errno(libc::ENOENT))?;
            let named = self.attributes_into(InodeNumber(found.ino), into);
            // The name still has the same target, so the target's number was not reused.
            if !self.is_as_seen(parent.0, look)? && self.name_of(parent.0, name)? != Some(found) {
                continue;
            }
            if named.is_ok() && self.is_plausible(parent.0, &found, into) {
                return Ok(());
            }
            // Half renamed, half made, or damaged: only a lookup under the locks can tell.
            let surely = patience::within(LOOKING_PATIENCE, || self.lookup_locked(parent, name));
            return match (surely, named) {
                (Ok(outcome), _) => outcome.map(|surely| *into = surely),
                (Err(_), Err(Errno(libc::ESTALE))) => Err(Errno(libc::ENOENT)),
                (Err(_), named) => named,
            };
        }
    }

    /// Whether the target of a name is plausible; on forged media it can be any inode.
    fn is_plausible(self, directory: u64, found: &FoundName, named: &Attributes) -> bool {
        let leads_back = found.ino == directory || found.ino == InodeNumber::ROOT.0;
        let parent = || {
            let inode = self.volume.inode(found.ino);
            inode.is_ok_and(|inode| inode.parent.load(Ordering::Relaxed) == directory)
        };
        !leads_back
            && FileKind::from_mode(named.mode) == Some(found.kind)
            && (found.kind != FileKind::Directory || parent())
    }

    fn lookup_locked(self, parent: InodeNumber, name: &[u8]) -> Outcome<Attributes> {
        // The child is locked while its directory is locked, so that it cannot be removed in between.
        let lock = || Naming::of(self.volume).lock_directory(parent);
        let (directory, _, child) =
            Naming::of(self.volume).lock_named(lock, name, |_, _| Ok(()))?;
        drop(directory);
        Ok(child.attributes())
    }

    fn name_of(self, directory: u64, name: &[u8]) -> Outcome<Option<FoundName>> {
        let found = self.name_and_look(directory, name)?;
        Ok(found.map(|(found, _)| found))
    }

    /// The target of a name, and the snapshot of its directory; `None` for the snapshot if the log was read.
    fn name_and_look(
        self,
        directory: u64,
        name: &[u8],
    ) -> Outcome<Option<(FoundName, Option<Snapshot>)>> {
        // Duplicates the code below as a fast path for nearly all reads: a result of that code would be copied twice.
        let inode = self.volume.inode(directory)?;
        if let Some(look) = begin_look(inode)
            && living_directory(inode).is_ok()
            && let Ok(Some(found)) = NameTable::of(self.volume).find_in_table(
                inode,
                unlocked_place(inode, directory),
                name,
            )
            && look.is_unchanged_after_copy(inode)
        {
            return Ok(Some((found, Some(look))));
        }
        Log::of(self.volume).read_unlocked(
            directory,
            |inode, place| {
                // If the directory changed between the caller's snapshot and this one, the caller reads again.
                let look = Snapshot::begin(inode);
                living_directory(inode)?;
                let found = NameTable::of(self.volume).find_in_table(inode, place, name)?;
                Ok(found.map(|found| (found, Some(look))))
            },
            || {
                self.committed_parent(directory)?;
                let found = Log::of(self.volume).committed_name(directory, name)?;
                Ok(found.map(|found| (found, None)))
            },
        )
    }

    /// Whether a directory is unchanged since a snapshot: faster than looking the name up again.
    fn is_as_seen(self, directory: u64, look: Option<Snapshot>) -> Outcome<bool> {
        let inode = self.volume.inode(directory)?;
        let is_unchanged = look.is_some_and(|look| look.is_unchanged_after_copy(inode));
        // A process that died may have changed the log. Others may have followed the log already and reused old
        // numbers.
        Ok(is_unchanged && !inode.mutex.is_owner_dead())
    }

    /// The parent of a live directory, from its log.
    fn committed_parent(self, directory: u64) -> Outcome<u64> {
        let attributes = Log::of(self.volume).committed_attributes(directory)?;
        match (attributes.kind(), attributes.nlink) {
            (FileKind::Directory, 1..) => {}
            (FileKind::Directory, _) => return Err(Errno(libc::ENOENT)),
            _ => return Err(Errno(libc::ENOTDIR)),
        }
        // The session's word changes in one store, together with the log.
        Ok(self.volume.inode(directory)?.parent.load(Ordering::Relaxed))
    }

    /// Some of the names of a directory; none when it was removed.
    pub(crate) fn names_of(self, directory: u64, range: CookieRange) -> Outcome<Names> {
        let names = Log::of(self.volume).read_unlocked(
            directory,
            |inode, place| {
                match living_directory(inode) {
                    Err(Errno(libc::ENOENT)) => return Ok(Names::default()),
                    outcome => outcome?,
                }
                self.names_in_table(inode, place, range)
            },
            || match self.committed_parent(directory) {
                Err(Errno(libc::ENOENT)) => Ok(Names::default()),
                outcome => {
                    outcome?;
                    Log::of(self.volume).committed_names(directory, range)
                }
            },
        )?;
        self.remember_walk(directory, &names);
        Ok(names)
    }

    /// The target of a link without checksums; `None` for everything else.
    pub(in crate::namespace) fn plain_target(
        self,
        inode: &SessionInode,
    ) -> Outcome<Option<Vec<u8>>> {
        let mode = inode.mode.load(Ordering::Relaxed);
        let bytes = inode.size_bytes.load(Ordering::Acquire) as usize;
        let word = BlockWord(inode.inline_words[0].load(Ordering::Acquire));
        let plain = FileKind::from_mode(mode) == Some(FileKind::Symlink)
            && inode.root.load(Ordering::Acquire) == 0
            && inode.checksums.load(Ordering::Relaxed) == 0
            && word.has_data()
            && (1..=MAX_TARGET_BYTES).contains(&bytes);
        if !plain {
            return Ok(None);
        }
        let mut target = vec![0; bytes];
        self.volume
            .read_media(word.pool(), word.block().offset(), &mut target)?;
        Ok(Some(target))
    }
}

/// `ENOTDIR`, or `ENOENT` when it was removed.
pub(in crate::namespace) fn living_directory(inode: &SessionInode) -> Outcome<()> {
    if FileKind::from_mode(inode.mode.load(Ordering::Relaxed)) != Some(FileKind::Directory) {
        return Err(Errno(libc::ENOTDIR));
    }
    match inode.nlink.load(Ordering::Relaxed) {
        0 => Err(Errno(libc::ENOENT)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
