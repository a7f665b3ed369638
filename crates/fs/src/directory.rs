//! The session's table of a directory: names hashed to the places of their log entries, one word each.
//! The names themselves stay on media and are read, checked, from there.

use crate::format::*;
use crate::inode::Locked;
use crate::log::LogPlace;
use crate::session::layout::SessionInode;
use crate::types::*;
use crate::volume::Volume;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

const TOMBSTONE: u64 = 1;
const TAG_SHIFT: u32 = 51;
const POSITION_MASK: u64 = (1 << TAG_SHIFT) - 1;
const CLASS_SHIFT: u32 = 56;
// Words of `SessionInode::inline_words` that a directory uses.
const USED: usize = 0;
const SUBDIRECTORIES: usize = 1;
const NEXT_COOKIE: usize = 2;
/// Cookies of `.` and `..` come before those of names.
pub(crate) const FIRST_COOKIE: u64 = 3;
/// Cookies on media are below this: room for all that will ever be added, and positive in every `off_t`.
const END_OF_COOKIES: u64 = 1 << 62;

/// A name found in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundName {
    pub(crate) ino: u64,
    pub(crate) kind: FileKind,
    pub(crate) position: LogPosition,
}

/// Where a walk over a directory stopped; a hint, kept per process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    cookie: u64,
    position: LogPosition,
    pages_before: u32,
    epoch: u64,
    generation: u32,
}

/// Walks remembered at once.
const MAX_WALKS: usize = 4096;

fn hash_name(seed: u64, name: &[u8]) -> u64 {
    let mut hash = seed ^ (name.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for chunk in name.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        hash ^= hash >> 32;
    }
    hash = hash.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ (hash >> 29)
}

impl Locked<'_> {
    /// Subdirectories of a loaded directory.
    pub(crate) fn subdirectories(&self) -> u32 {
        self.inode.inline_words[SUBDIRECTORIES].load(Ordering::Relaxed) as u32
    }

    /// `EMLINK` when one more subdirectory would be too many.
    pub(crate) fn check_subdirectory_fits(&self) -> Outcome<()> {
        match self.subdirectories() < MAX_LINKS - 2 {
            true => Ok(()),
            false => Err(Errno(libc::EMLINK)),
        }
    }

    /// Names in a loaded directory.
    pub(crate) fn name_count(&self) -> u64 {
        self.inode.blocks.load(Ordering::Relaxed)
    }

    /// Cookie for the next name.
    pub(crate) fn next_cookie(&self) -> u64 {
        self.inode.inline_words[NEXT_COOKIE]
            .load(Ordering::Relaxed)
            .max(FIRST_COOKIE)
    }
}

impl Volume {
    fn hash(&self, name: &[u8]) -> u64 {
        hash_name(self.hash_seed, name)
    }

    fn table(&self, inode: &SessionInode) -> Option<&[AtomicU64]> {
        let root = inode.root.load(Ordering::Relaxed);
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

    /// Make room for `more` names, so that applying them cannot fail.
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
        let old = inode.root.swap(
            (page + 1) | ((class as u64) << CLASS_SHIFT),
            Ordering::AcqRel,
        );
        inode.inline_words[USED].store(used, Ordering::Relaxed);
        if let Some(page) = (old & ((1 << CLASS_SHIFT) - 1)).checked_sub(1) {
            arena.free(page, (old >> CLASS_SHIFT) as u32);
        }
        Ok(())
    }

    /// Find a name in a locked directory.
    pub(crate) fn find_name(&self, locked: &Locked<'_>, name: &[u8]) -> Outcome<Option<FoundName>> {
        let Some(table) = self.table(locked.inode) else {
            return Ok(None);
        };
        let hash = self.hash(name);
        let mut bytes = [0u8; BLOCK];
        for word in probe(table, hash) {
            let word = word.load(Ordering::Relaxed);
            if word == 0 {
                break;
            }
            if word == TOMBSTONE || word >> TAG_SHIFT != hash >> TAG_SHIFT {
                continue;
            }
            let position = LogPosition(word & POSITION_MASK);
            let (_, entry, _) = self.read_entry(locked.log_place(), position, &mut bytes)?;
            if let Entry::NameAdd {
                ino,
                kind,
                name: found,
                ..
            } = entry
                && found == name
            {
                let kind =
                    kind_of(kind).ok_or_else(|| self.damaged(locked.ino, "kind of a name"))?;
                return Ok(Some(FoundName {
                    ino,
                    kind,
                    position,
                }));
            }
        }
        Ok(None)
    }

