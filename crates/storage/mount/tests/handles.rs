//! Handles of files (`name_to_handle_at`), as NFS servers use them: after the kernel forgot the inode, after a remount
//! and after the mount was killed.

use crate::child::{Served, kill, serve_in_child};
use crate::common::{Mounted, Place, c, can_mount, eventually};
use egeria_engine::{AttachMode, AttributeChange, InodeNumber, NewInode};
use egeria_harness::testing::is_root;
use egeria_mount::{LeaseTiming, MountOptions, spawn, unmount};
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

const ROOT: InodeNumber = InodeNumber::ROOT;
const FILE: NewInode = NewInode::of_root(libc::S_IFREG | 0o644);

/// `struct file_handle`, with room for the largest.
#[repr(C)]
#[derive(Clone, Copy)]
struct Handle {
    bytes: u32,
    kind: i32,
    place: [u8; 128],
}

/// `name_to_handle_at(2)`; links are not followed.
fn handle(path: &Path) -> Handle {
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        place: [0; 128],
    };
    let (path, mut mount) = (c(path), 0);
    let place = (&raw mut handle).cast();
    // SAFETY: a terminated path, and a handle with the room it claims.
    let made =
        unsafe { libc::name_to_handle_at(libc::AT_FDCWD, path.as_ptr(), place, &mut mount, 0) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    handle
}

/// `open_by_handle_at(2)` in a mounted directory.
fn open_handle(point: &Path, handle: &Handle, flags: i32) -> Result<File, i32> {
    let directory = File::open(point).unwrap();
    let mut handle = *handle;
    let place = (&raw mut handle).cast();
    // SAFETY: a handle with the room it claims.
    let fd =
        unsafe { libc::open_by_handle_at(directory.as_raw_fd(), place, flags | libc::O_CLOEXEC) };
    match fd {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
        // SAFETY: a new descriptor.
        fd => Ok(unsafe { File::from_raw_fd(fd) }),
    }
}

/// Soon: until the mount has answered the last close, the kernel finds the inode itself.
fn stale(point: &Path, handle: &Handle) {
    let open = || open_handle(point, handle, libc::O_RDONLY).map(drop);
    eventually("the handle is stale", || open() == Err(libc::ESTALE));
}

fn options() -> MountOptions {
    MountOptions {
        leases: LeaseTiming::AtOnce,
        ..MountOptions::default()
    }
}

/// `None` where handles cannot be opened.
fn mounted() -> Option<Mounted> {
    if !is_root() {
        return None;
    }
    Mounted::with(&options())
}

fn remounted(mount: Mounted) -> Mounted {
    mount.again(AttachMode::CreateOrJoin, &options())
}

/// Where the descriptor is, as the kernel knows it.
fn path_of(file: &File) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
}

fn make_tree(mount: &Mounted) -> [Handle; 4] {
    fs::create_dir_all(mount.path("a/b")).unwrap();
    fs::write(mount.path("a/b/file"), b"by handle").unwrap();
    symlink("file", mount.path("a/b/link")).unwrap();
    ["", "a/b", "a/b/file", "a/b/link"].map(|name| handle(&mount.path(name)))
}

fn opens_tree(point: &Path, [root, directory, file, link]: [Handle; 4]) {
    let file = open_handle(point, &file, libc::O_RDWR).unwrap();
    let mut content = [0; 9];
    file.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"by handle");
    file.write_at(b"B", 0).unwrap();
    file.write_at(b"b", 0).unwrap();
    let link = open_handle(point, &link, libc::O_PATH | libc::O_NOFOLLOW).unwrap();
    assert!(link.metadata().unwrap().is_symlink());
    let directory = open_handle(point, &directory, libc::O_RDONLY).unwrap();
    assert_eq!(path_of(&directory), point.join("a/b"));
    let inside = format!("/proc/self/fd/{}/file", directory.as_raw_fd());
    assert_eq!(fs::read(inside).unwrap(), b"by handle");
    let root = open_handle(point, &root, libc::O_RDONLY).unwrap();
    assert_eq!(path_of(&root), point);
}

#[test]
fn handles_outlive_remounts() {
    let Some(mount) = mounted() else { return };
    let tree = make_tree(&mount);
    opens_tree(mount.place().point(), tree);
    let mount = remounted(mount);
    // The second time the kernel has forgotten the inodes again.
    for _ in 0..2 {
        opens_tree(mount.place().point(), tree);
    }
    let same = handle(&mount.path("a/b/file"));
    assert_eq!(same.place, tree[2].place);
}

