//! What a volume holds, as its users see it, to be compared before and after a crash.

use super::actor::{CHECKSUMS, LAYOUT};
use egeria_engine::*;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

/// Everything users can see of one inode, under one of its paths.
#[derive(Clone, PartialEq, Eq)]
struct Seen {
    attributes: Attributes,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    target: Option<Vec<u8>>,
    /// Mapped ranges (bytes) with their content; the rest of a file is a hole.
    data: Vec<(u64, Vec<u8>)>,
}

impl Seen {
    /// Whether data is changed where it lies.
    fn is_written_in_place(&self) -> bool {
        let has = |name: &[u8], value: &[u8]| {
            let mut xattrs = self.xattrs.iter();
            xattrs.any(|(other, set)| other == name && set.starts_with(value))
        };
        self.attributes.kind() == FileKind::Regular
            && has(LAYOUT, b"striped")
            && !has(CHECKSUMS, b"crc32c")
    }

    fn is_between(&self, one: &Seen, other: &Seen) -> bool {
        let rest = |seen: &Seen| Seen {
            data: Vec::new(),
            ..seen.clone()
        };
        let shape = |seen: &Seen| -> Vec<(u64, usize)> {
            let ranges = seen.data.iter();
            ranges.map(|(at, bytes)| (*at, bytes.len())).collect()
        };
        let bytes = |seen: &Seen| -> Vec<u8> {
            seen.data
                .iter()
                .flat_map(|(_, bytes)| bytes.clone())
                .collect()
        };
        let same = |of: &dyn Fn(&Seen) -> bool| of(one) && of(other);
        self.is_written_in_place()
            && same(&|seen| rest(seen) == rest(self) && shape(seen) == shape(self))
            && bytes(self)
                .iter()
                .zip(bytes(one))
                .zip(bytes(other))
                .all(|((found, one), other)| *found == one || *found == other)
    }
}

impl Seen {
    /// Of data that is written in place, the log has these only now and then.
    fn forget_times_of_data(&mut self) {
        self.attributes.mtime_ns = 0;
        self.attributes.ctime_ns = 0;
    }

    /// In the form in which a snapshot of the engine is compared.
    fn as_in_snapshot(&self) -> Seen {
        let mut seen = self.clone();
        seen.attributes.blocks = 0;
        if seen.attributes.kind() != FileKind::Directory {
            seen.xattrs
                .retain(|(name, _)| name != LAYOUT && name != CHECKSUMS);
        }
        seen.xattrs.sort();
        seen.xattrs.dedup();
        seen.data = without_zeros(&seen.data);
        seen
    }
}

/// A volume, by path; its format and pools.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<String, Seen>, Shape);

/// What changes of a volume's pools change, and limits of directory trees.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
struct Shape {
    version: u32,
    pools: usize,
    limits: Vec<Limit>,
}

impl Snapshot {
    pub(super) fn empty() -> Snapshot {
        Snapshot(BTreeMap::new(), Shape::default())
    }

    /// Read everything. Every failure is told with its path.
    pub(super) fn of(volume: &Volume) -> Result<Snapshot, String> {
        let mut all = BTreeMap::new();
        let mut queue = vec![(String::new(), InodeNumber::ROOT)];
        while let Some((path, ino)) = queue.pop() {
            let told = |errno: Errno| format!("{path}/: {errno:?}");
            let seen = see(volume, ino).map_err(told)?;
            if seen.attributes.kind() == FileKind::Directory {
                list(volume, ino, &path, &mut queue).map_err(told)?;
                let up = volume.lookup(ino, b"..").map_err(told)?;
                let above = path.rsplit_once('/').map_or("", |(above, _)| above);
                let expected: &Seen = all.get(above).unwrap_or(&seen);
                if up.ino != expected.attributes.ino {
                    return Err(format!("{path}/.. is inode {}", up.ino.0));
                }
            }
            if let Some((above, name)) = path.rsplit_once('/') {
                let parent: &Seen = &all[above];
                let found = volume.lookup(parent.attributes.ino, name.as_bytes());
                if found.map(|found| found.ino) != Ok(ino) {
                    return Err(format!("{path} is listed, but looked up it is {found:?}"));
                }
            }
            all.insert(path, seen);
        }
        let pools = 0..volume.pools().len() as u8;
        let shape = Shape {
            version: volume.format_version(),
            pools: pools
                .filter(|pool| volume.space(Some(*pool)).blocks > 0)
                .count(),
            limits: limits_of(volume)?,
        };
        Ok(Snapshot(all, shape))
    }

