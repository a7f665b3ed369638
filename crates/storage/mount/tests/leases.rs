//! What the kernel remembers of names and attributes without asking, and that it never remembers what is not so.

#[path = "common/child.rs"]
mod child;
mod common;
use child::Served;
use common::{Mounted, NOBODY, Random};
use egeria_engine::{
    AttributeChange, Attributes, Errno, InodeNumber, NewInode, RenameMode, Volume,
};
use egeria_harness::testing::is_root;
use egeria_mount::{LeaseTiming, MountOptions};
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROOT: InodeNumber = InodeNumber::ROOT;
const FILE: NewInode = NewInode::of_root(libc::S_IFREG | 0o644);
const DIRECTORY: NewInode = NewInode::of_root(libc::S_IFDIR | 0o755);

#[test]
fn names_and_attributes_are_asked_for_once() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    fs::create_dir_all(mounted.path("a/b")).unwrap();
    fs::write(mounted.path("a/b/file"), b"content").unwrap();
    let (directory, missing) = (mounted.path("a/b"), mounted.path("a/b/missing"));
    let file = fs::File::open(mounted.path("a/b/file")).unwrap();
    let look = || {
        assert_eq!(file.metadata().unwrap().len(), 7);
        assert!(fs::metadata(&directory).is_ok());
        assert!(fs::metadata(&missing).is_err());
    };
    // The first answers about what the kernel has are not to be remembered.
    look();
    std::thread::sleep(Duration::from_millis(20));
    look();
    let before = mounted.volume.counters().mount_requests;
    let begun = Instant::now();
    (0..10_000).for_each(|_| look());
    let names = || listed(&mounted.path("a/b"));
    (0..100).for_each(|_| assert_eq!(names(), ["file"]));
    // The root is asked for every second, directories every ten. A directory is opened and closed, and read once.
    let expected = 210 + 4 * begun.elapsed().as_secs();
    let requests = mounted.volume.counters().mount_requests - before;
    assert!(requests <= expected, "{requests} requests");
}

/// Few names in few directories, so that changes meet.
struct Tree<'a> {
    volume: &'a Volume,
    directories: [InodeNumber; 3],
}

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

impl Tree<'_> {
    fn new(volume: &Volume) -> Tree<'_> {
        let make = |name: &str| volume.create(ROOT, name.as_bytes(), &DIRECTORY);
        Tree {
            volume,
            directories: ["a", "b", "c"].map(|name| make(name).unwrap().ino),
        }
    }

    /// One change past the mount; refused ones change nothing.
    fn change(&self, random: &mut Random) -> Result<(), Errno> {
        let volume = self.volume;
        let mut any = || {
            let directory = self.directories[random.below(3) as usize];
            (directory, NAMES[random.below(4) as usize].as_bytes())
        };
        let ((directory, name), (other, other_name)) = (any(), any());
        let named = || volume.lookup(directory, name).map(|found| found.ino);
        let change = |change: AttributeChange| {
            let changed = volume.set_attributes(named()?, &change);
            changed.map(drop)
        };
        match random.below(12) {
            0 | 1 => volume.create(directory, name, &FILE).map(drop),
            2 => volume.create(directory, name, &DIRECTORY).map(drop),
            3 => volume.unlink(directory, name),
            4 => volume.remove_directory(directory, name),
            5 => volume.rename(directory, name, other, other_name, RenameMode::Replace),
            6 => volume.link(named()?, other, other_name).map(drop),
            7 => change(AttributeChange {
                permissions: Some(random.below(0o1000) as u32),
                ..AttributeChange::default()
            }),
            8 => change(AttributeChange {
                size_bytes: Some(random.below(MAX_BYTES)),
                ..AttributeChange::default()
            }),
            _ => {
                let ino = named()?;
                let data = vec![random.below(256) as u8; 1 + random.below(6000) as usize];
                let file = volume.open(ino, None)?;
                let written = volume.write(file, random.below(MAX_BYTES), &data);
                volume.close(ino);
                written.map(drop)
            }
        }
    }

    /// What is known past the mount, of every name.
    fn truth(&self) -> Vec<Truth> {
        let in_directory = |directory: &InodeNumber| {
            let directory = *directory;
            NAMES.map(|name| {
                let found = self.volume.lookup(directory, name.as_bytes())?;
                Ok((found, content(self.volume, found)))
            })
        };
        self.directories.iter().flat_map(in_directory).collect()
    }
}

