//! Staging entries behind the tail of a log.
//!
//! Order of one operation: data and entries are stored and flushed; one fence; the tail's 8-byte store,
//! flush, fence. Data behind the tail is ignored. So a crash before the tail's store undoes the operation, and a crash
//! after it leaves the operation done.

use crate::format::*;
use crate::log::mapping::Mapping;
use crate::log::mapping::entries_of;
use crate::session::Snapshots;
use crate::session::inode::Locked;
use crate::session::layout::{LOADED, PENDING_LOG};
use crate::session::volume::Volume;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::{Errno, Outcome};
use egeria_media::PoolIndex;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// `Staged::snapshot` of a log that no other thread knows.
pub(in crate::log) const NEW: u64 = u64::MAX;

/// Entries staged behind an inode's tail, and where the tail will be.
pub(crate) struct Staged {
    pub(crate) ino: u64,
    generation: u32,
    /// The commit word to be.
    pub(crate) commit: CommitWord,
    first_page: u32,
    /// Pages added to the chain.
    pub(crate) pages: u32,
    record: (PoolIndex, egeria_media::PoolOffset),
    /// What new pages and entries may be allocated from.
    pub(crate) need: Need,
    /// Lines of the announced entries still to come, and pages taken for them.
    coming_lines: u64,
    run: Extent,
    /// The commit word as sealed for the commit; 0 before.
    sealed: Cell<u64>,
    /// Number of the snapshot that was under way when the inode was locked, 0: none; [`NEW`]: no thread had to lock it.
    pub(in crate::log) snapshot: u64,
}

impl Staged {
    /// Begin behind the tail of a locked inode. `ENOMEM` when it is unloaded, because a compaction had no memory to
    /// load it again: then its tail is unknown.
    #[inline(always)]
    pub(crate) fn begin(locked: &Locked<'_>, need: Need) -> Outcome<Staged> {
        if locked.inode.state.load(Ordering::Acquire) != LOADED {
            return Err(Errno(libc::ENOMEM));
        }
        Ok(Staged {
            ino: locked.ino,
            generation: locked.inode.generation.load(Ordering::Relaxed),
            commit: locked.commit()?,
            first_page: locked.inode.log_pages.load(Ordering::Relaxed),
            pages: 0,
            record: locked.record()?,
            need,
            coming_lines: 0,
            run: Extent::default(),
            sealed: Cell::new(0),
            snapshot: Snapshots::of(locked.volume).seen(),
        })
    }

    /// Whether a snapshot has the inode as it is before the commit.
    pub(crate) fn is_in_snapshot(&self) -> bool {
        self.snapshot != 0
    }

    /// Begin the log of a new inode, or a log that will replace another (compaction; `commit` then names the other
    /// head).
    pub(crate) fn fresh(
        volume: &Volume,
        ino: u64,
        generation: u32,
        commit: CommitWord,
    ) -> Outcome<Staged> {
        Ok(Staged {
            ino,
            generation,
            commit,
            first_page: 0,
            pages: 0,
            record: volume.record_place(ino)?,
            need: Need::Ordinary,
            coming_lines: 0,
            run: Extent::default(),
            sealed: Cell::new(0),
            snapshot: NEW,
        })
    }

    /// Store and flush one entry; returns its place. Nothing is visible before the commit.
    pub(crate) fn add(
        &mut self,
        operation: &mut Operation<'_>,
        entry: &Entry<'_>,
        time_ns: i64,
    ) -> Outcome<LogPosition> {
        let lines = entry.lines();
        if self.commit.tail.is_none() || self.commit.tail.line() + lines > PAGE_LINES {
            self.pad(operation)?;
            if self.run.count == 0 {
                self.run = self.take_pages(operation)?;
            }
            let page = LogPosition::new(self.run.pool, self.run.block, 0);
            self.run = self.run.without_first(1);
            self.add_page(operation.volume, page)?;
        }
        self.coming_lines = self.coming_lines.saturating_sub(lines.into());
        let position = self.commit.tail;
        self.store(operation.volume, entry, lines, time_ns)?;
        Ok(position)
    }

    /// Take a page, or as many as the entries to come will certainly fill: all are used.
    fn take_pages(&self, operation: &mut Operation<'_>) -> Outcome<Extent> {
        operation.take(
            self.ino,
            PENDING_LOG,
            (self.coming_lines / (PAGE_LINES as u64 - 1)).max(1),
            operation.volume.pool_of_writer(operation.me),
            self.need,
        )
    }

    /// Add the entries that map a run of new data.
    #[inline]
    pub(crate) fn add_mapping(
        &mut self,
        operation: &mut Operation<'_>,
        mapping: &Mapping,
        sums: &[u8],
        size_bytes: u64,
        time_ns: i64,
    ) -> Outcome<()> {
        let touches_mtime = !mapping.unwritten;
        if sums.is_empty() {
            let entry = mapping.entry(size_bytes, touches_mtime);
            return self.add(operation, &entry, time_ns).map(drop);
        }
        let entries = || entries_of(*mapping, sums, size_bytes, touches_mtime);
        if mapping.count > MAX_SUMS {
            self.coming_lines = entries().map(|entry| u64::from(entry.lines())).sum();
        }
        for entry in entries() {
            self.add(operation, &entry, time_ns)?;
        }
        Ok(())
    }

