//! The session's table of a directory: maps hashes of names to the places of their log entries, one word each. The
//! names themselves stay on media; reads from there are checked.

use crate::format::place::LogPlace;
use crate::format::*;
use crate::log::found_names::{CookieRange, FoundName, Names, kind_of};
use crate::namespace::name_hash::hash_name;
use crate::session::inode::Locked;
use crate::session::layout::SessionInode;
use crate::session::seqlock::WriteSection;
use crate::session::volume::Volume;
use crate::session::walks::Walk;
use crate::types::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

const TOMBSTONE: u64 = 1;
const TAG_SHIFT: u32 = 51;
const POSITION_MASK: u64 = (1 << TAG_SHIFT) - 1;
const CLASS_SHIFT: u32 = 56;
/// Number of table words that can be examined in the time of one log entry.
const WORDS_PER_ENTRY: u64 = 128;
// Words of `SessionInode::inline_words` that a directory uses.
const USED: usize = 0;
const SUBDIRECTORIES: usize = 1;
const NEXT_COOKIE: usize = 2;
/// Cookies of `.` and `..` come before those of names.
pub(crate) const FIRST_COOKIE: u64 = 3;
/// Cookies on media are below this: large enough for all names ever added, and positive in every `off_t`.
const END_OF_COOKIES: u64 = 1 << 62;

impl SessionInode {
    /// Subdirectories of a loaded directory.
    pub(crate) fn subdirectories(&self) -> u32 {
        self.inline_words[SUBDIRECTORIES].load(Ordering::Relaxed) as u32
    }

    /// Cookie for the next name of a loaded directory.
    pub(crate) fn next_cookie(&self) -> u64 {
        self.inline_words[NEXT_COOKIE]
            .load(Ordering::Relaxed)
            .max(FIRST_COOKIE)
    }
}

impl Locked<'_> {
    /// `EMLINK` when another subdirectory would exceed the limit.
    pub(crate) fn check_subdirectory_fits(&self) -> Outcome<()> {
        if self.inode.subdirectories() < MAX_LINKS - 2 {
            Ok(())
        } else {
            Err(Errno(libc::EMLINK))
        }
    }

    /// Names in a loaded directory.
    pub(crate) fn name_count(&self) -> u64 {
        self.inode.blocks.load(Ordering::Relaxed)
    }

    /// Cookie for the next name.
    pub(crate) fn next_cookie(&self) -> u64 {
        self.inode.next_cookie()
    }
}

impl Volume {
    fn hash(&self, name: &[u8]) -> u64 {
        hash_name(self.hash_seed, name)
    }

    fn table(&self, inode: &SessionInode) -> Option<&[AtomicU64]> {
        let root = inode.root.load(Ordering::Acquire);
        let page = (root & ((1 << CLASS_SHIFT) - 1)).checked_sub(1)?;
        self.session.arena().run(page, (root >> CLASS_SHIFT) as u32)
    }