const MAX_BYTES: u64 = 20_000;

/// Attributes and, of a file, content.
type Truth = Result<(Attributes, Vec<u8>), Errno>;

fn content(volume: &Volume, found: Attributes) -> Vec<u8> {
    if found.mode & libc::S_IFMT != libc::S_IFREG {
        return Vec::new();
    }
    let mut content = vec![0; found.size_bytes as usize];
    let file = volume.open(found.ino, None).unwrap();
    assert_eq!(volume.read(file, 0, &mut content), Ok(content.len()));
    volume.close(found.ino);
    content
}

fn paths(path: impl Fn(&str) -> PathBuf) -> Vec<PathBuf> {
    let in_directory = |directory: &str| NAMES.map(|name| path(&format!("{directory}/{name}")));
    ["a", "b", "c"].into_iter().flat_map(in_directory).collect()
}

/// `EGERIA_TEST_ROUNDS` for a longer run.
fn rounds() -> usize {
    let rounds = std::env::var("EGERIA_TEST_ROUNDS").ok();
    rounds.map_or(400, |rounds| rounds.parse().unwrap())
}

/// Names in a directory.
fn listed(directory: &Path) -> Vec<String> {
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(directory).unwrap().map(name).collect();
    names.sort();
    names
}

fn attributes(seen: &fs::Metadata) -> (u64, u32, u64, u64, i64, i64) {
    let ns = |seconds: i64, ns: i64| seconds * 1_000_000_000 + ns;
    let mtime_ns = ns(seen.mtime(), seen.mtime_nsec());
    let ctime_ns = ns(seen.ctime(), seen.ctime_nsec());
    let (ino, mode, bytes) = (seen.ino(), seen.mode(), seen.len());
    (ino, mode, bytes, seen.nlink(), mtime_ns, ctime_ns)
}

fn known(found: &Attributes) -> (u64, u32, u64, u64, i64, i64) {
    let (ino, mode, bytes) = (found.ino.0, found.mode, found.size_bytes);
    let nlink = found.nlink.into();
    (ino, mode, bytes, nlink, found.mtime_ns, found.ctime_ns)
}

/// What `stat` and `read` say is what is so.
fn compare(path: &Path, truth: &Truth) {
    match (fs::symlink_metadata(path), truth) {
        (Ok(seen), Ok((found, content))) => {
            assert_eq!(attributes(&seen), known(found), "{path:?}");
            if found.mode & libc::S_IFMT == libc::S_IFREG {
                let read = fs::read(path).unwrap();
                assert!(read == *content, "{path:?} has another content");
            }
        }
        (Err(error), Err(Errno(libc::ENOENT))) => {
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{path:?}");
        }
        (seen, found) => panic!("{path:?}: the kernel says {seen:?}, so is {found:?}"),
    }
}

/// Change and compare while others look at the same names all the time; how many changes were made.
fn change_and_compare(
    tree: &Tree<'_>,
    paths: &[PathBuf],
    seed: u64,
    rounds: usize,
    change: impl Fn(&Tree<'_>, &mut Random) -> Result<(), Errno>,
) -> usize {
    let is_over = AtomicBool::new(false);
    let mut changed = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for path in paths {
                        let _ = fs::symlink_metadata(path);
                        let _ = fs::read(path);
                    }
                    listed(paths[0].parent().unwrap());
                }
            });
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut random = Random(seed);
            for _ in 0..rounds {
                changed += usize::from(change(tree, &mut random).is_ok());
                let truth = tree.truth();
                for (path, truth) in paths.iter().zip(&truth) {
                    compare(path, truth);
                }
                for (paths, truth) in paths.chunks(NAMES.len()).zip(truth.chunks(NAMES.len())) {
                    let there = NAMES.iter().zip(truth).filter(|(_, truth)| truth.is_ok());
                    let mut there: Vec<&str> = there.map(|(name, _)| *name).collect();
                    there.sort();
                    assert_eq!(listed(paths[0].parent().unwrap()), there);
                }
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    changed
}

#[test]
fn changes_past_the_kernel_are_seen_at_once() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let tree = Tree::new(&mounted.volume);
    let paths = paths(|path| mounted.path(path));
    let changed = change_and_compare(&tree, &paths, 0x5eed_0001, rounds(), |tree, random| {
        tree.change(random)
    });
    assert!(changed > rounds() / 5, "{changed} changes");
}