    /// Of this content; different snapshots have different ones.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.1.hash(&mut hasher);
        for (path, seen) in &self.0 {
            let Attributes {
                ino,
                generation,
                mode,
                nlink,
                uid,
                gid,
                rdev,
                ..
            } = seen.attributes;
            let Attributes {
                size_bytes,
                blocks,
                atime_ns,
                mtime_ns,
                ctime_ns,
                ..
            } = seen.attributes;
            (path, ino, generation, mode, nlink, uid, gid, rdev).hash(&mut hasher);
            (size_bytes, blocks, atime_ns, mtime_ns, ctime_ns).hash(&mut hasher);
            (&seen.xattrs, &seen.target, &seen.data).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// What a snapshot of the engine shows. It shows no limits, layouts of files or numbers of blocks.
    ///
    /// # Errors
    /// As the snapshot; `ESTALE` when it ended early.
    pub(crate) fn of_instant(instant: &egeria_engine::Snapshot) -> Outcome<Snapshot> {
        let mut all = BTreeMap::new();
        let mut queue = vec![(String::new(), InodeNumber::ROOT)];
        while let Some((path, ino)) = queue.pop() {
            let seen = see_instant(instant, ino)?;
            if seen.attributes.kind() == FileKind::Directory {
                for entry in instant.names(ino)? {
                    let name = String::from_utf8_lossy(&entry.name);
                    queue.push((format!("{path}/{name}"), entry.ino));
                }
            }
            all.insert(path, seen);
        }
        Ok(Snapshot(all, Shape::default()))
    }

    /// How what a snapshot of the engine shows differs from this, in a few lines.
    pub(super) fn difference_to_instant(
        &self,
        instant: &egeria_engine::Snapshot,
    ) -> Outcome<Option<String>> {
        let mut found = Snapshot::of_instant(instant)?;
        let mut expected = Snapshot(BTreeMap::new(), Shape::default());
        for (path, seen) in &self.0 {
            if seen.is_written_in_place()
                && let Some(found) = found.0.get_mut(path)
            {
                found.forget_times_of_data();
            }
            expected.0.insert(path.clone(), seen.as_in_snapshot());
        }
        Ok((found != expected).then(|| found.difference(&expected)))
    }

    /// All paths, with attributes.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&str, &Attributes)> {
        let all = self.0.iter();
        all.map(|(path, seen)| (path.as_str(), &seen.attributes))
    }

    /// With inodes numbered by their first path: what is the same whichever operation came first.
    pub(super) fn without_numbers(mut self) -> Snapshot {
        let mut numbers = BTreeMap::new();
        for seen in self.0.values_mut() {
            let next = numbers.len() as u64;
            let number = *numbers.entry(seen.attributes.ino).or_insert(next);
            seen.attributes.ino = InodeNumber(number);
            seen.attributes.generation = 0;
        }
        self
    }

    /// With no times: what is the same whenever it was done.
    pub(super) fn without_times(mut self) -> Snapshot {
        for seen in self.0.values_mut() {
            seen.attributes.atime_ns = 0;
            seen.attributes.mtime_ns = 0;
            seen.attributes.ctime_ns = 0;
        }
        self
    }

    /// With the root's times of another: those a file that came and went leaves behind.
    pub(super) fn with_root_of(mut self, other: &Snapshot) -> Snapshot {
        if let (Some(root), Some(other)) = (self.0.get_mut(""), other.0.get("")) {
            root.attributes = other.attributes;
        }
        self
    }

    /// Whether it is what a write in place, cut off by a crash, may have made of one: of a striped file, each byte is of
    /// the one or of the other.
    pub(super) fn is_between(&self, one: &Snapshot, other: &Snapshot) -> bool {
        let files = self.0.iter().zip(&one.0).zip(&other.0);
        self.1 == one.1
            && self.1 == other.1
            && self.0.len() == one.0.len()
            && one.0.len() == other.0.len()
            && files
                .into_iter()
                .all(|(((path, found), (of_one, one)), (of_other, other))| {
                    let same_path = path == of_one && path == of_other;
                    same_path && (found == one || found == other || found.is_between(one, other))
                })
    }

    /// How this one differs from what was expected, in a few lines.
    pub(crate) fn difference(&self, expected: &Snapshot) -> String {
        let mut lines = Vec::new();
        if self.1 != expected.1 {
            lines.push(format!("  {:?}, not {:?}", self.1, expected.1));
        }
        for path in self.0.keys().chain(expected.0.keys()) {
            let line = match (self.0.get(path), expected.0.get(path)) {
                (Some(found), Some(expected)) if found == expected => continue,
                (Some(found), Some(expected)) => differs(path, found, expected),
                (None, _) => format!("  {path}: gone"),
                (_, None) => format!("  {path}: should not be there"),
            };
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.join("\n")
    }
}

/// A directory, and its limits in bytes and inodes.
type Limit = (PathBuf, Option<u64>, Option<u64>);

/// The limits of directory trees. What they use must be what is in them.
fn limits_of(volume: &Volume) -> Result<Vec<Limit>, String> {
    let mut all = Vec::new();
    for quota in volume.quotas() {
        let path = volume.path_of_quota(&quota);
        let counted = volume.recount_quota(quota.top);
        let used = (quota.used_bytes, quota.used_inodes);
        if counted != Ok(used) {
            return Err(format!("{path:?} uses {used:?}, but holds {counted:?}"));
        }
        all.push((path, quota.limits.bytes, quota.limits.inodes));
    }
    all.sort();
    Ok(all)
}

fn list(
    volume: &Volume,
    ino: InodeNumber,
    path: &str,
    queue: &mut Vec<(String, InodeNumber)>,
) -> Outcome<()> {
    volume.read_directory(ino, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            let name = String::from_utf8_lossy(entry.name);
            queue.push((format!("{path}/{name}"), entry.ino));
        }
        true
    })
}

