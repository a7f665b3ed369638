//! Compaction: when a log has tripled in length since the last compaction, its live entries are written to new pages
//! behind the other head. One 8-byte store of the commit word switches to them.

use crate::format::*;
use crate::log::apply::COMPACT_MIN_PAGES;
use crate::log::staging::Staged;
use crate::log::xattrs::inborn_xattrs;
use crate::log::{Log, NameTable};
use crate::session::index::MAX_FILE_BLOCKS;
use crate::session::inode::Locked;
use crate::session::layout::PENDING_LOG;
use crate::session::seqlock::WriteSection;
use crate::space::free_space::Need;
use crate::space::operation::{Operation, note_pages};
use crate::space::striping;
use crate::types::{Errno, FileKind, Outcome};
use std::sync::atomic::Ordering;

/// A live entry with its time.
enum Living {
    Run {
        entry: Entry<'static>,
        sums: Vec<u8>,
    },
    Name {
        ino: u64,
        kind: u8,
        cookie: u64,
        name: Vec<u8>,
        time_ns: i64,
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
            Living::Name {
                ino,
                kind,
                cookie,
                name,
                ..
            } => Entry::NameAdd {
                ino: *ino,
                kind: *kind,
                cookie: *cookie,
                name,
            },
            Living::Xattr { name, value } => Entry::XattrSet { name, value },
            Living::NoXattr { name } => Entry::XattrRemove { name },
            Living::Attributes(state) => Entry::Attributes(*state),
        }
    }
}

fn due_pages(locked: &Locked<'_>) -> u32 {
    let due = locked.inode.compact_at_pages.load(Ordering::Relaxed);
    due.max(COMPACT_MIN_PAGES)
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
    }

    /// Rewrite a locked inode's log.
    pub(crate) fn compact(self, locked: &Locked<'_>, operation: &mut Operation<'_>) -> Outcome<()> {
        let living = self.living_entries(locked)?;
        let old_pages = self.volume.log_pages(locked)?;
        let mark = operation.taken();
        let staged = match self.write_compacted(locked, operation, &living) {
            Ok(staged) => staged,
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
        // A directory's table names places in the old log until it is loaded again. A reader without the lock would
        // find no name in the new log until then.
        let is_directory = locked.kind() == FileKind::Directory;
        let changing = is_directory.then(|| WriteSection::begin(inode));
        inode.log_pages.store(staged.pages, Ordering::Relaxed);
        inode
            .compact_at_pages
            .store((3 * staged.pages).max(COMPACT_MIN_PAGES), Ordering::Relaxed);
        inode
            .applied
            .store(staged.commit.encode(locked.ino), Ordering::Release);
        if !noted {
            note_pages(locked.ino, operation, &old_pages);
        }
        operation.settle_replaced();
        let Some(changing) = changing else {
            return Ok(());
        };
        self.volume.unload(locked);
        let loaded = self.volume.load(locked);
        changing.end();
        loaded
    }

    fn write_compacted(
        self,
        locked: &Locked<'_>,
        operation: &mut Operation<'_>,
        living: &[Living],
    ) -> Outcome<Staged> {
        let old = locked.commit()?;
        let generation = locked.inode.generation.load(Ordering::Relaxed);
        let commit = CommitWord {
            tail: LogPosition::NONE,
            head_index: 1 - old.head_index,
            orphan: old.orphan,
        };
        let mut staged = Staged::fresh(self.volume, locked.ino, generation, commit)?;
        let ctime_ns = locked.inode.ctime_ns.load(Ordering::Relaxed) as i64;
        let lines: usize = living
            .iter()
            .map(|living| living.entry().lines() as usize)
            .sum();
        let mut pages_left = lines.div_ceil(PAGE_LINES as usize - 8) as u64;
        let mut run = Extent::default();
        for living in living {
            let entry = living.entry();
            if !staged.fits(&entry) {
                staged.pad_page(self.volume)?;
                if run.count == 0 {
                    if !operation.has_room() {
                        return Err(Errno(libc::ENOSPC));
                    }
                    run = operation.take(
                        locked.ino,
                        PENDING_LOG,
                        pages_left.max(1),
                        self.volume.pool_here(operation.me),
                        Need::Ordinary,
                    )?;
                }
                staged.add_page(self.volume, LogPosition::new(run.pool, run.block, 0))?;
                run.block.0 += 1;
                run.count -= 1;
                pages_left = pages_left.saturating_sub(1);
            }
            let time_ns = if let Living::Name { time_ns, .. } = living {
                *time_ns
            } else {
                ctime_ns
            };
            staged.store(self.volume, &entry, entry.lines(), time_ns)?;
        }
        self.add_spare_pages(&mut staged, run)?;
        Ok(staged)
    }

    /// Unused pages stay in the chain as empty ones, so that every page has one owner.
    fn add_spare_pages(self, staged: &mut Staged, mut run: Extent) -> Outcome<()> {
        while run.count > 0 {
            staged.pad_page(self.volume)?;
            staged.add_page(self.volume, LogPosition::new(run.pool, run.block, 0))?;
            run.block.0 += 1;
            run.count -= 1;
        }
        Ok(())
    }

    fn living_entries(self, locked: &Locked<'_>) -> Outcome<Vec<Living>> {
        let mut living = Vec::new();
        if locked.kind() == FileKind::Directory {
            self.collect_names(locked, &mut living)?;
        } else {
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

    fn collect_names(self, locked: &Locked<'_>, living: &mut Vec<Living>) -> Outcome<()> {
        self.walk_log(
            locked.log_place(),
            locked.commit()?,
            LogPosition::NONE,
            &mut |_| Ok(()),
            &mut |position, entry, time_ns| {
                if let Entry::NameAdd {
                    ino,
                    kind,
                    cookie,
                    name,
                } = *entry
                    && NameTable::of(self.volume).is_live(locked.inode, position, name)
                {
                    living.push(Living::Name {
                        ino,
                        kind,
                        cookie,
                        name: name.to_vec(),
                        time_ns,
                    });
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