    /// Give a directory's table back.
    pub(crate) fn drop_table(&self, inode: &SessionInode) {
        let root = inode.root.swap(0, Ordering::AcqRel);
        if let Some(page) = (root & ((1 << CLASS_SHIFT) - 1)).checked_sub(1) {
            self.session
                .arena()
                .free(page, (root >> CLASS_SHIFT) as u32);
        }
        for word in &inode.inline_words {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Reserve room for `more` names, so that applying them cannot fail.
    pub(crate) fn reserve_names(&self, locked: &Locked<'_>, more: u64) -> Outcome<()> {
        let inode = locked.inode;
        let used = inode.inline_words[USED].load(Ordering::Relaxed);
        let size = self.table(inode).map_or(0, |table| table.len() as u64);
        if (used + more) * 4 <= size * 3 {
            return Ok(());
        }
        self.grow_table(locked, more)
    }

    fn grow_table(&self, locked: &Locked<'_>, more: u64) -> Outcome<()> {
        let inode = locked.inode;
        let arena = self.session.arena();
        let words = ((locked.name_count() + more) * 2)
            .max(512)
            .next_power_of_two();
        let class = (words * 8 / BLOCK as u64).trailing_zeros();
        let page = arena.allocate(class)?;
        let new = arena.run(page, class).ok_or(Errno(libc::EIO))?;
        let mut used = 0;
        let mut bytes = [0u8; BLOCK];
        for word in self.table(inode).unwrap_or(&[]) {
            let word = word.load(Ordering::Relaxed);
            if word <= TOMBSTONE {
                continue;
            }
            let (_, entry, _) = self.read_entry(
                locked.log_place(),
                LogPosition(word & POSITION_MASK),
                &mut bytes,
            )?;
            if let Entry::NameAdd { name, .. } = entry {
                insert(new, self.hash(name), word & POSITION_MASK);
                used += 1;
            }
        }
        // Readers without the lock must not take the new content of the old table for names.
        let amid = inode.sequence.load(Ordering::Relaxed) & 1 == 1;
        let changing = (!amid).then(|| WriteSection::begin(inode));
        let old = inode.root.swap(
            (page + 1) | ((class as u64) << CLASS_SHIFT),
            Ordering::AcqRel,
        );
        inode.inline_words[USED].store(used, Ordering::Relaxed);
        if let Some(changing) = changing {
            changing.end();
        }
        if let Some(page) = (old & ((1 << CLASS_SHIFT) - 1)).checked_sub(1) {
            arena.free(page, (old >> CLASS_SHIFT) as u32);
        }
        Ok(())
    }

    /// Find a name in a locked directory.
    pub(crate) fn find_name(&self, locked: &Locked<'_>, name: &[u8]) -> Outcome<Option<FoundName>> {
        self.find_in_table(locked.inode, locked.log_place(), name)
    }

    /// Find a name in the table of a loaded directory. Without the lock, the result, also an error, is valid only if
    /// nothing changed during the call.
    pub(crate) fn find_in_table(
        &self,
        inode: &SessionInode,
        place: LogPlace,
        name: &[u8],
    ) -> Outcome<Option<FoundName>> {
        let Some(table) = self.table(inode) else {
            return Ok(None);
        };
        let hash = self.hash(name);
        // Large enough for any name: clearing a whole block would cost more than reading the entry.
        let mut bytes = [0u8; 8 * LINE];
        for word in probe(table, hash) {
            let word = word.load(Ordering::Acquire);
            if word == 0 {
                break;
            }
            if word == TOMBSTONE || word >> TAG_SHIFT != hash >> TAG_SHIFT {
                continue;
            }
            let position = LogPosition(word & POSITION_MASK);
            let (_, entry, _) = self.read_entry(place, position, &mut bytes)?;
            if let Entry::NameAdd {
                ino,
                kind,
                name: found,
                ..
            } = entry
                && found == name
            {
                let kind = kind_of(kind).ok_or_else(|| self.damaged_in(place, "kind of a name"))?;
                return Ok(Some(FoundName {
                    ino,
                    kind,
                    position,
                }));
            }
        }
        Ok(None)
    }

    /// Apply a `NameAdd` or `NameRemove` to the table. If two entries add one name, the later one counts.
    pub(crate) fn apply_name(
        &self,
        locked: &Locked<'_>,
        position: LogPosition,
        entry: &Entry<'_>,
        loading: bool,
    ) -> Outcome<()> {
        let inode = locked.inode;
        match *entry {
            Entry::NameAdd {
                kind, cookie, name, ..
            } => {
                let kind =
                    kind_of(kind).ok_or_else(|| self.damaged(locked.ino, "kind of a name"))?;
                if cookie >= END_OF_COOKIES || loading && cookie < locked.next_cookie() {
                    return Err(self.damaged(locked.ino, "place of a name"));
                }
                // An existing name is never added, but media may be forged.
                if loading && let Some(found) = self.find_name(locked, name)? {
                    self.damaged(locked.ino, "a name that is there twice");
                    self.remove_position(locked, found.position)?;
                }
                self.reserve_names(locked, 1)?;
                let table = self.table(inode).ok_or(Errno(libc::EIO))?;
                if insert(table, self.hash(name), position.0) {
                    add(&inode.inline_words[USED], 1);
                }
                add(&inode.blocks, 1);
                if kind == FileKind::Directory {
                    add(&inode.inline_words[SUBDIRECTORIES], 1);
                }
                let next = locked.next_cookie().max(cookie.saturating_add(1));
                inode.inline_words[NEXT_COOKIE].store(next, Ordering::Relaxed);
            }
            Entry::NameRemove { added } => self.remove_position(locked, added)?,
            _ => {}
        }
        Ok(())
    }

    fn remove_position(&self, locked: &Locked<'_>, added: LogPosition) -> Outcome<()> {
        let damaged = || self.damaged(locked.ino, "removal of a name");
        let geometry = self
            .geometry
            .get(added.pool().0 as usize)
            .ok_or_else(damaged)?;
        if !geometry.holds(added.block(), 1) || added.line() >= PAGE_LINES {
            return Err(damaged());
        }
        let mut bytes = [0u8; BLOCK];
        let (_, entry, _) = self.read_entry(locked.log_place(), added, &mut bytes)?;
        let Entry::NameAdd { kind, name, .. } = entry else {
            return Err(damaged());
        };
        let hash = self.hash(name);
        let table = self.table(locked.inode).ok_or_else(damaged)?;
        let word = probe(table, hash)
            .take_while(|word| word.load(Ordering::Relaxed) != 0)
            .find(|word| word.load(Ordering::Relaxed) & POSITION_MASK == added.0)
            .ok_or_else(damaged)?;
        word.store(TOMBSTONE, Ordering::Release);
        let inode = locked.inode;
        inode
            .blocks
            .store(locked.name_count().saturating_sub(1), Ordering::Relaxed);
        if kind_of(kind) == Some(FileKind::Directory) {
            let count = &inode.inline_words[SUBDIRECTORIES];
            count.store(
                count.load(Ordering::Relaxed).saturating_sub(1),
                Ordering::Relaxed,
            );
        }
        Ok(())
    }

    /// Whether the name added at this place is still there.
    pub(crate) fn is_live(&self, inode: &SessionInode, position: LogPosition, name: &[u8]) -> bool {
        let Some(table) = self.table(inode) else {
            return false;
        };
        probe(table, self.hash(name))
            .map(|word| word.load(Ordering::Acquire))
            .take_while(|word| *word != 0)
            .any(|word| word & POSITION_MASK == position.0)
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
            let names = self.names_of(ino.0, range)?;
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

    /// Names of a loaded directory read from the log, if they are still in the table.
    pub(crate) fn names_in_table(
        &self,
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
        let walked = self.walk_log(
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
                if !range.holds(cookie) || !self.is_live(inode, position, name) {
                    return Ok(());
                }
                if names.is_full() {
                    names.more = true;
                    return Err(full);
                }
                let kind = kind_of(kind).ok_or_else(|| self.damaged_in(place, "kind of a name"))?;
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
    fn is_table_shorter(&self, inode: &SessionInode, commit: CommitWord) -> bool {
        let names = inode.blocks.load(Ordering::Relaxed);
        if names > Names::MAX_BUT_DOTS {
            return false;
        }
        let words = self.table(inode).map_or(0, <[_]>::len) as u64;
        let full_pages = inode.log_pages.load(Ordering::Relaxed).saturating_sub(1);
        let lines = u64::from(full_pages) * u64::from(PAGE_LINES) + u64::from(commit.tail.line());
        names + words / WORDS_PER_ENTRY < lines
    }

    /// Append the names in the table of a loaded directory to those found already.
    fn names_of_table(
        &self,
        inode: &SessionInode,
        place: LogPlace,
        range: CookieRange,
        mut names: Names,
    ) -> Outcome<Names> {
        let dots = names.list.len();
        let mut bytes = [0u8; 8 * LINE];
        for word in self.table(inode).unwrap_or(&[]) {
            let word = word.load(Ordering::Acquire);
            if word <= TOMBSTONE {
                continue;
            }
            let position = LogPosition(word & POSITION_MASK);
            let (_, entry, _) = self.read_entry(place, position, &mut bytes)?;
            let Entry::NameAdd {
                ino,
                kind,
                cookie,
                name,
            } = entry
            else {
                return Err(self.damaged_in(place, "a name"));
            };
            // More than there were: another thread changes the directory, and a reader without the lock reads again.
            if range.holds(cookie) && !names.is_full() {
                let kind = kind_of(kind).ok_or_else(|| self.damaged_in(place, "kind of a name"))?;
                names.add(ino, kind, cookie, name);
            }
        }
        names.list[dots..].sort_unstable_by_key(|name| name.cookie);
        Ok(names)
    }

    /// Where to continue after `cookie`: where a walk of this process stopped, if the log is unchanged, else the head.
    fn resume_walk(&self, inode: &SessionInode, ino: u64, cookie: u64) -> Walk {
        let epoch = inode.epoch.load(Ordering::Relaxed);
        let generation = inode.generation.load(Ordering::Relaxed);
        match self.walks.at(ino, cookie) {
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

    pub(crate) fn remember_walk(&self, ino: u64, names: &Names) {
        if let Some(walk) = names.walk
            && !walk.position.is_none()
        {
            self.walks.keep(ino, walk);
        }
    }
}

fn add(word: &AtomicU64, by: u64) {
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

/// Words in the probe order of a hash, each once.
fn probe(table: &[AtomicU64], hash: u64) -> impl Iterator<Item = &AtomicU64> {
    let mask = table.len() - 1;
    (0..table.len()).map(move |step| &table[(hash as usize + step) & mask])
}

/// Insert; true when a never-used word was taken.
fn insert(table: &[AtomicU64], hash: u64, position: u64) -> bool {
    for word in probe(table, hash) {
        let old = word.load(Ordering::Relaxed);
        if old <= TOMBSTONE {
            word.store(
                (hash >> TAG_SHIFT << TAG_SHIFT) | position,
                Ordering::Release,
            );
            return old == 0;
        }
    }
    false
}
