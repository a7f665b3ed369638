//! Reading a volume as it was at one instant, while programs change it. Nothing is written to the pools for it: a snapshot lives as
//! long as the process that reads it (see `session::kept_records`).

use crate::data::Reading;
use crate::format::place::LogPlace;
use crate::format::*;
use crate::log::Log;
use crate::log::committed::CommittedBlocks;
use crate::log::found_names::kind_of;
use crate::namespace::quotas::is_of_quotas;
use crate::recovery::Reaper;
use crate::requests::{VolumeError, failure};
use crate::session::inode::Record;
use crate::session::kept_records::RECORD_WORDS;
use crate::session::volume::Volume;
use crate::session::{Snapshots, patience};
use crate::space::{Space, striping};
use crate::types::*;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How long reading waits for the lock of an inode: its holder may be stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// A volume as it was at one instant. One snapshot of a volume is read at a time. Dropping it ends it.
pub struct Snapshot {
    volume: Arc<Volume>,
    number: u64,
    owner: u64,
}

/// A name in a directory of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotName {
    pub name: Vec<u8>,
    pub ino: InodeNumber,
    pub kind: FileKind,
}

/// Where the log of an inode ended in a snapshot. With the same end and the same generation, the data of an inode is the same in two
/// snapshots of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LogEnd {
    /// Position behind the last entry; 0 without entries.
    pub tail: u64,
    /// Time of the last entry, ns since the epoch.
    pub time_ns: i64,
}

/// The blocks of a file or symbolic link in a snapshot.
pub struct SnapshotFile(CommittedBlocks);

impl Volume {
    /// Begin to read the volume as it is now. Programs go on: they keep what they replace until it ends. If they run out of space
    /// before, the snapshot ends early.
    ///
    /// # Errors
    /// `EBUSY` while another snapshot of the volume is read, `ENOMEM` when `/dev/shm` has no room for its notes; else as the first
    /// use of a volume.
    pub fn snapshot(self: &Arc<Volume>) -> Result<Snapshot, VolumeError> {
        let refused = |errno: Errno| {
            let message = match errno {
                Errno(libc::EBUSY) => {
                    "a snapshot of the volume is being read; wait until it has ended".to_owned()
                }
                Errno(libc::ENOMEM) => {
                    "/dev/shm has no room for a snapshot's notes; free some of it".to_owned()
                }
                errno => format!("no snapshot can be begun: {errno}; try again"),
            };
            failure(errno.0, message)
        };
        let me = self.me().map_err(refused)?;
        let begin = || Snapshots::of(self).begin();
        let number = begin().or_else(|errno| {
            // Its reader may be dead.
            Reaper::of(self).reap_within(PATIENCE);
            match errno {
                Errno(libc::EBUSY) => begin(),
                errno => Err(errno),
            }
        });
        Ok(Snapshot {
            volume: self.clone(),
            number: number.map_err(refused)?,
            owner: me.slot.owner.load(std::sync::atomic::Ordering::Relaxed),
        })
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        Space::of(&self.volume).end_snapshot_of(self.owner);
    }
}

impl Snapshot {
    /// The volume that it is of.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Whether it can still be read.
    ///
    /// # Errors
    /// `ESTALE` when it ended early.
    pub fn check(&self) -> Outcome<()> {
        if Snapshots::of(&self.volume).current() == self.number {
            Ok(())
        } else {
            Err(Errno(libc::ESTALE))
        }
    }

    /// Attributes of an inode that a name of the snapshot leads to.
    ///
    /// # Errors
    /// `ESTALE` when the snapshot ended early; `EBUSY` when a stopped process holds the inode; `EIO`.
    pub fn attributes(&self, ino: InodeNumber) -> Outcome<Attributes> {
        let (place, record) = self.record(ino)?;
        self.checked(Log::of(&self.volume).attributes_of_record(place, &record))
    }

