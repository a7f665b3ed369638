//! Reads an inode's log from the media without the inode's lock. Used by readers when the thread that changes the
//! inode is stopped half-way. The log is consistent at any instant: an operation is in it from its commit on. Slow,
//! and rarely needed.

use crate::format::place::LogPlace;
use crate::format::*;
use crate::log::Log;
use crate::log::found_names::{CookieRange, FoundName, Names, kind_of};
use crate::session::inode::Record;
use crate::session::layout::SessionInode;
use crate::types::*;
use egeria_media::BlockNumber;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;

/// How often a log that changed during a read is read again.
const TRIES: usize = 8;

/// One read of a log, and the values that show whether it changed since.
#[derive(PartialEq, Eq)]
struct Instant {
    sequence: u64,
    commit: CommitWord,
    moved_ns: Option<i64>,
    generation: u32,
}

/// Runs of a file's blocks by their first file block.
#[derive(Default)]
pub(crate) struct CommittedBlocks {
    runs: BTreeMap<u64, (u64, BlockWord)>,
    /// Checksums of blocks that have some.
    sums: BTreeMap<u64, u32>,
    has_no_sums: bool,
    pub(crate) size_bytes: u64,
}

impl CommittedBlocks {
    /// Only the places of the blocks.
    pub(crate) fn without_sums() -> CommittedBlocks {
        CommittedBlocks {
            has_no_sums: true,
            ..CommittedBlocks::default()
        }
    }

    /// All runs: the first file block, the count, and the place of the first block.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64, BlockWord)> {
        let runs = self.runs.iter();
        runs.map(|(first, (count, word))| (*first, *count, *word))
    }

    fn cut(&mut self, from: u64, end: u64) {
        let behind_end = self.sums.split_off(&end);
        self.sums.split_off(&from);
        self.sums.extend(behind_end);
        let before = self.runs.range(..from).next_back();
        let first = before.map_or(from, |(first, _)| *first);
        let touched: Vec<(u64, (u64, BlockWord))> = self
            .runs
            .range(first..end)
            .filter(|(start, (count, _))| **start + count > from)
            .map(|(start, run)| (*start, *run))
            .collect();
        for (start, (count, word)) in touched {
            self.runs.remove(&start);
            if start < from {
                self.runs.insert(start, (from - start, word));
            }
            if start + count > end {
                let rest = behind(word, end - start);
                self.runs.insert(end, (start + count - end, rest));
            }
        }
    }

    pub(crate) fn apply(&mut self, entry: &Entry<'_>) {
        match *entry {
            Entry::Write(write) => {
                let (first, count) = (write.file_block, write.count);
                self.cut(first, first.saturating_add(count));
                if !self.has_no_sums {
                    let sums = write.sums.as_chunks().0.iter().copied();
                    self.sums
                        .extend((first..).zip(sums.map(u32::from_le_bytes)));
                }
                if count > 0 {
                    let word = BlockWord::new(write.pool, write.block, write.unwritten, 0);
                    self.runs.insert(first, (count, word));
                }
                self.size_bytes = write.size_bytes;
            }
            Entry::Hole {
                file_block,
                count,
                size_bytes,
            } => {
                self.cut(file_block, file_block.saturating_add(count));
                self.size_bytes = size_bytes;
            }
            Entry::Attributes(state) => {
                if state.size_bytes < self.size_bytes {
                    self.cut(state.size_bytes.div_ceil(BLOCK as u64), u64::MAX);
                }
                self.size_bytes = state.size_bytes;
            }
            _ => {}
        }
    }

    /// The checksum of a block that has one.
    pub(crate) fn sum_of(&self, file_block: u64) -> Option<u32> {
        self.sums.get(&file_block).copied()
    }

    /// The first block at or after `from` that has data; `None`: none.
    pub(crate) fn next_data(&self, from: u64) -> Option<u64> {
        let mut block = from;
        loop {
            let (word, count) = self.run_at(block);
            match (word.has_data(), count) {
                (true, _) => return Some(block),
                (false, u64::MAX) => return None,
                (false, count) => block = block.checked_add(count)?,
            }
        }
    }

    /// The first block at or after `from` that is a hole.
    pub(crate) fn next_hole(&self, from: u64) -> u64 {
        let mut block = from;
        loop {
            let (word, count) = self.run_at(block);
            if !word.has_data() {
                return block;
            }
            block = block.saturating_add(count);
        }
    }

    /// Blocks that are allocated.
    fn count(&self) -> u64 {
        self.runs.values().map(|(count, _)| count).sum()
    }

    /// The place of a block, and how many blocks from it on are contiguous or a hole.
    pub(crate) fn run_at(&self, file_block: u64) -> (BlockWord, u64) {
        let before = self.runs.range(..=file_block).next_back();
        if let Some((start, (count, word))) = before
            && start + count > file_block
        {
            let within = file_block - start;
            return (behind(*word, within), count - within);
        }
        let next = self.runs.range(file_block..).next();
        let hole = next.map_or(u64::MAX, |(start, _)| start - file_block);
        (BlockWord::HOLE, hole)
    }
}

