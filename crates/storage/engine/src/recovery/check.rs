//! Checking all of a volume: superblocks, every log, the tree, link counts, and that no block has two owners. A check
//! recovers the volume like an attach, with its own session and its own copy of the pools.

use crate::attach::attach_volume::{create_session, lock_for_check};
use crate::attach::pools::{Found, find_pools, open_pool, read_superblock, superblock_of};
use crate::attach::private::{PrivateMemory, agreed_superblock};
use crate::data::Reading;
use crate::data::verified::BadBlocks;
use crate::format::*;
use crate::log::committed::CommittedBlocks;
use crate::log::staging::Staged;
use crate::log::{Log, NameTable};
use crate::namespace::{Naming, TreeWalks};
use crate::recovery::Recovery;
use crate::requests::*;
use crate::session::Stamps;
use crate::session::inode::Locked;
use crate::session::volume::{Origin, Volume};
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::*;
use egeria_media::{BlockNumber, Pool};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directory that unreachable inodes are linked into.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Verify all of a volume that no process has attached; `progress(done, total)` is called at intervals.
///
/// The check works on a private copy of the pools (copied on write), which it recovers like an attach. The pools
/// themselves change only when a repair is wanted and something was repaired.
///
/// # Errors
/// As [`Volume::attach`]; `EBUSY` when a process has it attached. Damage is no error but a finding.
pub fn check_volume<'a>(
    pool: &Path,
    repair: impl Into<Repair<'a>>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport, VolumeError> {
    let repair = repair.into();
    FaultHandling::Engine.prepare()?;
    let found = find_pools(pool)?;
    let _locks = lock_for_check(&found)?;
    let mut report = CheckReport::default();
    let damaged = damaged_superblocks(&found, &mut report)?;
    let volume = create_session(found, &AttachOptions::default(), false, Origin::Private)?;
    let wanted = repair != Repair::No;
    let report = check_contents(&volume, wanted, report, &damaged, progress)?;
    if let Repair::Yes { undo } = repair
        && report.repaired > 0
    {
        Recovery::of(&volume).keep_changes(undo)?;
    }
    Ok(report)
}

/// Recover the volume on these pools and check it. With `repair`, repair in place what can be repaired, as on device
/// DAX.
///
/// # Errors
/// `EINVAL` when these are no pools of one volume, `ENOMEM` without memory for a session, `EIO` when it cannot be recovered.
pub fn check_private(
    pools: &[Arc<Pool>],
    memory: &mut PrivateMemory,
    clock_ns: i64,
    repair: bool,
) -> Result<CheckReport, VolumeError> {
    let mut report = CheckReport::default();
    let damaged = damaged_copies(pools, &mut report)?;
    let volume = Volume::attach_private(pools, memory, &AttachOptions::default())?;
    volume.set_clock(clock_ns);
    check_contents(&volume, repair, report, &damaged, &mut |_, _| {})
}

