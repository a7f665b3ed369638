//! Attributes, names and listings without locks: read under the inode's sequence, as data is. A read never waits for a
//! thread stopped in the middle of a change: after a short time it reads the log instead (`committed`).

use crate::data::read::copy_run;
use crate::format::place::LogPlace;
use crate::format::*;
use crate::log::committed::CommittedBlocks;
use crate::log::found_names::{CookieRange, FoundName, Names};
use crate::session::access::Access;
use crate::session::layout::{LOADED, SessionInode};
use crate::session::patience::{self, LOOKING_PATIENCE};
use crate::session::seqlock::OPTIMISTIC_TRIES;
use crate::session::seqlock::Snapshot;
use crate::session::slots::Me;
use crate::session::volume::{FileReference, Volume};
use crate::types::*;
use egeria_media::CallerDestination;
use egeria_media::emulation::AccessKind;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

impl Volume {
    /// Read an inode without its lock, else under the lock if it is free soon, else from its log.
    pub(crate) fn read_unlocked<T>(
        &self,
        ino: u64,
        unlocked: impl Fn(&SessionInode, LogPlace) -> Outcome<T>,
        committed: impl Fn() -> Outcome<T>,
    ) -> Outcome<T> {
        let inode = self.inode(ino)?;
        loop {
            for _ in 0..OPTIMISTIC_TRIES {
                if let Some(seen) = read_unlocked_once(inode, ino, &unlocked) {
                    return seen;
                }
            }
            // A change that made no progress during an earlier wait is not waited for again.
            let limit = if self.stuck.is(ino, inode) {
                Duration::ZERO
            } else {
                LOOKING_PATIENCE
            };
            let locked = patience::within(limit, || {
                let locked = self.lock_beside_leases(ino)?;
                unlocked(locked.inode, locked.log_place())
            });
            if let Ok(outcome) = locked {
                return outcome;
            }
            self.stuck.note(ino, inode);
            match committed() {
                // It changes all the time, so its writer is not stopped.
                Err(Errno(libc::EAGAIN)) => {}
                outcome => return outcome,
            }
        }
    }

    /// Current attributes, without waiting for other threads.
    ///
    /// # Errors
    /// `ESTALE` when there is no such inode; `EIO` for damage.
    pub fn attributes(&self, ino: InodeNumber) -> Outcome<Attributes> {
        let mut found = Attributes::NONE;
        self.attributes_into(ino, &mut found)?;
        Ok(found)
    }

    /// Write the attributes into `into`, because each copy of them would wait for the stores of the previous copy.
    /// After an error the content of `into` is undefined.
    pub(crate) fn attributes_into(&self, ino: InodeNumber, into: &mut Attributes) -> Outcome<()> {
        let inode = self.inode(ino.0)?;
        if let Some(look) = begin_look(inode) {
            *into = inode.attributes(ino.0);
            if look.is_unchanged_after_copy(inode) {
                return Ok(());
            }
        }
        *into = self.read_unlocked(
            ino.0,
            |inode, _| Ok(inode.attributes(ino.0)),
            || self.committed_attributes(ino.0),
        )?;
        Ok(())
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
        self.lookup_into(parent, name, &mut found)?;
        Ok(found)
    }