    fn pad(&mut self, operation: &mut Operation<'_>) -> Outcome<()> {
        if !self.commit.tail.is_none() && self.commit.tail.line() < PAGE_LINES {
            let lines = PAGE_LINES - self.commit.tail.line();
            self.store(operation.volume, &Entry::Pad, lines, 0)?;
        }
        Ok(())
    }

    /// Continue on a page the caller took.
    pub(crate) fn add_page(&mut self, volume: &Volume, page: LogPosition) -> Outcome<()> {
        let header = encode_page_header(
            self.ino,
            self.generation,
            page,
            self.first_page + self.pages,
        );
        let pool = volume.pool(page.pool())?;
        pool.write_bytes(page.offset(), &header)
            .map_err(|_| Errno(libc::EIO))?;
        pool.flush(page.offset(), LINE as u64);
        // The link may persist before the page: it is behind the tail until the commit.
        let (link_pool, link_at) = if self.commit.tail.is_none() {
            (
                self.record.0,
                self.record.1 + HEADS_AT + 8 * self.commit.head_index as u64,
            )
        } else {
            (
                self.commit.tail.pool(),
                self.commit.tail.at_line(0).offset() + NEXT_PAGE_AT,
            )
        };
        let pool = volume.pool(link_pool)?;
        pool.store_u64(link_at, encode_link(self.ino, page))
            .map_err(|_| Errno(libc::EIO))?;
        pool.flush(link_at, 8);
        self.commit.tail = page.at_line(1);
        self.pages += 1;
        Ok(())
    }

    /// Whether the page the tail is in has room for this number of entries of one line.
    #[inline(always)]
    pub(crate) fn has_lines(&self, lines: u8) -> bool {
        !self.commit.tail.is_none() && self.commit.tail.line() + lines <= PAGE_LINES
    }

    /// Whether an entry fits the page the tail is in.
    pub(crate) fn fits(&self, entry: &Entry<'_>) -> bool {
        !self.commit.tail.is_none() && self.commit.tail.line() + entry.lines() <= PAGE_LINES
    }

    /// Store an entry that fits; for compaction, which brings its own pages.
    pub(crate) fn store(
        &mut self,
        volume: &Volume,
        entry: &Entry<'_>,
        lines: u8,
        time_ns: i64,
    ) -> Outcome<()> {
        match lines {
            1 => self.store_lines(volume, entry, &mut [0u8; LINE], time_ns)?,
            _ => self.store_lines(
                volume,
                entry,
                &mut [0u8; BLOCK][..lines as usize * LINE],
                time_ns,
            )?,
        }
        self.commit.tail = self.commit.tail.at_line(self.commit.tail.line() + lines);
        Ok(())
    }

    /// Store a write entry without checksums, behind which the page has room.
    #[inline(always)]
    pub(crate) fn store_write(
        &mut self,
        volume: &Volume,
        entry: &WriteEntry<'_>,
        time_ns: i64,
    ) -> Outcome<()> {
        let at = self.commit.tail;
        let line = entry.line(time_ns, self.seal());
        let pool = volume.pool(at.pool())?;
        pool.store_line(at.offset(), line).map_err(Errno::from)?;
        self.commit.tail = at.at_line(at.line() + 1);
        Ok(())
    }

    /// Seal of an entry at the tail.
    #[inline(always)]
    fn seal(&self) -> EntrySeal {
        EntrySeal {
            ino: self.ino,
            generation: self.generation,
            position: self.commit.tail,
        }
    }

    fn store_lines(
        &self,
        volume: &Volume,
        entry: &Entry<'_>,
        bytes: &mut [u8],
        time_ns: i64,
    ) -> Outcome<()> {
        entry.encode(bytes, (bytes.len() / LINE) as u8, time_ns, self.seal());
        let pool = volume.pool(self.commit.tail.pool())?;
        // Whole lines that are not read soon: past the cache, durable with the commit's first fence.
        pool.copy_in(self.commit.tail.offset(), (&*bytes).into())
            .map_err(Errno::from)
    }

    /// Fill the rest of the page; see `store`.
    pub(crate) fn pad_page(&mut self, volume: &Volume) -> Outcome<()> {
        if self.commit.tail.is_none() || self.commit.tail.line() == PAGE_LINES {
            Ok(())
        } else {
            self.store(volume, &Entry::Pad, PAGE_LINES - self.commit.tail.line(), 0)
        }
    }

    /// The word that commits, and its place.
    #[inline(always)]
    pub(crate) fn pair(&self) -> JournalPair {
        let value = self.commit.encode(self.ino);
        self.sealed.set(value);
        JournalPair {
            pool: self.record.0,
            at: self.record.1 + COMMIT_WORD_AT,
            value,
        }
    }

    /// The commit word, after the commit.
    #[inline(always)]
    pub(crate) fn committed_word(&self) -> u64 {
        match self.sealed.get() {
            0 => self.commit.encode(self.ino),
            word => word,
        }
    }
}