/// Verify the content of an attached volume that collects its findings; with `repair`, repair it in place.
pub(crate) fn check_contents(
    volume: &Arc<Volume>,
    repair: bool,
    report: CheckReport,
    damaged: &[DamagedCopy],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport, VolumeError> {
    let mut check = Check {
        volume,
        repair,
        report,
        names: NameCounts::default(),
        told: HashSet::new(),
        unnamed: Vec::new(),
    };
    check.repair_superblocks(damaged)?;
    check.collect_damage();
    check.walk_tree(progress);
    check.match_records();
    check.verify_data(progress);
    check.collect_damage();
    check.name_findings();
    let space = volume.space(None);
    check.report.used_blocks = space.blocks - space.free_blocks;
    Ok(check.report)
}

/// A damaged copy of a pool's superblock, and its correct content.
pub(crate) struct DamagedCopy {
    pool: usize,
    copy: usize,
    good: Superblock,
}

fn damaged_superblocks(
    found: &Found,
    report: &mut CheckReport,
) -> Result<Vec<DamagedCopy>, VolumeError> {
    let mut all = Vec::new();
    for (pool, (file, path)) in found.files.iter().zip(&found.paths).enumerate() {
        let Some(file) = file else { continue };
        let (_, damaged) = read_superblock(file, path)?;
        let Some(copy) = damaged else { continue };
        let good = Superblock {
            pool_index: pool as u8,
            ..found.superblock.clone()
        };
        report.findings.push(superblock_finding(copy, path));
        all.push(DamagedCopy { pool, copy, good });
    }
    Ok(all)
}

/// As `damaged_superblocks`, of pools that are mapped.
pub(crate) fn damaged_copies(
    pools: &[Arc<Pool>],
    report: &mut CheckReport,
) -> Result<Vec<DamagedCopy>, VolumeError> {
    let mut all = Vec::new();
    let current = agreed_superblock(pools)?;
    for (pool, media) in pools.iter().enumerate() {
        if !current.has_pool(pool) {
            continue;
        }
        let (_, damaged) = superblock_of(media)?;
        let Some(copy) = damaged else { continue };
        let good = Superblock {
            pool_index: pool as u8,
            ..current.clone()
        };
        let finding = superblock_finding(copy, media.path());
        report.findings.push(finding);
        all.push(DamagedCopy { pool, copy, good });
    }
    Ok(all)
}

fn superblock_finding(copy: usize, path: &Path) -> Finding {
    Finding {
        what: format!("superblock copy {copy} of {} is damaged", path.display()),
        affects: "nothing while the other copy is whole".into(),
        repairable: true,
    }
}

/// Damaged copies of superblocks.
pub(crate) fn superblock_findings(paths: &[PathBuf]) -> Result<Vec<Finding>, VolumeError> {
    let mut all = Vec::new();
    for path in paths.iter().filter(|path| !path.as_os_str().is_empty()) {
        let (_, damaged) = read_superblock(&open_pool(path)?.1, path)?;
        all.extend(damaged.map(|copy| superblock_finding(copy, path)));
    }
    Ok(all)
}

/// A name for display: characters that would end the line or control a terminal are escaped.
pub(crate) fn printable(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let escaped = |letter: char| {
        if letter.is_control() {
            letter.escape_default().to_string()
        } else {
            letter.to_string()
        }
    };
    text.chars().map(escaped).collect()
}

/// Inodes whose counts lie together.
const COUNTS_TOGETHER: u64 = 512;

/// Names that were found of an inode, and names that it counts itself.
#[derive(Clone, Copy, Default)]
struct NameCount {
    found: u32,
    counted: u32,
}

/// Of all inodes: 8 bytes each.
#[derive(Default)]
struct NameCounts(HashMap<u64, Box<[NameCount; COUNTS_TOGETHER as usize]>>);

impl NameCounts {
    fn of(&mut self, ino: u64) -> &mut NameCount {
        let together = self.0.entry(ino / COUNTS_TOGETHER);
        let counts = together.or_insert_with(|| Box::new([NameCount::default(); _]));
        &mut counts[(ino % COUNTS_TOGETHER) as usize]
    }

    fn found(&self, ino: u64) -> NameCount {
        let together = self.0.get(&(ino / COUNTS_TOGETHER));
        together.map_or(NameCount::default(), |counts| {
            counts[(ino % COUNTS_TOGETHER) as usize]
        })
    }
}

/// The state of inodes in the session is not made, except of directories and of what is repaired. So the memory of a check does not
/// grow with the state of all files.
struct Check<'a> {
    volume: &'a Arc<Volume>,
    repair: bool,
    report: CheckReport,
    names: NameCounts,
    /// Lines of damage that are findings.
    told: HashSet<String>,
    /// Findings that get the path of an inode in the end.
    unnamed: Vec<(usize, u64)>,
}

/// A name as a directory gives it.
struct Name {
    ino: u64,
    kind: FileKind,
    name: Vec<u8>,
}

/// A directory that is to be checked.
struct Directory {
    ino: u64,
    parent: u64,
    path: String,
}

/// What a finding is about.
#[derive(Clone, Copy)]
enum Affected<'a> {
    Path(&'a str),
    Inode(u64),
}

