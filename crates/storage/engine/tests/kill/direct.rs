//! What the preload library does in the engine for calls by path, and what the leases of a kernel add to that.

use crate::cases::{Act, Case, Verify, content};
use crate::common::{DIRECTORY, FILE};
use crate::living::fork_until_ready;
use crate::scene::{Scene, pattern, write_in};
use egeria_engine::rights::{Credentials, READ, WRITE};
use egeria_engine::*;
use egeria_harness::fork::Forked;
use std::rc::Rc;
use std::time::Duration;

/// The operations by path, and those beside leases.
pub const CASES: &[Case] = &[
    Case {
        name: "open by path",
        prepare: open_existing,
    },
    Case {
        name: "open by path that truncates",
        prepare: open_truncating,
    },
    Case {
        name: "open by path that creates",
        prepare: open_creating,
    },
    Case {
        name: "rename by path in a directory",
        prepare: rename_within,
    },
    Case {
        name: "rename by path between directories",
        prepare: rename_between,
    },
    Case {
        name: "unlink of a name that a kernel remembers",
        prepare: unlink_remembered,
    },
    Case {
        name: "create of a name that a kernel remembers as missing",
        prepare: create_remembered,
    },
    Case {
        name: "recall by a mount",
        prepare: recall_by_mount,
    },
];

/// The way of root by paths.
struct Paths<'a> {
    volume: &'a Volume,
    credentials: Credentials,
}

impl<'a> Paths<'a> {
    fn of(volume: &'a Volume) -> Paths<'a> {
        Paths {
            volume,
            credentials: Credentials {
                capabilities: u64::MAX,
                ..Credentials::default()
            },
        }
    }

    fn walker(&self) -> PathWalker<'_> {
        PathWalker {
            volume: self.volume,
            credentials: &self.credentials,
            protects_symlinks: true,
        }
    }

    fn end(&self, path: &[u8]) -> PathEnd {
        let walker = self.walker();
        let root = walker.directory(InodeNumber::ROOT).unwrap();
        walker.find_end(root, path).unwrap()
    }

    /// Looked up and opened, with rights checked.
    fn open(&self, path: &[u8], wanted: u32) -> (Attributes, FileReference) {
        let named = self.walker().named(&self.end(path)).unwrap();
        assert!(self.credentials.may(&named, wanted));
        let file = self.volume.open(named.ino, Some(named.generation)).unwrap();
        (named, file)
    }

    /// A directory that cannot become another meanwhile.
    fn held<T>(&self, directory: &Attributes, change: impl FnOnce() -> T) -> T {
        let (ino, generation) = (directory.ino, directory.generation);
        self.volume.open(ino, Some(generation)).unwrap();
        let done = change();
        self.volume.close(ino);
        done
    }

    fn rename(&self, from: &[u8], to: &[u8]) {
        let (old, new) = (self.end(from), self.end(to));
        let (from, to) = (&old.directory, &new.directory);
        let rename = || {
            let mode = RenameMode::Replace;
            let renamed = self
                .volume
                .rename(from.ino, &old.name, to.ino, &new.name, mode);
            renamed.unwrap();
        };
        self.held(to, || self.held(from, rename));
    }
}

/// A directory of its own in `a` or `b`, so that it is seen whether it stays open.
fn inner(scene: &Scene, parent: InodeNumber) -> InodeNumber {
    let made = scene.volume.create(parent, b"in", &DIRECTORY);
    made.expect("directory").ino
}

/// Nothing of what is in the directory, nor itself, was left open.
fn goes_whole(scene: &Scene, parent: InodeNumber, directory: InodeNumber, files: &[InodeNumber]) {
    scene.use_and_empty(directory);
    scene.volume.remove_directory(parent, b"in").unwrap();
    scene.volume.reap();
    for ino in files.iter().chain([&directory]) {
        let after = scene.volume.attributes(*ino);
        assert_eq!(after, Err(Errno(libc::ESTALE)), "{ino:?} is held by nobody");
    }
}

