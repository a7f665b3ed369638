//! Finding out what a descriptor is, at its first data call.

use crate::bare_calls;
use crate::description::record::{Found, Record};
use crate::descriptors::reclaim;
use crate::descriptors::table::{self, Tag, Word};
use crate::system::{errno, raw};
use crate::thread::{self, Thread, process};
use crate::trust::control_call::ask_mount;
use crate::trust::{Place, admission, devices, settings};
use crate::volumes::{mounts, registry};
use egeria_engine::control::ControlReply;
use egeria_engine::{FileKind, InodeNumber};
use libc::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{Ordering, fence};

/// What was found out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Identified {
    /// Nothing now: pass this call.
    NotNow,
    /// It is in the table: look again.
    LookAgain,
    /// The same, and the descriptor is to be shared: a fork came between.
    Shared,
}

/// Find out what the number is, and store it.
pub fn identify(thread: &Thread, fd: c_int, word: Word) -> Identified {
    if fd < 0 || (thread.handler_depth.load(Ordering::Relaxed) > 0 && !admission::any()) {
        // Attaching is not for a signal handler: it may have interrupted malloc.
        return Identified::NotNow;
    }
    let error = errno::get();
    let found = if settings::is_off() {
        None
    } else {
        thread::inside(|| look(fd, word))
    };
    errno::set(error);
    let Some(found) = found else {
        table::replace(fd, word, word.learned(Tag::NotOurs, std::ptr::null_mut()));
        return Identified::LookAgain;
    };
    let private = found.private_offset_bytes.is_some();
    let record = Record::make(found);
    if !table::replace(fd, word, word.learned(Tag::Ours, record)) {
        // Another thread was first, or the number means something else by now.
        reclaim::retire(record);
        return Identified::LookAgain;
    }
    fence(Ordering::SeqCst);
    if private && word.opened_at() != process::shares() {
        // Whoever shared all descriptors did not see this one.
        Identified::Shared
    } else {
        Identified::LookAgain
    }
}

fn look(fd: c_int, word: Word) -> Option<Found> {
    let place = Place::of_regular_file(fd)?;
    if !place.is_trusted(fd) {
        return None;
    }
    let status = raw::fcntl(fd, libc::F_GETFL, 0) as c_int;
    if status < 0 || status & libc::O_PATH != 0 {
        return None;
    }
    let reply = ask_mount(fd, place).filter(|reply| reply.kind == FileKind::Regular as u32)?;
    let own = word.tag() == Tag::Fresh
        && word.opened_at() == process::shares()
        && fd > 2
        && !bare_calls::may_happen();
    let opened = || catch_unwind(AssertUnwindSafe(|| open((fd, place), &reply, status, own)));
    let found = admission::admitted(opened)?.unwrap_or(None);
    if let (Some(_), Some(mount)) = (&found, place.mount()) {
        mounts::note(mount);
    }
    found
}

fn open(
    (fd, place): (c_int, Place),
    reply: &ControlReply,
    status: c_int,
    own: bool,
) -> Option<Found> {
    let volume = registry::attached(reply)?;
    if volume.are_names_watched() {
        // A process may watch it, and wants to hear of reads and writes.
        return None;
    }
    let ino = InodeNumber(reply.ino);
    let file = volume.open(ino, Some(reply.generation)).ok()?;
    devices::note(fd);
    let position = raw::lseek(fd, 0, libc::SEEK_CUR);
    Some(Found {
        volume,
        file,
        ino,
        place,
        is_directory: false,
        slot: reply.description_slot,
        origin: None,
        status,
        read_only: reply.read_only != 0,
        private_offset_bytes: (own && position >= 0).then_some(position as u64),
        shared: !own,
    })
}