/// As programs under the preload library do it: names of what the kernel uses it changes itself.
#[test]
fn changes_of_unused_names_past_the_kernel_are_seen_at_once() {
    let Some(served) = Served::new() else {
        return;
    };
    served.volume.leave_used_names_to_kernel();
    let tree = Tree::new(&served.volume);
    let paths = paths(|path| served.path(path));
    let by_kernel = std::cell::Cell::new(0);
    let change = |tree: &Tree<'_>, random: &mut Random| match tree.change(random) {
        Err(Errno(libc::EBUSY)) => {
            by_kernel.set(by_kernel.get() + 1);
            // Any change of a name that the kernel makes itself.
            let path = &paths[random.below(paths.len() as u64) as usize];
            let removed = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
            removed.map_err(|error| Errno(error.raw_os_error().unwrap_or(0)))
        }
        outcome => outcome,
    };
    let changed = change_and_compare(&tree, &paths, 0x5eed_0002, rounds(), change);
    assert!(changed > rounds() / 5, "{changed} changes");
    assert!(
        by_kernel.get() > rounds() / 50,
        "{} by the kernel",
        by_kernel.get()
    );
}

/// What is not remembered is looked up under the kernel's lock of the directory, which others may hold for long.
#[test]
fn a_change_of_a_name_leaves_all_others_remembered() {
    const FILES: usize = 200;
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let volume = &mounted.volume;
    let directory = volume.create(ROOT, b"directory", &DIRECTORY).unwrap().ino;
    let name = |number: usize| format!("name{number}");
    for number in 0..FILES {
        volume
            .create(directory, name(number).as_bytes(), &FILE)
            .unwrap();
    }
    let path = |name: &str| mounted.path(&format!("directory/{name}"));
    let look = |from| {
        for number in from..FILES {
            assert!(fs::metadata(path(&name(number))).is_ok());
        }
    };
    // Twice: the first answer about what the kernel has is not to be remembered.
    look(0);
    std::thread::sleep(Duration::from_millis(200));
    look(0);
    look(0);
    let requests = || mounted.volume.counters().mount_requests;
    let before = requests();
    look(0);
    assert!(requests() - before < 20, "remembered");
    let replace = RenameMode::Replace;
    let rename = |from: &[u8], to: &[u8]| volume.rename(directory, from, directory, to, replace);
    rename(b"name0", b"moved").unwrap();
    rename(b"name1", b"name2").unwrap();
    volume.unlink(directory, b"name3").unwrap();
    // The directory itself is asked about until its attributes may be remembered again.
    for _ in 0..3 {
        assert!(fs::metadata(path("name4")).is_ok());
        std::thread::sleep(Duration::from_millis(50));
    }
    let before = requests();
    look(4);
    let asked = requests() - before;
    assert!(asked < 20, "{asked} requests");
    for (name, is_there) in [
        ("name0", false),
        ("moved", true),
        ("name1", false),
        ("name2", true),
        ("name3", false),
    ] {
        assert_eq!(fs::metadata(path(name)).is_ok(), is_there, "{name}");
    }
}

/// A file made past the kernel, whose name that remembers.
fn remembered_file(mounted: &Mounted, name: &str) -> InodeNumber {
    let made = mounted.volume.create(ROOT, name.as_bytes(), &FILE).unwrap();
    for _ in 0..3 {
        assert!(fs::metadata(mounted.path(name)).is_ok());
        std::thread::sleep(Duration::from_millis(30));
    }
    made.ino
}

fn give_to_nobody(volume: &Volume, ino: InodeNumber) {
    let change = AttributeChange {
        uid: Some(NOBODY),
        ..AttributeChange::default()
    };
    volume.set_attributes(ino, &change).unwrap();
}

/// A recall of attributes alone leaves the names of a file, and the kernel takes them along when it renames it.
#[test]
fn a_name_that_the_kernel_moved_after_a_recall_is_recalled_too() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let volume = &mounted.volume;
    let made = remembered_file(&mounted, "before");
    let file = volume.open(made, None).unwrap();
    volume.write(file, 0, b"data").unwrap();
    volume.close(made);
    let after = mounted.path("after");
    fs::rename(mounted.path("before"), &after).unwrap();
    give_to_nobody(volume, made);
    // The kernel checks the owner that it knows.
    as_user(NOBODY, || {
        fs::set_permissions(&after, fs::Permissions::from_mode(0o600))
    })
    .unwrap();
}