fn open_existing(scene: &mut Scene) -> (Act, Verify) {
    let inside = inner(scene, scene.a);
    let ino = scene.file(inside, b"f", &pattern(20, 5000));
    (
        Box::new(|volume| {
            let (named, file) = Paths::of(volume).open(b"a/in/f", READ);
            assert!(!volume.is_kernel_cached(file));
            volume.close(named.ino);
        }),
        Box::new(move |scene| {
            assert_eq!(scene.read(ino), pattern(20, 5000));
            goes_whole(scene, scene.a, inside, &[ino]);
            true
        }),
    )
}

fn open_truncating(scene: &mut Scene) -> (Act, Verify) {
    let before = pattern(21, 20_000);
    let ino = scene.file(scene.a, b"f", &before);
    let is_either = content(before, Vec::new());
    (
        Box::new(|volume| {
            let (named, file) = Paths::of(volume).open(b"a/f", WRITE);
            volume.drop_capability(file).unwrap();
            let change = AttributeChange {
                size_bytes: Some(0),
                ..AttributeChange::default()
            };
            let cut = volume.set_attributes_direct(named.ino, &change);
            assert!(cut.is_ok() && !volume.is_kernel_cached(file));
            volume.close(named.ino);
        }),
        Box::new(move |scene| {
            let done = is_either(scene);
            scene.volume.unlink(scene.a, b"f").unwrap();
            scene.volume.reap();
            assert_eq!(scene.volume.attributes(ino), Err(Errno(libc::ESTALE)));
            done
        }),
    )
}

fn open_creating(scene: &mut Scene) -> (Act, Verify) {
    let inside = inner(scene, scene.a);
    (
        Box::new(|volume| {
            let paths = Paths::of(volume);
            let end = paths.end(b"a/in/new");
            assert_eq!(paths.walker().named(&end), Err(PathStop::Missing));
            assert!(paths.credentials.may_add(&end.directory));
            let made = paths.held(&end.directory, || {
                volume.create_open(end.directory.ino, &end.name, &FILE)
            });
            let made = made.unwrap();
            volume.open(made.ino, Some(made.generation)).unwrap();
            volume.close(made.ino);
            write_in(volume, made.ino, 0, &pattern(22, 3000));
            volume.close(made.ino);
        }),
        Box::new(move |scene| {
            let made = scene.find(inside, b"new");
            let is_whole = made.is_some_and(|ino| {
                let bytes = scene.read(ino);
                assert!(bytes.is_empty() || bytes == pattern(22, 3000));
                !bytes.is_empty()
            });
            goes_whole(scene, scene.a, inside, made.as_slice());
            is_whole
        }),
    )
}

fn rename_within(scene: &mut Scene) -> (Act, Verify) {
    let inside = inner(scene, scene.a);
    let ino = scene.file(inside, b"f", &pattern(23, 5000));
    (
        Box::new(|volume| Paths::of(volume).rename(b"a/in/f", b"a/in/h")),
        Box::new(move |scene| {
            let (old, new) = (scene.find(inside, b"f"), scene.find(inside, b"h"));
            assert!(old.is_some() != new.is_some(), "{old:?} {new:?}");
            assert_eq!(old.or(new), Some(ino));
            assert_eq!(scene.read(ino), pattern(23, 5000));
            goes_whole(scene, scene.a, inside, &[ino]);
            new.is_some()
        }),
    )
}

fn rename_between(scene: &mut Scene) -> (Act, Verify) {
    let (from, to) = (inner(scene, scene.a), inner(scene, scene.b));
    let moved = scene.file(from, b"f", &pattern(24, 5000));
    let over = scene.file(to, b"g", &pattern(25, 20_000));
    (
        Box::new(|volume| Paths::of(volume).rename(b"a/in/f", b"b/in/g")),
        Box::new(move |scene| {
            let (old, new) = (scene.find(from, b"f"), scene.find(to, b"g"));
            let done = (old, new) == (None, Some(moved));
            assert!(
                done || (old, new) == (Some(moved), Some(over)),
                "{old:?} {new:?}"
            );
            assert_eq!(scene.read(moved), pattern(24, 5000));
            goes_whole(scene, scene.a, from, &[]);
            goes_whole(scene, scene.b, to, &[moved, over]);
            done
        }),
    )
}