#[test]
fn handles_outlive_a_killed_mount() {
    if !is_root() || !can_mount() {
        return;
    }
    let place = Place::with_pools_of(64 << 20);
    let point = place.point();
    let child = serve_in_child(&place, &MountOptions::default());
    let handles = ["kept", "removed"].map(|name| {
        fs::write(point.join(name), name).unwrap();
        handle(&point.join(name))
    });
    kill(child);
    unmount(point).unwrap();
    let volume = place.attach(AttachMode::CreateOrJoin);
    volume.unlink(ROOT, b"removed").unwrap();
    let mount = spawn(volume.clone(), point, &options()).unwrap();
    let kept = open_handle(point, &handles[0], libc::O_RDONLY).unwrap();
    assert_eq!(std::io::read_to_string(kept).unwrap(), "kept");
    stale(point, &handles[1]);
    mount.unmount().unwrap();
}

#[test]
fn handles_of_removed_files_are_stale() {
    let Some(mount) = mounted() else { return };
    let names = ["by-kernel", "past-kernel"];
    let handles = names.map(|name| {
        fs::write(mount.path(name), name).unwrap();
        handle(&mount.path(name))
    });
    fs::create_dir(mount.path("directory")).unwrap();
    let directory = handle(&mount.path("directory"));
    let point = mount.place().point().to_path_buf();
    fs::remove_file(mount.path(names[0])).unwrap();
    mount.volume.unlink(ROOT, names[1].as_bytes()).unwrap();
    fs::remove_dir(mount.path("directory")).unwrap();
    stale(&point, &handles[0]);
    stale(&point, &handles[1]);
    stale(&point, &directory);
    let mount = remounted(mount);
    for gone in handles.iter().chain([&directory]) {
        stale(mount.place().point(), gone);
    }
}

#[test]
fn a_nameless_file_has_a_handle_while_a_program_has_it_open() {
    if !is_root() {
        return;
    }
    let Some(served) = Served::new() else { return };
    fs::write(served.path("file"), b"nameless").unwrap();
    let (point, by_handle) = (served.path(""), handle(&served.path("file")));
    let (ino, _) = served.engine_file("file");
    served.volume.unlink(ROOT, b"file").unwrap();
    let opened = open_handle(&point, &by_handle, libc::O_RDONLY).unwrap();
    assert_eq!(std::io::read_to_string(opened).unwrap(), "nameless");
    served.volume.close(ino);
    // The kernel reports its close a moment later.
    eventually("the handle is stale", || {
        let opened = open_handle(&point, &by_handle, libc::O_RDONLY);
        opened.map(drop) == Err(libc::ESTALE)
    });
}

#[test]
fn a_handle_means_no_later_file_of_its_number() {
    let Some(mount) = mounted() else { return };
    fs::write(mount.path("first"), b"first").unwrap();
    let first = handle(&mount.path("first"));
    let number = fs::metadata(mount.path("first")).unwrap().ino();
    fs::remove_file(mount.path("first")).unwrap();
    // The kernel remembers nothing, so the number is used again.
    let mount = remounted(mount);
    let is_second = || {
        let made = mount.volume.create(ROOT, b"second", &FILE).unwrap();
        if made.ino.0 != number {
            mount.volume.unlink(ROOT, b"second").unwrap();
        }
        made.ino.0 == number
    };
    assert!((0..100_000).any(|_| is_second()));
    stale(mount.place().point(), &first);
    let second = handle(&mount.path("second"));
    assert!(open_handle(mount.place().point(), &second, libc::O_RDONLY).is_ok());
    assert_eq!(fs::metadata(mount.path("second")).unwrap().ino(), number);
    stale(mount.place().point(), &first);
}

#[test]
fn a_handle_of_another_volume_is_stale() {
    let (Some(one), Some(other)) = (mounted(), mounted()) else {
        return;
    };
    let make = |mount: &Mounted, name: &str| {
        fs::write(mount.path(name), name).unwrap();
        let ino = fs::metadata(mount.path(name)).unwrap().ino();
        (ino, handle(&mount.path(name)))
    };
    let (number, of_one) = make(&one, "one");
    let mut in_other = (0..1000).map(|count| make(&other, &format!("other-{count}")));
    let (_, of_other) = in_other.find(|(ino, _)| *ino == number).unwrap();
    assert!(open_handle(other.place().point(), &of_other, libc::O_RDONLY).is_ok());
    stale(other.place().point(), &of_one);
    stale(one.place().point(), &of_other);
}

