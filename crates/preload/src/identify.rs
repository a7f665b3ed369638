//! Finding out what a descriptor is, at its first data call.

use crate::record::{Found, Record};
use crate::table::{self, Tag, Word};
use crate::thread::{self, Thread};
use crate::{errno, offset, process, raw, registry, settings};
use egeria_fs::control::{CONTROL_REQUEST, ControlReply, NO_DESCRIPTION_SLOT};
use egeria_fs::{DescriptionSlot, FileKind, InodeNumber};
use libc::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering, fence};

const FUSE_MAGIC: i64 = 0x6573_5546;
const DEVICES: usize = 32;
const KNOWN: u64 = 1 << 63;
const MAY_BE_OURS: u64 = 1 << 62;

/// What is known of devices: a wrong "not ours" after a remount costs speed only, and "may be ours"
/// is always asked again.
static SEEN: [AtomicU64; DEVICES] = [const { AtomicU64::new(0) }; DEVICES];

/// Find out what the number is, and store it. False: not now, pass this call; else look again.
pub fn identify(thread: &Thread, fd: c_int, word: Word) -> bool {
    if fd < 0 || (thread.handler_depth.load(Ordering::Relaxed) > 0 && !registry::any()) {
        // Attaching is not for a signal handler: it may have interrupted malloc.
        return false;
    }
    let error = errno::get();
    let found = if settings::is_off() {
        None
    } else {
        look(fd, word)
    };
    errno::set(error);
    let Some(found) = found else {
        table::replace(fd, word, word.learned(Tag::NotOurs, std::ptr::null_mut()));
        return true;
    };
    let private = found.private_offset_bytes.is_some();
    let record = Record::make(found);
    if !table::replace(fd, word, word.learned(Tag::Ours, record)) {
        // Another thread was first, or the number means something else by now.
        crate::pins::retire(record);
        return true;
    }
    fence(Ordering::SeqCst);
    if private && word.opened_at() != process::shares() {
        // A fork came between: whoever shared all descriptors did not see this one.
        offset::share(fd);
    }
    true
}

fn look(fd: c_int, word: Word) -> Option<Found> {
    let device = regular_file_device(fd)?;
    if !may_be_ours(fd, device) {
        return None;
    }
    let status = raw::fcntl(fd, libc::F_GETFL, 0) as c_int;
    if status < 0 || status & libc::O_PATH != 0 {
        return None;
    }
    let reply = ask_mount(fd, device)?;
    let own = word.tag() == Tag::Fresh && word.opened_at() == process::shares() && fd > 2;
    thread::inside(|| {
        catch_unwind(AssertUnwindSafe(|| open(fd, &reply, status, own))).unwrap_or(None)
    })
}

fn open(fd: c_int, reply: &ControlReply, status: c_int, own: bool) -> Option<Found> {
    let volume = registry::attached(reply)?;
    let ino = InodeNumber(reply.ino);
    let file = volume.open(ino, Some(reply.generation)).ok()?;
    let position = raw::lseek(fd, 0, libc::SEEK_CUR);
    let slot = (reply.description_slot != NO_DESCRIPTION_SLOT)
        .then_some(DescriptionSlot(reply.description_slot));
    Some(Found {
        volume,
        file,
        ino,
        slot,
        status,
        read_only: reply.read_only != 0,
        private_offset_bytes: (own && position >= 0).then_some(position as u64),
        shared: !own,
    })
}

/// The device of a regular file, without asking its file system; `None` for everything else.
fn regular_file_device(fd: c_int) -> Option<u64> {
    // SAFETY: all-zero is a valid statx.
    let mut facts: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    if raw::statx(fd, c"".as_ptr(), flags, libc::STATX_TYPE, &raw mut facts) < 0 {
        return None;
    }
    let regular = u32::from(facts.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    regular.then_some((u64::from(facts.stx_dev_major) << 32) | u64::from(facts.stx_dev_minor))
}

fn may_be_ours(fd: c_int, device: u64) -> bool {
    let key = KNOWN | (device & !MAY_BE_OURS);
    for seen in &SEEN {
        match seen.load(Ordering::Relaxed) {
            0 => break,
            known if known & !MAY_BE_OURS == key => return known & MAY_BE_OURS != 0,
            _ => {}
        }
    }
    // SAFETY: all-zero is a valid statfs.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    let fuse = raw::fstatfs(fd, &raw mut facts) == 0 && facts.f_type == FUSE_MAGIC;
    // Whoever serves a mount says which inode of which volume a file is: others could name any.
    let ours = fuse && crate::trust::is_trusted(device);
    remember(key | if ours { MAY_BE_OURS } else { 0 });
    ours
}

/// Keep what is known of a device; when the places are full it is asked again each time.
fn remember(fact: u64) {
    let _ = SEEN.iter().any(|seen| {
        seen.compare_exchange(0, fact, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
            || seen.load(Ordering::Relaxed) & !MAY_BE_OURS == fact & !MAY_BE_OURS
    });
}

/// Another FUSE file system: do not ask it again.
fn forget_device(device: u64) {
    let key = KNOWN | (device & !MAY_BE_OURS);
    for seen in &SEEN {
        let _ = seen.compare_exchange(key | MAY_BE_OURS, key, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn ask_mount(fd: c_int, device: u64) -> Option<ControlReply> {
    // SAFETY: all-zero is a valid reply (integers and bytes).
    let mut reply: ControlReply = unsafe { std::mem::zeroed() };
    let magic = egeria_fs::control::CONTROL_MAGIC;
    let answer = raw::ioctl(fd, u64::from(CONTROL_REQUEST), (&raw mut reply).cast());
    if answer < 0 || reply.magic != magic {
        if answer == -(libc::ENOTTY as isize) || answer == -(libc::ENOSYS as isize) {
            forget_device(device);
        }
        return None;
    }
    let own_mount = i64::from(reply.mount_pid) == raw::getpid() as i64;
    (reply.kind == FileKind::Regular as u32 && !own_mount).then_some(reply)
}