/// The kernel moves one name of a file again and again, and remembers the other all the time.
#[test]
fn a_name_is_recalled_after_many_moves_of_another() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let volume = &mounted.volume;
    let made = remembered_file(&mounted, "name");
    let link = |number: usize| mounted.path(&format!("link{number}"));
    fs::hard_link(mounted.path("name"), link(0)).unwrap();
    for number in 0..40 {
        fs::rename(link(number), link(number + 1)).unwrap();
    }
    give_to_nobody(volume, made);
    for path in [mounted.path("name"), link(40)] {
        let permissions = fs::Permissions::from_mode(0o600);
        as_user(NOBODY, || fs::set_permissions(&path, permissions)).unwrap();
    }
}

#[test]
fn moved_names_are_not_remembered_without_a_lease() {
    let Some(mounted) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    let volume = &mounted.volume;
    let make = |name: &[u8]| volume.create(ROOT, name, &DIRECTORY).unwrap().ino;
    let (from, to) = (make(b"from"), make(b"to"));
    volume.create(from, b"name", &DIRECTORY).unwrap();
    // By then the kernel may remember all of this.
    std::thread::sleep(Duration::from_millis(200));
    assert!(fs::metadata(mounted.path("from/name")).is_ok());
    assert!(fs::metadata(mounted.path("to/moved")).is_err());
    // Now what is in `to` is not to be remembered for a while.
    volume.create(to, b"other", &FILE).unwrap();
    fs::rename(mounted.path("from/name"), mounted.path("to/moved")).unwrap();
    assert!(fs::metadata(mounted.path("to/moved")).is_ok());
    let replace = RenameMode::Replace;
    volume.rename(to, b"moved", to, b"again", replace).unwrap();
    assert!(fs::metadata(mounted.path("to/moved")).is_err());
    assert!(fs::metadata(mounted.path("to/again")).is_ok());
}

#[test]
fn leases_end_with_their_mount() {
    let Some(mut served) = Served::new() else {
        return;
    };
    let made = served.volume.create(ROOT, b"file", &FILE).unwrap();
    assert!(fs::metadata(served.path("file")).is_ok());
    assert!(fs::metadata(served.path("missing")).is_err());
    served.kill();
    let begun = Instant::now();
    served.volume.create(ROOT, b"missing", &FILE).unwrap();
    served.volume.unlink(ROOT, b"file").unwrap();
    let file = served.volume.open(made.ino, None);
    assert!(file.is_err());
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// A change through the kernel waits, and holds the directory in the kernel, for one past it that is stopped; recalls
/// of the directory wait for that. Neither holds up changes of anything else.
#[test]
fn recalls_that_wait_hold_up_no_others() {
    let Some(served) = Served::new() else {
        return;
    };
    let volume = &served.volume;
    let busy = volume.create(ROOT, b"busy", &DIRECTORY).unwrap().ino;
    let other = volume.create(ROOT, b"other", &DIRECTORY).unwrap().ino;
    let look = |path: &str| {
        assert_eq!(
            fs::metadata(served.path(path)).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    };
    for round in 0..20 {
        let name = format!("name{round}");
        look(&format!("busy/{name}"));
        look(&format!("other/{name}"));
        // All at once: changes through the kernel and past it, in the same directory.
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let path = served.path(&format!("busy/kernel{round}-{thread}"));
                scope.spawn(move || fs::create_dir(path).unwrap());
                let name = format!("direct{round}-{thread}");
                scope.spawn(move || {
                    volume.create(busy, name.as_bytes(), &DIRECTORY).unwrap();
                });
            }
            volume.create(other, name.as_bytes(), &FILE).unwrap();
            volume.create(busy, name.as_bytes(), &FILE).unwrap();
        });
        for directory in ["busy", "other"] {
            let path = served.path(&format!("{directory}/{name}"));
            let seen = fs::metadata(&path);
            assert!(seen.is_ok(), "{path:?}: {seen:?}");
        }
    }
}

