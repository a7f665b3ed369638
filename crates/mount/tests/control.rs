//! The control call, and calls that are refused.

mod common;
use common::*;
use egeria_fs::control::{CONTROL_MAGIC, CONTROL_REQUEST, ControlReply, NO_DESCRIPTION_SLOT};
use egeria_fs::{FileKind, InodeNumber};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

fn identify(file: &File) -> Result<ControlReply, i32> {
    ControlReply::ask(file).map_err(|error| error.raw_os_error().unwrap())
}

#[test]
fn a_descriptor_tells_its_inode_volume_and_slot() {
    let Some(mount) = Mounted::new() else { return };
    fs::write(mount.path("file"), b"x").unwrap();
    let file = File::open(mount.path("file")).unwrap();
    let reply = identify(&file).unwrap();
    assert_eq!(reply.magic, CONTROL_MAGIC);
    assert_eq!(&reply.volume, mount.volume.uuid().as_bytes());
    assert_eq!(reply.ino, file.metadata().unwrap().ino());
    let attributes = mount.volume.attributes(InodeNumber(reply.ino)).unwrap();
    assert_eq!(reply.generation, attributes.generation);
    assert_eq!(reply.kind, FileKind::Regular as u32);
    assert_eq!(reply.read_only, 0);
    assert_eq!(reply.mount_pid, std::process::id());
    assert_eq!(
        reply.pool_path().unwrap(),
        mount.place().pool(0).as_os_str().as_bytes()
    );
    assert_ne!(reply.description_slot, NO_DESCRIPTION_SLOT);
}

/// Descriptors of one open share a slot; every open has its own, given back at the last close.
#[test]
fn slots_belong_to_open_descriptions() {
    let Some(mount) = Mounted::new() else { return };
    let file = File::create(mount.path("file")).unwrap();
    let slot = identify(&file).unwrap().description_slot;
    let same = file.try_clone().unwrap();
    assert_eq!(identify(&same).unwrap().description_slot, slot);
    let other = File::open(mount.path("file")).unwrap();
    assert_ne!(identify(&other).unwrap().description_slot, slot);
    for _ in 0..5000 {
        let again = File::open(mount.path("file")).unwrap();
        assert_ne!(identify(&again).unwrap().description_slot, slot);
    }
    assert_eq!(identify(&same).unwrap().description_slot, slot);
}

/// There are 65,536 slots, and opens beyond have none: so many opens need those of before.
#[test]
fn slots_come_back_at_the_last_close() {
    let Some(mount) = Mounted::new() else { return };
    File::create(mount.path("file")).unwrap();
    let (first, path) = (
        File::open(mount.path("file")).unwrap(),
        c(mount.path("file")),
    );
    for _ in 0..66_000 {
        rustix::fs::open(&path, OFlags::CLOEXEC, Mode::empty()).unwrap();
    }
    // The kernel tells of a close a moment after it.
    eventually("there are slots again", || {
        let again = File::open(mount.path("file")).unwrap();
        identify(&again).unwrap().description_slot != NO_DESCRIPTION_SLOT
    });
    let taken = std::iter::from_fn(|| mount.volume.description_allocate());
    let free = taken.take(65_535).count();
    assert!(free > 65_000, "{free} free, and only one file is open");
    drop(first);
}

#[test]
fn directories_answer_too_without_a_slot() {
    let Some(mount) = Mounted::new() else { return };
    let reply = identify(&File::open(mount.path("")).unwrap()).unwrap();
    assert_eq!((reply.magic, reply.ino), (CONTROL_MAGIC, 1));
    assert_eq!(reply.kind, FileKind::Directory as u32);
    assert_eq!(reply.description_slot, NO_DESCRIPTION_SLOT);
}

#[test]
fn a_read_only_mount_says_so() {
    let options = egeria_mount::MountOptions {
        read_only: true,
        ..Default::default()
    };
    let Some(mount) = Mounted::with(&options) else {
        return;
    };
    assert_eq!(
        identify(&File::open(mount.path("")).unwrap())
            .unwrap()
            .read_only,
        1
    );
}

#[test]
fn every_other_ioctl_is_unknown() {
    let Some(mount) = Mounted::new() else { return };
    let file = File::create(mount.path("file")).unwrap();
    let mut place = [0u8; 4096];
    // Same group and number, other size; and some that are none of ours.
    let other_size = (2u64 << 30) | (8 << 16) | (u64::from(b'E') << 8) | 1;
    for request in [other_size, libc::TCGETS, u64::from(CONTROL_REQUEST) + 1] {
        // SAFETY: room for whatever these requests write.
        let outcome = unsafe { libc::ioctl(file.as_raw_fd(), request, place.as_mut_ptr()) };
        assert_eq!((outcome, last_errno()), (-1, libc::ENOTTY), "{request:x}");
    }
    assert_eq!(
        identify(&File::open("/dev/null").unwrap()).err(),
        Some(libc::ENOTTY)
    );
}

/// `handles`: open by handle is not offered, and refused cleanly.
#[test]
fn handles() {
    let Some(mount) = Mounted::new() else { return };
    File::create(mount.path("file")).unwrap();
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        place: [u8; 128],
    }
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        place: [0; 128],
    };
    let mut mount_id = 0i32;
    // SAFETY: a handle with the room it claims.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            c(mount.path("file")).as_ptr(),
            &mut handle as *mut Handle,
            &mut mount_id as *mut i32,
            0,
        )
    };
    assert_eq!((outcome, last_errno()), (-1, libc::EOPNOTSUPP));
}

#[test]
fn requests_are_counted() {
    let Some(mount) = Mounted::new() else { return };
    let before = mount.volume.counters().mount_requests;
    fs::write(mount.path("file"), b"x").unwrap();
    assert!(mount.volume.counters().mount_requests >= before + 3);
}
