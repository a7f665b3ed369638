//! Mount points: made, refused, taken away, and left behind by a killed process.

#[path = "common/child.rs"]
mod child;
mod common;
use child::{kill, mounted, serve_in_child};
use common::*;
use egeria_engine::{AttachMode, InodeNumber, NewInode};
use egeria_mount::{MountError, MountOptions, serve, spawn, unmount};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

/// One line, with a hint after the cause.
fn one_line(error: &MountError) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.contains("; "), "{text}");
    text
}

#[test]
fn bad_mount_points_are_named() {
    if !can_mount() {
        return;
    }
    let place = Place::with_pools_of(16 << 20);
    let volume = place.attach(AttachMode::CreateOrJoin);
    let options = MountOptions::default();
    let refuse = |path: &Path| match spawn(volume.clone(), path, &options) {
        Ok(_) => panic!("mounted at {}", path.display()),
        Err(error) => error,
    };
    let error = refuse(Path::new("/nonexistent/egeria"));
    assert!(matches!(error, MountError::Missing(_)));
    assert!(one_line(&error).contains("/nonexistent/egeria"));
    let error = refuse(&place.pool(0));
    assert!(matches!(error, MountError::NotADirectory(_)));
    one_line(&error);
    let handle = spawn(volume.clone(), place.point(), &options).unwrap();
    let error = refuse(place.point());
    assert!(matches!(error, MountError::AlreadyMounted { .. }));
    assert!(one_line(&error).contains("fuse.egeria"));
    let link = tempfile::tempdir().unwrap();
    symlink(place.point(), link.path().join("link")).unwrap();
    assert!(matches!(
        refuse(&link.path().join("link")),
        MountError::AlreadyMounted { .. }
    ));
    handle.unmount().unwrap();
    assert!(!mounted(place.point()));
}

/// They would keep pools and other files in use after the mount's end.
#[test]
fn processes_that_notify_map_no_files() {
    let Some(_mounted) = Mounted::new() else {
        return;
    };
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    let _mapping = map(&file, 4096, true);
    let Some(_other) = Mounted::new() else {
        return;
    };
    let notify = || -> Vec<String> {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let children = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")));
        let of_this = children.flatten().collect::<Vec<_>>().concat();
        let maps = of_this.split_whitespace().filter_map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let is_one = name.trim() == "egeria-notify";
            is_one.then(|| fs::read_to_string(format!("/proc/{pid}/maps")).ok())?
        });
        maps.collect()
    };
    let is_shared = |line: &str| line.split(' ').nth(1).is_some_and(|how| how.ends_with('s'));
    eventually("only private memory", || {
        let maps = notify();
        maps.len() >= 2 && !maps.iter().any(|map| map.lines().any(is_shared))
    });
}

#[test]
fn a_number_the_kernel_remembers_gets_no_other_life() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let volume = &mounted.volume;
    let root = InodeNumber::ROOT;
    let new = NewInode::of_root(libc::S_IFREG | 0o644);
    let next_numbers = || -> Vec<u64> {
        let next = (0..400).map(|_| {
            let made = volume.create(root, b"next", &new).unwrap();
            volume.unlink(root, b"next").unwrap();
            made.ino.0
        });
        next.collect()
    };
    // By this thread, as the next ones are: threads take numbers from parts of their own.
    volume.create(root, b"known", &new).unwrap();
    let path_only = File::options()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(mounted.path("known"))
        .unwrap();
    let number = path_only.metadata().unwrap().ino();
    volume.unlink(root, b"known").unwrap();
    assert!(!next_numbers().contains(&number));
    drop(path_only);
    // The kernel finds the name gone, and forgets soon.
    assert!(fs::metadata(mounted.path("known")).is_err());
    while !next_numbers().contains(&number) {}
}

#[test]
fn only_our_mounts_are_unmounted() {
    let directory = tempfile::tempdir().unwrap();
    let error = unmount(directory.path()).unwrap_err();
    assert!(matches!(error, MountError::NotMounted(_)));
    one_line(&error);
    let error = unmount(Path::new("/proc")).unwrap_err();
    assert!(matches!(error, MountError::NotOurs { .. }));
    assert!(one_line(&error).contains("proc"));
    assert!(matches!(
        unmount(Path::new("/nonexistent/x")),
        Err(MountError::NotMounted(_))
    ));
}