/// The word of a block further on in the same run.
fn behind(word: BlockWord, blocks: u64) -> BlockWord {
    let block = BlockNumber(word.block().0 + blocks);
    BlockWord::new(word.pool(), block, word.is_unwritten(), 0)
}

/// What attributes are made of.
struct State {
    attributes: Attributes,
    blocks: CommittedBlocks,
    directories: HashSet<LogPosition>,
}

impl Log<'_> {
    /// Fold the log of an inode; returns also the record it began with. The log did not change during the fold.
    pub(crate) fn fold_log<S>(
        self,
        ino: u64,
        begin: impl Fn(&Certificate) -> S,
        fold: impl Fn(&mut S, LogPosition, &Entry<'_>, i64),
    ) -> Outcome<(S, u64)> {
        let inode = self.volume.inode(ino)?;
        for _ in 0..TRIES {
            let sequence = inode.sequence.load(Ordering::Acquire);
            let record = self.volume.read_record(ino)?;
            let place = LogPlace {
                ino,
                generation: record.certificate.generation,
                pages_before: 0,
                unlocked: true,
                head: None,
            };
            let folded = self.fold_record(place, &record, begin(&record.certificate), &fold);
            if self.instant(inode, ino)? == Instant::of(sequence, &record) {
                return folded;
            }
        }
        Err(Errno(libc::EAGAIN))
    }

    /// Fold the log that belongs to a record; returns also its pages. The caller checks that it did not change.
    pub(crate) fn fold_record<S>(
        self,
        place: LogPlace,
        record: &Record,
        mut state: S,
        fold: impl Fn(&mut S, LogPosition, &Entry<'_>, i64),
    ) -> Outcome<(S, u64)> {
        let mut pages = 0;
        self.walk_log(
            place,
            record.commit,
            LogPosition::NONE,
            &mut |_| {
                pages += 1;
                Ok(())
            },
            &mut |position, entry, time_ns| {
                fold(&mut state, position, entry, time_ns);
                Ok(())
            },
        )?;
        Ok((state, pages))
    }

    fn instant(self, inode: &SessionInode, ino: u64) -> Outcome<Instant> {
        // The log was read before these checks.
        std::sync::atomic::fence(Ordering::Acquire);
        let record = self.volume.read_record(ino)?;
        Ok(Instant::of(inode.sequence.load(Ordering::Acquire), &record))
    }

    /// Attributes as the log says them.
    pub(crate) fn committed_attributes(self, ino: u64) -> Outcome<Attributes> {
        let (state, pages) = self.fold_log(ino, State::at_birth, State::apply)?;
        let record = self.volume.read_record(ino)?;
        Ok(state.into_attributes(&record, pages))
    }

    /// Attributes as the log that belongs to a record says them.
    pub(crate) fn attributes_of_record(
        self,
        place: LogPlace,
        record: &Record,
    ) -> Outcome<Attributes> {
        let begin = State::at_birth(&record.certificate);
        let (state, pages) = self.fold_record(place, record, begin, State::apply)?;
        Ok(state.into_attributes(record, pages))
    }

    /// Attributes as the log of a record says them, with every entry checked. No other thread changes the log.
    ///
    /// # Errors
    /// `EIO`; the damage is reported.
    pub(crate) fn verified_attributes(self, ino: u64, record: &Record) -> Outcome<Attributes> {
        let certificate = &record.certificate;
        let kind = FileKind::from_mode(certificate.mode);
        let kind = kind.ok_or_else(|| self.volume.damaged(ino, "certificate"))?;
        let mut state = State::at_birth(certificate);
        let mut pages = 0;
        self.walk_log(
            record.log_place(ino),
            record.commit,
            LogPosition::NONE,
            &mut |_| {
                pages += 1;
                Ok(())
            },
            &mut |position, entry, time_ns| {
                self.check_entry(ino, kind, certificate.checksums, entry)?;
                state.apply(position, entry, time_ns);
                Ok(())
            },
        )?;
        Ok(state.into_attributes(record, pages))
    }

    /// The places of a file's blocks as the log that belongs to a record says them.
    pub(crate) fn blocks_of_record(
        self,
        place: LogPlace,
        record: &Record,
    ) -> Outcome<CommittedBlocks> {
        let fold = |blocks: &mut CommittedBlocks, _, entry: &Entry<'_>, _| blocks.apply(entry);
        let folded = self.fold_record(place, record, CommittedBlocks::default(), fold)?;
        Ok(folded.0)
    }

    /// A name of a directory, according to its log.
    pub(crate) fn committed_name(self, ino: u64, name: &[u8]) -> Outcome<Option<FoundName>> {
        let fold = |found: &mut Option<FoundName>, position, entry: &Entry<'_>, _| match *entry {
            Entry::NameAdd {
                ino,
                kind,
                name: added,
                ..
            } if added == name => {
                *found = kind_of(kind).map(|kind| FoundName {
                    ino,
                    kind,
                    position,
                });
            }
            Entry::NameRemove { added } if found.is_some_and(|found| found.position == added) => {
                *found = None;
            }
            _ => {}
        };
        Ok(self.fold_log(ino, |_| None, fold)?.0)
    }

    /// Names of a directory, according to its log.
    pub(crate) fn committed_names(self, ino: u64, range: CookieRange) -> Outcome<Names> {
        type List = BTreeMap<u64, (LogPosition, u64, FileKind, Vec<u8>)>;
        let begin = |certificate: &Certificate| (List::new(), certificate.parent);
        let fold = |(list, parent): &mut (List, u64), position, entry: &Entry<'_>, _| match *entry {
            Entry::NameAdd {
                ino,
                kind,
                cookie,
                name,
            } => {
                if let (true, Some(kind)) = (range.holds(cookie), kind_of(kind)) {
                    list.insert(cookie, (position, ino, kind, name.to_vec()));
                }
            }
            Entry::NameRemove { added } => list.retain(|_, (position, ..)| *position != added),
            Entry::Attributes(state) => *parent = state.parent,
            _ => {}
        };
        let ((list, parent), _) = self.fold_log(ino, begin, fold)?;
        let mut names = Names::default();
        names.add_dots(ino, parent, range);
        for (cookie, (_, ino, kind, name)) in &list {
            if names.is_full() {
                names.more = true;
                break;
            }
            names.add(*ino, *kind, *cookie, name);
        }
        Ok(names)
    }

    /// The places of a file's blocks according to its log; also whether they stayed valid while `copy` read the
    /// blocks.
    pub(crate) fn with_committed_blocks<T>(
        self,
        ino: u64,
        copy: impl Fn(&CommittedBlocks) -> Outcome<T>,
    ) -> Outcome<T> {
        let inode = self.volume.inode(ino)?;
        for _ in 0..TRIES {
            let before = self.instant(inode, ino)?;
            let fold = |blocks: &mut CommittedBlocks, _, entry: &Entry<'_>, _| blocks.apply(entry);
            let (blocks, _) = self.fold_log(ino, |_| CommittedBlocks::default(), fold)?;
            let copied = copy(&blocks);
            if self.instant(inode, ino)? == before {
                return copied;
            }
        }
        Err(Errno(libc::EAGAIN))
    }
}

