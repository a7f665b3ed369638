//! The index of a file in the session: file block to [`BlockWord`]. Eight words in the inode itself,
//! above that a tree of pages of 512 words. Readers walk it without a lock: every page number is checked, and a thread
//! that gives pages back changes `epoch` first.
//!
//! For a file with checksums all words are in a tree, and its leaves hold 256 pairs of word and checksum. A bit in the
//! height of the root marks such a tree. Code that knows only plain trees rejects it as too high.

use crate::format::{BLOCK, BlockWord};
use crate::session::arena::Arena;
use crate::session::layout::{INLINE_BLOCKS, SessionInode};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::types::Outcome;

const FANOUT_BITS: u32 = (BLOCK / 8).ilog2();
const FANOUT: u64 = 1 << FANOUT_BITS;
const HEIGHT_SHIFT: u32 = 56;
/// Blocks of the largest file: `off_t` holds 2^63 - 1 bytes.
pub(crate) const MAX_FILE_BLOCKS: u64 = 1 << 51;

/// The index of one inode.
#[derive(Clone, Copy)]
pub(crate) struct Index<'a> {
    pub(crate) inode: &'a SessionInode,
    pub(crate) arena: &'a Arena,
}

/// Bit in the height of a root: leaves hold pairs.
const PAIRS: u32 = 1 << 7;

/// Whether a root is that of a file with checksums.
#[inline]
pub(crate) fn has_pairs(root: u64) -> bool {
    root >> (HEIGHT_SHIFT + 7) != 0
}

/// A tree of either kind.
#[derive(Clone, Copy)]
struct Tree {
    page: u64,
    height: u32,
    pairs: bool,
}

impl Tree {
    #[inline]
    fn of(root: u64) -> Option<Tree> {
        decode_root(root).map(|(page, height)| Tree {
            page,
            height: height & !PAIRS,
            pairs: height & PAIRS != 0,
        })
    }

    fn root(self) -> u64 {
        let pairs = if self.pairs { PAIRS } else { 0 };
        (self.page + 1) | ((self.height | pairs) as u64) << HEIGHT_SHIFT
    }

    /// Number of low bits of a file block that do not select a word in a page of this level.
    fn shift(self, level: u32) -> u32 {
        (FANOUT_BITS * level).saturating_sub(self.pairs as u32)
    }

    /// Number of blocks below a word of this level.
    fn span(self, level: u32) -> u64 {
        1u64.checked_shl(self.shift(level)).unwrap_or(u64::MAX)
    }

    /// Index of a block's word in a page of this level.
    fn at(self, file_block: u64, level: u32) -> usize {
        match (level, self.pairs) {
            (0, true) => (file_block << 1 & (FANOUT - 1)) as usize,
            _ => ((file_block >> self.shift(level)) & (FANOUT - 1)) as usize,
        }
    }

    /// The first block after those below the same word of this level.
    fn next(self, file_block: u64, level: u32) -> u64 {
        ((file_block >> self.shift(level)) + 1) << self.shift(level)
    }
}

fn decode_root(root: u64) -> Option<(u64, u32)> {
    (root != 0).then(|| {
        (
            (root & ((1 << HEIGHT_SHIFT) - 1)) - 1,
            (root >> HEIGHT_SHIFT) as u32,
        )
    })
}

/// Blocks a tree of this height covers.
fn span(height: u32) -> u64 {
    1u64.checked_shl(FANOUT_BITS * height).unwrap_or(u64::MAX)
}

