//! Everything a volume shows.

use egeria_engine::*;
use std::collections::BTreeMap;

/// One name.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Shown {
    attributes: Attributes,
    content: Vec<u8>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Paths, and what is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture(BTreeMap<String, Shown>);

/// Look at all of it.
pub fn picture(volume: &Volume) -> Picture {
    let mut all = BTreeMap::new();
    look(volume, InodeNumber::ROOT, String::new(), &mut all).expect("a look at the tree");
    Picture(all)
}

fn look(
    volume: &Volume,
    ino: InodeNumber,
    path: String,
    all: &mut BTreeMap<String, Shown>,
) -> Outcome<()> {
    let attributes = volume.attributes(ino)?;
    let content = match attributes.kind() {
        FileKind::Regular => read(volume, ino)?,
        FileKind::Symlink => volume.read_link(ino)?,
        _ => Vec::new(),
    };
    let mut xattrs = Vec::new();
    for name in volume.list_xattr(ino)? {
        let value = volume.get_xattr(ino, &name)?;
        xattrs.push((name, value));
    }
    xattrs.sort();
    let mut below = Vec::new();
    if attributes.kind() == FileKind::Directory {
        volume.read_directory(ino, 0, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                let name = String::from_utf8_lossy(entry.name).into_owned();
                below.push((name, entry.ino));
            }
            true
        })?;
    }
    let shown = Shown {
        attributes,
        content,
        xattrs,
    };
    all.insert(path.clone(), shown);
    for (name, ino) in below {
        look(volume, ino, format!("{path}/{name}"), all)?;
    }
    Ok(())
}

/// The first megabyte, and the last 64 KiB when there is more.
fn read(volume: &Volume, ino: InodeNumber) -> Outcome<Vec<u8>> {
    let file = volume.open(ino, None)?;
    let size = volume.size_bytes(file)?;
    let mut bytes = vec![0xEE; size.min(1 << 20) as usize];
    volume.read(file, 0, &mut bytes)?;
    if size > 1 << 20 {
        let mut end = vec![0xEE; 64 << 10];
        volume.read(file, size - (64 << 10), &mut end)?;
        bytes.extend(end);
    }
    volume.close(ino);
    Ok(bytes)
}

impl Picture {
    /// Nothing is different; with `reserved`, files may have more blocks.
    pub fn is_same(&self, other: &Picture, reserved: bool) -> Result<(), String> {
        self.compare(other, |one, other| {
            let blocks = if reserved {
                one.attributes.blocks.max(other.attributes.blocks)
            } else {
                other.attributes.blocks
            };
            let times = if reserved {
                one.attributes
            } else {
                other.attributes
            };
            let other = Shown {
                attributes: Attributes {
                    blocks,
                    ctime_ns: times.ctime_ns,
                    ..other.attributes
                },
                ..other.clone()
            };
            *one == other
        })
    }

    /// Nothing is different but times, and numbers of inodes.
    pub fn is_like(&self, other: &Picture) -> Result<(), String> {
        let facts = |shown: &Shown| Attributes {
            ino: InodeNumber::ROOT,
            generation: 0,
            atime_ns: 0,
            mtime_ns: 0,
            ctime_ns: 0,
            ..shown.attributes
        };
        self.compare(other, |one, other| {
            facts(one) == facts(other) && one.content == other.content && one.xattrs == other.xattrs
        })
    }

    /// The same names, and bytes that are of `before` or of `after`.
    pub fn is_between(&self, before: &Picture, after: &Picture) -> Result<(), String> {
        for (path, shown) in &self.0 {
            let (Some(old), Some(new)) = (before.0.get(path), after.0.get(path)) else {
                return Err(format!("{path} is new"));
            };
            let byte = |shown: &Shown, at: usize| shown.content.get(at).copied();
            let foreign = shown.content.iter().enumerate().position(|(at, found)| {
                byte(old, at) != Some(*found) && byte(new, at) != Some(*found)
            });
            if let Some(at) = foreign {
                return Err(format!("byte {at} of {path} is of nobody"));
            }
        }
        if self.0.len() == before.0.len() {
            Ok(())
        } else {
            Err("a name is gone".to_owned())
        }
    }

    fn compare(
        &self,
        other: &Picture,
        same: impl Fn(&Shown, &Shown) -> bool,
    ) -> Result<(), String> {
        if !self.0.keys().eq(other.0.keys()) {
            let names: Vec<_> = self
                .0
                .keys()
                .filter(|name| !other.0.contains_key(*name))
                .collect();
            let gone: Vec<_> = other
                .0
                .keys()
                .filter(|name| !self.0.contains_key(*name))
                .collect();
            return Err(format!("new names {names:?}, gone {gone:?}"));
        }
        for ((path, one), other) in self.0.iter().zip(other.0.values()) {
            if !same(one, other) {
                return Err(format!(
                    "{path} differs: {:?} {} bytes, not {:?} {} bytes",
                    one.attributes,
                    one.content.len(),
                    other.attributes,
                    other.content.len()
                ));
            }
        }
        Ok(())
    }
}