    /// Where the inode's log ended.
    ///
    /// # Errors
    /// As [`Snapshot::attributes`].
    pub fn log_end(&self, ino: InodeNumber) -> Outcome<LogEnd> {
        let (place, record) = self.record(ino)?;
        let last = |last: &mut i64, _, entry: &Entry<'_>, time_ns| {
            if !matches!(entry, Entry::Pad) {
                *last = time_ns;
            }
        };
        let begin = record.certificate.birth_ns;
        let folded = Log::of(&self.volume).fold_record(place, &record, begin, last);
        Ok(LogEnd {
            tail: record.commit.tail.0,
            time_ns: self.checked(folded)?.0,
        })
    }

    /// What changed of a file since a snapshot in which its log ended there. `None`: that cannot be told, because the log was
    /// compacted since, or data may have been written in place.
    ///
    /// # Errors
    /// As [`Snapshot::attributes`].
    pub fn changes_since(
        &self,
        ino: InodeNumber,
        since: LogEnd,
    ) -> Outcome<Option<Vec<Range<u64>>>> {
        let (place, record) = self.record(ino)?;
        let begin = Changes::since(since, &record);
        let folded = Log::of(&self.volume).fold_record(place, &record, begin, Changes::add);
        Ok(self.checked(folded)?.0.into_ranges())
    }

    /// Names in a directory, without `.` and `..`, in the order in which they were made.
    ///
    /// # Errors
    /// As [`Snapshot::attributes`]; `ENOTDIR`.
    pub fn names(&self, directory: InodeNumber) -> Outcome<Vec<SnapshotName>> {
        let (place, record) = self.record(directory)?;
        if FileKind::from_mode(record.certificate.mode) != Some(FileKind::Directory) {
            return Err(Errno(libc::ENOTDIR));
        }
        type Found = HashMap<LogPosition, (u64, SnapshotName)>;
        let fold = |found: &mut Found, position, entry: &Entry<'_>, _| match *entry {
            Entry::NameAdd {
                ino,
                kind,
                cookie,
                name,
            } => {
                if let Some(kind) = kind_of(kind) {
                    let name = SnapshotName {
                        name: name.to_vec(),
                        ino: InodeNumber(ino),
                        kind,
                    };
                    found.insert(position, (cookie, name));
                }
            }
            Entry::NameRemove { added } => {
                found.remove(&added);
            }
            _ => {}
        };
        let folded = Log::of(&self.volume).fold_record(place, &record, Found::new(), fold);
        let (found, _) = self.checked(folded)?;
        let mut names: Vec<(u64, SnapshotName)> = found.into_values().collect();
        names.sort_by_key(|(cookie, _)| *cookie);
        Ok(names.into_iter().map(|(_, name)| name).collect())
    }

    /// Extended attributes by name, as a copy of the inode should have them.
    ///
    /// # Errors
    /// As [`Snapshot::attributes`].
    pub fn xattrs(&self, ino: InodeNumber) -> Outcome<Vec<(Vec<u8>, Vec<u8>)>> {
        let (place, record) = self.record(ino)?;
        let all = Log::of(&self.volume).xattrs_of_record(place, &record);
        let is_directory =
            FileKind::from_mode(record.certificate.mode) == Some(FileKind::Directory);
        let is_copied =
            |name: &[u8]| !is_of_quotas(name) && (is_directory || name != striping::ATTRIBUTE);
        let all = self.checked(all)?.into_iter();
        Ok(all.filter(|(name, _)| is_copied(name)).collect())
    }

    /// A file, or a symbolic link: its target is its data.
    ///
    /// # Errors
    /// As [`Snapshot::attributes`].
    pub fn file(&self, ino: InodeNumber) -> Outcome<SnapshotFile> {
        let (place, record) = self.record(ino)?;
        let blocks = Log::of(&self.volume).blocks_of_record(place, &record);
        Ok(SnapshotFile(self.checked(blocks)?))
    }

    /// Read up to the end of file; returns the bytes read.
    ///
    /// # Errors
    /// `ESTALE` when the snapshot ended early; `EIO` when a block cannot be read, or does not match its checksum.
    pub fn read(&self, file: &SnapshotFile, offset_bytes: u64, into: &mut [u8]) -> Outcome<usize> {
        let left = file.size_bytes().saturating_sub(offset_bytes);
        let bytes = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut done = 0;
        let mut block = [0; BLOCK];
        while done < bytes {
            let at = offset_bytes + done as u64;
            let (file_block, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let count = (BLOCK - within).min(bytes - done);
            let read = self.read_block(&file.0, file_block, &mut block);
            self.checked(read)?;
            into[done..done + count].copy_from_slice(&block[within..within + count]);
            done += count;
        }
        Ok(bytes)
    }

    fn read_block(
        &self,
        blocks: &CommittedBlocks,
        file_block: u64,
        bytes: &mut [u8; BLOCK],
    ) -> Outcome<()> {
        let (word, _) = blocks.run_at(file_block);
        if !word.has_data() {
            bytes.fill(0);
            return Ok(());
        }
        let holds = |geometry: &Geometry| geometry.holds(word.block(), 1);
        let geometry = self.volume.geometry_of(word.pool());
        if !geometry.is_some_and(holds) {
            return Err(Errno(libc::EIO));
        }
        let matches = Reading::of(&self.volume).read_committed(blocks, file_block, bytes)?;
        matches.then_some(()).ok_or(Errno(libc::EIO))
    }

    /// What was read, if the snapshot had not ended before: blocks may have been used again then.
    fn checked<T>(&self, read: Outcome<T>) -> Outcome<T> {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.check()?;
        read
    }

    /// The inode's record at the instant of the snapshot.
    fn record(&self, ino: InodeNumber) -> Outcome<(LogPlace, Record)> {
        let words = self.checked(self.kept(ino.0))?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let certificate = &bytes[CERTIFICATE_AT as usize..][..LINE];
        let certificate: &[u8; LINE] = certificate.try_into().map_err(|_| Errno(libc::EIO))?;
        let moved = if self.volume.superblock().version >= FIRST_VERSION_WITH_MOVES {
            words[MOVED_AT as usize / 8]
        } else {
            0
        };
        let commit = words[COMMIT_WORD_AT as usize / 8];
        let record = Record::decode(ino.0, commit, certificate, moved);
        let record = record
            .map_err(|_| Errno(libc::EIO))?
            .ok_or(Errno(libc::EIO))?;
        let head = HEADS_AT as usize / 8 + usize::from(record.commit.head_index);
        let place = LogPlace {
            unlocked: true,
            head: words.get(head).copied(),
            ..record.log_place(ino.0)
        };
        Ok((place, record))
    }

    /// The words of the record, as kept by the first change of the inode since, or now.
    fn kept(&self, ino: u64) -> Outcome<[u64; RECORD_WORDS]> {
        let snapshots = Snapshots::of(&self.volume);
        loop {
            if let Some(words) = snapshots.kept(ino, self.number)? {
                return Ok(words);
            }
            self.check()?;
            let me = self.volume.me()?;
            let locked = patience::within(PATIENCE, || self.volume.lock_as_it_is(me, ino));
            let locked = locked.map_err(|_| Errno(libc::EBUSY))??;
            snapshots.keep(locked.ino, self.number)?;
        }
    }
}

