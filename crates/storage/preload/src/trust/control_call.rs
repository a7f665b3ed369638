//! The control call: what the mount says of a descriptor.

use super::place::Place;
use crate::system::raw;
use egeria_engine::control::{CONTROL_MAGIC, CONTROL_REQUEST, ControlReply};
use libc::c_int;

/// Ask the mount of a descriptor what it is; `None` when it is no other process's mount of ours.
pub fn ask_mount(fd: c_int, place: Place) -> Option<ControlReply> {
    let mut reply = ControlReply::EMPTY;
    let answer = raw::ioctl(fd, u64::from(CONTROL_REQUEST), (&raw mut reply).cast());
    if answer < 0 || reply.magic != CONTROL_MAGIC {
        if answer == -(libc::ENOTTY as isize) || answer == -(libc::ENOSYS as isize) {
            place.is_not_ours();
        }
        return None;
    }
    let own_mount = i64::from(reply.mount_pid) == raw::getpid() as i64;
    (!own_mount).then_some(reply)
}
