//! Reading all of a volume while it is in use, to find damage before a program reads it.
//!
//! Logs and records are read from the media again, whatever the session has loaded of them. An inode's lock is held
//! for one piece at a time, so that other threads do not wait long. It is never held while the caller pauses.

use crate::data::Reading;
use crate::format::place::LogPlace;
use crate::format::*;
use crate::log::Log;
use crate::recovery::Recovery;
use crate::recovery::check::printable;
use crate::requests::*;
use crate::session::Admitting;
use crate::session::inode::Locked;
use crate::session::layout::LOADED;
use crate::session::volume::Volume;
use crate::types::*;
use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// Log pages read under one lock: tens of microseconds.
const PAGES_AT_ONCE: u32 = 16;
/// A log that was replaced this often during its scrub is read under one lock.
const MAX_BEGINNINGS: u32 = 4;
/// File blocks read under one lock.
const BLOCKS_AT_ONCE: usize = 64;

/// Progress of a scrub, for the caller that sets its pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubProgress {
    pub inodes: u64,
    /// Inodes there were when it began.
    pub all_inodes: u64,
    /// Read so far, bytes.
    pub read_bytes: u64,
}

/// What a scrub read and found.
#[derive(Clone, Debug, Default)]
pub struct ScrubReport {
    /// Everything wrong.
    pub findings: Vec<Finding>,
    /// Inodes looked at.
    pub inodes: u64,
    /// Of logs and records, bytes.
    pub metadata_bytes: u64,
    /// Of files, bytes.
    pub data_bytes: u64,
    /// Inodes not read completely, because memory or a place in the session was missing.
    pub unread: u64,
    /// It came to its end.
    pub complete: bool,
}

/// Called between two pieces, without any lock: may sleep, and may end the scrub.
pub type Pause<'a> = &'a mut dyn FnMut(ScrubProgress) -> ControlFlow<()>;

/// A scrub was ended by its caller.
pub(super) struct Stopped;

pub(super) struct Scrub<'a, 'p> {
    pub(super) volume: &'a Volume,
    pub(super) pause: Pause<'p>,
    pub(super) progress: ScrubProgress,
    pub(super) report: ScrubReport,
    /// Inodes with findings, for their paths.
    pub(super) damaged: Vec<(u64, String)>,
}

/// Whether the error means that the inode is gone.
fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno(libc::ESTALE | libc::ENOENT))
}

/// Where the next piece of a log begins, and the conditions under which this is still valid.
#[derive(Clone, Copy)]
struct Resume {
    at: LogPosition,
    pages_before: u32,
    generation: u32,
    head: (u8, u64),
}

impl Recovery<'_> {
    /// Collect damage found from now on; returns the damage found before.
    pub(crate) fn collect_findings(self, on: bool) -> Vec<String> {
        match self.volume.findings.lock() {
            Ok(mut findings) => std::mem::replace(&mut *findings, on.then(Vec::new)),
            Err(_) => None,
        }
        .unwrap_or_default()
    }

    /// Paths of these inodes, as far as directories can be read.
    pub(crate) fn paths_of(self, wanted: &HashSet<u64>) -> HashMap<u64, String> {
        let root = InodeNumber::ROOT;
        let mut paths = HashMap::from([(root.0, "/".to_owned())]);
        let mut queue = VecDeque::from([(root, String::new())]);
        while let Some((directory, path)) = queue.pop_front() {
            let _ = self.volume.read_directory(directory, 0, &mut |entry| {
                if entry.name == b"." || entry.name == b".." {
                    return true;
                }
                let full = format!("{path}/{}", printable(entry.name));
                if wanted.contains(&entry.ino.0) {
                    paths.entry(entry.ino.0).or_insert_with(|| full.clone());
                }
                if entry.kind == FileKind::Directory {
                    queue.push_back((entry.ino, full));
                }
                true
            });
        }
        paths
    }
}

/// What stands for the path of an inode that has none.
pub(crate) fn without_name(ino: u64) -> String {
    format!("inode {ino}, which no directory names")
}

impl Scrub<'_, '_> {
    pub(super) fn all_inodes(&mut self, data: bool) -> Result<(), Stopped> {
        let mut records = Vec::new();
        Recovery::of(self.volume).for_each_record(&mut |ino, _| records.push(ino));
        for ino in records {
            let mut is_read = self.log(ino)?;
            if data {
                is_read &= self.data(ino)?;
            }
            self.report.unread += u64::from(!is_read);
            self.progress.inodes += 1;
            self.report.inodes += 1;
        }
        Ok(())
    }