#[test]
fn a_change_waits_for_a_stopped_mount_and_goes_on_with_it() {
    let Some(served) = Served::new() else {
        return;
    };
    assert!(fs::metadata(served.path("missing")).is_err());
    served.stop();
    std::thread::scope(|scope| {
        let making = scope.spawn(|| served.volume.create(ROOT, b"missing", &FILE).map(drop));
        // Of what the kernel remembers nothing, nobody waits.
        assert!(served.volume.lookup(ROOT, b"missing").is_err());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!making.is_finished());
        served.go_on();
        assert_eq!(making.join().unwrap(), Ok(()));
    });
    assert!(fs::metadata(served.path("missing")).is_ok());
}

/// A mount that grants no leases changes what the kernel of another one remembers.
#[test]
fn changes_by_another_mount_are_seen_at_once() {
    let Some(served) = Served::new() else {
        return;
    };
    let other = tempfile::tempdir().unwrap();
    let options = MountOptions {
        leases: LeaseTiming::AtOnce,
        ..MountOptions::default()
    };
    let mounted = egeria_mount::spawn(served.volume.clone(), other.path(), &options).unwrap();
    let tree = Tree::new(&served.volume);
    let paths = paths(|path| served.path(path));
    let change = |_: &Tree<'_>, random: &mut Random| {
        let name = |random: &mut Random| {
            let directory = ["a", "b", "c"][random.below(3) as usize];
            let name = NAMES[random.below(4) as usize];
            other.path().join(directory).join(name)
        };
        let (path, to) = (name(random), name(random));
        let changed = match random.below(6) {
            0 => fs::File::create_new(path).map(drop),
            1 => fs::create_dir(path),
            2 => fs::rename(path, to),
            3 => fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)),
            4 => fs::hard_link(path, to),
            _ => fs::OpenOptions::new()
                .write(true)
                .open(path)
                .and_then(|file| {
                    let data = vec![random.below(256) as u8; 1 + random.below(6000) as usize];
                    file.write_all_at(&data, random.below(MAX_BYTES))
                }),
        };
        changed.map_err(|error| Errno(error.raw_os_error().unwrap_or(0)))
    };
    let changed = change_and_compare(&tree, &paths, 0x5eed_0003, rounds(), change);
    assert!(changed > rounds() / 5, "{changed} changes");
    mounted.unmount().unwrap();
}

/// Any change that the kernel makes itself.
fn change_by_kernel(paths: &[PathBuf], random: &mut Random) -> Result<(), Errno> {
    let mut any = || &paths[random.below(paths.len() as u64) as usize];
    let (path, to) = (any(), any());
    let changed = match random.below(9) {
        0 | 1 => fs::File::create_new(path).map(drop),
        2 => fs::create_dir(path),
        3 => fs::rename(path, to),
        4 => fs::remove_file(path).or_else(|_| fs::remove_dir(path)),
        5 => std::os::unix::fs::symlink("one", path),
        6 => fs::set_permissions(
            path,
            fs::Permissions::from_mode(0o600 + random.below(8) as u32),
        ),
        7 => fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(random.below(MAX_BYTES))),
        _ => fs::write(
            path,
            vec![random.below(256) as u8; 1 + random.below(6000) as usize],
        ),
    };
    changed.map_err(|error| Errno(error.raw_os_error().unwrap_or(0)))
}

/// What the kernel makes and changes, it remembers at once.
#[test]
fn changes_by_the_kernel_and_past_it_are_seen_at_once() {
    let at_once = MountOptions {
        leases: LeaseTiming::AtOnce,
        ..MountOptions::default()
    };
    for (options, seed) in [
        (MountOptions::default(), 0x5eed_0004),
        (at_once, 0x5eed_0005),
    ] {
        let Some(mounted) = Mounted::with(&options) else {
            return;
        };
        let tree = Tree::new(&mounted.volume);
        let paths = paths(|path| mounted.path(path));
        let change = |tree: &Tree<'_>, random: &mut Random| match random.below(2) {
            0 => tree.change(random),
            _ => change_by_kernel(&paths, random),
        };
        let changed = change_and_compare(&tree, &paths, seed, rounds(), change);
        assert!(changed > rounds() / 5, "{changed} changes");
    }
}

