//! Which process holds which inode open. Each process has its own table in the session. An inode's `open_hint` counts
//! opens and is never too low, so the common unlink reads no table.

use crate::format::BLOCK;
use crate::session::inode::Locked;
use crate::session::late::Late;
use crate::session::layout::{LOADED, ProcessSlot, SessionInode};
use crate::session::map::Session;
use crate::session::open_table::{
    FillLevels, GONE, PARTS, entries, find, insert, part_slots, remove,
};
use crate::session::volume::FileReference;
use crate::session::{LateWork, Uses, patience};
use crate::types::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Unit in an entry's count word, above the opens: handles through which this process (a mount) caches pages.
pub(in crate::session) const CACHED_UNIT: u64 = 1 << 32;
/// After the entries of a table: the word of the table it replaced, and a spare word.
const LINK_WORDS: usize = 2;
/// A process never has more tables: each is twice as large as the one before.
const MAX_TABLES: usize = 64;

fn decode_table(word: u64) -> Option<(u64, u32)> {
    (word != 0).then(|| ((word & ((1 << 56) - 1)) - 1, (word >> 56) as u32))
}

impl Session {
    /// The entries of a process.
    fn open_table(&self, process: usize) -> Option<&[AtomicU64]> {
        let word = self.open_table_word(process).load(Ordering::Acquire);
        self.open_run(word)
            .map(|run| &run[..run.len() - LINK_WORDS])
    }

    fn open_table_word(&self, process: usize) -> &AtomicU64 {
        &self.processes()[process].open_table
    }

    /// The entries, followed by the word of the previous table.
    fn open_run(&self, word: u64) -> Option<&[AtomicU64]> {
        let (page, class) = decode_table(word)?;
        self.arena().run(page, class)
    }

    /// The entry of an inode in a part of the table, created if missing; `None` when the part is nearly full.
    fn entry_for(
        &self,
        process: usize,
        part: usize,
        ino: u64,
        used: &AtomicU64,
    ) -> Option<&[AtomicU64]> {
        let table = self.open_table(process)?;
        if let Some(entry) = find(table, part, ino) {
            return Some(entry);
        }
        if (used.load(Ordering::Relaxed) + 1) * 4 > part_slots(table) as u64 * 3 {
            return None;
        }
        let (entry, filled) = insert(table, part, ino, 0)?;
        used.fetch_add(filled, Ordering::Relaxed);
        Some(entry)
    }

    /// Allocate a longer table. The old one stays until the process is reaped: others may be reading it.
    fn grow_opens(&self, process: usize, levels: &FillLevels<'_>) -> Outcome<()> {
        let old = self.open_table(process).unwrap_or(&[]);
        let living =
            entries(old).filter(|(_, entry)| !matches!(entry[0].load(Ordering::Relaxed), 0 | GONE));
        let count = living.clone().count();
        // At least twice the old one, so that old tables never take more than the present one.
        let bytes = ((count + 64) * 4 * 8).next_power_of_two();
        let bytes = bytes
            .max(BLOCK)
            .max((size_of_val(old) * 2).next_power_of_two());
        let class = (bytes / BLOCK).trailing_zeros();
        let page = self.arena().allocate(class)?;
        let word = (page + 1) | ((class as u64) << 56);
        let run = self.open_run(word).ok_or(Errno(libc::ENOMEM))?;
        let (new, link) = run.split_at(run.len() - LINK_WORDS);
        let before = self.open_table_word(process).load(Ordering::Relaxed);
        link[0].store(before, Ordering::Relaxed);
        levels.reset();
        // Each part doubles, so it has room for all its entries.
        for (part, entry) in living {
            let (ino, counts) = (
                entry[0].load(Ordering::Relaxed),
                entry[1].load(Ordering::Relaxed),
            );
            if insert(new, part, ino, counts).is_some() {
                levels.of(part).fetch_add(1, Ordering::Relaxed);
            }
        }
        self.open_table_word(process).store(word, Ordering::Release);
        Ok(())
    }

    /// Whether any live process holds open this inode, which has no name. Under the inode's lock.
    pub(crate) fn is_open_anywhere(&self, ino: u64, inode: &SessionInode) -> bool {
        self.is_open_by(ino, inode, |_| true)
    }

    pub(in crate::session) fn is_open_by(
        &self,
        ino: u64,
        inode: &SessionInode,
        counts: impl Fn(&ProcessSlot) -> bool,
    ) -> bool {
        // After the loss of the name; see `open`.
        fence(Ordering::SeqCst);
        if inode.open_hint.load(Ordering::Acquire) == 0 {
            return false;
        }
        let processes = self.used_processes();
        (0..processes.len())
            .filter(|process| processes[*process].pid.load(Ordering::Acquire) != 0)
            .filter(|process| counts(&processes[*process]))
            .any(|process| {
                // A use never moves to another part. A use that begins in a part already searched finds that the inode
                // has no name, and waits for its lock; see `open`.
                let table = self.open_table(process);
                table.is_some_and(|table| (0..PARTS).any(|part| find(table, part, ino).is_some()))
            })
    }
}

