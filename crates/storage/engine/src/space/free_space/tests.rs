//! Free space while holders of its locks are stopped.

use super::*;
use crate::Volume;
use crate::session::LateWork;
use crate::space::{InodeNumbers, Space};
use crate::test_volume::{FILE, Stopped, new_volume};
use crate::types::InodeNumber;

const ROOT: InodeNumber = InodeNumber::ROOT;

/// A stopped process that holds this group.
fn holding(volume: &Volume, group: usize) -> Stopped {
    Stopped::in_child(volume, |volume| {
        let locked = Space::of(volume).lock_group(0, group, Wait::No);
        locked.map(drop)
    })
}

fn groups(volume: &Volume) -> usize {
    let count = &volume.session.pool(0).group_count;
    count.load(Ordering::Relaxed) as usize
}

#[test]
fn what_cannot_be_given_back_is_kept_and_not_lost() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _) = new_volume(&directory);
    let me = volume.me().expect("a slot");
    let before = volume.space(None).free_blocks;
    let made = volume.create(ROOT, b"file", &FILE).expect("create").ino;
    let file = volume.open(made, None).expect("open");
    for block in 0..400 {
        let at = block * 2 * BLOCK as u64;
        assert_eq!(volume.write(file, at, &[1; BLOCK]), Ok(BLOCK));
    }
    volume.close(made);
    let all: Vec<Stopped> = (0..groups(&volume))
        .map(|group| holding(&volume, group))
        .collect();
    // Whole pockets, so that not all of it fits into them.
    volume.tight[0].store(true, Ordering::Relaxed);
    volume.unlink(ROOT, b"file").expect("unlink");
    assert!(volume.empty_pockets(me.slot).is_err());
    assert!(
        volume.space_busy.is_on(),
        "waited for once, not for each run"
    );
    all.iter().for_each(Stopped::kill);
    volume.reap();
    volume.empty_pockets(me.slot).expect("nobody holds a group");
    volume.reap();
    // The log of the directory has a page now.
    let after = volume.space(None).free_blocks;
    assert!(before - after <= 2, "{before} and {after} blocks are free");
}

#[test]
fn a_dead_thread_keeps_what_cannot_be_given_back_until_it_can() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _) = new_volume(&directory);
    let before = volume.space(None).free_blocks;
    let dying = Stopped::in_child(&volume, |volume| {
        let made = volume.create(ROOT, b"file", &FILE)?.ino;
        let file = volume.open(made, None)?;
        volume.write(file, 0, &[1; BLOCK])
    });
    let all: Vec<Stopped> = (0..groups(&volume))
        .map(|group| holding(&volume, group))
        .collect();
    dying.kill();
    volume.reap();
    all.iter().for_each(Stopped::kill);
    volume.reap();
    volume.unlink(ROOT, b"file").expect("unlink");
    let me = volume.me().expect("a slot");
    volume.empty_pockets(me.slot).expect("nobody holds a group");
    let after = volume.space(None).free_blocks;
    assert!(before - after <= 2, "{before} and {after} blocks are free");
}

#[test]
fn a_group_that_is_let_go_is_taken_beside_a_held_one() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _) = new_volume(&directory);
    assert!(groups(&volume) > 1);
    let stopped = holding(&volume, 0);
    let held: Vec<&Group> = (1..groups(&volume))
        .map(|group| {
            Space::of(&volume)
                .lock_group(0, group, Wait::No)
                .expect("free")
        })
        .collect();
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| {
            let me = volume.me().expect("a slot");
            // The search begins at the first group.
            me.slot.last_group[0].store(1, Ordering::Relaxed);
            Space::of(&volume).search_groups(me, 0, 1)
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!taking.is_finished());
        held.iter().for_each(|group| group.mutex.unlock());
        let taken = taking.join().expect("a thread").expect("room");
        assert_eq!(taken.map(|taken| taken.count), Some(1));
    });
    stopped.kill();
}

/// Waits for space are more frequent than waits for numbers.
#[test]
fn a_late_number_is_given_back_after_late_runs() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _) = new_volume(&directory);
    let made = volume.create(ROOT, b"file", &FILE).expect("create").ino;
    volume.unlink(ROOT, b"file").expect("unlink");
    let pool = &volume.session.pool(0);
    let used = || -> u64 {
        let parts = pool.numbers.iter();
        parts.map(|part| part.used.load(Ordering::Relaxed)).sum()
    };
    let before = used();
    InodeNumbers::of(&volume)
        .claim_inode(0, crate::format::inode_place(made.0).expect("a place").1);
    LateWork::of(&volume).later(Late::Number(made.0));
    volume.space_busy.note();
    while volume.space_busy.is_on() {
        std::thread::sleep(Duration::from_millis(10));
    }
    LateWork::of(&volume).give_back_late(Late::is_run);
    assert_eq!(used(), before + 1);
    LateWork::of(&volume).give_back_late(Late::is_space);
    assert_eq!(used(), before);
}
