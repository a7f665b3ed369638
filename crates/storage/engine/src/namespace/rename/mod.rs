//! Rename. Moves of directories between directories take the volume's rename lock, so that the shape of the tree
//! cannot change while ancestry is checked. Directories are then locked ancestors first, then the inodes they name.
//! Moves of other files do not change the tree's shape. They take neither that lock nor any lock above their two
//! directories. They lock the two by the present shape of the tree. If it changes during this, two operations may wait
//! for each other; they start again when their patience ends ([`crate::session::Waits::holding_up_nobody`]).

mod changes;

use self::changes::{Changes, Ends};
use crate::format::*;
use crate::log::found_names::FoundName;
use crate::log::staging::Staged;
use crate::log::{Log, NameTable};
use crate::namespace::names::Dropped;
use crate::namespace::{Naming, Renaming};
use crate::session::inode::Locked;
use crate::session::seqlock::WriteSection;
use crate::session::{Leases, Quotas, Stamps};
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::*;
use std::sync::atomic::Ordering;

/// Maximum depth of ancestry that is followed; media with a longer chain is damaged.
const MAX_DEPTH: usize = 1 << 16;

/// How a try to rename ended.
pub(in crate::namespace) enum Tried {
    Renamed,
    /// The inodes of the names are not known well enough to be locked.
    IsNotKnown,
    /// A directory moves to another directory, or is replaced from there: the shape of the tree must not change.
    IsOfDirectories,
}

/// What a rename is asked to do.
pub(in crate::namespace) struct Request<'n> {
    pub(in crate::namespace) name: &'n [u8],
    pub(in crate::namespace) new_name: &'n [u8],
    pub(in crate::namespace) mode: RenameMode,
}

impl<'v> Renaming<'v> {
    pub(in crate::namespace) fn rename_within(
        self,
        parent: InodeHandle,
        request: &Request<'_>,
    ) -> Outcome<Tried> {
        let ends = Ends {
            old: Naming::of(self.volume).lock_for_change(parent)?,
            new: None,
        };
        self.rename_locked(&ends, request, &[])
    }

    pub(in crate::namespace) fn move_files(
        self,
        parent: InodeHandle,
        new_parent: InodeHandle,
        request: &Request<'_>,
    ) -> Outcome<Tried> {
        let (old, new) = (parent.ino, new_parent.ino);
        self.check_directories(old, new)?;
        let is_old_first = self.is_above(old, new) || (!self.is_above(new, old) && old < new);
        let ends = self.lock_ends(parent, new_parent, is_old_first)?;
        self.rename_locked(&ends, request, &[])
    }

    pub(in crate::namespace) fn move_directories(
        self,
        parent: InodeHandle,
        new_parent: InodeHandle,
        request: &Request<'_>,
    ) -> Outcome<Tried> {
        let _held = self.volume.session.lock_renames()?;
        let (old, new) = (parent.ino, new_parent.ino);
        self.check_directories(old, new)?;
        let old_line = self.ancestry(old)?;
        let new_line = self.ancestry(new)?;
        let is_old_first = new_line.contains(&old.0) || (!old_line.contains(&new.0) && old < new);
        let ends = self.lock_ends(parent, new_parent, is_old_first)?;
        self.rename_locked(&ends, request, &[old_line, new_line])
    }

    /// Whether a directory is above another one, as far as visible without locks.
    fn is_above(self, outer: InodeNumber, inner: InodeNumber) -> bool {
        let above = |at: &u64| {
            let parent = self.volume.inode(*at).ok()?.parent.load(Ordering::Relaxed);
            (*at != InodeNumber::ROOT.0 && parent != 0).then_some(parent)
        };
        let mut line = std::iter::successors(Some(inner.0), above).take(MAX_DEPTH);
        line.any(|at| at == outer.0)
    }

    /// An end that is not a directory is reported before one that was removed.
    fn check_directories(self, parent: InodeNumber, new_parent: InodeNumber) -> Outcome<()> {
        for end in [parent, new_parent] {
            drop(self.volume.lock(end.0)?.directory()?);
        }
        Ok(())
    }

