//! The changes of a rename in its one or two directories.

use crate::format::*;
use crate::log::Log;
use crate::log::staging::Staged;
use crate::session::inode::Locked;
use crate::session::volume::Volume;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::*;

/// The two ends of a rename, locked.
pub(super) struct Ends<'a> {
    pub(super) old: Locked<'a>,
    /// `None`: the same directory.
    pub(super) new: Option<Locked<'a>>,
}

impl<'a> Ends<'a> {
    pub(super) fn target(&self) -> &Locked<'a> {
        self.new.as_ref().unwrap_or(&self.old)
    }

    /// All that a rename changes.
    pub(super) fn and<'l>(
        &'l self,
        moved: &'l Locked<'a>,
        other: Option<&'l Locked<'a>>,
    ) -> Vec<&'l Locked<'a>> {
        let all = [Some(&self.old), self.new.as_ref(), Some(moved), other];
        all.into_iter().flatten().collect()
    }
}

/// Entries staged in one or two directories.
pub(super) struct Changes<'a, 'e, 'n> {
    ends: &'e Ends<'a>,
    old: Staged,
    new: Option<Staged>,
    time_ns: i64,
    entries: Vec<(bool, LogPosition, Entry<'n>)>,
}

impl<'a, 'e, 'n> Changes<'a, 'e, 'n> {
    pub(super) fn begin(ends: &'e Ends<'a>, time_ns: i64) -> Outcome<Changes<'a, 'e, 'n>> {
        let old = Staged::begin(&ends.old, Need::Ordinary)?;
        let new = ends
            .new
            .as_ref()
            .map(|new| Staged::begin(new, Need::Ordinary))
            .transpose()?;
        Ok(Changes {
            ends,
            old,
            new,
            time_ns,
            entries: Vec::new(),
        })
    }

    pub(super) fn stage(
        &mut self,
        operation: &mut Operation<'_>,
        in_new: bool,
        entry: Entry<'n>,
    ) -> Outcome<()> {
        let in_new = in_new && self.new.is_some();
        let staged = if in_new {
            self.new.as_mut().unwrap_or(&mut self.old)
        } else {
            &mut self.old
        };
        let position = staged.add(operation, &entry, self.time_ns)?;
        self.entries.push((in_new, position, entry));
        Ok(())
    }

    pub(super) fn commit(
        &self,
        operation: &mut Operation<'_>,
        children: &[Option<&Staged>],
        moves: &[JournalPair],
    ) -> Outcome<()> {
        let mut all = vec![&self.old];
        all.extend(self.new.as_ref());
        all.extend(children.iter().copied().flatten());
        operation.commit_with_moves(&all, moves)
    }

    pub(super) fn apply(&self, volume: &Volume, operation: &mut Operation<'_>) -> Outcome<()> {
        self.apply_to(volume, operation, false, &self.ends.old, &self.old)?;
        match (&self.ends.new, &self.new) {
            (Some(locked), Some(staged)) => self.apply_to(volume, operation, true, locked, staged),
            _ => Ok(()),
        }
    }

    fn apply_to(
        &self,
        volume: &Volume,
        operation: &mut Operation<'_>,
        in_new: bool,
        locked: &Locked<'_>,
        staged: &Staged,
    ) -> Outcome<()> {
        Log::of(volume).apply_commit(locked, staged, || {
            for (_, position, entry) in self.entries.iter().filter(|(of_new, ..)| *of_new == in_new)
            {
                Log::of(volume).apply_entry(
                    locked,
                    operation,
                    *position,
                    entry,
                    self.time_ns,
                    false,
                )?;
            }
            Ok(())
        })
    }
}