impl Check<'_> {
    fn repair_superblocks(&mut self, damaged: &[DamagedCopy]) -> Result<(), VolumeError> {
        for each in damaged.iter().filter(|_| self.repair) {
            let at = BlockNumber(SUPERBLOCK_COPIES[each.copy]).offset();
            let media = &self.volume.media[each.pool];
            media
                .write_bytes(at, &each.good.encode())
                .map_err(|error| failure(libc::EIO, error.to_string()))?;
            // Device DAX is repaired in place.
            media.flush(at, SUPERBLOCK_BYTES as u64);
            media.fence();
            self.report.repaired += 1;
        }
        Ok(())
    }

    fn find(&mut self, what: String, affected: Affected<'_>, repairable: bool) {
        let affects = match affected {
            Affected::Path(path) => path.to_owned(),
            Affected::Inode(ino) => {
                self.unnamed.push((self.report.findings.len(), ino));
                String::new()
            }
        };
        self.report.findings.push(Finding {
            what,
            affects,
            repairable,
        });
    }

    /// Find the paths of inodes with findings.
    fn name_findings(&mut self) {
        if self.unnamed.is_empty() {
            return;
        }
        let wanted = self.unnamed.iter().map(|(_, ino)| *ino).collect();
        let mut paths = Recovery::of(self.volume).paths_of(&wanted);
        for (finding, ino) in self.unnamed.drain(..) {
            let path = paths.entry(ino).or_insert_with(|| format!("inode {ino}"));
            self.report.findings[finding].affects.clone_from(path);
        }
    }

    /// Report a finding that can be repaired. If a repair is wanted, it is made, or the finding says why not.
    fn find_and_repair(
        &mut self,
        what: String,
        affected: Affected<'_>,
        repair: impl FnOnce(&Self) -> Outcome<()>,
    ) {
        if !self.repair {
            return self.find(what, affected, true);
        }
        match repair(self) {
            Ok(()) => {
                self.report.repaired += 1;
                self.find(what, affected, true);
            }
            Err(errno) => self.find(format!("{what}; no repair: {errno}"), affected, false),
        }
    }

    /// Take over damage that loading met.
    fn collect_damage(&mut self) {
        let lines = self
            .volume
            .findings
            .lock()
            .ok()
            .and_then(|mut lines| lines.replace(Vec::new()))
            .unwrap_or_default();
        for line in lines {
            if self.told.insert(line.clone()) {
                let affected = Affected::Path("see the path it is named with");
                self.find(line, affected, false);
            }
        }
    }

    fn walk_tree(&mut self, progress: &mut dyn FnMut(u64, u64)) {
        let space = self.volume.space(None);
        let total = space.inodes - space.free_inodes;
        let root = InodeNumber::ROOT.0;
        self.names.of(root).found = 1;
        self.report.inodes = 1;
        let mut queue = VecDeque::from([Directory {
            ino: root,
            parent: root,
            path: "/".into(),
        }]);
        while let Some(directory) = queue.pop_front() {
            self.report.directories += 1;
            self.check_directory(&directory, &mut queue);
            progress(self.report.inodes, total);
        }
    }

    fn check_directory(&mut self, directory: &Directory, queue: &mut VecDeque<Directory>) {
        let path = Affected::Path(&directory.path);
        let mut names = Vec::new();
        let ino = InodeNumber(directory.ino);
        let walked = self.volume.read_directory(ino, 0, &mut |entry| {
            match entry.name {
                b"." => {}
                b".." if entry.ino.0 == directory.parent => {}
                name => names.push(Name {
                    ino: entry.ino.0,
                    kind: entry.kind,
                    name: name.to_vec(),
                }),
            }
            true
        });
        if let Err(errno) = walked {
            let what = format!("directory {} cannot be read: {errno}", directory.path);
            self.find(what, path, false);
            return;
        }
        for name in names {
            self.check_name(directory, name, queue);
        }
        if let Ok(locked) = self.volume.lock(directory.ino) {
            self.volume.unload(&locked);
        }
    }

    fn check_name(&mut self, directory: &Directory, name: Name, queue: &mut VecDeque<Directory>) {
        let path = &directory.path;
        if name.name == b".." {
            let what = format!("{path} names inode {} as its parent", name.ino);
            self.find(what, Affected::Path(path), false);
            return;
        }
        let full = format!("{}/{}", path.trim_end_matches('/'), printable(&name.name));
        let affected = Affected::Path(&full);
        match self.kind_and_names(name.ino) {
            Ok((kind, counted)) if kind == name.kind => {
                let count = self.names.of(name.ino);
                count.found += 1;
                count.counted = counted;
                let is_known = count.found > 1;
                self.report.inodes += u64::from(!is_known);
                if !is_known {
                    self.check_target(name.ino, name.kind, affected);
                }
                if name.kind == FileKind::Directory {
                    if is_known {
                        let what =
                            format!("directory inode {} has two names, {full} is one", name.ino);
                        self.find(what, affected, false);
                    } else {
                        queue.push_back(Directory {
                            ino: name.ino,
                            parent: directory.ino,
                            path: full,
                        });
                    }
                }
            }
            Ok((kind, _)) => {
                let what = format!("{full} says it is {:?}, its inode is {kind:?}", name.kind);
                self.find(what, affected, false);
            }
            Err(Errno(libc::ESTALE)) => {
                let what = format!("{full} names inode {}, which does not exist", name.ino);
                self.find_and_repair(what, affected, |check| {
                    check.remove_dangling(directory.ino, &name.name)
                });
            }
            Err(errno) => self.find(format!("{full} cannot be used: {errno}"), affected, false),
        }
    }

    /// What an inode is, and how many names it counts, from its record and log. The log of a directory is checked when its names are
    /// read.
    fn kind_and_names(&self, ino: u64) -> Outcome<(FileKind, u32)> {
        let record = self.volume.read_record(ino)?;
        if FileKind::from_mode(record.certificate.mode) == Some(FileKind::Directory) {
            return Ok((FileKind::Directory, 0));
        }
        let attributes = Log::of(self.volume).verified_attributes(ino, &record)?;
        Ok((attributes.kind(), attributes.nlink))
    }

    /// Check that a symbolic link can be read. `verify_data` reports data that does not match its checksum.
    fn check_target(&mut self, ino: u64, kind: FileKind, affected: Affected<'_>) {
        if kind == FileKind::Symlink
            && self.bad_blocks(ino).unwrap_or_default().is_empty()
            && let Err(errno) = self.read_target(ino)
        {
            let name = match affected {
                Affected::Path(path) => path.to_owned(),
                Affected::Inode(ino) => format!("inode {ino}"),
            };
            self.find(format!("{name} cannot be read: {errno}"), affected, false);
        }
    }

    fn read_target(&self, ino: u64) -> Outcome<()> {
        let blocks = self.blocks_of(ino)?;
        if blocks.size_bytes == 0 || !blocks.run_at(0).0.has_data() {
            return Err(self.volume.damaged(ino, "target of a symbolic link"));
        }
        let read = Reading::of(self.volume).read_committed(&blocks, 0, &mut [0; BLOCK])?;
        read.then_some(()).ok_or(Errno(libc::EIO))
    }

    /// The blocks of a file or symbolic link, from its log.
    fn blocks_of(&self, ino: u64) -> Outcome<CommittedBlocks> {
        let record = self.volume.read_record(ino)?;
        let log = Log::of(self.volume);
        log.verified_attributes(ino, &record)?;
        log.blocks_of_record(record.log_place(ino), &record)
    }

    fn remove_dangling(&self, directory: u64, name: &[u8]) -> Outcome<()> {
        let volume = self.volume;
        let locked = Naming::of(volume).lock_for_change(InodeNumber(directory))?;
        let found = NameTable::of(volume)
            .find_name(&locked, name)?
            .ok_or(Errno(libc::ENOENT))?;
        let entry = Entry::NameRemove {
            added: found.position,
        };
        self.change(&locked, Need::Freeing, &entry)
    }

    /// Commits an entry to the log of an inode, and applies it.
    fn change(&self, locked: &Locked<'_>, need: Need, entry: &Entry<'_>) -> Outcome<()> {
        let volume = self.volume;
        let mut operation = Operation::new(volume, locked.me);
        let mut staged = Staged::begin(locked, need)?;
        let time_ns = Stamps::of(volume).now_ns();
        let at = staged.add(&mut operation, entry, time_ns)?;
        operation.commit(&[&staged])?;
        Log::of(volume).apply_commit(locked, &staged, || {
            Log::of(volume).apply_entry(locked, &mut operation, at, entry, time_ns, false)
        })?;
        operation.finish();
        Ok(())
    }

    /// Compare the records in use with the inodes reached from the tree.
    fn match_records(&mut self) {
        let mut wrong = Vec::new();
        Recovery::of(self.volume).for_each_record(&mut |ino, _| {
            let count = self.names.found(ino);
            let is_directory = || {
                let record = self.volume.read_record(ino);
                let kind = record.map(|record| FileKind::from_mode(record.certificate.mode));
                kind == Ok(Some(FileKind::Directory))
            };
            if count.found == 0 || count.found != count.counted && !is_directory() {
                wrong.push((ino, count));
            }
        });
        for (ino, NameCount { found, counted }) in wrong {
            if found > 0 {
                let what = format!("inode {ino} has {found} names but counts {counted}");
                self.find_and_repair(what, Affected::Inode(ino), |check| {
                    check.set_links(ino, found)
                });
                continue;
            }
            let attributes = self
                .volume
                .read_record(ino)
                .and_then(|record| Log::of(self.volume).verified_attributes(ino, &record));
            if let Ok(attributes) = attributes {
                self.unreachable(ino, &attributes);
            }
        }
    }

    /// Read the files that have checksums.
    fn verify_data(&mut self, progress: &mut dyn FnMut(u64, u64)) {
        let space = self.volume.space(None);
        let total = space.inodes - space.free_inodes;
        let mut done = 0;
        Recovery::of(self.volume).for_each_record(&mut |ino, _| {
            progress(done, total);
            done += 1;
            // Errors of its record and log were found before.
            for bad in self.bad_blocks(ino).unwrap_or_default() {
                let what = format!(
                    "{}, reading them answers EIO; the rest of the file is whole",
                    bad.text()
                );
                self.find(what, Affected::Inode(ino), false);
            }
        });
    }

    fn bad_blocks(&self, ino: u64) -> Outcome<Vec<BadBlocks>> {
        let mut all = Vec::new();
        let certificate = self.volume.read_record(ino)?.certificate;
        let is_directory = FileKind::from_mode(certificate.mode) == Some(FileKind::Directory);
        if certificate.checksums && !is_directory {
            let blocks = self.blocks_of(ino)?;
            Reading::of(self.volume).verify_committed(&blocks, &mut |bad| all.push(bad));
        }
        Ok(all)
    }

    fn unreachable(&mut self, ino: u64, attributes: &Attributes) {
        let kind = attributes.kind();
        let what = format!(
            "inode {ino} ({kind:?}, {} bytes) has no name",
            attributes.size_bytes
        );
        let affected = Affected::Path("a file lost its name");
        self.check_target(ino, kind, Affected::Inode(ino));
        match kind {
            FileKind::Directory => self.find(what, affected, false),
            _ => self.find_and_repair(what, affected, |check| check.rescue(ino, attributes.nlink)),
        }
    }

    /// Give an inode a name. On failure the inode stays unchanged.
    fn rescue(&self, ino: u64, nlink: u32) -> Outcome<()> {
        let new = NewInode::of_root(libc::S_IFDIR | 0o700);
        let directory = match self.volume.create(InodeNumber::ROOT, LOST_AND_FOUND, &new) {
            Ok(made) => made.ino,
            Err(Errno(libc::EEXIST)) => self.volume.lookup(InodeNumber::ROOT, LOST_AND_FOUND)?.ino,
            Err(errno) => return Err(errno),
        };
        if nlink >= MAX_LINKS {
            self.set_links(ino, 0)?;
        }
        let name = format!("#{ino}");
        // No name said which limits count it.
        TreeWalks::of(self.volume).move_to_tree_of(ino, directory)?;
        self.volume
            .link(InodeNumber(ino), directory, name.as_bytes())?;
        self.set_links(ino, 1)
    }

    fn set_links(&self, ino: u64, names: u32) -> Outcome<()> {
        let locked = self.volume.lock(ino)?;
        let entry = Entry::Attributes(AttributeState {
            nlink: names,
            ..locked.attribute_state()
        });
        self.change(&locked, Need::Ordinary, &entry)
    }
}