    fn lock_ends(
        self,
        parent: InodeHandle,
        new_parent: InodeHandle,
        is_old_first: bool,
    ) -> Outcome<Ends<'v>> {
        if is_old_first {
            let old = Naming::of(self.volume).lock_for_change(parent)?;
            let new = Some(Naming::of(self.volume).lock_for_change(new_parent)?);
            return Ok(Ends { old, new });
        }
        let new = Naming::of(self.volume).lock_for_change(new_parent)?;
        let old = Naming::of(self.volume).lock_for_change(parent)?;
        Ok(Ends {
            old,
            new: Some(new),
        })
    }

    /// A directory and all directories above it.
    fn ancestry(self, directory: InodeNumber) -> Outcome<Vec<u64>> {
        // What is above a living directory lives.
        drop(Naming::of(self.volume).lock_directory(directory)?);
        let mut line = vec![directory.0];
        let mut at = directory.0;
        while at != InodeNumber::ROOT.0 {
            // Under the lock: a process that died while it moved the directory may have left the old parent.
            let locked = self.volume.lock_beside_leases(at)?.directory()?;
            at = locked.inode.parent.load(Ordering::Relaxed);
            line.push(at);
            if line.len() > MAX_DEPTH {
                return Err(self.volume.damaged(directory.0, "line of parents"));
            }
        }
        Ok(line)
    }

    fn rename_locked(
        self,
        ends: &Ends<'_>,
        request: &Request<'_>,
        lines: &[Vec<u64>],
    ) -> Outcome<Tried> {
        let source = NameTable::of(self.volume)
            .find_name(&ends.old, request.name)?
            .ok_or(Errno(libc::ENOENT))?;
        let target = NameTable::of(self.volume).find_name(ends.target(), request.new_name)?;
        match (request.mode, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(Errno(libc::EEXIST)),
            (RenameMode::Exchange, None) => return Err(Errno(libc::ENOENT)),
            (_, Some(target)) if target.ino == source.ino => return Ok(Tried::Renamed),
            _ => {}
        }
        if let Some(new) = &ends.new {
            Quotas::of(self.volume).check_same_tree(ends.old.inode, new.inode)?;
        }
        let is_directory = |found: FoundName| found.kind == FileKind::Directory;
        if lines.is_empty()
            && ends.new.is_some()
            && (is_directory(source) || target.is_some_and(is_directory))
        {
            return Ok(Tried::IsOfDirectories);
        }
        if let [old_line, new_line] = lines {
            if new_line.contains(&source.ino) {
                return Err(Errno(libc::EINVAL));
            }
            if target.is_some_and(|target| old_line.contains(&target.ino)) {
                return Err(Errno(if request.mode == RenameMode::Exchange {
                    libc::EINVAL
                } else {
                    libc::ENOTEMPTY
                }));
            }
        }
        if request.mode != RenameMode::Exchange {
            match target.map(is_directory) {
                Some(true) if !is_directory(source) => {
                    return Err(Errno(libc::EISDIR));
                }
                Some(false) if is_directory(source) => {
                    return Err(Errno(libc::ENOTDIR));
                }
                _ => {}
            }
        }
        let mut known = Naming::of(self.volume).is_below(&ends.old, &source)?;
        if let Some(target) = &target {
            known &= Naming::of(self.volume).is_below(ends.target(), target)?;
        }
        if !known {
            return Ok(Tried::IsNotKnown);
        }
        let check_remembered = || {
            let other = target.map(|target| (ends.target(), target));
            let mut named = other.into_iter().chain([(&ends.old, source)]);
            named.try_for_each(|(directory, found)| {
                Leases::of(self.volume).check_remembered_name(directory, (found.ino, found.kind))
            })
        };
        // Checked before locking, which recalls attributes only, and again under the locks.
        check_remembered()?;
        let (moved, other) = self.lock_children(source, target)?;
        check_remembered()?;
        for child in other.iter().chain([&moved]) {
            Log::of(self.volume).compact_if_due(child, &mut Operation::new(self.volume, child.me));
        }
        if request.mode == RenameMode::Exchange {
            check_room(ends, source, target)?;
            let other = other.ok_or(Errno(libc::ENOENT))?;
            let target = target.ok_or(Errno(libc::ENOENT))?;
            let exchanged = self.exchange(ends, request, (&moved, source), (&other, target));
            return exchanged.map(|()| Tried::Renamed);
        }
        if other
            .as_ref()
            .is_some_and(|other| other.kind() == FileKind::Directory && other.name_count() > 0)
        {
            return Err(Errno(libc::ENOTEMPTY));
        }
        check_room(ends, source, target)?;
        let outcome = self.replace(ends, request, (&moved, source), other.as_ref().zip(target));
        // The replaced inode was deleted, or is open in some process and then not deleted here.
        ends.old.me.inode_settled();
        outcome.map(|()| Tried::Renamed)
    }

    fn lock_children(
        self,
        source: FoundName,
        target: Option<FoundName>,
    ) -> Outcome<(Locked<'v>, Option<Locked<'v>>)> {
        match target {
            None => Ok((self.volume.lock(source.ino)?, None)),
            Some(target) if target.ino < source.ino => {
                let other = self.volume.lock(target.ino)?;
                Ok((self.volume.lock(source.ino)?, Some(other)))
            }
            Some(target) => {
                let moved = self.volume.lock(source.ino)?;
                Ok((moved, Some(self.volume.lock(target.ino)?)))
            }
        }
    }

    fn replace(
        self,
        ends: &Ends<'_>,
        request: &Request<'_>,
        (moved, source): (&Locked<'_>, FoundName),
        replaced: Option<(&Locked<'_>, FoundName)>,
    ) -> Outcome<()> {
        let time_ns = Stamps::of(self.volume).stamp_all_ns(&[&ends.old, ends.target(), moved]);
        let time_ns = replaced.map_or(time_ns, |(replaced, _)| {
            time_ns.max(Stamps::of(self.volume).stamp_ns(replaced.inode))
        });
        let mut operation = Operation::new(self.volume, ends.old.me);
        NameTable::of(self.volume).reserve_names(ends.target(), 1)?;
        let mut changes = Changes::begin(ends, time_ns)?;
        if let Some((_, target)) = replaced {
            changes.stage(
                &mut operation,
                true,
                Entry::NameRemove {
                    added: target.position,
                },
            )?;
        }
        changes.stage(
            &mut operation,
            false,
            Entry::NameRemove {
                added: source.position,
            },
        )?;
        let cookie = ends.target().next_cookie();
        let add = Entry::NameAdd {
            ino: source.ino,
            kind: source.kind as u8,
            cookie,
            name: request.new_name,
        };
        changes.stage(&mut operation, true, add)?;
        let child = self.stage_move(&mut operation, moved, ends.target().ino, time_ns)?;
        let dropped = match replaced {
            Some((other, _)) => {
                Some(Naming::of(self.volume).stage_drop(&mut operation, other, time_ns)?)
            }
            None => None,
        };
        changes.commit(
            &mut operation,
            &[
                child.staged(),
                dropped.as_ref().map(|dropped: &Dropped| &dropped.staged),
            ],
            child.pair().as_slice(),
        )?;
        let applied = changes
            .apply(self.volume, &mut operation)
            .and_then(|()| self.apply_move(&mut operation, moved, &child, time_ns))
            .and_then(|()| match (replaced, &dropped) {
                (Some((other, _)), Some(dropped)) => {
                    Naming::of(self.volume).apply_drop(&mut operation, other, dropped, time_ns)
                }
                _ => Ok(()),
            });
        let other = replaced.map(|(other, _)| other);
        Log::of(self.volume).or_forget(&ends.and(moved, other), applied)?;
        operation.finish();
        drop(operation);
        match replaced {
            Some((other, _)) => self.volume.delete_if_unused(other),
            None => Ok(()),
        }
    }

    fn exchange(
        self,
        ends: &Ends<'_>,
        request: &Request<'_>,
        (moved, source): (&Locked<'_>, FoundName),
        (other, target): (&Locked<'_>, FoundName),
    ) -> Outcome<()> {
        let time_ns =
            Stamps::of(self.volume).stamp_all_ns(&[&ends.old, ends.target(), moved, other]);
        let mut operation = Operation::new(self.volume, ends.old.me);
        NameTable::of(self.volume).reserve_names(&ends.old, 2)?;
        NameTable::of(self.volume).reserve_names(ends.target(), 2)?;
        let mut changes = Changes::begin(ends, time_ns)?;
        changes.stage(
            &mut operation,
            false,
            Entry::NameRemove {
                added: source.position,
            },
        )?;
        changes.stage(
            &mut operation,
            true,
            Entry::NameRemove {
                added: target.position,
            },
        )?;
        let cookie = ends.old.next_cookie();
        changes.stage(
            &mut operation,
            false,
            Entry::NameAdd {
                ino: target.ino,
                kind: target.kind as u8,
                cookie,
                name: request.name,
            },
        )?;
        let cookie = ends.target().next_cookie() + u64::from(ends.new.is_none());
        changes.stage(
            &mut operation,
            true,
            Entry::NameAdd {
                ino: source.ino,
                kind: source.kind as u8,
                cookie,
                name: request.new_name,
            },
        )?;
        let child = self.stage_move(&mut operation, moved, ends.target().ino, time_ns)?;
        let back = self.stage_move(&mut operation, other, ends.old.ino, time_ns)?;
        let moves: Vec<JournalPair> = [&child, &back]
            .into_iter()
            .filter_map(Moved::pair)
            .collect();
        changes.commit(&mut operation, &[child.staged(), back.staged()], &moves)?;
        let applied = changes
            .apply(self.volume, &mut operation)
            .and_then(|()| self.apply_move(&mut operation, moved, &child, time_ns))
            .and_then(|()| self.apply_move(&mut operation, other, &back, time_ns));
        Log::of(self.volume).or_forget(&ends.and(moved, Some(other)), applied)?;
        operation.finish();
        Ok(())
    }

    /// A moved inode's change time, and a directory's new parent.
    fn stage_move(
        self,
        operation: &mut Operation<'_>,
        moved: &Locked<'_>,
        parent: u64,
        time_ns: i64,
    ) -> Outcome<Moved> {
        if let Some(pair) = self.pair_of_move(moved, time_ns)? {
            return Ok(Moved::Word(pair));
        }
        let mut staged = Staged::begin(moved, Need::Ordinary)?;
        let state = moved.attribute_state();
        let state = AttributeState {
            parent: if moved.kind() == FileKind::Directory {
                parent
            } else {
                0
            },
            ..state
        };
        let position = staged.add(operation, &Entry::Attributes(state), time_ns)?;
        Ok(Moved::Entry {
            staged,
            position,
            state,
        })
    }

    /// The time as a word of the record, so that a file without a log gets no log page for it.
    fn pair_of_move(self, moved: &Locked<'_>, time_ns: i64) -> Outcome<Option<JournalPair>> {
        moved.keep_for_snapshot();
        // The clock may have been set back: the later of both times would count.
        let ctime_ns = moved.inode.ctime_ns.load(Ordering::Relaxed) as i64;
        let is_possible = moved.kind() != FileKind::Directory
            && self.volume.superblock().version >= FIRST_VERSION_WITH_MOVES
            && time_ns >= ctime_ns;
        if !is_possible {
            return Ok(None);
        }
        let birth_ns = moved.inode.birth_ns.load(Ordering::Relaxed) as i64;
        let (pool, at) = moved.record()?;
        let pair = |value| JournalPair {
            pool,
            at: at + MOVED_AT,
            value,
        };
        Ok(encode_moved(moved.ino, birth_ns, time_ns).map(pair))
    }

    fn apply_move(
        self,
        operation: &mut Operation<'_>,
        moved: &Locked<'_>,
        child: &Moved,
        time_ns: i64,
    ) -> Outcome<()> {
        match child {
            Moved::Entry {
                staged,
                position,
                state,
            } => Log::of(self.volume).apply_commit(moved, staged, || {
                let entry = Entry::Attributes(*state);
                Log::of(self.volume)
                    .apply_entry(moved, operation, *position, &entry, time_ns, false)
            }),
            Moved::Word(_) => {
                let changing = WriteSection::begin(moved.inode);
                let ctime_ns = &moved.inode.ctime_ns;
                ctime_ns.store(time_ns as u64, Ordering::Relaxed);
                changing.end();
                Ok(())
            }
        }
    }
}

/// A directory that moves into another directory and replaces no directory there needs room for its link. Only an
/// exchange moves one the other way; replacing a non-directory was refused.
fn check_room(ends: &Ends<'_>, source: FoundName, target: Option<FoundName>) -> Outcome<()> {
    let Some(new) = &ends.new else { return Ok(()) };
    let is_directory = |found: FoundName| found.kind == FileKind::Directory;
    match (is_directory(source), target.is_some_and(is_directory)) {
        (true, false) => new.check_subdirectory_fits(),
        (false, true) => ends.old.check_subdirectory_fits(),
        _ => Ok(()),
    }
}

/// How a moved inode notes the time.
enum Moved {
    /// As an entry of its log.
    Entry {
        staged: Staged,
        position: LogPosition,
        state: AttributeState,
    },
    /// As a word of its record.
    Word(JournalPair),
}

impl Moved {
    fn staged(&self) -> Option<&Staged> {
        match self {
            Moved::Entry { staged, .. } => Some(staged),
            Moved::Word(_) => None,
        }
    }

    fn pair(&self) -> Option<JournalPair> {
        match self {
            Moved::Entry { .. } => None,
            Moved::Word(pair) => Some(*pair),
        }
    }
}

#[cfg(test)]
mod tests;