/// What changed of a file since its log had a certain end.
struct Changes {
    since: LogEnd,
    /// Whether that end was passed.
    is_passed: bool,
    /// Whether data may have been written without an entry.
    is_in_place: bool,
    /// Whether an entry follows that end.
    has_more: bool,
    last_ns: i64,
    size_bytes: u64,
    ranges: Vec<Range<u64>>,
}

impl Changes {
    fn since(since: LogEnd, record: &Record) -> Changes {
        let certificate = &record.certificate;
        let mut changes = Changes {
            since,
            is_passed: false,
            is_in_place: certificate.layout.stripe_blocks().is_some(),
            has_more: false,
            last_ns: certificate.birth_ns,
            size_bytes: 0,
            ranges: Vec::new(),
        };
        changes.look(LogPosition::NONE);
        changes
    }

    /// Whether the log ended here. The time tells whether it is still that log: after a snapshot, times are later than before.
    fn look(&mut self, end: LogPosition) {
        let is_there = end.0 == self.since.tail && self.last_ns == self.since.time_ns;
        self.is_passed |= is_there;
    }

    fn add(&mut self, position: LogPosition, entry: &Entry<'_>, time_ns: i64) {
        self.look(position);
        let size_before = self.size_bytes;
        let changed = match *entry {
            Entry::Pad => return,
            Entry::Write(write) => {
                self.size_bytes = write.size_bytes;
                blocks(write.file_block, write.count)
            }
            Entry::Hole {
                file_block,
                count,
                size_bytes,
            } => {
                self.size_bytes = size_bytes;
                blocks(file_block, count)
            }
            Entry::Attributes(state) => {
                self.size_bytes = state.size_bytes;
                if state.size_bytes < size_before {
                    state.size_bytes..u64::MAX
                } else {
                    0..0
                }
            }
            Entry::XattrSet { name, .. } | Entry::XattrRemove { name } => {
                self.is_in_place |= name == striping::ATTRIBUTE;
                0..0
            }
            Entry::NameAdd { .. } | Entry::NameRemove { .. } => 0..0,
        };
        self.last_ns = time_ns;
        if self.is_passed {
            self.has_more = true;
            // Bytes behind the end of file are written into its last block, which has a place already.
            let grown = size_before..self.size_bytes;
            let changed = [changed, grown].into_iter();
            self.ranges
                .extend(changed.filter(|range| !range.is_empty()));
        }
        self.look(position.at_line(position.line().saturating_add(entry.lines())));
    }

    fn into_ranges(self) -> Option<Vec<Range<u64>>> {
        if !self.is_passed || self.is_in_place && self.has_more {
            return None;
        }
        let mut ranges = sorted_apart(self.ranges);
        for range in &mut ranges {
            range.end = range.end.min(self.size_bytes);
        }
        ranges.retain(|range| !range.is_empty());
        Some(ranges)
    }
}

fn blocks(first: u64, count: u64) -> Range<u64> {
    let at = |block: u64| block.saturating_mul(BLOCK as u64);
    at(first)..at(first.saturating_add(count))
}

impl SnapshotFile {
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes
    }

    /// The first range with data at an offset or behind it; none before the end of file: `None`.
    pub fn data_from(&self, offset_bytes: u64) -> Option<Range<u64>> {
        let first = self.0.next_data(offset_bytes / BLOCK as u64)?;
        let start = (first * BLOCK as u64).max(offset_bytes);
        let end = self.0.next_hole(first).saturating_mul(BLOCK as u64);
        let end = end.min(self.size_bytes());
        (start < end).then_some(start..end)
    }
}
