//! Leases with a simulated mount.

use super::*;
use crate::session::Leases;
use crate::session::volume::Volume;
use crate::test_volume::{FILE, Stopped, new_volume};
use crate::types::{AttributeChange, NewInode, RenameMode};
use std::sync::atomic::AtomicUsize;

const ROOT: InodeNumber = InodeNumber::ROOT;

/// Run `body` while a simulated mount ends every lease it is asked to end; returns the number of recalls.
fn beside_a_mount(volume: &Volume, body: impl FnOnce()) -> usize {
    let mount = LeaseMount(volume.session.header().lease_mount.load(Ordering::Relaxed));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let recalls = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            work_for_kernel(Some(mount));
            while !is_over.load(Ordering::Relaxed) {
                if let Some(recall) = volume.next_recall(Duration::from_millis(20), || false) {
                    recalls.fetch_add(1, Ordering::Relaxed);
                    volume.end_recall(recall);
                }
            }
        });
        body();
        is_over.store(true, Ordering::Relaxed);
    });
    recalls.into_inner()
}

fn with_lease() -> (std::sync::Arc<Volume>, tempfile::TempDir, LookupReferences) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _) = new_volume(&directory);
    let references = volume.track_lookups().expect("room");
    assert!(volume.grant_leases(references).is_some());
    let other = volume.track_lookups().expect("room");
    assert_eq!(volume.grant_leases(other), None, "one mount grants leases");
    volume.drop_lookup_references(other);
    (volume, directory, references)
}

fn new_file(volume: &Volume) -> InodeNumber {
    let made = volume.create(ROOT, b"one", &FILE).expect("create").ino;
    // Leases are of what was looked at.
    volume.attributes(made).expect("attributes").ino
}

/// Create a file like a mount that keeps these references.
fn create_for_kernel(volume: &Volume, mount: LookupReferences, name: &[u8]) {
    std::thread::scope(|scope| {
        let create = scope.spawn(|| {
            work_for_kernel(Leases::of(volume).lease_mount_of(mount));
            volume.create(ROOT, name, &FILE).map(drop)
        });
        assert_eq!(create.join().expect("a thread"), Ok(()));
    });
}

#[test]
fn a_change_has_the_leases_of_what_it_changes_recalled() {
    let (volume, _directory, _) = with_lease();
    let made = new_file(&volume);
    for (ino, with_names) in [(ROOT, true), (made, false)] {
        assert!(volume.lease(ino, with_names));
    }
    let look = || {
        volume.lookup(ROOT, b"one").expect("a name");
        volume.get_xattr(made, b"user.none").expect_err("none");
    };
    assert_eq!(beside_a_mount(&volume, look), 0);
    let two = || _ = volume.create(ROOT, b"two", &FILE).expect("create");
    assert_eq!(beside_a_mount(&volume, two), 1);
    let link = || _ = volume.link(made, ROOT, b"three").expect("link");
    assert_eq!(beside_a_mount(&volume, link), 1);
    assert!(volume.lease(ROOT, true) && volume.lease(made, false));
    let both = || volume.unlink(ROOT, b"one").expect("unlink");
    assert_eq!(beside_a_mount(&volume, both), 2);
}

#[test]
fn the_name_of_a_file_is_recalled_when_its_owner_changes() {
    let (volume, _directory, references) = with_lease();
    let made = new_file(&volume);
    assert!(volume.lease(made, false));
    let recalled = |body: &dyn Fn()| beside_a_mount(&volume, body);
    let file = volume.open(made, None).expect("open");
    let write = || assert_eq!(volume.write(file, 0, b"data"), Ok(4));
    assert_eq!((recalled(&write), recalled(&write)), (1, 0));
    let change = |change: AttributeChange| {
        let changed = volume.set_attributes(made, &change);
        assert_eq!(changed.map(|changed| changed.ino), Ok(made));
    };
    let permissions = AttributeChange {
        permissions: Some(0o600),
        ..AttributeChange::default()
    };
    assert_eq!(recalled(&|| change(permissions)), 0);
    let owner = AttributeChange {
        uid: Some(7),
        ..AttributeChange::default()
    };
    assert_eq!(
        (recalled(&|| change(owner)), recalled(&|| change(owner))),
        (1, 0)
    );
    assert!(volume.lease(made, false));
    volume.drop_lookup_references(references);
}

