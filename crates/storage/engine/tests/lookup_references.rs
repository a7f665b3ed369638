//! Inode numbers rest while the kernel of a mount may mean their earlier lives.

mod common;
use common::*;
use egeria_engine::*;
use egeria_harness::fork::Forked;
use std::collections::HashSet;

const ROOT: InodeNumber = InodeNumber::ROOT;

/// Make a file, let `memory` know of it, and remove it.
fn remembered(volume: &Volume, memory: LookupReferences) -> InodeNumber {
    let made = volume.create(ROOT, b"known", &FILE).unwrap();
    volume
        .add_lookup_reference(memory, made.ino, made.generation)
        .unwrap();
    volume.unlink(ROOT, b"known").unwrap();
    made.ino
}

/// The numbers that this many new files get, one after the other.
fn next_numbers(volume: &Volume, count: usize) -> HashSet<InodeNumber> {
    let next = (0..count).map(|_| {
        let made = volume.create(ROOT, b"next", &FILE).unwrap();
        volume.unlink(ROOT, b"next").unwrap();
        made.ino
    });
    next.collect()
}

#[test]
fn a_number_that_a_kernel_remembers_is_not_reused() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let memory = volume.track_lookups().unwrap();
    let number = remembered(&volume, memory);
    assert!(!next_numbers(&volume, 200).contains(&number));
    volume.drop_lookup_reference(memory, number);
    assert!(next_numbers(&volume, 200).contains(&number));
}

#[test]
fn deleted_inode_gets_no_reference() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let memory = volume.track_lookups().unwrap();
    let made = volume.create(ROOT, b"gone", &FILE).unwrap();
    volume.unlink(ROOT, b"gone").unwrap();
    let noted = volume.add_lookup_reference(memory, made.ino, made.generation);
    assert_eq!(noted, Err(Errno(libc::ESTALE)));
    // Whether it is another's, too, only the caller knows.
    volume.drop_lookup_reference(memory, made.ino);
    assert!(next_numbers(&volume, 200).contains(&made.ino));
}

#[test]
fn files_are_created_when_all_numbers_are_referenced() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let memory = volume.track_lookups().unwrap();
    let mut numbers = HashSet::new();
    while numbers.insert(remembered(&volume, memory)) {}
    assert!(numbers.len() > 100, "{}", numbers.len());
    assert!(numbers.is_superset(&next_numbers(&volume, 10)));
}

#[test]
fn killed_mount_drops_its_references() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let made = volume.create(ROOT, b"known", &FILE).unwrap();
    for _ in 0..10 {
        let child = Forked::run_well(|| {
            volume.after_fork_in_child();
            let known = volume
                .track_lookups()
                .map(|memory| volume.add_lookup_reference(memory, made.ino, made.generation));
            known == Some(Ok(()))
        });
        let status = child.unwrap().wait();
        assert!(status.success(), "no room was left by those who died");
        volume.reap();
    }
    volume.unlink(ROOT, b"known").unwrap();
    assert!(next_numbers(&volume, 200).contains(&made.ino));
}

#[test]
fn mounts_beyond_those_there_is_room_for_are_told_so() {
    let scratch = Scratch::new(2, 8 << 20);
    let volume = scratch.attach();
    let memories: Vec<_> = std::iter::from_fn(|| volume.track_lookups()).collect();
    assert_eq!(memories.len(), 4);
    let number = remembered(&volume, memories[3]);
    assert!(!next_numbers(&volume, 400).contains(&number));
    volume.drop_lookup_references(memories[3]);
    assert!(next_numbers(&volume, 400).contains(&number));
    // Clear again for who comes next.
    assert_eq!(volume.track_lookups(), Some(memories[3]));
    assert!(next_numbers(&volume, 400).contains(&number));
}