impl Uses<'_> {
    /// Note an open of this process.
    pub(crate) fn note_open(self, ino: u64) -> Outcome<()> {
        self.change_entry(ino, 1, true)
    }

    /// Take one open of this process back.
    pub(crate) fn note_close(self, ino: u64) {
        let _ = self.change_entry(ino, 1, false);
    }

    /// The parts of this process's table: first the calling thread's own.
    fn parts(self) -> impl Iterator<Item = usize> + use<> {
        let own = self.volume.known_me().map_or(0, |me| me.index);
        (0..PARTS).map(move |part| (own + part) % PARTS)
    }

    pub(in crate::session) fn change_entry(self, ino: u64, unit: u64, add: bool) -> Outcome<()> {
        let process = self.volume.process_slot()?;
        let inode = self.volume.inode(ino)?;
        if add {
            self.add_use(process, ino, inode, unit)
        } else {
            self.take_use(process, ino, inode, unit)
        }
    }

    fn add_use(self, process: usize, ino: u64, inode: &SessionInode, unit: u64) -> Outcome<()> {
        // This process alone changes the counts of its table, under the lock of the entry's part.
        let put_on = |entry: &[AtomicU64]| {
            // Hint first: a death in between leaves it too high, which only costs a search of the tables.
            inode.open_hint.fetch_add(1, Ordering::AcqRel);
            entry[1].store(entry[1].load(Ordering::Relaxed) + unit, Ordering::Release);
        };
        let put_in = |part| {
            self.volume.opens.locked(part, |used| {
                let entry = self.volume.session.entry_for(process, part, ino, used);
                entry.map(put_on).is_some()
            })
        };
        if self.parts().any(put_in) {
            return Ok(());
        }
        self.volume.opens.all_locked(|levels| {
            // Another thread may have made it longer.
            let there = |part| {
                Some((
                    part,
                    self.volume
                        .session
                        .entry_for(process, part, ino, levels.of(part))?,
                ))
            };
            if let Some((_, entry)) = self.parts().find_map(there) {
                put_on(entry);
                return Ok(());
            }
            let grown = self.volume.session.grow_opens(process, levels);
            // Without memory the old table is used as long as it has room.
            let table = self.volume.session.open_table(process);
            let inserted = table.and_then(|table| {
                let made = |part| Some((part, insert(table, part, ino, 0)?));
                self.parts().find_map(made)
            });
            let (part, (entry, filled)) =
                inserted.ok_or(grown.err().unwrap_or(Errno(libc::ENOMEM)))?;
            levels.of(part).fetch_add(filled, Ordering::Relaxed);
            put_on(entry);
            Ok(())
        })
    }

    fn take_use(self, process: usize, ino: u64, inode: &SessionInode, unit: u64) -> Outcome<()> {
        let take_from = |part| {
            self.volume.opens.locked(part, |used| {
                let table = self.volume.session.open_table(process)?;
                let entry = find(table, part, ino)?;
                let counts = entry[1].load(Ordering::Relaxed);
                let has_one = match unit {
                    CACHED_UNIT => counts >= CACHED_UNIT,
                    _ => !counts.is_multiple_of(CACHED_UNIT),
                };
                if !has_one {
                    return None;
                }
                entry[1].store(counts - unit, Ordering::Release);
                if counts == unit {
                    let emptied = remove(table, part, entry);
                    used.fetch_sub(emptied, Ordering::Relaxed);
                }
                inode.open_hint.fetch_sub(1, Ordering::AcqRel);
                Some(())
            })
        };
        // Any thread may have opened it: uses are counted, and it does not matter which of them ends.
        let taken = self.parts().find_map(take_from);
        taken.ok_or(Errno(libc::EBADF))
    }

    /// Check a noted open under the inode's lock.
    pub(in crate::session) fn open_noted(
        self,
        ino: InodeNumber,
        same: impl Fn(u32) -> bool,
    ) -> Outcome<FileReference> {
        let locked = self.volume.lock_beside_leases(ino.0).inspect_err(|errno| {
            if patience::is_expiry(*errno) {
                // The thread that took the last use may have left the deletion to us.
                LateWork::of(self.volume).later(Late::Close(ino))
            } else {
                self.note_close(ino.0)
            }
        })?;
        if !same(locked.inode.generation.load(Ordering::Relaxed)) {
            self.losing_use(&locked, || self.note_close(ino.0));
            return Err(Errno(libc::ESTALE));
        }
        Ok(FileReference::new(ino, locked.inode))
    }

    pub(in crate::session) fn close_nameless(self, ino: InodeNumber) {
        match self.volume.lock_beside_leases(ino.0) {
            Ok(locked) => self.losing_use(&locked, || self.note_close(ino.0)),
            Err(errno) if patience::is_expiry(errno) => {
                LateWork::of(self.volume).later(Late::Close(ino))
            }
            Err(_) => self.note_close(ino.0),
        }
    }

    fn delete_nameless(self, ino: InodeNumber) {
        match self.volume.lock_beside_leases(ino.0) {
            Ok(locked) => drop(self.volume.delete_if_unused(&locked)),
            // Held open until then: should this process die first, the process that reaps its opens deletes the inode.
            Err(errno) if patience::is_expiry(errno) && self.note_open(ino.0).is_ok() => {
                LateWork::of(self.volume).later(Late::Close(ino));
            }
            Err(_) => {}
        }
    }

    /// Remove a use of an inode that has a name, without its lock. `false`: it has no name, or is not loaded.
    pub(in crate::session) fn lose_named_use(self, ino: InodeNumber, take: impl FnOnce()) -> bool {
        let (Ok(inode), Ok(me)) = (self.volume.inode(ino.0), self.volume.me()) else {
            return false;
        };
        let named = || {
            inode.state.load(Ordering::Acquire) == LOADED && inode.nlink.load(Ordering::Acquire) > 0
        };
        if !named() {
            return false;
        }
        me.inode_losing(ino.0);
        take();
        // As in `open`: either we see that the last name is gone, or the thread that removed it saw the use gone.
        fence(Ordering::SeqCst);
        if !named() {
            self.delete_nameless(ino);
        }
        me.inode_settled();
        true
    }

    /// Remove a use of a locked inode; deletes the inode if it was the last use.
    pub(in crate::session) fn losing_use(self, locked: &Locked<'_>, take: impl FnOnce()) {
        let nameless = locked.inode.nlink.load(Ordering::Relaxed) == 0;
        if nameless {
            locked.me.inode_losing(locked.ino);
        }
        take();
        if nameless {
            let _ = self.volume.delete_if_unused(locked);
            locked.me.inode_settled();
        }
    }

    /// Remove a process's opens and marks (of a dead process under `reaper`); delete inodes that only it kept alive.
    /// Inodes that cannot be locked in time are skipped: `EAGAIN`. The next call continues with them.
    pub(crate) fn reap_opens(self, process: usize) -> Outcome<()> {
        let mut outcome = Ok(());
        for (_, entry) in entries(self.volume.session.open_table(process).unwrap_or(&[])) {
            let ino = entry[0].load(Ordering::Acquire);
            if matches!(ino, 0 | GONE) {
                continue;
            }
            let counts = entry[1].load(Ordering::Acquire);
            let (Ok(inode), Ok(me)) = (self.volume.inode(ino), self.volume.me()) else {
                entry[0].store(GONE, Ordering::Release);
                continue;
            };
            let locked = self.volume.lock_beside_leases(ino);
            if let Err(errno) = &locked
                && patience::is_expiry(*errno)
            {
                outcome = Err(*errno);
                continue;
            }
            me.inode_losing(ino);
            // Removed from the table first: a death in between leaves the hint too high, never too low.
            entry[0].store(GONE, Ordering::Release);
            let (opens, marks) = (counts % CACHED_UNIT, counts / CACHED_UNIT);
            saturating_sub(&inode.open_hint, (opens + marks) as u32);
            saturating_sub(&inode.kernel_cached, marks as u32);
            if let Ok(locked) = locked
                && locked.inode.state.load(Ordering::Relaxed) == LOADED
            {
                let _ = self.volume.delete_if_unused(&locked);
            }
            me.inode_settled();
        }
        outcome?;
        let mut word = self
            .volume
            .session
            .open_table_word(process)
            .swap(0, Ordering::AcqRel);
        for _ in 0..MAX_TABLES {
            let (Some(run), Some((page, class))) =
                (self.volume.session.open_run(word), decode_table(word))
            else {
                break;
            };
            word = run[run.len() - LINK_WORDS].load(Ordering::Relaxed);
            self.volume.session.arena().free(page, class);
        }
        Ok(())
    }
}

