//! Names: making, finding, listing, moving and removing them.

use crate::common::*;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, RenameFlags, mknodat, openat, renameat_with};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;

fn rename(from: &Path, to: &Path, flags: u32) -> Result<(), i32> {
    let flags = RenameFlags::from_bits_retain(flags);
    sys(renameat_with(CWD, from, CWD, to, flags))
}

fn mknod(path: &Path, mode: u32, device: u64) -> Result<(), i32> {
    let (kind, mode) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode));
    sys(mknodat(CWD, path, kind, mode, device))
}

#[test]
fn every_kind_of_inode_can_be_made_found_and_removed() {
    let Some(mount) = Mounted::new() else { return };
    let device = libc::makedev(8, 300);
    for (name, kind) in [
        ("regular", libc::S_IFREG),
        ("pipe", libc::S_IFIFO),
        ("socket", libc::S_IFSOCK),
        ("character", libc::S_IFCHR),
        ("block", libc::S_IFBLK),
    ] {
        mknod(&mount.path(name), kind | 0o644, device).unwrap();
        assert_eq!(
            mknod(&mount.path(name), kind | 0o644, device),
            Err(libc::EEXIST)
        );
        let metadata = fs::symlink_metadata(mount.path(name)).unwrap();
        assert_eq!(metadata.mode() & libc::S_IFMT, kind, "{name}");
        if kind == libc::S_IFCHR || kind == libc::S_IFBLK {
            assert_eq!(metadata.rdev(), device);
        }
        let listed = fs::read_dir(mount.path(""))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(listed.file_type().unwrap().is_fifo(), name == "pipe");
        fs::remove_file(mount.path(name)).unwrap();
        assert_eq!(errno(fs::symlink_metadata(mount.path(name))), libc::ENOENT);
    }
}

#[test]
fn symlinks_keep_their_target() {
    let Some(mount) = Mounted::new() else { return };
    for target in ["a", "../elsewhere", &"long/".repeat(400), &"x".repeat(4095)] {
        let link = mount.path("link");
        symlink(target, &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
        assert_eq!(
            fs::symlink_metadata(&link).unwrap().len(),
            target.len() as u64
        );
        fs::remove_file(&link).unwrap();
    }
    fs::write(mount.path("file"), b"through").unwrap();
    symlink("file", mount.path("link")).unwrap();
    assert_eq!(fs::read(mount.path("link")).unwrap(), b"through");
}

#[test]
fn rename_replaces_refuses_or_exchanges() {
    let Some(mount) = Mounted::new() else { return };
    let (a, b) = (mount.path("a"), mount.path("b"));
    fs::write(&a, b"A").unwrap();
    fs::write(&b, b"B").unwrap();
    assert_eq!(rename(&a, &b, libc::RENAME_NOREPLACE), Err(libc::EEXIST));
    rename(&a, &b, libc::RENAME_EXCHANGE).unwrap();
    assert_eq!(
        (fs::read(&a).unwrap(), fs::read(&b).unwrap()),
        (b"B".to_vec(), b"A".to_vec())
    );
    rename(&a, &b, 0).unwrap();
    assert_eq!(fs::read(&b).unwrap(), b"B");
    assert_eq!(rename(&a, &b, 0), Err(libc::ENOENT));
    rename(&b, &a, libc::RENAME_NOREPLACE).unwrap();
    assert_eq!(rename(&a, &b, libc::RENAME_EXCHANGE), Err(libc::ENOENT));
    assert_eq!(rename(&a, &b, libc::RENAME_WHITEOUT), Err(libc::EINVAL));
}

#[test]
fn directories_move_but_not_into_themselves() {
    let Some(mount) = Mounted::new() else { return };
    fs::create_dir_all(mount.path("outer/inner")).unwrap();
    fs::write(mount.path("outer/inner/file"), b"x").unwrap();
    assert_eq!(
        errno(fs::rename(mount.path("outer"), mount.path("outer/inner/o"))),
        libc::EINVAL
    );
    fs::create_dir(mount.path("other")).unwrap();
    fs::rename(mount.path("outer/inner"), mount.path("other/moved")).unwrap();
    assert_eq!(fs::read(mount.path("other/moved/file")).unwrap(), b"x");
    let up = fs::metadata(mount.path("other/moved/..")).unwrap().ino();
    assert_eq!(up, fs::metadata(mount.path("other")).unwrap().ino());
    assert_eq!(errno(fs::remove_dir(mount.path("other"))), libc::ENOTEMPTY);
    assert_eq!(
        errno(fs::rename(mount.path("outer"), mount.path("other"))),
        libc::ENOTEMPTY
    );
}

/// `path_max`: names and paths at and above the limits.
#[test]
fn path_max() {
    let Some(mount) = Mounted::new() else { return };
    let (longest, longer) = ("n".repeat(255), "n".repeat(256));
    fs::write(mount.path(&longest), b"found").unwrap();
    assert_eq!(fs::read(mount.path(&longest)).unwrap(), b"found");
    assert_eq!(fs::read_dir(mount.path("")).unwrap().count(), 1);
    for outcome in [
        File::create(mount.path(&longer)).map(drop),
        fs::metadata(mount.path(&longer)).map(drop),
        fs::create_dir(mount.path(&longer)),
        symlink("x", mount.path(&longer)),
        fs::hard_link(mount.path(&longest), mount.path(&longer)),
        fs::rename(mount.path(&longest), mount.path(&longer)),
        fs::remove_file(mount.path(&longer)),
        fs::remove_dir(mount.path(&longer)),
    ] {
        assert_eq!(errno(outcome), libc::ENAMETOOLONG);
    }
    assert_eq!(
        mknod(&mount.path(&longer), libc::S_IFIFO, 0),
        Err(libc::ENAMETOOLONG)
    );
    fs::remove_file(mount.path(&longest)).unwrap();
    // A path of 4095 bytes is the longest the kernel takes.
    let deep = deep_directory(&mount, &longest);
    let name = "f".repeat(4095 - deep.as_os_str().len() - 1);
    fs::write(deep.join(&name), b"deep").unwrap();
    assert_eq!(fs::read(deep.join(&name)).unwrap(), b"deep");
    assert_eq!(
        errno(fs::metadata(deep.join(name + "f"))),
        libc::ENAMETOOLONG
    );
}

/// Directories inside each other, as far as a path of 4095 bytes with one more name reaches.
fn deep_directory(mount: &Mounted, name: &str) -> std::path::PathBuf {
    let mut path = mount.place().point().to_path_buf();
    loop {
        let room = 4095 - path.as_os_str().len() - 1;
        if room <= name.len() {
            return path;
        }
        path.push(&name[..name.len().min(room - 2)]);
        fs::create_dir(&path).unwrap();
    }
}

#[test]
fn names_are_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let Some(mount) = Mounted::new() else { return };
    let name = std::ffi::OsStr::from_bytes(b"\xff\x01 \n\\*");
    fs::write(mount.place().point().join(name), b"x").unwrap();
    let listed = fs::read_dir(mount.path(""))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(listed.file_name(), name);
    fs::remove_file(listed.path()).unwrap();
}