    fn rest(&mut self) -> Result<(), Stopped> {
        match (self.pause)(self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stopped),
        }
    }

    fn read(&mut self, metadata_bytes: u64, data_bytes: u64) {
        self.report.metadata_bytes += metadata_bytes;
        self.report.data_bytes += data_bytes;
        self.progress.read_bytes += metadata_bytes + data_bytes;
    }

    /// Read the record and the log, piece by piece; returns whether they could be read. Damage counts only if the
    /// whole log, read under one lock, shows it: between two pieces another log can replace it.
    fn log(&mut self, ino: u64) -> Result<bool, Stopped> {
        let mut resume: Option<Resume> = None;
        let mut beginnings = 0;
        while beginnings < MAX_BEGINNINGS {
            let walked = self.log_piece(ino, resume, PAGES_AT_ONCE);
            Recovery::of(self.volume).collect_findings(true);
            match walked {
                Ok(Some(next)) => {
                    beginnings += u32::from(resume.is_none_or(|last| last.head != next.head));
                    resume = Some(next);
                }
                Ok(None) => return self.rest().map(|()| true),
                Err(Errno(libc::EIO)) => break,
                Err(errno) => return self.rest().map(|()| is_gone(errno)),
            }
            self.rest()?;
        }
        let walked = self.log_piece(ino, None, u32::MAX);
        let said = Recovery::of(self.volume).collect_findings(true);
        self.rest()?;
        Ok(match walked {
            Ok(_) => true,
            Err(Errno(libc::EIO)) => {
                self.found(ino, said, "its log cannot be read");
                true
            }
            Err(errno) => is_gone(errno),
        })
    }

    fn found(&mut self, ino: u64, said: Vec<String>, otherwise: &str) {
        let said = if said.is_empty() {
            vec![format!("inode {ino}: {otherwise}")]
        } else {
            said
        };
        let known = &mut self.damaged;
        for line in said {
            if !known.iter().any(|(_, known)| *known == line) {
                known.push((ino, line));
            }
        }
    }

    /// Walk at most this many pages of a log; returns where to continue, `None` at its end.
    fn log_piece(
        &mut self,
        ino: u64,
        resume: Option<Resume>,
        max_pages: u32,
    ) -> Outcome<Option<Resume>> {
        let volume = self.volume;
        let locked = volume.lock_unloaded(volume.me()?, ino)?;
        let record = volume.read_record(ino)?;
        let (pool, at) = volume.record_place(ino)?;
        let head_index = record.commit.head_index;
        let word = volume.load_word(pool, at + HEADS_AT + 8 * u64::from(head_index))?;
        let (generation, head) = (record.certificate.generation, (head_index, word));
        let same = |resume: &Resume| resume.generation == generation && resume.head == head;
        let resume = resume.filter(same);
        let place = LogPlace {
            generation,
            pages_before: resume.map_or(0, |resume| resume.pages_before),
            ..locked.log_place()
        };
        let from = resume.map_or(LogPosition::NONE, |resume| resume.at);
        let (entered, next) = (Cell::new(0), Cell::new(None));
        let full = Errno(libc::ECANCELED);
        let walked = Log::of(volume).walk_log(
            place,
            record.commit,
            from,
            &mut |page| {
                entered.set(entered.get() + 1);
                if entered.get() <= max_pages {
                    return Ok(());
                }
                next.set(Some(Resume {
                    at: page.at_line(1),
                    pages_before: place.pages_before + entered.get(),
                    generation,
                    head,
                }));
                Err(full)
            },
            &mut |_, _, _| Ok(()),
        );
        drop(locked);
        self.read(u64::from(entered.get()) * BLOCK as u64 + INODE_BYTES, 0);
        match walked {
            Err(errno) if errno == full => Ok(next.get()),
            walked => walked.map(|()| None),
        }
    }

    /// Read the written blocks of a file; returns whether they could be examined.
    fn data(&mut self, ino: u64) -> Result<bool, Stopped> {
        let (mut block, mut loaded_here) = (0, false);
        loop {
            let piece = self.data_piece(ino, block, &mut loaded_here);
            Recovery::of(self.volume).collect_findings(true);
            self.rest()?;
            match piece {
                Ok(Some(next)) => block = next,
                Ok(None) => return Ok(true),
                // Errors of its log were found before.
                Err(errno) => return Ok(is_gone(errno) || errno == Errno(libc::EIO)),
            }
        }
    }

    /// Read some blocks; returns the next one, `None` at the end.
    fn data_piece(&mut self, ino: u64, from: u64, loaded_here: &mut bool) -> Outcome<Option<u64>> {
        let volume = self.volume;
        let _admitted = Admitting::of(volume).admit_scrub(ino, (BLOCKS_AT_ONCE * BLOCK) as u64)?;
        let locked = volume.lock_unloaded(volume.me()?, ino)?;
        let kind = FileKind::from_mode(volume.read_record(ino)?.certificate.mode);
        if !matches!(kind, Some(FileKind::Regular | FileKind::Symlink)) {
            return Ok(None);
        }
        if locked.inode.state.load(Ordering::Acquire) != LOADED {
            volume.load(&locked)?;
            *loaded_here = true;
        }
        let next = self.read_blocks(&locked, from);
        // Inodes that no process has open are unloaded from the session again.
        if next.is_none() && *loaded_here && !volume.session.is_open_anywhere(ino, locked.inode) {
            volume.unload(&locked);
        }
        Ok(next)
    }

    fn read_blocks(&mut self, locked: &Locked<'_>, from: u64) -> Option<u64> {
        let mut bad = Vec::new();
        let volume = self.volume;
        let (next, read) =
            Reading::of(volume)
                .verify_blocks(locked, from, BLOCKS_AT_ONCE, &mut |found| bad.push(found));
        self.read(0, read * BLOCK as u64);
        for bad in bad {
            self.found(locked.ino, Vec::new(), &bad.text());
        }
        next
    }

    /// Add the paths that findings refer to.
    pub(super) fn name_findings(&mut self) {
        let paths = if self.damaged.is_empty() {
            HashMap::new()
        } else {
            let damaged: HashSet<u64> = self.damaged.iter().map(|(ino, _)| *ino).collect();
            Recovery::of(self.volume).paths_of(&damaged)
        };
        for (ino, what) in std::mem::take(&mut self.damaged) {
            let affects = paths.get(&ino).cloned();
            self.report.findings.push(Finding {
                what,
                affects: affects.unwrap_or_else(|| without_name(ino)),
                repairable: false,
            });
        }
    }
}