impl Instant {
    fn of(sequence: u64, record: &Record) -> Instant {
        Instant {
            sequence,
            commit: record.commit,
            moved_ns: record.moved_ns,
            generation: record.certificate.generation,
        }
    }
}

impl State {
    fn at_birth(certificate: &Certificate) -> State {
        State {
            attributes: attributes_at_birth(certificate),
            blocks: CommittedBlocks::without_sums(),
            directories: HashSet::new(),
        }
    }

    /// What is not in the log comes from the record. `pages`: of the log.
    fn into_attributes(mut self, record: &Record, pages: u64) -> Attributes {
        let attributes = &mut self.attributes;
        attributes.ctime_ns = record.moved_ns.map_or(attributes.ctime_ns, |moved_ns| {
            attributes.ctime_ns.max(moved_ns)
        });
        if record.commit.orphan {
            attributes.nlink = 0;
        }
        if attributes.kind() == FileKind::Directory {
            attributes.blocks = pages.max(1);
            attributes.size_bytes = pages.max(1) * BLOCK as u64;
            if attributes.nlink > 0 {
                attributes.nlink = 2 + self.directories.len() as u32;
            }
        } else {
            attributes.size_bytes = self.blocks.size_bytes;
            attributes.blocks = self.blocks.count();
        }
        self.attributes
    }