impl<'a> Index<'a> {
    /// The word of a file block; a hole if the index does not reach that far.
    #[inline]
    pub(crate) fn slot(self, file_block: u64) -> Option<&'a AtomicU64> {
        let Some((mut page, mut height)) = decode_root(self.inode.root.load(Ordering::Acquire))
        else {
            return self.inode.inline_words.get(file_block as usize);
        };
        if height >= PAIRS {
            return self.pair(file_block).map(|[word, _]| word);
        }
        if file_block >= span(height) {
            return None;
        }
        loop {
            let words = self.arena.page(page)?;
            height = height.checked_sub(1)?;
            let word = &words[((file_block >> (FANOUT_BITS * height)) % FANOUT) as usize];
            if height == 0 {
                return Some(word);
            }
            page = word.load(Ordering::Acquire).checked_sub(1)?;
        }
    }

    /// The slot of a block in a tree of at most two levels (files up to 1 GiB), with the root that the caller loaded;
    /// `None` for other trees.
    #[inline(always)]
    pub(crate) fn slot_in_low_tree(self, root: u64, file_block: u64) -> Option<&'a AtomicU64> {
        let leaf = self.leaf_in_low_tree(root, file_block)?;
        Some(&leaf[(file_block % FANOUT) as usize])
    }

    /// As [`Index::slot_in_low_tree`], with the slot of the block before it if both are on one page.
    #[inline(always)]
    pub(crate) fn slots_in_low_tree(
        self,
        root: u64,
        file_block: u64,
    ) -> Option<(&'a AtomicU64, Option<&'a AtomicU64>)> {
        let leaf = self.leaf_in_low_tree(root, file_block)?;
        let at = (file_block % FANOUT) as usize;
        Some((&leaf[at], at.checked_sub(1).map(|before| &leaf[before])))
    }

    #[inline(always)]
    fn leaf_in_low_tree(
        self,
        root: u64,
        file_block: u64,
    ) -> Option<&'a [AtomicU64; FANOUT as usize]> {
        let (top, height) = decode_root(root)?;
        let leaf = match height {
            1 if file_block < FANOUT => top,
            2 if file_block < FANOUT * FANOUT => self.arena.page(top)?
                [(file_block / FANOUT) as usize]
                .load(Ordering::Acquire)
                .checked_sub(1)?,
            _ => return None,
        };
        self.arena.page(leaf)
    }

    /// Word and checksum of a file block, if the index has checksums and reaches there.
    // Out of line, so that the path of other files does not get longer.
    #[inline(never)]
    pub(crate) fn pair(self, file_block: u64) -> Option<&'a [AtomicU64; 2]> {
        let tree = Tree::of(self.inode.root.load(Ordering::Acquire))?;
        if !tree.pairs || file_block >= tree.span(tree.height) {
            return None;
        }
        let (mut page, mut level) = (tree.page, tree.height);
        loop {
            let words = self.arena.page(page)?;
            level = level.checked_sub(1)?;
            let at = tree.at(file_block, level);
            if level == 0 {
                return words[at..].first_chunk();
            }
            page = words[at].load(Ordering::Acquire).checked_sub(1)?;
        }
    }

    /// The checksum of a file block, as entries have it.
    pub(crate) fn sum(self, file_block: u64) -> [u8; 4] {
        let sum = self.pair(file_block);
        let sum = sum.map_or(0, |[_, sum]| sum.load(Ordering::Acquire) as u32);
        sum.to_le_bytes()
    }

    /// Store checksum number `at` of `sums`, if there are any, for a file block. Under the lock.
    #[inline]
    pub(crate) fn set_sum(self, file_block: u64, sums: &[u8], at: usize) {
        if let Some(sum) = sums.chunks_exact(4).nth(at)
            && let Some([_, place]) = self.pair(file_block)
        {
            let sum = sum.try_into().map_or(0, u32::from_le_bytes);
            place.store(sum.into(), Ordering::Release);
        }
    }

    /// The tree there is, under the lock.
    fn tree(self) -> Option<Tree> {
        Tree::of(self.inode.root.load(Ordering::Relaxed))
    }

    fn set_tree(self, tree: Tree) {
        self.inode.root.store(tree.root(), Ordering::Release);
    }

    /// The word's value.
    #[inline]
    pub(crate) fn load(self, file_block: u64) -> BlockWord {
        self.slot(file_block).map_or(BlockWord::HOLE, |word| {
            BlockWord(word.load(Ordering::Acquire))
        })
    }

    /// Make sure slots exist for these blocks. Under the inode's lock; readers see no change.
    pub(crate) fn reserve(self, file_block: u64, count: u64) -> Outcome<()> {
        self.reserve_by(file_block, count, &|| self.arena.allocate(0))
    }

    /// Make sure slots exist for new data in these blocks; their pages count against the limit of the file's owner.
    pub(crate) fn reserve_for_write(self, file_block: u64, count: u64) -> Outcome<()> {
        self.reserve_by(file_block, count, &|| {
            self.arena.holes().charge(self.inode)?;
            self.arena.allocate(0)
        })
    }

    fn reserve_by(
        self,
        file_block: u64,
        count: u64,
        take: &impl Fn() -> Outcome<u64>,
    ) -> Outcome<()> {
        if count == 0 {
            return Ok(());
        }
        let end = file_block + count;
        let take = &|| {
            let page = take()?;
            self.arena.holes().add_page(self.inode);
            Ok(page)
        };
        self.grow(end, take)?;
        let mut block = file_block;
        while let Some(tree) = self.tree()
            && block < end
        {
            self.make_leaf(tree, block, take)?;
            block = tree.next(block, 1);
        }
        Ok(())
    }

    fn grow(self, end: u64, take: &impl Fn() -> Outcome<u64>) -> Outcome<()> {
        let pairs = self.inode.checksums.load(Ordering::Relaxed) != 0;
        loop {
            match self.tree() {
                None if end <= INLINE_BLOCKS as u64 && !pairs => return Ok(()),
                None => {
                    let page = take()?;
                    let words = self.arena.page(page).expect("allocated page");
                    // With pairs there are no words yet.
                    for (word, inline) in words.iter().zip(&self.inode.inline_words) {
                        word.store(inline.load(Ordering::Relaxed), Ordering::Relaxed);
                    }
                    let height = 1;
                    self.set_tree(Tree {
                        page,
                        height,
                        pairs,
                    });
                }
                Some(tree) if end <= tree.span(tree.height) => return Ok(()),
                Some(tree) => {
                    let page = take()?;
                    self.arena.page(page).expect("allocated page")[0]
                        .store(tree.page + 1, Ordering::Relaxed);
                    let height = tree.height + 1;
                    self.set_tree(Tree {
                        page,
                        height,
                        ..tree
                    });
                }
            }
        }
    }

    fn make_leaf(
        self,
        tree: Tree,
        file_block: u64,
        take: &impl Fn() -> Outcome<u64>,
    ) -> Outcome<()> {
        let (mut page, mut level) = (tree.page, tree.height);
        while level > 1 {
            level -= 1;
            let words = self.arena.page(page).ok_or(crate::Errno(libc::EIO))?;
            let word = &words[tree.at(file_block, level)];
            page = match word.load(Ordering::Relaxed) {
                0 => {
                    let child = take()?;
                    word.store(child + 1, Ordering::Release);
                    child
                }
                child => child - 1,
            };
        }
        Ok(())
    }

    /// First mapped slot at or after `from`, below `end`.
    pub(crate) fn next_mapped(self, from: u64, end: u64) -> Option<u64> {
        let mut block = from;
        while block < end {
            let Some(tree) = Tree::of(self.inode.root.load(Ordering::Acquire)) else {
                let inline = self
                    .inode
                    .inline_words
                    .iter()
                    .enumerate()
                    .skip(block as usize);
                return inline
                    .map(|(at, word)| (at as u64, word.load(Ordering::Acquire)))
                    .find(|(at, word)| *at < end && *word != 0)
                    .map(|(at, _)| at);
            };
            if block >= tree.span(tree.height) {
                return None;
            }
            match self.scan(tree, block) {
                Ok(found) => return (found < end).then_some(found),
                Err(next) => block = next,
            }
        }
        None
    }

    /// `Ok(block)` mapped at or after `block` in the same leaf, else `Err(next block to try)`.
    fn scan(self, tree: Tree, block: u64) -> Result<u64, u64> {
        let (mut page, mut level) = (tree.page, tree.height);
        loop {
            level -= 1;
            let Some(words) = self.arena.page(page) else {
                return Err(u64::MAX);
            };
            if level == 0 {
                let end = tree.next(block, 1);
                let is_mapped =
                    |block: &u64| words[tree.at(*block, 0)].load(Ordering::Acquire) != 0;
                return (block..end).find(is_mapped).ok_or(end);
            }
            match words[tree.at(block, level)].load(Ordering::Acquire) {
                0 => return Err(tree.next(block, level)),
                child => page = child - 1,
            }
        }
    }

    /// Drop the whole index and return its pages to the arena. Under the lock; blocks still mapped are not freed.
    pub(crate) fn clear(self) {
        self.inode.epoch.fetch_add(1, Ordering::AcqRel);
        let root = self.inode.root.swap(0, Ordering::AcqRel);
        for word in &self.inode.inline_words {
            word.store(0, Ordering::Relaxed);
        }
        fence(Ordering::Release);
        if let Some(tree) = Tree::of(root) {
            self.free_tree(tree.page, tree.height);
        }
        self.arena.holes().forget(self.inode);
    }

    fn free_tree(self, page: u64, height: u32) {
        if height > 1
            && let Some(words) = self.arena.page(page)
        {
            for word in words {
                if let Some(child) = word.load(Ordering::Relaxed).checked_sub(1) {
                    self.free_tree(child, height - 1);
                }
            }
        }
        self.arena.free(page, 0);
    }
}
