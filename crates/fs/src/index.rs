//! The index of a file in the session: file block to [`BlockWord`]. Eight words in the inode itself,
//! above that a tree of pages of 512 words. Readers walk it without a lock: every page number is
//! checked, and whoever gives pages back moves `epoch` first.

use crate::format::BlockWord;
use crate::session::arena::Arena;
use crate::session::layout::{INLINE_BLOCKS, SessionInode};
use crate::types::Outcome;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const FANOUT_BITS: u32 = 9;
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

fn decode_root(root: u64) -> Option<(u64, u32)> {
    (root != 0).then(|| {
        (
            (root & ((1 << HEIGHT_SHIFT) - 1)) - 1,
            (root >> HEIGHT_SHIFT) as u32,
        )
    })
}

fn encode_root(page: u64, height: u32) -> u64 {
    (page + 1) | ((height as u64) << HEIGHT_SHIFT)
}

/// Blocks a tree of this height covers.
fn span(height: u32) -> u64 {
    1u64.checked_shl(FANOUT_BITS * height).unwrap_or(u64::MAX)
}

impl<'a> Index<'a> {
    /// The word of a file block, if the index reaches there; a hole otherwise.
    #[inline]
    pub(crate) fn slot(self, file_block: u64) -> Option<&'a AtomicU64> {
        let Some((mut page, mut height)) = decode_root(self.inode.root.load(Ordering::Acquire))
        else {
            return self.inode.inline_words.get(file_block as usize);
        };
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

    /// As [`Index::slot`] of a tree of at most two levels (files up to 1 GiB), with the root the
    /// caller loaded; `None` when it is another kind.
    #[inline(always)]
    pub(crate) fn slot_in_low_tree(self, root: u64, file_block: u64) -> Option<&'a AtomicU64> {
        let (top, height) = decode_root(root)?;
        let leaf = match height {
            1 if file_block < FANOUT => top,
            2 if file_block < FANOUT * FANOUT => self.arena.page(top)?
                [(file_block / FANOUT) as usize]
                .load(Ordering::Acquire)
                .checked_sub(1)?,
            _ => return None,
        };
        Some(&self.arena.page(leaf)?[(file_block % FANOUT) as usize])
    }

    /// The word's value.
    #[inline]
    pub(crate) fn load(self, file_block: u64) -> BlockWord {
        self.slot(file_block).map_or(BlockWord::HOLE, |word| {
            BlockWord(word.load(Ordering::Acquire))
        })
    }

    /// Make sure slots exist for these blocks. Under the inode's lock; nothing readers see changes.
    pub(crate) fn reserve(self, file_block: u64, count: u64) -> Outcome<()> {
        if count == 0 {
            return Ok(());
        }
        let end = file_block + count;
        self.grow(end)?;
        let mut block = file_block;
        while block < end {
            if decode_root(self.inode.root.load(Ordering::Relaxed)).is_some() {
                self.make_leaf(block)?;
            }
            block = (block / FANOUT + 1) * FANOUT;
        }
        Ok(())
    }

    fn grow(self, end: u64) -> Outcome<()> {
        loop {
            match decode_root(self.inode.root.load(Ordering::Relaxed)) {
                None if end <= INLINE_BLOCKS as u64 => return Ok(()),
                None => {
                    let page = self.arena.allocate(0)?;
                    let words = self.arena.page(page).expect("allocated page");
                    for (word, inline) in words.iter().zip(&self.inode.inline_words) {
                        word.store(inline.load(Ordering::Relaxed), Ordering::Relaxed);
                    }
                    self.inode
                        .root
                        .store(encode_root(page, 1), Ordering::Release);
                }
                Some((_, height)) if end <= span(height) => return Ok(()),
                Some((page, height)) => {
                    let top = self.arena.allocate(0)?;
                    self.arena.page(top).expect("allocated page")[0]
                        .store(page + 1, Ordering::Relaxed);
                    self.inode
                        .root
                        .store(encode_root(top, height + 1), Ordering::Release);
                }
            }
        }
    }

    fn make_leaf(self, file_block: u64) -> Outcome<()> {
        let Some((mut page, mut height)) = decode_root(self.inode.root.load(Ordering::Relaxed))
        else {
            return Ok(());
        };
        while height > 1 {
            height -= 1;
            let words = self.arena.page(page).ok_or(crate::Errno(libc::EIO))?;
            let word = &words[((file_block >> (FANOUT_BITS * height)) % FANOUT) as usize];
            page = match word.load(Ordering::Relaxed) {
                0 => {
                    let child = self.arena.allocate(0)?;
                    word.store(child + 1, Ordering::Release);
                    child
                }
                child => child - 1,
            };
        }
        Ok(())
    }

    /// First slot at or after `from`, below `end`, whose word is mapped.
    pub(crate) fn next_mapped(self, from: u64, end: u64) -> Option<u64> {
        let mut block = from;
        while block < end {
            let Some((page, height)) = decode_root(self.inode.root.load(Ordering::Acquire)) else {
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
            if block >= span(height) {
                return None;
            }
            match self.scan(page, height, block) {
                Ok(found) => return (found < end).then_some(found),
                Err(next) => block = next,
            }
        }
        None
    }

    /// `Ok(block)` mapped at or after `block` in the same leaf, else `Err(next block to try)`.
    fn scan(self, mut page: u64, mut height: u32, block: u64) -> Result<u64, u64> {
        loop {
            height -= 1;
            let shift = FANOUT_BITS * height;
            let Some(words) = self.arena.page(page) else {
                return Err(u64::MAX);
            };
            let first = ((block >> shift) % FANOUT) as usize;
            if height == 0 {
                let base = block - first as u64;
                return match (first..FANOUT as usize)
                    .find(|at| words[*at].load(Ordering::Acquire) != 0)
                {
                    Some(at) => Ok(base + at as u64),
                    None => Err(base + FANOUT),
                };
            }
            match words[first].load(Ordering::Acquire) {
                0 => return Err(((block >> shift) + 1) << shift),
                child => page = child - 1,
            }
        }
    }

    /// Drop the whole index, its pages going back to the arena. Under the lock; words still mapped are
    /// forgotten, not freed.
    pub(crate) fn clear(self) {
        self.inode.epoch.fetch_add(1, Ordering::AcqRel);
        let root = self.inode.root.swap(0, Ordering::AcqRel);
        for word in &self.inode.inline_words {
            word.store(0, Ordering::Relaxed);
        }
        fence(Ordering::Release);
        if let Some((page, height)) = decode_root(root) {
            self.free_tree(page, height);
        }
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