#[test]
fn what_the_kernel_made_is_not_looked_up() {
    let Some(mounted) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    fs::create_dir_all(mounted.path("a/b/c")).unwrap();
    let path = mounted.path("a/b/c/file");
    fs::write(&path, b"content").unwrap();
    let look = || assert_eq!(fs::metadata(&path).unwrap().len(), 7);
    // Once for what the writes changed, and once more, as the first answer is not to be remembered.
    look();
    look();
    let before = mounted.volume.counters().mount_requests;
    let begun = Instant::now();
    (0..1000).for_each(|_| look());
    let requests = mounted.volume.counters().mount_requests - before;
    // The root is asked for every second.
    let expected = 2 + 2 * begun.elapsed().as_secs();
    assert!(requests <= expected, "{requests} requests");
}

/// The kernel changes an inode itself, while answers of before the change are on their way.
#[test]
fn changes_by_the_kernel_are_seen_at_once() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let directory = mounted.path("directory");
    fs::create_dir(&directory).unwrap();
    let file = mounted.path("directory/file");
    fs::write(&file, b"content").unwrap();
    let over = AtomicBool::new(false);
    let is_over = &over;
    let ino = fs::metadata(&directory).unwrap().ino();
    let truth = |name: &[u8]| mounted.volume.lookup(InodeNumber(ino), name).unwrap();
    std::thread::scope(|scope| {
        for path in [&directory, &file] {
            scope.spawn(move || {
                let ask = rustix::fs::AtFlags::STATX_FORCE_SYNC;
                let everything = rustix::fs::StatxFlags::BASIC_STATS;
                while !is_over.load(Ordering::Relaxed) {
                    let _ = rustix::fs::statx(rustix::fs::CWD, path, ask, everything);
                }
            });
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..rounds() / 4 {
                // By then the kernel may remember what it is answered.
                std::thread::sleep(Duration::from_millis(22));
                let made = directory.join("made");
                match round % 4 {
                    0 => fs::create_dir(made).unwrap(),
                    1 => fs::remove_dir(made).unwrap(),
                    2 => rustix::fs::setxattr(
                        &file,
                        "user.one",
                        &[round as u8],
                        rustix::fs::XattrFlags::empty(),
                    )
                    .unwrap(),
                    _ => fs::rename(&file, &made)
                        .and_then(|()| fs::rename(&made, &file))
                        .unwrap(),
                }
                let seen = fs::symlink_metadata(&directory).unwrap();
                let found = mounted.volume.attributes(InodeNumber(ino)).unwrap();
                assert_eq!(attributes(&seen), known(&found), "round {round}");
                let seen = fs::symlink_metadata(&file).unwrap();
                assert_eq!(attributes(&seen), known(&truth(b"file")), "round {round}");
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Before it lets somebody change a file, the kernel looks at the owner that it knows.
#[test]
fn a_new_owner_may_change_what_is_his() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let made = mounted.volume.create(ROOT, b"file", &FILE).unwrap().ino;
    let path = mounted.path("file");
    for uid in [65534, 65533, 65534] {
        assert!(fs::metadata(&path).is_ok());
        let change = AttributeChange {
            uid: Some(uid),
            ..AttributeChange::default()
        };
        mounted.volume.set_attributes(made, &change).unwrap();
        for caller in [65533, 65534] {
            let changed = as_user(caller, || {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
            });
            assert_eq!(
                changed.is_ok(),
                caller == uid,
                "{caller} for {uid}: {changed:?}"
            );
        }
    }
}

/// Run with the effective user of this thread alone changed.
fn as_user<T: Send>(uid: u32, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let as_user = scope.spawn(|| {
            let user = rustix::process::Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            body()
        });
        as_user.join().unwrap()
    })
}

#[test]
fn pages_are_read_once_and_anew_after_a_change() {
    let Some(mounted) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    let made = mounted.volume.create(ROOT, b"file", &FILE).unwrap().ino;
    let path = mounted.path("file");
    let write = |byte: u8| {
        let file = mounted.volume.open(made, None).unwrap();
        mounted.volume.write(file, 0, &vec![byte; 100_000]).unwrap();
        mounted.volume.close(made);
    };
    write(1);
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(fs::read(&path).unwrap(), vec![1; 100_000]);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(fs::read(&path).unwrap(), vec![1; 100_000]);
    let before = mounted.volume.counters().mount_requests;
    for _ in 0..100 {
        assert_eq!(fs::read(&path).unwrap(), vec![1; 100_000]);
    }
    let requests = mounted.volume.counters().mount_requests - before;
    // An open and a release each, and few of the other kinds.
    assert!(requests <= 230, "{requests} requests");
    // Also beside a handle that stays open.
    let open = fs::File::open(&path).unwrap();
    for byte in 2..20 {
        write(byte);
        let mut part = [0; 4096];
        open.read_exact_at(&mut part, 8192).unwrap();
        assert_eq!(part, [byte; 4096]);
        assert_eq!(fs::read(&path).unwrap(), vec![byte; 100_000]);
    }
    // And by the kernel itself.
    let writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for byte in 20..40 {
        writer.write_all_at(&[byte; 50_000], 0).unwrap();
        let read = fs::read(&path).unwrap();
        assert_eq!(read[..50_000], [byte; 50_000]);
        let mut part = [0; 4096];
        open.read_exact_at(&mut part, 8192).unwrap();
        assert_eq!(part, [byte; 4096]);
    }
    writer.set_len(10).unwrap();
    assert_eq!(fs::read(&path).unwrap(), [39; 10]);
}

#[test]
fn no_more_pages_are_kept_than_allowed() {
    const FILES: usize = 20;
    const BYTES: usize = 100_000;
    let options = MountOptions {
        page_cache_bytes: Some(5 * BYTES as u64),
        leases: LeaseTiming::AtOnce,
        ..MountOptions::default()
    };
    let Some(mounted) = Mounted::with(&options) else {
        return;
    };
    let paths: Vec<PathBuf> = (0..FILES)
        .map(|file| mounted.path(&format!("file{file}")))
        .collect();
    for path in &paths {
        fs::write(path, vec![1; BYTES]).unwrap();
    }
    let cached = |path: &PathBuf| cached_pages(path);
    let read = |path: &PathBuf| assert_eq!(fs::read(path).unwrap().len(), BYTES);
    read(&paths[0]);
    assert_eq!(cached(&paths[0]), BYTES.div_ceil(4096));
    // One more than there is room for: the oldest goes, and no other.
    paths[1..6].iter().for_each(read);
    common::eventually("the kernel drops the oldest", || cached(&paths[0]) == 0);
    std::thread::sleep(Duration::from_millis(100));
    assert!(paths[1..6].iter().all(|path| cached(path) > 0));
    paths.iter().for_each(read);
    common::eventually("the kernel drops pages", || {
        let all: usize = paths.iter().map(cached).sum();
        all <= 5 * BYTES.div_ceil(4096)
    });
    // A file that is too large for the rest.
    let large = mounted.path("large");
    fs::write(&large, vec![1; 2 * BYTES]).unwrap();
    assert_eq!(fs::read(&large).unwrap().len(), 2 * BYTES);
    assert_eq!(cached_pages(&large), 0);
}

#[test]
fn the_kernel_reads_ahead_what_a_request_carries() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    if !is_root() {
        return;
    }
    let mounts = egeria_mount::mounts().unwrap();
    let own = mounts
        .iter()
        .find(|mount| mount.directory == mounted.place().point());
    let setting = format!("/sys/class/bdi/{}/read_ahead_kb", own.unwrap().device);
    assert_eq!(fs::read_to_string(setting).unwrap().trim(), "1024");
}