fn saturating_sub(word: &AtomicU32, by: u32) {
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |value| {
        Some(value.saturating_sub(by))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Uses;
    use crate::session::volume::Volume;
    use crate::test_volume::{FILE, Stopped, new_volume};
    use std::time::Duration;

    /// A new volume with this many files, its directory, and the files' numbers.
    fn with_files(count: usize) -> (std::sync::Arc<Volume>, tempfile::TempDir, Vec<InodeNumber>) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        let file = |number| {
            let name = format!("file{number}");
            let made = volume.create(InodeNumber::ROOT, name.as_bytes(), &FILE);
            made.expect("create").ino
        };
        let files = (0..count).map(file).collect();
        (volume, directory, files)
    }

    #[test]
    fn opening_again_and_again_takes_no_memory() {
        let (volume, _directory, files) = with_files(20);
        let process = volume.process_slot().expect("a process");
        let table = || {
            volume
                .session
                .open_table_word(process)
                .load(Ordering::Relaxed)
        };
        volume.open(files[0], None).expect("open");
        let before = table();
        for _ in 0..200 {
            for ino in &files[1..] {
                volume.open(*ino, None).expect("open");
                volume.close(*ino);
            }
        }
        assert_eq!(table(), before, "the table was replaced");
    }

    #[test]
    fn threads_keep_their_opens_while_the_table_grows() {
        let (volume, _directory, files) = with_files(400);
        let work = |own: &[InodeNumber]| {
            for ino in own.iter().chain(own) {
                volume.open(*ino, None).expect("open");
            }
            own.iter().for_each(|ino| volume.close(*ino));
            assert!(own.iter().all(|ino| volume.is_open(*ino)));
            own.iter().for_each(|ino| volume.close(*ino));
            assert!(!own.iter().any(|ino| volume.is_open(*ino)));
        };
        let (one, other) = files.split_at(200);
        std::thread::scope(|scope| {
            scope.spawn(|| work(one));
            scope.spawn(|| work(other));
        });
    }

    #[test]
    fn replaced_tables_are_freed_with_their_process() {
        let (volume, _directory, files) = with_files(300);
        let own = volume.process_slot().expect("a process");
        let opener = Stopped::in_child(&volume, |volume| {
            files
                .iter()
                .try_for_each(|ino| volume.open(*ino, None).map(drop))
        });
        let other = (0..volume.session.processes().len()).filter(|process| *process != own);
        let mut tables = other.map(|process| {
            volume
                .session
                .open_table_word(process)
                .load(Ordering::Relaxed)
        });
        let word = tables.find(|word| *word != 0).expect("a table");
        let run = volume.session.open_run(word).expect("a run");
        let before = decode_table(run[run.len() - LINK_WORDS].load(Ordering::Relaxed));
        let (page, class) = before.expect("a table before it");
        opener.kill();
        for _ in 0..3 {
            volume.reap();
        }
        let arena = volume.session.arena();
        let found = (0..64).any(|_| arena.allocate(class) == Ok(page));
        assert!(found, "page {page} is not given out again");
    }

    /// SIGSTOP to the calling process.
    fn stop() {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
    }

    /// A process uses an inode and stops. After the use it finds that it was the last one, and that a stopped thread
    /// holds the lock. Then it is killed.
    fn nothing_is_left_of(uses: impl Fn(&Volume, InodeNumber)) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        let root = InodeNumber::ROOT;
        // Blocks allocated for the first file stay in use.
        volume.create(root, b"first", &FILE).expect("create");
        let before = volume.space(None);
        let ino = volume.create(root, b"file", &FILE).expect("create").ino;
        let user = Stopped::in_child(&volume, |volume| {
            crate::within_patience(Duration::from_millis(1), || {
                uses(volume, ino);
                Ok(())
            });
            Ok(())
        });
        volume.unlink(root, b"file").expect("unlink");
        assert!(volume.is_open(ino));
        let holder = Stopped::in_child(&volume, |volume| volume.lock(ino.0));
        user.go_on();
        user.kill();
        holder.kill();
        for _ in 0..3 {
            volume.reap();
        }
        assert!(!volume.is_open(ino));
        assert_eq!(volume.space(None).free_inodes, before.free_inodes);
    }

    #[test]
    fn the_last_use_of_a_process_that_is_killed_meanwhile_ends() {
        nothing_is_left_of(|volume, ino| {
            Uses::of(volume).note_open(ino.0).expect("a note");
            drop(volume.lock(ino.0).expect("the lock"));
            let named = Uses::of(volume).lose_named_use(ino, || {
                stop();
                Uses::of(volume).note_close(ino.0);
            });
            assert!(named);
        });
    }

    #[test]
    fn an_open_that_was_too_late_ends_with_its_process() {
        nothing_is_left_of(|volume, ino| {
            Uses::of(volume).note_open(ino.0).expect("a note");
            stop();
            let opened = Uses::of(volume).open_noted(ino, |_| true);
            assert!(opened.is_err());
        });
    }
}
