//! Paths: names looked up one by one, as the kernel does it, with the rights of a thread.
//!
//! Only the plain case is done here. Paths that lead out of the volume (`..` at its root, an absolute link), are not
//! permitted or are damaged are left to the kernel. It follows the path through the mount and returns the right error:
//! [`PathStop::Elsewhere`].

use crate::format::MAX_NAME_BYTES;
use crate::namespace::Lookups;
use crate::rights::{Credentials, EXECUTE};
use crate::session::volume::Volume;
use crate::types::*;

/// Maximum number of symbolic links in one lookup, as in Linux.
const MAX_LINKS: usize = 40;
/// Longest path, without the terminating NUL, as in Linux.
pub const MAX_PATH_BYTES: usize = 4095;
/// A path that [`Volume::path_to`] makes: longer than the kernel follows in one call.
pub(super) const MAX_LONG_PATH_BYTES: usize = 1 << 20;

/// Why a path was not looked up to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStop {
    /// There is no such name in a directory that may be searched: `ENOENT`.
    Missing,
    /// The kernel must look.
    Elsewhere,
}

/// A thread that looks up paths.
#[derive(Clone, Copy)]
pub struct PathWalker<'a> {
    pub volume: &'a Volume,
    /// Credentials to check rights with.
    pub credentials: &'a Credentials,
    /// Whether the system's `fs.protected_symlinks` is set.
    pub protects_symlinks: bool,
}

/// Where a path ends: a directory, and a name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEnd {
    /// The directory, which may be searched.
    pub directory: Attributes,
    /// The name, neither `.` nor `..`, nor too long.
    pub name: Vec<u8>,
    /// Whether a slash follows: the target must be a directory.
    pub wants_directory: bool,
}

/// A way under way.
struct Way<'p> {
    /// The present position and the next inode found, alternating, so that they are used without a copy.
    places: [Attributes; 2],
    /// Which of them it is at.
    at: usize,
    rest: std::borrow::Cow<'p, [u8]>,
    /// Number of bytes of `rest` already processed.
    done: usize,
    links: usize,
}

/// The next name of a path, and whether it is the last.
struct Next {
    start: usize,
    end: usize,
    is_last: bool,
    wants_directory: bool,
}

impl Way<'_> {
    fn at(&self) -> &Attributes {
        &self.places[self.at & 1]
    }

    /// What the last step found.
    fn found(&self) -> &Attributes {
        &self.places[!self.at & 1]
    }

    /// It is where the last step led.
    fn go_on(&mut self) {
        self.at = !self.at & 1;
    }

    /// `None` at the end.
    fn next(&mut self) -> Option<Next> {
        let rest = &self.rest[self.done..];
        let start = self.done + rest.iter().position(|byte| *byte != b'/')?;
        let rest = &self.rest[start..];
        let length = rest.iter().position(|byte| *byte == b'/');
        let end = start + length.unwrap_or(rest.len());
        self.done = end;
        let is_last = self.rest[end..].iter().all(|byte| *byte == b'/');
        Some(Next {
            start,
            end,
            is_last,
            wants_directory: is_last && end < self.rest.len(),
        })
    }
}

impl<'a> PathWalker<'a> {
    /// The attributes of the directory with this number.
    ///
    /// # Errors
    /// [`PathStop::Elsewhere`] when it is gone, or no directory.
    pub fn directory(&self, ino: InodeNumber) -> Result<Attributes, PathStop> {
        let mut found = Attributes::NONE;
        let outcome = Lookups::of(self.volume).attributes_into(ino, &mut found);
        if outcome.is_ok() && found.kind() == FileKind::Directory && found.nlink > 0 {
            Ok(found)
        } else {
            Err(PathStop::Elsewhere)
        }
    }

    /// The inode of a relative path, starting from a directory.
    ///
    /// # Errors
    /// See [`PathStop`].
    pub fn find(
        &self,
        start: Attributes,
        path: &[u8],
        follows_last: bool,
    ) -> Result<Attributes, PathStop> {
        self.walk(start, path, follows_last, |_| {})
    }

    /// The path from the root to the end of a relative path, without links, `.` and `..`. A canonical path begins with
    /// a slash and does not end with one; that of the root is empty. `above` is the canonical path of `start`.
    ///
    /// # Errors
    /// See [`PathStop`].
    pub fn canonical_path(
        &self,
        start: Attributes,
        above: Vec<u8>,
        path: &[u8],
    ) -> Result<Vec<u8>, PathStop> {
        let mut canonical = above;
        self.walk(start, path, true, |name| match name {
            b"." => {}
            b".." => {
                let parent = canonical.iter().rposition(|byte| *byte == b'/');
                canonical.truncate(parent.unwrap_or(0));
            }
            _ => {
                canonical.push(b'/');
                canonical.extend_from_slice(name);
            }
        })?;
        Ok(canonical)
    }