/// A process that remembers `a` and what `f` in it is, as a kernel does, and forgets when it is asked to; as long as the
/// call or what verifies it is there.
struct Kernel(Forked);

impl Kernel {
    /// The caller has one thread only.
    fn start(scene: &Scene) -> Rc<Kernel> {
        let volume = &scene.volume;
        let process = fork_until_ready(|parent| {
            volume.after_fork_in_child();
            parent.answer(lease(volume).is_some());
            loop {
                if let Some(recall) = volume.next_recall(Duration::from_secs(1), || false) {
                    volume.end_recall(recall);
                }
            }
        });
        Rc::new(Kernel(process))
    }

    fn end(&self) {
        self.0.kill();
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.end();
    }
}

/// Grant leases on `a` and on `f` in it, for this thread.
fn lease(volume: &Volume) -> Option<(LookupReferences, InodeNumber)> {
    let references = volume.track_lookups()?;
    work_for_kernel(Some(volume.grant_leases(references)?));
    let directory = volume.lookup(InodeNumber::ROOT, b"a").ok()?;
    let file = volume.lookup(directory.ino, b"f").ok()?;
    let are_leased = [directory, file].iter().all(|known| {
        let noted = volume.add_lookup_reference(references, known.ino, known.generation);
        noted.is_ok() && volume.lease(known.ino, true)
    });
    are_leased.then_some((references, file.ino))
}

fn unlink_remembered(scene: &mut Scene) -> (Act, Verify) {
    let ino = scene.file(scene.a, b"f", &pattern(26, 5000));
    let kernel = Kernel::start(scene);
    let lives = kernel.clone();
    (
        Box::new(move |volume| {
            let _lives = &lives;
            let end = Paths::of(volume).end(b"a/f");
            volume.unlink(end.directory.ino, &end.name).unwrap();
        }),
        Box::new(move |scene| {
            let is_there = scene.find(scene.a, b"f");
            if is_there.is_some() {
                assert_eq!(scene.read(ino), pattern(26, 5000));
                // It can be asked again, by somebody else.
                scene.volume.unlink(scene.a, b"f").unwrap();
            }
            kernel.end();
            scene.volume.reap();
            assert_eq!(scene.volume.attributes(ino), Err(Errno(libc::ESTALE)));
            is_there.is_none()
        }),
    )
}

fn create_remembered(scene: &mut Scene) -> (Act, Verify) {
    scene.file(scene.a, b"f", b"x");
    let kernel = Kernel::start(scene);
    let (a, lives) = (scene.a, kernel.clone());
    (
        Box::new(move |volume| {
            let _lives = &lives;
            assert!(volume.create(a, b"new", &FILE).unwrap().ino.0 > 0);
        }),
        Box::new(move |scene| {
            let made = scene.find(scene.a, b"new");
            scene.file(scene.a, b"other", b"y");
            kernel.end();
            scene.volume.reap();
            made.is_some()
        }),
    )
}

/// The mount dies while it grants leases, forgets, and ends.
fn recall_by_mount(scene: &mut Scene) -> (Act, Verify) {
    let ino = scene.file(scene.a, b"f", &pattern(27, 5000));
    (
        Box::new(|volume| {
            let (references, file) = lease(volume).expect("a lease");
            assert!(volume.ask_for_recall_of(file));
            let recall = volume.next_recall(Duration::from_secs(1), || false);
            volume.end_recall(recall.expect("a recall"));
            volume.end_leases_of(references);
            volume.drop_lookup_references(references);
        }),
        Box::new(move |scene| {
            scene.file(scene.a, b"new", b"x");
            scene.write(ino, 0, &pattern(28, 5000));
            assert_eq!(scene.read(ino), pattern(28, 5000));
            scene.volume.unlink(scene.a, b"f").unwrap();
            scene.volume.reap();
            assert_eq!(scene.volume.attributes(ino), Err(Errno(libc::ESTALE)));
            true
        }),
    )
}