#[test]
fn a_large_directory_is_listed_once_each() {
    let Some(mount) = Mounted::new() else { return };
    let names: BTreeSet<String> = (0..3000)
        .map(|n| format!("entry-with-some-length-{n}"))
        .collect();
    for name in &names {
        File::create(mount.path(name)).unwrap();
    }
    let listed: Vec<String> = fs::read_dir(mount.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(listed.len(), names.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
}

/// Cookies stay good while other entries come and go: what lived throughout is listed once.
#[test]
fn directory_cookies_are_stable() {
    let Some(mount) = Mounted::new() else { return };
    for n in 0..2000 {
        File::create(mount.path(&format!("keep-{n:04}"))).unwrap();
        File::create(mount.path(&format!("lose-{n:04}"))).unwrap();
    }
    let mut seen = BTreeSet::new();
    for (at, entry) in fs::read_dir(mount.path("")).unwrap().enumerate() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.starts_with("keep") {
            assert!(seen.insert(name), "listed twice");
        }
        if at < 2000 {
            fs::remove_file(mount.path(&format!("lose-{at:04}"))).unwrap();
            File::create(mount.path(&format!("new-{at:04}"))).unwrap();
        }
    }
    assert_eq!(seen.len(), 2000);
}

/// telldir and seekdir, also back to the start.
#[test]
fn directories_can_be_read_again_from_a_place() {
    let Some(mount) = Mounted::new() else { return };
    for n in 0..500 {
        File::create(mount.path(&format!("{n}"))).unwrap();
    }
    let mut stream = Dir::read_from(File::open(mount.path("")).unwrap()).unwrap();
    let rest = |stream: &mut Dir| -> Vec<_> {
        let names = stream.map(|entry| entry.unwrap().file_name().to_owned());
        names.collect()
    };
    let mut place = 0;
    for _ in 0..100 {
        place = stream.read().unwrap().unwrap().offset();
    }
    let behind = rest(&mut stream);
    assert_eq!(behind.len(), 402);
    stream.seek(place).unwrap();
    assert_eq!(rest(&mut stream), behind);
    stream.rewind();
    assert_eq!(rest(&mut stream).len(), 502);
}

/// `openat_relative`: a path relative to a directory descriptor, also after it was moved.
#[test]
fn openat_relative() {
    let Some(mount) = Mounted::new() else { return };
    fs::create_dir_all(mount.path("one/two")).unwrap();
    fs::write(mount.path("one/two/file"), b"relative").unwrap();
    let directory = File::open(mount.path("one")).unwrap();
    fs::rename(mount.path("one"), mount.path("renamed")).unwrap();
    let file = openat(
        &directory,
        "two/../two/file",
        OFlags::CLOEXEC,
        Mode::empty(),
    );
    let file = File::from(file.unwrap());
    assert_eq!(std::io::read_to_string(file).unwrap(), "relative");
}

/// Of many who open a name with `O_CREAT` at once all get the same file.
#[test]
fn racing_creators_all_open_the_file() {
    let Some(mount) = Mounted::new() else { return };
    for round in 0..40 {
        let path = mount.path(&format!("log-{round}"));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let mut file = File::options()
                        .append(true)
                        .create(true)
                        .open(&path)
                        .unwrap();
                    file.write_all(b"line\n").unwrap();
                });
            }
        });
        assert_eq!(fs::read(&path).unwrap().len(), 30);
    }
}