    /// Walk a path. `note` gets each directory name passed; no links, because their targets follow.
    #[inline(always)]
    fn walk(
        &self,
        start: Attributes,
        path: &[u8],
        follows_last: bool,
        mut note: impl FnMut(&[u8]),
    ) -> Result<Attributes, PathStop> {
        let mut way = begin(start, path)?;
        while let Some(next) = way.next() {
            let follows = !next.is_last || follows_last || next.wants_directory;
            self.step(&mut way, &next)?;
            let kind = way.found().kind();
            if kind == FileKind::Symlink && follows {
                self.follow(&mut way, &next)?;
                continue;
            }
            if next.wants_directory && kind != FileKind::Directory {
                return Err(PathStop::Elsewhere);
            }
            note(&way.rest[next.start..next.end]);
            way.go_on();
            if next.is_last {
                break;
            }
        }
        // Only slashes, or nothing: the directory itself, or an error that the kernel reports.
        if path.is_empty() {
            Err(PathStop::Elsewhere)
        } else {
            Ok(*way.at())
        }
    }

    /// The end of a relative path, starting from a directory; the last name is not looked up.
    ///
    /// # Errors
    /// See [`PathStop`]; `Elsewhere` also when the last name is `.` or `..`, or too long.
    pub fn find_end(&self, start: Attributes, path: &[u8]) -> Result<PathEnd, PathStop> {
        let mut way = begin(start, path)?;
        while let Some(next) = way.next() {
            if next.is_last {
                let name = &way.rest[next.start..next.end];
                let is_plain = name != b"." && name != b".." && name.len() <= MAX_NAME_BYTES;
                if !is_plain || !self.may_search(way.at()) {
                    return Err(PathStop::Elsewhere);
                }
                return Ok(PathEnd {
                    directory: *way.at(),
                    name: name.to_vec(),
                    wants_directory: next.wants_directory,
                });
            }
            self.step(&mut way, &next)?;
            match way.found().kind() {
                FileKind::Symlink => self.follow(&mut way, &next)?,
                _ => way.go_on(),
            }
        }
        Err(PathStop::Elsewhere)
    }

    /// The present inode of the name at the end of a path.
    ///
    /// # Errors
    /// See [`PathStop`].
    pub fn named(&self, end: &PathEnd) -> Result<Attributes, PathStop> {
        let mut found = Attributes::NONE;
        self.look_up(&end.directory, &end.name, &mut found)?;
        Ok(found)
    }

    fn may_search(&self, directory: &Attributes) -> bool {
        directory.kind() == FileKind::Directory && self.credentials.may(directory, EXECUTE)
    }

    fn step(&self, way: &mut Way<'_>, next: &Next) -> Result<(), PathStop> {
        let name = &way.rest[next.start..next.end];
        let [even, odd] = &mut way.places;
        let (at, found) = match way.at & 1 {
            0 => (&*even, odd),
            _ => (&*odd, even),
        };
        if !self.may_search(at) {
            return Err(PathStop::Elsewhere);
        }
        match name {
            b"." => {
                *found = *at;
                Ok(())
            }
            b".." if at.ino == InodeNumber::ROOT => Err(PathStop::Elsewhere),
            _ => self.look_up(at, name, found),
        }
    }

    fn look_up(
        &self,
        directory: &Attributes,
        name: &[u8],
        into: &mut Attributes,
    ) -> Result<(), PathStop> {
        let found = Lookups::of(self.volume).lookup_into(directory.ino, name, into);
        // Its number may have been reused since it was found.
        if !self
            .volume
            .has_generation(directory.ino, directory.generation)
        {
            return Err(PathStop::Elsewhere);
        }
        match found {
            Err(Errno(libc::ENOENT)) => match self.directory(directory.ino) {
                Ok(_) => Err(PathStop::Missing),
                Err(stop) => Err(stop),
            },
            found => found.or(Err(PathStop::Elsewhere)),
        }
    }

    /// Continue with the target of the link that was found, in place of its name.
    fn follow(&self, way: &mut Way<'_>, next: &Next) -> Result<(), PathStop> {
        let link = way.found();
        let is_refused =
            next.is_last && self.protects_symlinks && !self.credentials.may_follow(way.at(), link);
        let (ino, generation) = (link.ino, link.generation);
        way.links += 1;
        if is_refused || way.links > MAX_LINKS {
            return Err(PathStop::Elsewhere);
        }
        let target = self.volume.read_link(ino);
        let is_same = self.volume.has_generation(ino, generation);
        let mut target = target.ok().filter(|_| is_same).ok_or(PathStop::Elsewhere)?;
        if target.first() == Some(&b'/') {
            return Err(PathStop::Elsewhere);
        }
        // Includes a following slash, which demands a directory.
        target.extend_from_slice(&way.rest[next.end..]);
        if target.len() > MAX_PATH_BYTES {
            return Err(PathStop::Elsewhere);
        }
        way.rest = target.into();
        way.done = 0;
        Ok(())
    }
}

impl Lookups<'_> {
    pub(super) fn name_in(self, directory: InodeNumber, ino: InodeNumber) -> Option<Vec<u8>> {
        let mut found = None;
        let read = self.volume.read_directory(directory, 0, &mut |entry| {
            let is_dots = entry.name == b"." || entry.name == b"..";
            if entry.ino == ino && !is_dots {
                found = Some(entry.name.to_vec());
            }
            found.is_none()
        });
        read.ok()?;
        found
    }
}

fn begin(start: Attributes, path: &[u8]) -> Result<Way<'_>, PathStop> {
    if path.len() <= MAX_PATH_BYTES {
        Ok(Way {
            places: [start, Attributes::NONE],
            at: 0,
            rest: path.into(),
            done: 0,
            links: 0,
        })
    } else {
        Err(PathStop::Elsewhere)
    }
}
