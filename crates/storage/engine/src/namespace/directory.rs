//! The session's table of a directory: maps hashes of names to the places of their log entries, one word each. The
//! names themselves stay on media; reads from there are checked.

use crate::format::place::LogPlace;
use crate::format::*;
use crate::log::found_names::{CookieRange, Names, kind_of};
use crate::log::{Log, NameTable};
use crate::namespace::Lookups;
use crate::session::layout::SessionInode;
use crate::session::name_words::TOMBSTONE;
use crate::session::walks::Walk;
use crate::types::*;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// Number of table words that can be examined in the time of one log entry.
const WORDS_PER_ENTRY: u64 = 128;

impl Lookups<'_> {
    /// Names of a loaded directory read from the log, if they are still in the table.
    pub(crate) fn names_in_table(
        self,
        inode: &SessionInode,
        place: LogPlace,
        range: CookieRange,
    ) -> Outcome<Names> {
        let mut names = Names::default();
        if inode.nlink.load(Ordering::Relaxed) == 0 {
            return Ok(names);
        }
        let parent = inode.parent.load(Ordering::Relaxed);
        names.add_dots(place.ino, parent, range);
        let commit = CommitWord::decode(inode.applied.load(Ordering::Acquire), place.ino);
        let commit = commit.ok().flatten().ok_or(Errno(libc::EIO))?;
        if self.is_table_shorter(inode, commit) {
            return self.names_of_table(inode, place, range, names);
        }
        let start = self.resume_walk(inode, place.ino, range.after);
        let last = Cell::new(Walk {
            cookie: range.after,
            ..start
        });
        let pages = Cell::new(start.pages_before);
        let full = Errno(libc::ECANCELED);
        let place = LogPlace {
            pages_before: start.pages_before,
            ..place
        };
        let walked = Log::of(self.volume).walk_log(
            place,
            commit,
            start.position,
            &mut |_| {
                pages.set(pages.get() + 1);
                Ok(())
            },
            &mut |position, entry, _| {
                let Entry::NameAdd {
                    ino,
                    kind,
                    cookie,
                    name,
                } = *entry
                else {
                    return Ok(());
                };
                if !range.holds(cookie)
                    || !NameTable::of(self.volume).is_live(inode, position, name)
                {
                    return Ok(());
                }
                if names.is_full() {
                    names.more = true;
                    return Err(full);
                }
                let kind =
                    kind_of(kind).ok_or_else(|| self.volume.damaged_in(place, "kind of a name"))?;
                names.add(ino, kind, cookie, name);
                last.set(Walk {
                    cookie,
                    position,
                    pages_before: pages.get(),
                    ..start
                });
                Ok(())
            },
        );
        names.walk = Some(last.get());
        if walked == Err(full) {
            Ok(names)
        } else {
            walked.map(|()| names)
        }
    }

    /// Whether all names fit into one answer and the table finds them faster than the log, which also contains removed
    /// names.
    fn is_table_shorter(self, inode: &SessionInode, commit: CommitWord) -> bool {
        let names = inode.blocks.load(Ordering::Relaxed);
        if names > Names::MAX_BUT_DOTS {
            return false;
        }
        let words = self.volume.session.name_table(inode).map_or(0, <[_]>::len) as u64;
        let full_pages = inode.log_pages.load(Ordering::Relaxed).saturating_sub(1);
        let lines = u64::from(full_pages) * u64::from(PAGE_LINES) + u64::from(commit.tail.line());
        names + words / WORDS_PER_ENTRY < lines
    }

    /// Append the names in the table of a loaded directory to those found already.
    fn names_of_table(
        self,
        inode: &SessionInode,
        place: LogPlace,
        range: CookieRange,
        mut names: Names,
    ) -> Outcome<Names> {
        let dots = names.list.len();
        let mut bytes = [0u8; 8 * LINE];
        for word in self.volume.session.name_table(inode).unwrap_or(&[]) {
            let word = word.load(Ordering::Acquire);
            if word <= TOMBSTONE {
                continue;
            }
            let position = self.volume.name_words.position(word);
            let (_, entry, _) = Log::of(self.volume).read_entry(place, position, &mut bytes)?;
            let Entry::NameAdd {
                ino,
                kind,
                cookie,
                name,
            } = entry
            else {
                return Err(self.volume.damaged_in(place, "a name"));
            };
            // More than there were: another thread changes the directory, and a reader without the lock reads again.
            if range.holds(cookie) && !names.is_full() {
                let kind =
                    kind_of(kind).ok_or_else(|| self.volume.damaged_in(place, "kind of a name"))?;
                names.add(ino, kind, cookie, name);
            }
        }
        names.list[dots..].sort_unstable_by_key(|name| name.cookie);
        Ok(names)
    }

    /// Where to continue after `cookie`: where a walk of this process stopped, if the log is unchanged, else the head.
    fn resume_walk(self, inode: &SessionInode, ino: u64, cookie: u64) -> Walk {
        let epoch = inode.epoch.load(Ordering::Relaxed);
        let generation = inode.generation.load(Ordering::Relaxed);
        match self.volume.walks.at(ino, cookie) {
            Some(walk) if walk.epoch == epoch && walk.generation == generation => walk,
            _ => Walk {
                cookie,
                position: LogPosition::NONE,
                pages_before: 0,
                epoch,
                generation,
            },
        }
    }

    pub(crate) fn remember_walk(self, ino: u64, names: &Names) {
        if let Some(walk) = names.walk
            && !walk.position.is_none()
        {
            self.volume.walks.keep(ino, walk);
        }
    }
}
