//! `engine::session::seqlock` and `engine::session::index`: reads without the lock, while another thread changes the file under it.

use crate::check::check;
use crate::format::BlockWord;
use crate::session::arena::Arena;
use crate::session::index::Index;
use crate::session::layout::SessionInode;
use crate::session::seqlock::{BlockSnapshot, QuickSnapshot, Snapshot, WriteSection};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::Arc;
use loom::thread;

/// Bytes of a file block.
const BLOCK: u64 = crate::format::BLOCK as u64;
/// What a block holds that belongs to another file now.
const FOREIGN: u64 = 99;

/// A file, and a pool whose blocks are two words of data each.
struct Scene {
    inode: SessionInode,
    arena: Arena,
    pool: [[AtomicU64; 2]; 3],
}

impl Scene {
    /// A file of so many blocks: block n in block n of the pool, which holds `10 + n`.
    fn new(blocks: u64) -> Arc<Scene> {
        let scene = Scene {
            inode: SessionInode::new(),
            arena: Arena::new(4),
            pool: [[0; 2]; 3].map(|block| block.map(AtomicU64::new)),
        };
        scene.index().reserve(0, blocks).expect("room");
        for block in 0..blocks {
            scene.fill(block, 10 + block);
            scene.map(block, block, 1);
        }
        scene
            .inode
            .size_bytes
            .store(blocks * BLOCK, Ordering::Relaxed);
        Arc::new(scene)
    }