#[test]
fn a_busy_mount_stays_and_its_holders_are_named() {
    let Some(mount) = Mounted::new() else { return };
    fs::create_dir(mount.path("inside")).unwrap();
    let mut sleeper = Command::new("sleep")
        .arg("60")
        .current_dir(mount.path("inside"))
        .spawn();
    let sleeper = sleeper.as_mut().unwrap();
    let error = unmount(mount.place().point()).unwrap_err();
    let text = one_line(&error);
    assert!(
        text.contains(&format!("sleep (pid {}, working directory)", sleeper.id())),
        "{text}"
    );
    assert!(mounted(mount.place().point()));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let file = File::create(mount.path("file")).unwrap();
    let text = one_line(&unmount(mount.place().point()).unwrap_err());
    assert!(
        text.contains(&format!("(pid {}, open file)", std::process::id())),
        "{text}"
    );
    file.set_len(4096).unwrap();
    drop(file);
    let file = File::open(mount.path("file")).unwrap();
    let mapping = map(&file, 4096, false);
    drop(file);
    let text = one_line(&unmount(mount.place().point()).unwrap_err());
    assert!(
        text.contains(&format!("(pid {}, mapped file)", std::process::id())),
        "{text}"
    );
    drop(mapping);
    unmount(mount.place().point()).unwrap();
    assert!(!mounted(mount.place().point()));
}

/// `serve` says when it is ready, and returns when somebody unmounts.
#[test]
fn serving_ends_with_the_mount() {
    if !can_mount() {
        return;
    }
    let place = Place::with_pools_of(16 << 20);
    let volume = place.attach(AttachMode::CreateOrJoin);
    let (ready, when_ready) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let point = place.point();
        let serving = scope.spawn(move || {
            let options = MountOptions {
                threads: 1,
                ..MountOptions::default()
            };
            serve(volume, point, &options, || ready.send(()).unwrap())
        });
        let ready = when_ready.recv_timeout(std::time::Duration::from_secs(60));
        ready.expect("the mount is ready");
        fs::write(point.join("file"), b"served").unwrap();
        assert_eq!(fs::read(point.join("file")).unwrap(), b"served");
        unmount(point).unwrap();
        serving.join().unwrap().unwrap();
    });
}

/// A dropped handle leaves no mount point; who still has files goes on.
#[test]
fn a_dropped_mount_is_gone_but_open_files_live() {
    if !can_mount() {
        return;
    }
    let place = Place::with_pools_of(16 << 20);
    let volume = place.attach(AttachMode::CreateOrJoin);
    let handle = spawn(volume, place.point(), &MountOptions::default()).unwrap();
    let path = place.point().join("file");
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .unwrap();
    drop(handle);
    assert!(!mounted(place.point()));
    file.write_all(b"still there").unwrap();
    let mut content = [0; 11];
    file.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"still there");
}

/// `remount_ro`: a read-only mount refuses every change with `EROFS`.
#[test]
fn remount_ro() {
    let Some(mount) = Mounted::new() else { return };
    fs::write(mount.path("file"), b"content").unwrap();
    fs::create_dir(mount.path("directory")).unwrap();
    let options = MountOptions {
        allow_other: true,
        read_only: true,
        ..MountOptions::default()
    };
    let mount = mount.again(AttachMode::CreateOrJoin, &options);
    refuses_changes(&mount);
    let options = MountOptions {
        allow_other: true,
        ..MountOptions::default()
    };
    let mount = mount.again(AttachMode::ReadOnly, &options);
    refuses_changes(&mount);
}