    fn apply(&mut self, position: LogPosition, entry: &Entry<'_>, time_ns: i64) {
        let attributes = &mut self.attributes;
        self.blocks.apply(entry);
        match *entry {
            Entry::Write(WriteEntry { touches_mtime, .. }) => {
                attributes.ctime_ns = time_ns;
                if touches_mtime {
                    attributes.mtime_ns = time_ns;
                }
            }
            Entry::Hole { .. } => (attributes.mtime_ns, attributes.ctime_ns) = (time_ns, time_ns),
            Entry::Attributes(state) => {
                attributes.mode = state.mode;
                (attributes.uid, attributes.gid) = (state.uid, state.gid);
                attributes.nlink = state.nlink;
                (attributes.atime_ns, attributes.mtime_ns) = (state.atime_ns, state.mtime_ns);
                attributes.ctime_ns = time_ns;
            }
            Entry::NameAdd { kind, .. } => {
                (attributes.mtime_ns, attributes.ctime_ns) = (time_ns, time_ns);
                if kind_of(kind) == Some(FileKind::Directory) {
                    self.directories.insert(position);
                }
            }
            Entry::NameRemove { added } => {
                (attributes.mtime_ns, attributes.ctime_ns) = (time_ns, time_ns);
                self.directories.remove(&added);
            }
            Entry::XattrSet { .. } | Entry::XattrRemove { .. } => attributes.ctime_ns = time_ns,
            Entry::Pad => {}
        }
    }
}

fn attributes_at_birth(certificate: &Certificate) -> Attributes {
    Attributes {
        ino: InodeNumber(certificate.ino),
        generation: certificate.generation,
        mode: certificate.mode,
        nlink: certificate.nlink,
        uid: certificate.uid,
        gid: certificate.gid,
        rdev: certificate.rdev,
        size_bytes: 0,
        blocks: 0,
        atime_ns: certificate.birth_ns,
        mtime_ns: certificate.birth_ns,
        ctime_ns: certificate.birth_ns,
    }
}