#[test]
fn a_mount_does_not_wait_for_itself() {
    let (volume, _directory, references) = with_lease();
    assert!(volume.lease(ROOT, true));
    create_for_kernel(&volume, references, b"one");
    let recalled = beside_a_mount(&volume, || volume.unlink(ROOT, b"one").expect("unlink"));
    assert_eq!(recalled, 1);
}

#[test]
fn names_are_recalled_with_what_they_mean_alone() {
    let (volume, _directory, references) = with_lease();
    let make = |name: &[u8], new: &NewInode| {
        let made = volume.create(ROOT, name, new).expect("create");
        volume
            .add_lookup_reference(references, made.ino, made.generation)
            .expect("a reference");
        volume.attributes(made.ino).expect("attributes").ino
    };
    let directory = NewInode {
        mode: libc::S_IFDIR | 0o755,
        ..FILE
    };
    let (one, two) = (make(b"one", &FILE), make(b"two", &FILE));
    let below = make(b"below", &directory);
    let grant = || {
        assert!(volume.lease(ROOT, true));
        assert!([one, two, below].map(|ino| volume.lease(ino, false)) == [true; 3]);
    };
    let replace = RenameMode::Replace;
    let rename = |from: &[u8], to: &[u8]| volume.rename(ROOT, from, ROOT, to, replace);
    let leases = |ino: InodeNumber| {
        let inode = volume.inode(ino.0).expect("an inode");
        inode.leases.load(Ordering::Relaxed)
    };
    grant();
    // The directory's attributes, and all of the file.
    let moved = || rename(b"one", b"moved").expect("rename");
    assert_eq!(beside_a_mount(&volume, moved), 2);
    assert_eq!((leases(one), leases(two)), (0, ATTRIBUTES | OWNER));
    assert_eq!(leases(ROOT), NAMES | OWNER);
    grant();
    // The names of directories, and the attributes of this one.
    let moved = || rename(b"below", b"elsewhere").expect("rename");
    assert_eq!(beside_a_mount(&volume, moved), 3);
    assert_eq!((leases(ROOT), leases(two)), (0, ATTRIBUTES | OWNER));
    // What the kernel uses it changes itself.
    volume.leave_used_names_to_kernel();
    grant();
    let left = || assert_eq!(rename(b"elsewhere", b"below"), Err(Errno(libc::EBUSY)));
    assert_eq!(beside_a_mount(&volume, left), 1);
    let replaced = || rename(b"moved", b"two").expect("rename");
    assert_eq!(beside_a_mount(&volume, replaced), 2);
    volume.drop_lookup_references(references);
    rename(b"elsewhere", b"below").expect("forgotten");
}

#[test]
fn another_mount_recalls_as_everybody_does() {
    let (volume, _directory, _) = with_lease();
    let other = volume.track_lookups().expect("room");
    assert!(volume.lease(ROOT, true));
    let by_other = || create_for_kernel(&volume, other, b"one");
    assert_eq!(beside_a_mount(&volume, by_other), 1);
    // The end of another mount does not end the leases of the granting mount.
    assert!(volume.lease(ROOT, true));
    volume.drop_lookup_references(other);
    let two = || _ = volume.create(ROOT, b"two", &FILE).expect("create");
    assert_eq!(beside_a_mount(&volume, two), 1);
}

#[test]
fn a_lease_outlives_who_died_before_having_it_recalled() {
    let (volume, _directory, _) = with_lease();
    let made = new_file(&volume);
    assert!(volume.lease(made, false));
    Stopped::in_child(&volume, |volume| {
        volume.me().and_then(|me| volume.lock_as_it_is(me, made.0))
    })
    .kill();
    let change = || {
        let nothing = AttributeChange::default();
        volume.set_attributes(made, &nothing).expect("a change");
    };
    assert_eq!(beside_a_mount(&volume, change), 1);
}

#[test]
fn leases_end_with_the_references_of_their_mount() {
    let (volume, _directory, references) = with_lease();
    let made = volume.create(ROOT, b"one", &FILE).expect("create");
    let (ino, generation) = (made.ino, made.generation);
    volume
        .add_lookup_reference(references, ino, generation)
        .expect("a reference");
    assert!(volume.lease(ROOT, true) && volume.lease(ino, false));
    volume.drop_lookup_references(references);
    volume.unlink(ROOT, b"one").expect("no lease is left");
}
