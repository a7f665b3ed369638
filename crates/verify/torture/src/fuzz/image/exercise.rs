//! Everything there is to do with a volume that may be forged in any way. Which answers come does not matter,
//! with these exceptions: what `check` finds nothing in must work and stay so, what it says it can repair must
//! be repaired, and listings have an end.

use super::super::subject::{Observations, one_line};
use super::super::values::HostileValues;
use egeria_engine::*;
use egeria_media::Pool;
use egeria_stats::rng::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;

/// More names than any sample has: a listing that gives more runs in a circle.
const MANY: usize = 100_000;
/// Most inodes that are changed.
const MAX_CHANGED: u64 = 12;
const CLOCK_NS: i64 = 1_000_000_000;
const FILE: NewInode = NewInode::of_root(libc::S_IFREG | 0o644);
const DIRECTORY: NewInode = NewInode::of_root(libc::S_IFDIR | 0o755);

/// A volume under trial.
pub(super) struct Exercise<'a> {
    pools: Vec<Arc<Pool>>,
    memory: &'a mut PrivateMemory,
    rng: Rng,
    observed: &'a mut Observations,
    /// What was first answered as damaged media.
    damaged: Option<String>,
}

impl<'a> Exercise<'a> {
    pub(super) fn new(
        pools: Vec<Arc<Pool>>,
        memory: &'a mut PrivateMemory,
        rng: Rng,
        observed: &'a mut Observations,
    ) -> Exercise<'a> {
        Exercise {
            pools,
            memory,
            rng,
            observed,
            damaged: None,
        }
    }

    /// One of several ways to meet a volume.
    pub(super) fn run(&mut self, how: u64) -> Result<(), String> {
        match how % 4 {
            0 => self.check_and_use(),
            1 => {
                self.use_it(false)?;
                self.check(false).map(drop)
            }
            2 => self.repair_and_use(),
            _ => {
                self.use_it(true)?;
                self.repair_and_use()
            }
        }
    }

    /// What nothing is wrong with must work, and go on to.
    fn check_and_use(&mut self) -> Result<(), String> {
        let report = self.check(false)?;
        let is_clean = report.is_some_and(|report| report.findings.is_empty());
        self.use_it(false)?;
        if !is_clean {
            return Ok(());
        }
        if let Some(damaged) = &self.damaged {
            return Err(format!("check found nothing, but then {damaged}"));
        }
        match self.check(false)? {
            None => Err("a clean volume cannot be checked again after use".to_owned()),
            Some(report) if report.findings.is_empty() => Ok(()),
            Some(report) => Err(format!(
                "check found nothing; after use it finds: {}",
                report.findings[0].what
            )),
        }
    }

    fn repair_and_use(&mut self) -> Result<(), String> {
        let Some(repaired) = self.check(true)? else {
            return self.use_it(false);
        };
        let left = self.check(false)?;
        let left = left.ok_or("repaired, and now it cannot be checked")?;
        let left = left.findings;
        let observed = |finding: &&Finding| {
            let mut observed = repaired.findings.iter();
            observed
                .any(|observed| !observed.repairable && observed.what.starts_with(&finding.what))
        };
        // What could not be repaired was called so.
        if let Some(finding) = left
            .iter()
            .find(|finding| finding.repairable && !observed(finding))
        {
            return Err(format!("not repaired: {}", finding.what));
        }
        let all = repaired.findings.iter().all(|finding| finding.repairable);
        if all && let Some(finding) = left.first() {
            return Err(format!(
                "everything was repaired, and now there is: {}",
                finding.what
            ));
        }
        self.damaged = None;
        self.use_it(false)?;
        match &self.damaged {
            Some(damaged) if left.is_empty() => Err(format!("repaired, but then {damaged}")),
            _ => Ok(()),
        }
    }

    fn check(&mut self, repair: bool) -> Result<Option<CheckReport>, String> {
        match check_private(&self.pools, self.memory, CLOCK_NS, repair) {
            Ok(report) => {
                let verb = if repair { "repair" } else { "check" };
                for finding in &report.findings {
                    self.observed.record(&format!("{verb}: {}", finding.what));
                    one_line(&finding.what)?;
                    one_line(&finding.affects)?;
                }
                if report.findings.is_empty() {
                    self.observed.record(&format!("{verb}: nothing"));
                }
                Ok(Some(report))
            }
            Err(error) => self.refused("check", &error).map(|()| None),
        }
    }

    fn refused(&mut self, verb: &str, error: &VolumeError) -> Result<(), String> {
        self.observed.record(&format!("{verb} refused: {error}"));
        one_line(&error.to_string())?;
        if error.errno > 0 {
            Ok(())
        } else {
            Err(format!("refused with errno {}: {error}", error.errno))
        }
    }

    /// Read and change everything that can be reached; by two attachments when wanted.
    fn use_it(&mut self, twice: bool) -> Result<(), String> {
        let options = AttachOptions::default();
        let volume = match Volume::attach_private(&self.pools, self.memory, &options) {
            Ok(volume) => volume,
            Err(error) => return self.refused("attach", &error),
        };
        volume.set_clock(CLOCK_NS);
        let other = twice.then(|| volume.join_private());
        let second = other.as_ref().unwrap_or(&volume);
        let reached = self.walk(&volume)?;
        for _ in 0..MAX_CHANGED.min(reached.len() as u64) {
            let ino = reached[self.rng.index(reached.len())];
            let volume = if self.rng.one_in(2) { &volume } else { second };
            self.change(volume, ino);
        }
        self.remove_some(second);
        let space = volume.space(None);
        if space.free_blocks > space.blocks || space.free_inodes > space.inodes {
            return Err(format!("more is free than there is: {space:?}"));
        }
        second.reap();
        volume.reap();
        self.walk(second).map(drop)
    }

    fn note<T>(&mut self, what: &str, outcome: Outcome<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(errno) => {
                let answer = format!("{what}: {errno}");
                if errno.0 == libc::EIO && self.damaged.is_none() {
                    self.damaged = Some(answer.clone());
                }
                self.observed.record(&answer);
                None
            }
        }
    }

    /// List, look up and read whatever the root leads to.
    fn walk(&mut self, volume: &Arc<Volume>) -> Result<Vec<InodeNumber>, String> {
        let mut queue = vec![InodeNumber::ROOT];
        let (mut seen, mut reached) = (BTreeSet::new(), Vec::new());
        while let Some(ino) = queue.pop() {
            if !seen.insert(ino) {
                continue;
            }
            reached.push(ino);
            let attributes = volume.attributes(ino);
            let attributes = self.note("attributes", attributes);
            match attributes.map(|attributes| attributes.kind()) {
                Some(FileKind::Directory) => self.list(volume, ino, &mut queue)?,
                Some(FileKind::Symlink) => _ = self.note("readlink", volume.read_link(ino)),
                Some(FileKind::Regular) => self.read(volume, ino)?,
                _ => {}
            }
            let names = self.note("listxattr", volume.list_xattr(ino));
            for name in names.unwrap_or_default() {
                self.note("getxattr", volume.get_xattr(ino, &name));
            }
        }
        Ok(reached)
    }

    fn list(
        &mut self,
        volume: &Volume,
        ino: InodeNumber,
        queue: &mut Vec<InodeNumber>,
    ) -> Result<(), String> {
        let mut names = Vec::new();
        // In parts, as the kernel asks.
        let part = 1 + self.rng.index(40);
        let mut cookie = 0;
        loop {
            let before = names.len();
            let listed = volume.read_directory(ino, cookie, &mut |entry| {
                cookie = entry.cookie;
                names.push((entry.name.to_vec(), entry.ino));
                names.len() - before < part
            });
            let listed = self.note("readdir", listed);
            if names.len() > MANY {
                return Err("a directory without end".to_owned());
            }
            if listed.is_none() || names.len() - before < part {
                break;
            }
        }
        for (name, child) in names {
            let dots = name == b"." || name == b"..";
            let found = self.note("lookup", volume.lookup(ino, &name));
            if !dots && found.is_some_and(|found| found.ino != child) {
                self.observed.record("a name listed twice");
            }
            if !dots {
                queue.push(child);
            }
        }
        Ok(())
    }

    fn read(&mut self, volume: &Volume, ino: InodeNumber) -> Result<(), String> {
        self.note("extents", volume.extents(ino));
        let Some(file) = self.note("open", volume.open(ino, None)) else {
            return Ok(());
        };
        let size = self.note("size", volume.size_bytes(file)).unwrap_or(0);
        let mut buffer = vec![0; 20_000];
        let places = [0, 5000, 300_000, size.saturating_sub(100), size, 1 << 62];
        for at in places {
            let read = self.note("read", volume.read(file, at, &mut buffer));
            let read = read.unwrap_or(0) as u64;
            if read > size.saturating_sub(at) {
                return Err(format!("{read} bytes read at {at} of a file of {size}"));
            }
            self.note("seek", volume.seek_data(file, at));
            self.note("seek", volume.seek_hole(file, at));
        }
        volume.close(ino);
        Ok(())
    }

    fn change(&mut self, volume: &Volume, ino: InodeNumber) {
        match self.rng.below(3) {
            0 => self.change_names(volume, ino),
            1 => self.change_data(volume, ino),
            _ => self.change_attributes(volume, ino),
        }
    }

    fn change_names(&mut self, volume: &Volume, ino: InodeNumber) {
        let root = InodeNumber::ROOT;
        let name = |rng: &mut Rng| format!("made-{}", rng.below(6)).into_bytes();
        let (made, moved) = (name(&mut self.rng), name(&mut self.rng));
        let mode = match self.rng.below(3) {
            0 => RenameMode::Exchange,
            1 => RenameMode::NoReplace,
            _ => RenameMode::Replace,
        };
        self.note("create", volume.create(ino, &made, &FILE));
        self.note("mkdir", volume.create(ino, &moved, &DIRECTORY));
        self.note(
            "symlink",
            volume.symlink(ino, b"symbolic", &[b't'; 300], 0, 0),
        );
        self.note("rename", volume.rename(ino, &made, root, &moved, mode));
        self.note("rename", volume.rename(ino, &moved, root, &made, mode));
        self.note("rename", volume.rename(root, &made, ino, &moved, mode));
        self.note("link", volume.link(ino, root, b"linked"));
        self.note("unlink", volume.unlink(root, b"linked"));
        self.note("unlink", volume.unlink(ino, &made));
        self.note("rmdir", volume.remove_directory(ino, &moved));
    }

    fn change_data(&mut self, volume: &Volume, ino: InodeNumber) {
        const MODES: [AllocateMode; 5] = [
            AllocateMode::PunchHole,
            AllocateMode::KeepSize,
            AllocateMode::Extend,
            AllocateMode::ZeroRange,
            AllocateMode::ZeroRangeKeepSize,
        ];
        let Some(file) = self.note("open", volume.open(ino, None)) else {
            return;
        };
        let at = if self.rng.one_in(6) {
            self.rng.boundary_value()
        } else {
            self.rng.below(60_000)
        };
        self.note("write", volume.write(file, at, &[1; 9000]));
        self.note("append", volume.append(file, &[2; 5000]));
        let mode = MODES[self.rng.index(5)];
        let bytes = 1 + self.rng.below(30_000);
        self.note("allocate", volume.allocate(file, at, bytes, mode));
        if self.rng.one_in(3) {
            // Used while it has no name.
            self.remove_some(volume);
            self.note("write", volume.write(file, 100, &[3; 5000]));
        }
        volume.close(ino);
    }

    fn change_attributes(&mut self, volume: &Volume, ino: InodeNumber) {
        let size_bytes = match self.rng.below(4) {
            0 => Some(self.rng.boundary_value()),
            1 => Some(0),
            2 => Some(self.rng.below(50_000)),
            _ => None,
        };
        let change = AttributeChange {
            size_bytes,
            permissions: Some(self.rng.below(0o10000) as u32),
            mtime: Some(TimeChange::At(self.rng.boundary_value() as i64)),
            clears: self.rng.boundary_value() as u32,
            ..AttributeChange::default()
        };
        self.note("setattr", volume.set_attributes(ino, &change));
        let value = vec![7; self.rng.index(3000)];
        let set = volume.set_xattr(ino, b"user.new", &value, XattrMode::Any);
        self.note("setxattr", set);
        self.note("removexattr", volume.remove_xattr(ino, b"user.old"));
        for _ in 0..self.rng.below(3) * 20 {
            // Towards a compaction.
            let permissions = Some(self.rng.below(0o1000) as u32);
            let change = AttributeChange {
                permissions,
                ..AttributeChange::default()
            };
            self.note("chmod", volume.set_attributes(ino, &change));
        }
    }

    /// Remove some names of the root.
    fn remove_some(&mut self, volume: &Volume) {
        let root = InodeNumber::ROOT;
        let mut names = Vec::new();
        let listed = volume.read_directory(root, 2, &mut |entry| {
            names.push(entry.name.to_vec());
            names.len() < 64
        });
        self.note("readdir", listed);
        for name in names {
            if self.rng.one_in(3) {
                self.note("unlink", volume.unlink(root, &name));
                self.note("rmdir", volume.remove_directory(root, &name));
            }
        }
    }
}
