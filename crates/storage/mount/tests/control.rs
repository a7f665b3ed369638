//! The control call, and calls that are refused.

use crate::common::*;
use egeria_engine::control::{
    CONTROL_MAGIC, CONTROL_REQUEST, ControlReply, NO_DESCRIPTION_SLOT, NumberTicket,
};
use egeria_engine::{FileKind, InodeNumber};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

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

#[test]
fn requests_are_counted() {
    let Some(mount) = Mounted::new() else { return };
    let before = mount.volume.counters().mount_requests;
    fs::write(mount.path("file"), b"x").unwrap();
    assert!(mount.volume.counters().mount_requests >= before + 3);
}

/// A name by which an inode is opened once.
fn ticket(directory: &File, (ino, generation): (u64, u32)) -> Result<String, i32> {
    let ticket = NumberTicket::ask(directory, ino, generation);
    let ticket = ticket.map_err(|error| error.raw_os_error().unwrap())?;
    Ok(ticket.name().unwrap().to_str().unwrap().to_owned())
}

/// A file of root's that no other user may reach, in a directory of mode 0700.
fn secret(mount: &Mounted) -> (std::path::PathBuf, (u64, u32)) {
    fs::create_dir(mount.path("closed")).unwrap();
    fs::set_permissions(mount.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let path = mount.path("closed/secret");
    fs::write(&path, b"secret").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let ino = fs::metadata(&path).unwrap().ino();
    let attributes = mount.volume.attributes(InodeNumber(ino)).unwrap();
    (path, (ino, attributes.generation))
}

fn is_whole(path: &Path) -> bool {
    let metadata = fs::metadata(path).unwrap();
    fs::read(path).unwrap() == b"secret" && metadata.uid() == 0 && metadata.mode() & 0o777 == 0o600
}

fn create_new(path: &Path) -> std::io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
}

#[test]
fn files_of_any_name_can_be_copied_into_the_root() {
    let Some(mount) = Mounted::new() else { return };
    let (path, (ino, generation)) = secret(&mount);
    let unpacked = tempfile::tempdir().unwrap();
    let names = [
        // What earlier versions opened by.
        format!("\u{1}egeria-open:{ino}:{generation}"),
        format!("{ino:016x}{generation:016x}"),
        "0".repeat(32),
    ];
    for name in &names {
        fs::write(unpacked.path().join(name), b"of another user").unwrap();
    }
    for (command, options) in [("cp", "-r"), ("cp", "-a")] {
        let mut copy = std::process::Command::new(command);
        copy.arg(options)
            .arg(unpacked.path().join("."))
            .arg(mount.path(""));
        assert!(copy.status().unwrap().success());
        assert!(is_whole(&path), "{command} {options}");
        for name in &names {
            assert_eq!(fs::read(mount.path(name)).unwrap(), b"of another user");
            fs::remove_file(mount.path(name)).unwrap();
        }
    }
    for name in &names {
        let made = create_new(&mount.path(name)).unwrap();
        assert_ne!(made.metadata().unwrap().ino(), ino);
    }
}

#[test]
fn a_ticket_opens_its_inode_once() {
    let Some(mount) = Mounted::new() else { return };
    let (path, of) = secret(&mount);
    let root = File::open(mount.path("")).unwrap();
    let name = ticket(&root, of).unwrap();
    let opened = create_new(&mount.path(&name)).unwrap();
    assert_eq!(std::io::read_to_string(opened).unwrap(), "secret");
    assert!(!mount.path(&name).exists());
    let again = create_new(&mount.path(&name)).unwrap();
    assert_eq!(again.metadata().unwrap().len(), 0);
    assert!(is_whole(&path));
}

#[test]
fn a_ticket_ends_with_its_directory() {
    let Some(mount) = Mounted::new() else { return };
    let (path, of) = secret(&mount);
    let root = File::open(mount.path("")).unwrap();
    let name = ticket(&root, of).unwrap();
    drop(root);
    // The kernel tells of a close a moment after it, so the name may mean the file until then.
    eventually("the name means nothing", || {
        let is_new = create_new(&mount.path(&name))
            .unwrap()
            .metadata()
            .unwrap()
            .len()
            == 0;
        is_new || mount.path(&name).exists()
    });
    assert!(is_whole(&path));
}

#[test]
fn tickets_are_for_the_mount_s_own_user_alone() {
    let Some(mount) = Mounted::new() else { return };
    let (path, of) = secret(&mount);
    let root = File::open(mount.path("")).unwrap();
    let name = ticket(&root, of).unwrap();
    as_user(NOBODY, NOBODY, || {
        let root = File::open(mount.path("")).unwrap();
        assert_eq!(ticket(&root, of), Err(libc::EPERM));
        let made = create_new(&mount.path(&name)).unwrap();
        assert_eq!(made.metadata().unwrap().uid(), NOBODY);
    });
    assert!(is_whole(&path));
}