    /// Apply a `NameAdd` or `NameRemove` to the table. Of two that add the same name the later counts.
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
                // Nobody makes a name that is there; but media may be forged.
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
        word.store(TOMBSTONE, Ordering::Relaxed);
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
    pub(crate) fn is_live(&self, locked: &Locked<'_>, position: LogPosition, name: &[u8]) -> bool {
        let Some(table) = self.table(locked.inode) else {
            return false;
        };
        probe(table, self.hash(name))
            .map(|word| word.load(Ordering::Relaxed))
            .take_while(|word| *word != 0)
            .any(|word| word & POSITION_MASK == position.0)
    }

    /// Entries after `cookie` (0: from the start; `.` and `..` first), until `emit` returns false (that
    /// entry is then not consumed).
    pub fn read_directory(
        &self,
        ino: InodeNumber,
        cookie: u64,
        emit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Outcome<()> {
        let locked = self.lock(ino.0)?.directory()?;
        if locked.inode.nlink.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let parent = InodeNumber(locked.inode.parent.load(Ordering::Relaxed));
        for (at, ino, name) in [(1, ino, b".".as_slice()), (2, parent, b"..")] {
            if cookie < at
                && !emit(&DirectoryEntry {
                    ino,
                    kind: FileKind::Directory,
                    cookie: at,
                    name,
                })
            {
                return Ok(());
            }
        }
        let start = self.resume_walk(&locked, cookie);
        let last = Cell::new(Walk { cookie, ..start });
        let pages = Cell::new(start.pages_before);
        let stop = Errno(libc::ECANCELED);
        let place = LogPlace {
            pages_before: start.pages_before,
            ..locked.log_place()
        };
        let walked = self.walk_log(
            place,
            locked.commit()?,
            start.position,
            &mut |_| {
                pages.set(pages.get() + 1);
                Ok(())
            },
            &mut |position, entry, _| {
                let Entry::NameAdd {
                    ino,
                    kind,
                    cookie: at,
                    name,
                } = *entry
                else {
                    return Ok(());
                };
                if at <= cookie || !self.is_live(&locked, position, name) {
                    return Ok(());
                }
                let kind =
                    kind_of(kind).ok_or_else(|| self.damaged(locked.ino, "kind of a name"))?;
                if !emit(&DirectoryEntry {
                    ino: InodeNumber(ino),
                    kind,
                    cookie: at,
                    name,
                }) {
                    return Err(stop);
                }
                last.set(Walk {
                    cookie: at,
                    position,
                    pages_before: pages.get(),
                    ..start
                });
                Ok(())
            },
        );
        self.remember_walk(locked.ino, last.get());
        if walked == Err(stop) { Ok(()) } else { walked }
    }

    /// Where to go on after `cookie`: where a walk of this process stopped there, when the log is still
    /// the same, else the head.
    fn resume_walk(&self, locked: &Locked<'_>, cookie: u64) -> Walk {
        let epoch = locked.inode.epoch.load(Ordering::Relaxed);
        let generation = locked.inode.generation.load(Ordering::Relaxed);
        let known = self
            .walks
            .lock()
            .ok()
            .and_then(|walks| walks.get(&(locked.ino, cookie)).copied());
        match known {
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

    fn remember_walk(&self, ino: u64, walk: Walk) {
        if let Ok(mut walks) = self.walks.lock()
            && !walk.position.is_none()
        {
            if walks.len() >= MAX_WALKS {
                walks.clear();
            }
            walks.insert((ino, walk.cookie), walk);
        }
    }
}

fn add(word: &AtomicU64, by: u64) {
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

pub(crate) fn kind_of(kind: u8) -> Option<FileKind> {
    use FileKind::*;
    [
        Regular,
        Directory,
        Symlink,
        Fifo,
        Socket,
        CharacterDevice,
        BlockDevice,
    ]
    .into_iter()
    .find(|known| *known as u8 == kind)
}

/// Words in the order a hash probes them, each once.
fn probe(table: &[AtomicU64], hash: u64) -> impl Iterator<Item = &AtomicU64> {
    let mask = table.len() - 1;
    (0..table.len()).map(move |step| &table[(hash as usize + step) & mask])
}

/// Insert; true when a word never used was taken.
fn insert(table: &[AtomicU64], hash: u64, position: u64) -> bool {
    for word in probe(table, hash) {
        let old = word.load(Ordering::Relaxed);
        if old <= TOMBSTONE {
            word.store(
                (hash >> TAG_SHIFT << TAG_SHIFT) | position,
                Ordering::Relaxed,
            );
            return old == 0;
        }
    }
    false
}