    /// Find a name and write its attributes into a place.
    pub(crate) fn lookup_into(
        &self,
        parent: InodeNumber,
        name: &[u8],
        into: &mut Attributes,
    ) -> Outcome<()> {
        if name.len() > MAX_NAME_BYTES {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        if name == b"." || name == b".." {
            let up = self.read_unlocked(
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
    fn is_plausible(&self, directory: u64, found: &FoundName, named: &Attributes) -> bool {
        let leads_back = found.ino == directory || found.ino == InodeNumber::ROOT.0;
        let parent = || {
            let inode = self.inode(found.ino);
            inode.is_ok_and(|inode| inode.parent.load(Ordering::Relaxed) == directory)
        };
        !leads_back
            && FileKind::from_mode(named.mode) == Some(found.kind)
            && (found.kind != FileKind::Directory || parent())
    }

    fn lookup_locked(&self, parent: InodeNumber, name: &[u8]) -> Outcome<Attributes> {
        // The child is locked while its directory is locked, so that it cannot be removed in between.
        let lock = || self.lock_directory(parent);
        let (directory, _, child) = self.lock_named(lock, name, |_, _| Ok(()))?;
        drop(directory);
        Ok(child.attributes())
    }

    fn name_of(&self, directory: u64, name: &[u8]) -> Outcome<Option<FoundName>> {
        let found = self.name_and_look(directory, name)?;
        Ok(found.map(|(found, _)| found))
    }

    /// The target of a name, and the snapshot of its directory; `None` for the snapshot if the log was read.
    fn name_and_look(
        &self,
        directory: u64,
        name: &[u8],
    ) -> Outcome<Option<(FoundName, Option<Snapshot>)>> {
        // Duplicates the code below as a fast path for nearly all reads: a result of that code would be copied twice.
        let inode = self.inode(directory)?;
        if let Some(look) = begin_look(inode)
            && living_directory(inode).is_ok()
            && let Ok(Some(found)) =
                self.find_in_table(inode, unlocked_place(inode, directory), name)
            && look.is_unchanged_after_copy(inode)
        {
            return Ok(Some((found, Some(look))));
        }
        self.read_unlocked(
            directory,
            |inode, place| {
                // If the directory changed between the caller's snapshot and this one, the caller reads again.
                let look = Snapshot::begin(inode);
                living_directory(inode)?;
                let found = self.find_in_table(inode, place, name)?;
                Ok(found.map(|found| (found, Some(look))))
            },
            || {
                self.committed_parent(directory)?;
                let found = self.committed_name(directory, name)?;
                Ok(found.map(|found| (found, None)))
            },
        )
    }

    /// Whether a directory is unchanged since a snapshot: faster than looking the name up again.
    fn is_as_seen(&self, directory: u64, look: Option<Snapshot>) -> Outcome<bool> {
        let inode = self.inode(directory)?;
        let is_unchanged = look.is_some_and(|look| look.is_unchanged_after_copy(inode));
        // A process that died may have changed the log. Others may have followed the log already and reused old
        // numbers.
        Ok(is_unchanged && !inode.mutex.is_owner_dead())
    }

    /// The parent of a live directory, from its log.
    fn committed_parent(&self, directory: u64) -> Outcome<u64> {
        let attributes = self.committed_attributes(directory)?;
        match (attributes.kind(), attributes.nlink) {
            (FileKind::Directory, 1..) => {}
            (FileKind::Directory, _) => return Err(Errno(libc::ENOENT)),
            _ => return Err(Errno(libc::ENOTDIR)),
        }
        // The session's word changes in one store, together with the log.
        Ok(self.inode(directory)?.parent.load(Ordering::Relaxed))
    }

    /// Some of the names of a directory; none when it was removed.
    pub(crate) fn names_of(&self, directory: u64, range: CookieRange) -> Outcome<Names> {
        let names = self.read_unlocked(
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
                    self.committed_names(directory, range)
                }
            },
        )?;
        self.remember_walk(directory, &names);
        Ok(names)
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
        self.read_unlocked(ino.0, |inode, _| end(inode), known)
    }

    /// Target of a symbolic link, which never changes. Does not wait for other threads.
    ///
    /// # Errors
    /// `EINVAL` for other kinds; `ESTALE` when there is no such inode; `EIO` for damage.
    pub fn read_link(&self, ino: InodeNumber) -> Outcome<Vec<u8>> {
        let inode = self.inode(ino.0)?;
        for _ in 0..OPTIMISTIC_TRIES {
            let seen = read_unlocked_once(inode, ino.0, &|inode, _| self.plain_target(inode));
            if let Some(Ok(Some(target))) = seen {
                return Ok(target);
            }
        }
        self.read_link_locked(ino)
    }

    /// The target of a link without checksums; `None` for everything else.
    fn plain_target(&self, inode: &SessionInode) -> Outcome<Option<Vec<u8>>> {
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
        self.read_media(word.pool(), word.block().offset(), &mut target)?;
        Ok(Some(target))
    }

    /// Read under the lock, or from the log if the lock is not free soon.
    #[cold]
    pub(crate) fn read_patiently(
        &self,
        me: Me<'_>,
        file: FileReference,
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<usize> {
        loop {
            let locked = patience::within(LOOKING_PATIENCE, || self.read_locked(file, offset, to));
            if let Ok(outcome) = locked {
                return outcome;
            }
            if self.has_sums(file)? {
                return self.read_with_sums(file, offset, to);
            }
            let copied = self.with_committed_blocks(file.ino.0, |blocks| {
                let mut access = Access::again(self, me, AccessKind::Read);
                let bytes = copy_committed(&mut access, blocks, offset, to)?;
                Ok((bytes, access))
            });
            match copied {
                Err(Errno(libc::EAGAIN)) => {}
                copied => {
                    let (bytes, access) = copied?;
                    access.end();
                    return Ok(bytes);
                }
            }
        }
    }
}

/// Copy a range as described by a log.
fn copy_committed(
    access: &mut Access<'_>,
    blocks: &CommittedBlocks,
    offset: u64,
    to: CallerDestination<'_>,
) -> Outcome<usize> {
    let left = blocks.size_bytes.saturating_sub(offset);
    let to = to.first(usize::try_from(left).unwrap_or(usize::MAX));
    let mut done = 0;
    while done < to.bytes() {
        let at = offset + done as u64;
        let within = at % BLOCK as u64;
        let (word, count) = blocks.run_at(at / BLOCK as u64);
        let there = count.saturating_mul(BLOCK as u64) - within;
        let run = to
            .after(done)
            .first(usize::try_from(there).unwrap_or(usize::MAX));
        copy_run(access, word, within, run)?;
        done += run.bytes();
    }
    Ok(to.bytes())
}

/// `None`: it is not loaded, or a thread is changing it.
#[inline(always)]
fn begin_look(inode: &SessionInode) -> Option<Snapshot> {
    let look = Snapshot::begin(inode);
    if look.write_in_progress() {
        std::hint::spin_loop();
        return None;
    }
    // Changes committed by a dead owner are in the log, but not in the session yet.
    let is_loaded = inode.state.load(Ordering::Acquire) == LOADED && !inode.mutex.is_owner_dead();
    is_loaded.then_some(look)
}

#[inline(always)]
fn unlocked_place(inode: &SessionInode, ino: u64) -> LogPlace {
    LogPlace {
        ino,
        generation: inode.generation.load(Ordering::Relaxed),
        pages_before: 0,
        unlocked: true,
    }
}

/// One read of a loaded inode; `None`: it changed during the read, or a thread is changing it.
fn read_unlocked_once<T>(
    inode: &SessionInode,
    ino: u64,
    unlocked: &impl Fn(&SessionInode, LogPlace) -> Outcome<T>,
) -> Option<Outcome<T>> {
    let look = begin_look(inode)?;
    let seen = unlocked(inode, unlocked_place(inode, ino));
    let damaged = matches!(seen, Err(Errno(libc::EIO)));
    // A checksum error without the lock may be a race. It is reported only under the lock.
    (look.is_unchanged_after_copy(inode) && !damaged).then_some(seen)
}

/// `ENOTDIR`, or `ENOENT` when it was removed.
fn living_directory(inode: &SessionInode) -> Outcome<()> {
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