fn see(volume: &Volume, ino: InodeNumber) -> Outcome<Seen> {
    let mut attributes = volume.attributes(ino)?;
    let mut xattrs = Vec::new();
    for name in volume.list_xattr(ino)? {
        let value = volume.get_xattr(ino, &name)?;
        xattrs.push((name, value));
    }
    // Of files they are not listed.
    for name in [CHECKSUMS, LAYOUT] {
        let value = volume.get_xattr(ino, name);
        xattrs.extend(value.map(|value| (name.to_vec(), value)));
    }
    let mut target = None;
    let mut data = Vec::new();
    match attributes.kind() {
        FileKind::Symlink => target = Some(volume.read_link(ino)?),
        FileKind::Regular => data = file_data(volume, ino)?,
        FileKind::Directory => {
            // Pages of its log, which a compaction may make fewer at any time.
            attributes.size_bytes = 0;
            attributes.blocks = 0;
        }
        _ => {}
    }
    let mut seen = Seen {
        attributes,
        xattrs,
        target,
        data,
    };
    if seen.is_written_in_place() {
        seen.forget_times_of_data();
    }
    Ok(seen)
}

/// An inode in a snapshot of the engine, as [`Seen::as_in_snapshot`].
fn see_instant(instant: &egeria_engine::Snapshot, ino: InodeNumber) -> Outcome<Seen> {
    let mut attributes = instant.attributes(ino)?;
    let kind = attributes.kind();
    let mut data = Vec::new();
    let mut target = None;
    if matches!(kind, FileKind::Regular | FileKind::Symlink) {
        let file = instant.file(ino)?;
        let mut at = 0;
        while let Some(range) = file.data_from(at) {
            let mut bytes = vec![0xEE; (range.end - range.start) as usize];
            let count = instant.read(&file, range.start, &mut bytes)?;
            bytes.truncate(count);
            data.push((range.start, bytes));
            at = range.end;
        }
        if kind == FileKind::Symlink {
            target = Some(data.drain(..).flat_map(|(_, bytes)| bytes).collect());
        }
    }
    if kind == FileKind::Directory {
        attributes.size_bytes = 0;
    }
    let seen = Seen {
        attributes,
        xattrs: instant.xattrs(ino)?,
        target,
        data,
    };
    Ok(seen.as_in_snapshot())
}

/// Blocks that hold more than zeros.
fn without_zeros(data: &[(u64, Vec<u8>)]) -> Vec<(u64, Vec<u8>)> {
    let blocks = data.iter().flat_map(|(at, bytes)| {
        let blocks = bytes.chunks(format::BLOCK).enumerate();
        blocks.map(move |(index, block)| (at + (index * format::BLOCK) as u64, block))
    });
    let blocks = blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 0));
    blocks.map(|(at, block)| (at, block.to_vec())).collect()
}

fn file_data(volume: &Volume, ino: InodeNumber) -> Outcome<Vec<(u64, Vec<u8>)>> {
    let extents = volume.extents(ino)?;
    if extents.is_empty() {
        return Ok(Vec::new());
    }
    let file = volume.open(ino, None)?;
    let mut data: Vec<(u64, Vec<u8>)> = Vec::new();
    for extent in extents {
        let mut bytes = vec![0xEE; extent.length_bytes as usize];
        let count = volume.read(file, extent.file_offset_bytes, &mut bytes)?;
        bytes.truncate(count);
        match data.last_mut() {
            // Where the blocks lie is nobody's business.
            Some((at, before)) if *at + before.len() as u64 == extent.file_offset_bytes => {
                before.append(&mut bytes)
            }
            _ => data.push((extent.file_offset_bytes, bytes)),
        }
    }
    volume.close(ino);
    Ok(data)
}

fn differs(path: &str, found: &Seen, expected: &Seen) -> String {
    if found.attributes != expected.attributes {
        return format!(
            "  {path}: {:?}\n   instead of {:?}",
            found.attributes, expected.attributes
        );
    }
    if found.xattrs != expected.xattrs {
        return format!("  {path}: extended attributes differ");
    }
    if found.target != expected.target {
        return format!("  {path}: target differs");
    }
    let place = |seen: &Seen| -> Vec<(u64, usize)> {
        let data = seen.data.iter();
        data.map(|(at, bytes)| (*at, bytes.len())).collect()
    };
    if place(found) != place(expected) {
        let (found, expected) = (place(found), place(expected));
        return format!("  {path}: data at {found:?}, not {expected:?}");
    }
    let mut pairs = found.data.iter().zip(&expected.data);
    let first = pairs.find_map(|((at, found), (_, expected))| {
        let mut bytes = found.iter().zip(expected);
        let differing = bytes.position(|(found, expected)| found != expected);
        differing.map(|differing| at + differing as u64)
    });
    format!("  {path}: bytes differ from {first:?} on")
}
