//! Compaction: when a log has tripled in length since the last compaction, its live entries are written to new pages
//! behind the other head. One 8-byte store of the commit word switches to them.

use crate::format::*;
use crate::log::apply::COMPACT_MIN_PAGES;
use crate::log::staging::Staged;
use crate::log::xattrs::inborn_xattrs;
use crate::log::{Log, NameTable};
use crate::session::Snapshots;
use crate::session::index::MAX_FILE_BLOCKS;
use crate::session::inode::Locked;
use crate::session::layout::PENDING_LOG;
use crate::session::seqlock::WriteSection;
use crate::space::free_space::Need;
use crate::space::operation::{Operation, note_pages};
use crate::space::striping;
use crate::types::{Errno, FileKind, Outcome};
use std::sync::atomic::Ordering;

/// A log is compacted when it is this many times as long as what is alive in it.
const LOG_PER_LIVING: u64 = 3;

/// A live entry that is not of a name.
enum Living {
    Run {
        entry: Entry<'static>,
        sums: Vec<u8>,
    },
    Xattr {
        name: Vec<u8>,
        value: Vec<u8>,
    },
    /// An attribute set at creation that was removed later.
    NoXattr {
        name: Vec<u8>,
    },
    Attributes(AttributeState),
}

impl Living {
    fn entry(&self) -> Entry<'_> {
        match self {
            Living::Run { entry, sums } => entry.with_sums(sums),
            Living::Xattr { name, value } => Entry::XattrSet { name, value },
            Living::NoXattr { name } => Entry::XattrRemove { name },
            Living::Attributes(state) => Entry::Attributes(*state),
        }
    }
}

/// A log that is being written behind the other head.
struct Rewriting<'o, 'a> {
    operation: &'o mut Operation<'a>,
    ino: u64,
    staged: Staged,
    /// Pages that are still to come.
    pages_left: u64,
    run: Extent,
    /// Slots of the names written so far, and their new places.
    moved: Vec<(usize, LogPosition)>,
}

impl<'o, 'a> Rewriting<'o, 'a> {
    fn begin(
        locked: &Locked<'_>,
        operation: &'o mut Operation<'a>,
        lines: u64,
    ) -> Outcome<Rewriting<'o, 'a>> {
        let old = locked.commit()?;
        let generation = locked.inode.generation.load(Ordering::Relaxed);
        let commit = CommitWord {
            tail: LogPosition::NONE,
            head_index: 1 - old.head_index,
            orphan: old.orphan,
        };
        let mut staged = Staged::fresh(operation.volume, locked.ino, generation, commit)?;
        staged.snapshot = Snapshots::of(locked.volume).seen();
        Ok(Rewriting {
            staged,
            ino: locked.ino,
            operation,
            pages_left: lines.div_ceil(u64::from(PAGE_LINES) - 8),
            run: Extent::default(),
            moved: Vec::new(),
        })
    }

    /// Write one entry; returns its place.
    fn add(&mut self, entry: &Entry<'_>, time_ns: i64) -> Outcome<LogPosition> {
        let volume = self.operation.volume;
        if !self.staged.fits(entry) {
            self.staged.pad_page(volume)?;
            if self.run.count == 0 {
                self.take_pages()?;
            }
            self.add_page()?;
            self.pages_left = self.pages_left.saturating_sub(1);
        }
        let position = self.staged.commit.tail;
        self.staged.store(volume, entry, entry.lines(), time_ns)?;
        Ok(position)
    }

    fn take_pages(&mut self) -> Outcome<()> {
        if !self.operation.has_room() {
            return Err(Errno(libc::ENOSPC));
        }
        let pool = self.operation.volume.pool_of_writer(self.operation.me);
        let want = self.pages_left.max(1);
        self.run = self
            .operation
            .take(self.ino, PENDING_LOG, want, pool, Need::Ordinary)?;
        Ok(())
    }

    fn add_page(&mut self) -> Outcome<()> {
        let page = LogPosition::new(self.run.pool, self.run.block, 0);
        self.staged.add_page(self.operation.volume, page)?;
        self.run = self.run.without_first(1);
        Ok(())
    }

    /// Unused pages stay in the chain as empty ones, so that every page has one owner.
    fn end(mut self) -> Outcome<(Staged, Vec<(usize, LogPosition)>)> {
        while self.run.count > 0 {
            self.staged.pad_page(self.operation.volume)?;
            self.add_page()?;
        }
        Ok((self.staged, self.moved))
    }
}

fn due_pages(locked: &Locked<'_>) -> u32 {
    let due = locked.inode.compact_at_pages.load(Ordering::Relaxed);
    due.max(COMPACT_MIN_PAGES)
}

/// Whether compaction would make a directory's log much shorter. A directory that only grows has no history. Of other
/// inodes this is not known.
fn is_mostly_history(locked: &Locked<'_>) -> bool {
    let pages = u64::from(locked.inode.log_pages.load(Ordering::Relaxed));
    let lines = pages * u64::from(PAGE_LINES - 1);
    locked.kind() != FileKind::Directory || lines >= LOG_PER_LIVING * locked.living_lines()
}

