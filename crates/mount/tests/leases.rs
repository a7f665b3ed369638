//! What the kernel remembers of names and attributes without asking, and that it never remembers what is not so.

#[path = "common/child.rs"]
mod child;
mod common;
use child::Served;
use common::Mounted;
use egeria_fs::{AttributeChange, Attributes, Errno, InodeNumber, NewInode, RenameMode, Volume};
use egeria_mount::MountOptions;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROOT: InodeNumber = InodeNumber::ROOT;
const FILE: NewInode = NewInode {
    mode: libc::S_IFREG | 0o644,
    uid: 0,
    gid: 0,
    rdev: 0,
};
const DIRECTORY: NewInode = NewInode {
    mode: libc::S_IFDIR | 0o755,
    ..FILE
};

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

/// A numbered sequence without a pattern.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
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
            let changed = volume.set_attributes(named()?, &change, false);
            changed.map(drop)
        };
        match random.below(9) {
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
            _ => change(AttributeChange {
                size_bytes: Some(random.below(1 << 20)),
                ..AttributeChange::default()
            }),
        }
    }

    /// What is known past the mount, of every name.
    fn truth(&self) -> Vec<Result<Attributes, Errno>> {
        let in_directory = |directory: &InodeNumber| {
            let directory = *directory;
            NAMES.map(|name| self.volume.lookup(directory, name.as_bytes()))
        };
        self.directories.iter().flat_map(in_directory).collect()
    }
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

/// What `stat` says is what is so.
fn compare(path: &Path, truth: &Result<Attributes, Errno>) {
    match (fs::symlink_metadata(path), truth) {
        (Ok(seen), Ok(found)) => {
            let seen = (seen.ino(), seen.mode(), seen.len(), seen.nlink());
            let is_directory = found.mode & libc::S_IFMT == libc::S_IFDIR;
            let nlink = match is_directory {
                true => seen.3,
                false => u64::from(found.nlink),
            };
            assert_eq!(
                seen,
                (found.ino.0, found.mode, found.size_bytes, nlink),
                "{path:?}"
            );
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
fn changes_of_names_and_attributes_past_the_kernel_are_seen_at_once() {
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

/// As programs under the preload library do it: what the kernel may know it changes itself.
#[test]
fn changes_of_unknown_names_past_the_kernel_are_seen_at_once() {
    let Some(served) = Served::new() else {
        return;
    };
    served.volume.leave_known_names_to_kernel();
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

#[test]
fn names_that_the_kernel_moved_are_not_remembered_without_a_lease() {
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
