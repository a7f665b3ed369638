//! Device numbers of mounts whose files this process has used past the kernel. They are hints: a number that
//! another file system has by now costs it a look.

use crate::system::raw;
use libc::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

const PLACES: usize = 16;
/// In a place: it holds a device.
const TAKEN: u64 = 1 << 63;

static DEVICES: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

fn word(major: u32, minor: u32) -> u64 {
    TAKEN | (u64::from(major) << 32) | u64::from(minor)
}

/// Note the device of a descriptor's file. When all places are taken, the first gives way.
pub fn note(fd: c_int) {
    let Some(facts) = raw::facts_of(fd) else {
        return;
    };
    let device = word(libc::major(facts.st_dev), libc::minor(facts.st_dev));
    let free_or_same = |place: &&AtomicU64| {
        let seen = place.compare_exchange(0, device, Ordering::Relaxed, Ordering::Relaxed);
        seen.is_ok() || seen == Err(device)
    };
    if DEVICES.iter().find(free_or_same).is_none() {
        DEVICES[0].store(device, Ordering::Relaxed);
    }
}

/// Whether there is one.
pub fn any() -> bool {
    DEVICES[0].load(Ordering::Relaxed) != 0
}

/// Whether this is one.
pub fn has(major: u32, minor: u32) -> bool {
    let device = word(major, minor);
    DEVICES
        .iter()
        .any(|place| place.load(Ordering::Relaxed) == device)
}
