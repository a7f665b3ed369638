//! `engine::session::exclusion`.

use crate::check::check;
use crate::session::exclusion::{WritingInPlace, is_writing, say_before_looking};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

const INODE: u64 = 9;
/// The inode's block before and after the change.
const BLOCKS: [u64; 2] = [0, 1];

struct Scene {
    in_place: AtomicU64,
    owner: AtomicU32,
    /// Which block the file has.
    index: AtomicU64,
    blocks: [AtomicU64; 2],
}

#[test]
fn nobody_writes_in_place_to_a_block_that_was_taken_away() {
    check(
        "models::exclusion::nobody_writes_in_place_to_a_block_that_was_taken_away",
        &[
            "without fence(Ordering::SeqCst);",
            "without in_place.store(ino, Ordering::Relaxed);",
            "(owner.load(Ordering::Acquire) == 0).then_some(writing)",
            "self.0.store(0, Ordering::Release);",
            "in_place.load(Ordering::Acquire) == ino",
        ],
        || {
            let word = || AtomicU64::new(0);
            let owner = AtomicU32::new(0);
            // loom makes such a word at its first use.
            owner.load(Ordering::Relaxed);
            let scene = Arc::new(Scene {
                in_place: word(),
                owner,
                index: AtomicU64::new(BLOCKS[0]),
                blocks: [word(), word()],
            });
            let writing = scene.clone();
            let writer = thread::spawn(move || {
                let guard = WritingInPlace::begin(&writing.in_place, INODE, &writing.owner);
                if guard.is_some() {
                    let block = writing.index.load(Ordering::Relaxed);
                    writing.blocks[block as usize].store(7, Ordering::Relaxed);
                }
            });
            scene.owner.store(1, Ordering::Release);
            say_before_looking();
            while is_writing(&scene.in_place, INODE) {
                thread::yield_now();
            }
            scene.index.store(BLOCKS[1], Ordering::Relaxed);
            // It is another file's now.
            scene.blocks[0].store(99, Ordering::Relaxed);
            scene.owner.store(0, Ordering::Release);
            writer.join().expect("the writer");
            let kept = scene.blocks[0].load(Ordering::Relaxed);
            assert_eq!(kept, 99, "a late write");
        },
    );
}
