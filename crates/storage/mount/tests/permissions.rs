//! Owners, permission bits, set-user-id bits: as the kernel's own file systems do it.

use crate::common::*;
use rustix::fs::{Access, CWD, Mode};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{
    FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, lchown, symlink,
};
use std::path::{Path, PathBuf};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn owner(path: &Path) -> (u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.uid(), metadata.gid())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// `creates_as_caller`: files, directories, links, pipes and sockets belong to the caller.
#[test]
fn creates_as_caller() {
    let Some(mount) = Mounted::new() else { return };
    as_user(NOBODY, 1234, || {
        File::create(mount.path("file")).unwrap();
        fs::create_dir(mount.path("directory")).unwrap();
        symlink("target", mount.path("symlink")).unwrap();
        rustix::fs::mkfifoat(CWD, mount.path("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        std::os::unix::net::UnixListener::bind(mount.path("socket")).unwrap();
    });
    for name in ["file", "directory", "symlink", "pipe", "socket"] {
        assert_eq!(owner(&mount.path(name)), (NOBODY, 1234), "{name}");
    }
}

/// `creates_as_caller`: in a setgid directory the group, and for directories the bit, are the
/// directory's.
#[test]
fn creates_with_the_group_of_a_setgid_directory() {
    let Some(mount) = Mounted::new() else { return };
    let directory = mount.path("shared");
    fs::create_dir(&directory).unwrap();
    chown(&directory, Some(0), Some(4321)).unwrap();
    set_mode(&directory, 0o2777);
    as_user(NOBODY, NOBODY, || {
        File::create(directory.join("file")).unwrap();
        fs::create_dir(directory.join("inner")).unwrap();
    });
    assert_eq!(owner(&directory.join("file")), (NOBODY, 4321));
    assert_eq!(owner(&directory.join("inner")), (NOBODY, 4321));
    assert_eq!(mode(&directory.join("inner")) & 0o2000, 0o2000);
    assert_eq!(mode(&directory.join("file")) & 0o2000, 0);
}

#[test]
fn the_umask_of_the_caller_applies() {
    let Some(mount) = Mounted::new() else { return };
    let make = |mask: libc::mode_t, name: &str| {
        // A child, because the umask belongs to the whole process.
        let script = format!("umask {mask:04o}; : > {name}; mkdir {name}.d");
        let mut command = std::process::Command::new("sh");
        let status = command
            .arg("-c")
            .arg(script)
            .current_dir(mount.path(""))
            .status();
        assert!(status.unwrap().success());
    };
    make(0o027, "narrow");
    make(0, "wide");
    assert_eq!(mode(&mount.path("narrow")), 0o640);
    assert_eq!(mode(&mount.path("narrow.d")), 0o750);
    assert_eq!(mode(&mount.path("wide")), 0o666);
    assert_eq!(mode(&mount.path("wide.d")), 0o777);
}

#[test]
fn the_kernel_checks_permission() {
    let Some(mount) = Mounted::new() else { return };
    let secret = mount.path("secret");
    File::create(&secret).unwrap();
    set_mode(&secret, 0o600);
    let closed = mount.path("closed");
    fs::create_dir(&closed).unwrap();
    File::create(closed.join("inside")).unwrap();
    set_mode(&closed, 0o700);
    as_user(NOBODY, NOBODY, || {
        assert_eq!(errno(File::open(&secret)), libc::EACCES);
        assert_eq!(errno(File::create(&secret)), libc::EACCES);
        assert_eq!(errno(fs::metadata(closed.join("inside"))), libc::EACCES);
        assert_eq!(
            errno(fs::set_permissions(
                &secret,
                fs::Permissions::from_mode(0o666)
            )),
            libc::EPERM
        );
        assert_eq!(errno(chown(&secret, Some(NOBODY), None)), libc::EPERM);
        let access = rustix::fs::access(&secret, Access::READ_OK);
        assert_eq!(sys(access), Err(libc::EACCES));
    });
    assert_eq!(mode(&secret), 0o600);
}

#[test]
fn sticky_directories_keep_files_of_others() {
    let Some(mount) = Mounted::new() else { return };
    let root_owned = mount.path("of-root");
    File::create(&root_owned).unwrap();
    as_user(NOBODY, NOBODY, || {
        assert_eq!(errno(fs::remove_file(&root_owned)), libc::EPERM);
        assert_eq!(
            errno(fs::rename(&root_owned, mount.path("mine"))),
            libc::EPERM
        );
        File::create(mount.path("own")).unwrap();
        fs::remove_file(mount.path("own")).unwrap();
    });
}

/// Without `allow_other` the mount is closed to other users.
#[test]
fn others_stay_out_unless_allowed() {
    let options = egeria_mount::MountOptions::default();
    let Some(mount) = Mounted::with(&options) else {
        return;
    };
    as_user(NOBODY, NOBODY, || {
        assert_eq!(errno(fs::metadata(mount.path("x"))), libc::EACCES);
    });
}

/// A file with both bits that everybody may write.
fn setid_file(mount: &Mounted, name: &str) -> std::path::PathBuf {
    let path = mount.path(name);
    fs::write(&path, b"some content").unwrap();
    set_mode(&path, 0o6777);
    assert_eq!(mode(&path), 0o6777);
    path
}

type Change = fn(&Path);

/// Every way to change the content of a file by its path.
const CHANGES: [(&str, Change); 7] = [
    ("write", |path| {
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .write_all(b"x")
            .unwrap();
    }),
    ("pwrite", |path| {
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .write_all_at(b"x", 3)
            .unwrap();
    }),
    ("append", |path| {
        File::options()
            .append(true)
            .open(path)
            .unwrap()
            .write_all(b"x")
            .unwrap();
    }),
    ("ftruncate", |path| {
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(3)
            .unwrap();
    }),
    ("truncate", |path| {
        truncate(path, 2).unwrap();
    }),
    ("open_trunc", |path| {
        File::options()
            .write(true)
            .custom_flags(libc::O_TRUNC)
            .open(path)
            .unwrap();
    }),
    ("fallocate", |path| {
        let file = File::options().write(true).open(path).unwrap();
        allocate(&file, 0, 0, 8192).unwrap();
    }),
];

/// `setid_cleared_on_write`: by the unprivileged, through every way to change the content.
#[test]
fn setid_cleared_on_write() {
    let Some(mount) = Mounted::new() else { return };
    for (name, change) in CHANGES {
        let path = setid_file(&mount, name);
        as_user(NOBODY, NOBODY, || change(&path));
        assert_eq!(mode(&path), 0o777, "{name} by nobody");
        let path = setid_file(&mount, &format!("{name}.root"));
        change(&path);
        assert_eq!(mode(&path), 0o6777, "{name} by root");
    }
}

fn copy_six_bytes(from: &File, to: &File) {
    let copied = rustix::fs::copy_file_range(from, None, to, None, 6);
    assert_eq!(copied, Ok(6));
}

#[test]
fn setid_cleared_on_copy_file_range() {
    let Some(mount) = Mounted::new() else { return };
    fs::write(mount.path("source"), b"source").unwrap();
    let path = setid_file(&mount, "target");
    as_user(NOBODY, NOBODY, || {
        let from = File::open(mount.path("source")).unwrap();
        let to = File::options().write(true).open(&path).unwrap();
        copy_six_bytes(&from, &to);
    });
    assert_eq!(mode(&path), 0o777);
}

/// `setid_cleared_on_write`: by a change of owner, whoever makes it; not of directories.
#[test]
fn setid_cleared_on_chown() {
    let Some(mount) = Mounted::new() else { return };
    let path = setid_file(&mount, "by-root");
    chown(&path, Some(NOBODY), None).unwrap();
    assert_eq!(mode(&path), 0o777);
    set_mode(&path, 0o6777);
    as_user(NOBODY, NOBODY, || chown(&path, None, Some(NOBODY)).unwrap());
    assert_eq!(mode(&path), 0o777);
    set_mode(&path, 0o6777);
    as_user(NOBODY, NOBODY, || lchown(&path, None, None).unwrap());
    assert_eq!(mode(&path), 0o777);
    let directory = mount.path("directory");
    fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o6777);
    chown(&directory, Some(NOBODY), None).unwrap();
    assert_eq!(mode(&directory), 0o6777);
}

const CAPABILITY: &str = "security.capability";
/// `cap_net_bind_service=ep`, as the kernel wants it.
const A_CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A file of that name with a capability and another attribute.
fn capable_file(mount: &Mounted, name: &str) -> PathBuf {
    let path = mount.path(name);
    fs::write(&path, b"program").unwrap();
    set_xattr(&path, CAPABILITY, &A_CAPABILITY, 0).unwrap();
    set_xattr(&path, "user.other", b"stays", 0).unwrap();
    path
}

#[track_caller]
fn assert_not_capable(path: &Path, what: &str) {
    let capability = get_xattr(path, CAPABILITY, 100);
    assert_eq!(capability, Err(libc::ENODATA), "{what}");
    assert!(get_xattr(path, "user.other", 100).is_ok(), "{what}");
}

/// As local file systems have it, who writes gets no say in this: root's writes remove them too.
#[test]
fn capabilities_go_when_the_content_changes() {
    let Some(mount) = Mounted::new() else { return };
    for (name, change) in CHANGES {
        let path = capable_file(&mount, name);
        change(&path);
        assert_not_capable(&path, name);
        set_xattr(&path, CAPABILITY, &A_CAPABILITY, 0).unwrap();
        change(&path);
        assert_not_capable(&path, &format!("{name}, a second time"));
    }
    let path = capable_file(&mount, "copied");
    let from = File::open(capable_file(&mount, "source")).unwrap();
    let to = File::options().write(true).open(&path).unwrap();
    copy_six_bytes(&from, &to);
    assert_not_capable(&path, "copy_file_range");
    assert!(get_xattr(&mount.path("source"), CAPABILITY, 100).is_ok());
}

#[test]
fn capabilities_go_with_a_change_of_owner_and_stay_otherwise() {
    let Some(mount) = Mounted::new() else { return };
    let path = capable_file(&mount, "given");
    set_mode(&path, 0o755);
    fs::read(&path).unwrap();
    fs::rename(&path, mount.path("moved")).unwrap();
    let path = mount.path("moved");
    assert!(get_xattr(&path, CAPABILITY, 100).is_ok());
    chown(&path, Some(NOBODY), None).unwrap();
    assert_not_capable(&path, "chown");
    set_xattr(&path, CAPABILITY, &A_CAPABILITY, 0).unwrap();
    lchown(&path, None, None).unwrap();
    assert_not_capable(&path, "chown to nobody new");
}

/// The bit without group execution is no program's: it stays for members of the group, and goes for others.
#[test]
fn a_setgid_bit_without_group_execution_stays_for_members() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("mandatory");
    fs::write(&path, b"x").unwrap();
    chown(&path, Some(0), Some(4321)).unwrap();
    let write_as_group = |group| {
        set_mode(&path, 0o2666);
        as_user(NOBODY, group, || {
            let mut file = File::options().write(true).open(&path).unwrap();
            file.write_all(b"y").unwrap();
        });
        mode(&path)
    };
    assert_eq!(write_as_group(4321), 0o2666);
    assert_eq!(write_as_group(NOBODY), 0o666);
}
