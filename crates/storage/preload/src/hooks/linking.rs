//! Names of files that have one, or none yet (`O_TMPFILE`).

use super::naming::end_to_change;
use crate::description::reply::Reply;
use crate::serve;
use crate::serve::guarded::{can_look, look};
use crate::serve::path::{self, Way, on_path, on_two_paths};
use crate::system::real;
use egeria_engine::{Attributes, FileKind, InodeNumber, PathEnd, PathStop, Volume};
use libc::{c_char, c_int};
use std::sync::atomic::Ordering;

const DESCRIPTORS: &[u8; 14] = b"/proc/self/fd/";

/// The descriptor of this process that `linkat` is to give a name.
fn descriptor((directory, path): (c_int, *const c_char), flags: c_int) -> Option<c_int> {
    let at = |offset: usize| look(path.wrapping_add(offset).cast::<u8>());
    if !can_look() {
        return None;
    }
    if flags == libc::AT_EMPTY_PATH {
        return (path.is_null() || at(0) == Some(0)).then_some(directory);
    }
    let leads = flags == libc::AT_SYMLINK_FOLLOW
        && look(path.cast::<[u8; DESCRIPTORS.len()]>()).as_ref() == Some(DESCRIPTORS);
    if !leads {
        return None;
    }
    let mut number: Option<c_int> = None;
    for offset in DESCRIPTORS.len().. {
        match at(offset)? {
            0 => break,
            digit @ b'0'..=b'9' => {
                let larger = number.unwrap_or(0).checked_mul(10)?;
                number = Some(larger.checked_add((digit - b'0').into())?);
            }
            _ => return None,
        }
    }
    number
}

/// Take or give back the right to give the file of a number its first name; the file that it is for.
fn exchange_right(fd: c_int, right: bool) -> Option<(&'static Volume, InodeNumber, u32)> {
    let mut file = None;
    serve::quietly(fd, |record| {
        if let Some(origin) = record.origin()
            && origin.may_be_named.swap(right, Ordering::AcqRel) != right
        {
            file = Some((record.volume(), record.ino(), origin.generation));
        }
    });
    file
}

/// `linkat` of a file that was made without a name, which the kernel refuses: it did not make it. `None` when it is about
/// another file.
fn name_first(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    flags: c_int,
) -> Option<c_int> {
    let fd = descriptor(from, flags)?;
    let (volume, ino, generation) = exchange_right(fd, false)?;
    let linked = on_path(to.0, to.1, |way| {
        let unnamed = volume.attributes(ino).or(Err(PathStop::Elsewhere))?;
        match std::ptr::eq(way.volume, volume) && unnamed.generation == generation {
            // Also where names are watched: the kernel cannot name it.
            true if way.usage.is_writable() => link_to(&unnamed, way, way.find_end()?),
            true => Err(PathStop::Elsewhere),
            false => Err(PathStop::Elsewhere),
        }
    });
    if linked != Some(0) {
        exchange_right(fd, true);
    }
    linked
}

fn make_link(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    flags: c_int,
) -> Option<c_int> {
    if flags & !libc::AT_SYMLINK_FOLLOW != 0 {
        return path::by_kernel_at(to.0, to.1).or_else(|| path::by_kernel_at(from.0, from.1));
    }
    on_two_paths([from, to], |from, to| {
        let named = from.find(flags & libc::AT_SYMLINK_FOLLOW != 0)?;
        link_to(&named, to, end_to_change(to)?)
    })
}

/// Give an inode of the same volume the name where a way ends.
fn link_to(named: &Attributes, to: &Way<'_>, end: PathEnd) -> Result<Reply, PathStop> {
    let identity = to.identity;
    let is_linkable = named.kind() == FileKind::Regular
        && !end.wants_directory
        && (!identity.protects_hardlinks || identity.credentials.may_link(named))
        && identity.credentials.may_add(&end.directory);
    if !is_linkable {
        return Err(PathStop::Elsewhere);
    }
    let linked = to.volume.link(named, &end.directory, &end.name);
    Ok(Reply::expecting(linked, &[libc::EEXIST]))
}

fn link(from: *const c_char, to: *const c_char) -> c_int {
    let here = libc::AT_FDCWD;
    make_link((here, from), (here, to), 0).unwrap_or_else(|| real::link(from, to))
}

fn linkat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let (old, new) = ((from_directory, from), (to_directory, to));
    name_first(old, new, flags)
        .or_else(|| make_link(old, new, flags))
        .unwrap_or_else(|| real::linkat(from_directory, from, to_directory, to, flags))
}

export! {
    link => link(from: *const c_char, to: *const c_char) -> c_int;
    linkat => linkat(from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_int) -> c_int;
}