fn refuses_changes(mount: &Mounted) {
    let (file, directory) = (mount.path("file"), mount.path("directory"));
    let new = mount.path("new");
    let owner_only = fs::Permissions::from_mode(0o700);
    assert_eq!(truncate(&file, 0), Err(libc::EROFS));
    assert_eq!(set_xattr(&file, "user.a", b"", 0), Err(libc::EROFS));
    for (what, outcome) in [
        ("create", File::create(&new).map(drop)),
        (
            "open to write",
            File::options().write(true).open(&file).map(drop),
        ),
        ("append", File::options().append(true).open(&file).map(drop)),
        ("mkdir", fs::create_dir(&new)),
        ("symlink", symlink("x", &new)),
        ("link", fs::hard_link(&file, &new)),
        ("rename", fs::rename(&file, &new)),
        ("unlink", fs::remove_file(&file)),
        ("rmdir", fs::remove_dir(&directory)),
        ("chmod", fs::set_permissions(&file, owner_only)),
        ("chown", chown(&file, Some(1), None)),
    ] {
        assert_eq!(errno(outcome), libc::EROFS, "{what}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"content");
    assert_eq!(fs::read_dir(mount.path("")).unwrap().count(), 2);
}

/// What returned is there after the mount process was killed in the middle of writing; its
/// mount point says what is the matter, and is taken away under those who stand in it.
#[test]
fn a_killed_mount_loses_nothing() {
    if !can_mount() {
        return;
    }
    let place = Place::with_pools_of(64 << 20);
    for round in 0..3u8 {
        let child = serve_in_child(&place, &MountOptions::default());
        let point = place.point().to_path_buf();
        let writer = std::thread::spawn(move || write_until_it_fails(&point, round));
        let standing = File::open(place.point()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(150));
        kill(child);
        let written = writer.join().unwrap();
        assert!(written > 0);
        soon_without_connection(place.point());
        let volume = place.attach(AttachMode::CreateOrJoin);
        let options = MountOptions::default();
        let error = spawn(volume.clone(), place.point(), &options)
            .err()
            .unwrap();
        assert!(matches!(error, MountError::DeadEndpoint(_)), "{error}");
        assert!(one_line(&error).contains("egeria umount"));
        unmount(place.point()).unwrap();
        drop(standing);
        let handle = spawn(volume.clone(), place.point(), &options).unwrap();
        for number in 0..written {
            let path = place.point().join(format!("{round}-{number}"));
            assert_eq!(
                fs::read(path).unwrap(),
                pattern(number as u8, 5000),
                "file {number}"
            );
        }
        handle.unmount().unwrap();
        volume.detach();
    }
}

/// The kernel may remember the attributes of the root for a moment, and ends a request that is under way when it takes
/// the connection down with `ECONNABORTED`.
fn soon_without_connection(point: &Path) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let is_under_way = |error: &std::io::Error| error.raw_os_error() == Some(libc::ECONNABORTED);
    while fs::metadata(point).map_or_else(|error| is_under_way(&error), |_| true) {
        assert!(
            std::time::Instant::now() < deadline,
            "the dead mount answers"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(errno(fs::metadata(point)), libc::ENOTCONN);
}

/// Files whose content, and then name, are complete; how many before the mount was gone.
fn write_until_it_fails(point: &Path, round: u8) -> usize {
    let write = |number: usize| {
        let temporary = point.join(format!("{round}-temporary"));
        fs::write(&temporary, pattern(number as u8, 5000))?;
        fs::rename(temporary, point.join(format!("{round}-{number}")))
    };
    (0..2000)
        .find(|number| write(*number).is_err())
        .unwrap_or(2000)
}

/// With `auto_unmount` a killed mount leaves no mount point.
#[test]
fn auto_unmount_takes_a_killed_mount_away() {
    if !can_mount() {
        return;
    }
    let place = Place::with_pools_of(16 << 20);
    let options = MountOptions {
        auto_unmount: true,
        ..MountOptions::default()
    };
    let child = serve_in_child(&place, &options);
    fs::write(place.point().join("file"), b"x").unwrap();
    kill(child);
    eventually("the mount point is free", || !mounted(place.point()));
    assert_eq!(fs::read_dir(place.point()).unwrap().count(), 0);
    place.attach(AttachMode::CreateOrJoin).detach();
}

/// ... and an ordinary end does no harm.
#[test]
fn auto_unmount_allows_an_ordinary_end() {
    let options = MountOptions {
        auto_unmount: true,
        ..MountOptions::default()
    };
    let Some(mount) = Mounted::with(&options) else {
        return;
    };
    fs::write(mount.path("file"), b"x").unwrap();
    let point = mount.path("");
    drop(mount);
    assert!(!mounted(&point));
}

/// Who is not root mounts and unmounts through fusermount3, and alone has access.
#[test]
fn ordinary_users_mount_through_fusermount() {
    if !can_mount() || !anybody_can_mount() {
        return;
    }
    let place = Place::with_pools_of(16 << 20);
    let volume = place.attach(AttachMode::CreateOrJoin);
    chown(place.point(), Some(NOBODY), Some(NOBODY)).unwrap();
    as_user(NOBODY, NOBODY, || {
        let trusting = MountOptions {
            trust_privileged_files: true,
            ..MountOptions::default()
        };
        let error = spawn(volume.clone(), place.point(), &trusting)
            .err()
            .unwrap();
        assert!(matches!(error, MountError::NotRoot));
        let handle = spawn(volume.clone(), place.point(), &MountOptions::default()).unwrap();
        fs::write(place.point().join("file"), b"mine").unwrap();
        assert_eq!(fs::read(place.point().join("file")).unwrap(), b"mine");
        let standing = File::open(place.point()).unwrap();
        assert!(matches!(
            unmount(place.point()),
            Err(MountError::Busy { .. })
        ));
        drop(standing);
        handle.unmount().unwrap();
        assert!(!mounted(place.point()));
        let error = spawn(volume.clone(), Path::new("/mnt"), &MountOptions::default());
        let error = error.err().unwrap();
        assert!(matches!(error, MountError::NoPermission { .. }), "{error}");
        assert!(one_line(&error).contains("fusermount3"));
    });
}

/// Set-user-id bits and devices of a volume are not honoured unless its pools are trusted.
#[test]
fn privileged_files_count_only_when_trusted() {
    if !can_mount() {
        return;
    }
    for trusted in [false, true] {
        let options = MountOptions {
            allow_other: true,
            trust_privileged_files: trusted,
            ..MountOptions::default()
        };
        let Some(mount) = Mounted::with(&options) else {
            return;
        };
        let program = mount.path("id");
        fs::copy("/usr/bin/id", &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        let output = as_user(NOBODY, NOBODY, || Command::new(&program).arg("-u").output());
        let user = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(user.trim() == "0", trusted, "user {user}");
    }
}

/// A pool that shrinks under its mapping gives `EIO`; the mount lives.
#[test]
fn a_truncated_pool_gives_eio() {
    let Some(mount) = Mounted::new() else { return };
    fs::write(mount.path("small"), b"early").unwrap();
    fs::write(mount.path("large"), pattern(1, 40 << 20)).unwrap();
    let mut large = File::open(mount.path("large")).unwrap();
    let files: Vec<File> = (0..2)
        .map(|n| {
            File::options()
                .write(true)
                .open(mount.place().pool(n))
                .unwrap()
        })
        .collect();
    let saved: Vec<Vec<u8>> = (0..2)
        .map(|n| fs::read(mount.place().pool(n)).unwrap())
        .collect();
    files
        .iter()
        .for_each(|file| file.set_len(16 << 20).unwrap());
    let mut content = Vec::new();
    let outcome = large.read_to_end(&mut content);
    assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::EIO));
    for (file, saved) in files.iter().zip(&saved) {
        file.set_len(saved.len() as u64).unwrap();
        file.write_all_at(&saved[16 << 20..], 16 << 20).unwrap();
    }
    drop(large);
    // What the kernel read ahead meanwhile may be of the moment when the pools were long again, and empty there.
    let read_anew = || {
        let file = File::open(mount.path("large")).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        fs::read(mount.path("large")).unwrap() == pattern(1, 40 << 20)
    };
    eventually("the content is there again", read_anew);
    assert_eq!(fs::read(mount.path("small")).unwrap(), b"early");
}

/// A child's process is stopped while this lives.
struct Stop<'a>(&'a std::process::Child);

impl<'a> Stop<'a> {
    fn of(child: &'a std::process::Child) -> Stop<'a> {
        let stop = Stop(child);
        stop.signal(Signal::STOP);
        // Until all its threads are: one that is not yet could take a request with it.
        waitpid(Some(Pid::from_child(child)), WaitOptions::UNTRACED).unwrap();
        stop
    }

    fn signal(&self, signal: Signal) {
        // Our own child, not waited for yet.
        kill_process(Pid::from_child(self.0), signal).unwrap();
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
    }
}

#[test]
fn nobody_waits_for_a_stopped_process_to_unmount_its_mount() {
    if !can_mount() {
        return;
    }
    let place = Place::with_pools_of(16 << 20);
    let mut child = serve_in_child(&place, &MountOptions::default());
    let mut sleeper = Command::new("sleep")
        .arg("600")
        .current_dir(place.point())
        .spawn()
        .unwrap();
    {
        let stop = Stop::of(&child);
        let soon = |what: &str| {
            let point = place.point().to_path_buf();
            let (sender, receiver) = std::sync::mpsc::channel();
            std::thread::spawn(move || sender.send(unmount(&point)));
            let outcome = receiver.recv_timeout(std::time::Duration::from_secs(60));
            outcome.unwrap_or_else(|_| {
                stop.signal(Signal::KILL);
                panic!("{what}: it waits for the stopped process")
            })
        };
        let error = soon("busy").unwrap_err();
        let text = one_line(&error);
        assert!(text.contains("sleep (pid"), "{text}");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        soon("free").unwrap();
        assert!(!mounted(place.point()));
    }
    child.wait().unwrap();
}
