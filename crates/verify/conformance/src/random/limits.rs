//! How much of a step has one right answer.
//!
//! Bytes stored behind the end of a file, copies onto their own source, and addresses that are only partly
//! good have results that no standard fixes. The file system that is compared with says how long a step can
//! be without them, and both then do it so.

use super::actor::{Mapped, State};
use super::program::{Action, Memory, PAGE};
use crate::call;
use libc::{O_APPEND, PROT_READ, PROT_WRITE};

pub const ALL: usize = usize::MAX;

/// A byte of a file.
struct Place {
    file: (u64, u64),
    size: usize,
    at: usize,
}

impl State {
    /// How many bytes this may take, as things are.
    pub fn limit(&self, action: Action) -> usize {
        self.sensible(action).unwrap_or(ALL)
    }

    fn sensible(&self, action: Action) -> Option<usize> {
        match action {
            Action::Store { map, at, .. } => Some(self.mapped(map, at)?.before_the_end()),
            Action::Write { slot, from, .. } | Action::WriteParts { slot, from, .. } => {
                let to = self.position(slot, true)?;
                self.source(from, &to)
            }
            Action::WriteAt { slot, at, from, .. } => {
                let appends = self.appends(slot)?;
                let to = self.file(slot, at)?;
                let at = if appends { to.size } else { at };
                self.source(from, &Place { at, ..to })
            }
            Action::Read { slot, to, .. } => {
                let from = self.position(slot, false)?;
                self.target(to, &from)
            }
            Action::ReadAt { slot, at, to, .. } => self.target(to, &self.file(slot, at)?),
            Action::CopyRange {
                from,
                at,
                to,
                to_at,
                ..
            } => Some(apart(&self.file(from, at)?, &self.file(to, to_at)?)),
            Action::SendFile { from, at, to, .. } => {
                Some(apart(&self.file(from, at)?, &self.position(to, true)?))
            }
            _ => None,
        }
    }

    fn appends(&self, slot: usize) -> Option<bool> {
        let fd = self.slots[slot].as_ref()?.0;
        Some(call::fcntl(fd, libc::F_GETFL, 0).ok()? & i64::from(O_APPEND) != 0)
    }

    fn file(&self, slot: usize, at: usize) -> Option<Place> {
        place(self.slots[slot].as_ref()?.0, at)
    }

    fn position(&self, slot: usize, writes: bool) -> Option<Place> {
        let fd = self.slots[slot].as_ref()?.0;
        let at = call::lseek(fd, 0, libc::SEEK_CUR).ok()? as usize;
        let place = place(fd, at)?;
        let at = if writes && self.appends(slot)? {
            place.size
        } else {
            at
        };
        Some(Place { at, ..place })
    }

    fn mapped(&self, map: usize, at: usize) -> Option<Place> {
        let Mapped {
            map,
            file,
            begins_at,
            ..
        } = self.maps[map].as_ref()?;
        place(file.as_ref()?.0, begins_at + at.min(map.bytes()))
    }

    fn source(&self, from: Memory, to: &Place) -> Option<usize> {
        let Memory::Mapped(map, at) = from else {
            return None;
        };
        let from = self.mapped(map, at)?;
        // Processors read what may only be written; a kernel that looks up its pages need not. A bad address is
        // tried only where the file goes on: tmpfs lets files grow by writes that fail.
        let is_readable = self.maps[map].as_ref()?.access & PROT_READ != 0;
        if !is_readable || from.at >= from.size && to.at > to.size {
            return Some(0);
        }
        Some(from.before_the_end().min(apart(&from, to)))
    }

    fn target(&self, to: Memory, from: &Place) -> Option<usize> {
        let Memory::Mapped(map, at) = to else {
            return None;
        };
        let to = self.mapped(map, at)?;
        let is_good = self.maps[map].as_ref()?.access & PROT_WRITE != 0 && to.at < to.size;
        // A bad address counts only for who finds something to put there.
        let limit = if is_good || from.at < from.size {
            ALL
        } else {
            0
        };
        Some(limit.min(to.before_the_end()).min(apart(from, &to)))
    }
}

fn place(fd: i32, at: usize) -> Option<Place> {
    let facts = call::fstat(fd).ok()?;
    Some(Place {
        file: (facts.st_dev, facts.st_ino),
        size: facts.st_size as usize,
        at,
    })
}

impl Place {
    /// Bytes up to the end of the file; on pages behind it all, for they are not there.
    fn before_the_end(&self) -> usize {
        match self.size.checked_sub(self.at) {
            None | Some(0) if self.at >= self.size.next_multiple_of(PAGE) => ALL,
            None | Some(0) => 0,
            Some(bytes) => bytes,
        }
    }
}

/// How many bytes can be copied before what is read is what was written.
fn apart(from: &Place, to: &Place) -> usize {
    match from.at.abs_diff(to.at) {
        0 => ALL,
        _ if from.file != to.file => ALL,
        bytes => bytes,
    }
}
