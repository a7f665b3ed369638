//! `statfs` and its kin.

use crate::description::reply::Reply;
use crate::serve::path::{CallerPlace, Way, on_descriptor, on_path};
use crate::system::{errno, real};
use crate::volumes::mounts::SpaceWords;
use egeria_engine::{InodeNumber, PathStop};
use libc::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU8, Ordering};

const FLAGS: usize = 10;
/// The kernel tells flags: libc's `statvfs` does not say so.
const VALID: u64 = 0x20;

/// What `statvfs` tells, in words.
type VectorWords = [u64; 14];
const VECTOR_TYPE: usize = 11;

/// 0: not known yet; 1: libc's `statvfs` tells no type; 2: it does.
static TELLS_TYPE: AtomicU8 = AtomicU8::new(0);

/// Newer ones tell it in what were spare words.
fn tells_type() -> bool {
    let known = TELLS_TYPE.load(Ordering::Relaxed);
    if known != 0 {
        return known == 2;
    }
    let mut words: VectorWords = [0; 14];
    let error = errno::get();
    let answer = real::statvfs(c"/proc".as_ptr(), words.as_mut_ptr().cast());
    errno::set(error);
    let tells = answer == 0 && words[VECTOR_TYPE] != 0;
    TELLS_TYPE.store(1 + u8::from(tells), Ordering::Relaxed);
    tells
}

fn space(way: &Way<'_>, ino: InodeNumber) -> Result<SpaceWords, PathStop> {
    let mut words = way.mount.space().ok_or(PathStop::Elsewhere)?;
    let space = way.volume.space_at(ino);
    words[2..7].copy_from_slice(&[
        space.blocks,
        space.free_blocks,
        space.available_blocks,
        space.inodes,
        space.free_inodes,
    ]);
    words[FLAGS] = way.usage.space_flags();
    Ok(words)
}

fn vector(words: &SpaceWords, tells_type: bool) -> VectorWords {
    let [
        kind,
        block,
        blocks,
        free,
        available,
        inodes,
        free_inodes,
        identity,
        name,
        fragment,
        flags,
        ..,
    ] = *words;
    let fragment = if fragment != 0 { fragment } else { block };
    let kind = if tells_type {
        kind & u64::from(u32::MAX)
    } else {
        0
    };
    let flags = flags ^ VALID;
    [
        block,
        fragment,
        blocks,
        free,
        available,
        inodes,
        free_inodes,
        free_inodes,
        identity,
        flags,
        name,
        kind,
        0,
        0,
    ]
}

fn fill(way: &Way<'_>, ino: InodeNumber, into: *mut c_void) -> Result<Reply, PathStop> {
    Ok(CallerPlace(into.cast::<u64>()).fill(&space(way, ino)?))
}

fn fill_vector(
    way: &Way<'_>,
    ino: InodeNumber,
    into: *mut c_void,
    tells_type: bool,
) -> Result<Reply, PathStop> {
    Ok(CallerPlace(into.cast::<u64>()).fill(&vector(&space(way, ino)?, tells_type)))
}

fn on_name(
    path: *const c_char,
    fill: impl FnOnce(&Way<'_>, InodeNumber) -> Result<Reply, PathStop>,
) -> Option<c_int> {
    on_path(libc::AT_FDCWD, path, |way| {
        let found = way.find(true)?;
        fill(way, found.ino)
    })
}

fn statfs(path: *const c_char, into: *mut c_void) -> c_int {
    on_name(path, |way, ino| fill(way, ino, into)).unwrap_or_else(|| real::statfs(path, into))
}

fn statvfs(path: *const c_char, into: *mut c_void) -> c_int {
    let tells_type = tells_type();
    on_name(path, |way, ino| fill_vector(way, ino, into, tells_type))
        .unwrap_or_else(|| real::statvfs(path, into))
}

fn fstatfs(fd: c_int, into: *mut c_void) -> c_int {
    on_descriptor(fd, |way| fill(way, way.start_ino(), into))
        .unwrap_or_else(|| real::fstatfs(fd, into))
}

fn fstatvfs(fd: c_int, into: *mut c_void) -> c_int {
    let tells_type = tells_type();
    on_descriptor(fd, |way| {
        fill_vector(way, way.start_ino(), into, tells_type)
    })
    .unwrap_or_else(|| real::fstatvfs(fd, into))
}

export! {
    statfs, statfs64, __statfs => statfs(path: *const c_char, into: *mut c_void) -> c_int;
    statvfs, statvfs64 => statvfs(path: *const c_char, into: *mut c_void) -> c_int;
    fstatfs, fstatfs64 => fstatfs(fd: c_int, into: *mut c_void) -> c_int;
    fstatvfs, fstatvfs64 => fstatvfs(fd: c_int, into: *mut c_void) -> c_int;
}
