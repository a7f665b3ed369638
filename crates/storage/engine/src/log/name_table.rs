//! The session's table of a directory: maps hashes of names to the places of their log entries, one word each. The
//! names themselves stay on media; reads from there are checked.

use crate::format::place::LogPlace;
use crate::format::*;
use crate::log::found_names::{FoundName, kind_of};
use crate::log::name_hash::hash_name;
use crate::log::{Log, NameTable};
use crate::session::inode::Locked;
use crate::session::layout::SessionInode;
use crate::session::name_table::{LIVING_LINES, NEXT_COOKIE, SUBDIRECTORIES, USED};
use crate::session::name_words::{NameWords, TOMBSTONE};
use crate::session::seqlock::WriteSection;
use crate::types::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cookies on media are below this: large enough for all names ever added, and positive in every `off_t`.
const END_OF_COOKIES: u64 = 1 << 62;

impl NameTable<'_> {
    fn words(self) -> NameWords {
        self.volume.name_words
    }

    fn hash(self, name: &[u8]) -> u64 {
        hash_name(self.volume.hash_seed, name)
    }

    /// Reserve room for `more` names, so that applying them cannot fail.
    pub(crate) fn reserve_names(self, locked: &Locked<'_>, more: u64) -> Outcome<()> {
        let inode = locked.inode;
        let used = inode.inline_words[USED].load(Ordering::Relaxed);
        let size = self
            .volume
            .session
            .name_table(inode)
            .map_or(0, |table| table.len() as u64);
        if (used + more) * 4 <= size * 3 {
            return Ok(());
        }
        self.grow_table(locked, more)
    }

    fn grow_table(self, locked: &Locked<'_>, more: u64) -> Outcome<()> {
        let inode = locked.inode;
        let arena = self.volume.session.arena();
        let words = ((locked.name_count() + more) * 2)
            .max(512)
            .next_power_of_two();
        let class = (words * 8 / BLOCK as u64).trailing_zeros();
        let page = arena.allocate(class)?;
        let new = arena.run(page, class).ok_or(Errno(libc::EIO))?;
        let used = match self.fill_table(locked, new) {
            Ok(used) => used,
            Err(errno) => {
                arena.free(page, class);
                return Err(errno);
            }
        };
        // Readers without the lock must not take the new content of the old table for names.
        let amid = inode.sequence.load(Ordering::Relaxed) & 1 == 1;
        let changing = (!amid).then(|| WriteSection::begin(inode));
        let old = inode.replace_name_table(page, class);
        inode.inline_words[USED].store(used, Ordering::Relaxed);
        if let Some(changing) = changing {
            changing.end();
        }
        self.volume.session.free_name_table(old);
        Ok(())
    }

    /// Copy the living words to a longer, empty table; returns their number.
    fn fill_table(self, locked: &Locked<'_>, new: &[AtomicU64]) -> Outcome<u64> {
        let words = self.words();
        let mut used = 0;
        for word in self.volume.session.name_table(locked.inode).unwrap_or(&[]) {
            let word = word.load(Ordering::Relaxed);
            if word <= TOMBSTONE {
                continue;
            }
            let start = match words.start_of(word, new.len()) {
                Some(start) => start,
                None => words.start(self.hash_in_log(locked, words.position(word))?),
            };
            insert(new, start, word);
            used += 1;
        }
        Ok(used)
    }

    fn hash_in_log(self, locked: &Locked<'_>, position: LogPosition) -> Outcome<u64> {
        let mut bytes = [0u8; BLOCK];
        let (_, entry, _) =
            Log::of(self.volume).read_entry(locked.log_place(), position, &mut bytes)?;
        match entry {
            Entry::NameAdd { name, .. } => Ok(self.hash(name)),
            _ => Err(self.volume.damaged(locked.ino, "a name")),
        }
    }

    /// Find a name in a locked directory.
    pub(crate) fn find_name(self, locked: &Locked<'_>, name: &[u8]) -> Outcome<Option<FoundName>> {
        self.find_in_table(locked.inode, locked.log_place(), name)
    }

    /// Find a name in the table of a loaded directory. Without the lock, the result, also an error, is valid only if
    /// nothing changed during the call.
    pub(crate) fn find_in_table(
        self,
        inode: &SessionInode,
        place: LogPlace,
        name: &[u8],
    ) -> Outcome<Option<FoundName>> {
        let Some(table) = self.volume.session.name_table(inode) else {
            return Ok(None);
        };
        let (hash, words) = (self.hash(name), self.words());
        // Large enough for any name: clearing a whole block would cost more than reading the entry.
        let mut bytes = [0u8; 8 * LINE];
        for slot in probe(table, words.start(hash)) {
            let word = table[slot].load(Ordering::Acquire);
            if word == 0 {
                break;
            }
            if word == TOMBSTONE || !words.may_be(word, hash) {
                continue;
            }
            let position = words.position(word);
            let (_, entry, _) = Log::of(self.volume).read_entry(place, position, &mut bytes)?;
            if let Entry::NameAdd {
                ino,
                kind,
                name: found,
                ..
            } = entry
                && found == name
            {
                let kind =
                    kind_of(kind).ok_or_else(|| self.volume.damaged_in(place, "kind of a name"))?;
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
        self,
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
                let kind = kind_of(kind)
                    .ok_or_else(|| self.volume.damaged(locked.ino, "kind of a name"))?;
                if cookie >= END_OF_COOKIES || loading && cookie < locked.next_cookie() {
                    return Err(self.volume.damaged(locked.ino, "place of a name"));
                }
                // An existing name is never added, but media may be forged.
                if loading && let Some(found) = self.find_name(locked, name)? {
                    self.volume
                        .damaged(locked.ino, "a name that is there twice");
                    self.remove_position(locked, found.position)?;
                }
                self.reserve_names(locked, 1)?;
                let table = self
                    .volume
                    .session
                    .name_table(inode)
                    .ok_or(Errno(libc::EIO))?;
                let hash = self.hash(name);
                let word = self.words().word(hash, position);
                if insert(table, self.words().start(hash), word) {
                    add(&inode.inline_words[USED], 1);
                }
                add(&inode.blocks, 1);
                add(&inode.inline_words[LIVING_LINES], entry.lines().into());
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

    fn remove_position(self, locked: &Locked<'_>, added: LogPosition) -> Outcome<()> {
        let damaged = || self.volume.damaged(locked.ino, "removal of a name");
        let geometry = self.volume.geometry_of(added.pool()).ok_or_else(damaged)?;
        if !geometry.holds(added.block(), 1) || added.line() >= PAGE_LINES {
            return Err(damaged());
        }
        let mut bytes = [0u8; BLOCK];
        let (_, entry, _) =
            Log::of(self.volume).read_entry(locked.log_place(), added, &mut bytes)?;
        let Entry::NameAdd { kind, name, .. } = entry else {
            return Err(damaged());
        };
        let inode = locked.inode;
        let slot = self.slot_of(inode, added, name).ok_or_else(damaged)?;
        let table = self.volume.session.name_table(inode).ok_or_else(damaged)?;
        table[slot].store(TOMBSTONE, Ordering::Release);
        let lines = &inode.inline_words[LIVING_LINES];
        let left = locked.living_lines().saturating_sub(entry.lines().into());
        lines.store(left, Ordering::Relaxed);
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
    pub(crate) fn is_live(self, inode: &SessionInode, position: LogPosition, name: &[u8]) -> bool {
        self.slot_of(inode, position, name).is_some()
    }

    /// Where in the table the name added at this place is.
    pub(crate) fn slot_of(
        self,
        inode: &SessionInode,
        position: LogPosition,
        name: &[u8],
    ) -> Option<usize> {
        let table = self.volume.session.name_table(inode)?;
        let hash = self.hash(name);
        let wanted = self.words().word(hash, position);
        let slots = probe(table, self.words().start(hash));
        let mut seen = slots.map(|slot| (slot, table[slot].load(Ordering::Acquire)));
        let found = seen.find(|(_, word)| *word == 0 || *word == wanted);
        found.filter(|(_, word)| *word != 0).map(|(slot, _)| slot)
    }

    /// The log of a locked directory was rewritten: let words name the new places. Readers without the lock must notice
    /// the change.
    pub(crate) fn follow_compaction(self, locked: &Locked<'_>, moved: &[(usize, LogPosition)]) {
        let words = self.words();
        let table = self.volume.session.name_table(locked.inode).unwrap_or(&[]);
        for (slot, position) in moved {
            if let Some(slot) = table.get(*slot) {
                let old = slot.load(Ordering::Relaxed);
                slot.store(words.word(old, *position), Ordering::Release);
            }
        }
    }
}

fn add(word: &AtomicU64, by: u64) {
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

/// Slots in the order of a search, each once.
fn probe(table: &[AtomicU64], start: usize) -> impl Iterator<Item = usize> {
    let mask = table.len() - 1;
    (0..table.len()).map(move |step| start.wrapping_add(step) & mask)
}

/// Insert a word; true when a never-used slot was taken.
fn insert(table: &[AtomicU64], start: usize, word: u64) -> bool {
    for slot in probe(table, start) {
        let old = table[slot].load(Ordering::Relaxed);
        if old <= TOMBSTONE {
            table[slot].store(word, Ordering::Release);
            return old == 0;
        }
    }
    false
}
