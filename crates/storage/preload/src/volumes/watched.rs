//! Files that this process watches. Data calls on them go through the kernel, in every process: they have the mark of a file
//! of which the kernel holds pages. It stays until this process ends, or the file has lost its last name by the next watch.

use crate::sync::Locked;
use egeria_engine::{Attributes, FileKind, InodeNumber, Volume};
use std::mem;

/// Marked, and held open for it.
struct Watched {
    volume: &'static Volume,
    ino: InodeNumber,
}

static WATCHED: Locked<Vec<Watched>> = Locked::new(Vec::new());

/// A file is watched, or a directory with all that is in it. The caller is inside.
pub fn note(volume: &'static Volume, named: &Attributes) {
    leave_removed();
    match named.kind() {
        FileKind::Regular => mark(volume, named.ino),
        FileKind::Directory => mark_open_in(volume, named.ino),
        _ => {}
    }
}

/// Those that a process has open past the kernel; what is opened later is opened by the kernel.
fn mark_open_in(volume: &'static Volume, directory: InodeNumber) {
    let mut open = Vec::new();
    let _ = volume.read_directory(directory, 0, &mut |entry| {
        if volume.is_open_past_kernel(entry.ino) {
            open.push(entry.ino);
        }
        true
    });
    let is_file = |ino: &InodeNumber| {
        let found = volume.attributes(*ino);
        found.is_ok_and(|found| found.kind() == FileKind::Regular)
    };
    open.into_iter()
        .filter(is_file)
        .for_each(|ino| mark(volume, ino));
}

/// A file is watched. The caller is inside.
pub fn mark(volume: &'static Volume, ino: InodeNumber) {
    WATCHED.with(|watched| {
        let is_this = |one: &Watched| std::ptr::eq(one.volume, volume) && one.ino == ino;
        if watched.iter().any(is_this) || volume.open(ino, None).is_err() {
            return;
        }
        match volume.mark_kernel_cached(ino) {
            Ok(()) => watched.push(Watched { volume, ino }),
            Err(_) => volume.close(ino),
        }
    });
}

/// A file that lost its last name is no longer marked: its space is to become free.
fn leave_removed() {
    let is_named = |one: &Watched| {
        let found = one.volume.attributes(one.ino);
        found.is_ok_and(|found| found.nlink > 0)
    };
    let leave = |one: Watched| {
        one.volume.unmark_kernel_cached(one.ino);
        one.volume.close(one.ino);
    };
    WATCHED.with(|watched| {
        let (named, removed): (Vec<_>, Vec<_>) = mem::take(watched).into_iter().partition(is_named);
        *watched = named;
        removed.into_iter().for_each(leave);
    });
}

/// In a fork child: the marks are the parent's.
pub fn reset_in_child() {
    WATCHED.reset();
    // Another thread may have been changing it.
    WATCHED.with(|watched| mem::forget(mem::take(watched)));
}
