//! Whose mounts are believed: those of root and of this process's own user, who could do to it what they
//! like in other ways. System calls and the stack alone: this may run in a signal handler.

use crate::raw;
use egeria_fs::control::serving_user;

/// Whether root or our own user serves the FUSE mount on this device.
pub fn is_trusted(device: u64) -> bool {
    let own = raw::geteuid() as u32;
    mounted_by(device).is_some_and(|user| user == 0 || user == own)
}

/// The user who serves a FUSE mount; `None` when the kernel lists none here.
fn mounted_by(device: u64) -> Option<u32> {
    let path = c"/proc/self/mountinfo".as_ptr();
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let file = raw::openat(libc::AT_FDCWD, path, flags, 0) as i32;
    if file < 0 {
        return None;
    }
    let user = serving_user(device, |room| {
        raw::read(file, room.as_mut_ptr().cast(), room.len())
    });
    raw::close(file);
    user
}