    fn index(&self) -> Index<'_> {
        Index {
            inode: &self.inode,
            arena: &self.arena,
        }
    }

    /// As the copies into a pool.
    fn fill(&self, pool_block: u64, value: u64) {
        for word in &self.pool[pool_block as usize] {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// As `engine::apply` stores an index word.
    fn map(&self, file_block: u64, pool_block: u64, generation: u64) {
        let word = pool_block + 1 + (generation << 45);
        let slot = self.index().slot(file_block).expect("a slot");
        slot.store(word, Ordering::Release);
    }

    /// As the copies out of a pool.
    fn copy(&self, word: BlockWord) -> [u64; 2] {
        let block = (word.0 & 0xff) - 1;
        let words = &self.pool[block as usize];
        [0, 1].map(|at| words[at].load(Ordering::Relaxed))
    }

    /// A read of one block, as `Volume::try_read_block`.
    fn read(&self, file_block: u64) -> Option<[u64; 2]> {
        let look = Snapshot::begin(&self.inode);
        let end = (file_block + 1) * BLOCK;
        if self.inode.size_bytes.load(Ordering::Acquire) < end {
            return None;
        }
        let look = BlockSnapshot::begin(self.index(), look, file_block);
        let copied = match look.word {
            BlockWord::HOLE => [0; 2],
            word => self.copy(word),
        };
        look.stands(Some(end)).then_some(copied)
    }

    /// The same, as `Volume::read_one_block`.
    fn read_quickly(&self, file_block: u64) -> Option<[u64; 2]> {
        if self.inode.state.load(Ordering::Acquire) != crate::session::layout::LOADED {
            return None;
        }
        let look = QuickSnapshot::begin(self.index(), file_block, (file_block + 1) * BLOCK)?;
        let copied = look.word.has_data().then(|| self.copy(look.word))?;
        look.stands().then_some(copied)
    }

    /// A read of two blocks, as `Volume::try_read_blocks`.
    fn read_two(&self) -> Option<[u64; 2]> {
        let look = Snapshot::begin(&self.inode);
        if look.write_in_progress() || self.inode.size_bytes.load(Ordering::Acquire) < 2 * BLOCK {
            return None;
        }
        let words = [0, 1].map(|block| self.index().load(block));
        let copied = words.map(|word| self.copy(word)[0]);
        look.is_unchanged_after_copy(&self.inode).then_some(copied)
    }
}

/// The lock's own instructions, between operations of those who have it.
fn unlock_and_lock() {
    fence(Ordering::SeqCst);
}

/// A read beside a change, and what it may find.
fn beside(
    blocks: u64,
    change: fn(&Scene),
    read: fn(&Scene) -> Option<[u64; 2]>,
    allowed: &[[u64; 2]],
) {
    let scene = Scene::new(blocks);
    let other = scene.clone();
    let writer = thread::spawn(move || change(&other));
    if let Some(found) = read(&scene) {
        assert!(allowed.contains(&found), "{found:?}");
    }
    writer.join().expect("the writer");
    let settled = read(&scene).expect("nobody changes anything now");
    assert_eq!(Some(&settled), allowed.last());
}

/// Block 0 goes to another place, and its old one to another file.
fn overwrite(scene: &Scene) {
    scene.fill(2, 20);
    let changing = WriteSection::begin(&scene.inode);
    scene.map(0, 2, 2);
    changing.end();
    unlock_and_lock();
    scene.fill(0, FOREIGN);
}

#[test]
fn a_block_is_read_whole_beside_an_overwrite() {
    check(
        "models::reads::a_block_is_read_whole_beside_an_overwrite",
        OVERWRITE,
        || {
            beside(1, overwrite, |scene| scene.read(0), &[[10; 2], [20; 2]]);
        },
    );
}

#[test]
fn a_block_is_read_quickly_and_whole_beside_an_overwrite() {
    check(
        "models::reads::a_block_is_read_quickly_and_whole_beside_an_overwrite",
        QUICK_OVERWRITE,
        || {
            beside(
                2,
                overwrite,
                |scene| scene.read_quickly(0),
                &[[10; 2], [20; 2]],
            );
        },
    );
}

/// Two blocks change in one operation.
fn overwrite_both(scene: &Scene) {
    scene.fill(2, 20);
    let changing = WriteSection::begin(&scene.inode);
    scene.map(0, 2, 2);
    scene.map(1, 2, 2);
    changing.end();
}

#[test]
fn two_blocks_are_read_as_one_operation_left_them() {
    check(
        "models::reads::two_blocks_are_read_as_one_operation_left_them",
        TWO,
        || {
            beside(2, overwrite_both, Scene::read_two, &[[10, 11], [20, 20]]);
        },
    );
}

/// The same by two owners of the lock, the first of whom dies half-way.
fn overwrite_both_after_a_death(scene: &Scene) {
    scene.fill(2, 20);
    let _dead = WriteSection::begin(&scene.inode);
    scene.map(0, 2, 2);
    unlock_and_lock();
    let changing = WriteSection::begin(&scene.inode);
    scene.map(1, 2, 2);
    changing.end();
}

#[test]
fn two_block_read_is_atomic_across_owner_death() {
    let name = "models::reads::two_block_read_is_atomic_across_owner_death";
    check(name, DEATH, || {
        beside(
            2,
            overwrite_both_after_a_death,
            Scene::read_two,
            &[[10, 11], [20, 20]],
        );
    });
}

/// The file grows out of the inode; then its first block is overwritten.
fn grow_and_overwrite(scene: &Scene) {
    scene.index().reserve(1, 1).expect("room");
    unlock_and_lock();
    overwrite(scene);
}

#[test]
fn a_block_is_read_whole_beside_the_first_page_of_a_tree() {
    check(
        "models::reads::a_block_is_read_whole_beside_the_first_page_of_a_tree",
        GROWTH,
        || {
            beside(
                1,
                grow_and_overwrite,
                |scene| scene.read(0),
                &[[10; 2], [20; 2]],
            );
        },
    );
}

/// The inode is forgotten, its page used for another file, and the inode loaded again elsewhere.
fn reload(scene: &Scene) {
    scene.index().unload(|| ());
    let page = scene.arena.allocate(0).expect("the page that went back");
    scene.fill(2, FOREIGN);
    let word = &scene.arena.page(page).expect("the page")[0];
    word.store(2 + 1 + (1 << 45), Ordering::Release);
    scene.index().reserve(0, 2).expect("room");
    scene.map(0, 0, 2);
    scene.map(1, 1, 2);
    scene.index().mark_loaded();
}

#[test]
fn a_block_is_not_read_through_a_page_that_another_file_has() {
    check(
        "models::reads::a_block_is_not_read_through_a_page_that_another_file_has",
        RELOAD,
        || {
            beside(2, reload, |scene| scene.read(0), &[[10; 2]]);
        },
    );
}

#[test]
fn a_quick_read_refuses_a_page_of_another_file() {
    check(
        "models::reads::a_quick_read_refuses_a_page_of_another_file",
        QUICK_RELOAD,
        || {
            beside(2, reload, |scene| scene.read_quickly(0), &[[10; 2]]);
        },
    );
}

/// The file is cut off before the block's bytes; they are zeroed in place, and it grows again.
fn shorten_and_grow(scene: &Scene) {
    scene.index().shrink(0);
    unlock_and_lock();
    scene.fill(0, 0);
    scene.inode.size_bytes.store(BLOCK, Ordering::Release);
}

#[test]
fn bytes_that_were_cut_off_are_read_as_they_were_or_as_zeros() {
    check(
        "models::reads::bytes_that_were_cut_off_are_read_as_they_were_or_as_zeros",
        SHORTER,
        || {
            beside(
                1,
                shorten_and_grow,
                |scene| scene.read(0),
                &[[10; 2], [0; 2]],
            );
        },
    );
}

const OVERWRITE: &[&str] = &[
    "BlockWord(slot.load(Ordering::Acquire))",
    "without fence(Ordering::Acquire);",
    "without fence(Ordering::SeqCst);",
    "without slot.store(word, Ordering::Release);",
];
const QUICK_OVERWRITE: &[&str] = &[
    "without fence(Ordering::Acquire);",
    "without fence(Ordering::SeqCst);",
    "without slot.store(word, Ordering::Release);",
    "word: BlockWord(slot.load(Ordering::Acquire)),",
];
const TWO: &[&str] = &[
    "without .store(self.sequence.wrapping_add(1), Ordering::Release);",
    "without inode.sequence.store(sequence, Ordering::Release);",
    "without slot.store(word, Ordering::Release);",
];
const DEATH: &[&str] = &[
    "without .store(self.sequence.wrapping_add(1), Ordering::Release);",
    "without inode.sequence.store(sequence, Ordering::Release);",
    "without slot.store(word, Ordering::Release);",
];
const GROWTH: &[&str] = &[
    "without fence(Ordering::Acquire);",
    "without slot.store(word, Ordering::Release);",
];
const RELOAD: &[&str] = &[
    "epoch: inode.epoch.load(Ordering::Acquire),",
    "inode.state.load(Ordering::Acquire) == LOADED",
    "let root = self.inode.root.swap(0, Ordering::AcqRel);",
    "self.inode.epoch.fetch_add(1, Ordering::AcqRel);",
    "self.inode.state.store(LOADED, Ordering::Release);",
    "without fence(Ordering::Release);",
    "without self.inode.epoch.fetch_add(1, Ordering::AcqRel);",
    "without self.inode.state.store(CHANGING, Ordering::Release);",
    "without self.inode.state.store(LOADED, Ordering::Release);",
    "without slot.store(word, Ordering::Release);",
];
const QUICK_RELOAD: &[&str] = &[
    "without self.inode.state.store(LOADED, Ordering::Release);",
    "without slot.store(word, Ordering::Release);",
];
const SHORTER: &[&str] = &[
    "epoch: inode.epoch.load(Ordering::Acquire),",
    "self.inode.epoch.fetch_add(1, Ordering::AcqRel);",
    "without fence(Ordering::Acquire);",
    "without fence(Ordering::SeqCst);",
    "without self.inode.epoch.fetch_add(1, Ordering::AcqRel);",
    "without self.inode.size_bytes.store(size_bytes, Ordering::Release);",
];