/// Pages of a file that the kernel has. (By another process: one that the mount's own has mapped its helpers would have
/// mapped, too.)
fn cached_pages(path: &Path) -> usize {
    let mut fincore = std::process::Command::new("fincore");
    fincore
        .args(["--noheadings", "--output", "PAGES"])
        .arg(path);
    let output = fincore.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Two handles read a long listing beside each other; what the first collected is older than the second.
#[test]
fn a_listing_has_what_was_made_before_it_began() {
    const NAMES: usize = 3000;
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let path = mounted.path("directory");
    fs::create_dir(&path).unwrap();
    for name in 0..NAMES {
        fs::File::create(path.join(format!("a-name-of-some-length-{name}"))).unwrap();
    }
    for round in 0..5 {
        let mut first = fs::read_dir(&path).unwrap();
        assert!(first.next().unwrap().is_ok());
        let made = path.join(format!("made{round}"));
        fs::File::create(&made).unwrap();
        let mut second = fs::read_dir(&path).unwrap();
        assert!(second.next().unwrap().is_ok());
        assert_eq!(first.count(), NAMES + round - 1);
        assert_eq!(second.count(), NAMES + round);
        // Then the next one has all, from the kernel or not.
        for _ in 0..2 {
            assert_eq!(fs::read_dir(&path).unwrap().count(), NAMES + round + 1);
        }
    }
}
