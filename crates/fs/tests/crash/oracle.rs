//! What a volume holds, as its users see it, to be compared before and after a crash.

use egeria_fs::*;
use std::collections::BTreeMap;

/// Everything users can see of one inode, under one of its paths.
#[derive(Clone, PartialEq, Eq)]
pub struct Seen {
    pub attributes: Attributes,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub target: Option<Vec<u8>>,
    /// Mapped ranges (bytes) with their content; the rest of a file is a hole.
    pub data: Vec<(u64, Vec<u8>)>,
}

/// A volume, by path.
pub type Snapshot = BTreeMap<String, Seen>;

/// Read everything. Every failure is told with its path.
pub fn snapshot(volume: &Volume) -> Result<Snapshot, String> {
    let mut all = BTreeMap::new();
    let mut queue = vec![(String::new(), InodeNumber::ROOT)];
    while let Some((path, ino)) = queue.pop() {
        let told = |errno: Errno| format!("{path}/: {errno:?}");
        let seen = see(volume, ino).map_err(told)?;
        if seen.attributes.kind() == FileKind::Directory {
            volume
                .read_directory(ino, 0, &mut |entry| {
                    if entry.name != b"." && entry.name != b".." {
                        let name = String::from_utf8_lossy(entry.name);
                        queue.push((format!("{path}/{name}"), entry.ino));
                    }
                    true
                })
                .map_err(told)?;
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
    Ok(all)
}

fn see(volume: &Volume, ino: InodeNumber) -> Outcome<Seen> {
    let mut attributes = volume.attributes(ino)?;
    let mut xattrs = Vec::new();
    for name in volume.list_xattr(ino)? {
        let value = volume.get_xattr(ino, &name)?;
        xattrs.push((name, value));
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
    Ok(Seen {
        attributes,
        xattrs,
        target,
        data,
    })
}

fn file_data(volume: &Volume, ino: InodeNumber) -> Outcome<Vec<(u64, Vec<u8>)>> {
    let file = volume.open(ino, None)?;
    let mut data: Vec<(u64, Vec<u8>)> = Vec::new();
    for extent in volume.extents(ino)? {
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

/// How two volumes differ, in a few lines.
pub fn difference(found: &Snapshot, expected: &Snapshot) -> String {
    let mut lines = Vec::new();
    for path in found.keys().chain(expected.keys()) {
        let line = match (found.get(path), expected.get(path)) {
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
        seen.data
            .iter()
            .map(|(at, bytes)| (*at, bytes.len()))
            .collect()
    };
    if place(found) != place(expected) {
        return format!(
            "  {path}: data at {:?}, not {:?}",
            place(found),
            place(expected)
        );
    }
    let pairs = found.data.iter().zip(&expected.data);
    let first = pairs
        .filter_map(|((at, found), (_, expected))| {
            let differing = found
                .iter()
                .zip(expected)
                .position(|(found, expected)| found != expected);
            differing.map(|differing| at + differing as u64)
        })
        .next();
    format!("  {path}: bytes differ from {first:?} on")
}