impl Log<'_> {
    /// Compact a locked inode's log when it is due. A failure is no error: the log just stays long.
    pub(crate) fn compact_if_due(self, locked: &Locked<'_>, operation: &mut Operation<'_>) {
        if self.is_compaction_due(locked) && self.compact(locked, operation).is_err() {
            let later = due_pages(locked).saturating_mul(2);
            locked
                .inode
                .compact_at_pages
                .store(later, Ordering::Relaxed);
        }
    }

    /// Whether the next writer should compact first.
    #[inline]
    pub(crate) fn is_compaction_due(self, locked: &Locked<'_>) -> bool {
        locked.inode.log_pages.load(Ordering::Relaxed) >= due_pages(locked)
            && is_mostly_history(locked)
    }

    /// Rewrite a locked inode's log.
    pub(crate) fn compact(self, locked: &Locked<'_>, operation: &mut Operation<'_>) -> Outcome<()> {
        let old_pages = self.volume.log_pages(locked)?;
        let mark = operation.taken();
        let (staged, moved) = match self.write_compacted(locked, operation) {
            Ok(written) => written,
            Err(errno) => {
                operation.abandon_from(mark);
                return Err(errno);
            }
        };
        // Old pages are noted while the log still names them, so that none is lost if their owner dies; pages that do
        // not fit in the notes are freed after the commit.
        let noted = operation.can_note(old_pages.len());
        if noted {
            note_pages(locked.ino, operation, &old_pages);
        }
        if let Err(errno) = self.commit_one(&staged) {
            operation.forget_replaced();
            return Err(errno);
        }
        operation.keep_from(mark);
        let inode = locked.inode;
        // A directory's table names places in the old log until it is changed. If this thread dies before, the next
        // owner of the lock loads the directory again.
        let is_directory = locked.kind() == FileKind::Directory;
        let changing = is_directory.then(|| WriteSection::begin(inode));
        inode.log_pages.store(staged.pages, Ordering::Relaxed);
        inode.compact_at_pages.store(
            (LOG_PER_LIVING as u32 * staged.pages).max(COMPACT_MIN_PAGES),
            Ordering::Relaxed,
        );
        inode
            .applied
            .store(staged.commit.encode(locked.ino), Ordering::Release);
        if !noted {
            note_pages(locked.ino, operation, &old_pages);
        }
        if let Some(changing) = changing {
            NameTable::of(self.volume).follow_compaction(locked, &moved);
            // Places that walks noted are in the old log.
            inode.epoch.fetch_add(1, Ordering::AcqRel);
            changing.end();
        }
        operation.settle_replaced();
        Ok(())
    }

    fn write_compacted(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
    ) -> Outcome<(Staged, Vec<(usize, LogPosition)>)> {
        let is_directory = locked.kind() == FileKind::Directory;
        let living = self.living_entries(locked)?;
        let lines = living
            .iter()
            .map(|living| u64::from(living.entry().lines()));
        let of_names = if is_directory {
            locked.living_lines()
        } else {
            0
        };
        let mut rewriting = Rewriting::begin(locked, operation, lines.sum::<u64>() + of_names)?;
        if is_directory {
            self.rewrite_names(locked, &mut rewriting)?;
        }
        let ctime_ns = locked.inode.ctime_ns.load(Ordering::Relaxed) as i64;
        for living in &living {
            rewriting.add(&living.entry(), ctime_ns)?;
        }
        rewriting.end()
    }

    /// Living entries but names, in the order in which they are written.
    fn living_entries(self, locked: &Locked<'_>) -> Outcome<Vec<Living>> {
        let mut living = Vec::new();
        if locked.kind() != FileKind::Directory {
            self.collect_runs(locked, &mut living);
        }
        let mut inborn = inborn_xattrs(&self.volume.read_record(locked.ino)?.certificate);
        for (name, value) in self.xattrs(locked.inode, locked.log_place())? {
            if inborn.remove(&name).is_none_or(|inborn| inborn != value) {
                living.push(Living::Xattr { name, value });
            }
        }
        living.extend(inborn.into_keys().map(|name| Living::NoXattr { name }));
        if self.lost_its_layout(locked)? {
            let name = striping::ATTRIBUTE.to_vec();
            living.push(Living::NoXattr { name });
        }
        // Last, because earlier entries change size and times.
        living.push(Living::Attributes(locked.attribute_state()));
        Ok(living)
    }

    /// Copy the entries of living names, in one walk along the old log.
    fn rewrite_names(self, locked: &Locked<'_>, rewriting: &mut Rewriting<'_, '_>) -> Outcome<()> {
        let names = NameTable::of(self.volume);
        self.walk_log(
            locked.log_place(),
            locked.commit()?,
            LogPosition::NONE,
            &mut |_| Ok(()),
            &mut |position, entry, time_ns| {
                if let Entry::NameAdd { name, .. } = *entry
                    && let Some(slot) = names.slot_of(locked.inode, position, name)
                {
                    let place = rewriting.add(entry, time_ns)?;
                    rewriting.moved.push((slot, place));
                }
                Ok(())
            },
        )
    }

    fn collect_runs(self, locked: &Locked<'_>, living: &mut Vec<Living>) {
        let index = locked.index();
        let mut block = 0;
        while let Some(first) = index.next_mapped(block, MAX_FILE_BLOCKS) {
            let word = index.load(first);
            let has_sums = locked.has_sums() && !word.is_unwritten();
            let most = if has_sums {
                MAX_SUMS
            } else {
                MAX_EXTENT_BLOCKS
            };
            let mut count = 1;
            while count < most {
                let next = index.load(first + count);
                let follows = next.is_mapped()
                    && next.is_unwritten() == word.is_unwritten()
                    && next.pool() == word.pool()
                    && next.block().0 == word.block().0 + count;
                if !follows {
                    break;
                }
                count += 1;
            }
            let sums = (first..first + count).filter(|_| has_sums);
            living.push(Living::Run {
                entry: Entry::Write(WriteEntry {
                    file_block: first,
                    count,
                    pool: word.pool(),
                    block: word.block(),
                    size_bytes: locked.size_bytes(),
                    unwritten: word.is_unwritten(),
                    touches_mtime: false,
                    sums: &[],
                }),
                sums: sums.flat_map(|block| index.sum(block)).collect(),
            });
            block = first + count;
        }
    }
}