#[test]
fn forged_handles_are_stale() {
    let Some(mount) = mounted() else { return };
    fs::write(mount.path("file"), b"content").unwrap();
    let good = handle(&mount.path("file"));
    let ino = fs::metadata(mount.path("file")).unwrap().ino();
    let point = mount.place().point();
    for number in [0, ino + 1, ino + 512, 1 << 20, 1 << 40, u64::MAX] {
        let mut forged = good;
        // The kernel's own order: number (high, low), generation.
        forged.place[..4].copy_from_slice(&((number >> 32) as u32).to_ne_bytes());
        forged.place[4..8].copy_from_slice(&(number as u32).to_ne_bytes());
        stale(point, &forged);
    }
    for byte in 0..good.bytes as usize {
        let mut forged = good;
        forged.place[byte] ^= 0x40;
        stale(point, &forged);
    }
    let opened = open_handle(point, &good, libc::O_RDONLY).unwrap();
    assert_eq!(std::io::read_to_string(opened).unwrap(), "content");
}

#[test]
fn changes_past_the_kernel_show_in_files_opened_by_handle() {
    let Some(mount) = mounted() else { return };
    fs::write(mount.path("file"), b"one").unwrap();
    let by_handle = handle(&mount.path("file"));
    let mount = remounted(mount);
    let file = open_handle(mount.place().point(), &by_handle, libc::O_RDWR).unwrap();
    let ino = InodeNumber(file.metadata().unwrap().ino());
    let engine_file = mount.volume.open(ino, None).unwrap();
    for round in 1..50u64 {
        let mut content = [0; 5];
        assert_eq!(
            file.metadata().unwrap().len(),
            file.metadata().unwrap().len()
        );
        let data = format!("{round:05}");
        mount
            .volume
            .write(engine_file, round * 5, data.as_bytes())
            .unwrap();
        assert_eq!(file.metadata().unwrap().len(), round * 5 + 5);
        file.read_exact_at(&mut content, round * 5).unwrap();
        assert_eq!(content, data.as_bytes());
        let permissions = Some(0o600 + (round & 0o77) as u32);
        let change = AttributeChange {
            permissions,
            ..AttributeChange::default()
        };
        mount.volume.set_attributes(ino, &change).unwrap();
        assert_eq!(Some(file.metadata().unwrap().mode() & 0o777), permissions);
    }
    mount.volume.close(ino);
    // Its name leads to the same file, and a rename past the kernel does not matter.
    assert_eq!(fs::metadata(mount.path("file")).unwrap().ino(), ino.0);
    let mode = egeria_engine::RenameMode::Replace;
    mount
        .volume
        .rename(ROOT, b"file", ROOT, b"renamed", mode)
        .unwrap();
    assert!(open_handle(mount.place().point(), &by_handle, libc::O_RDONLY).is_ok());
}

/// A file that was changed a moment ago has no lease.
#[test]
fn attributes_by_handle_without_a_lease_are_asked_for() {
    let Some(mount) = mounted() else { return };
    fs::write(mount.path("file"), b"").unwrap();
    let (ino, by_handle) = {
        let path = mount.path("file");
        (fs::metadata(&path).unwrap().ino(), handle(&path))
    };
    let mount = mount.again(AttachMode::CreateOrJoin, &MountOptions::default());
    let engine_file = mount.volume.open(InodeNumber(ino), None).unwrap();
    for round in 0..20u64 {
        mount.volume.write(engine_file, 2 * round, b"1").unwrap();
        // The kernel forgot the file when it was closed.
        let file = open_handle(mount.place().point(), &by_handle, libc::O_RDONLY).unwrap();
        mount
            .volume
            .write(engine_file, 2 * round + 1, b"2")
            .unwrap();
        assert_eq!(file.metadata().unwrap().len(), 2 * round + 2);
    }
    mount.volume.close(InodeNumber(ino));
}

#[test]
fn a_directory_moved_past_the_kernel_is_found_by_its_handle() {
    let Some(mount) = mounted() else { return };
    fs::create_dir_all(mount.path("a/b/c")).unwrap();
    fs::create_dir_all(mount.path("x/y")).unwrap();
    let deep = handle(&mount.path("a/b/c"));
    let mount = remounted(mount);
    let number = |name: &str| {
        let named = name.split('/').try_fold(ROOT, |parent, name| {
            let found = mount.volume.lookup(parent, name.as_bytes());
            found.map(|found| found.ino)
        });
        named.unwrap()
    };
    let mode = egeria_engine::RenameMode::Replace;
    let (from, to) = (number("a"), number("x/y"));
    mount.volume.rename(from, b"b", to, b"moved", mode).unwrap();
    let opened = open_handle(mount.place().point(), &deep, libc::O_RDONLY).unwrap();
    assert_eq!(path_of(&opened), mount.path("x/y/moved/c"));
    let above = format!("/proc/self/fd/{}/..", opened.as_raw_fd());
    assert_eq!(fs::metadata(above).unwrap().ino(), number("x/y/moved").0);
}