/// ... also when one of them goes past the kernel, at every moment of the other's opening.
#[test]
fn a_creator_past_the_kernel_does_not_disturb_others() {
    let Some(mount) = Mounted::new() else { return };
    let new = egeria_engine::NewInode::of_root(libc::S_IFREG | 0o644);
    for round in 0..300u64 {
        let name = format!("log-{round}");
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                let moment = std::time::Instant::now();
                while moment.elapsed() < std::time::Duration::from_nanos(400 * round) {
                    std::hint::spin_loop();
                }
                let made =
                    mount
                        .volume
                        .create(egeria_engine::InodeNumber::ROOT, name.as_bytes(), &new);
                assert!(made.is_ok() || made == Err(egeria_engine::Errno(libc::EEXIST)));
            });
            start.wait();
            open(mount.path(&name), libc::O_CREAT | libc::O_WRONLY, 0o644).unwrap();
        });
    }
}

/// ... and with `O_EXCL` exactly one.
#[test]
fn racing_exclusive_creators_have_one_winner() {
    let Some(mount) = Mounted::new() else { return };
    for round in 0..40 {
        let path = mount.path(&format!("lock-{round}"));
        let create = || match File::options().write(true).create_new(true).open(&path) {
            Ok(_) => 1,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EEXIST));
                0
            }
        };
        let winners: i32 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(create)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(winners, 1);
    }
}

/// Who stands in a directory that is removed, its number given to another, does not act on
/// the other.
#[test]
fn a_removed_directory_is_not_mistaken_for_its_successor() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("old");
    fs::create_dir(&path).unwrap();
    let old = open(&path, libc::O_PATH | libc::O_DIRECTORY, 0).unwrap();
    fs::remove_dir(&path).unwrap();
    for n in 0..50 {
        fs::create_dir(mount.path(&format!("new-{n}"))).unwrap();
    }
    let inside = format!(
        "/proc/self/fd/{}/intruder",
        std::os::fd::AsRawFd::as_raw_fd(&old)
    );
    assert!(File::create(&inside).is_err());
    assert!(fs::metadata(&inside).is_err());
    for n in 0..50 {
        assert_eq!(
            fs::read_dir(mount.path(&format!("new-{n}")))
                .unwrap()
                .count(),
            0
        );
    }
}

/// The same when the engine removes past the kernel, which then still believes in the old one.
#[test]
fn a_number_reused_past_the_kernel_is_stale() {
    let Some(mount) = Mounted::new() else { return };
    let root = egeria_engine::InodeNumber::ROOT;
    let directory = |mode| egeria_engine::NewInode {
        mode,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    fs::create_dir(mount.path("old")).unwrap();
    let old = open(mount.path("old"), libc::O_PATH | libc::O_DIRECTORY, 0).unwrap();
    let number = fs::metadata(mount.path("old")).unwrap().ino();
    mount.volume.remove_directory(root, b"old").unwrap();
    let mut reused = None;
    for n in 0..200 {
        let name = format!("new-{n}");
        let made = mount
            .volume
            .create(root, name.as_bytes(), &directory(libc::S_IFDIR | 0o755));
        if made.unwrap().ino.0 == number {
            reused = Some(name);
            break;
        }
    }
    let inside = format!(
        "/proc/self/fd/{}/intruder",
        std::os::fd::AsRawFd::as_raw_fd(&old)
    );
    let error = errno(File::create(inside));
    assert!(error == libc::ESTALE || error == libc::ENOENT, "{error}");
    if let Some(name) = reused {
        assert_eq!(fs::read_dir(mount.path(&name)).unwrap().count(), 0);
    }
}
