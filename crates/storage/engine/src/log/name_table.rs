//! The session's table of a directory: maps hashes of names to the places of their log entries, one word each. The
//! names themselves stay on media; reads from there are checked.

use crate::format::place::LogPlace;
use crate::format::*;
use crate::log::found_names::{FoundName, kind_of};
use crate::log::name_hash::hash_name;
use crate::log::{Log, NameTable};
use crate::session::inode::Locked;
use crate::session::layout::SessionInode;
use crate::session::name_table::{NEXT_COOKIE, SUBDIRECTORIES, USED};
use crate::session::seqlock::WriteSection;
use crate::types::*;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const TOMBSTONE: u64 = 1;
const TAG_SHIFT: u32 = 51;
pub(crate) const POSITION_MASK: u64 = (1 << TAG_SHIFT) - 1;
/// Cookies on media are below this: large enough for all names ever added, and positive in every `off_t`.
const END_OF_COOKIES: u64 = 1 << 62;

impl NameTable<'_> {
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
        let mut used = 0;
        let mut bytes = [0u8; BLOCK];
        for word in self.volume.session.name_table(inode).unwrap_or(&[]) {
            let word = word.load(Ordering::Relaxed);
            if word <= TOMBSTONE {
                continue;
            }
            let (_, entry, _) = Log::of(self.volume).read_entry(
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
        let old = inode.replace_name_table(page, class);
        inode.inline_words[USED].store(used, Ordering::Relaxed);
        if let Some(changing) = changing {
            changing.end();
        }
        self.volume.session.free_name_table(old);
        Ok(())
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

    fn remove_position(self, locked: &Locked<'_>, added: LogPosition) -> Outcome<()> {
        let damaged = || self.volume.damaged(locked.ino, "removal of a name");
        let geometry = self
            .volume
            .geometry
            .get(added.pool().0 as usize)
            .ok_or_else(damaged)?;
        if !geometry.holds(added.block(), 1) || added.line() >= PAGE_LINES {
            return Err(damaged());
        }
        let mut bytes = [0u8; BLOCK];
        let (_, entry, _) =
            Log::of(self.volume).read_entry(locked.log_place(), added, &mut bytes)?;
        let Entry::NameAdd { kind, name, .. } = entry else {
            return Err(damaged());
        };
        let hash = self.hash(name);
        let table = self
            .volume
            .session
            .name_table(locked.inode)
            .ok_or_else(damaged)?;
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
    pub(crate) fn is_live(self, inode: &SessionInode, position: LogPosition, name: &[u8]) -> bool {
        let Some(table) = self.volume.session.name_table(inode) else {
            return false;
        };
        probe(table, self.hash(name))
            .map(|word| word.load(Ordering::Acquire))
            .take_while(|word| *word != 0)
            .any(|word| word & POSITION_MASK == position.0)
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
