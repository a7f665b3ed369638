//! Paths: names looked up one by one from the root of the volume; symbolic links are followed as in Linux.

use egeria_engine::{Attributes, Errno, FileKind, InodeNumber, MAX_PATH_BYTES, Outcome, Volume};
use std::borrow::Cow;

/// Maximum number of symbolic links in one lookup, as in Linux.
const MAX_LINKS: usize = 40;

/// Where a path leads.
pub(crate) struct Place {
    /// The directory of the last name.
    pub directory: Attributes,
    /// The last name; empty for the root.
    pub name: Vec<u8>,
    /// What has that name.
    pub found: Option<Attributes>,
    /// A slash follows: a directory is meant.
    pub wants_directory: bool,
}

impl Place {
    /// What is there.
    pub(crate) fn existing(&self) -> Outcome<Attributes> {
        let found = self.found.ok_or(Errno(libc::ENOENT))?;
        if self.wants_directory && found.kind() != FileKind::Directory {
            Err(Errno(libc::ENOTDIR))
        } else {
            Ok(found)
        }
    }
}

/// Look a path up. The last name may be missing; if it is a link and `follows` is set, the link's target is looked up.
pub(crate) fn walk(volume: &Volume, path: &[u8], follows: bool) -> Outcome<Place> {
    check(path)?;
    let root = volume.attributes(InodeNumber::ROOT)?;
    let mut place = Place {
        directory: root,
        name: Vec::new(),
        found: Some(root),
        wants_directory: false,
    };
    let mut rest: Cow<'_, [u8]> = path.into();
    let mut done = 0;
    let mut links = 0;
    while let Some((start, end)) = next(&rest, done) {
        done = end;
        place.directory = place.existing()?;
        if place.directory.kind() != FileKind::Directory {
            return Err(Errno(libc::ENOTDIR));
        }
        let name = &rest[start..end];
        place.wants_directory = end < rest.len();
        place.found = look_up(volume, &place.directory, name)?;
        place.name = name.to_vec();
        let Some(found) = place.found else { continue };
        let is_last = next(&rest, end).is_none();
        if found.kind() != FileKind::Symlink || (is_last && !follows && !place.wants_directory) {
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno(libc::ELOOP));
        }
        let mut target = target(volume, &found)?;
        // Includes a following slash, which demands a directory.
        target.extend_from_slice(&rest[end..]);
        check(&target)?;
        place.found = Some(place.directory);
        place.wants_directory = false;
        rest = target.into();
        done = 0;
    }
    Ok(place)
}

fn check(path: &[u8]) -> Outcome<()> {
    match path.len() {
        0 => Err(Errno(libc::ENOENT)),
        1..=MAX_PATH_BYTES if !path.contains(&0) => Ok(()),
        1..=MAX_PATH_BYTES => Err(Errno(libc::EINVAL)),
        _ => Err(Errno(libc::ENAMETOOLONG)),
    }
}

/// Where the next name begins and ends.
fn next(path: &[u8], done: usize) -> Option<(usize, usize)> {
    let start = done + path[done..].iter().position(|byte| *byte != b'/')?;
    let length = path[start..].iter().position(|byte| *byte == b'/');
    Some((start, length.map_or(path.len(), |length| start + length)))
}

fn look_up(volume: &Volume, directory: &Attributes, name: &[u8]) -> Outcome<Option<Attributes>> {
    if name == b".." && directory.ino == InodeNumber::ROOT {
        return Err(Errno(libc::EXDEV));
    }
    let found = match volume.lookup(directory.ino, name) {
        Err(Errno(libc::ENOENT)) => None,
        found => Some(found?),
    };
    // Its number may have been reused since it was found.
    if volume.has_generation(directory.ino, directory.generation) {
        Ok(found)
    } else {
        Err(Errno(libc::ESTALE))
    }
}

fn target(volume: &Volume, link: &Attributes) -> Outcome<Vec<u8>> {
    let target = volume.read_link(link.ino)?;
    match target.first() {
        _ if !volume.has_generation(link.ino, link.generation) => Err(Errno(libc::ESTALE)),
        Some(b'/') => Err(Errno(libc::EXDEV)),
        _ => Ok(target),
    }
}
